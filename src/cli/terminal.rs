//! Queries the terminal for its drawing abilities.
//!
//! Every query ends with one that all terminals answer (primary device attributes), so that this answer also says that no
//! other is to come. A terminal that does not answer within half a second is treated as one that draws nothing.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use crate::platform::RawTerminal;

/// The drawing abilities of a terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Abilities {
    /// Whether it draws images of the kitty protocol that are sent inline.
    pub(super) kitty: bool,
    /// Whether it supports sixels.
    pub(super) sixel: bool,
    /// The width and height of a character cell in pixels.
    pub(super) cell: Option<(u32, u32)>,
}

/// A terminal that can be queried. Dropping this restores its settings.
pub(super) struct Listening {
    terminal: RawTerminal,
}

/// The timeout for an answer, in tenths of a second: several times what a slow connection needs.
const ANSWER_TIMEOUT: u8 = 5;
/// The maximum length of an answer.
const MAX_ANSWER: usize = 4096;

/// Asks whether the terminal draws a kitty image that is sent inline.
const KITTY: &str = "\x1b_Gi=31,s=1,v=1,a=q,t=d,f=24;AAAA\x1b\\";
/// Asks for the size of a character cell and the primary device attributes.
const OTHERS: &str = "\x1b[16t\x1b[c";

impl Listening {
    /// Prepares the terminal of this process; `None` if it cannot be queried.
    pub(super) fn begin() -> Option<Listening> {
        RawTerminal::open(ANSWER_TIMEOUT).map(|terminal| Listening { terminal })
    }

    /// Queries the drawing abilities. The kitty query is only sent to terminals that may support it, since some print
    /// sequences they do not understand.
    pub(super) fn ask(&mut self, may_know_kitty: bool) -> Abilities {
        let query = if may_know_kitty { format!("{KITTY}{OTHERS}") } else { OTHERS.to_owned() };
        let sent = self.terminal.file.write_all(query.as_bytes()).and_then(|()| self.terminal.file.flush());
        if sent.is_err() {
            return Abilities::default();
        }
        let until = Instant::now() + Duration::from_millis(u64::from(ANSWER_TIMEOUT) * 200);
        let mut answer = Vec::new();
        let mut part = [0; 256];
        while abilities(&answer).is_none() && answer.len() < MAX_ANSWER && Instant::now() < until {
            // A read returns nothing after the timeout in the terminal settings.
            match self.terminal.file.read(&mut part) {
                Ok(read @ 1..) => answer.extend_from_slice(part.get(..read).unwrap_or_default()),
                Ok(0) | Err(_) => break,
            }
        }
        abilities(&answer).unwrap_or_default()
    }
}

/// Parses an answer; `None` if it is incomplete.
fn abilities(answer: &[u8]) -> Option<Abilities> {
    let answer = String::from_utf8_lossy(answer);
    let between = |start: &str, end: char| {
        let (_, rest) = answer.split_once(start)?;
        rest.split_once(end).map(|(inside, _)| inside.split(';').collect::<Vec<_>>())
    };
    let attributes = between("\x1b[?", 'c')?;
    let cell = between("\x1b[6;", 't').and_then(|size| match size.as_slice() {
        [height, width] => Some((width.parse().ok()?, height.parse().ok()?)),
        _ => None,
    });
    Some(Abilities {
        kitty: answer.contains("\x1b_Gi=31;OK\x1b\\"),
        sixel: attributes.iter().skip(1).any(|attribute| *attribute == "4"),
        cell: cell.filter(|(width, height)| (2..=200).contains(width) && (2..=400).contains(height)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_parsed_once_it_is_complete() {
        let none = Abilities::default();
        for (answer, meant) in [
            ("", None),
            ("\x1b[?62;4", None),
            ("\x1b[?6c", Some(none)),
            ("\x1b[?62;22c", Some(none)),
            ("\x1b[?4c", Some(none)),
            ("\x1b[?62;4c", Some(Abilities { sixel: true, ..none })),
            ("q\x1b[6;20;10t\x1b[?62;4;22c", Some(Abilities { sixel: true, cell: Some((10, 20)), ..none })),
            ("\x1b[6;0;0t\x1b[?62c", Some(none)),
            ("\x1b_Gi=31;OK\x1b\\\x1b[?62;c", Some(Abilities { kitty: true, ..none })),
            ("\x1b_Gi=31;ENOTSUPPORTED\x1b\\\x1b[?62;c", Some(none)),
        ] {
            assert_eq!(abilities(answer.as_bytes()), meant, "{answer:?}");
        }
    }
}
