//! The manifest: the segments that make up the index, and the journal position they cover. Files that it does not list
//! are leftovers and are removed.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use retake_log::store::Point;

/// The version of the index, raised when words, columns or indexed fields change. An index of another version is rebuilt.
const VERSION: u32 = 3;

/// The contents of the manifest file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Manifest {
    version: u32,
    /// The recoveries of the log so far: after another one, the index may contain what was lost.
    pub(super) recoveries: String,
    /// The journal position up to which the segments are complete.
    pub(super) point: Point,
    /// The segments, oldest first.
    pub(super) segments: Vec<Entry>,
    /// The number of the next segment.
    pub(super) next: u64,
}

/// A segment, with the documents that newer segments supersede.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Entry {
    pub(super) number: u64,
    pub(super) dead: Vec<u32>,
    pub(super) dead_sessions: Vec<u32>,
}

impl Manifest {
    pub(super) fn new(recoveries: String, point: Point, segments: Vec<Entry>, next: u64) -> Manifest {
        Manifest { version: VERSION, recoveries, point, segments, next }
    }

    /// Reads the manifest in `dir`; `None` if it does not exist or cannot be read.
    pub(super) fn read(dir: &Path) -> Option<Manifest> {
        let bytes = fs::read(dir.join("manifest")).ok()?;
        let (body, crc) = bytes.split_last_chunk::<4>()?;
        if crc32fast::hash(body) != u32::from_le_bytes(*crc) {
            return None;
        }
        let version: u32 = bincode::deserialize(body).ok()?;
        if version != VERSION {
            return None;
        }
        bincode::deserialize(body).ok()
    }

    /// Replaces the manifest atomically: after a crash, it is the old one or the new one.
    pub(super) fn write(&self, dir: &Path) -> io::Result<()> {
        let mut bytes = bincode::serialize(self).map_err(io::Error::other)?;
        let crc = crc32fast::hash(&bytes);
        bytes.extend_from_slice(&crc.to_le_bytes());
        let temp = dir.join("manifest.new");
        let mut file = File::create(&temp)?;
        file.write_all(&bytes)?;
        file.sync_data()?;
        fs::rename(&temp, dir.join("manifest"))
    }

    /// Removes segments that the manifest does not list.
    pub(super) fn sweep(&self, dir: &Path) {
        let Ok(entries) = fs::read_dir(dir) else { return };
        for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
            let named = self.segments.iter().any(|entry| segment_path(dir, entry.number) == path);
            if !named && path.extension().is_some_and(|extension| extension == "segment") {
                let _ = fs::remove_file(path);
            }
        }
    }
}

/// Returns the path of a segment.
pub(super) fn segment_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{number:08}.segment"))
}
