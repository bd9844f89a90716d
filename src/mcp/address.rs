//! Resource addresses: everything readable has a `retake://…` URI with exactly one spelling.
//!
//! ```text
//! retake://sessions                              what list-sessions answers        ?cursor=… for later pages
//! retake://sessions/{id}                         what list-iterations answers      ?cursor=… for older ones
//! retake://iterations/{id}/{index}               what get-iteration answers
//! retake://iterations/{id}/{index}/image         its first image, byte for byte or, if it is large, reduced
//! retake://iterations/{id}/{index}/image/{n}     another of its images, from 1 for the second
//! ui://retake/app.html                           the page that shows comparisons and stories in clients (MCP Apps)
//! ```

use std::fmt;
use std::str::FromStr;

use crate::model::{IterationId, SessionId};
use crate::wire::tools::APP_VIEW;

/// A resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Address {
    /// The sessions, starting at a cursor.
    Sessions(Option<String>),
    /// A session's iterations, going back from a cursor.
    Session(SessionId, Option<String>),
    /// One iteration.
    Iteration(IterationId),
    /// One of its images.
    Image(IterationId, u32),
    /// The page that displays comparisons and stories.
    App,
}

impl Address {
    /// Returns whether it can change and therefore be subscribed to. Images never change; later pages are not tracked.
    pub(super) fn can_change(&self) -> bool {
        matches!(self, Address::Sessions(None) | Address::Session(_, None) | Address::Iteration(_))
    }
}

/// The error for a text that is not an address.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NotAnAddress;

impl FromStr for Address {
    type Err = NotAnAddress;

    /// Parses exactly what `Display` writes.
    fn from_str(text: &str) -> Result<Address, NotAnAddress> {
        parse(text).filter(|address| address.to_string() == text).ok_or(NotAnAddress)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Sessions(_) => f.write_str("retake://sessions")?,
            Address::Session(id, _) => write!(f, "retake://sessions/{id}")?,
            Address::Iteration(id) => write!(f, "retake://iterations/{}/{}", id.session, id.index)?,
            Address::Image(id, 0) => write!(f, "retake://iterations/{}/{}/image", id.session, id.index)?,
            Address::App => f.write_str(APP_VIEW)?,
            Address::Image(id, number) => {
                write!(f, "retake://iterations/{}/{}/image/{number}", id.session, id.index)?;
            }
        }
        match self {
            Address::Sessions(Some(cursor)) | Address::Session(_, Some(cursor)) => write!(f, "?cursor={cursor}"),
            _ => Ok(()),
        }
    }
}

fn parse(text: &str) -> Option<Address> {
    if text == APP_VIEW {
        return Some(Address::App);
    }
    let (path, cursor) = match text.strip_prefix("retake://")?.split_once("?cursor=") {
        Some((path, cursor)) => (path, Some(cursor.to_owned())),
        None => (text.strip_prefix("retake://")?, None),
    };
    let parts: Vec<&str> = path.split('/').collect();
    Some(match (parts.as_slice(), cursor) {
        (["sessions"], cursor) => Address::Sessions(cursor),
        (["sessions", id], cursor) => Address::Session(id.parse().ok()?, cursor),
        (["iterations", id, index], None) => Address::Iteration(iteration(id, index)?),
        (["iterations", id, index, "image"], None) => Address::Image(iteration(id, index)?, 0),
        (["iterations", id, index, "image", number], None) => {
            Address::Image(iteration(id, index)?, number.parse().ok()?)
        }
        _ => return None,
    })
}

fn iteration(id: &str, index: &str) -> Option<IterationId> {
    Some(id.parse::<SessionId>().ok()?.iteration(index.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_address_has_one_spelling() {
        for text in [
            "retake://sessions",
            "retake://sessions?cursor=abc_-9",
            "retake://sessions/session-2025-12-11-001",
            "retake://sessions/session-2025-12-11-001?cursor=x",
            "retake://iterations/session-2025-12-11-001/3",
            "retake://iterations/session-2025-12-11-001/3/image",
            "retake://iterations/session-2025-12-11-001/3/image/1",
            "ui://retake/app.html",
        ] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "retake:",
            "retake://",
            "retake://sessions/",
            "Retake://sessions",
            "retake://sessions/session-2025-12-11-1",
            "retake://sessions/../../etc/passwd",
            "retake://sessions/session-2025-12-11-001/",
            "retake://sessions/session-2025-12-11-001#3",
            "retake://iterations/session-2025-12-11-001",
            "retake://iterations/session-2025-12-11-001/03",
            "retake://iterations/session-2025-12-11-001/+3",
            "retake://iterations/session-2025-12-11-001/-1",
            "retake://iterations/session-2025-12-11-001/3/image/0",
            "retake://iterations/session-2025-12-11-001/3/image?cursor=x",
            "file:///etc/passwd",
        ] {
            assert_eq!(text.parse::<Address>(), Err(NotAnAddress), "{text}");
        }
    }

    #[test]
    fn addresses_of_images_and_positions_are_immutable() {
        let can_change = |text: &str| text.parse::<Address>().unwrap().can_change();
        assert!(can_change("retake://sessions"));
        assert!(can_change("retake://iterations/session-2025-12-11-001/3"));
        assert!(!can_change("retake://iterations/session-2025-12-11-001/3/image"));
        assert!(!can_change("retake://sessions/session-2025-12-11-001?cursor=x"));
    }
}
