//! Converts between rows and the values of the log.

use std::num::NonZeroU32;

use chrono::{Datelike, NaiveDate};
use retake_log::model::session::SessionSpan;
use retake_log::model::{Event, EventBody, Hash, Head, SessionId, Summary, Timestamp};
use retake_log::store::carrier::{idempotency_digest, parent_link};
use tokio_postgres::Row;

use super::Error;

/// The columns of a head, in the order that [`head`] reads them.
pub(crate) const HEAD_COLUMNS: [&str; 10] =
    ["day", "number", "next_seq", "tip", "title", "project", "archived", "created", "modified", "iteration_count"];

/// The columns of the listing, in the order that [`summary`] reads them.
pub(crate) const SUMMARY_COLUMNS: &str = "day, number, title, project, archived, created, modified, iteration_count";

/// Returns the columns of a head as a select list, each with this prefix.
pub(crate) fn head_columns(prefix: &str) -> String {
    HEAD_COLUMNS.map(|column| format!("{prefix}{column}")).join(", ")
}

/// Returns the two numbers that represent a session.
pub(crate) fn numbers(id: SessionId) -> (i32, i32) {
    // A session number above `i32::MAX` would need two billion sessions in a day.
    (day_number(id.day()), i32::try_from(id.number().get()).unwrap_or(i32::MAX))
}

/// Returns the day counted from 0001-01-01 = 1.
pub(crate) fn day_number(day: NaiveDate) -> i32 {
    day.num_days_from_ce()
}

/// Returns the session of these two numbers.
pub(crate) fn session(day: i32, number: i32) -> Result<SessionId, Error> {
    let id = NaiveDate::from_num_days_from_ce_opt(day)
        .zip(u32::try_from(number).ok().and_then(NonZeroU32::new))
        .and_then(|(day, number)| SessionId::new(day, number));
    id.ok_or_else(|| Error::Server(format!("({day}, {number}) is not a session")))
}

/// Reads a head from a row whose columns from `first` on are [`HEAD_COLUMNS`].
pub(crate) fn head(row: &Row, first: usize) -> Result<Head, Error> {
    let get = |at: usize| first + at;
    let tip: Vec<u8> = row.get(get(3));
    Ok(Head {
        id: session(row.get(get(0)), row.get(get(1)))?,
        next_seq: u32::try_from(row.get::<_, i32>(get(2))).map_err(|_| invalid("next place"))?,
        tip: Hash(tip.try_into().map_err(|_| invalid("tip"))?),
        title: text(row.get(get(4))),
        project: text(row.get(get(5))),
        archived: row.get(get(6)),
        span: span(row.get(get(7)), row.get(get(8))),
        last_index: last_index(row.get(get(9)))?,
    })
}

/// Reads a row of the listing, whose columns are [`SUMMARY_COLUMNS`]; `None` if the session has no iterations.
pub(crate) fn summary(row: &Row) -> Result<Option<Summary>, Error> {
    let head = Head {
        title: text(row.get(2)),
        project: text(row.get(3)),
        archived: row.get(4),
        span: span(row.get(5), row.get(6)),
        last_index: last_index(row.get(7))?,
        ..Head::new(session(row.get(0), row.get(1))?)
    };
    Ok(head.into_summary())
}

fn invalid(what: &str) -> Error {
    Error::Server(format!("a session's {what} is invalid"))
}

/// Returns a title or project. An empty one was removed: the column keeps the last value from an event.
fn text(bytes: Option<&[u8]>) -> Option<String> {
    bytes.filter(|bytes| !bytes.is_empty()).map(|bytes| String::from_utf8_lossy(bytes).into_owned())
}

fn span(created: Option<i64>, modified: Option<i64>) -> Option<SessionSpan> {
    let time = |millis: Option<i64>| millis.and_then(Timestamp::from_millis);
    Some(SessionSpan { created_at: time(created)?, last_modified_at: time(modified)? })
}

fn last_index(count: i32) -> Result<Option<u32>, Error> {
    Ok(u32::try_from(count).map_err(|_| invalid("count"))?.checked_sub(1))
}

/// The arrays in which records are sent to the server, with one element per record.
#[derive(Default)]
pub(crate) struct RecordArrays {
    pub(crate) records: Vec<Vec<u8>>,
    pub(crate) index: Vec<Option<i32>>,
    pub(crate) time: Vec<Option<i64>>,
    pub(crate) title: Vec<Option<Vec<u8>>>,
    pub(crate) project: Vec<Option<Vec<u8>>>,
    /// One element per key, not per record.
    pub(crate) keys: Vec<Vec<u8>>,
    pub(crate) key_seq: Vec<i32>,
    pub(crate) key_index: Vec<Option<i32>>,
    /// Four numbers per link.
    pub(crate) links: Option<Vec<i32>>,
    pub(crate) text_hashes: Option<Vec<Vec<u8>>>,
    pub(crate) texts: Option<Vec<Vec<u8>>>,
}

impl RecordArrays {
    /// Adds a record.
    pub(crate) fn push(&mut self, event: &Event, bytes: Vec<u8>) {
        let signed = |number: u32| i32::try_from(number).unwrap_or(i32::MAX);
        let bytes_of = |text: &Option<String>| text.clone().map(String::into_bytes);
        let (mut index, mut time, mut title, mut project) = (None, None, None, None);
        match &event.body {
            EventBody::Recorded { index: recorded, iteration } => {
                index = Some(signed(*recorded));
                time = Some(iteration.created_at.millis());
            }
            EventBody::Annotated { index: annotated, .. } => {
                index = Some(signed(*annotated));
                time = Some(event.at.millis());
            }
            EventBody::Started { title: first, project: of } | EventBody::Titled { title: first, project: of } => {
                title = bytes_of(first);
                project = bytes_of(of);
            }
            EventBody::Lost(loss) => index = loss.last_index.map(signed),
            EventBody::Archived { .. } | EventBody::Restored { .. } | EventBody::Unknown { .. } => {}
        }
        let digest = idempotency_digest(&event.key).to_vec();
        let recorded = if matches!(event.body, EventBody::Recorded { .. }) { index } else { None };
        match self.keys.iter().position(|key| *key == digest) {
            Some(known) => {
                if let Some(first) = self.key_index.get_mut(known) {
                    *first = first.or(recorded);
                }
            }
            None => {
                self.keys.push(digest);
                self.key_seq.push(signed(event.seq));
                self.key_index.push(recorded);
            }
        }
        if let Some((parent, child)) = parent_link(event) {
            let (day, number) = numbers(parent.session);
            let links = self.links.get_or_insert_default();
            links.extend([day, number, signed(parent.index), signed(child.index)]);
        }
        self.records.push(bytes);
        self.index.push(index);
        self.time.push(time);
        self.title.push(title);
        self.project.push(project);
    }

    /// Adds a long text.
    pub(crate) fn push_text(&mut self, hash: Hash, text: &str) {
        self.text_hashes.get_or_insert_default().push(hash.0.to_vec());
        self.texts.get_or_insert_default().push(text.as_bytes().to_vec());
    }
}
