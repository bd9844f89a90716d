//! Stores the images of a batch while the batches before it are made durable and recorded.
//!
//! Copying and decoding images keeps the processor busy, and making them durable the disk, so an import does both at
//! once. Nothing refers to an image until its batch is recorded, and a file that is not durable by the end of an import
//! is deleted.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::images::{Images, UnsyncedImage, metadata};
use crate::model::{Hash, ImageRef, Recipe};

use super::copies::{StoreFailure, store_failure};
use super::inspect::{InspectedImage, map_on_all_cores};
use super::runs::Run;

/// Stores images as an import was asked to. It does not borrow the import, which records other images meanwhile.
#[derive(Clone, Copy)]
pub(super) struct ImageWriter<'a> {
    pub(super) images: &'a Images,
    pub(super) link: bool,
    /// Only examines the images.
    pub(super) dry_run: bool,
}

/// The course of an import, for threads that store images ahead of their turn.
pub(super) struct Course<'a> {
    /// Set when the user stops the import.
    stop: &'a AtomicBool,
    /// The number of the batch that is recorded.
    turn: AtomicUsize,
    ended: AtomicBool,
}

impl<'a> Course<'a> {
    pub(super) fn new(stop: &'a AtomicBool) -> Course<'a> {
        Course { stop, turn: AtomicUsize::new(0), ended: AtomicBool::new(false) }
    }

    /// Notes that this batch is recorded next.
    pub(super) fn turn_to(&self, batch: usize) {
        self.turn.store(batch, Ordering::Relaxed);
    }

    /// Notes that no other batch is recorded.
    pub(super) fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }

    /// Returns whether no further images should be written.
    pub(super) fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.ended.load(Ordering::Relaxed)
    }

    /// Returns whether the images that were written for a batch are still recorded. If the import was stopped, that
    /// applies only to the batch in turn.
    fn needs(&self, batch: usize) -> bool {
        !self.is_over() || (!self.ended.load(Ordering::Relaxed) && self.turn.load(Ordering::Relaxed) >= batch)
    }
}

/// An image that is wanted in the workspace.
#[derive(Clone, Copy)]
pub(super) struct WantedImage<'f> {
    source: &'f InspectedImage,
    /// Whether the recipe of its run is read from it.
    is_first: bool,
}

/// Images that are written but not durable yet, by hash.
#[derive(Default)]
pub(super) struct WrittenImages<'f> {
    images: HashMap<Hash, (&'f InspectedImage, Result<UnsyncedImage, StoreFailure>)>,
    /// By path, since files with the same bytes can have different sidecar files.
    recipes: HashMap<&'f Path, Recipe>,
}

/// Images that are durable, by hash.
#[derive(Default)]
pub(super) struct StoredImages<'f> {
    images: HashMap<Hash, Result<ImageRef, StoreFailure>>,
    recipes: HashMap<&'f Path, Recipe>,
}

/// Returns the images of a run, in its order.
pub(super) fn wanted<'f>(found: &'f [InspectedImage], run: &'f Run) -> impl Iterator<Item = WantedImage<'f>> {
    let sources = run.pictures.iter().filter_map(|number| found.get(*number));
    sources.enumerate().map(|(number, source)| WantedImage { source, is_first: number == 0 })
}

impl WantedImage<'_> {
    /// Returns the hash of its bytes.
    pub(super) fn hash(&self) -> Hash {
        self.source.hash
    }
}

impl ImageWriter<'_> {
    /// Stores the images of a batch that may not be in turn yet, or none if it is not needed any more.
    pub(super) fn store_ahead<'f>(
        &self,
        wanted: &[WantedImage<'f>],
        batch: usize,
        course: &Course<'_>,
    ) -> StoredImages<'f> {
        let written = self.write_all(wanted, || course.is_over());
        if course.needs(batch) { self.persist(written) } else { StoredImages::default() }
    }

    /// Writes images, or fewer of them if stopped.
    pub(super) fn write_all<'f>(
        &self,
        wanted: &[WantedImage<'f>],
        stopped: impl Fn() -> bool + Sync,
    ) -> WrittenImages<'f> {
        let write = |WantedImage { source, is_first }: &WantedImage<'_>| {
            // Grouping left out the parameters.
            let mut reading = None;
            let written = self.write(source, |bytes| {
                if *is_first {
                    reading = metadata::read_file_bytes(&source.path, bytes).ok();
                }
            });
            // If the file is gone by now, its image was stored, or it is linked and will be reported later.
            if *is_first && reading.is_none() {
                reading = metadata::read_file(&source.path).ok();
            }
            (written, reading.map(|reading| reading.recipe))
        };
        let mut all = WrittenImages::default();
        let written = map_on_all_cores(wanted, write, |_| !stopped());
        for (WantedImage { source, .. }, (image, recipe)) in wanted.iter().zip(written) {
            all.images.insert(source.hash, (*source, image));
            all.recipes.extend(recipe.map(|recipe| (source.path.as_path(), recipe)));
        }
        all
    }

    /// Writes an image. Passes its bytes to `examine` if they are in memory anyway.
    fn write(&self, picture: &InspectedImage, examine: impl FnOnce(&[u8])) -> Result<UnsyncedImage, StoreFailure> {
        let path = picture.path.as_path();
        if self.link && path.to_str().is_none() {
            return Err(StoreFailure::File("its path is not UTF-8, so it can only be copied, not linked".to_owned()));
        }
        let image = if self.dry_run {
            Ok(self.describe(picture).into())
        } else if self.link {
            self.images.link_file(path).map(UnsyncedImage::from)
        } else {
            self.images.write_file(path, examine)
        };
        match image {
            Ok(image) if image.hash() == picture.hash => Ok(image),
            Ok(_) => Err(StoreFailure::File(
                "it changed while it was imported; importing again takes it as it is now".to_owned(),
            )),
            Err(error) => Err(store_failure(path, error)),
        }
    }

    /// Describes an image without storing it.
    fn describe(&self, picture: &InspectedImage) -> ImageRef {
        let seen = self.images.see_file(&picture.path).ok();
        let size = seen.map(|seen| (seen.width, seen.height)).or(picture.facts.size);
        ImageRef {
            hash: picture.hash,
            bytes: 0,
            mime_type: String::new(),
            width: size.map(|(width, _)| width),
            height: size.map(|(_, height)| height),
            name: Some(picture.name()),
            pixels: seen.map(|seen| seen.pixels),
            perceptual_hash: seen.map(|seen| seen.perceptual_hash),
            linked: None,
        }
    }

    /// Makes images durable together.
    pub(super) fn persist<'f>(&self, written: WrittenImages<'f>) -> StoredImages<'f> {
        let (mut stored, mut sources, mut unsynced) = (HashMap::new(), Vec::new(), Vec::new());
        for (hash, (source, image)) in written.images {
            match image {
                Ok(image) => {
                    sources.push(source);
                    unsynced.push(image);
                }
                Err(error) => drop(stored.insert(hash, Err(error))),
            }
        }
        for (source, image) in sources.into_iter().zip(self.images.persist_all(unsynced)) {
            stored.insert(source.hash, image.map_err(|error| store_failure(&source.path, error)));
        }
        StoredImages { images: stored, recipes: written.recipes }
    }
}

impl<'f> StoredImages<'f> {
    /// Adds other images.
    pub(super) fn extend(&mut self, other: StoredImages<'f>) {
        self.images.extend(other.images);
        self.recipes.extend(other.recipes);
    }

    pub(super) fn get(&self, hash: Hash) -> Option<&Result<ImageRef, StoreFailure>> {
        self.images.get(&hash)
    }

    /// Returns the whole recipe of a file, if it was read.
    pub(super) fn recipe(&self, path: &Path) -> Option<&Recipe> {
        self.recipes.get(path)
    }
}
