//! Chooses the session that a run goes to.
//!
//! An import or a watch only adds to sessions that an import or a watch of the same root started, and only if they
//! belong to the requested project. Sessions recorded by hand, by an agent or imported from elsewhere are never added
//! to, even if they contain some of the same images; new images then start a separate session.
//!
//! The root of an imported session is stored in the idempotency key of its first events: `import ROOT CONTENT`, where
//! ROOT is a hash of the root's path (the path itself would end up in exports) and CONTENT a hash of the images.
//! CONTENT is verified, so that a key that merely starts with the same word does not count.

use std::collections::HashMap;
use std::path::Path;

use crate::model::{Event, EventBody, Hash, ImageRef, IterationId, SessionId};

use crate::workspace::truncate;

use super::ImportedSession;
use super::lineage::RunPlace;

/// The number of hexadecimal digits that identify a root.
const ROOT_DIGITS: usize = 32;
/// The first word of the idempotency key of an imported event.
const WORD: &str = "import";

/// Identifies a root without naming its path.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct RootKey(String);

impl RootKey {
    /// Returns the key of a root, which does not depend on how its path is written.
    pub(super) fn of(root: &Path) -> RootKey {
        let path = root.canonicalize().or_else(|_| std::path::absolute(root)).unwrap_or_else(|_| root.to_owned());
        let mut digits = Hash::of(path.as_os_str().as_encoded_bytes()).to_string();
        digits.truncate(ROOT_DIGITS);
        RootKey(digits)
    }

    /// Returns the idempotency key of an iteration with these images.
    pub(super) fn key(&self, images: &[ImageRef]) -> String {
        format!("{WORD} {} {}", self.0, content(images))
    }

    /// Returns the root whose import started the session with these events; `None` if it was not started by an import.
    pub(super) fn that_started(events: &[Event]) -> Option<RootKey> {
        let [started, recorded, ..] = events else { return None };
        let (EventBody::Started { .. }, EventBody::Recorded { iteration, .. }) = (&started.body, &recorded.body) else {
            return None;
        };
        let mut words = started.key.split(' ');
        let (word, root, hash) = (words.next()?, words.next()?, words.next()?);
        let is_ours = word == WORD && root.len() == ROOT_DIGITS && hash == content(&iteration.images).to_string();
        (is_ours && recorded.key == started.key).then(|| RootKey(root.to_owned()))
    }
}

/// The facts about a recorded session that decide whether an import may add to it.
#[derive(Clone, Debug)]
pub(super) struct KnownSession {
    /// The root whose import started it.
    pub(super) root: Option<RootKey>,
    /// Its project.
    pub(super) project: Option<String>,
}

impl KnownSession {
    /// Returns whether an import of this root for this project may add to the session.
    pub(super) fn takes(&self, root: &RootKey, project: Option<&str>) -> bool {
        self.root.as_ref() == Some(root) && project.is_none_or(|project| self.project.as_deref() == Some(project))
    }
}

/// The sessions that the groups of a plan go to. Mostly there is one per group, but a group may continue several
/// sessions if they were imported with a shorter gap, and several groups may continue the same session.
#[derive(Default)]
pub(super) struct Targets {
    /// The sessions that have received or will receive runs.
    pub(super) all: Vec<TargetSession>,
    /// The session that the next run of a group goes to, as an index into `all`; absent if the run starts a new one.
    current: HashMap<usize, usize>,
}

/// A session that runs go to.
pub(super) struct TargetSession {
    /// Its id; `None` if it has not started yet.
    pub(super) session: Option<SessionId>,
    /// In a dry run, its number among the new sessions, from 0.
    pub(super) new: Option<usize>,
    /// The index of the next iteration.
    pub(super) next_index: u32,
    /// Its entry in the report.
    pub(super) view: Option<ImportedSession>,
}

impl TargetSession {
    /// Returns the id of its next iteration; `None` if the session has not started yet.
    pub(super) fn next(&self) -> Option<IterationId> {
        Some(self.session?.iteration(self.next_index))
    }

    /// Advances the next index past a decided iteration.
    pub(super) fn advance(&mut self, decided: RunPlace) {
        let (RunPlace::Recorded(IterationId { index, .. }) | RunPlace::Planned(_, index)) = decided;
        self.next_index = index.saturating_add(1);
    }
}

impl Targets {
    /// Returns the position of the session that the next run of a group goes to.
    pub(super) fn position(&mut self, group: usize) -> usize {
        *self.current.entry(group).or_insert_with(|| {
            self.all.push(TargetSession { session: None, new: None, next_index: 0, view: None });
            self.all.len() - 1
        })
    }

    /// Returns the session at a [position](Targets::position).
    pub(super) fn at(&mut self, position: usize) -> &mut TargetSession {
        // Sessions are only ever added, so positions stay valid.
        #[expect(clippy::indexing_slicing, reason = "every position comes from `position`")]
        &mut self.all[position]
    }

    /// Sets the next index of a session, if it is one of the targets.
    pub(super) fn set_next_index(&mut self, session: SessionId, index: u32) {
        for target in self.all.iter_mut().filter(|target| target.session == Some(session)) {
            target.next_index = index;
        }
    }

    /// Makes the next run of a group go to this session.
    pub(super) fn enter(&mut self, group: usize, session: SessionId, next_index: u32) {
        let there = self.all.iter().position(|target| target.session == Some(session));
        let place = there.unwrap_or_else(|| {
            self.all.push(TargetSession { session: Some(session), new: None, next_index, view: None });
            self.all.len() - 1
        });
        self.current.insert(group, place);
    }

    /// Makes the next run of a group start a new session.
    pub(super) fn leave(&mut self, group: usize) {
        self.current.remove(&group);
    }
}

/// The maximum size of the title of an imported session.
const MAX_TITLE_BYTES: usize = 80;
/// Folder names that do not describe their contents.
const GENERIC_FOLDERS: [&str; 14] = [
    "output",
    "outputs",
    "image",
    "images",
    "pictures",
    "pics",
    "photos",
    "downloads",
    "desktop",
    "temp",
    "tmp",
    "data",
    "new folder",
    "results",
];

/// Returns the title of a session that starts with this file: its folder and the beginning of the prompt. `None` if the
/// folder name is generic, since untitled sessions are listed by their prompt anyway.
pub(super) fn title(file: &Path, prompt: &str) -> Option<String> {
    let folder = file.parent()?.file_name()?.to_str()?.trim();
    let plain = folder.to_lowercase();
    let generic = GENERIC_FOLDERS.contains(&plain.as_str())
        || super::walk::SORTED_INTO.contains(&plain.as_str())
        || super::times::date_in(folder).is_some()
        || !folder.chars().any(char::is_alphabetic);
    if generic {
        return None;
    }
    let prompt = prompt.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut title = if prompt.is_empty() { folder.to_owned() } else { format!("{folder}: {prompt}") };
    title.retain(|c| !c.is_control());
    truncate(&mut title, MAX_TITLE_BYTES);
    Some(title)
}

/// Returns a hash of these images that does not depend on their order.
fn content(images: &[ImageRef]) -> Hash {
    let mut hashes: Vec<Hash> = images.iter().map(|image| image.hash).collect();
    hashes.sort_unstable();
    let content: Vec<u8> = hashes.iter().flat_map(|hash| hash.0).collect();
    Hash::of(&content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_is_the_same_however_it_is_written() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("a/b")).unwrap();
        let plain = RootKey::of(&dir.path().join("a"));
        assert_eq!(RootKey::of(&dir.path().join("a/b/..")), plain);
        assert_ne!(RootKey::of(&dir.path().join("a/b")), plain);
        assert_eq!(plain.0.len(), ROOT_DIGITS);
        assert!(!plain.key(&[]).contains("a/b"));
    }

    #[test]
    fn a_title_comes_from_a_descriptive_folder_name() {
        let of = |file: &str, prompt: &str| title(Path::new(file), prompt).unwrap_or_default();
        assert_eq!(of("/out/portraits/1.png", "a red fox,\n snow"), "portraits: a red fox, snow");
        assert_eq!(of("/out/portraits/1.png", ""), "portraits");
        assert!(of("/out/portraits/1.png", &"fox ".repeat(99)).len() <= MAX_TITLE_BYTES);
        for file in ["/x/output/1.png", "/x/2024-05-01/1.png", "/x/txt2img-images/1.png", "/x/001/1.png", "1.png"] {
            assert_eq!(of(file, "a red fox"), "", "{file}");
        }
    }

    fn current(targets: &mut Targets, group: usize) -> &mut TargetSession {
        let position = targets.position(group);
        targets.at(position)
    }

    #[test]
    fn a_run_joins_the_session_of_the_previous_one() {
        let mut targets = Targets::default();
        assert_eq!(current(&mut targets, 0).session, None);
        let id: SessionId = "session-2025-12-11-001".parse().unwrap();
        targets.enter(0, id, 7);
        assert_eq!(current(&mut targets, 0).next(), Some(id.iteration(7)));
        current(&mut targets, 0).next_index = 9;
        targets.enter(1, id, 7);
        assert_eq!(current(&mut targets, 1).next_index, 9, "another group filled it already");
        targets.leave(0);
        assert_eq!(current(&mut targets, 0).session, None);
        assert_eq!(targets.all.len(), 3);
    }
}
