//! The files of sled: checking and opening them, and syncing what sled does not.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::RwLock;
use std::thread;
use std::time::{Duration, Instant};

use sled::Tree;

use crate::disk::{Disk, FileKind};
use crate::platform;
use crate::store::events::EventTree;
use crate::store::head_tree::HeadTree;
use crate::store::key_index::KeyIndex;

use super::error::{DatabaseError, is_lock_error};
use super::{Database, START, Trees};

/// The size of sled's page cache: a page of the listing and a long history fit many times over.
const CACHE_BYTES: u64 = 16 << 20;

/// Checks that sled will find only regular files, since a FIFO would block it forever, and returns the size of the
/// largest.
pub(super) fn check_files(disk: &Disk, path: &Path) -> Result<u64, DatabaseError> {
    let wrong = |name: &str| DatabaseError::Inconsistent(format!("{name} is not what the database keeps there"));
    match disk.kind(path)? {
        FileKind::Absent => return Ok(0),
        FileKind::Directory => {}
        FileKind::File(_) | FileKind::Other => return Err(wrong("its directory")),
    }
    let mut size = 0;
    for name in disk.list(path)? {
        // A snapshot that sled was writing when the disk failed or the process died: sled would take it for its newest
        // one, and does not truncate it when it writes the next one of that name.
        if name.starts_with("snap.") && name.ends_with(".generating") {
            disk.remove(&path.join(&name))?;
            continue;
        }
        match disk.kind(&path.join(&name))? {
            FileKind::File(bytes) => size = size.max(bytes),
            FileKind::Directory if name == "blobs" || name == "keys" => {}
            FileKind::Absent => {}
            FileKind::Directory | FileKind::Other => return Err(wrong(&name)),
        }
    }
    Ok(size)
}

/// Opens the database, waiting for sled, which refuses a directory for some milliseconds after another handle in this
/// process was dropped.
pub(super) fn open_waiting(disk: &Disk, path: &Path) -> Result<Database, DatabaseError> {
    let begun = Instant::now();
    loop {
        match open_now(disk, path) {
            Err(DatabaseError::Sled(sled::Error::Io(error)))
                if is_lock_error(&error) && begun.elapsed() < Duration::from_secs(5) =>
            {
                thread::sleep(Duration::from_millis(2));
            }
            opened => return opened,
        }
    }
}

/// Opens a tree of an earlier layout, if it exists.
pub(super) fn older_tree(db: &sled::Db, name: &str) -> Option<Tree> {
    let exists = db.tree_names().iter().any(|known| known == name.as_bytes());
    if exists { db.open_tree(name).ok() } else { None }
}

pub(super) fn open_now(disk: &Disk, path: &Path) -> Result<Database, DatabaseError> {
    let db = sled::Config::new().path(path).cache_capacity(CACHE_BYTES).flush_every_ms(None).open()?;
    let tree = |name: &str| db.open_tree(name);
    let trees = Trees {
        events: EventTree::new(tree("events")?),
        // Version 0.1 had trees `heads`, `recency` and `keys`; these names are not reused.
        heads: HeadTree::new(tree("head_blocks")?, older_tree(&db, "heads")),
        listing: tree("listing")?,
        keys: RwLock::new(KeyIndex::open(&path.join("keys"), START)?),
        children: tree("children")?,
        days: tree("days")?,
        texts: tree("texts")?,
        meta: tree("meta")?,
        db,
    };
    Ok(Database { path: path.to_owned(), disk: disk.clone(), trees: Some(trees) })
}

pub(super) fn sync_files(path: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            File::open(entry.path())?.sync_data()?;
        }
    }
    platform::sync_dir(path)
}
