//! Parses times in queries: `2026`, `2026-03`, `2026-03-14`, `yesterday`, `last week`, `7d`. Days are UTC days, as in
//! session ids.

use chrono::{Datelike, Days, Months, NaiveDate};

use crate::model::Timestamp;

/// A half-open span of time in milliseconds.
pub type TimeRange = (i64, i64);

/// A hint for writing a time.
pub const EXAMPLES: &str = "write 2026-03, 2026-03-14, today, yesterday, last-week, this-month or 7d";

/// Returns the span that a text denotes relative to `now`; `None` if it is not a time.
pub fn span(text: &str, now: Timestamp) -> Option<TimeRange> {
    let text = text.trim().to_lowercase().replace(['_', ' '], "-");
    named(&text, now.day()).or_else(|| back(&text, now)).or_else(|| dated(&text)).or_else(|| exact(&text))
}

fn named(text: &str, today: NaiveDate) -> Option<TimeRange> {
    let monday = today.checked_sub_days(Days::new(u64::from(today.weekday().num_days_from_monday())))?;
    let month = today.with_day(1)?;
    let year = month.with_month(1)?;
    match text {
        "today" => days(today, today.succ_opt()?),
        "yesterday" => days(today.pred_opt()?, today),
        "this-week" => days(monday, monday.checked_add_days(Days::new(7))?),
        "last-week" => days(monday.checked_sub_days(Days::new(7))?, monday),
        "this-month" => days(month, month.checked_add_months(Months::new(1))?),
        "last-month" => days(month.checked_sub_months(Months::new(1))?, month),
        "this-year" => days(year, year.checked_add_months(Months::new(12))?),
        "last-year" => days(year.checked_sub_months(Months::new(12))?, year),
        _ => None,
    }
}

/// Parses `7d`, `36h` or `2w`: that long back from now.
fn back(text: &str, now: Timestamp) -> Option<TimeRange> {
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let hours = match unit {
        "h" => 1,
        "d" => 24,
        "w" => 24 * 7,
        _ => return None,
    };
    let number = number.bytes().all(|byte| byte.is_ascii_digit()).then(|| number.parse::<u32>().ok())??;
    let millis = i64::from(number).checked_mul(hours * 3_600_000)?;
    Some((now.millis().checked_sub(millis)?, now.millis().saturating_add(1)))
}

/// Parses a year, a month or a day.
fn dated(text: &str) -> Option<TimeRange> {
    let mut parts = text.split('-').map(|part| {
        part.bytes().all(|byte| byte.is_ascii_digit()).then(|| part.parse::<u32>().ok()).flatten().ok_or(part.len())
    });
    let year = i32::try_from(parts.next()?.ok()?).ok().filter(|year| (1..=9999).contains(year))?;
    if text.split('-').next()?.len() != 4 {
        return None;
    }
    let month = parts.next().map_or(Some(None), |part| part.ok().map(Some))?;
    let day = parts.next().map_or(Some(None), |part| part.ok().map(Some))?;
    if parts.next().is_some() {
        return None;
    }
    let first = NaiveDate::from_ymd_opt(year, month.unwrap_or(1), day.unwrap_or(1))?;
    let end = match (month, day) {
        (_, Some(_)) => first.succ_opt()?,
        (Some(_), None) => first.checked_add_months(Months::new(1))?,
        (None, None) => first.checked_add_months(Months::new(12))?,
    };
    days(first, end)
}

fn exact(text: &str) -> Option<TimeRange> {
    let at = text.to_uppercase().parse::<Timestamp>().ok()?.millis();
    Some((at, at + 1))
}

fn days(from: NaiveDate, until: NaiveDate) -> Option<TimeRange> {
    let millis = |day: NaiveDate| Some(day.and_hms_opt(0, 0, 0)?.and_utc().timestamp_millis());
    Some((millis(from)?, millis(until)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_write_a_time() {
        // A Wednesday.
        let now: Timestamp = "2026-03-18T12:30:00.000Z".parse().unwrap();
        let shown = |text: &str| {
            span(text, now).map(|(from, until)| {
                let show = |millis| Timestamp::from_millis(millis).unwrap().to_string();
                format!("{} {}", show(from), show(until)).replace("T00:00:00.000Z", "")
            })
        };
        for (text, expected) in [
            ("2026", "2026-01-01 2027-01-01"),
            ("2026-03", "2026-03-01 2026-04-01"),
            ("2025-12", "2025-12-01 2026-01-01"),
            ("2026-3-4", "2026-03-04 2026-03-05"),
            ("2024-02-29", "2024-02-29 2024-03-01"),
            ("Today", "2026-03-18 2026-03-19"),
            ("yesterday", "2026-03-17 2026-03-18"),
            ("last week", "2026-03-09 2026-03-16"),
            ("this_week", "2026-03-16 2026-03-23"),
            ("last-month", "2026-02-01 2026-03-01"),
            ("last year", "2025-01-01 2026-01-01"),
            ("7d", "2026-03-11T12:30:00.000Z 2026-03-18T12:30:00.001Z"),
            ("36h", "2026-03-17T00:30:00.000Z 2026-03-18T12:30:00.001Z"),
            ("2026-03-18T12:30:00Z", "2026-03-18T12:30:00.000Z 2026-03-18T12:30:00.001Z"),
        ] {
            assert_eq!(shown(text).as_deref(), Some(expected), "{text}");
        }
        for text in [
            "",
            "-",
            "soon",
            "2026-13",
            "2026-02-30",
            "2026-02-03-04",
            "26-03",
            "d",
            "-7d",
            "7y",
            "99999999999d",
            "12026",
            "0000",
            "last fortnight",
            "2026-",
        ] {
            assert_eq!(shown(text), None, "{text}");
        }
    }
}
