//! SQLite as a careful program would use it for the same data: WAL, `synchronous=FULL`, prepared statements, and one
//! transaction per append that checks the idempotency key, reads the state of the session, and writes the event, the
//! session's row and the key.

use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use retake::internals::model::Iteration;
use rusqlite::{Connection, OptionalExtension, params};

use super::group::Group;
use super::{Appender, Cursor, Row};
use crate::workload::{self, DAY, SESSIONS_PER_DAY, Stored};

const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS events (
        session INTEGER NOT NULL, seq INTEGER NOT NULL, kind INTEGER NOT NULL, at INTEGER NOT NULL,
        hash BLOB NOT NULL, payload BLOB NOT NULL, PRIMARY KEY (session, seq)) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS sessions (
        id INTEGER PRIMARY KEY, next_seq INTEGER NOT NULL, tip BLOB NOT NULL, title TEXT, project TEXT,
        archived INTEGER NOT NULL, created INTEGER NOT NULL, modified INTEGER NOT NULL, last_index INTEGER NOT NULL);
    CREATE INDEX IF NOT EXISTS recency ON sessions (modified, id);
    CREATE TABLE IF NOT EXISTS keys (
        key BLOB PRIMARY KEY, session INTEGER NOT NULL, seq INTEGER NOT NULL, recorded INTEGER) WITHOUT ROWID;";

const STARTED: i64 = 1;
const RECORDED: i64 = 2;

/// Opens or creates the database, with a cache as large as ours.
pub(crate) fn connect(path: &Path) -> Connection {
    let connection = Connection::open(path).unwrap();
    connection.busy_timeout(Duration::from_secs(60)).unwrap();
    connection.set_prepared_statement_cache_capacity(32);
    connection.pragma_update(None, "journal_mode", "WAL").unwrap();
    connection.pragma_update(None, "synchronous", "FULL").unwrap();
    connection.pragma_update(None, "cache_size", -65_536).unwrap();
    connection.execute_batch(SCHEMA).unwrap();
    connection
}

/// Returns a session's key: its day and its number within the day in one integer, as ours is in eight bytes.
pub(crate) fn session_id(session: u64) -> i64 {
    let day = workload::at(session, 0).millis() / DAY;
    (day << 32) | (session % SESSIONS_PER_DAY).cast_signed()
}

/// An iteration, encoded outside of the transaction as far as possible.
pub(crate) struct Ready {
    session: u64,
    index: u32,
    payload: Vec<u8>,
    key: [u8; 16],
}

impl Ready {
    pub(crate) fn new(session: u64, index: u32) -> Ready {
        let stored = Stored::new(session, index);
        let hash = blake3::hash(workload::key(session, index).as_bytes());
        let key = *hash.as_bytes().first_chunk().unwrap();
        Ready { session, index, payload: stored.encode(), key }
    }
}

/// Appends inside the open transaction.
pub(crate) fn append(connection: &Connection, ready: &Ready) {
    let (id, at) = (session_id(ready.session), workload::at(ready.session, ready.index).millis());
    let mut statement = connection.prepare_cached("SELECT session FROM keys WHERE key = ?1").unwrap();
    let known: Option<i64> = statement.query_row([ready.key], |row| row.get(0)).optional().unwrap();
    if known.is_some() {
        return;
    }
    let mut statement =
        connection.prepare_cached("SELECT next_seq, tip, last_index FROM sessions WHERE id = ?1").unwrap();
    let standing: Option<(i64, Vec<u8>, i64)> =
        statement.query_row([id], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).optional().unwrap();
    let mut insert = connection.prepare_cached("INSERT INTO events VALUES (?1, ?2, ?3, ?4, ?5, ?6)").unwrap();
    let (seq, before, last) = standing.unwrap_or_else(|| {
        let title = workload::title(ready.session);
        let hash = chained(&[0; 32], title.as_bytes());
        insert.execute(params![id, 0, STARTED, at, hash, title.as_bytes()]).unwrap();
        let mut statement =
            connection.prepare_cached("INSERT INTO sessions VALUES (?1, 1, ?2, ?3, ?4, 0, ?5, ?5, -1)").unwrap();
        statement.execute(params![id, hash, title, "lighthouse", at]).unwrap();
        (1, hash.to_vec(), -1)
    });
    assert_eq!(last + 1, i64::from(ready.index), "the session has another number of iterations");
    let tip = chained(&before, &ready.payload);
    insert.execute(params![id, seq, RECORDED, at, tip, ready.payload]).unwrap();
    let update =
        "UPDATE sessions SET next_seq = ?2, tip = ?3, modified = max(modified, ?4), last_index = ?5 WHERE id = ?1";
    let mut statement = connection.prepare_cached(update).unwrap();
    statement.execute(params![id, seq + 1, tip, at, ready.index]).unwrap();
    let mut statement = connection.prepare_cached("INSERT INTO keys VALUES (?1, ?2, ?3, ?4)").unwrap();
    statement.execute(params![ready.key, id, seq, ready.index]).unwrap();
}

fn chained(before: &[u8], payload: &[u8]) -> [u8; 32] {
    *blake3::Hasher::new().update(before).update(payload).finalize().as_bytes()
}

/// Returns the next sessions after a position, most recent first.
pub(crate) fn page(connection: &Connection, after: Option<(i64, i64)>, limit: i64) -> Vec<Row> {
    const COLUMNS: &str = "SELECT id, title, project, created, modified, archived, last_index FROM sessions";
    const ORDER: &str = "ORDER BY modified DESC, id DESC LIMIT";
    let row = |row: &rusqlite::Row<'_>| {
        Ok(Row {
            id: row.get::<_, i64>(0)?.cast_unsigned(),
            title: row.get(1)?,
            project: row.get(2)?,
            created: row.get(3)?,
            modified: row.get(4)?,
            archived: row.get(5)?,
            iterations: row.get::<_, i64>(6)?.cast_unsigned() + 1,
        })
    };
    match after {
        None => {
            let mut statement = connection.prepare_cached(&format!("{COLUMNS} {ORDER} ?1")).unwrap();
            statement.query_map([limit], row).unwrap().map(Result::unwrap).collect()
        }
        Some((modified, id)) => {
            let sql = format!("{COLUMNS} WHERE (modified, id) < (?1, ?2) {ORDER} ?3");
            let mut statement = connection.prepare_cached(&sql).unwrap();
            statement.query_map([modified, id, limit], row).unwrap().map(Result::unwrap).collect()
        }
    }
}

/// Returns a whole session, decoded.
pub(crate) fn history(connection: &Connection, session: u64) -> Vec<(String, Iteration)> {
    let sql = "SELECT kind, at, hash, payload FROM events WHERE session = ?1 ORDER BY seq";
    let mut statement = connection.prepare_cached(sql).unwrap();
    let mut rows = statement.query([session_id(session)]).unwrap();
    let mut iterations = Vec::new();
    while let Some(row) = rows.next().unwrap() {
        let _at: i64 = row.get(1).unwrap();
        let _hash: [u8; 32] = row.get(2).unwrap();
        if row.get::<_, i64>(0).unwrap() == RECORDED {
            iterations.push(Stored::decode(row.get_ref(3).unwrap().as_blob().unwrap()));
        }
    }
    iterations
}

/// A connection for every writer; the database's own lock serialises them.
pub(crate) struct ConnectionEach(Vec<Mutex<Connection>>);

impl ConnectionEach {
    pub(crate) fn new(path: &Path, writers: usize) -> ConnectionEach {
        ConnectionEach((0..writers).map(|_| Mutex::new(connect(path))).collect())
    }
}

impl Appender for ConnectionEach {
    fn name(&self) -> &str {
        if self.0.len() == 1 { "SQLite WAL FULL" } else { "SQLite, connection each" }
    }

    fn append(&self, writer: usize, cursor: &mut Cursor) {
        let ready = Ready::new(cursor.session, cursor.index);
        let connection = self.0[writer].lock().unwrap();
        in_transaction(&connection, || append(&connection, &ready));
    }
}

/// One connection, with group commit as in our log.
pub(crate) struct Grouped {
    connection: Mutex<Connection>,
    group: Group<Ready>,
}

impl Grouped {
    pub(crate) fn new(path: &Path) -> Grouped {
        Grouped { connection: Mutex::new(connect(path)), group: Group::new() }
    }
}

impl Appender for Grouped {
    fn name(&self) -> &str {
        "SQLite, group commit"
    }

    fn append(&self, _writer: usize, cursor: &mut Cursor) {
        self.group.submit(Ready::new(cursor.session, cursor.index), |group| {
            let connection = self.connection.lock().unwrap();
            in_transaction(&connection, || group.iter().for_each(|ready| append(&connection, ready)));
        });
    }
}

pub(crate) fn in_transaction(connection: &Connection, work: impl FnOnce()) {
    connection.prepare_cached("BEGIN IMMEDIATE").unwrap().execute([]).unwrap();
    work();
    connection.prepare_cached("COMMIT").unwrap().execute([]).unwrap();
}
