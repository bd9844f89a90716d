//! Verifies a bundle: every chain, text and image, and that its readable fields agree with the records.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::disk::read_at;
use crate::export::EventLine;
use crate::model::{Event, EventBody, Hash, SessionId, Timestamp};
use crate::store::{self, Detail};
use crate::workspace::{Error, lost_of};

use super::tar::{self, TarEntry};
use super::{Chain, MANIFEST, Manifest, READ_ME, VERSION, session_file, text_file};

/// What a check of a bundle found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BundleView {
    /// Whether nothing is wrong.
    pub whole: bool,
    /// The hash of the whole bundle, to compare with the one that was printed when it was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seal: Option<Hash>,
    /// When it was made (UTC).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Timestamp>,
    /// Sessions checked.
    pub sessions: u64,
    /// Events checked.
    pub events: u64,
    /// Images checked.
    pub images: u64,
    /// What the bundle lists as missing from the start: images that were left out, or missing when it was made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
    /// Events that were lost before the bundle was made, each session in one line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub losses: Vec<String>,
    /// What is wrong: missing or altered, each in one line that names what it concerns.
    pub problems: Vec<String>,
}

/// Verifies a bundle without a workspace. Anything missing or altered is listed in the view; a file that is not a
/// bundle is an error. If `seal` is given, the bundle must also have exactly that seal.
pub fn verify_bundle(path: &Path, seal: Option<&str>) -> Result<BundleView, Error> {
    let seal = seal.map(|seal| seal.parse::<Hash>()).transpose().map_err(|error| Error::InvalidInput {
        problem: format!("invalid seal: {error}"),
        hint: "pass the 64 hex digits that were printed when the bundle was made",
    })?;
    let invalid = |problem, source| Error::InvalidBundle { path: path.to_owned(), problem, source };
    let unread = |error: io::Error| invalid("cannot read the bundle", Some(error));
    let mut file = File::open(path).map_err(unread)?;
    let (entries, ended) = tar::list(&mut file).map_err(unread)?;
    if !entries.iter().any(|entry| [MANIFEST, READ_ME].contains(&entry.name.as_str())) {
        return Err(invalid("this is not a bundle", None));
    }
    let mut check = Check { file, entries: BTreeMap::new(), named: BTreeSet::new(), found: BundleView::default() };
    for entry in entries {
        if let Some(twice) = check.entries.insert(entry.name.clone(), entry) {
            check.problem(format!("{} appears twice", twice.name));
        }
    }
    if !ended {
        check.problem("the file is cut short or damaged: what follows cannot be read".to_owned());
    }
    check.all(seal).map_err(unread)?;
    check.found.whole = check.found.problems.is_empty() && check.found.losses.is_empty();
    Ok(check.found)
}

struct Check {
    file: File,
    entries: BTreeMap<String, TarEntry>,
    /// The files that the manifest or a session refers to.
    named: BTreeSet<String>,
    found: BundleView,
}

/// The maximum length of a line in a session's file, which holds a record and its readable form.
const MAX_LINE_BYTES: u64 = 16 * 1024 * 1024;
/// The maximum number of problems of one kind that are listed.
const MAX_PROBLEMS: usize = 1000;

impl Check {
    fn all(&mut self, seal: Option<Hash>) -> io::Result<()> {
        self.named.extend([MANIFEST, READ_ME].map(str::to_owned));
        let manifest = self.manifest()?;
        if let Some(seal) = seal
            && self.found.seal != Some(seal)
        {
            self.problem(format!("the bundle does not match the seal {seal}"));
        }
        let Some(manifest) = manifest else {
            self.problem("manifest.json is missing or altered: the expected contents are unknown".to_owned());
            // Whatever is present can still be checked.
            let ids = self
                .entries
                .keys()
                .filter_map(|name| name.strip_prefix("sessions/")?.strip_suffix(".jsonl")?.parse::<SessionId>().ok());
            for id in ids.collect::<Vec<_>>() {
                self.session(id, None, &BTreeSet::new())?;
            }
            return Ok(());
        };
        self.found.created_at = Some(manifest.created_at);
        let absent: BTreeSet<Hash> = manifest.missing.iter().map(|absent| absent.hash).collect();
        self.found.left_out = manifest
            .missing
            .iter()
            .map(|absent| match absent.reference {
                Some(id) => format!("{id}: {}: {}", absent.what, absent.hash),
                None => format!("{}: {}", absent.what, absent.hash),
            })
            .collect();
        for hash in &manifest.texts {
            self.blob(&text_file(*hash), *hash, "text")?;
        }
        for image in &manifest.images {
            self.blob(&image.file, image.hash, "image")?;
            self.found.images += 1;
        }
        let mut known: BTreeSet<Hash> = manifest.images.iter().map(|image| image.hash).collect();
        known.extend(&manifest.texts);
        known.extend(&absent);
        for chain in &manifest.sessions {
            self.session(chain.id, Some(chain), &known)?;
        }
        for name in self.entries.keys().filter(|name| !self.named.contains(*name)).cloned().collect::<Vec<_>>() {
            self.problem(format!("{name:?} does not belong to the bundle"));
        }
        Ok(())
    }

    /// Reads the manifest; `None` if it is missing or invalid.
    fn manifest(&mut self) -> io::Result<Option<Manifest>> {
        let Some(entry) = self.entries.get(MANIFEST).cloned() else { return Ok(None) };
        let mut bytes = Vec::new();
        self.content(&entry)?.read_to_end(&mut bytes)?;
        self.found.seal = Some(Hash::of(&bytes));
        let manifest: Option<Manifest> = serde_json::from_slice(&bytes).ok();
        if let Some(version) = manifest.as_ref().map(|manifest| manifest.version).filter(|version| *version > VERSION) {
            self.problem(format!("the bundle has version {version}, and this Retake reads up to {VERSION}"));
        }
        Ok(manifest)
    }

    /// Checks a file whose name is its hash.
    fn blob(&mut self, name: &str, hash: Hash, what: &str) -> io::Result<()> {
        self.named.insert(name.to_owned());
        let Some(entry) = self.entries.get(name).cloned() else {
            self.problem(format!("{what} {hash} is missing"));
            return Ok(());
        };
        let mut hasher = blake3::Hasher::new();
        hasher.update_reader(self.content(&entry)?)?;
        if Hash(*hasher.finalize().as_bytes()) != hash {
            self.problem(format!("{what} {hash} is altered"));
        }
        Ok(())
    }

    fn session(&mut self, id: SessionId, chain: Option<&Chain>, known: &BTreeSet<Hash>) -> io::Result<()> {
        let name = session_file(id);
        self.named.insert(name.clone());
        let Some(entry) = self.entries.get(&name).cloned() else {
            self.problem(format!("{id} is missing, with all its events"));
            return Ok(());
        };
        let mut lines = BufReader::new(Section::new(self.file.try_clone()?, &entry));
        let (mut links, mut lost, mut events) = (Vec::new(), BTreeSet::new(), Vec::new());
        let (mut line, mut number) = (Vec::new(), 0_u64);
        loop {
            line.clear();
            if (&mut lines).take(MAX_LINE_BYTES).read_until(b'\n', &mut line)? == 0 {
                break;
            }
            number += 1;
            let Some((event, altered)) = self.event(id, &line) else {
                self.problem(format!("{id}: line {number} is altered: its record does not match its own hash"));
                continue;
            };
            if altered {
                self.problem(format!("{id}: line {number} does not match its record"));
            }
            links.push((event.seq, event.prev, event.hash));
            match &event.body {
                EventBody::Lost(loss) => lost.extend(loss.seqs.iter().copied()),
                EventBody::Recorded { index, iteration } if chain.is_some() => {
                    for image in iteration.images.iter().filter(|image| !known.contains(&image.hash)) {
                        let reference = id.iteration(*index);
                        self.problem(format!("{reference}: image {} is not named by the manifest", image.hash));
                    }
                }
                _ => {}
            }
            events.push(event);
        }
        self.found.losses.extend(lost_of(id, &events));
        self.found.sessions += 1;
        self.found.events += number;
        self.links(id, &links, &lost);
        let tip = links.last().map(|(_, _, hash)| *hash);
        if let Some(chain) = chain.filter(|chain| Some(chain.tip) != tip || chain.events != number) {
            let made = chain.events;
            self.problem(format!("{id} has {number} events instead of {made}, or ends with a different one"));
        }
        Ok(())
    }

    /// Checks that every event contains the hash of its predecessor, except across gaps that the chain itself records.
    fn links(&mut self, id: SessionId, links: &[(u32, Hash, Hash)], lost: &BTreeSet<u32>) {
        let (mut next, mut tip) = (0, Hash::NONE);
        for (seq, prev, hash) in links {
            let known_gap = *seq > next && (next..*seq).all(|seq| lost.contains(&seq));
            if !known_gap && (*seq != next || *prev != tip) {
                self.problem(format!("{id}: event {seq} does not follow the one before it"));
            }
            (next, tip) = (seq.saturating_add(1), *hash);
        }
    }

    /// Returns the event on a line, and whether its readable fields differ from the record; `None` if the record is
    /// invalid.
    fn event(&self, id: SessionId, line: &[u8]) -> Option<(Event, bool)> {
        let given: Value = serde_json::from_slice(line).ok()?;
        let record = STANDARD.decode(given.get("record")?.as_str()?).ok()?;
        let texts = |hash: Hash| self.text(hash);
        let event = store::decode(&record, Detail::Brief, &texts).filter(|event| event.session == id)?;
        let altered = serde_json::to_value(EventLine::new(&event, &record)).ok()? != given;
        Some((event, altered))
    }

    fn text(&self, hash: Hash) -> Option<String> {
        let entry = self.entries.get(&text_file(hash))?;
        let mut text = String::new();
        Section::new(self.file.try_clone().ok()?, entry).read_to_string(&mut text).ok()?;
        (Hash::of(text.as_bytes()) == hash).then_some(text)
    }

    fn content(&self, entry: &TarEntry) -> io::Result<Section> {
        Ok(Section::new(self.file.try_clone()?, entry))
    }

    fn problem(&mut self, problem: String) {
        match self.found.problems.len() {
            0..MAX_PROBLEMS => self.found.problems.push(problem),
            MAX_PROBLEMS => self.found.problems.push("further problems are omitted".to_owned()),
            _ => {}
        }
    }
}

/// A reader for one file in the tar. It keeps its own offset, since all clones of a file handle share one position.
pub(super) struct Section {
    file: File,
    at: u64,
    left: u64,
}

impl Section {
    pub(super) fn new(file: File, entry: &TarEntry) -> Section {
        Section { file, at: entry.offset, left: entry.size }
    }
}

impl Read for Section {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        let bytes = read_at(&self.file, self.at, most)?;
        if let Some(place) = buffer.get_mut(..bytes.len()) {
            place.copy_from_slice(&bytes);
        }
        self.at += bytes.len() as u64;
        self.left -= bytes.len() as u64;
        Ok(bytes.len())
    }
}
