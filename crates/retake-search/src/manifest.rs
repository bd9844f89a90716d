//! The manifest: which segments make up the index, and how far it has come. The index is whatever the manifest says; a
//! file that it does not name is left over and removed.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use retake_log::store::Point;

/// Raised when anything about the index changes: words, columns, or what is indexed. Another one is made again.
const VERSION: u32 = 1;

/// What is written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Manifest {
    version: u32,
    /// Which recoveries the log had been through: after another one the index may hold what was lost.
    pub(super) recoveries: String,
    /// Everything before this point of the journal is in the segments.
    pub(super) point: Point,
    /// The segments, oldest first.
    pub(super) segments: Vec<Entry>,
    /// The number of the next one.
    pub(super) next: u64,
}

/// A segment, and what newer ones say better.
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

    /// The manifest in `dir`; none when there is none that can be read.
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

    /// Takes the place of the one before, at once: afterwards, whenever the process dies, it is the old one or the new.
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

    /// Removes what it does not name.
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

/// Where the segment of that number is.
pub(super) fn segment_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{number:08}.segment"))
}
