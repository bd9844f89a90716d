//! The statements of an append: a group of batches encoded against heads that may be stale, in one round trip, or
//! batches of one session or day with the lock taken first, in two.

use std::future::poll_fn;
use std::num::NonZeroU32;
use std::pin::Pin;
use std::task::Poll;

use futures_util::future::{MaybeDone, OptionFuture, join, join3, join4, maybe_done};
use retake_log::model::{Head, Refusal, SessionId};
use retake_log::store::carrier::{EncodedBatch, encode_batch, idempotency_digest};
use retake_log::store::{Ack, Batch, Target};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::connect::{Failure, KEY_KNOWN, Lease, begin_patiently};
use super::notifier::Notifier;
use super::rows::{RecordArrays, day_number, head, head_columns, numbers, session};
use super::{Config, Error};

/// The server's response to an append.
pub(crate) enum Outcome {
    Done(Ack),
    /// The head is not current, or the key is known.
    Stale,
}

/// The statements, with the workspace's schema.
pub(crate) struct Statements {
    append: String,
    append_iteration: String,
    append_iterations: String,
    lock_session: String,
    lock_day: String,
    keys: String,
    begin_patiently: String,
}

impl Statements {
    pub(crate) fn new(config: &Config) -> Statements {
        let schema = &config.schema;
        let columns = head_columns("(r.head).");
        let parameters = (1..=15).map(|n| format!("${n}")).collect::<Vec<_>>().join(", ");
        Statements {
            append: format!("SELECT r.outcome, r.hit_index, {columns} FROM {schema}.append({parameters}) AS r"),
            append_iteration: format!("SELECT {schema}.append_iteration($1, $2, $3, $4, $5, $6, $7)"),
            append_iterations: format!("SELECT {schema}.append_iterations($1, $2, $3, $4, $5, $6, $7)"),
            lock_session: format!("SELECT {} FROM {schema}.lock_session($1, $2)", head_columns("")),
            lock_day: format!("SELECT {schema}.lock_day($1)"),
            keys: format!("SELECT key FROM {schema}.keys WHERE key = ANY($1)"),
            begin_patiently: begin_patiently(config.attempt_timeout),
        }
    }

    /// Appends batches encoded against heads that may be stale, all in one transaction and one round trip. The results
    /// are in the order of `group`, which lists sessions in the order of their ids, so that two groups cannot deadlock. If
    /// one of them stays locked by another process, all fail.
    pub(crate) async fn append_guessed(
        &self,
        client: &Lease,
        group: &[(&Batch, EncodedBatch)],
        notifier: &Notifier,
    ) -> Result<Vec<Result<Outcome, Error>>, Failure> {
        let arguments: Vec<Arguments> =
            group.iter().map(|(batch, encoded)| Arguments::new(batch, Some(encoded))).collect();
        let iterations: Vec<Option<IterationArguments>> = arguments.iter().map(Arguments::of_iteration).collect();
        if group.len() > 1
            && let Some(iterations) = iterations.iter().map(Option::as_ref).collect::<Option<Vec<_>>>()
        {
            let stored = self.append_iterations(client, &iterations, notifier).await?;
            let outcomes = stored.into_iter().zip(group).map(|(stored, (_, encoded))| Ok(iteration(stored, encoded)));
            return Ok(outcomes.collect());
        }
        let general = client.prepare_cached(&self.append).await?;
        let of_iteration = client.prepare_cached(&self.append_iteration).await?;
        let calls: Vec<_> = arguments
            .iter()
            .zip(&iterations)
            .map(|(arguments, iteration)| match iteration {
                Some(iteration) => (&of_iteration, iteration.parameters().to_vec()),
                None => (&general, arguments.parameters().to_vec()),
            })
            .collect();
        // After the commit on the same connection, and in the same round trip.
        let notified = OptionFuture::from(notifier.is_due().then(|| notifier.notify(client)));
        let rows = if let [(statement, parameters)] = calls.as_slice() {
            let (row, _) = join(client.query_one(*statement, parameters), notified).await;
            match row {
                Ok(row) => vec![row],
                // The locked path looks up the key.
                Err(error) if is_key_known(&error) => {
                    return Ok(vec![Ok(Outcome::Stale)]);
                }
                Err(error) => return Err(error.into()),
            }
        } else {
            let appends = calls.iter().map(|(statement, parameters)| client.query_one(*statement, parameters));
            let (begun, rows, committed, _) =
                join4(client.batch_execute("BEGIN"), join_in_order(appends), client.batch_execute("COMMIT"), notified)
                    .await;
            begun?;
            // After a failed transaction, COMMIT reports success: the results of the appends decide.
            let rows = rows.into_iter().collect::<Result<Vec<_>, _>>()?;
            committed?;
            rows
        };
        Ok(rows.iter().zip(group).map(|(row, (batch, encoded))| outcome(row, batch, encoded)).collect())
    }

    /// Appends iterations of existing sessions with one statement, and returns which were stored.
    async fn append_iterations(
        &self,
        client: &Lease,
        rows: &[&IterationArguments<'_>],
        notifier: &Notifier,
    ) -> Result<Vec<bool>, Failure> {
        let statement = client.prepare_cached(&self.append_iterations).await?;
        let days: Vec<i32> = rows.iter().map(|row| row.day).collect();
        let numbers: Vec<i32> = rows.iter().map(|row| row.number).collect();
        let expected: Vec<Option<i32>> = rows.iter().map(|row| row.expected).collect();
        let records: Vec<&[u8]> = rows.iter().map(|row| row.record).collect();
        let indexes: Vec<i32> = rows.iter().map(|row| row.index).collect();
        let times: Vec<i64> = rows.iter().map(|row| row.time).collect();
        let keys: Vec<&[u8]> = rows.iter().map(|row| row.key).collect();
        let parameters: [&(dyn ToSql + Sync); 7] = [&days, &numbers, &expected, &records, &indexes, &times, &keys];
        let notified = OptionFuture::from(notifier.is_due().then(|| notifier.notify(client)));
        let (row, _) = join(client.query_one(&statement, &parameters), notified).await;
        let orders: Vec<Option<i64>> = row?.get(0);
        Ok(orders.iter().map(Option::is_some).collect())
    }

    /// Takes the lock of a session or day, encodes batches against the current state, appends them and commits, in two
    /// round trips. All batches have the same target; the results are in their order.
    pub(crate) async fn append_locked(
        &self,
        client: &Lease,
        batches: &[&Batch],
        notifier: &Notifier,
    ) -> Result<Vec<Result<Ack, Error>>, Failure> {
        let Some(first) = batches.first() else { return Ok(Vec::new()) };
        let append = client.prepare_cached(&self.append).await?;
        let known = client.prepare_cached(&self.keys).await?;
        let (lock, day, number) = match first.target {
            Target::New(day) => (client.prepare_cached(&self.lock_day).await?, day_number(day), None),
            Target::Existing(id) => {
                let (day, number) = numbers(id);
                (client.prepare_cached(&self.lock_session).await?, day, Some(number))
            }
        };
        let digests: Vec<Vec<u8>> = batches.iter().map(|batch| idempotency_digest(&batch.key).to_vec()).collect();
        let mut which: Vec<&(dyn ToSql + Sync)> = vec![&day];
        which.extend(number.as_ref().map(|number| number as &(dyn ToSql + Sync)));
        let keys: [&(dyn ToSql + Sync); 1] = [&digests];
        // Sent together and executed in this order: the keys are looked up under the lock.
        let (begun, locked, hits) = join3(
            client.batch_execute(&self.begin_patiently),
            client.query_opt(&lock, &which),
            client.query(&known, &keys),
        )
        .await;
        begun?;
        let (locked, hits) = (locked?, hits?);
        let hits: Vec<&[u8]> = hits.iter().map(|row| row.get(0)).collect();
        let mut place = NextPlace::new(first.target, day, locked.as_ref())?;
        let encoded: Vec<Result<Option<EncodedBatch>, Error>> = batches
            .iter()
            .zip(&digests)
            // A batch without records only looks up its key.
            .map(
                |(batch, digest)| {
                    if hits.contains(&digest.as_slice()) { Ok(None) } else { place.take(batch).map(Some) }
                },
            )
            .collect();
        let sent: Vec<(&Batch, Option<&EncodedBatch>)> = batches
            .iter()
            .zip(&encoded)
            .filter_map(|(batch, encoded)| encoded.as_ref().ok().map(|encoded| (*batch, encoded.as_ref())))
            .collect();
        if sent.is_empty() {
            client.batch_execute("ROLLBACK").await?;
        }
        let arguments: Vec<Arguments> = sent.iter().map(|(batch, encoded)| Arguments::new(batch, *encoded)).collect();
        let parameters: Vec<_> = arguments.iter().map(Arguments::parameters).collect();
        let appends = parameters.iter().map(|parameters| client.query_one(&append, parameters));
        let commit = OptionFuture::from((!sent.is_empty()).then(|| client.batch_execute("COMMIT")));
        let notified = OptionFuture::from((!sent.is_empty() && notifier.is_due()).then(|| notifier.notify(client)));
        let (rows, committed, _) = join3(join_in_order(appends), commit, notified).await;
        let rows = rows.into_iter().collect::<Result<Vec<_>, _>>()?;
        committed.transpose()?;
        let mut rows = rows.iter();
        let mut answers = Vec::with_capacity(batches.len());
        for (batch, encoded) in batches.iter().zip(encoded) {
            let answer = match encoded {
                Err(error) => Err(error),
                Ok(encoded) => match rows.next() {
                    Some(row) => match &encoded {
                        Some(encoded) => outcome(row, batch, encoded),
                        None => repeated(row).map(Outcome::Done),
                    },
                    None => Ok(Outcome::Stale),
                },
            };
            match answer {
                Ok(Outcome::Done(ack)) => answers.push(Ok(ack)),
                Ok(Outcome::Stale) => {
                    return Err(Failure::Retry("the session changed although it was locked".to_owned()));
                }
                Err(error) => answers.push(Err(error)),
            }
        }
        Ok(answers)
    }
}

/// Waits for futures concurrently, polling them in order, so that their requests are sent in that order. `join_all`
/// does not guarantee that.
async fn join_in_order<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut pending: Vec<Pin<Box<MaybeDone<F>>>> = futures.map(|future| Box::pin(maybe_done(future))).collect();
    poll_fn(|context| {
        let left = pending.iter_mut().map(|future| future.as_mut().poll(context)).filter(Poll::is_pending).count();
        if left == 0 { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    pending.iter_mut().filter_map(|future| future.as_mut().take_output()).collect()
}

/// The position of the next batch of a session or day, advanced by each batch that is encoded.
pub(crate) enum NextPlace {
    /// A session that was never started.
    Missing,
    Session(Head),
    /// A day and the last number assigned.
    Day(i32, u32),
}

impl NextPlace {
    /// Creates the position from the result of a lock.
    fn new(target: Target, day: i32, locked: Option<&Row>) -> Result<NextPlace, Error> {
        match (target, locked) {
            (Target::New(_), row) => {
                let last: i32 = row.map_or(0, |row| row.get(0));
                Ok(NextPlace::Day(day, u32::try_from(last).unwrap_or(0)))
            }
            (Target::Existing(_), Some(row)) => Ok(NextPlace::Session(head(row, 0)?)),
            (Target::Existing(_), None) => Ok(NextPlace::Missing),
        }
    }

    /// Encodes a batch at this position, which stays unchanged if the batch is refused.
    pub(crate) fn take(&mut self, batch: &Batch) -> Result<EncodedBatch, Error> {
        let head = match (&*self, batch.target) {
            (NextPlace::Missing, Target::Existing(id)) => return Err(Refusal::NoSession(id).into()),
            (NextPlace::Session(head), Target::Existing(id)) => {
                check_count(id, head, batch)?;
                head.clone()
            }
            (NextPlace::Day(day, last), Target::New(_)) => new_head(*day, *last)?,
            _ => return Err(Error::Misuse("a batch was given the place of another target".to_owned())),
        };
        let encoded = place(head, batch)?;
        match self {
            NextPlace::Session(head) => *head = encoded.head.clone(),
            NextPlace::Day(_, last) => *last = encoded.head.id.number().get(),
            NextPlace::Missing => {}
        }
        Ok(encoded)
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
    let next = next.ok_or_else(|| Error::Misuse("no more sessions can start on that day".to_owned()))?;
    Ok(Head::new(session(day, next)?))
}

/// The arguments of `append`, in order.
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

    /// Returns the arguments of `append_iteration`, if this is one iteration of an existing session without long texts
    /// and links.
    fn of_iteration(&self) -> Option<IterationArguments<'_>> {
        let arrays = &self.arrays;
        let ([record], [Some(index)], [Some(time)]) =
            (arrays.records.as_slice(), arrays.index.as_slice(), arrays.time.as_slice())
        else {
            return None;
        };
        let is_plain = !self.new && arrays.links.is_none() && arrays.texts.is_none() && self.key_index.is_some();
        is_plain.then_some(IterationArguments {
            day: self.day,
            number: self.number,
            expected: self.expected,
            record,
            index: *index,
            time: *time,
            key: &self.key,
        })
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

/// The arguments of `append_iteration`, in order, or an element of each argument of `append_iterations`.
struct IterationArguments<'a> {
    day: i32,
    number: i32,
    expected: Option<i32>,
    record: &'a [u8],
    index: i32,
    time: i64,
    key: &'a [u8],
}

impl IterationArguments<'_> {
    fn parameters(&self) -> [&(dyn ToSql + Sync); 7] {
        [&self.day, &self.number, &self.expected, &self.record, &self.index, &self.time, &self.key]
    }
}

/// Returns whether an append failed because its key is known.
fn is_key_known(error: &tokio_postgres::Error) -> bool {
    let of_keys = |error: &tokio_postgres::error::DbError| error.constraint() == Some("keys_pkey");
    error.code().is_some_and(|code| code.code() == KEY_KNOWN) || error.as_db_error().is_some_and(of_keys)
}

fn appended(encoded: &EncodedBatch) -> Outcome {
    Outcome::Done(Ack { head: encoded.head.clone(), index: encoded.index, repeated: false })
}

/// Returns the outcome of an iteration. If it was not stored, the locked path finds out why.
fn iteration(stored: bool, encoded: &EncodedBatch) -> Outcome {
    if stored { appended(encoded) } else { Outcome::Stale }
}

fn outcome(row: &Row, batch: &Batch, encoded: &EncodedBatch) -> Result<Outcome, Error> {
    // An iteration has a single column: whether it was stored.
    if let Ok(stored) = row.try_get::<_, bool>(0) {
        return Ok(iteration(stored, encoded));
    }
    match row.get::<_, &str>(0) {
        "appended" => Ok(appended(encoded)),
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
