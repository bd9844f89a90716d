//! The pumps of a stdio connection: bytes are forwarded as they arrive, and each line is copied to the tap.
//!
//! Only a response that may be marked is held back until its line is complete; a client cannot use half a line anyway.

use std::io::{self, Read, Write};
use std::sync::Arc;

use memchr::{memchr, memmem};

use super::mark::{Announce, marked};
use super::message::Direction;
use super::observe::Scope;
use super::tap::{MAX_OBSERVED_BYTES, Tap};

/// The number of bytes read at once.
const CHUNK_BYTES: usize = 64 * 1024;
/// All of stdio is one conversation.
const SCOPE: Scope = Scope { group: 0, exchange: 0 };

/// Forwards the client's output to the server, until either disconnects.
pub(crate) fn to_server(mut from: impl Read, mut to: impl Write, tap: &Tap) -> io::Result<()> {
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut lines = LineSplitter::default();
    loop {
        let count = read(&mut from, &mut chunk)?;
        let bytes = chunk.get(..count).unwrap_or_default();
        let complete = if bytes.is_empty() { lines.rest() } else { lines.split(bytes) };
        // Pass the line on before forwarding it: otherwise a fast response would reach the observer before its request.
        // Passing it on never blocks.
        for line in complete {
            let is_call = line.is_call();
            if is_call {
                tap.arm();
            }
            match line {
                ObservedLine::Whole(line) => tap.offer(SCOPE, Direction::ToServer, line, is_call, None),
                ObservedLine::TooLong => tap.skip(is_call),
            }
        }
        let written = to.write_all(bytes).and_then(|()| to.flush());
        written?;
        if bytes.is_empty() {
            return Ok(());
        }
    }
}

/// Forwards the server's output to the client, until the server ends. Continues if the client is gone, since further
/// responses are worth recording.
pub(crate) fn to_client(mut from: impl Read, mut to: impl Write, tap: &Tap, announce: Announce) -> io::Result<()> {
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut lines = LineSplitter::default();
    let mut is_holding = false;
    let mut is_client_gone = false;
    let mut write = |bytes: &[u8]| {
        if !is_client_gone {
            is_client_gone = to.write_all(bytes).and_then(|()| to.flush()).is_err();
        }
    };
    loop {
        let count = read(&mut from, &mut chunk)?;
        let mut rest = chunk.get(..count).unwrap_or_default();
        if rest.is_empty() {
            if is_holding {
                write(lines.pending());
            }
            for line in lines.rest() {
                offer(tap, line);
            }
            return Ok(());
        }
        let mut outgoing: Vec<u8> = Vec::with_capacity(rest.len());
        let mut passed = Vec::new();
        while !rest.is_empty() {
            if lines.is_fresh() {
                is_holding = announce != Announce::Off && tap.is_armed() && starts_like_json(rest);
            }
            let end = memchr(b'\n', rest).map_or(rest.len(), |newline| newline + 1);
            let (piece, after) = rest.split_at(end);
            rest = after;
            let complete = lines.split(piece);
            if !is_holding {
                outgoing.extend_from_slice(piece);
                passed.extend(complete);
                continue;
            }
            match complete.into_iter().next() {
                Some(ObservedLine::Whole(line)) => {
                    // Forward earlier bytes first, without delay.
                    write(&outgoing);
                    outgoing.clear();
                    passed.drain(..).for_each(|line| offer(tap, line));
                    let reference = tap.ask(SCOPE, &line);
                    match reference.and_then(|reference| marked(&line, &reference, announce)) {
                        Some(marked) => write(&marked),
                        None => write(&line),
                    }
                }
                Some(ObservedLine::TooLong) => (),
                None if lines.is_too_long() => {
                    outgoing.extend_from_slice(lines.pending());
                    is_holding = false;
                }
                None => (),
            }
        }
        write(&outgoing);
        passed.into_iter().for_each(|line| offer(tap, line));
    }
}

/// Forwards the server's stderr, and keeps its tail.
pub(crate) fn stderr(mut from: impl Read, mut to: impl Write, keep: impl Fn(&[u8])) -> io::Result<()> {
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let count = read(&mut from, &mut chunk)?;
        let bytes = chunk.get(..count).filter(|bytes| !bytes.is_empty());
        let Some(bytes) = bytes else { return Ok(()) };
        // The server must not block even if our stderr is closed.
        let _ = to.write_all(bytes).and_then(|()| to.flush());
        keep(bytes);
    }
}

fn offer(tap: &Tap, line: ObservedLine) {
    match line {
        ObservedLine::Whole(line) => tap.offer(SCOPE, Direction::ToClient, line, false, None),
        ObservedLine::TooLong => tap.skip(false),
    }
}

fn read(from: &mut impl Read, chunk: &mut [u8]) -> io::Result<usize> {
    loop {
        match from.read(chunk) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
            result => return result,
        }
    }
}

fn starts_like_json(bytes: &[u8]) -> bool {
    matches!(bytes.trim_ascii_start().first(), Some(b'{' | b'[' | 0xEF))
}

/// A complete line.
#[derive(Debug, PartialEq, Eq)]
enum ObservedLine {
    Whole(Arc<Vec<u8>>),
    TooLong,
}

impl ObservedLine {
    /// Returns whether the response to the line may complete an iteration.
    fn is_call(&self) -> bool {
        match self {
            ObservedLine::Whole(line) => may_complete(line),
            ObservedLine::TooLong => false,
        }
    }
}

/// Returns whether a message may be a request whose response completes an iteration: `tools/call`, `resources/read` or
/// `tasks/result`. Encoders may write `tools\/call`, so only the end is searched for.
pub(crate) fn may_complete(message: &[u8]) -> bool {
    [&b"/call\""[..], b"/read\"", b"/result\""].iter().any(|method| memmem::find(message, method).is_some())
}

/// Splits a stream into lines, dropping those that are too long to observe.
#[derive(Debug, Default)]
struct LineSplitter {
    pending: Vec<u8>,
    is_too_long: bool,
}

impl LineSplitter {
    /// Adds bytes, and returns the lines they complete, including line ends.
    fn split(&mut self, mut bytes: &[u8]) -> Vec<ObservedLine> {
        let mut complete = Vec::new();
        while let Some(newline) = memchr(b'\n', bytes) {
            let (line, rest) = bytes.split_at(newline + 1);
            bytes = rest;
            self.add(line);
            complete.extend(self.rest());
        }
        self.add(bytes);
        complete
    }

    fn add(&mut self, bytes: &[u8]) {
        if self.is_too_long {
            // A line that was held back has been written by now.
            self.pending.clear();
        } else {
            self.pending.extend_from_slice(bytes);
            self.is_too_long = self.pending.len() > MAX_OBSERVED_BYTES;
        }
    }

    /// Returns the incomplete rest as a line, if there is any.
    fn rest(&mut self) -> Vec<ObservedLine> {
        let line = std::mem::take(&mut self.pending);
        if std::mem::take(&mut self.is_too_long) {
            vec![ObservedLine::TooLong]
        } else if line.is_empty() {
            Vec::new()
        } else {
            vec![ObservedLine::Whole(Arc::new(line))]
        }
    }

    fn is_fresh(&self) -> bool {
        self.pending.is_empty() && !self.is_too_long
    }

    fn is_too_long(&self) -> bool {
        self.is_too_long
    }

    fn pending(&self) -> &[u8] {
        &self.pending
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A server that responds before `write` returns.
    struct FastServer(Tap);

    impl Write for FastServer {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.offer(SCOPE, Direction::ToClient, Arc::new(b"answer".to_vec()), false, None);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_request_is_seen_before_its_answer() {
        let (tap, passed) = Tap::new(Duration::ZERO);
        to_server(&b"{\"method\":\"tools/call\"}\n"[..], FastServer(tap.clone()), &tap).unwrap();
        let seen: Vec<Direction> = passed.try_iter().flatten().map(|passed| passed.direction).collect();
        assert_eq!(seen.first(), Some(&Direction::ToServer), "{seen:?}");
    }

    #[test]
    fn lines_are_cut_and_too_long_ones_are_left_out() {
        let mut lines = LineSplitter::default();
        let mut cut = Vec::new();
        for piece in b"a\r\nbb\n\nccc".chunks(2) {
            cut.extend(lines.split(piece));
        }
        cut.extend(lines.rest());
        let whole = |text: &str| ObservedLine::Whole(Arc::new(text.as_bytes().to_vec()));
        assert_eq!(cut, [whole("a\r\n"), whole("bb\n"), whole("\n"), whole("ccc")]);
        let long = vec![b'x'; MAX_OBSERVED_BYTES + 1];
        assert_eq!(lines.split(&long), []);
        assert!(lines.is_too_long());
        assert_eq!(lines.split(b"more\nnext\n"), [ObservedLine::TooLong, whole("next\n")]);
    }
}
