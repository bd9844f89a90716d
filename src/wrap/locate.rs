//! Finds the images that a call made: files named in the result or the arguments, and images in the result itself.
//! Decides which is the real one if the result also contains a preview.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use crate::images::{Header, UNKNOWN_TYPE};

use super::answer::{ToolAnswer, from_file_uri};
use super::arguments::CallArguments;
use super::files::{Base, ServerFile};

/// An image that a call made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FoundImage {
    /// Its bytes.
    #[serde(with = "super::base64::text")]
    pub(crate) bytes: Vec<u8>,
    /// The file it came from; `None` if it was in the result itself.
    pub(crate) path: Option<String>,
}

/// The images found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Located {
    /// The images.
    pub(crate) images: Vec<FoundImage>,
    /// Paths in the result at which there is no image.
    pub(crate) missing: Vec<String>,
    /// Whether the files are older than the call, as in a cache.
    pub(crate) pre_existing: bool,
    /// The number of images in the result that were left out as previews of files.
    pub(crate) previews: usize,
}

/// The tolerance for files older than the call, since file systems round times.
const CLOCK_SLACK: Duration = Duration::from_secs(2);
/// The maximum number of images of one iteration.
const MAX_IMAGES: usize = 64;

/// Finds the images made by a call that started at this time.
pub(crate) fn locate(answer: &ToolAnswer, asked: &CallArguments, started: SystemTime, base: &Base) -> Located {
    // An input written since the start is an output: an edit in place, or the `image_path` of a tool that only
    // generates.
    let is_written = |file: &ServerFile| file.modified.is_some_and(|at| at >= started);
    let inputs: BTreeSet<_> =
        asked.inputs.iter().chain(&asked.masks).map(|named| resolve(base, &named.value)).collect();
    let mut files: Vec<ServerFile> = Vec::new();
    let mut missing = Vec::new();
    // A bare name may refer to the directory named in the result, or else in the arguments.
    let dirs = answer.dirs.iter().chain(asked.outputs.iter().map(|named| &named.value));
    let dirs: Vec<&String> = dirs.collect();
    let below =
        answer.paths.iter().filter(|name| !looks_absolute(name)).flat_map(|name| {
            dirs.iter().map(move |dir| (format!("{}/{name}", dir.trim_end_matches(['/', '\\'])), true))
        });
    let named = answer.paths.iter().map(|name| (name.clone(), true)).chain(below.collect::<Vec<_>>());
    // A previous output may still exist at the requested location.
    let asked_for = outputs(asked).into_iter().map(|name| (name, false));
    for (name, is_named) in named.chain(asked_for) {
        let is_input = inputs.contains(&base.resolve(&name));
        match base.image(&name) {
            Some(file) if (is_input || !is_named) && !is_written(&file) => (),
            None if is_input => (),
            Some(file) if files.iter().any(|known| known.path == file.path) => (),
            Some(file) => files.push(file),
            None if is_named && looks_absolute(&name) && answer.paths.contains(&name) => missing.push(name),
            None => (),
        }
    }
    for named in &asked.inputs {
        let file = base.image(from_file_uri(&named.value).as_deref().unwrap_or(&named.value)).filter(is_written);
        files.extend(file.filter(|file| files.iter().all(|known| known.path != file.path)));
    }
    let is_old = |file: &ServerFile| file.modified.is_some_and(|at| at + CLOCK_SLACK < started);
    let pre_existing = !files.is_empty() && files.iter().all(is_old);
    if !pre_existing {
        files.retain(|file| !is_old(file));
    }
    let inline: Vec<&Vec<u8>> =
        answer.inline.iter().filter(|bytes| Header::of(bytes).mime_type != UNKNOWN_TYPE).collect();
    let larger_inline =
        largest(inline.iter().map(|bytes| bytes.as_slice())) > largest(files.iter().map(|file| file.bytes.as_slice()));
    let use_files = !files.is_empty() && !larger_inline && (!pre_existing || inline.is_empty());
    if !files.is_empty() {
        // If a list contains spaces, the pieces that are not files were only one way to split it.
        missing.clear();
    }
    let previews = if use_files { inline.len() } else { 0 };
    let mut images: Vec<FoundImage> = if use_files {
        let found =
            |file: ServerFile| FoundImage { path: Some(file.path.to_string_lossy().into_owned()), bytes: file.bytes };
        files.into_iter().map(found).collect()
    } else {
        inline.into_iter().map(|bytes| FoundImage { bytes: bytes.clone(), path: None }).collect()
    };
    images.truncate(MAX_IMAGES);
    Located { images, missing, pre_existing: pre_existing && use_files, previews }
}

/// Returns the requested output locations: each one by itself, and file names below directories.
fn outputs(asked: &CallArguments) -> Vec<String> {
    let places: Vec<String> =
        asked.outputs.iter().map(|named| from_file_uri(&named.value).unwrap_or_else(|| named.value.clone())).collect();
    let mut found = places.clone();
    for dir in &places {
        for name in places.iter().filter(|name| *name != dir && !name.contains(['/', '\\'])) {
            found.push(format!("{dir}/{name}"));
            found.push(format!("{dir}/{name}.png"));
        }
    }
    found
}

fn resolve(base: &Base, name: &str) -> std::path::PathBuf {
    base.resolve(from_file_uri(name).as_deref().unwrap_or(name))
}

fn looks_absolute(name: &str) -> bool {
    name.starts_with(['/', '~']) || name.as_bytes().get(1) == Some(&b':')
}

fn largest<'a>(images: impl Iterator<Item = &'a [u8]>) -> u64 {
    let area = |bytes: &[u8]| {
        let header = Header::of(bytes);
        u64::from(header.width.unwrap_or(0)) * u64::from(header.height.unwrap_or(0))
    };
    images.map(area).max().unwrap_or(0)
}
