//! Exports sessions as readable JSON lines, which [`import`](Workspace::import) restores exactly.

use std::collections::HashSet;
use std::io::{self, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use base64::write::EncoderWriter;
use serde::Serialize;
use serde_json::{Value, json};

use crate::model::{Actor, Event, EventBody, Hash, ImageRef, IterationId, Outcome, SessionId, Timestamp};
use crate::store::Detail;
use crate::workspace::{Error, Workspace};

use super::patch::Piece;
use super::{ExportReport, ExportRequest};

impl Workspace {
    /// Writes sessions as JSON lines, holding one session in memory at a time. Missing images are reported; everything
    /// else is written.
    pub fn export(&self, request: &ExportRequest, out: &mut dyn Write) -> Result<ExportReport, Error> {
        let chosen = self.chosen(request)?;
        let mut export = Export {
            workspace: self,
            out,
            omit_images: request.omit_images,
            written: HashSet::new(),
            report: ExportReport::default(),
        };
        export.line(&HeaderLine { version: VERSION, created_at: self.now(), program: PROGRAM })?;
        self.each_chosen(&chosen, |id| export.session(id))?;
        export.out.flush().map_err(Error::Export)?;
        Ok(export.report)
    }
}

/// Writes one session for an exported folder: its events, and the patches that turn its files back into the original
/// images.
pub(super) fn write_for_folder(
    workspace: &Workspace,
    id: SessionId,
    files: &[FileLine],
    out: &mut dyn Write,
) -> Result<Vec<String>, Error> {
    let mut export =
        Export { workspace, out, omit_images: true, written: HashSet::new(), report: ExportReport::default() };
    export.line(&HeaderLine { version: VERSION, created_at: workspace.now(), program: PROGRAM })?;
    for file in files {
        export.line(file)?;
    }
    export.session(id)?;
    export.out.flush().map_err(Error::Export)?;
    Ok(export.report.problems)
}

/// The version of the line format. Incremented when older versions of Retake can no longer read new exports.
pub(crate) const VERSION: u32 = 1;

/// The program name and version in the header.
pub(crate) const PROGRAM: &str = concat!("retake ", env!("CARGO_PKG_VERSION"));

#[derive(Serialize)]
#[serde(tag = "type", rename = "retake-export", rename_all = "camelCase")]
struct HeaderLine {
    version: u32,
    created_at: Timestamp,
    program: &'static str,
}

#[derive(Serialize)]
#[serde(tag = "type", rename = "text")]
struct TextLine<'a> {
    hash: Hash,
    text: &'a str,
}

/// The patch that turns a file in the same folder into an original image.
#[derive(Serialize)]
#[serde(tag = "type", rename = "file")]
pub(super) struct FileLine {
    /// The name of the file.
    pub(super) name: String,
    /// The hash of the original.
    pub(super) hash: Hash,
    /// The pieces that the original consists of.
    pub(super) pieces: Vec<Piece>,
}

/// The line of an event. `import` only needs `record`, the exact bytes on disk; the rest is for people and other
/// programs.
#[derive(Serialize)]
#[serde(tag = "type", rename = "event")]
pub(crate) struct EventLine<'a> {
    session: SessionId,
    seq: u32,
    kind: &'a str,
    at: Timestamp,
    actor: &'a Actor,
    key: &'a str,
    data: Value,
    prev: Hash,
    hash: Hash,
    record: String,
}

impl<'a> EventLine<'a> {
    /// Creates the line of an event with this record.
    pub(crate) fn new(event: &'a Event, record: &[u8]) -> EventLine<'a> {
        EventLine {
            session: event.session,
            seq: event.seq,
            kind: event.body.kind().as_str(),
            at: event.at,
            actor: &event.actor,
            key: &event.key,
            data: readable(&event.body),
            prev: event.prev,
            hash: event.hash,
            record: STANDARD.encode(record),
        }
    }
}

struct Export<'a> {
    workspace: &'a Workspace,
    out: &'a mut dyn Write,
    omit_images: bool,
    /// Texts and images already written to the file, since sessions share them.
    written: HashSet<Hash>,
    report: ExportReport,
}

impl Export<'_> {
    fn session(&mut self, id: SessionId) -> Result<(), Error> {
        let store = &self.workspace.log;
        // Read the records first, so that anything appended in between is left out of both.
        let read = store.records(id).and_then(|records| Ok((store.events(id, Detail::Brief)?, records)));
        let (events, records) = match read {
            Ok(read) => read,
            Err(error) => {
                self.report.problems.push(format!("{id} is left out: {error}"));
                return Ok(());
            }
        };
        for record in &records {
            for hash in crate::store::texts_of(record) {
                self.text(id, hash)?;
            }
        }
        for event in events.iter().take(records.len()) {
            if let EventBody::Recorded { index, iteration } = &event.body
                && !self.omit_images
            {
                for image in &iteration.images {
                    self.image(id.iteration(*index), image)?;
                }
            }
        }
        for (event, record) in events.into_iter().zip(&records) {
            // Load long parameters only when their line is written, so that only one workflow is in memory at a time.
            let whole = store.event(id, event.seq, Detail::Full)?;
            self.event(&whole.unwrap_or(event), record)?;
        }
        self.report.sessions += 1;
        Ok(())
    }

    fn text(&mut self, id: SessionId, hash: Hash) -> Result<(), Error> {
        if !self.written.insert(hash) {
            return Ok(());
        }
        match self.workspace.log.text(hash) {
            Some(text) => self.line(&TextLine { hash, text: &text }),
            None => {
                self.report.problems.push(format!("{id}: text {hash} is missing or damaged"));
                Ok(())
            }
        }
    }

    /// Writes an image as a stream, without holding it in memory.
    fn image(&mut self, id: IterationId, image: &ImageRef) -> Result<(), Error> {
        let hash = image.hash;
        if !self.written.insert(hash) {
            return Ok(());
        }
        let mut file = match self.workspace.open_image(image) {
            Ok(file) => file,
            Err(error) => {
                self.report.problems.push(format!("{id}: image {hash} is left out: {error}"));
                return Ok(());
            }
        };
        let mut write = || {
            write!(self.out, r#"{{"type":"image","hash":"{hash}","data":""#)?;
            let mut encoder = EncoderWriter::new(&mut *self.out, &STANDARD);
            io::copy(&mut file, &mut encoder)?;
            encoder.finish()?;
            drop(encoder);
            self.out.write_all(b"\"}\n")
        };
        write().map_err(Error::Export)?;
        self.report.images += 1;
        Ok(())
    }

    fn event(&mut self, event: &Event, record: &[u8]) -> Result<(), Error> {
        self.line(&EventLine::new(event, record))?;
        self.report.events += 1;
        Ok(())
    }

    fn line(&mut self, line: &impl Serialize) -> Result<(), Error> {
        let written = serde_json::to_writer(&mut *self.out, line).map_err(io::Error::from);
        written.and_then(|()| self.out.write_all(b"\n")).map_err(Error::Export)
    }
}

/// Returns the event as JSON for people and other programs.
fn readable(body: &EventBody) -> Value {
    let mut data = match body {
        EventBody::Started { title, project } | EventBody::Titled { title, project } => {
            json!({ "title": title, "project": project })
        }
        EventBody::Recorded { index, iteration } => json!({
            "index": index,
            "timestamp": iteration.created_at,
            "recipe": iteration.recipe,
            "outcome": outcome(&iteration.outcome),
            "images": iteration.images,
            "parent": iteration.parent,
            "parentReason": iteration.parent_reason,
            "likelyParent": iteration.likely_parent,
        }),
        EventBody::Annotated { index, change } => {
            json!({ "index": index, "rating": change.rating, "tags": change.tags, "note": change.note })
        }
        EventBody::Archived { reason } | EventBody::Restored { reason } => json!({ "reason": reason }),
        EventBody::Lost(loss) => json!(loss),
        EventBody::Unknown { kind, version } => json!({ "kind": kind, "version": version }),
    };
    if let Value::Object(fields) = &mut data {
        fields.retain(|_, value| !value.is_null());
    }
    data
}

/// Returns an outcome in the terms of the export format, which do not change with the JSON surface.
fn outcome(outcome: &Outcome) -> Value {
    let mut fields = serde_json::Map::new();
    let mut set = |name: &str, value: Option<Value>| fields.extend(value.map(|value| (name.to_owned(), value)));
    set("status", serde_json::to_value(outcome.status).ok());
    set("message", outcome.message.as_deref().map(Into::into));
    set("generationTimeMs", outcome.generation_time_ms.map(Into::into));
    set("cost", outcome.cost.as_ref().and_then(|cost| serde_json::to_value(cost).ok()));
    fields.into()
}
