//! `verify` and `repair`: every byte of the workspace checked, and each copy rebuilt from the other.

use std::collections::{BTreeSet, HashMap};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::{EventBody, SessionId, Timestamp};
use crate::scrub::ScrubReport;
use crate::store::{Detail, Recovery};

use super::audit::ImageState;
use super::{Error, Tracker};

/// What a check of the whole workspace found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VerifyView {
    /// Whether nothing is wrong.
    pub whole: bool,
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
    /// When a long-lived process had last read everything in the background; absent if none ever has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_read_at: Option<Timestamp>,
    /// What to do about it; absent when nothing is wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// What a repair did.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RepairView {
    /// Whether anything was wrong and has been rebuilt.
    pub repaired: bool,
    /// What was found, what was done, and what is lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Value>")]
    pub recovery: Option<Recovery>,
}

impl Tracker {
    /// Checks every byte: both copies of every event, every long text, every image.
    pub fn verify(&self) -> Result<VerifyView, Error> {
        let found = self.log.verify(self.progress.clone())?;
        let mut view = VerifyView {
            sessions: found.sessions,
            events: found.events,
            journal_bytes: found.journal_bytes,
            problems: found.problems,
            last_read_at: ScrubReport::read(&self.workspace).completed_at,
            ..VerifyView::default()
        };
        let mut hints = Vec::new();
        if !view.problems.is_empty() {
            hints.push("`retake repair` rebuilds events and texts, and says what is lost");
        }
        hints.extend(self.verify_images(&mut view)?);
        view.whole = view.problems.is_empty();
        view.hint = Some(hints.join("; ")).filter(|hint| !hint.is_empty());
        Ok(view)
    }

    /// Rebuilds what is wrong with the events, each copy from the other. Images are kept once and cannot be mended.
    pub fn repair(&self) -> Result<RepairView, Error> {
        let recovery = self.log.repair(self.progress.clone())?;
        Ok(RepairView { repaired: recovery.is_some(), recovery })
    }

    /// Names every image that is missing or altered, once for each iteration it belongs to, and says what to do.
    fn verify_images(&self, view: &mut VerifyView) -> Result<Vec<&'static str>, Error> {
        let total = self.log.totals()?.sessions;
        let mut hints = BTreeSet::new();
        // An image that several iterations share is read once, and named for each of them.
        let mut seen = HashMap::new();
        let mut done = 0;
        self.each_session(|id| {
            for event in self.log.events(id, Detail::Brief)? {
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
                        (ImageState::Missing, true) => "is not where it was linked any more",
                        (ImageState::Damaged, true) => "was changed where it is linked",
                    };
                    hints.insert(if linked { LINKED_HINT } else { KEPT_HINT });
                    view.problems.push(format!(
                        "{}: image {} {what}: {}",
                        id.iteration(index),
                        image.hash,
                        path.display()
                    ));
                }
            }
            done += 1;
            self.report("checking images", done, total.max(done));
            Ok(())
        })?;
        view.images = seen.len() as u64;
        Ok(hints.into_iter().collect())
    }

    /// Shows `each` every session, by day and number, a few ids in memory at a time.
    pub(super) fn each_session(&self, mut each: impl FnMut(SessionId) -> Result<(), Error>) -> Result<(), Error> {
        let mut after = None;
        loop {
            let ids = self.log.ids(after, ID_CHUNK)?;
            for id in &ids {
                each(*id)?;
            }
            match ids.last() {
                Some(last) => after = Some(*last),
                None => return Ok(()),
            }
        }
    }
}

/// How an image of the store comes back.
const KEPT_HINT: &str = "an image comes back when it is recorded again, or when an export that holds it is imported";
/// How an image comes back that was left where it is.
const LINKED_HINT: &str = "a linked original that was moved or changed comes back when the file is put where it was, or \
                           when it is recorded again, which keeps a copy";
/// Ids read at once.
const ID_CHUNK: usize = 512;
