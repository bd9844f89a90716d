//! Imports what Retake exported: JSON lines, the `session.jsonl` of an exported folder, and audit bundles. Ids, times
//! and hashes are preserved. Bad lines are reported and skipped.
//!
//! If a session's id is taken by a different session, as happens often when two machines are merged, the clash is
//! reported, or with [`renumber`](ImportOptions::renumber) the session is recorded under a new id (`renumber.rs`).

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::export::{BundleFiles, BundlePart, EventLine, Piece, VERSION, apply};
use crate::images::MAX_IMAGE_BYTES;
use crate::model::{Event, Hash, SessionId};
use crate::store::{self, Detail};
use crate::workspace::{Error, Workspace};

use super::renumber;

/// Options for importing an export.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    /// Gives sessions whose ids are taken new ids.
    pub renumber: bool,
    /// Only reports what would be done.
    pub dry_run: bool,
    /// The folder of the files that the lines name.
    pub folder: Option<PathBuf>,
}

/// The outcome of importing an export.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImportReport {
    /// Present and true if nothing was written.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
    /// Sessions that got something new.
    pub sessions: u64,
    /// Events that are new here.
    pub events: u64,
    /// Images that are new here.
    pub images: u64,
    /// Events that were here already.
    pub skipped: u64,
    /// Sessions that were given new ids, since theirs were taken.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub renumbered: Vec<Renumbered>,
    /// What could not be taken in, at most 1000 of it.
    pub problems: Vec<ImportProblem>,
    /// How many more problems there were.
    pub problems_omitted: u64,
    /// Whether sessions were left out because their ids belong to other sessions here.
    #[serde(skip)]
    pub ids_taken: bool,
}

/// A session that was given a new id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Renumbered {
    /// Its id where it comes from.
    pub from: SessionId,
    /// Its id here.
    pub to: SessionId,
}

/// Something that could not be taken in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImportProblem {
    /// The line of the file, from 1; of a bundle, the line of the session's file.
    pub line: u64,
    /// Why.
    pub reason: String,
}

impl Workspace {
    /// Takes in an export, a session at a time. Importing twice changes nothing. A line or session that is bad is
    /// reported and passed over; a disk that fails ends it.
    pub fn import(&self, input: &mut dyn BufRead) -> Result<ImportReport, Error> {
        self.import_lines(input, &ImportOptions::default())
    }

    /// Takes in an export as [`import`](Workspace::import) does, with options.
    pub fn import_lines(&self, input: &mut dyn BufRead, options: &ImportOptions) -> Result<ImportReport, Error> {
        let mut import = Import::new(self, options);
        import.read(input, None)?;
        import.append_collected()?;
        if import.understood == 0 {
            return Err(Error::InvalidInput {
                problem: "this is neither an image, a folder, a bundle nor a Retake export".to_owned(),
                hint: "pass a file that Retake exported",
            });
        }
        Ok(import.report)
    }

    /// Takes in an audit bundle; `None` if the file is something else.
    pub fn import_bundle(&self, path: &Path, options: &ImportOptions) -> Result<Option<ImportReport>, Error> {
        let unread = |source| Error::InvalidBundle {
            path: path.to_owned(),
            problem: "cannot read the bundle",
            source: Some(source),
        };
        let Some(bundle) = BundleFiles::open(path).map_err(unread)? else { return Ok(None) };
        let mut import = Import::new(self, options);
        if !bundle.is_whole {
            import.problem(0, "the bundle is cut short or damaged: everything readable was imported");
        }
        for part in bundle.parts() {
            let (part, size, mut content) = part.map_err(unread)?;
            match part {
                BundlePart::Session(id) => import.read(&mut BufReader::new(content), Some(id))?,
                _ if size > MAX_IMAGE_BYTES => import.problem(0, format!("{part:?} is too large")),
                BundlePart::Text(hash) => {
                    let mut text = String::new();
                    let read = content.read_to_string(&mut text).map(|_| ());
                    read.map_err(unread)?;
                    import.text(0, hash, &text)?;
                }
                BundlePart::Image(hash) => {
                    let mut bytes = Vec::new();
                    content.read_to_end(&mut bytes).map_err(unread)?;
                    import.image(0, hash, Some(bytes))?;
                }
            }
        }
        import.append_collected()?;
        Ok(Some(import.report))
    }
}

/// The maximum length of a line: the largest image as base64, and some overhead.
const MAX_LINE_BYTES: u64 = MAX_IMAGE_BYTES / 3 * 4 + 64 * 1024;
/// What the store answers if an id is taken by another session.
const TAKEN: &str = "the id belongs to a different session here";
/// The number of records that are collected before they are appended.
const FLUSH_RECORDS: usize = 1000;
/// The number of bytes of records that are collected before they are appended.
const FLUSH_BYTES: usize = 16 * 1024 * 1024;
/// The number of unreadable lines after which a file counts as something other than an export.
const GIVE_UP_AFTER: u64 = 100;
/// The maximum number of problems that a report names.
const MAX_PROBLEMS: usize = 1000;

/// The parts of a line that import needs; `export` writes the rest for people.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "camelCase")]
enum ExportLine<'a> {
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
    /// A file in the same folder that an original image is reconstructed from.
    File {
        #[serde(borrow)]
        name: Cow<'a, str>,
        hash: Hash,
        pieces: Vec<Piece>,
    },
    Event {
        session: SessionId,
        #[serde(borrow)]
        record: Cow<'a, str>,
    },
}

pub(super) struct Import<'a> {
    pub(super) workspace: &'a Workspace,
    pub(super) options: &'a ImportOptions,
    pub(super) report: ImportReport,
    understood: u64,
    /// The session whose records are being collected; with `renumber`, all sessions.
    collected: Vec<Collected>,
    /// The last session that received something new.
    last_new: Option<SessionId>,
}

/// Records of one session.
pub(super) struct Collected {
    pub(super) id: SessionId,
    pub(super) records: Vec<Vec<u8>>,
    /// The line number of each record.
    pub(super) lines: Vec<u64>,
    bytes: usize,
}

impl Collected {
    fn is_full(&self) -> bool {
        self.records.len() >= FLUSH_RECORDS || self.bytes >= FLUSH_BYTES
    }
}

impl<'a> Import<'a> {
    fn new(workspace: &'a Workspace, options: &'a ImportOptions) -> Import<'a> {
        let report = ImportReport { dry_run: options.dry_run, ..ImportReport::default() };
        Import { workspace, options, report, understood: 0, collected: Vec::new(), last_new: None }
    }

    /// Reads lines; in a bundle, those of one session.
    fn read(&mut self, input: &mut dyn BufRead, of: Option<SessionId>) -> Result<(), Error> {
        let mut line = Vec::new();
        for number in 1.. {
            line.clear();
            match read_line(input, &mut line, MAX_LINE_BYTES) {
                Ok(LineRead::End) => break,
                Ok(LineRead::TooLong) => self.problem(number, "the line is longer than any that an export has"),
                Ok(LineRead::Whole) if line.trim_ascii().is_empty() => {}
                Ok(LineRead::Whole) => self.line(number, &line, of)?,
                Err(error) => {
                    self.problem(number, format!("cannot read further: {error}"));
                    break;
                }
            }
            if self.understood == 0 && number >= GIVE_UP_AFTER {
                break;
            }
            self.workspace.report("importing", number, 0);
        }
        Ok(())
    }

    /// Appends the remaining records. With `renumber`, clashes are only known at this point.
    fn append_collected(&mut self) -> Result<(), Error> {
        let collected = std::mem::take(&mut self.collected);
        if self.options.renumber {
            return renumber::append_collected(self, collected);
        }
        collected.into_iter().try_for_each(|session| self.flush(&session))
    }

    fn line(&mut self, number: u64, line: &[u8], of: Option<SessionId>) -> Result<(), Error> {
        let bytes = line;
        let line: ExportLine<'_> = match serde_json::from_slice(bytes) {
            Ok(line) => line,
            Err(error) => {
                self.problem(number, format!("not a line of an export: {error}"));
                return Ok(());
            }
        };
        self.understood += 1;
        match line {
            ExportLine::Header { version } if version > VERSION => Err(Error::InvalidInput {
                problem: format!("the export has version {version}, and this Retake reads up to {VERSION}"),
                hint: "update Retake: the file was written by a newer version",
            }),
            ExportLine::Header { .. } => Ok(()),
            ExportLine::Text { hash, text } => self.text(number, hash, &text),
            ExportLine::Image { hash, data } => match STANDARD.decode(&*data) {
                Ok(bytes) => self.image(number, hash, Some(bytes)),
                Err(error) => {
                    self.problem(number, format!("the image {hash} is not base64: {error}"));
                    Ok(())
                }
            },
            ExportLine::File { name, hash, pieces } => {
                let original = self.original(&name, &pieces);
                if original.is_none() {
                    let reason =
                        format!("{name} is missing or changed, so that image {hash} cannot be restored from it");
                    // An image that is already here needs no file.
                    if self.workspace.images.check(hash).is_err() {
                        self.problem(number, reason);
                    }
                    return Ok(());
                }
                self.image(number, hash, original)
            }
            ExportLine::Event { session, .. } if of.is_some_and(|of| of != session) => {
                self.problem(number, format!("the line belongs to {session}"));
                Ok(())
            }
            ExportLine::Event { session, record } => self.event(number, session, &record, bytes),
        }
    }

    fn text(&mut self, number: u64, hash: Hash, text: &str) -> Result<(), Error> {
        if Hash::of(text.as_bytes()) != hash {
            self.problem(number, format!("the text does not match the hash {hash}"));
        } else if !self.options.dry_run {
            self.workspace.log.put_text(text)?;
        }
        Ok(())
    }

    /// Reconstructs an original from a file in the folder; `None` if that is not possible.
    fn original(&self, name: &str, pieces: &[Piece]) -> Option<Vec<u8>> {
        // Accept only plain file names, so that the path stays inside the folder.
        let is_plain = !name.starts_with('.') && !name.contains(['/', '\\', ':', '\0']);
        let path = self.options.folder.as_ref().filter(|_| is_plain)?.join(name);
        let mut bytes = Vec::new();
        let file = File::open(path).ok().filter(|file| file.metadata().is_ok_and(|found| found.is_file()))?;
        file.take(MAX_IMAGE_BYTES).read_to_end(&mut bytes).ok()?;
        apply(&bytes, pieces)
    }

    fn image(&mut self, number: u64, hash: Hash, bytes: Option<Vec<u8>>) -> Result<(), Error> {
        let images = &self.workspace.images;
        match bytes {
            Some(bytes) if Hash::of(&bytes) == hash => {
                // Checking the bytes, not only whether the file exists, restores an image that is damaged here.
                if images.check(hash).is_err() {
                    if !self.options.dry_run {
                        images.put_known(&bytes)?;
                    }
                    self.report.images += 1;
                }
            }
            _ => self.problem(number, format!("the image does not match the hash {hash}")),
        }
        Ok(())
    }

    fn event(&mut self, number: u64, id: SessionId, record: &str, line: &[u8]) -> Result<(), Error> {
        let record = match STANDARD.decode(record) {
            Ok(record) => record,
            Err(error) => {
                self.problem(number, format!("the record of {id} is not base64: {error}"));
                return Ok(());
            }
        };
        if let Some(what) = self.edited(&record, line) {
            self.problem(number, format!("{what:?} differs from the record, which was imported instead"));
        }
        let is_done = |session: &Collected| session.id != id || session.is_full();
        if !self.options.renumber && self.collected.last().is_some_and(is_done) {
            self.append_collected()?;
        }
        if self.collected.last().is_none_or(|session| session.id != id) {
            self.collected.push(Collected { id, records: Vec::new(), lines: Vec::new(), bytes: 0 });
        }
        if let Some(session) = self.collected.last_mut() {
            session.bytes += record.len();
            session.records.push(record);
            session.lines.push(number);
        }
        Ok(())
    }

    /// Returns the first key of a line whose value disagrees with the record.
    fn edited(&self, record: &[u8], line: &[u8]) -> Option<String> {
        let given: serde_json::Map<String, Value> = serde_json::from_slice(line).ok()?;
        // Bundles omit long parameters from the readable fields.
        self.differs(&given, record, Detail::Full).and_then(|_| self.differs(&given, record, Detail::Brief))
    }

    fn differs(&self, given: &serde_json::Map<String, Value>, record: &[u8], detail: Detail) -> Option<String> {
        let event = self.decode(record, detail)?;
        let expected = serde_json::to_value(EventLine::new(&event, record)).ok()?;
        let mut others = given.iter().filter(|(key, value)| expected.get(key) != Some(value));
        others.next().map(|(key, _)| key.clone())
    }

    /// Decodes a record with the texts that are available here.
    pub(super) fn decode(&self, record: &[u8], detail: Detail) -> Option<Event> {
        store::decode(record, detail, &|hash| self.workspace.log.text(hash))
    }

    /// Appends the collected records of a session. If the store refuses them, appends as many from the beginning as it
    /// accepts.
    pub(super) fn flush(&mut self, session: &Collected) -> Result<(), Error> {
        let Collected { id, records, lines, .. } = session;
        if self.options.dry_run {
            return self.count(session);
        }
        if self.append(*id, records)?.is_none() {
            return Ok(());
        }
        // A session starts with two events at once, so that it always has an iteration.
        let first = if self.workspace.log.head(*id)?.is_some() { 1 } else { 2 };
        let (start, rest) = records.split_at(first.min(records.len()));
        let parts = std::iter::once(start).chain(rest.chunks(1));
        let mut done = 0;
        for part in parts {
            if let Some(refused) = self.append(*id, part)? {
                let line = lines.get(done).copied().unwrap_or_default();
                self.refused(*id, line, &refused, records.len() - done);
                return Ok(());
            }
            done += part.len();
        }
        Ok(())
    }

    /// Counts what a dry run would append.
    fn count(&mut self, session: &Collected) -> Result<(), Error> {
        let id = session.id;
        let here: Vec<(u32, Vec<u8>)> = renumber::records_here(self.workspace, id)?;
        let mut new = 0;
        for (record, line) in session.records.iter().zip(&session.lines) {
            let seq = self.decode(record, Detail::Brief).map(|event| event.seq);
            match here.iter().find(|(there, _)| Some(*there) == seq) {
                Some((_, there)) if there == record => self.report.skipped += 1,
                None if seq.is_some() => new += 1,
                _ => {
                    let left = session.lines.iter().filter(|other| *other >= line).count();
                    self.refused(id, *line, TAKEN, left);
                    break;
                }
            }
        }
        self.report.events += new;
        if new > 0 && self.last_new.replace(id) != Some(id) {
            self.report.sessions += 1;
        }
        Ok(())
    }

    /// Reports a refusal by the store.
    fn refused(&mut self, id: SessionId, line: u64, refused: &str, left: usize) {
        let events = if left == 1 { "1 event was".to_owned() } else { format!("{left} events were") };
        self.report.ids_taken |= refused == TAKEN;
        self.problem(line, format!("{id}: {refused}; {events} not imported"));
    }

    /// Appends records. Returns why the store refuses them, `None` if it accepts them, and an error if the import
    /// cannot continue.
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

    pub(super) fn problem(&mut self, line: u64, reason: impl Into<String>) {
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

/// Reads up to the next line break, which is dropped. A line that is too long is dropped entirely.
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
    fn a_line_is_complete_or_skipped() {
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
