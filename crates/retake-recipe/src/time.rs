//! Points in time: UTC with whole milliseconds.

use std::fmt;
use std::str::FromStr;
use std::time::SystemTime;

use chrono::{DateTime, NaiveDate, SecondsFormat, Utc};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A UTC time with milliseconds, shown as `2025-12-11T14:45:22.456Z`.
///
/// Years 1 to 9999 only, so that every timestamp has a four-digit year and a day that fits a session id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

/// The first millisecond of the year 1.
const MIN_MILLIS: i64 = -62_135_596_800_000;
/// The last millisecond of the year 9999.
const MAX_MILLIS: i64 = 253_402_300_799_999;

/// The error for a text that is not a valid time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a time such as 2025-12-11T14:45:22.456Z")]
pub struct ParseTimeError(String);

impl Timestamp {
    /// Returns the current time of the system clock, limited to the supported years.
    pub fn now() -> Timestamp {
        Timestamp::from(SystemTime::now())
    }

    /// Returns the time this many milliseconds after 1970-01-01T00:00:00Z; `None` outside the years 1 to 9999.
    pub fn from_millis(millis: i64) -> Option<Timestamp> {
        // Compares numbers only: a page of the listing checks hundreds of times.
        (MIN_MILLIS..=MAX_MILLIS).contains(&millis).then_some(Timestamp(millis))
    }

    /// Returns the milliseconds since 1970-01-01T00:00:00Z.
    pub fn millis(self) -> i64 {
        self.0
    }

    /// Returns its UTC day.
    pub fn day(self) -> NaiveDate {
        self.to_chrono().date_naive()
    }

    /// Returns the time this many milliseconds later (earlier if negative), limited to the years 1 to 9999.
    #[must_use]
    pub fn plus_millis(self, millis: i64) -> Timestamp {
        Timestamp::from_millis(self.0.saturating_add(millis)).unwrap_or(self)
    }

    fn to_chrono(self) -> DateTime<Utc> {
        // The constructor checked the range; the epoch is never reached.
        DateTime::<Utc>::from_timestamp_millis(self.0).unwrap_or(DateTime::UNIX_EPOCH)
    }
}

impl From<SystemTime> for Timestamp {
    /// Converts a system time. One outside the years 1 to 9999 counts as 1970.
    fn from(time: SystemTime) -> Timestamp {
        let millis = match time.duration_since(SystemTime::UNIX_EPOCH) {
            Ok(after) => i64::try_from(after.as_millis()).ok(),
            Err(before) => i64::try_from(before.duration().as_millis()).ok().map(i64::saturating_neg),
        };
        millis.and_then(Timestamp::from_millis).unwrap_or(Timestamp(0))
    }
}

impl From<DateTime<Utc>> for Timestamp {
    fn from(time: DateTime<Utc>) -> Timestamp {
        Timestamp::from_millis(time.timestamp_millis()).unwrap_or(Timestamp(0))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_chrono().to_rfc3339_opts(SecondsFormat::Millis, true))
    }
}

impl FromStr for Timestamp {
    type Err = ParseTimeError;

    /// Parses RFC 3339 with any offset; digits beyond milliseconds are dropped.
    fn from_str(text: &str) -> Result<Timestamp, ParseTimeError> {
        DateTime::parse_from_rfc3339(text)
            .ok()
            .and_then(|time| Timestamp::from_millis(time.timestamp_millis()))
            .ok_or_else(|| ParseTimeError(text.chars().take(60).collect()))
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn any_time_of_the_clock_is_accepted() {
        let at = |seconds: i64| match u64::try_from(seconds) {
            Ok(after) => SystemTime::UNIX_EPOCH + Duration::from_secs(after),
            Err(_) => SystemTime::UNIX_EPOCH - Duration::from_secs(seconds.unsigned_abs()),
        };
        assert_eq!(Timestamp::from(at(1)).to_string(), "1970-01-01T00:00:01.000Z");
        assert_eq!(Timestamp::from(at(-1)).to_string(), "1969-12-31T23:59:59.000Z");
        assert_eq!(Timestamp::from(at(-100_000_000_000)).millis(), 0, "before the year 1");
        assert_eq!(Timestamp::from(at(300_000_000_000)).millis(), 0, "after the year 9999");
    }

    #[test]
    fn shows_milliseconds_and_z() {
        let shown = |text: &str| text.parse::<Timestamp>().unwrap().to_string();
        assert_eq!(shown("2025-12-11T14:45:22.456Z"), "2025-12-11T14:45:22.456Z");
        assert_eq!(shown("2025-12-11T14:45:22Z"), "2025-12-11T14:45:22.000Z");
        assert_eq!(shown("2025-12-11T14:45:22.456999+02:00"), "2025-12-11T12:45:22.456Z");
        assert_eq!(shown("1969-12-31T23:59:59.999Z"), "1969-12-31T23:59:59.999Z");
    }

    #[test]
    fn other_texts_are_refused_as_times() {
        for text in ["", "yesterday", "2025-12-11", "2025-13-11T00:00:00Z", "+12025-12-11T00:00:00Z"] {
            assert!(text.parse::<Timestamp>().is_err(), "{text:?}");
        }
        for (millis, text) in [(MIN_MILLIS, "0001-01-01T00:00:00.000Z"), (MAX_MILLIS, "9999-12-31T23:59:59.999Z")] {
            assert_eq!(Timestamp::from_millis(millis).unwrap().to_string(), text);
        }
        assert_eq!(Timestamp::from_millis(MIN_MILLIS - 1), None);
        assert_eq!(Timestamp::from_millis(MAX_MILLIS + 1), None);
        assert_eq!(Timestamp::from_millis(i64::MAX), None);
    }
}
