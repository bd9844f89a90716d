//! References, by which people and agents name an iteration: `session-2025-12-11-001#3`, `latest`, `#first`.

use std::fmt;
use std::str::FromStr;

use super::id::SessionId;

/// A session and a position in it, each named exactly or by description.
///
/// `session-2025-12-11-001#3` is exact; `session-2025-12-11-001` is its last iteration; `latest` the last of the most
/// recent session; `#3`, `#first` and `#latest` are positions in the most recent session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reference {
    /// The session.
    pub session: SessionChoice,
    /// The iteration within the session.
    pub position: Position,
}

/// The session part of a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionChoice {
    /// The session of this id.
    Id(SessionId),
    /// The active session that was modified last.
    MostRecent,
}

/// The iteration part of a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// Not specified: the last one.
    Unsaid,
    /// The iteration of this index.
    Index(u32),
    /// The first one.
    First,
    /// The last one.
    Latest,
}

/// The error for a text that is not a reference.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a reference such as session-2025-12-11-001#3, session-2025-12-11-001 or latest")]
pub struct NotAReference(String);

impl Reference {
    /// Returns a reference to the last iteration of a session.
    pub fn last_of(session: SessionId) -> Reference {
        Reference { session: SessionChoice::Id(session), position: Position::Unsaid }
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.session, self.position) {
            (SessionChoice::Id(id), _) => write!(f, "{id}")?,
            (SessionChoice::MostRecent, Position::Unsaid) => f.write_str("latest")?,
            (SessionChoice::MostRecent, _) => {}
        }
        match self.position {
            Position::Unsaid => Ok(()),
            Position::Index(index) => write!(f, "#{index}"),
            Position::First => f.write_str("#first"),
            Position::Latest => f.write_str("#latest"),
        }
    }
}

impl FromStr for Reference {
    type Err = NotAReference;

    fn from_str(text: &str) -> Result<Reference, NotAReference> {
        let not_a_reference = || NotAReference(text.chars().take(60).collect());
        let (session, position) = match text.split_once('#') {
            Some((session, position)) => (session, Some(position)),
            None => (text, None),
        };
        let session = match (session, position) {
            ("latest", _) | ("", Some(_)) => SessionChoice::MostRecent,
            (id, _) => SessionChoice::Id(id.parse().map_err(|_| not_a_reference())?),
        };
        let position = match position {
            None => Position::Unsaid,
            Some("first") => Position::First,
            Some("latest") => Position::Latest,
            Some(digits) if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                Position::Index(digits.parse().map_err(|_| not_a_reference())?)
            }
            Some(_) => return Err(not_a_reference()),
        };
        Ok(Reference { session, position })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_parsed_and_written_back() {
        let id: SessionId = "session-2025-12-11-001".parse().unwrap();
        let check = |text: &str, session, position| {
            let reference: Reference = text.parse().unwrap();
            assert_eq!(reference, Reference { session, position }, "{text}");
            assert_eq!(reference.to_string().parse(), Ok(reference), "{text}");
        };
        check("session-2025-12-11-001#3", SessionChoice::Id(id), Position::Index(3));
        check("session-2025-12-11-001", SessionChoice::Id(id), Position::Unsaid);
        check("session-2025-12-11-001#first", SessionChoice::Id(id), Position::First);
        check("latest", SessionChoice::MostRecent, Position::Unsaid);
        check("latest#2", SessionChoice::MostRecent, Position::Index(2));
        check("#first", SessionChoice::MostRecent, Position::First);
        check("#latest", SessionChoice::MostRecent, Position::Latest);
        check("#0", SessionChoice::MostRecent, Position::Index(0));
    }

    #[test]
    fn anything_else_is_refused() {
        for text in [
            "",
            "#",
            "#-1",
            "#+1",
            "#3#4",
            "first",
            "latest#",
            "session-2025-12-11-001#x",
            "session-2025-12-11-1#2",
            "#99999999999",
        ] {
            assert!(text.parse::<Reference>().is_err(), "{text:?}");
        }
    }
}
