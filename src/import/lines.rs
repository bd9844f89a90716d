//! `import`: takes in what [`export`](Workspace::export) wrote: the same ids, times and hashes. Goes on past what is bad.

use std::borrow::Cow;
use std::io::{self, BufRead, Read};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::images::MAX_IMAGE_BYTES;
use crate::model::{Hash, SessionId};
use crate::store;

use crate::export::VERSION;
use crate::workspace::{Error, Workspace};

/// What an import came to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImportReport {
    /// Sessions that got something new.
    pub sessions: u64,
    /// Events that are new here.
    pub events: u64,
    /// Images that are new here.
    pub images: u64,
    /// Events that were here already.
    pub skipped: u64,
    /// What could not be taken in, at most 1000 of it.
    pub problems: Vec<ImportProblem>,
    /// How many more problems there were.
    pub problems_omitted: u64,
}

/// Something that could not be taken in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImportProblem {
    /// The line of the file, from 1.
    pub line: u64,
    /// Why.
    pub reason: String,
}

impl Workspace {
    /// Takes in an export, a session at a time. Importing twice changes nothing. A line or session that is bad is
    /// reported and passed over; a disk that fails ends it.
    pub fn import(&self, input: &mut dyn BufRead) -> Result<ImportReport, Error> {
        let mut import =
            Import { workspace: self, report: ImportReport::default(), understood: 0, session: None, last_new: None };
        let mut line = Vec::new();
        for number in 1.. {
            line.clear();
            match read_line(input, &mut line, MAX_LINE_BYTES) {
                Ok(LineRead::End) => break,
                Ok(LineRead::TooLong) => import.problem(number, "the line is longer than any that an export has"),
                Ok(LineRead::Whole) if line.trim_ascii().is_empty() => {}
                Ok(LineRead::Whole) => import.line(number, &line)?,
                Err(error) => {
                    import.problem(number, format!("cannot read on: {error}"));
                    break;
                }
            }
            if import.understood == 0 && number >= GIVE_UP_AFTER {
                break;
            }
            self.report("importing", number, 0);
        }
        import.flush()?;
        if import.understood == 0 {
            return Err(Error::InvalidInput {
                problem: "this is not a Retake export: none of its first lines can be read".to_owned(),
                hint: "pass a file that Retake exported",
            });
        }
        Ok(import.report)
    }
}

/// The longest line there can be: the largest image as base64, and a little around it.
const MAX_LINE_BYTES: u64 = MAX_IMAGE_BYTES / 3 * 4 + 64 * 1024;
/// How many records, and how many bytes of them, are collected before they are appended.
const FLUSH_RECORDS: usize = 1000;
const FLUSH_BYTES: usize = 16 * 1024 * 1024;
/// How many lines without sense it takes to see that a file is no export.
const GIVE_UP_AFTER: u64 = 100;
/// The most problems a report names.
const MAX_PROBLEMS: usize = 1000;

/// What is needed of a line. What `export` writes beside it is for people.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "camelCase")]
enum Line<'a> {
    #[serde(rename = "retake-export")]
    Header { version: u32 },
    Text {
        hash: Hash,
        #[serde(borrow)]
        text: Cow<'a, str>,
    },
    Image {
        hash: Hash,
        #[serde(borrow)]
        data: Cow<'a, str>,
    },
    Event {
        session: SessionId,
        #[serde(borrow)]
        record: Cow<'a, str>,
    },
}

struct Import<'a> {
    workspace: &'a Workspace,
    report: ImportReport,
    understood: u64,
    /// The session whose records are being collected.
    session: Option<Collected>,
    /// The last session that got something new.
    last_new: Option<SessionId>,
}

struct Collected {
    id: SessionId,
    records: Vec<Vec<u8>>,
    /// The line of each record.
    lines: Vec<u64>,
    bytes: usize,
}

impl Collected {
    fn is_full(&self) -> bool {
        self.records.len() >= FLUSH_RECORDS || self.bytes >= FLUSH_BYTES
    }
}

impl Import<'_> {
    fn line(&mut self, number: u64, line: &[u8]) -> Result<(), Error> {
        let line: Line<'_> = match serde_json::from_slice(line) {
            Ok(line) => line,
            Err(error) => {
                self.problem(number, format!("not a line of an export: {error}"));
                return Ok(());
            }
        };
        self.understood += 1;
        match line {
            Line::Header { version } if version > VERSION => Err(Error::InvalidInput {
                problem: format!("the export has version {version}, and this Retake reads up to {VERSION}"),
                hint: "update Retake: the file was written by a newer version",
            }),
            Line::Header { .. } => Ok(()),
            Line::Text { hash, text } => self.text(number, hash, &text),
            Line::Image { hash, data } => self.image(number, hash, &data),
            Line::Event { session, record } => self.event(number, session, &record),
        }
    }

    fn text(&mut self, number: u64, hash: Hash, text: &str) -> Result<(), Error> {
        if Hash::of(text.as_bytes()) == hash {
            self.workspace.log.put_text(text)?;
        } else {
            self.problem(number, format!("the text is not the one of hash {hash}"));
        }
        Ok(())
    }

    fn image(&mut self, number: u64, hash: Hash, data: &str) -> Result<(), Error> {
        let images = &self.workspace.images;
        match STANDARD.decode(data) {
            Ok(bytes) if Hash::of(&bytes) == hash => {
                // Looking at the bytes, and not only for the name, mends an image that is damaged here.
                if images.check(hash).is_err() {
                    images.put_known(&bytes)?;
                    self.report.images += 1;
                }
            }
            Ok(_) => self.problem(number, format!("the image is not the one of hash {hash}")),
            Err(error) => self.problem(number, format!("the image {hash} is not base64: {error}")),
        }
        Ok(())
    }

    fn event(&mut self, number: u64, id: SessionId, record: &str) -> Result<(), Error> {
        let record = match STANDARD.decode(record) {
            Ok(record) => record,
            Err(error) => {
                self.problem(number, format!("the record of {id} is not base64: {error}"));
                return Ok(());
            }
        };
        if self.session.as_ref().is_some_and(|session| session.id != id || session.is_full()) {
            self.flush()?;
        }
        let session =
            self.session.get_or_insert_with(|| Collected { id, records: Vec::new(), lines: Vec::new(), bytes: 0 });
        session.bytes += record.len();
        session.records.push(record);
        session.lines.push(number);
        Ok(())
    }

    /// Appends what was collected. When the store refuses it, appends as much from the beginning as it takes.
    fn flush(&mut self) -> Result<(), Error> {
        let Some(session) = self.session.take() else { return Ok(()) };
        let Collected { id, records, lines, .. } = &session;
        if self.append(*id, records)?.is_none() {
            return Ok(());
        }
        // A session begins with two events at once, so that it is never without an iteration.
        let first = if self.workspace.log.head(*id)?.is_some() { 1 } else { 2 };
        let (start, rest) = records.split_at(first.min(records.len()));
        let parts = std::iter::once(start).chain(rest.chunks(1));
        let mut done = 0;
        for part in parts {
            if let Some(refused) = self.append(*id, part)? {
                let line = lines.get(done).copied().unwrap_or_default();
                let left = records.len() - done;
                self.problem(line, format!("{id}: {refused}; {left} of its events were not taken in"));
                return Ok(());
            }
            done += part.len();
        }
        Ok(())
    }

    /// Why the store refuses these records; none when it takes them, and an error when it cannot go on at all.
    fn append(&mut self, id: SessionId, records: &[Vec<u8>]) -> Result<Option<String>, Error> {
        match self.workspace.log.import(records) {
            Ok(new) => {
                self.report.events += new;
                self.report.skipped += (records.len() as u64).saturating_sub(new);
                if new > 0 && self.last_new.replace(id) != Some(id) {
                    self.report.sessions += 1;
                }
                Ok(None)
            }
            Err(error @ (store::Error::Io { .. } | store::Error::Database(_) | store::Error::InUse(_))) => {
                Err(error.into())
            }
            Err(store::Error::Import { problem, .. }) => Ok(Some(problem.into_owned())),
            Err(refused) => Ok(Some(refused.to_string())),
        }
    }

    fn problem(&mut self, line: u64, reason: impl Into<String>) {
        if self.report.problems.len() < MAX_PROBLEMS {
            self.report.problems.push(ImportProblem { line, reason: reason.into() });
        } else {
            self.report.problems_omitted += 1;
        }
    }
}

enum LineRead {
    Whole,
    TooLong,
    End,
}

/// Reads up to the next line break, which is not kept. Of a line that is too long, nothing is kept.
fn read_line(input: &mut dyn BufRead, line: &mut Vec<u8>, most: u64) -> io::Result<LineRead> {
    let mut within = input.take(most + 1);
    let read = within.read_until(b'\n', line)?;
    if read == 0 {
        return Ok(LineRead::End);
    }
    if line.pop_if(|last| *last == b'\n').is_some() || line.len() as u64 <= most {
        return Ok(LineRead::Whole);
    }
    *line = Vec::new();
    input.skip_until(b'\n')?;
    Ok(LineRead::TooLong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_whole_or_passed_over() {
        let mut input = &b"one\n\ntoo long a line\nfour\nlast"[..];
        let mut lines = Vec::new();
        loop {
            let mut line = Vec::new();
            match read_line(&mut input, &mut line, 4).unwrap() {
                LineRead::Whole => lines.push(String::from_utf8(line).unwrap()),
                LineRead::TooLong => lines.push("…".to_owned()),
                LineRead::End => break,
            }
        }
        assert_eq!(lines, ["one", "", "…", "four", "last"]);
    }

    #[test]
    fn the_largest_image_fits_a_line() {
        let base64 = MAX_IMAGE_BYTES.div_ceil(3) * 4;
        assert!(base64 + 200 < MAX_LINE_BYTES);
    }
}
