//! Abbreviated references, as people type them: `001#3` for a session of today, or any unique suffix of an id such as
//! `12-11-001#3`.
//!
//! They exist only on the command line. Agents pass full references, since a suffix that is unique now may no longer be
//! when the call arrives.

use chrono::Datelike;

use crate::model::SessionId;
use crate::wire::{Api, Error, ErrorKind};

use super::exit::invalid;

/// Expands a reference. Text that is not an abbreviation is returned unchanged and left to the parser.
pub(super) fn expand(api: &Api<'_>, text: &str) -> Result<String, Error> {
    let (session, rest) = text.find('#').map_or((text, ""), |at| text.split_at(at));
    let Some(ending) = Ending::parse(session) else { return Ok(text.to_owned()) };
    let found = ending.find(api)?;
    match found.as_slice() {
        [] => Err(Error::new(
            ErrorKind::NotFound,
            format!("no session ends with {session:?}"),
            "run `retake list` to see the sessions there are",
        )),
        [only] => Ok(format!("{only}{rest}")),
        [newest, .., oldest] => Err(invalid(
            format!("{} sessions end with {session:?}, such as {oldest} and {newest}", found.len()),
            "write more of the id",
        )),
    }
}

/// The suffix of a session id: its number, and the part of the date that was given.
struct Ending {
    /// Day, month and year, in this order; fewer if they were left out.
    day: Vec<u32>,
    number: u32,
}

impl Ending {
    /// Parses a suffix; `None` if the text is a full id or something else.
    fn parse(text: &str) -> Option<Ending> {
        let parts: Vec<&str> = text.strip_prefix("session-").unwrap_or(text).split('-').collect();
        if text.parse::<SessionId>().is_ok() || parts.len() > 4 {
            return None;
        }
        let digits =
            |part: &&str| !part.is_empty() && part.len() <= 9 && part.bytes().all(|byte| byte.is_ascii_digit());
        if !parts.iter().all(digits) {
            return None;
        }
        let mut numbers: Vec<u32> = parts.iter().filter_map(|part| part.parse().ok()).collect();
        let number = numbers.pop()?;
        numbers.reverse();
        // Reject numbers that cannot be a day or a month.
        let is_possible = numbers.iter().zip([31, 12, u32::MAX]).all(|(part, most)| (1..=most).contains(part));
        is_possible.then_some(Ending { day: numbers, number })
    }

    /// Returns the sessions with this suffix, newest first. Without a date, a session of today takes precedence.
    fn find(&self, api: &Api<'_>) -> Result<Vec<SessionId>, Error> {
        let today = api.workspace().now().day();
        let mut found = Vec::new();
        api.workspace().each_session(|id| {
            if self.matches(id) {
                found.push(id);
            }
            Ok(())
        })?;
        if self.day.is_empty()
            && let Some(of_today) = found.iter().copied().find(|id| id.day() == today)
        {
            return Ok(vec![of_today]);
        }
        found.reverse();
        Ok(found)
    }

    fn matches(&self, id: SessionId) -> bool {
        let day = id.day();
        let parts = [day.day(), day.month(), day.year().unsigned_abs()];
        id.number().get() == self.number && self.day.iter().zip(parts).all(|(wanted, part)| *wanted == part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn abbreviations_are_distinguished_from_ids_and_words() {
        let id: SessionId = "session-2025-12-11-001".parse().unwrap();
        for text in ["001", "1", "11-001", "12-11-001", "2025-12-11-001", "2025-12-11-1", "session-2025-12-11-1"] {
            assert!(Ending::parse(text).unwrap().matches(id), "{text}");
        }
        for text in ["002", "12-001", "11-12-001", "2024-12-11-001"] {
            assert!(!Ending::parse(text).unwrap().matches(id), "{text}");
        }
        for text in [
            "session-2025-12-11-001",
            "latest",
            "",
            "-1",
            "a-1",
            "1-2025-12-11-001",
            "9999999999",
            "2025-99-11-001",
            "0-001",
        ] {
            assert!(Ending::parse(text).is_none(), "{text}");
        }
    }
}
