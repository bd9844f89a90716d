//! Reads heads, records, pages, totals, links and texts.

use std::sync::Arc;

use retake_log::model::{Event, EventBody, Hash, Head, IterationId, SessionId, Summary};
use retake_log::store::{self, Detail, Order, RecencyKey, Status, Totals};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::Error;
use super::connect::Failure;
use super::log::PgLog;
use super::rows::{SUMMARY_COLUMNS, day_number, head, head_columns, numbers, session, summary};

/// The maximum number of rows of one page.
const MAX_PAGE: usize = 100_000;

/// The offset of the payload in a record.
const PAYLOAD: usize = 72;
/// The kind of records that record an iteration.
const RECORDED: u16 = 2;
/// The kind of records that annotate an iteration.
const ANNOTATED: u16 = 3;

/// Returns an SQL expression for the little-endian number at this offset of a record. The schema's own functions are
/// not granted to the application role.
fn le_u32(at: &str) -> String {
    let byte = |n: u32| format!("(get_byte(bytes, {at} + {n}) << {})", n * 8);
    format!("({} + {} + {} + {})", byte(0), byte(1), byte(2), byte(3))
}

/// A value that can be bound to a statement and moved into a retried call.
pub(crate) type Value = Box<dyn ToSql + Sync + Send>;

impl PgLog {
    /// Returns the state of a session; `None` if it was never started.
    pub fn head(&self, id: SessionId) -> Result<Option<Head>, Error> {
        let (day, number) = numbers(id);
        let sql = format!("SELECT {} FROM {}.heads WHERE day = $1 AND number = $2", head_columns(""), self.schema());
        let found = self.query(sql, vec![Box::new(day), Box::new(number)], |row| head(row, 0))?;
        Ok(found.into_iter().next())
    }

    /// Returns all events of a session, in order; empty if it was never started.
    pub fn events(&self, id: SessionId, detail: Detail) -> Result<Vec<Event>, Error> {
        let records = self.records(id)?;
        self.decode_all(id, &records, detail)
    }

    /// Returns one event of a session by its sequence number.
    pub fn event(&self, id: SessionId, seq: u32, detail: Detail) -> Result<Option<Event>, Error> {
        let record = self.record(id, seq)?;
        Ok(self.decode_all(id, record.as_slice(), detail)?.pop())
    }

    /// Returns the exact bytes of every record of a session, in order.
    pub fn records(&self, id: SessionId) -> Result<Vec<Vec<u8>>, Error> {
        let (day, number) = numbers(id);
        let sql = format!("SELECT bytes FROM {}.records WHERE day = $1 AND number = $2 ORDER BY seq", self.schema());
        self.query(sql, vec![Box::new(day), Box::new(number)], |row| Ok(row.get(0)))
    }

    /// Returns the exact bytes of one record of a session.
    pub fn record(&self, id: SessionId, seq: u32) -> Result<Option<Vec<u8>>, Error> {
        let (day, number) = numbers(id);
        let Ok(seq) = i32::try_from(seq) else { return Ok(None) };
        let sql = format!("SELECT bytes FROM {}.records WHERE day = $1 AND number = $2 AND seq = $3", self.schema());
        let found = self.query(sql, vec![Box::new(day), Box::new(number), Box::new(seq)], |row| Ok(row.get(0)))?;
        Ok(found.into_iter().next())
    }

    /// Returns the exact bytes of the records that record and annotate one iteration, in order.
    ///
    /// The server selects them by the index inside the payload, which in every version so far follows the names of the
    /// client, the user and the idempotency key, so that the other records of the session are not transferred.
    pub fn records_of_iteration(&self, id: IterationId) -> Result<Vec<Vec<u8>>, Error> {
        let (day, number) = numbers(id.session);
        let Ok(index) = i32::try_from(id.index) else { return Ok(Vec::new()) };
        // `OFFSET 0` makes PostgreSQL compute each offset once instead of expanding it into the next one.
        let after_text = |at: &str| format!("(SELECT {at} + 8 + {} AS at OFFSET 0)", le_u32(at));
        // Every iteration has its own event, so its first record cannot come before the sequence number that equals its
        // index.
        let sql = format!(
            "SELECT bytes FROM {}.records, LATERAL {} AS user_name, LATERAL {} AS key, LATERAL {} AS subject \
             WHERE day = $1 AND number = $2 AND seq >= $3 AND kind IN ({RECORDED}, {ANNOTATED}) AND {} = $3 ORDER BY seq",
            self.schema(),
            after_text(&PAYLOAD.to_string()),
            after_text("user_name.at"),
            after_text("key.at"),
            le_u32("subject.at"),
        );
        self.query(sql, vec![Box::new(day), Box::new(number), Box::new(index)], |row| Ok(row.get(0)))
    }

    /// Returns the next `limit` sessions after a position in the order of their last modification.
    pub fn page(
        &self,
        status: Status,
        order: Order,
        after: Option<RecencyKey>,
        limit: usize,
    ) -> Result<Vec<Arc<Summary>>, Error> {
        let (direction, comparison) = match order {
            Order::Recent => ("DESC", "<"),
            Order::Oldest => ("ASC", ">"),
        };
        let mut values: Vec<Value> = Vec::new();
        let place = match after {
            Some(RecencyKey { modified, id }) => {
                let (day, number) = numbers(id);
                values.extend([Box::new(modified.millis()) as Value, Box::new(day), Box::new(number)]);
                format!(" AND (modified, day, number) {comparison} ($1, $2, $3)")
            }
            None => String::new(),
        };
        let limit = limit.min(MAX_PAGE);
        values.push(Box::new(i64::try_from(limit).unwrap_or(0)));
        let columns = SUMMARY_COLUMNS;
        let (schema, last) = (self.schema(), values.len());
        let sorted = format!("ORDER BY modified {direction}, day {direction}, number {direction}");
        // The plan that the server keeps for a limit that is a parameter is one for many rows, since it cannot tell how few
        // are wanted. It can by a constant beside it, of which there are few.
        let enough = if limit <= 200 { limit.next_multiple_of(20) } else { limit.next_power_of_two() };
        let part = |archived: bool| {
            format!(
                "(SELECT {columns} FROM {schema}.heads WHERE archived = {archived} AND created IS NOT NULL{place} \
                 {sorted} LIMIT {enough})"
            )
        };
        let parts = match status {
            Status::Active => part(false),
            Status::Archived => part(true),
            // The first rows of both halves of the index, which serves all three statuses.
            Status::All => format!("{} UNION ALL {}", part(false), part(true)),
        };
        let sql = format!("SELECT {columns} FROM ({parts}) AS p {sorted} LIMIT ${last}");
        let rows = self.query(sql, values, |row| Ok(summary(row)?.map(Arc::new)))?;
        Ok(rows.into_iter().flatten().collect())
    }

    /// Returns the number of sessions and events.
    pub fn totals(&self) -> Result<Totals, Error> {
        let sql = format!(
            "SELECT sum(sessions)::bigint, sum(archived)::bigint, sum(events)::bigint FROM {}.counters",
            self.schema()
        );
        let count = |number: i64| u64::try_from(number).unwrap_or(0);
        let found = self.query(sql, Vec::new(), move |row| {
            Ok(Totals { sessions: count(row.get(0)), archived: count(row.get(1)), events: count(row.get(2)) })
        })?;
        Ok(found.into_iter().next().unwrap_or_default())
    }

    /// Returns the exact bytes of at most `limit` records of several sessions, each from a sequence number, in the
    /// order of `places` and sequence numbers.
    pub fn records_from(&self, places: &[(SessionId, u32)], limit: usize) -> Result<Vec<Vec<u8>>, Error> {
        let (mut days, mut session_numbers, mut seqs) = (Vec::new(), Vec::new(), Vec::new());
        for (id, seq) in places {
            let (day, number) = numbers(*id);
            days.push(day);
            session_numbers.push(number);
            seqs.push(i32::try_from(*seq).unwrap_or(i32::MAX));
        }
        // The sorted subquery makes the planner look up each session in the index, however many there are.
        let sql = format!(
            "SELECT r.bytes FROM unnest($1::int[], $2::int[], $3::int[]) WITH ORDINALITY AS p (day, number, seq, place), \
             LATERAL (SELECT seq, bytes FROM {}.records WHERE day = p.day AND number = p.number AND seq >= p.seq \
             ORDER BY seq) AS r ORDER BY p.place, r.seq LIMIT $4",
            self.schema()
        );
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let values: Vec<Value> = vec![Box::new(days), Box::new(session_numbers), Box::new(seqs), Box::new(limit)];
        self.query(sql, values, |row| Ok(row.get(0)))
    }

    /// Returns the iterations derived from this one, in any session, without reading the rest of its session.
    pub fn children(&self, id: IterationId) -> Result<Vec<IterationId>, Error> {
        let (day, number) = numbers(id.session);
        let Ok(index) = i32::try_from(id.index) else { return Ok(Vec::new()) };
        let sql = format!(
            "SELECT day, number, index FROM {}.links \
             WHERE parent_day = $1 AND parent_number = $2 AND parent_index = $3",
            self.schema()
        );
        let mut children = self.query(sql, vec![Box::new(day), Box::new(number), Box::new(index)], |row| {
            let index: i32 = row.get(2);
            Ok(session(row.get(0), row.get(1))?.iteration(u32::try_from(index).unwrap_or(0)))
        })?;
        // Nearly every iteration is derived from the previous one, so the table leaves out those links.
        if let Some(next) = id.index.checked_add(1).map(|index| id.session.iteration(index)) {
            let records = self.records_of_iteration(next)?;
            let is_child = |event: &Event| matches!(&event.body, EventBody::Recorded { iteration, .. } if iteration.parent == Some(id));
            let events = self.decode_all(id.session, &records, Detail::Brief)?;
            children.extend(events.iter().any(is_child).then_some(next));
        }
        children.sort_unstable();
        Ok(children)
    }

    /// Returns the next `limit` session ids after `after`, ordered by day and number.
    pub fn ids(&self, after: Option<SessionId>, limit: usize) -> Result<Vec<SessionId>, Error> {
        let (day, number) = after.map_or((0, 0), numbers);
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let sql = format!(
            "SELECT day, number FROM {}.heads WHERE (day, number) > ($1, $2) ORDER BY day, number LIMIT $3",
            self.schema()
        );
        self.query(sql, vec![Box::new(day), Box::new(number), Box::new(limit)], |row| session(row.get(0), row.get(1)))
    }

    /// Returns the sessions of one UTC day, ordered by number.
    pub fn ids_of_day(&self, day: chrono::NaiveDate) -> Result<Vec<SessionId>, Error> {
        let sql = format!("SELECT day, number FROM {}.heads WHERE day = $1 ORDER BY number", self.schema());
        self.query(sql, vec![Box::new(day_number(day))], |row| session(row.get(0), row.get(1)))
    }

    /// Returns a long text; `None` if it is missing or altered.
    pub fn text(&self, hash: Hash) -> Result<Option<String>, Error> {
        let sql = format!("SELECT text FROM {}.texts WHERE hash = $1", self.schema());
        let found: Vec<Vec<u8>> = self.query(sql, vec![Box::new(hash.0.to_vec())], |row| Ok(row.get(0)))?;
        let whole = found.into_iter().next().filter(|bytes| Hash::of(bytes) == hash);
        Ok(whole.and_then(|bytes| String::from_utf8(bytes).ok()))
    }

    /// Decodes records of one session with their long texts.
    pub(crate) fn decode_all<R: AsRef<[u8]>>(
        &self,
        id: SessionId,
        records: impl IntoIterator<Item = R>,
        detail: Detail,
    ) -> Result<Vec<Event>, Error> {
        let unreachable = std::cell::RefCell::new(None);
        let texts = |hash: Hash| {
            self.text(hash).unwrap_or_else(|error| {
                unreachable.replace(Some(error));
                None
            })
        };
        let mut events = Vec::new();
        for record in records {
            let record = record.as_ref();
            let event = store::decode(record, detail, &texts);
            // A text that could not be fetched is not lost.
            if let Some(error) = unreachable.take() {
                return Err(error);
            }
            let seq = || store::place(record).unwrap_or(0);
            events.push(event.ok_or_else(|| Error::Damaged { session: id, seq: seq() })?);
        }
        Ok(events)
    }

    /// Returns the database role that wrote each event of a session, by sequence number.
    pub fn roles(&self, id: SessionId) -> Result<Vec<(u32, String)>, Error> {
        let (day, number) = numbers(id);
        let sql = format!(
            "SELECT seq, role::text FROM {}.records WHERE day = $1 AND number = $2 ORDER BY seq",
            self.schema()
        );
        self.query(sql, vec![Box::new(day), Box::new(number)], |row| {
            let seq: i32 = row.get(0);
            Ok((seq.unsigned_abs(), row.get(1)))
        })
    }

    /// Runs a query and collects every row.
    pub(crate) fn query<T: Send + 'static>(
        &self,
        sql: String,
        values: Vec<Value>,
        read: impl Fn(&Row) -> Result<T, Error> + Send + Sync + 'static,
    ) -> Result<Vec<T>, Error> {
        let shared = Arc::new((sql, values, read));
        self.server.call(move |client| {
            let shared = Arc::clone(&shared);
            Box::pin(async move {
                let (sql, values, read) = &*shared;
                let statement = client.prepare_cached(sql).await?;
                let values: Vec<&(dyn ToSql + Sync)> =
                    values.iter().map(|value| &**value as &(dyn ToSql + Sync)).collect();
                let rows = client.query(&statement, &values).await?;
                rows.iter().map(|row| read(row).map_err(Failure::Final)).collect()
            })
        })
    }
}
