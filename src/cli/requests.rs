//! Parses a stream of JSON requests, one per line or concatenated. Each is returned as soon as its last byte has
//! arrived, so that it can be answered before the next one is written. An invalid one is reported with line and column,
//! and reading continues at the next line that starts with a brace.

use std::io::{self, BufRead, BufReader, Read};
use std::str;

use serde::de::IgnoredAny;
use serde_json::Deserializer;

use crate::wire::{Error, ErrorKind, RecordRequest};

use super::exit::invalid;

/// The maximum size of a request: several large images as base64.
const MAX_BYTES: usize = 512 * 1024 * 1024;

/// The requests of a stream.
pub(super) struct Requests<R> {
    source: Source<R>,
    ended: bool,
}

impl<R: Read> Requests<R> {
    /// Creates an iterator over the requests of a stream.
    pub(super) fn new(source: R) -> Requests<R> {
        let source = BufReader::with_capacity(1 << 16, source);
        let place = InputPosition { line: 1, column: 1 };
        Requests { source: Source { source, taken: Vec::new(), brace_again: false, place }, ended: false }
    }

    fn request(&mut self) -> io::Result<Option<Result<RecordRequest, Error>>> {
        let Some(first) = self.source.skip_space()? else { return Ok(None) };
        let start = self.source.place;
        self.source.taken.clear();
        if first != b'{' {
            self.source.skip_to_request()?;
            return Ok(Some(Err(no_object(first, start))));
        }
        let scanned = Deserializer::from_reader(&mut self.source).into_iter::<IgnoredAny>().next();
        match scanned {
            Some(Ok(_)) => Ok(Some(read(&self.source.taken, start))),
            Some(Err(error)) if error.is_io() && self.source.taken.len() < MAX_BYTES => Err(error.into()),
            Some(Err(error)) => {
                let reported = unread(&error, &self.source.taken, start);
                self.source.skip_to_request()?;
                Ok(Some(Err(reported)))
            }
            None => Ok(None),
        }
    }
}

impl<R: Read> Iterator for Requests<R> {
    type Item = Result<RecordRequest, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        self.request().unwrap_or_else(|error| {
            self.ended = true;
            let hint = "what was answered is recorded; send the rest again";
            Some(Err(Error::new(ErrorKind::Internal, "cannot read on", hint).caused_by(error)))
        })
    }
}

/// A position in the stream, counted from 1; columns in bytes.
#[derive(Clone, Copy)]
struct InputPosition {
    line: usize,
    column: usize,
}

impl InputPosition {
    /// Returns the absolute position of a position relative to this one.
    fn at(self, line: usize, column: usize) -> InputPosition {
        match line {
            0 | 1 => InputPosition { line: self.line, column: self.column + column.saturating_sub(1) },
            _ => InputPosition { line: self.line + line - 1, column: column.max(1) },
        }
    }
}

impl std::fmt::Display for InputPosition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// The stream, read byte by byte, since the next byte may only arrive after the response.
struct Source<R> {
    source: BufReader<R>,
    /// The bytes of the current request.
    taken: Vec<u8>,
    /// Whether the last byte, a brace, must be read again.
    brace_again: bool,
    /// The position of the next byte.
    place: InputPosition,
}

impl<R: Read> Source<R> {
    /// Returns the next byte without consuming it; `None` at the end.
    fn peek(&mut self) -> io::Result<Option<u8>> {
        if self.brace_again {
            return Ok(Some(b'{'));
        }
        loop {
            match self.source.fill_buf() {
                Ok(bytes) => return Ok(bytes.first().copied()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Consumes the peeked byte.
    fn pass(&mut self, byte: u8) {
        if !std::mem::take(&mut self.brace_again) {
            self.source.consume(1);
        }
        if byte == b'\n' {
            self.place = InputPosition { line: self.place.line + 1, column: 1 };
        } else {
            self.place.column += 1;
        }
    }

    /// Skips to the first byte of the next request; `None` at the end.
    fn skip_space(&mut self) -> io::Result<Option<u8>> {
        loop {
            match self.peek()? {
                // Some programs start a file with a byte order mark.
                Some(byte @ (0xef | 0xbb | 0xbf)) if self.place.line == 1 && self.place.column <= 3 => self.pass(byte),
                Some(byte) if byte.is_ascii_whitespace() => self.pass(byte),
                other => return Ok(other),
            }
        }
    }

    /// Skips to the next line that starts with a brace, or to the end.
    fn skip_to_request(&mut self) -> io::Result<()> {
        // The brace may already have been consumed as an unexpected byte of an unterminated request.
        if let [.., b'\n', b'{'] = *self.taken {
            self.brace_again = true;
            self.place.column = 1;
            return Ok(());
        }
        while let Some(byte) = self.peek()? {
            if byte == b'{' && self.place.column == 1 {
                break;
            }
            self.pass(byte);
        }
        Ok(())
    }
}

impl<R: Read> Read for Source<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if self.taken.len() >= MAX_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let (Some(slot), Some(byte)) = (bytes.first_mut(), self.peek()?) else { return Ok(0) };
        self.pass(byte);
        self.taken.push(byte);
        *slot = byte;
        Ok(1)
    }
}

/// Deserialises a request.
fn read(bytes: &[u8], start: InputPosition) -> Result<RecordRequest, Error> {
    if let Some(error) = not_utf8(bytes, start) {
        return Err(error);
    }
    serde_json::from_slice(bytes).map_err(|error| {
        let text = error.to_string();
        let what = text.rsplit_once(" at line ").map_or(text.as_str(), |(what, _)| what);
        let place = start.at(error.line(), error.column());
        let message = |what: &str| format!("{what}, at {place}");
        match what.split_once(", expected ") {
            Some((what, wanted)) if what.starts_with("unknown field") => {
                invalid(message(what), format!("the fields are {}", wanted.trim_start_matches("one of ")))
            }
            Some((what, wanted)) => invalid(message(what), format!("give {wanted}")),
            None => invalid(message(what), SHAPE),
        }
    })
}

const SHAPE: &str = "give JSON objects such as {\"prompt\": \"a cat\", \"seed\": \"42\"}, one a line";

/// Returns the error for a request that is not valid JSON.
fn unread(error: &serde_json::Error, taken: &[u8], start: InputPosition) -> Error {
    if error.is_io() {
        return invalid(
            format!("the request that begins at {start} is longer than {MAX_BYTES} bytes"),
            "give images as paths, not as base64",
        );
    }
    if error.is_eof() {
        return invalid(format!("the input ends within the request that begins at {start}"), SHAPE);
    }
    not_utf8(taken, start).unwrap_or_else(|| {
        let text = error.to_string();
        let what = text.rsplit_once(" at line ").map_or(text.as_str(), |(what, _)| what);
        invalid(format!("this is not JSON: {what}, at {}", start.at(error.line(), error.column())), SHAPE)
    })
}

/// Returns the error for bytes that do not start a request.
fn no_object(first: u8, start: InputPosition) -> Error {
    let hint = match first {
        b'[' => "leave out the brackets around the objects, and the commas between them",
        _ => SHAPE,
    };
    invalid(format!("a request is a JSON object, and there is none at {start}"), hint)
}

fn not_utf8(bytes: &[u8], start: InputPosition) -> Option<Error> {
    let good = str::from_utf8(bytes).err().filter(|error| error.error_len().is_some())?.valid_up_to();
    let before = bytes.get(..good)?;
    let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
    let column = before.iter().rev().take_while(|byte| **byte != b'\n').count() + 1;
    let message = format!("the input is not UTF-8, at {}", start.at(line, column));
    Some(invalid(message, "save it as UTF-8, without which the prompt would not be what was typed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prompts(input: &[u8]) -> Vec<String> {
        Requests::new(input).map(|request| request.map_or_else(|error| error.message, |it| it.prompt)).collect()
    }

    #[test]
    fn requests_are_separated_by_any_white_space() {
        assert_eq!(prompts(b""), [""; 0]);
        assert_eq!(prompts(b" \n\t\r\n"), [""; 0]);
        assert_eq!(prompts(b"{\"prompt\":\"a\"}"), ["a"]);
        assert_eq!(prompts(b"{\"prompt\":\"a\"}\n{\"prompt\":\"b\"}\n"), ["a", "b"]);
        assert_eq!(prompts(b"{\"prompt\":\"}{\"} {\"prompt\":\"b\",\n  \"parameters\": {}\n}\n"), ["}{", "b"]);
        assert_eq!(prompts(b"\xef\xbb\xbf{\"prompt\":\"a\"}"), ["a"]);
    }

    #[test]
    fn a_bad_request_is_reported_and_the_next_is_read() {
        let good = "{\"prompt\":\"good\"}\n";
        for (bad, message) in [
            ("nonsense", "a request is a JSON object, and there is none at line 2, column 1"),
            ("[{\"prompt\":\"a\"}]", "a request is a JSON object, and there is none at line 2, column 1"),
            ("{\"prompt\":\"a\"", "this is not JSON: expected `,` or `}`, at line 3, column 1"),
            (
                "{\"prompt\": \"a",
                "this is not JSON: control character (\\u0000-\\u001F) found while parsing a string, at line 3, column 1",
            ),
            ("{\n  \"prompt\": oops,\n  \"seed\": 3\n}", "this is not JSON: expected value, at line 3, column 13"),
            ("{\"promt\":\"a\"}", "unknown field `promt`, at line 2, column 8"),
            ("{\"prompt\":\"a\", \"prompt\":\"b\"}", "duplicate field `prompt`, at line 2, column 23"),
        ] {
            assert_eq!(prompts(format!("{good}{bad}\n{good}").as_bytes()), ["good", message, "good"], "{bad}");
        }
        let error = Requests::new(&b"{\"promt\":1}"[..]).next().unwrap().unwrap_err();
        assert!(error.hint.starts_with("the fields are `prompt`, `sessionId`"), "{}", error.hint);
        let error = Requests::new(&b"{\"prompt\":\"a\",\"seed\":-1}"[..]).next().unwrap().unwrap_err();
        assert_eq!(error.message, "invalid value: integer `-1`, at line 1, column 23");
        assert!(error.hint.starts_with("give a seed: a whole number from 0 to 18446744073709551615"), "{}", error.hint);
    }

    #[test]
    fn invalid_utf_8_is_reported_with_its_position() {
        let input = b"{\"prompt\":\"a\xff\"}\n{\"prompt\":\n\"b\xe4 \"}\n{\"prompt\":\"c\"}";
        let at = |place: &str| format!("the input is not UTF-8, at {place}");
        assert_eq!(prompts(input), [at("line 1, column 13"), at("line 3, column 3"), "c".to_owned()]);
    }

    #[test]
    fn a_truncated_request_is_reported() {
        assert_eq!(
            prompts(b"{\"prompt\":\"a\"}\n{\"prompt\": "),
            ["a", "the input ends within the request that begins at line 2, column 1"]
        );
    }

    #[test]
    fn a_request_is_returned_without_waiting_for_the_next_byte() {
        /// A reader that fails after its last byte.
        struct UnfinishedReader<'a>(&'a [u8]);
        impl Read for UnfinishedReader<'_> {
            fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
                if self.0.is_empty() { Err(io::ErrorKind::TimedOut.into()) } else { self.0.read(bytes) }
            }
        }
        let mut requests = Requests::new(UnfinishedReader(b"{\"prompt\":\"a\"}"));
        assert_eq!(requests.next().unwrap().unwrap().prompt, "a");
        let broken = requests.next().unwrap().unwrap_err();
        assert_eq!((broken.message.as_str(), broken.causes.len()), ("cannot read on", 1));
        assert!(requests.next().is_none());
    }
}
