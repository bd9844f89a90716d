//! References to an iteration or one of its images: `session-2025-12-11-001#3`, `latest`, `#first`, `#3/1`.

use std::fmt;
use std::str::FromStr;

use super::id::{IterationId, SessionId};

/// A session, a position in it and an image, each given exactly or by description.
///
/// `session-2025-12-11-001#3` is exact; `session-2025-12-11-001` is its last iteration; `latest` is the last one of the
/// most recent session; `#3`, `#first` and `#latest` are positions in the most recent session. The suffix `/1` selects
/// the second image of the iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reference {
    /// The session.
    pub session: SessionChoice,
    /// The iteration within the session.
    pub position: Position,
    /// The image of the iteration, from 0, if given.
    pub image: Option<u32>,
}

/// An iteration, or one image of it: a resolved reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ExactReference {
    /// The iteration.
    pub iteration: IterationId,
    /// The image, from 0, if given.
    pub image: Option<u32>,
}

/// The session part of a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionChoice {
    /// The session with this id.
    Id(SessionId),
    /// The most recently modified active session.
    MostRecent,
}

/// The iteration part of a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// Not specified: the last one.
    Unsaid,
    /// The iteration with this index.
    Index(u32),
    /// The first one.
    First,
    /// The last one.
    Latest,
}

/// The error for a text that is not a reference.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a reference such as session-2025-12-11-001#3, session-2025-12-11-001#3/1 or latest")]
pub struct ParseReferenceError(String);

impl Reference {
    /// The last iteration of the most recently modified active session.
    pub const LATEST: Reference =
        Reference { session: SessionChoice::MostRecent, position: Position::Unsaid, image: None };

    /// Returns a reference to the last iteration of a session.
    pub fn last_of(session: SessionId) -> Reference {
        Reference { session: SessionChoice::Id(session), position: Position::Unsaid, image: None }
    }
}

impl ExactReference {
    /// Returns the number of the image, from 0; the first unless given.
    pub fn image_number(self) -> u32 {
        self.image.unwrap_or(0)
    }
}

impl From<IterationId> for ExactReference {
    fn from(iteration: IterationId) -> ExactReference {
        ExactReference { iteration, image: None }
    }
}

impl fmt::Display for ExactReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.iteration)?;
        self.image.map_or(Ok(()), |image| write!(f, "/{image}"))
    }
}

impl FromStr for ExactReference {
    type Err = ParseReferenceError;

    fn from_str(text: &str) -> Result<ExactReference, ParseReferenceError> {
        match text.parse()? {
            Reference { session: SessionChoice::Id(session), position: Position::Index(index), image } => {
                Ok(ExactReference { iteration: session.iteration(index), image })
            }
            _ => Err(ParseReferenceError(text.chars().take(60).collect())),
        }
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
            Position::Unsaid => {}
            Position::Index(index) => write!(f, "#{index}")?,
            Position::First => f.write_str("#first")?,
            Position::Latest => f.write_str("#latest")?,
        }
        self.image.map_or(Ok(()), |image| write!(f, "/{image}"))
    }
}

impl FromStr for Reference {
    type Err = ParseReferenceError;

    fn from_str(text: &str) -> Result<Reference, ParseReferenceError> {
        let not_a_reference = || ParseReferenceError(text.chars().take(60).collect());
        let (rest, image) = match text.rsplit_once('/') {
            Some((rest, image)) => (rest, Some(number(image).ok_or_else(not_a_reference)?)),
            None => (text, None),
        };
        let (session, position) = match rest.split_once('#') {
            Some((session, position)) => (session, Some(position)),
            None => (rest, None),
        };
        let session = match (session, position) {
            ("latest", _) | ("", Some(_)) => SessionChoice::MostRecent,
            (id, _) => SessionChoice::Id(id.parse().map_err(|_| not_a_reference())?),
        };
        let position = match position {
            None => Position::Unsaid,
            Some("first") => Position::First,
            Some("latest") => Position::Latest,
            Some(digits) => Position::Index(number(digits).ok_or_else(not_a_reference)?),
        };
        Ok(Reference { session, position, image })
    }
}

/// Parses a number that consists only of digits; `parse` would accept a sign too.
fn number(digits: &str) -> Option<u32> {
    digits.parse().ok().filter(|_| digits.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_parsed_and_written_back() {
        let id: SessionId = "session-2025-12-11-001".parse().unwrap();
        let check = |text: &str, session, position| {
            for (text, image) in
                [(text.to_owned(), None), (format!("{text}/0"), Some(0)), (format!("{text}/12"), Some(12))]
            {
                let reference: Reference = text.parse().unwrap();
                assert_eq!(reference, Reference { session, position, image }, "{text}");
                assert_eq!(reference.to_string().parse(), Ok(reference), "{text}");
            }
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
            "/1",
            "#3/",
            "#3/-1",
            "#3/+1",
            "#3/1/2",
            "#3/x",
            "a/1",
            "#/1",
        ] {
            assert!(text.parse::<Reference>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn an_exact_reference_names_session_and_index() {
        for text in ["session-2025-12-11-001#3", "session-2025-12-11-001#3/0", "session-2025-12-11-001#3/1"] {
            assert_eq!(text.parse::<ExactReference>().unwrap().to_string(), text);
        }
        for text in ["latest", "session-2025-12-11-001", "#3/1", "session-2025-12-11-001#first"] {
            assert!(text.parse::<ExactReference>().is_err(), "{text}");
        }
    }
}
