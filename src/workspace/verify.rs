//! `verify` and `repair`: every byte of the workspace checked, and each copy rebuilt from the other.

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::{EventBody, Timestamp};
use crate::scrub::ScrubReport;
use crate::store::{Detail, Recovery};

use super::{Error, ImageState, Workspace};

/// What a check of the whole workspace found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
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
    /// When a long-lived process had last read everything in the background; absent if none ever has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_read_at: Option<Timestamp>,
    /// Whether events or long texts are damaged.
    #[serde(skip)]
    pub log_damaged: bool,
    /// Whether images in the store are missing or damaged.
    #[serde(skip)]
    pub stored_images_damaged: bool,
    /// Whether originals that were left where they are were moved or changed.
    #[serde(skip)]
    pub linked_images_damaged: bool,
}

/// What a repair did.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RepairReport {
    /// Whether anything was wrong and has been rebuilt.
    pub repaired: bool,
    /// What was found, what was done, and what is lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Value>")]
    pub recovery: Option<Recovery>,
}

impl VerifyReport {
    /// Returns whether nothing is wrong.
    pub fn is_whole(&self) -> bool {
        self.problems.is_empty()
    }
}

impl Workspace {
    /// Checks every byte: both copies of every event, every long text, every image.
    pub fn verify(&self) -> Result<VerifyReport, Error> {
        let found = self.log.verify(self.progress.clone())?;
        let mut report = VerifyReport {
            sessions: found.sessions,
            events: found.events,
            journal_bytes: found.journal_bytes,
            log_damaged: !found.problems.is_empty(),
            problems: found.problems,
            last_read_at: ScrubReport::read(self.dir()).completed_at,
            ..VerifyReport::default()
        };
        self.verify_images(&mut report)?;
        Ok(report)
    }

    /// Rebuilds what is wrong with the events, each copy from the other. Images are kept once and cannot be mended.
    pub fn repair(&self) -> Result<RepairReport, Error> {
        let recovery = self.log.repair(self.progress.clone())?;
        Ok(RepairReport { repaired: recovery.is_some(), recovery })
    }

    /// Adds every image that is missing or altered to the report, once for each iteration it belongs to.
    fn verify_images(&self, report: &mut VerifyReport) -> Result<(), Error> {
        let total = self.log.totals()?.sessions;
        // An image that several iterations share is read once and named for each of them.
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
            self.report("checking images", done, total.max(done));
            Ok(())
        })?;
        report.images = seen.len() as u64;
        Ok(())
    }
}
