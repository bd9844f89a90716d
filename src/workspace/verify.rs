//! `verify` and `repair`: checks every byte of the workspace, and rebuilds each copy of the events from the other.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs;

use serde::{Deserialize, Serialize};

use crate::model::{Event, EventBody, Hash, SessionId, Timestamp};
use crate::scrub::ScrubReport;
use crate::store::{Detail, Recovery};

use super::{Error, ImageState, Progress, Workspace};

/// What a check of the whole workspace found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct VerifyReport {
    /// Sessions checked.
    pub sessions: u64,
    /// Events checked.
    pub events: u64,
    /// Bytes of journal read.
    pub journal_bytes: u64,
    /// Images checked.
    pub images: u64,
    /// What is wrong, each in one line that names what it concerns.
    pub problems: Vec<String>,
    /// Events that were lost and are named for as long as they are gone, each session in one line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub losses: Vec<String>,
    /// Images in the store that no event names, at most 1000 of them, as paths below the workspace. A recording that was
    /// interrupted leaves one; nothing is wrong with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unreferenced_images: Vec<String>,
    /// When a long-lived process had last read everything in the background; absent if none ever has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_read_at: Option<Timestamp>,
    /// Whether events or long texts are damaged.
    #[serde(skip)]
    pub log_damaged: bool,
    /// Whether there are images but not a single event.
    #[serde(skip)]
    pub log_is_gone: bool,
    /// Whether images in the store are missing or damaged.
    #[serde(skip)]
    pub stored_images_damaged: bool,
    /// Whether originals that were left where they are were moved or changed.
    #[serde(skip)]
    pub linked_images_damaged: bool,
}

/// What a repair did.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct RepairReport {
    /// Whether anything was wrong and has been rebuilt.
    pub repaired: bool,
    /// What was found, what was done, and what is lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery: Option<Recovery>,
}

impl VerifyReport {
    /// Returns whether no problem was found.
    pub fn is_whole(&self) -> bool {
        self.problems.is_empty() && self.losses.is_empty()
    }
}

impl Workspace {
    /// Checks every byte: both copies of every event, every long text, every image.
    pub fn verify(&self) -> Result<VerifyReport, Error> {
        self.verify_with(self.progress.clone())
    }

    /// Checks every byte and reports progress to this callback instead of the workspace's own.
    pub fn verify_with(&self, progress: Option<Progress>) -> Result<VerifyReport, Error> {
        let found = self.log.verify(progress.clone())?;
        let mut report = VerifyReport {
            sessions: found.sessions,
            events: found.events,
            journal_bytes: found.journal_bytes,
            log_damaged: !found.problems.is_empty(),
            problems: found.problems,
            last_read_at: ScrubReport::read(self.dir()).completed_at,
            ..VerifyReport::default()
        };
        let named = self.verify_images(&mut report, progress.as_ref())?;
        for hash in self.images.stored().filter(|hash| !named.contains(hash)).take(MAX_UNREFERENCED) {
            let path = self.images.path(hash);
            let path = path.strip_prefix(self.dir()).unwrap_or(&path);
            report.unreferenced_images.push(path.display().to_string());
        }
        let images = self.images_without_a_log()?;
        if images > 0 {
            report.log_is_gone = true;
            let are = if images == 1 { "image of it is" } else { "images of it are" };
            report.problems.push(format!("the log is gone: no event is left, but {images} {are}"));
        }
        Ok(report)
    }

    /// Returns the number of stored images, at most 1000, that are older than an empty log: that log must have replaced
    /// another one. Younger images were stored by an interrupted recording.
    pub(crate) fn images_without_a_log(&self) -> Result<u64, Error> {
        if self.log.totals()?.events > 0 {
            return Ok(0);
        }
        let journal = fs::metadata(self.dir().join("journal"));
        let Ok(born) = journal.and_then(|found| found.created().or_else(|_| found.modified())) else { return Ok(0) };
        let stored = self.images.stored().filter(|hash| {
            let stored = fs::metadata(self.images.path(*hash)).and_then(|found| found.modified());
            stored.is_ok_and(|stored| stored < born)
        });
        Ok(stored.take(MAX_UNREFERENCED).count() as u64)
    }

    /// Rebuilds damaged events, each copy from the other. There is only one copy of images, so they cannot be repaired.
    pub fn repair(&self) -> Result<RepairReport, Error> {
        let recovery = self.log.repair(self.progress.clone())?;
        Ok(RepairReport { repaired: recovery.is_some(), recovery })
    }

    /// Adds missing and altered images to the report, once for each iteration they belong to, and all known losses.
    /// Returns all images that events refer to.
    fn verify_images(&self, report: &mut VerifyReport, progress: Option<&Progress>) -> Result<HashSet<Hash>, Error> {
        let total = self.log.totals()?.sessions;
        // An image shared by several iterations is read once and reported for each of them.
        let mut seen = HashMap::new();
        let mut done = 0;
        self.each_session(|id| {
            let events = self.log.events(id, Detail::Brief)?;
            report.losses.extend(lost_of(id, &events));
            for event in events {
                let EventBody::Recorded { index, iteration } = event.body else { continue };
                for image in iteration.images {
                    self.images.remember(&image);
                    let state = seen.entry(image.hash).or_insert_with(|| ImageState::of(&self.images, image.hash));
                    let path = self.images.path(image.hash);
                    let linked = image.linked.as_ref().is_some_and(|linked| *linked == *path);
                    let what = match (state, linked) {
                        (ImageState::Whole, _) => continue,
                        (ImageState::Missing, false) => "is missing",
                        (ImageState::Damaged, false) => "is damaged",
                        (ImageState::Missing, true) => "is no longer where it was linked",
                        (ImageState::Damaged, true) => "was changed where it is linked",
                    };
                    if linked {
                        report.linked_images_damaged = true;
                    } else {
                        report.stored_images_damaged = true;
                    }
                    report.problems.push(format!(
                        "{}: image {} {what}: {}",
                        id.iteration(index),
                        image.hash,
                        path.display()
                    ));
                }
            }
            done += 1;
            if let Some(progress) = progress {
                progress("checking images", done, total.max(done));
            }
            Ok(())
        })?;
        report.images = seen.len() as u64;
        Ok(seen.into_keys().collect())
    }
}

/// Describes on one line what a session lost and has not recovered; `None` if nothing.
pub(crate) fn lost_of(id: SessionId, events: &[Event]) -> Option<String> {
    let there: HashSet<u32> = events.iter().map(|event| event.seq).collect();
    let losses =
        || events.iter().filter_map(|event| if let EventBody::Lost(loss) = &event.body { Some(loss) } else { None });
    let lost: BTreeSet<u32> =
        losses().flat_map(|loss| &loss.seqs).copied().filter(|seq| !there.contains(seq)).collect();
    if lost.is_empty() {
        return None;
    }
    let indexes = events.iter().filter_map(|event| match event.body {
        EventBody::Recorded { index, .. } => Some(index),
        _ => None,
    });
    let indexes: BTreeSet<u32> = indexes.collect();
    let last = losses().filter_map(|loss| loss.last_index).chain(indexes.last().copied()).max();
    let gone = (0..=last.unwrap_or_default()).filter(|index| last.is_some() && !indexes.contains(index));
    let gone: Vec<String> = gone.take(MAX_NAMED).map(|index| format!("#{index}")).collect();
    let numbers: Vec<String> = lost.iter().take(MAX_NAMED).map(u32::to_string).collect();
    let (events, are) = if lost.len() == 1 { ("event", "is") } else { ("events", "are") };
    let mut line = format!("{id}: {} {events} {are} lost: {}", lost.len(), numbers.join(", "));
    if lost.len() > MAX_NAMED {
        line.push_str(", …");
    }
    if !gone.is_empty() {
        line.push_str(&format!("; with iteration{} {}", if gone.len() == 1 { "" } else { "s" }, gone.join(", ")));
    }
    Some(line)
}

/// The maximum number of events or iterations listed on one line.
const MAX_NAMED: usize = 20;
/// The maximum number of unreferenced images listed in a report.
const MAX_UNREFERENCED: usize = 1000;
