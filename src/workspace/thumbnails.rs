//! `make_thumbnails`: creates missing thumbnails, or recreates all of them. Thumbnails are also created on recording
//! and on demand, so this is for a deleted cache, or to avoid waiting later.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use crate::images::{self, ImageUnavailable};
use crate::model::{EventBody, Hash, IterationId};
use crate::store::Detail;

use super::{CallContext, Error, Workspace};

/// The thumbnails to create.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thumbnails {
    /// Only missing ones.
    Missing,
    /// All, including existing ones.
    All,
}

/// The result.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ThumbnailsReport {
    /// The number of images whose thumbnails were created.
    pub made: u64,
    /// Of which they could not be made, as their files are missing or damaged; at most 50.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unseen: Vec<UnavailableImage>,
    /// Present and true when there are more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub more_unseen: bool,
}

/// An image that could not be looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UnavailableImage {
    /// An iteration it belongs to.
    pub reference: IterationId,
    /// Its hash.
    pub hash: Hash,
    /// Why.
    pub message: String,
}

/// The maximum number of images listed in a report.
const MAX_UNSEEN: usize = 50;

impl Workspace {
    /// Creates thumbnails on all cores. Files that could never be decoded are skipped.
    pub fn make_thumbnails(&self, which: Thumbnails, context: &CallContext) -> Result<ThumbnailsReport, Error> {
        let wanted = self.without_thumbnails(which, context)?;
        let total = wanted.len() as u64;
        let broken_off = OnceLock::new();
        let made = images::on_all_cores(
            &wanted,
            |(hash, _)| self.images.make_thumbnails(*hash),
            |done| context.step("making thumbnails", done, total).map_err(|error| broken_off.set(error)).is_ok(),
        );
        if let Some(error) = broken_off.into_inner() {
            return Err(error);
        }
        let mut view = ThumbnailsReport::default();
        for ((hash, reference), made) in wanted.into_iter().zip(made) {
            match made {
                Ok(()) => view.made += 1,
                Err(ImageUnavailable::Undecodable(_)) => {}
                Err(_) if view.unseen.len() == MAX_UNSEEN => view.more_unseen = true,
                Err(error) => {
                    let message = Error::unavailable(hash, &self.images.path(hash), error).to_string();
                    view.unseen.push(UnavailableImage { reference, hash, message });
                }
            }
        }
        Ok(view)
    }

    /// Returns the images whose thumbnails must be created, each with an iteration that contains it.
    fn without_thumbnails(&self, which: Thumbnails, context: &CallContext) -> Result<Vec<(Hash, IterationId)>, Error> {
        let mut wanted = BTreeMap::new();
        self.each_session(|id| {
            for event in self.log.events(id, Detail::Brief)? {
                let EventBody::Recorded { index, iteration } = event.body else { continue };
                for image in iteration.images {
                    self.images.remember(&image);
                    let is_wanted = match which {
                        // An image that could not be decoded when it was recorded has no thumbnail, and retrying does
                        // not help.
                        Thumbnails::Missing => {
                            let has_one = image.perceptual_hash.is_some() || images::is_video(&image.mime_type);
                            has_one && !self.images.has_thumbnails(image.hash)
                        }
                        Thumbnails::All => true,
                    };
                    if is_wanted {
                        wanted.entry(image.hash).or_insert_with(|| id.iteration(index));
                    }
                }
            }
            context.step("looking for thumbnails", 0, 0)
        })?;
        Ok(wanted.into_iter().collect())
    }
}
