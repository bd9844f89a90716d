//! The other copies that a recovery reads: the old database, and everything quarantined by earlier recoveries.
//!
//! Each is read completely, or the recovery ends with the error: a file that cannot be read now is not an empty one.
//! Files of another workspace are ignored.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use memchr::memmem;

use crate::disk::FileKind;

use super::database::{Database, DatabaseError, guard};
use super::journal::{SEGMENT_HEADER, SegmentHeader};
use super::merge::Rank;
use super::pack;
use super::rebuild::{Rebuild, owned};
use super::scan::{Entry, ScanItem, carve, walk};
use super::segments::{StrayKind, may_hold_records};
use super::{Error, keys, quarantine};

/// The number of bytes of a raw file searched at once.
const CHUNK: usize = 32 << 20;
/// The overlap of two chunks: more than the longest record.
const OVERLAP: usize = 2 << 20;

/// The encodings of the workspace id's key in sled's files: before a value of 16 bytes, and in a page with its
/// neighbouring keys. Databases of version 0.1 contain no id.
const WORKSPACE_KEYS: [&[u8]; 2] = [b"\tworkspace\x10", b"\x06totals\tworkspace"];

/// Whether the events of a database belong to this workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ownership {
    Own,
    Foreign,
}

impl Rebuild<'_> {
    /// Offers the contents of other copies than the journal's intact frames.
    pub(super) fn read_other_copies(&mut self) -> Result<(), Error> {
        let old = self.context.layout.database();
        if self.kind(&old)? == FileKind::Directory {
            self.database_is_foreign = self.read_database(&old, Rank::Database)? == Ownership::Foreign;
        }
        for stray in self.outline.strays.clone() {
            if let StrayKind::Misnamed(_) = stray.kind {
                self.read_segment_copy(&self.context.layout.journal().join(&stray.name))?;
            }
        }
        let quarantined = quarantine::directories(self.context.disk, self.context.layout);
        let look = self.context.error("examine the quarantine", self.context.layout.quarantine());
        for place in quarantined.map_err(look)? {
            self.read_quarantined(&place)?;
        }
        Ok(())
    }

    fn read_quarantined(&mut self, place: &Path) -> Result<(), Error> {
        let names =
            self.context.disk.list(place).map_err(self.context.error("examine the quarantine", place.to_owned()))?;
        for name in names.iter().filter(|name| !name.starts_with(quarantine::FOREIGN)) {
            let path = place.join(name);
            match self.kind(&path)? {
                FileKind::Directory if name.starts_with("db") => {
                    self.read_database(&path, Rank::Quarantine)?;
                }
                FileKind::File(_) if name.ends_with(".log") => self.read_segment_copy(&path)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Reads a copy of one of this journal's segments.
    fn read_segment_copy(&mut self, path: &Path) -> Result<(), Error> {
        let read = self.context.files.read_file(path, 0);
        let bytes =
            read.map_err(self.context.error("read a segment that was set aside", path.to_owned()))?.unwrap_or_default();
        let header = SegmentHeader::from_bytes(&bytes);
        if header.is_some_and(|header| header.workspace != self.context.workspace) {
            return Ok(());
        }
        let void_from = header.map_or(u64::MAX, |header| self.outline.void_from(header.segment));
        let mut found = Vec::new();
        let start = usize::try_from(SEGMENT_HEADER).unwrap_or(0);
        walk(bytes.get(start..).unwrap_or_default(), SEGMENT_HEADER, &mut |item| match item {
            ScanItem::Frame(frame) if frame.number >= void_from => {}
            ScanItem::Frame(frame) => {
                let whole = frame.entries.iter().filter(|(_, entry)| entry.is_true());
                found.extend(whole.map(|(_, entry)| owned(entry)));
            }
            // A write that never completed was never acknowledged.
            ScanItem::Damage(span) if span.is_torn => {}
            ScanItem::Damage(span) => found.extend(span.entries.iter().map(|(_, entry)| owned(entry))),
        });
        found.iter().try_for_each(|bytes| self.offer(bytes, Rank::Quarantine))
    }

    /// Reads a database: with sled, on a copy, since opening it in place could overwrite recoverable data; then its raw
    /// files.
    fn read_database(&mut self, path: &Path, rank: Rank) -> Result<Ownership, Error> {
        let copy = self.context.layout.database_copy();
        let copy_error = || self.context.error("copy the old database", copy.clone());
        let files = copy_database(path, &copy).map_err(copy_error())?;
        let mut ownership = None;
        match Database::open(self.context.disk, &copy) {
            Ok(database) => match self.read_trees(&database, &files, rank) {
                Ok(owner) => ownership = Some(owner),
                Err(Error::Io { action, path, source }) => return Err(Error::Io { action, path, source }),
                // What sled can no longer read is searched for in its files.
                Err(error) => tracing::warn!(%error, "the old database cannot be read completely"),
            },
            Err(error) if error.is_transient() => return Err(error.into_error(path)),
            Err(error) => tracing::warn!(%error, "the old database does not open"),
        }
        remove_dir(&copy).map_err(copy_error())?;
        let is_foreign = match ownership {
            Some(ownership) => ownership == Ownership::Foreign,
            None => self.names_another_workspace(&files)?,
        };
        if is_foreign {
            return Ok(Ownership::Foreign);
        }
        for (at, file) in files.iter().enumerate() {
            self.context.report("searching the old database", at as u64, files.len() as u64);
            self.search_file(file, rank)?;
        }
        Ok(Ownership::Own)
    }

    fn read_trees(&mut self, database: &Database, files: &[PathBuf], rank: Rank) -> Result<Ownership, Error> {
        let is_foreign = match self.ownership(database)? {
            Some(ownership) => ownership == Ownership::Foreign,
            None => self.names_another_workspace(files)?,
        };
        if is_foreign {
            return Ok(Ownership::Foreign);
        }
        database.events.for_each_session(|_, events| -> Result<(), Error> {
            for stored in events {
                if let Some(record) = stored.checked_record() {
                    self.offer(record.bytes, rank)?;
                }
            }
            Ok(())
        })?;
        database.heads.for_each(|head| self.heard_of(head.id, head.next_seq, head.last_index))?;
        let mut days = database.days.iter();
        while let Some((key, value)) = guard(|| Ok(days.next().transpose()?))? {
            if let (Some(day), Some(number)) = (keys::be_u32(&key, 0), keys::le_u32(&value, 0)) {
                self.newest_of_day(day, number);
            }
        }
        // Files quarantined by an earlier recovery may contain events that were withdrawn since.
        if rank == Rank::Database
            && let Ok(totals) = database.totals()
        {
            self.expected_events = self.expected_events.max(totals.events);
        }
        Ok(Ownership::Own)
    }

    /// Decides whether the events of a database belong to this workspace: by its id, or in version 0.1 by whether the
    /// events that the journal has too are the same.
    fn ownership(&self, database: &Database) -> Result<Option<Ownership>, DatabaseError> {
        match database.workspace()? {
            Some(id) if id == self.context.workspace => return Ok(Some(Ownership::Own)),
            Some(_) => return Ok(Some(Ownership::Foreign)),
            None => {}
        }
        let (mut same, mut different) = (0, 0);
        let compared = database.events.for_each_session(|id, events| -> Result<(), DatabaseError> {
            for stored in events {
                let Some(record) = stored.record() else { continue };
                let own = self.database.events.get(id, stored.seq)?;
                match own.as_ref().and_then(|own| own.record()) {
                    Some(own) if own.hash == record.hash => same += 1,
                    Some(_) => different += 1,
                    None => {}
                }
            }
            // The sample is large enough.
            if same + different > 1000 { Err(DatabaseError::Closed) } else { Ok(()) }
        });
        match compared {
            Ok(()) | Err(DatabaseError::Closed) => {}
            Err(error) if error.is_transient() => return Err(error),
            Err(_) => {}
        }
        Ok(match (same, different) {
            (0, 0) => None,
            (0, _) => Some(Ownership::Foreign),
            _ => Some(Ownership::Own),
        })
    }

    /// Returns whether the raw files of a database that does not open contain a workspace id, but never this one. sled
    /// rewrites the page with the id at every checkpoint, so damage is unlikely to hit all of its copies.
    fn names_another_workspace(&self, files: &[PathBuf]) -> Result<bool, Error> {
        let mut names_one = false;
        for path in files {
            let error = || self.context.error("search the old database", path.clone());
            let Some(file) = self.context.disk.open_to_read(path).map_err(error())? else { continue };
            let mut at = 0;
            loop {
                let chunk = file.read_at(at, CHUNK).map_err(error())?;
                if memmem::find(&chunk, &self.context.workspace).is_some() {
                    return Ok(false);
                }
                names_one |= WORKSPACE_KEYS.iter().any(|key| memmem::find(&chunk, key).is_some());
                if chunk.len() < CHUNK {
                    break;
                }
                at += (CHUNK - OVERLAP) as u64;
            }
        }
        Ok(names_one)
    }

    /// Searches a raw file for records and texts.
    fn search_file(&mut self, path: &Path, rank: Rank) -> Result<(), Error> {
        let error = || self.context.error("search the old database", path.to_owned());
        let Some(file) = self.context.disk.open_to_read(path).map_err(error())? else { return Ok(()) };
        let mut at = 0;
        loop {
            let chunk = file.read_at(at, CHUNK).map_err(error())?;
            if may_hold_records(&chunk) || !carve(&chunk, 0).0.is_empty() {
                for (_, entry) in carve(&chunk, 0).0 {
                    match entry {
                        Entry::Record(record) => self.offer(record.bytes, rank)?,
                        Entry::Text(..) => self.offer(&owned(&entry), rank)?,
                    }
                }
            }
            for body in pack::salvage(&chunk) {
                for (_, entry) in carve(&body, 0).0 {
                    self.offer(&owned(&entry), rank)?;
                }
            }
            if chunk.len() < CHUNK {
                return Ok(());
            }
            at += (CHUNK - OVERLAP) as u64;
        }
    }

    fn kind(&self, path: &Path) -> Result<FileKind, Error> {
        self.context.disk.kind(path).map_err(self.context.error("examine an old copy", path.to_owned()))
    }
}

/// Copies the files of a database to a directory, replacing its contents, and returns the copied files.
pub(super) fn copy_database(from: &Path, to: &Path) -> io::Result<Vec<PathBuf>> {
    remove_dir(to)?;
    let mut files = Vec::new();
    files_below(from, &mut files)?;
    copy_files(from, &files, to)?;
    Ok(files)
}

/// Finds the regular files below a directory; anything else does not belong to a database.
fn files_below(dir: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            files_below(&entry.path(), files)?;
        } else if kind.is_file() {
            files.push(entry.path());
        }
    }
    Ok(())
}

fn copy_files(from: &Path, files: &[PathBuf], to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for file in files {
        let target = to.join(file.strip_prefix(from).unwrap_or(file));
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::copy(file, target)?;
    }
    Ok(())
}

/// Removes a directory with its contents, if it exists.
pub(super) fn remove_dir(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
