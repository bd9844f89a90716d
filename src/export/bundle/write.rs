//! Writes a bundle, holding one session in memory at a time.

use std::collections::BTreeSet;
use std::io::{self, Write};

use crate::export::{EventLine, ExportReport, ExportRequest, PROGRAM};
use crate::model::{Event, EventBody, Hash, ImageRef, IterationId, SessionId};
use crate::store::Detail;
use crate::workspace::{Error, Workspace};

use super::tar::Writer;
use super::{
    BundledImage, Chain, MANIFEST, Manifest, MissingFile, READ_ME, VERSION, image_file, session_file, text_file,
};

impl Workspace {
    /// Writes an audit bundle. Missing images and texts are reported and listed in the bundle.
    pub fn export_bundle(&self, request: &ExportRequest, out: &mut dyn Write) -> Result<ExportReport, Error> {
        let chosen = self.chosen(request)?;
        let now = self.now();
        let seconds = u64::try_from(now.millis() / 1000).unwrap_or_default();
        let mut bundle = Bundle {
            workspace: self,
            tar: Writer::new(out, seconds),
            manifest: Manifest {
                version: VERSION,
                created_at: now,
                program: PROGRAM.to_owned(),
                sessions: Vec::new(),
                texts: Vec::new(),
                images: Vec::new(),
                missing: Vec::new(),
            },
            omit_images: request.omit_images,
            seen: BTreeSet::new(),
            report: ExportReport::default(),
        };
        bundle.file(READ_ME, ABOUT.as_bytes())?;
        self.each_chosen(&chosen, |id| bundle.session(id))?;
        bundle.finish()
    }
}

const ABOUT: &str = "\
This is an audit bundle of Retake, which records image-generation work.

Check all of it:      retake verify THIS_FILE
Check it by hand:     every file under images/ and texts/ is named by the BLAKE3 hash of its bytes (b3sum).
                      Every line of sessions/*.jsonl is an event; `prev` is the hash of the event before it,
                      and `hash` is the BLAKE3 hash of its `record` (base64) without the last 32 bytes.
Still the same one?   b3sum manifest.json gives the seal. Compare it with the one that was printed when
                      the bundle was made: the manifest names the end of every chain, every text and every image.
";

struct Bundle<'a> {
    workspace: &'a Workspace,
    tar: Writer<'a>,
    manifest: Manifest,
    omit_images: bool,
    /// Texts and images already handled, since sessions share them.
    seen: BTreeSet<Hash>,
    report: ExportReport,
}

impl Bundle<'_> {
    fn session(&mut self, id: SessionId) -> Result<(), Error> {
        let log = &self.workspace.log;
        // Read the records first, so that anything appended in between is left out of both.
        let read = log.records(id).and_then(|records| Ok((log.events(id, Detail::Brief)?, records)));
        let (events, records) = match read {
            Ok(read) => read,
            Err(error) => {
                self.report.problems.push(format!("{id} is left out: {error}"));
                return Ok(());
            }
        };
        for hash in records.iter().flat_map(|record| crate::store::texts_of(record)) {
            self.text(id, hash)?;
        }
        let events: Vec<Event> = events.into_iter().take(records.len()).collect();
        for event in &events {
            if let EventBody::Recorded { index, iteration } = &event.body {
                for image in &iteration.images {
                    self.image(id.iteration(*index), image)?;
                }
            }
        }
        let Some(tip) = events.last().map(|event| event.hash) else { return Ok(()) };
        let mut lines = Vec::new();
        for (event, record) in events.iter().zip(&records) {
            let line = serde_json::to_writer(&mut lines, &EventLine::new(event, record)).map_err(io::Error::from);
            line.map_err(Error::Export)?;
            lines.push(b'\n');
        }
        self.file(&session_file(id), &lines)?;
        self.manifest.sessions.push(Chain { id, events: events.len() as u64, tip });
        self.report.events += events.len() as u64;
        self.report.sessions += 1;
        Ok(())
    }

    fn text(&mut self, id: SessionId, hash: Hash) -> Result<(), Error> {
        if !self.seen.insert(hash) {
            return Ok(());
        }
        match self.workspace.log.text(hash) {
            Some(text) => {
                self.file(&text_file(hash), text.as_bytes())?;
                self.manifest.texts.push(hash);
            }
            None => {
                self.absent(None, hash, "a long text that is missing or damaged");
                self.report.problems.push(format!("{id}: text {hash} is missing or damaged"));
            }
        }
        Ok(())
    }

    fn image(&mut self, id: IterationId, image: &ImageRef) -> Result<(), Error> {
        let hash = image.hash;
        if !self.seen.insert(hash) {
            return Ok(());
        }
        if self.omit_images {
            self.absent(Some(id), hash, "an image that was left out as asked");
            return Ok(());
        }
        let opened = self.workspace.open_image(image).and_then(|file| Ok((file.metadata()?.len(), file)));
        match opened {
            Ok((size, mut file)) => {
                let name = image_file(hash, &image.mime_type);
                self.tar.file(&name, size, &mut file).map_err(Error::Export)?;
                self.manifest.images.push(BundledImage { hash, file: name });
                self.report.images += 1;
            }
            Err(error) => {
                self.absent(Some(id), hash, "an image that is missing or damaged");
                self.report.problems.push(format!("{id}: image {hash} is left out: {error}"));
            }
        }
        Ok(())
    }

    fn absent(&mut self, reference: Option<IterationId>, hash: Hash, what: &str) {
        self.manifest.missing.push(MissingFile { reference, hash, what: what.to_owned() });
    }

    fn file(&mut self, name: &str, mut content: &[u8]) -> Result<(), Error> {
        self.tar.file(name, content.len() as u64, &mut content).map_err(Error::Export)
    }

    /// Writes the manifest and the end of the tar. The manifest comes last, so a bundle that has one is complete.
    fn finish(mut self) -> Result<ExportReport, Error> {
        let manifest = serde_json::to_vec(&self.manifest).map_err(|error| Error::Export(error.into()))?;
        self.file(MANIFEST, &manifest)?;
        self.tar.finish().map_err(Error::Export)?;
        self.report.seal = Some(Hash::of(&manifest));
        Ok(self.report)
    }
}
