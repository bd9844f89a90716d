//! Examines files: reads each file's type and metadata without decoding it, and keeps only what grouping needs.

use std::fs::{self, File};
use std::io::Read;
use std::path::PathBuf;

use parking_lot::Mutex;

use crate::images::metadata::{self, Created, Evidence, Generator, Reading};
use crate::images::{self, Header, MAX_IMAGE_BYTES, UNKNOWN_TYPE};
use crate::model::{Hash, Recipe, Timestamp};

use super::walk::{Candidate, unreadable};

/// The maximum size of a file that is read into memory, once for its hash and its metadata. Of a larger one, such as a
/// video, the metadata is a small part.
const MAX_WHOLE_BYTES: u64 = 4 * 1024 * 1024;
/// The number of bytes that show the type of a file.
const HEADER_BYTES: u64 = 64;

/// An image that was found.
#[derive(Clone, Debug)]
pub(crate) struct InspectedImage {
    /// Where it is.
    pub(crate) path: PathBuf,
    /// The output folder of the tool that wrote it.
    pub(crate) root: PathBuf,
    /// The hash of its bytes.
    pub(super) hash: Hash,
    /// The number of its bytes.
    pub(super) bytes: u64,
    /// When the file was last written.
    pub(super) modified: Timestamp,
    /// When the image was made, as far as that is known.
    pub(crate) at: Timestamp,
    /// Its position among the files of its folder.
    pub(super) place: i64,
    /// The media type, recognised by the first bytes.
    pub(super) mime_type: &'static str,
    /// The metadata in the file.
    pub(super) facts: ImageFacts,
}

/// The metadata of an image, reduced to what grouping needs.
#[derive(Clone, Debug, Default)]
pub(super) struct ImageFacts {
    /// The tool that made it.
    pub(super) generator: Option<Generator>,
    /// The recipe without `parameters`: those of many thousand images together can exceed memory.
    pub(super) recipe: Recipe,
    /// When it was made, if the file says so.
    pub(super) created_at: Option<Created>,
    /// A key that all images of a run share.
    pub(super) run_key: Option<Hash>,
    /// A fingerprint that all graphs of the same structure share.
    pub(super) workflow: Option<Hash>,
    /// Hints at the image it was made from.
    pub(super) evidence: Evidence,
    /// The size of the image itself.
    pub(super) size: Option<(u32, u32)>,
}

impl InspectedImage {
    /// Returns its file name for display.
    pub(super) fn name(&self) -> String {
        self.path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    }
}

impl From<Reading> for ImageFacts {
    fn from(reading: Reading) -> ImageFacts {
        let Reading { generator, recipe, created_at, run_key, workflow_fingerprint, evidence, width, height, .. } =
            reading;
        ImageFacts {
            generator,
            recipe: Recipe { parameters: serde_json::Map::new(), ..recipe },
            created_at,
            run_key,
            workflow: workflow_fingerprint,
            evidence,
            size: width.zip(height),
        }
    }
}

/// Examines a file. The error is the reason why it cannot be imported.
pub(super) fn inspect(candidate: &Candidate) -> Result<InspectedImage, String> {
    let Candidate { path, root } = candidate;
    let unreadable = |error| unreadable(&error);
    let about = fs::metadata(path).map_err(unreadable)?;
    match about.len() {
        0 => return Err("it is empty".to_owned()),
        1..=MAX_IMAGE_BYTES => {}
        bytes => return Err(format!("it has {bytes} bytes, and at most {MAX_IMAGE_BYTES} are allowed")),
    }
    let mut file = File::open(path).map_err(unreadable)?;
    let is_small = about.len() <= MAX_WHOLE_BYTES;
    let mut first = Vec::with_capacity(usize::try_from(about.len().min(MAX_WHOLE_BYTES)).unwrap_or(0));
    let beginning = if is_small { MAX_WHOLE_BYTES + 1 } else { HEADER_BYTES };
    file.by_ref().take(beginning).read_to_end(&mut first).map_err(unreadable)?;
    let mime_type = Header::of(&first).mime_type;
    if mime_type == UNKNOWN_TYPE {
        return Err("not an image or video of a known type".to_owned());
    }
    let is_whole = is_small && first.len() as u64 <= MAX_WHOLE_BYTES;
    let mut hasher = blake3::Hasher::new();
    hasher.update(&first);
    let reading = if is_whole {
        metadata::read_file_bytes(path, &first)
    } else {
        hasher.update_reader(file).map_err(unreadable)?;
        metadata::read_file(path)
    };
    let facts = ImageFacts::from(reading.map_err(unreadable)?);
    let modified = about.modified().ok().map(|time| Timestamp::from(chrono::DateTime::<chrono::Utc>::from(time)));
    let modified = modified.or(Timestamp::from_millis(0)).ok_or("its modification time is invalid")?;
    Ok(InspectedImage {
        path: path.clone(),
        root: root.clone(),
        hash: Hash(*hasher.finalize().as_bytes()),
        bytes: about.len(),
        modified,
        at: modified,
        place: 0,
        mime_type,
        facts,
    })
}

/// Processes every item on all cores and returns the results in the order of the items. Calls `go_on` with the number
/// of finished items after each one; once it returns `false`, the results cover only a prefix of the items.
pub(super) fn map_on_all_cores<T: Sync, R: Send>(
    items: &[T],
    ask: impl Fn(&T) -> R + Sync,
    go_on: impl Fn(u64) -> bool + Sync,
) -> Vec<R> {
    let numbered: Vec<(usize, &T)> = items.iter().enumerate().collect();
    let answers: Mutex<Vec<(usize, R)>> = Mutex::new(Vec::with_capacity(items.len()));
    let work = |(number, item): &(usize, &T)| {
        let answer = ask(item);
        answers.lock().push((*number, answer));
    };
    // Items are started in order and always finished, so the finished ones are a prefix.
    images::on_all_cores(&numbered, work, go_on);
    let mut answers = answers.into_inner();
    answers.sort_by_key(|(number, _)| *number);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn results_are_in_the_order_of_the_items() {
        let items: Vec<u64> = (0..1000).collect();
        let reported = AtomicUsize::new(0);
        let count = |_| reported.fetch_add(1, Ordering::Relaxed) < usize::MAX;
        assert_eq!(map_on_all_cores(&items, |n| n * 2, count), items.iter().map(|n| n * 2).collect::<Vec<_>>());
        assert_eq!(reported.into_inner(), 1000);
        assert!(map_on_all_cores(&[] as &[u64], |n| *n, |_| true).is_empty());
    }

    #[test]
    fn stopping_early_returns_a_prefix() {
        let items: Vec<usize> = (0..1000).collect();
        let answers = map_on_all_cores(&items, |n| *n, |done| done < 10);
        assert!((10..1000).contains(&answers.len()), "{}", answers.len());
        assert_eq!(answers, items[..answers.len()]);
    }
}
