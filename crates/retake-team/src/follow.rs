//! Follows the log in commit order.
//!
//! Every record carries `ord`, which is at least the id of the transaction that wrote it, and `pos`, a sequence number.
//! A record that becomes visible later may have a smaller `ord` than one that is visible now, but never one below
//! `horizon`: the oldest transaction that was still running. A reader therefore keeps a [`Cursor`] below the horizon,
//! before which it has seen everything, and the few records after it that it has already seen. Records are delivered
//! immediately and exactly once, those of one session in order, and a long transaction elsewhere in the database causes
//! re-reading, not delay.
//!
//! `LISTEN` only wakes a follower; it does not deliver data. After a lost connection, and twice a second in any case,
//! the follower polls by number.

use std::collections::BTreeSet;
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Weak};
use std::time::Duration;

use retake_log::model::Event;
use retake_log::store::carrier::decode_exact;
use tokio::sync::Notify;
use tokio_postgres::{AsyncMessage, NoTls};

use super::config::TlsMode;
use super::connect::{Failure, Lease, Server};
use super::log::PgLog;
use super::{Config, Error, tls};

/// The polling interval without notifications.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// The pause before listening again after the connection was lost.
const RECONNECT_PAUSE: Duration = Duration::from_millis(500);
/// The maximum number of records read at once.
const MAX_BATCH: i64 = 2000;

/// A position in commit order: everything before it is final.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor {
    ord: i64,
    pos: i64,
}

impl Cursor {
    /// The position before the first record.
    pub const START: Cursor = Cursor { ord: i64::MIN, pos: i64::MIN };

    /// Returns the two numbers of the position, to be stored.
    pub fn to_parts(self) -> (i64, i64) {
        (self.ord, self.pos)
    }

    /// Creates a position from these two numbers.
    pub fn from_parts((ord, pos): (i64, i64)) -> Cursor {
        Cursor { ord, pos }
    }

    fn before(horizon: i64) -> Cursor {
        Cursor { ord: horizon.saturating_sub(1), pos: i64::MAX }
    }
}

/// A reader's position: the cursor, and the records seen after it.
#[derive(Clone, Debug)]
pub(crate) struct Position {
    pub(crate) safe: Cursor,
    ahead: BTreeSet<Cursor>,
}

impl Position {
    /// Creates the position of a reader that has seen everything before a cursor.
    pub(crate) fn after(safe: Cursor) -> Position {
        Position { safe, ahead: BTreeSet::new() }
    }
}

/// The records after a cursor.
pub(crate) struct RecordsSince {
    pub(crate) records: Vec<Vec<u8>>,
    /// The number of them that are before the new cursor.
    pub(crate) settled: usize,
    pub(crate) cursor: Cursor,
    pub(crate) complete: bool,
}

/// The result of one read: new records, and whether these were all.
struct Batch {
    records: Vec<Vec<u8>>,
    complete: bool,
}

impl PgLog {
    /// Returns a channel of future events, in commit order, exactly once, from all machines. Texts stored outside of
    /// their record are left out.
    pub fn follow(&self) -> Result<Receiver<Arc<Event>>, Error> {
        let position = self.position_now()?;
        let (sender, receiver) = mpsc::channel();
        self.start_follower(position, move |event| sender.send(event).is_ok());
        Ok(receiver)
    }

    /// Returns some of the events after a cursor, with the cursor to continue from and whether these were all. Events
    /// that are not before the new cursor are returned again next time.
    pub fn since(&self, cursor: Cursor) -> Result<(Vec<Event>, Cursor, bool), Error> {
        let found = self.records_since(cursor)?;
        let events = found.records.iter().map(|bytes| decode(bytes)).collect::<Result<_, Error>>()?;
        Ok((events, found.cursor, found.complete))
    }

    /// Returns the records after a cursor, as [`since`](PgLog::since) does.
    pub(crate) fn records_since(&self, cursor: Cursor) -> Result<RecordsSince, Error> {
        let schema = self.schema().to_owned();
        self.server.call(move |client| {
            let schema = schema.clone();
            Box::pin(async move {
                let mut position = Position::after(cursor);
                let Batch { records, complete } = read(client, &schema, &mut position).await?;
                let settled = records.len().saturating_sub(position.ahead.len());
                Ok(RecordsSince { records, settled, cursor: position.safe, complete })
            })
        })
    }

    pub(crate) fn position_now(&self) -> Result<Position, Error> {
        let schema = self.schema().to_owned();
        self.server.call(move |client| {
            let schema = schema.clone();
            Box::pin(async move {
                let horizon: i64 = client.query_one(&format!("SELECT {schema}.horizon()"), &[]).await?.get(0);
                let mut position = Position::after(Cursor::before(horizon));
                while !read(client, &schema, &mut position).await?.complete {}
                Ok(position)
            })
        })
    }

    pub(crate) fn start_follower(&self, position: Position, deliver: impl FnMut(Arc<Event>) -> bool + Send + 'static) {
        let wake = Arc::new(Notify::new());
        let channel = self.appender.notifier.channel.clone();
        let alive = Arc::new(());
        let listening = listen(Arc::downgrade(&self.server), channel, Arc::clone(&wake), Arc::downgrade(&alive));
        self.server.spawn(listening);
        self.server.spawn(run_follower(Arc::downgrade(&self.server), position, wake, alive, deliver));
    }
}

/// Delivers new events until the receiver or the workspace is gone.
async fn run_follower(
    server: Weak<Server>,
    mut position: Position,
    wake: Arc<Notify>,
    _alive: Arc<()>,
    mut deliver: impl FnMut(Arc<Event>) -> bool + Send,
) {
    loop {
        let _ = tokio::time::timeout(POLL_INTERVAL, wake.notified()).await;
        let Some(strong) = server.upgrade() else { return };
        let attempt_timeout = strong.config.attempt_timeout;
        // The position only advances after a complete read, so a failed or abandoned one is repeated and loses nothing.
        let mut moved = position.clone();
        let polled = tokio::time::timeout(attempt_timeout, poll(&strong, &mut moved)).await;
        drop(strong);
        match polled {
            Ok(Ok(batches)) => {
                position = moved;
                for bytes in &batches {
                    match decode(bytes) {
                        Ok(event) => {
                            if !deliver(Arc::new(event)) {
                                return;
                            }
                        }
                        Err(error) => tracing::warn!(%error, "a new record cannot be read"),
                    }
                }
            }
            Ok(Err(problem)) => tracing::debug!(?problem, "a follower could not read and polls again"),
            Err(_) => tracing::debug!("a follower had no answer and polls again"),
        }
    }
}

async fn poll(server: &Server, position: &mut Position) -> Result<Vec<Vec<u8>>, Failure> {
    let client = server.lease().await?;
    let mut records = Vec::new();
    loop {
        let batch = read(&client, &server.config.schema, position).await?;
        records.extend(batch.records);
        if batch.complete {
            client.done();
            return Ok(records);
        }
    }
}

/// Reads new records after a position, and advances the position.
async fn read(client: &Lease, schema: &str, position: &mut Position) -> Result<Batch, Failure> {
    let sql = format!(
        "SELECT h.horizon, r.ord, r.pos, r.bytes FROM (SELECT {schema}.horizon() AS horizon) AS h LEFT JOIN LATERAL \
         (SELECT ord, pos, bytes FROM {schema}.records WHERE (ord, pos) > ($1, $2) ORDER BY ord, pos LIMIT $3) AS r ON true"
    );
    let statement = client.prepare_cached(&sql).await?;
    let mut records = Vec::new();
    // Beyond the horizon, a full batch cannot advance the cursor, so reading continues where the batch ended.
    let mut from = position.safe;
    loop {
        let rows = client.query(&statement, &[&from.ord, &from.pos, &MAX_BATCH]).await?;
        let horizon: i64 = rows.first().map_or(i64::MIN, |row| row.get(0));
        let mut last = from;
        let mut read = 0;
        for row in &rows {
            let (Some(ord), Some(pos), Some(bytes)): (Option<i64>, Option<i64>, Option<Vec<u8>>) =
                (row.get(1), row.get(2), row.get(3))
            else {
                continue;
            };
            read += 1;
            last = Cursor { ord, pos };
            if !position.ahead.contains(&last) {
                records.push(bytes);
                position.ahead.insert(last);
            }
        }
        let complete = read < MAX_BATCH;
        let known = Cursor::before(horizon);
        let safe = if complete { known } else { last.min(known) };
        position.safe = position.safe.max(safe);
        if complete || last <= known {
            let safe = position.safe;
            position.ahead.retain(|seen| *seen > safe);
            return Ok(Batch { records, complete });
        }
        from = last;
    }
}

fn decode(bytes: &[u8]) -> Result<Event, Error> {
    decode_exact(bytes).ok_or_else(|| Error::Server("a stored record does not match its hash".to_owned()))
}

/// Wakes a follower after appends, as long as it lives. Listens on its own connection.
async fn listen(server: Weak<Server>, channel: String, wake: Arc<Notify>, alive: Weak<()>) {
    loop {
        let Some(config) = server.upgrade().map(|server| server.config.clone()) else { return };
        if let Err(error) = listen_once(&config, &channel, &wake, &alive).await {
            tracing::debug!(%error, "listening for changes was interrupted");
        }
        if alive.strong_count() == 0 {
            return;
        }
        tokio::time::sleep(RECONNECT_PAUSE).await;
    }
}

async fn listen_once(
    config: &Config,
    channel: &str,
    wake: &Arc<Notify>,
    alive: &Weak<()>,
) -> Result<(), tokio_postgres::Error> {
    macro_rules! pump {
        ($connector:expr) => {{
            let (client, mut connection) = config.postgres.connect($connector).await?;
            let wake = Arc::clone(wake);
            // Ends with the connection, or once the client is dropped.
            let pump = tokio::spawn(async move {
                while let Some(message) = std::future::poll_fn(|context| connection.poll_message(context)).await {
                    match message {
                        Ok(AsyncMessage::Notification(_)) => wake.notify_one(),
                        Ok(_) => {}
                        Err(_) => return,
                    }
                }
            });
            (client, pump)
        }};
    }
    let (client, pump) = match &config.tls {
        TlsMode::Plaintext => pump!(NoTls),
        TlsMode::Verified(authorities) => match tls::connector(authorities.as_deref()) {
            Ok(connector) => pump!(connector),
            Err(error) => {
                tracing::warn!(%error, "changes are noticed by polling only");
                return Ok(());
            }
        },
    };
    client.batch_execute(&format!("LISTEN \"{channel}\"")).await?;
    wake.notify_one();
    while !pump.is_finished() && alive.strong_count() > 0 {
        // Also detects a connection that died silently.
        tokio::time::sleep(Duration::from_secs(5)).await;
        if tokio::time::timeout(config.attempt_timeout, client.batch_execute("")).await.is_err() {
            break;
        }
    }
    pump.abort();
    Ok(())
}
