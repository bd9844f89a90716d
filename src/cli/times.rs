//! Formats and parses times for people: in the local time zone, or in UTC with `--utc`. JSON is always UTC.

use std::sync::OnceLock;

use chrono::{DateTime, FixedOffset, Local, LocalResult, NaiveDate, NaiveDateTime, Offset, TimeZone, Utc};

use crate::model::Timestamp;
use crate::model::query::time as query_time;

use super::exit::Failure;

/// The accepted notations, for error messages and hints.
pub(super) const EXAMPLES: &str = "write a date or time such as 2025-12-11, '2025-12-11 14:45' or 2025-12-11T14:45:22Z";

/// The zone in which times are read and shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Zone {
    /// The zone of this machine, which `TZ` overrides.
    Local,
    /// Universal time.
    Utc,
}

static ZONE: OnceLock<Zone> = OnceLock::new();

/// Sets the zone for the rest of the process; only the first call has an effect.
pub(super) fn set_zone(zone: Zone) {
    // Only a second command line in the same process would call this twice.
    let _ = ZONE.set(zone);
}

fn zone() -> Zone {
    ZONE.get().copied().unwrap_or(Zone::Utc)
}

/// Formats a time: `2025-12-11 15:45:22 +01:00`, or `… UTC`.
pub(super) fn time(at: Timestamp) -> String {
    let (local, offset) = zone().local(at);
    format!("{} {}", local.format("%Y-%m-%d %H:%M:%S"), offset_name(offset))
}

/// Formats a time to the minute, for tables whose heading names the zone: `2025-12-11 15:45`.
pub(super) fn minute(at: Timestamp) -> String {
    zone().local(at).0.format("%Y-%m-%d %H:%M").to_string()
}

/// Formats the day and the time of day separately.
pub(super) fn day_and_time(at: Timestamp) -> (String, String) {
    let (local, _) = zone().local(at);
    (local.format("%Y-%m-%d").to_string(), local.format("%H:%M:%S").to_string())
}

/// Returns the name of the zone for a heading: `Europe/Berlin`, or `UTC`.
pub(super) fn zone_name() -> String {
    if zone() == Zone::Utc {
        return "UTC".to_owned();
    }
    let named = |name: String| {
        let name = name.trim_start_matches(':').to_owned();
        (!name.is_empty() && !name.starts_with('/')).then_some(name)
    };
    let linked = || {
        let target = std::fs::read_link("/etc/localtime").ok()?;
        Some(target.to_str()?.split_once("zoneinfo/")?.1.to_owned())
    };
    let name = std::env::var("TZ").ok().and_then(named).or_else(linked);
    match name.as_deref() {
        Some("UTC" | "Etc/UTC" | "UTC0" | "Universal" | "Zulu") => "UTC".to_owned(),
        Some(name) => name.to_owned(),
        None => offset_name(Local::now().offset().fix()),
    }
}

/// Parses a date, a local time, or RFC 3339. A date means the beginning of that day.
pub(super) fn parse(text: &str) -> Result<Timestamp, String> {
    exact(text, zone()).ok_or_else(|| {
        let shown: String = text.chars().take(60).collect();
        format!("{shown:?} is not a date or time; {EXAMPLES}")
    })
}

/// A period of time, such as a day or a month.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Period {
    from: Timestamp,
    until: Timestamp,
}

impl Period {
    /// Returns its first moment.
    pub(super) fn first(self) -> Timestamp {
        self.from
    }

    /// Returns its last moment.
    pub(super) fn last(self) -> Timestamp {
        self.until.plus_millis(-1)
    }
}

/// Checks that a range of time does not end before it begins.
pub(super) fn check_range(since: Option<Period>, until: Option<Period>) -> Result<(), Failure> {
    match since.zip(until) {
        Some((since, until)) if until.last() < since.first() => {
            Err(Failure::flags("--until is before --since", "exchange the two, or leave one out"))
        }
        _ => Ok(()),
    }
}

/// Parses a period; for flags such as `--since`.
pub(super) fn period(text: &str) -> Result<Period, String> {
    let now = Timestamp::from(Utc::now());
    let (from, until) =
        zone().span(text, now).ok_or_else(|| format!("not a date or time; {}", query_time::EXAMPLES))?;
    Ok(Period { from, until })
}

/// Replaces the days in a query by the same periods in UTC, so that `on:yesterday` means the local day. Text that
/// cannot be parsed is left for the query parser to report.
pub(super) fn localize_query(query: &str, now: Timestamp) -> String {
    zone().localize_query(query, now)
}

impl Zone {
    /// Converts a time to local time, and returns the offset from UTC at that time.
    fn local(self, at: Timestamp) -> (NaiveDateTime, FixedOffset) {
        let utc = DateTime::<Utc>::from_timestamp_millis(at.millis()).unwrap_or_default();
        let offset = match self {
            Zone::Local => Local.offset_from_utc_datetime(&utc.naive_utc()).fix(),
            Zone::Utc => Utc.fix(),
        };
        (utc.with_timezone(&offset).naive_local(), offset)
    }

    /// Converts a local time: to the earlier one if it occurs twice because clocks were set back, and one hour later if
    /// it was skipped.
    fn timestamp(self, local: NaiveDateTime) -> Option<Timestamp> {
        let utc = match self {
            Zone::Utc => local.and_utc(),
            Zone::Local => match Local.from_local_datetime(&local) {
                LocalResult::Single(at) | LocalResult::Ambiguous(at, _) => at.to_utc(),
                LocalResult::None => {
                    let later = local.checked_add_signed(chrono::TimeDelta::hours(1))?;
                    Local.from_local_datetime(&later).earliest()?.to_utc()
                }
            },
        };
        Timestamp::from_millis(utc.timestamp_millis())
    }

    /// Parses a period as [`query_time::span`] does, with local days.
    fn span(self, text: &str, now: Timestamp) -> Option<(Timestamp, Timestamp)> {
        let text = text.trim();
        let bare = text.to_lowercase();
        let (from, until) = if bare.parse::<NaiveDate>().is_err()
            && let Some(at) = exact(text, self)
        {
            (at.millis(), at.millis() + 1)
        } else if bare.ends_with(['h', 'd', 'w']) {
            // A relative time does not depend on the zone.
            query_time::span(text, now)?
        } else {
            // The parser only knows UTC days, so pass it the local time as if it were UTC.
            let here = Timestamp::from_millis(self.local(now).0.and_utc().timestamp_millis())?;
            let (from, until) = query_time::span(text, here)?;
            let there = |millis: i64| {
                let naive = DateTime::<Utc>::from_timestamp_millis(millis)?.naive_utc();
                Some(self.timestamp(naive)?.millis())
            };
            (there(from)?, there(until)?)
        };
        Some((Timestamp::from_millis(from)?, Timestamp::from_millis(until)?))
    }

    fn localize_query(self, query: &str, now: Timestamp) -> String {
        if self == Zone::Utc {
            return query.to_owned();
        }
        let mut written = String::with_capacity(query.len());
        let mut rest = query;
        let mut begins_word = true;
        while let Some(c) = rest.chars().next() {
            if begins_word && let Some((condition, after)) = self.time_condition(rest, now) {
                written += &condition;
                rest = after;
                begins_word = false;
                continue;
            }
            let length = match c {
                // A quoted phrase is never a time condition.
                '"' => rest.get(1..).and_then(|inner| inner.find('"')).map_or(rest.len(), |end| end + 2),
                c => c.len_utf8(),
            };
            let (part, after) = rest.split_at(length);
            written += part;
            begins_word = c.is_whitespace() || matches!(c, '(' | '-' | ')');
            rest = after;
        }
        written
    }

    /// Parses the time condition that a text starts with. Returns it in UTC, with the rest of the text.
    fn time_condition(self, text: &str, now: Timestamp) -> Option<(String, &str)> {
        let (facet, value) = text.split_once(':')?;
        let facet = facet.to_lowercase();
        if !matches!(facet.as_str(), "since" | "after" | "before" | "until" | "on" | "date") {
            return None;
        }
        let (value, after) = match value.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"')?,
            None => value.split_at(value.find(|c: char| c.is_whitespace() || c == ')').unwrap_or(value.len())),
        };
        let (from, until) = self.span(value, now)?;
        let condition = match facet.as_str() {
            "since" => format!("since:\"{from}\""),
            "after" => format!("since:\"{until}\""),
            "before" => format!("before:\"{from}\""),
            "until" => format!("before:\"{until}\""),
            _ => format!("(since:\"{from}\" before:\"{until}\")"),
        };
        // Relative times stay as written: a cursor belongs to the text of its query.
        let is_back = value.ends_with(['h', 'd', 'w']) && value.starts_with(|c: char| c.is_ascii_digit());
        (!is_back).then_some((condition, after))
    }
}

/// Parses a date, a local time or RFC 3339.
fn exact(text: &str, zone: Zone) -> Option<Timestamp> {
    let text = text.trim();
    if let Ok(at) = text.to_uppercase().replacen(' ', "T", 1).parse() {
        return Some(at);
    }
    let spaced = text.replacen(['T', 't'], " ", 1);
    let forms = ["%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%d %H:%M"];
    let time = forms.iter().find_map(|form| NaiveDateTime::parse_from_str(&spaced, form).ok());
    let day = || NaiveDate::parse_from_str(text, "%Y-%m-%d").ok()?.and_hms_opt(0, 0, 0);
    zone.timestamp(time.or_else(day)?)
}

/// Returns the name of an offset: `+01:00`, or `UTC`.
fn offset_name(offset: FixedOffset) -> String {
    if offset.local_minus_utc() == 0 { "UTC".to_owned() } else { offset.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn a_time_is_written_in_many_ways() {
        for (text, expected) in [
            ("2025-12-11T14:45:22.456Z", "2025-12-11T14:45:22.456Z"),
            ("2025-12-11t15:45:22+01:00", "2025-12-11T14:45:22.000Z"),
            ("2025-12-11 15:45:22+01:00", "2025-12-11T14:45:22.000Z"),
            ("2025-12-11 14:45", "2025-12-11T14:45:00.000Z"),
            ("2025-12-11T14:45:22", "2025-12-11T14:45:22.000Z"),
            (" 2025-12-11 ", "2025-12-11T00:00:00.000Z"),
        ] {
            assert_eq!(exact(text, Zone::Utc), Some(at(expected)), "{text}");
        }
        for text in ["", "yesterday", "2025-13-01", "2025-12-11 25:00", "14:45", "20251211"] {
            assert_eq!(exact(text, Zone::Utc), None, "{text}");
        }
        assert!(parse("soon").unwrap_err().contains("2025-12-11T14:45:22Z"));
    }

    #[test]
    fn periods_are_those_of_the_zone() {
        let now = at("2026-03-18T12:30:00Z");
        let span = |text: &str| Zone::Utc.span(text, now).map(|(from, until)| format!("{from} {until}"));
        assert_eq!(span("yesterday").unwrap(), "2026-03-17T00:00:00.000Z 2026-03-18T00:00:00.000Z");
        assert_eq!(span("2026-03-14").unwrap(), "2026-03-14T00:00:00.000Z 2026-03-15T00:00:00.000Z");
        assert_eq!(span("2026-03-14 12:00").unwrap(), "2026-03-14T12:00:00.000Z 2026-03-14T12:00:00.001Z");
        assert_eq!(span("soon"), None);
    }
}
