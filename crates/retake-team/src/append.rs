//! Appending: optimistically in one round trip, or in two with the lock taken first.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::{join, join3};
use retake_log::model::{Head, Refusal, SessionId};
use retake_log::store::carrier::{EncodedBatch, encode_batch, idempotency_digest};
use retake_log::store::{Ack, Batch, Target};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::Error;
use super::connect::{Failure, KEY_KNOWN, Lease, Server};
use super::log::PgLog;
use super::rows::{RecordArrays, day_number, head, head_columns, numbers, session};

/// The shortest time between two notifications of one process. Followers catch up by number, so one is enough for many
/// appends.
const NOTIFY_INTERVAL: Duration = Duration::from_millis(25);
/// How long a new session waits for its turn; then it goes on without, so that waits do not add up.
const MAX_TURN_WAIT: Duration = Duration::from_millis(250);
/// For how many new sessions the lock is taken first after a guess at the next number was wrong.
const CAUTIOUS_CREATES: u32 = 16;

/// What the server answered to an append.
enum Outcome {
    Done(Ack),
    /// The head that was built on is not current.
    Stale,
}

impl PgLog {
    /// Appends a batch. When this returns, PostgreSQL has committed it as durably as it is configured to.
    pub fn append(&self, batch: Batch) -> Result<Ack, Error> {
        let batch = Arc::new(batch);
        // New sessions of one process take turns: each knows the number before it, and the server lets only one commit
        // at a time anyway.
        let _turn = match batch.target {
            Target::New(_) => self.creating.try_lock_for(MAX_TURN_WAIT),
            Target::Existing(_) => None,
        };
        let guess = match batch.target {
            Target::New(day) if self.notifier.may_guess() => {
                self.last_number(day).and_then(|last| new_head(day_number(day), last).ok())
            }
            Target::New(_) => None,
            Target::Existing(id) => self.remembered(id),
        };
        // A refusal by a remembered head proves nothing: the locked path asks the server.
        let encoded = guess.and_then(|head| place(head, &batch).ok());
        if let Some(encoded) = encoded {
            match self.append_encoded(&batch, encoded)? {
                Outcome::Done(ack) => return Ok(self.acknowledge(ack)),
                Outcome::Stale if matches!(batch.target, Target::New(_)) => self.notifier.guess_failed(),
                Outcome::Stale => {}
            }
        }
        let ack = self.append_locked(batch)?;
        Ok(self.acknowledge(ack))
    }

    fn acknowledge(&self, ack: Ack) -> Ack {
        self.remember(&ack.head);
        ack
    }

    /// Appends what was encoded against a head that may be stale: one round trip.
    fn append_encoded(&self, batch: &Arc<Batch>, encoded: EncodedBatch) -> Result<Outcome, Error> {
        let (batch, encoded, sql) = (Arc::clone(batch), Arc::new(encoded), append_sql(self.schema()));
        let notifier = Arc::clone(&self.notifier);
        let answer = self.server.call(move |client| {
            let (batch, encoded, sql, notifier) = (batch.clone(), encoded.clone(), sql.clone(), notifier.clone());
            Box::pin(async move {
                let arguments = Arguments::new(&batch, Some(&encoded));
                let row = if notifier.is_due() {
                    let statement = client.prepare_cached(&sql).await?;
                    let notify = client.prepare_cached(NOTIFY).await?;
                    let parameters = arguments.parameters();
                    let channel: [&(dyn ToSql + Sync); 1] = [&notifier.channel];
                    // Behind the append on the same connection, so after its commit, and in the same round trip.
                    let (row, _) =
                        join(client.query_one(&statement, &parameters), client.execute(&notify, &channel)).await;
                    row
                } else {
                    let statement = client.prepare_cached(&sql).await?;
                    client.query_one(&statement, &arguments.parameters()).await
                };
                match row {
                    Ok(row) => outcome(&row, &batch, &encoded).map_err(Failure::Final),
                    // The locked path looks the key up.
                    Err(error) if error.code().is_some_and(|code| code.code() == KEY_KNOWN) => Ok(Outcome::Stale),
                    Err(error) => Err(error.into()),
                }
            })
        })?;
        self.notify_later();
        Ok(answer)
    }

    /// Takes the lock, encodes against what it finds, appends and commits: two round trips.
    fn append_locked(&self, batch: Arc<Batch>) -> Result<Ack, Error> {
        let sql = Arc::new(LockedSql::new(self.schema()));
        let notifier = Arc::clone(&self.notifier);
        let ack = self.server.call(move |client| {
            let (batch, sql, notifier) = (batch.clone(), sql.clone(), notifier.clone());
            Box::pin(async move { append_locked(client, &batch, &sql, &notifier).await })
        })?;
        self.notify_later();
        Ok(ack)
    }

    /// Notifies followers of what was appended since the last notification, soon.
    pub(crate) fn notify_later(&self) {
        if self.notifier.schedule() {
            let (server, notifier) = (Arc::downgrade(&self.server), Arc::clone(&self.notifier));
            self.server.spawn(async move {
                tokio::time::sleep(NOTIFY_INTERVAL).await;
                notifier.begin();
                let Some(server) = server.upgrade() else { return };
                notify(&server, &notifier).await;
            });
        }
    }
}

const NOTIFY: &str = "SELECT pg_notify($1, '')";

async fn notify(server: &Server, notifier: &Notifier) {
    // Only a wake-up call: followers also look by themselves.
    if let Ok(lease) = server.lease().await
        && let Ok(statement) = lease.prepare_cached(NOTIFY).await
        && lease.execute(&statement, &[&notifier.channel]).await.is_ok()
    {
        lease.done();
    }
}

/// Decides when followers are notified and whether the next number of a day is worth guessing.
pub(crate) struct Notifier {
    /// The channel that followers listen on.
    pub(crate) channel: String,
    last: Mutex<Option<Instant>>,
    due: AtomicBool,
    scheduled: AtomicBool,
    cautious: AtomicU32,
}

impl Notifier {
    pub(crate) fn new(schema: &str) -> Arc<Notifier> {
        Arc::new(Notifier {
            channel: format!("retake_{schema}"),
            last: Mutex::default(),
            due: AtomicBool::new(false),
            scheduled: AtomicBool::new(false),
            cautious: AtomicU32::new(0),
        })
    }

    /// Returns whether the calling append should notify by itself; otherwise a notification is due later.
    fn is_due(&self) -> bool {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let due = last.is_none_or(|last| now.duration_since(last) >= NOTIFY_INTERVAL);
        if due {
            *last = Some(now);
        } else {
            self.due.store(true, Ordering::Release);
        }
        due
    }

    /// Returns whether a task should be started for a notification that is due.
    fn schedule(&self) -> bool {
        self.due.load(Ordering::Acquire) && !self.scheduled.swap(true, Ordering::AcqRel)
    }

    fn begin(&self) {
        self.scheduled.store(false, Ordering::Release);
        self.due.store(false, Ordering::Release);
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    fn may_guess(&self) -> bool {
        self.cautious.fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| left.checked_sub(1)).is_err()
    }

    fn guess_failed(&self) {
        self.cautious.store(CAUTIOUS_CREATES, Ordering::Release);
    }
}

/// The statements of the locked path.
struct LockedSql {
    lock_session: String,
    lock_day: String,
    key: String,
    append: String,
}

impl LockedSql {
    fn new(schema: &str) -> LockedSql {
        LockedSql {
            lock_session: format!("SELECT {} FROM {schema}.lock_session($1, $2)", head_columns("")),
            lock_day: format!("SELECT {schema}.lock_day($1)"),
            key: format!("SELECT 1 FROM {schema}.keys WHERE key = $1"),
            append: append_sql(schema),
        }
    }
}

async fn append_locked(client: &Lease, batch: &Batch, sql: &LockedSql, notifier: &Notifier) -> Result<Ack, Failure> {
    let append = client.prepare_cached(&sql.append).await?;
    let known = client.prepare_cached(&sql.key).await?;
    let (lock, day, number) = match batch.target {
        Target::New(day) => (client.prepare_cached(&sql.lock_day).await?, day_number(day), None),
        Target::Existing(id) => {
            let (day, number) = numbers(id);
            (client.prepare_cached(&sql.lock_session).await?, day, Some(number))
        }
    };
    let digest = idempotency_digest(&batch.key).to_vec();
    let mut which: Vec<&(dyn ToSql + Sync)> = vec![&day];
    if let Some(number) = &number {
        which.push(number);
    }
    let key: [&(dyn ToSql + Sync); 1] = [&digest];
    // Sent together, executed in this order: the key is looked up under the lock.
    let (begun, locked, hit) =
        join3(client.batch_execute("BEGIN"), client.query_opt(&lock, &which), client.query_opt(&known, &key)).await;
    begun?;
    let (locked, hit) = (locked?, hit?);
    if hit.is_some() {
        client.batch_execute("ROLLBACK").await?;
        let arguments = Arguments::new(batch, None);
        let row = client.query_one(&append, &arguments.parameters()).await?;
        return repeated(&row).map_err(Failure::Final);
    }
    let placed = match (batch.target, locked) {
        (Target::Existing(id), None) => Err(Refusal::NoSession(id).into()),
        (Target::Existing(id), Some(row)) => head(&row, 0).and_then(|head| {
            check_count(id, &head, batch)?;
            place(head, batch)
        }),
        (Target::New(_), row) => {
            let last: i32 = row.map_or(0, |row| row.get(0));
            new_head(day, u32::try_from(last).unwrap_or(0)).and_then(|head| place(head, batch))
        }
    };
    let encoded = match placed {
        Ok(encoded) => encoded,
        Err(error) => {
            client.batch_execute("ROLLBACK").await?;
            return Err(error.into());
        }
    };
    let arguments = Arguments::new(batch, Some(&encoded));
    let parameters = arguments.parameters();
    let (row, committed) = join(client.query_one(&append, &parameters), client.batch_execute("COMMIT")).await;
    // Of a transaction that failed, COMMIT reports success: the append's own answer decides.
    let answer = outcome(&row?, batch, &encoded)?;
    committed?;
    if notifier.is_due() {
        let statement = client.prepare_cached(NOTIFY).await?;
        // The append is committed: a notification that fails must not make it look otherwise.
        let _ = client.execute(&statement, &[&notifier.channel]).await;
    }
    match answer {
        Outcome::Done(ack) => Ok(ack),
        Outcome::Stale => Err(Failure::Retry("the session changed although it was locked".to_owned())),
    }
}

/// Checks the expected number of iterations.
fn check_count(id: SessionId, head: &Head, batch: &Batch) -> Result<(), Error> {
    let actual = head.last_index.map_or(0, |last| last.saturating_add(1));
    match batch.expected_iterations {
        Some(expected) if expected != actual => Err(Refusal::Count { id, expected, actual }.into()),
        _ => Ok(()),
    }
}

fn place(head: Head, batch: &Batch) -> Result<EncodedBatch, Error> {
    // PostgreSQL's integer is the limit here, half of what the records themselves could hold.
    if head.next_seq.saturating_add(u32::try_from(batch.drafts.len()).unwrap_or(u32::MAX)) > i32::MAX.unsigned_abs() {
        return Err(Refusal::Full(head.id).into());
    }
    Ok(encode_batch(head, batch)?)
}

fn new_head(day: i32, last: u32) -> Result<Head, Error> {
    let next = last.checked_add(1).and_then(NonZeroU32::new).and_then(|next| i32::try_from(next.get()).ok());
    let next = next.ok_or_else(|| Error::Misuse("the day cannot have another session".to_owned()))?;
    Ok(Head::new(session(day, next)?))
}

fn append_sql(schema: &str) -> String {
    let columns = head_columns("(r.head).");
    let parameters = (1..=15).map(|n| format!("${n}")).collect::<Vec<_>>().join(", ");
    format!("SELECT r.outcome, r.hit_index, {columns} FROM {schema}.append({parameters}) AS r")
}

/// The arguments of `append`, in its order.
struct Arguments {
    day: i32,
    number: i32,
    new: bool,
    expected: Option<i32>,
    arrays: RecordArrays,
    key: Vec<u8>,
    key_seq: i32,
    key_index: Option<i32>,
}

impl Arguments {
    /// Creates the arguments for an encoded batch; without one, only the key is looked up.
    fn new(batch: &Batch, encoded: Option<&EncodedBatch>) -> Arguments {
        let mut arrays = RecordArrays::default();
        let (mut day, mut number) = match batch.target {
            Target::New(day) => (day_number(day), 0),
            Target::Existing(id) => numbers(id),
        };
        if let Some(encoded) = encoded {
            (day, number) = numbers(encoded.head.id);
            encoded.records.iter().for_each(|record| arrays.push(&record.event, record.bytes.clone()));
            encoded.texts.iter().for_each(|(hash, text)| arrays.push_text(*hash, text));
        }
        Arguments {
            day,
            number,
            new: matches!(batch.target, Target::New(_)),
            // An expectation beyond i32 cannot be met; -1 never equals a count.
            expected: batch.expected_iterations.map(|expected| i32::try_from(expected).unwrap_or(-1)),
            key: idempotency_digest(&batch.key).to_vec(),
            key_seq: arrays.key_seq.first().copied().unwrap_or(0),
            key_index: arrays.key_index.first().copied().flatten(),
            arrays,
        }
    }

    fn parameters(&self) -> [&(dyn ToSql + Sync); 15] {
        let arrays = &self.arrays;
        [
            &self.day,
            &self.number,
            &self.new,
            &self.expected,
            &arrays.records,
            &arrays.index,
            &arrays.time,
            &arrays.title,
            &arrays.project,
            &self.key,
            &self.key_seq,
            &self.key_index,
            &arrays.links,
            &arrays.text_hashes,
            &arrays.texts,
        ]
    }
}

fn outcome(row: &Row, batch: &Batch, encoded: &EncodedBatch) -> Result<Outcome, Error> {
    match row.get::<_, &str>(0) {
        "appended" => Ok(Outcome::Done(Ack { head: encoded.head.clone(), index: encoded.index, repeated: false })),
        "repeated" => repeated(row).map(Outcome::Done),
        "stale" => Ok(Outcome::Stale),
        "missing" => Err(Refusal::NoSession(encoded.head.id).into()),
        "count" => {
            check_count(encoded.head.id, &head(row, 2)?, batch)?;
            Err(Error::Server("the server found another number of iterations than it reports".to_owned()))
        }
        other => Err(Error::Server(format!("unknown outcome {other}"))),
    }
}

fn repeated(row: &Row) -> Result<Ack, Error> {
    let index: Option<i32> = row.get(1);
    let index = index.and_then(|index| u32::try_from(index).ok());
    Ok(Ack { head: head(row, 2)?, index, repeated: true })
}
