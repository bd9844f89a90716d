//! What the terminal can draw, as it answers when it is asked.
//!
//! Every question ends with one that all terminals answer (what are you?), so that the answer to it also says that no other
//! is to come. A terminal that says nothing is waited for half a second, and then taken for one that draws nothing: the crate
//! that draws asks too, and waits for ever.
//!
//! The terminal's settings are changed through `stty`, which is wherever there are terminals of this kind; the calls
//! themselves need `unsafe`, or another crate for two of them. Where there is no `stty`, nothing is asked.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// What it can draw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Abilities {
    /// Kitty's pictures, sent along or named as a file.
    pub(super) kitty: bool,
    /// Sixels.
    pub(super) sixel: bool,
    /// The width and height of a character in pixels.
    pub(super) cell: Option<(u32, u32)>,
}

/// The terminal, while what it answers is neither shown nor kept back until the line ends. Dropping this ends that.
pub(super) struct Listening {
    terminal: File,
    /// Its settings, as `stty` takes them back.
    before: String,
}

/// How long a terminal may take to answer, in tenths of a second: a few times what the slowest connection takes.
const PATIENCE: u8 = 5;
/// All of an answer, and more than that is none.
const LONGEST_ANSWER: usize = 4096;

/// Whether it draws a picture that is sent along, and one that is in a file; the file named here is none.
const KITTY: &str = "\x1b_Gi=31,s=1,v=1,a=q,t=d,f=24;AAAA\x1b\\\x1b_Gi=32,s=1,v=1,a=q,t=t,f=24;L25vbmU=\x1b\\";
/// How large is a character, and what are you?
const OTHERS: &str = "\x1b[16t\x1b[c";

impl Listening {
    /// Begins to listen; nothing when there is no terminal that one could listen to.
    pub(super) fn begin() -> Option<Listening> {
        if !is_in_front() {
            return None;
        }
        let terminal = File::options().read(true).write(true).open("/dev/tty").ok()?;
        let before = stty(&terminal, &["-g"])?.trim().to_owned();
        let listening = Listening { terminal, before };
        stty(&listening.terminal, &["-icanon", "-echo", "min", "0", "time", &PATIENCE.to_string()])?;
        Some(listening)
    }

    /// What it can draw. Kitty's question is only for those that may know it: some print what they do not understand.
    pub(super) fn ask(&mut self, may_know_kitty: bool) -> Abilities {
        let question = if may_know_kitty { format!("{KITTY}{OTHERS}") } else { OTHERS.to_owned() };
        let asked = self.terminal.write_all(question.as_bytes()).and_then(|()| self.terminal.flush());
        if asked.is_err() {
            return Abilities::default();
        }
        let until = Instant::now() + Duration::from_millis(u64::from(PATIENCE) * 200);
        let mut answer = Vec::new();
        let mut part = [0; 256];
        while abilities(&answer).is_none() && answer.len() < LONGEST_ANSWER && Instant::now() < until {
            // Nothing at all is what a read gives after the time that was set.
            match self.terminal.read(&mut part) {
                Ok(read @ 1..) => answer.extend_from_slice(part.get(..read).unwrap_or_default()),
                Ok(0) | Err(_) => break,
            }
        }
        abilities(&answer).unwrap_or_default()
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        // Shells set their terminal again by themselves, should this fail.
        let _ = stty(&self.terminal, &[&self.before]);
    }
}

/// Whether this process may change the terminal's settings: one in the background would be stopped for it. Where that
/// cannot be told, it is taken to be in front, as nearly all are.
fn is_in_front() -> bool {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // Behind the name, which may hold anything: state, parent, group, session, terminal, the group in front.
    let fields = stat.rsplit_once(") ").map(|(_, rest)| rest.split(' ').collect::<Vec<_>>()).unwrap_or_default();
    fields.get(2) == fields.get(5)
}

fn stty(terminal: &File, args: &[&str]) -> Option<String> {
    let mut command = Command::new("stty");
    command.args(args).stdin(terminal.try_clone().ok()?).stderr(Stdio::null());
    let output = command.output().ok().filter(|output| output.status.success())?;
    String::from_utf8(output.stdout).ok()
}

/// What an answer says; nothing while its end is still to come.
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
        kitty: answer.contains("\x1b_Gi=31;OK\x1b\\") && answer.contains("\x1b_Gi=32;"),
        sixel: attributes.iter().skip(1).any(|attribute| *attribute == "4"),
        cell: cell.filter(|(width, height)| (2..=200).contains(width) && (2..=400).contains(height)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_understood_once_it_is_whole() {
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
            ("\x1b_Gi=31;OK\x1b\\\x1b_Gi=32;EBADF:none\x1b\\\x1b[?62;c", Some(Abilities { kitty: true, ..none })),
            ("\x1b_Gi=31;OK\x1b\\\x1b[?62;c", Some(none)),
            ("\x1b_Gi=31;ENOTSUPPORTED\x1b\\\x1b_Gi=32;E\x1b\\\x1b[?62;c", Some(none)),
        ] {
            assert_eq!(abilities(answer.as_bytes()), meant, "{answer:?}");
        }
    }
}
