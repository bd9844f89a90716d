//! The identity of a workspace: the id in `retake.toml`, which segments, checkpoint and database carry as well.

use std::io;

use serde::{Deserialize, Serialize};

use crate::disk::FileKind;

use super::database::Database;
use super::journal::FORMAT;
use super::layout::{Layout, segment_number};
use super::record::Record;
use super::scan::{Entry, ScanItem, walk};
use super::segments::{JournalFiles, StrayKind};
use super::sources::{copy_database, remove_dir};
use super::{Error, Options};

/// The contents of `retake.toml`.
#[derive(Serialize, Deserialize)]
struct IdentityFile {
    format: u32,
    id: String,
}

/// Returns the workspace's id: from `retake.toml`, or else from the journal, or else a new one.
pub(super) fn identity(options: &Options, layout: &Layout) -> Result<[u8; 16], Error> {
    let path = layout.identity();
    let io_error =
        |source| Error::Io { action: "read the identity of the workspace".into(), path: path.clone(), source };
    let bytes = options.disk.read(&path, 64 << 10).map_err(io_error)?;
    let text = bytes.as_deref().and_then(|bytes| std::str::from_utf8(bytes).ok());
    // The format counts even if the rest cannot be parsed: a file of a newer version must not be repaired.
    let format = text.and_then(|text| text.parse::<toml::Table>().ok()?.get("format")?.as_integer());
    if let Some(found) = format.filter(|found| *found > i64::from(FORMAT)) {
        return Err(Error::NewerFormat { found: u32::try_from(found).unwrap_or(u32::MAX), known: FORMAT, path });
    }
    let stored = text.and_then(|text| toml::from_str::<IdentityFile>(text).ok()).filter(|file| file.id.len() == 32);
    let stored = stored.and_then(|file| u128::from_str_radix(&file.id, 16).ok()).map(u128::to_be_bytes);
    let id = match stored {
        Some(stored) => match other_owner(options, layout, stored)? {
            None => return Ok(stored),
            Some(owner) => owner,
        },
        None => match first_header(options, layout)? {
            Some(id) => id,
            None => random_id().map_err(|source| Error::Io {
                action: "draw a random id for the workspace".into(),
                path: layout.dir().to_owned(),
                source,
            })?,
        },
    };
    let file = IdentityFile { format: FORMAT, id: format!("{:032x}", u128::from_be_bytes(id)) };
    let text = toml::to_string(&file).unwrap_or_default();
    options.disk.replace(&path, text.as_bytes()).map_err(|source| Error::Io {
        action: "write the identity of the workspace".into(),
        path,
        source,
    })?;
    Ok(id)
}

/// Returns the id on which the journal and the database agree, against `retake.toml`: two copies that belong together
/// are the workspace, whatever else is foreign.
fn other_owner(options: &Options, layout: &Layout, stored: [u8; 16]) -> Result<Option<[u8; 16]>, Error> {
    let files = JournalFiles { disk: options.disk.clone(), layout: layout.clone(), workspace: stored };
    let io_error = |source: io::Error| Error::Io { action: "read the journal".into(), path: layout.journal(), source };
    if !matches!(options.disk.kind(&layout.journal()).map_err(io_error)?, FileKind::Directory) {
        return Ok(None);
    }
    let outline = files.outline(0).map_err(io_error)?;
    let mut owners = outline.strays.iter().filter_map(|stray| match stray.kind {
        StrayKind::Foreign(owner) => Some(owner),
        _ => None,
    });
    let Some(owner) = owners.next().filter(|owner| outline.segments.is_empty() && owners.all(|other| other == *owner))
    else {
        return Ok(None);
    };
    let database_error =
        |source: io::Error| Error::Io { action: "read the database".into(), path: layout.database(), source };
    if options.disk.kind(&layout.database()).map_err(database_error)? != FileKind::Directory {
        // The journal is the only copy.
        return Ok(Some(owner));
    }
    // The database may be the only intact copy, and sled changes what it opens.
    let copy = layout.database_copy();
    copy_database(&layout.database(), &copy).map_err(database_error)?;
    let names: Vec<String> = outline.strays.iter().map(|stray| stray.name.clone()).collect();
    let agrees = match Database::open(&options.disk, &copy) {
        Ok(database) => agrees_with(&database, owner, &files, &names).map_err(io_error),
        Err(error) if error.is_transient() => Err(error.into_error(&layout.database())),
        Err(_) => Ok(true),
    };
    remove_dir(&copy).map_err(database_error)?;
    Ok(agrees?.then_some(owner))
}

/// Returns whether a database belongs to the workspace of this id, whose journal has segments of these names.
fn agrees_with(database: &Database, owner: [u8; 16], files: &JournalFiles, names: &[String]) -> io::Result<bool> {
    if let Some(workspace) = database.workspace().ok().flatten() {
        return Ok(workspace == owner);
    }
    // A database of version 0.1 does not contain its workspace's id; check whether it has the journal's first event.
    let first = first_record(files, names)?;
    Ok(first.as_deref().and_then(Record::read).is_some_and(|record| {
        let stored = database.events.get(record.header.session, record.header.seq).ok().flatten();
        stored.is_some_and(|stored| stored.record().is_some_and(|stored| stored.hash == record.hash))
    }))
}

fn first_record(files: &JournalFiles, names: &[String]) -> io::Result<Option<Vec<u8>>> {
    let Some(number) = names.first().and_then(|name| segment_number(name)) else { return Ok(None) };
    let bytes = files.read(number, super::journal::SEGMENT_HEADER)?.unwrap_or_default();
    let mut first = None;
    walk(&bytes, 0, &mut |item| {
        if let (None, ScanItem::Frame(frame)) = (&first, item) {
            first = frame.entries.iter().find_map(|(_, entry)| match entry {
                Entry::Record(record) => Some(record.bytes.to_vec()),
                Entry::Text(..) => None,
            });
        }
    });
    Ok(first)
}

/// Returns the workspace id in the first segment with an intact header.
fn first_header(options: &Options, layout: &Layout) -> Result<Option<[u8; 16]>, Error> {
    let files = JournalFiles { disk: options.disk.clone(), layout: layout.clone(), workspace: [0; 16] };
    let io_error = |source| Error::Io { action: "read the journal".into(), path: layout.journal(), source };
    if !matches!(options.disk.kind(&layout.journal()).map_err(io_error)?, FileKind::Directory) {
        return Ok(None);
    }
    let outline = files.outline(0).map_err(io_error)?;
    Ok(outline.strays.iter().find_map(|stray| match stray.kind {
        StrayKind::Foreign(owner) => Some(owner),
        _ => None,
    }))
}

fn random_id() -> io::Result<[u8; 16]> {
    let mut id = [0; 16];
    getrandom::fill(&mut id)?;
    Ok(id)
}
