//! The quarantine of recoveries and their reports: `quarantine/NAME/report.json`, with an empty file `read` next to it
//! once the report was read.
//!
//! The directory is created before a recovery changes anything, and the report gets its name last: a directory without
//! one belongs to a recovery that died, and is resumed. Until then, the report is called `report.pending`: it is
//! written before the new database is put in place, so that every loss is reported. A loss whose events were recovered is
//! withdrawn from its report.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::disk::{Disk, FileKind};
use crate::model::Timestamp;

use super::database::Database;
use super::layout::Layout;
use super::payload::LOST;
use super::{Error, Recovery, SessionLoss};

const REPORT: &str = "report.json";
const PENDING: &str = "report.pending";
const READ: &str = "read";
/// The name prefix of files of another workspace, which recoveries ignore.
pub(super) const FOREIGN: &str = "foreign-";
/// The maximum size of a report.
const MAX_REPORT: usize = 64 << 20;

/// A stored report.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReportFile {
    #[serde(flatten)]
    recovery: Recovery,
    /// The number of events there must be if nothing is missing.
    #[serde(default)]
    expected_events: u64,
}

/// Returns the name of a recovery: that of an unfinished one to be resumed, or else a new one.
pub(super) fn name_for(disk: &Disk, layout: &Layout, now: Timestamp) -> io::Result<String> {
    let unfinished = unfinished(disk, layout)?.into_iter().next();
    if let Some(name) = unfinished.as_deref().and_then(Path::file_name).and_then(|name| name.to_str()) {
        return Ok(name.to_owned());
    }
    let stamp: String = now.to_string().chars().filter(char::is_ascii_alphanumeric).collect();
    free_name(disk, &layout.quarantine(), &stamp)
}

/// Returns an unused name in `dir`: `wanted`, or `wanted` with a number.
pub(super) fn free_name(disk: &Disk, dir: &Path, wanted: &str) -> io::Result<String> {
    let mut name = wanted.to_owned();
    let mut number = 1;
    while disk.exists(&dir.join(&name))? {
        number += 1;
        name = format!("{wanted}-{number}");
    }
    Ok(name)
}

/// Returns the directories of all recoveries, oldest first.
pub(super) fn directories(disk: &Disk, layout: &Layout) -> io::Result<Vec<PathBuf>> {
    let mut places = Vec::new();
    for name in disk.list(&layout.quarantine())? {
        let place = layout.quarantined(&name);
        if disk.kind(&place)? == FileKind::Directory {
            places.push(place);
        }
    }
    Ok(places)
}

/// Returns the directories of unfinished recoveries.
pub(super) fn unfinished(disk: &Disk, layout: &Layout) -> io::Result<Vec<PathBuf>> {
    let mut places = Vec::new();
    for place in directories(disk, layout)? {
        if !disk.exists(&place.join(REPORT))? {
            places.push(place);
        }
    }
    Ok(places)
}

/// Returns whether a recovery died before it had anything to report, so that nothing it left can be taken for healthy.
pub(super) fn interrupted(disk: &Disk, layout: &Layout) -> io::Result<bool> {
    for place in unfinished(disk, layout)? {
        if !disk.exists(&place.join(PENDING))? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Writes the report of a recovery whose database is ready to be put in place.
pub(super) fn write_pending(disk: &Disk, place: &Path, recovery: &Recovery, expected_events: u64) -> io::Result<()> {
    write(disk, &place.join(PENDING), &ReportFile { recovery: recovery.clone(), expected_events })
}

/// Renames the pending reports, whose databases are in place.
pub(super) fn publish_pending(disk: &Disk, layout: &Layout) -> io::Result<()> {
    for place in unfinished(disk, layout)? {
        if disk.exists(&place.join(PENDING))? {
            disk.rename(&place.join(PENDING), &place.join(REPORT))?;
        }
    }
    Ok(())
}

/// A report to be changed because some of its losses were recovered.
pub(super) struct Withdrawal {
    path: PathBuf,
    report: ReportFile,
}

/// Compares the reports with a rebuilt database, and returns those whose losses came back.
pub(super) fn returned(disk: &Disk, layout: &Layout, database: &Database, events: u64) -> io::Result<Vec<Withdrawal>> {
    let is_there = |loss: &SessionLoss, seq: u32| {
        let stored = loss.session.and_then(|id| database.events.get(id, seq).ok().flatten());
        stored.is_some_and(|stored| stored.record().is_some_and(|record| record.header.kind != LOST))
    };
    let mut withdrawals = Vec::new();
    for place in directories(disk, layout)? {
        let path = place.join(REPORT);
        let Some(mut report) = read(disk, &path)? else { continue };
        let recovery = &mut report.recovery;
        if recovery.lost_events == 0 && recovery.losses.is_empty() {
            continue;
        }
        let named = |losses: &[SessionLoss]| losses.iter().map(|loss| loss.seqs.len() as u64).sum::<u64>();
        let (lost, named_before) = (recovery.lost_events, named(&recovery.losses));
        let unnamed = lost.saturating_sub(named_before);
        let all_back = report.expected_events > 0 && events >= report.expected_events;
        recovery.losses.retain_mut(|loss| match loss.session {
            None => !all_back,
            Some(_) if loss.seqs.is_empty() => !is_there(loss, 0),
            Some(_) => {
                let before = loss.seqs.len();
                let seqs = std::mem::take(&mut loss.seqs);
                loss.seqs = seqs.into_iter().filter(|seq| !is_there(loss, *seq)).collect();
                if loss.seqs.len() < before {
                    // Which iterations are still missing is unknown here.
                    loss.iterations.clear();
                }
                !loss.seqs.is_empty()
            }
        });
        recovery.lost_events = named(&recovery.losses) + if all_back { 0 } else { unnamed };
        let came_back = lost - recovery.lost_events;
        if came_back > 0 || recovery.losses.is_empty() {
            let still = recovery.lost_events;
            recovery.message += &match (came_back, still) {
                (1, 0) => " Since then, 1 event was recovered; nothing is lost any more.".to_owned(),
                (back, 0) => format!(" Since then, {back} events were recovered; nothing is lost any more."),
                (back, still) => format!(" Since then, {back} of them were recovered; {still} are still lost."),
            };
            withdrawals.push(Withdrawal { path, report });
        }
    }
    Ok(withdrawals)
}

/// Writes the reports whose losses came back.
pub(super) fn withdraw(disk: &Disk, withdrawals: Vec<Withdrawal>) -> io::Result<()> {
    withdrawals.iter().try_for_each(|withdrawal| write(disk, &withdrawal.path, &withdrawal.report))
}

/// Returns every report, oldest first, with whether it was read. Damaged reports are skipped.
pub(super) fn reports(disk: &Disk, layout: &Layout) -> Vec<(Recovery, bool)> {
    let report = |place: PathBuf| {
        let report = read(disk, &place.join(REPORT)).ok()??;
        Some((report.recovery, disk.exists(&place.join(READ)).unwrap_or(false)))
    };
    let mut reports: Vec<_> = directories(disk, layout).unwrap_or_default().into_iter().filter_map(report).collect();
    reports.sort_by(|(a, _), (b, _)| (a.at, &a.name).cmp(&(b.at, &b.name)));
    reports
}

/// Marks all reports as read.
pub(super) fn mark_read(disk: &Disk, layout: &Layout) -> Result<(), Error> {
    for (recovery, read) in reports(disk, layout) {
        if !read {
            let path = layout.quarantined(&recovery.name).join(READ);
            disk.replace(&path, b"").map_err(|source| Error::Io {
                action: "mark a report as read".into(),
                path,
                source,
            })?;
        }
    }
    Ok(())
}

fn read(disk: &Disk, path: &Path) -> io::Result<Option<ReportFile>> {
    if !matches!(disk.kind(path)?, FileKind::File(_)) {
        return Ok(None);
    }
    let bytes = disk.read(path, MAX_REPORT)?;
    Ok(bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
}

fn write(disk: &Disk, path: &Path, report: &ReportFile) -> io::Result<()> {
    let text = serde_json::to_string_pretty(report).unwrap_or_default();
    disk.replace(path, text.as_bytes())
}
