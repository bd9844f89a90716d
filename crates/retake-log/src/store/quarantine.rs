//! What recoveries set aside, and their reports: `quarantine/NAME/report.json`, and beside it an empty file `read` once
//! somebody has read it.
//!
//! The directory is made before a recovery changes anything, and the report gets its name last: a directory without one
//! belongs to a recovery that died, and is taken up again. Until then the report is called `report.pending`: it is
//! written before the new database takes its place, so that no loss can be settled and not reported.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::disk::Disk;
use crate::model::Timestamp;

use super::{Error, Recovery};

const REPORT: &str = "report.json";
const PENDING: &str = "report.pending";
const READ: &str = "read";

/// The name of a recovery: that of one which did not come to its report and is now taken up again, else a new one.
pub(super) fn name_for(dir: &Path, now: Timestamp) -> String {
    let unfinished = unfinished(dir).into_iter().next();
    if let Some(name) = unfinished.as_deref().and_then(Path::file_name).and_then(|name| name.to_str()) {
        return name.to_owned();
    }
    let stamp: String = now.to_string().chars().filter(char::is_ascii_alphanumeric).collect();
    let name = |number: u32| if number == 0 { stamp.clone() } else { format!("{stamp}-{number}") };
    let free = |name: &String| !dir.join("quarantine").join(name).exists();
    (0..10_000).map(name).find(free).unwrap_or(stamp.clone())
}

/// Directories of recoveries that did not come to their report.
pub(super) fn unfinished(dir: &Path) -> Vec<PathBuf> {
    names(dir)
        .into_iter()
        .map(|name| dir.join("quarantine").join(name))
        .filter(|path| !path.join(REPORT).exists())
        .collect()
}

/// Whether a recovery died before it had anything to report: nothing it left can be taken for healthy.
pub(super) fn interrupted(dir: &Path) -> bool {
    unfinished(dir).iter().any(|place| !place.join(PENDING).exists())
}

/// Writes the report of a recovery whose database is ready to take its place.
pub(super) fn write_pending(disk: &Disk, place: &Path, recovery: &Recovery) -> io::Result<()> {
    let text = serde_json::to_string_pretty(recovery).unwrap_or_default();
    disk.replace(&place.join(PENDING), text.as_bytes())
}

/// Gives reports their name: the databases they belong to are in place.
pub(super) fn settle(disk: &Disk, dir: &Path) -> io::Result<()> {
    for place in unfinished(dir).iter().filter(|place| place.join(PENDING).exists()) {
        disk.rename(&place.join(PENDING), &place.join(REPORT))?;
    }
    Ok(())
}

/// Every report, oldest first, with whether it was read. One that is damaged itself is passed over.
pub(super) fn reports(dir: &Path) -> Vec<(Recovery, bool)> {
    let report = |name: String| {
        let place = dir.join("quarantine").join(name);
        let recovery: Recovery = serde_json::from_str(&fs::read_to_string(place.join(REPORT)).ok()?).ok()?;
        Some((recovery, place.join(READ).exists()))
    };
    let mut reports: Vec<_> = names(dir).into_iter().filter_map(report).collect();
    reports.sort_by(|(a, _), (b, _)| (a.at, &a.name).cmp(&(b.at, &b.name)));
    reports
}

pub(super) fn mark_read(disk: &Disk, dir: &Path) -> Result<(), Error> {
    for (recovery, read) in reports(dir) {
        if !read {
            let path = dir.join("quarantine").join(&recovery.name).join(READ);
            disk.replace(&path, b"").map_err(|source| Error::Io {
                action: "mark a report as read".into(),
                path,
                source,
            })?;
        }
    }
    Ok(())
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir.join("quarantine")).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}
