//! Session ids (`session-2025-12-11-001`) and iteration ids (`session-2025-12-11-001#3`).

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use chrono::{Datelike, NaiveDate};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::reference::ExactReference;

/// A session id, `session-YYYY-MM-DD-NNN`: a UTC day and a number counted from 1 within that day.
///
/// Ordered by day and number, not by text: `-1000` comes after `-999`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId {
    day: NaiveDate,
    number: NonZeroU32,
}

/// The id of an iteration: a session and an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IterationId {
    /// The session.
    pub session: SessionId,
    /// The index within the session, from 0.
    pub index: u32,
}

/// The error for a text that is not an id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a session id such as session-2025-12-11-001")]
pub struct ParseIdError(pub(crate) String);

impl SessionId {
    /// Creates an id; `None` if the year does not have four digits.
    pub fn new(day: NaiveDate, number: NonZeroU32) -> Option<SessionId> {
        (1..=9999).contains(&day.year()).then_some(SessionId { day, number })
    }

    /// Returns the UTC day of the first iteration.
    pub fn day(self) -> NaiveDate {
        self.day
    }

    /// Returns the number within the day, from 1.
    pub fn number(self) -> NonZeroU32 {
        self.number
    }

    /// Returns the id of an iteration of this session.
    pub fn iteration(self, index: u32) -> IterationId {
        IterationId { session: self, index }
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "session-{}-{:03}", self.day.format("%Y-%m-%d"), self.number)
    }
}

impl fmt::Display for IterationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.session, self.index)
    }
}

impl FromStr for SessionId {
    type Err = ParseIdError;

    /// Parses exactly what `Display` writes: an id has one spelling.
    fn from_str(text: &str) -> Result<SessionId, ParseIdError> {
        let id = text.strip_prefix("session-").and_then(|rest| {
            let (day, number) = rest.split_at_checked(10)?;
            let day = NaiveDate::parse_from_str(day, "%Y-%m-%d").ok()?;
            let number = number.strip_prefix('-')?.parse::<NonZeroU32>().ok()?;
            SessionId::new(day, number)
        });
        id.filter(|id| id.to_string() == text).ok_or_else(|| ParseIdError(text.chars().take(60).collect()))
    }
}

impl FromStr for IterationId {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<IterationId, ParseIdError> {
        let id = text.split_once('#').and_then(|(session, index)| {
            Some(IterationId { session: session.parse().ok()?, index: index.parse().ok()? })
        });
        id.filter(|id| id.to_string() == text).ok_or_else(|| ParseIdError(text.chars().take(60).collect()))
    }
}

macro_rules! as_text {
    ($type:ty) => {
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<$type, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

as_text!(SessionId);
as_text!(IterationId);
as_text!(ExactReference);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_id_has_one_spelling() {
        for text in [
            "session-2025-12-11-001",
            "session-2025-12-11-999",
            "session-2025-12-11-1000",
            "session-0001-01-01-4294967295",
        ] {
            assert_eq!(text.parse::<SessionId>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "session-",
            "session-2025-12-11",
            "session-2025-12-11-",
            "session-2025-12-11-1",
            "session-2025-12-11-0001",
            "session-2025-12-11-000",
            "session-2025-02-30-001",
            "session-2025-12-11-+01",
            "session-2025-12-11-4294967296",
            "Session-2025-12-11-001",
            "session-2025-12-11-001 ",
            "session-2025-12-1é-001",
            "session-12025-12-11-001",
        ] {
            assert!(text.parse::<SessionId>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn ids_are_ordered_by_day_and_number() {
        let ids =
            ["session-2025-12-10-1000", "session-2025-12-11-002", "session-2025-12-11-999", "session-2025-12-11-1000"];
        let parsed: Vec<SessionId> = ids.iter().map(|id| id.parse().unwrap()).collect();
        assert!(parsed.is_sorted(), "{parsed:?}");
    }

    #[test]
    fn iterations_count_from_zero() {
        assert_eq!("session-2025-12-11-001#0".parse::<IterationId>().unwrap().index, 0);
        for text in [
            "session-2025-12-11-001",
            "session-2025-12-11-001#",
            "session-2025-12-11-001#01",
            "session-2025-12-11-001#-1",
            "#3",
        ] {
            assert!(text.parse::<IterationId>().is_err(), "{text:?}");
        }
    }
}
