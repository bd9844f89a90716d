//! Recognises what is already in the workspace, by bytes and by pixels, and restores originals from new copies.
//!
//! Equal bytes are the same image. Equal pixels are a copy only if the file describes the same recipe or none: a LoRA,
//! model, guidance scale or negative prompt that made no difference is a finding, and is recorded.

use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::images::metadata;
use crate::model::iteration::image_recipe;
use crate::model::{ImageRef, Recipe};
use crate::store::Detail;
use crate::workspace::Error;

use super::inspect::InspectedImage;
use super::intake::Intake;
use super::lineage::RunPlace;

/// One image of an iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ImagePlace {
    /// The iteration.
    pub(super) place: RunPlace,
    /// The number of the image there.
    pub(super) number: u32,
}

impl Intake<'_> {
    /// Returns whether an image is a known one saved again: the same pixels, and the same recipe or none. Images of a
    /// single colour do not count, since many images share their pixels.
    pub(super) fn is_copy(&self, image: &ImageRef, picture: &InspectedImage) -> Result<bool, Error> {
        let plain = image.perceptual_hash.is_none_or(|perceptual_hash| perceptual_hash.0 == 0);
        let Some(known) = image.pixels.and_then(|pixels| self.pixels.get(&pixels)).filter(|_| !plain) else {
            return Ok(false);
        };
        let recipe = &picture.facts.recipe;
        if recipe.prompt.is_empty() && recipe.seed.is_none() && recipe.model.is_none() && recipe.loras.is_empty() {
            return Ok(true);
        }
        // Grouping left out the parameters.
        let Ok(reading) = metadata::read_file(&picture.path) else { return Ok(false) };
        let ours = comparable(reading.recipe);
        for seen in known {
            let theirs = self.whole_recipe(seen.place)?;
            if theirs.is_some_and(|theirs| comparable(image_recipe(theirs, seen.number)) == ours) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the full recipe of a recorded or planned iteration; `None` if it is lost.
    pub(super) fn whole_recipe(&self, place: RunPlace) -> Result<Option<Recipe>, Error> {
        if let Some(recipe) = self.unacknowledged.get(&place) {
            return Ok(Some(recipe.clone()));
        }
        match (self.planned_files.get(&place), place) {
            (Some(file), _) => Ok(metadata::read_file(file).ok().map(|reading| reading.recipe)),
            (None, RunPlace::Recorded(id)) => {
                Ok(self.workspace.log.iteration(id, Detail::Full)?.map(|state| state.iteration.recipe))
            }
            (None, RunPlace::Planned(..)) => Ok(None),
        }
    }

    /// Restores the original of a recorded image if it is missing or damaged. Returns whether it did.
    pub(super) fn restore(&self, picture: &InspectedImage) -> Result<bool, StoreFailure> {
        let images = &self.workspace.images;
        match images.check_unless_at(picture.hash, &picture.path) {
            Ok(()) => return Ok(false),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidData) => {}
            // An original that cannot be read now may still be intact.
            Err(_) => return Ok(false),
        }
        if self.request.dry_run {
            return Ok(true);
        }
        let restored = if self.request.link {
            images.relink(picture.hash, &picture.path)
        } else {
            images.put_file(&picture.path).map(|image| image.hash == picture.hash)
        };
        restored.map_err(|error| store_failure(&picture.path, error))
    }
}

/// The reason why an image could not be stored.
#[derive(Debug)]
pub(super) enum StoreFailure {
    /// Its file cannot be imported.
    File(String),
    /// The workspace cannot be written to.
    Workspace(Arc<Error>),
}

/// Distinguishes a bad file from a workspace that cannot be written to.
pub(super) fn store_failure(path: &Path, error: crate::images::ImageStoreError) -> StoreFailure {
    if error.path == path || error.action.starts_with("read") {
        StoreFailure::File(super::walk::unreadable(&error.source))
    } else {
        StoreFailure::Workspace(Arc::new(Error::from(error)))
    }
}

/// Returns a recipe without what only says where in its batch an image was.
fn comparable(mut recipe: Recipe) -> Recipe {
    recipe.parameters.retain(|name, _| !name.to_ascii_lowercase().starts_with("batch"));
    recipe
}
