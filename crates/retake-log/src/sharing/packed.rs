//! Large and frequent answers, each packed into one byte string.

use std::num::NonZeroU32;
use std::sync::Arc;

use chrono::{Datelike, NaiveDate};
use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::model::session::SessionSpan;
use crate::model::{Head, SessionId, Summary, Timestamp};
use crate::store;

/// Records in their on-disk encoding, concatenated.
#[derive(Debug, PartialEq)]
pub struct Records(pub Vec<Vec<u8>>);

impl Serialize for Records {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0.concat())
    }
}

impl<'de> Deserialize<'de> for Records {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Records, D::Error> {
        let bytes = serde_bytes::ByteBuf::deserialize(deserializer)?;
        let records: Vec<Vec<u8>> = store::split(&bytes).into_iter().map(<[u8]>::to_vec).collect();
        let complete = records.iter().map(Vec::len).sum::<usize>() == bytes.len();
        if complete { Ok(Records(records)) } else { Err(D::Error::custom("bytes that are not records")) }
    }
}

/// Rows of the listing.
pub(super) struct Rows(pub(super) Vec<Arc<Summary>>);

impl Serialize for Rows {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let rows: Vec<Row> = self.0.iter().map(|row| Row::from(&**row)).collect();
        serializer.serialize_bytes(&bincode::serialize(&rows).map_err(S::Error::custom)?)
    }
}

impl<'de> Deserialize<'de> for Rows {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Rows, D::Error> {
        let bytes = serde_bytes::ByteBuf::deserialize(deserializer)?;
        let rows: Vec<Row> = bincode::deserialize(&bytes).map_err(D::Error::custom)?;
        let rows: Option<Vec<_>> = rows.into_iter().map(|row| row.summary().map(Arc::new)).collect();
        rows.map(Rows).ok_or(D::Error::custom("a row that is not a session"))
    }
}

/// A row with ids and times as numbers, which are faster to parse than text.
#[derive(Serialize, Deserialize)]
struct Row {
    day: i32,
    number: u32,
    created: i64,
    modified: i64,
    last_index: u32,
    archived: bool,
    title: Option<String>,
    project: Option<String>,
}

impl From<&Summary> for Row {
    fn from(row: &Summary) -> Row {
        Row {
            day: row.id.day().num_days_from_ce(),
            number: row.id.number().get(),
            created: row.created_at.millis(),
            modified: row.last_modified_at.millis(),
            last_index: row.current_iteration_index(),
            archived: row.archived,
            title: row.title.clone(),
            project: row.project.clone(),
        }
    }
}

impl Row {
    fn summary(self) -> Option<Summary> {
        let day = NaiveDate::from_num_days_from_ce_opt(self.day)?;
        let span = SessionSpan {
            created_at: Timestamp::from_millis(self.created)?,
            last_modified_at: Timestamp::from_millis(self.modified)?,
        };
        let head = Head {
            title: self.title,
            project: self.project,
            archived: self.archived,
            span: Some(span),
            last_index: Some(self.last_index),
            ..Head::new(SessionId::new(day, NonZeroU32::new(self.number)?)?)
        };
        head.into_summary()
    }
}
