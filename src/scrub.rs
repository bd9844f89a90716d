//! Scrubbing: a long-lived owner of a workspace slowly rereads everything in the background, so that damage is found
//! while the other copy is still good.
//!
//! It proceeds session by session and verifies the events in both copies, as an audit does, and then the images. It
//! pauses while the workspace is in use, reads at a limited rate, and saves its progress in `cache/scrub.json`, where
//! the next owner continues. It only reports problems; repairing is left to people.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use retake_log::Log;
use serde::{Deserialize, Serialize};

use crate::disk::{Disk, create_cache_dir};
use crate::images::Images;
use crate::model::{EventBody, SessionId, Timestamp};
use crate::sharing::{Extension, LogHandle};
use crate::store::{Clock, Error};

/// The maximum number of problems kept in the report.
const MAX_PROBLEMS: usize = 100;
/// The number of sessions between two saves of the progress.
const SESSIONS_PER_NOTE: u64 = 64;

/// The schedule and rate of scrubbing.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// How long a process must own the workspace before scrubbing starts.
    pub start_delay: Duration,
    /// How long the workspace must be idle before the next session is read.
    pub idle: Duration,
    /// The maximum average rate in bytes per second.
    pub bytes_per_second: u64,
    /// The time between the end of one pass and the start of the next.
    pub interval: Duration,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace {
            start_delay: Duration::from_secs(60),
            idle: Duration::from_secs(2),
            bytes_per_second: 4 << 20,
            interval: Duration::from_secs(24 * 60 * 60),
        }
    }
}

/// The progress of scrubbing, as stored in `cache/scrub.json`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ScrubReport {
    /// When the last complete pass ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Timestamp>,
    /// The problems that pass found.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
    /// The pass in progress.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pass: Option<ScrubPass>,
}

/// A pass in progress.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScrubPass {
    /// When it started.
    pub started_at: Timestamp,
    /// The last session read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<SessionId>,
    /// The number of sessions read.
    pub sessions: u64,
    /// The problems found so far.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
}

impl ScrubReport {
    /// Reads the report of the workspace in `dir`. An unreadable report counts as absent and is written anew.
    pub fn read(dir: &Path) -> ScrubReport {
        let text = fs::read(report_path(dir)).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    fn write(&self, dir: &Path) {
        let path = report_path(dir);
        let written = create_cache_dir(path.parent().unwrap_or(dir))
            .and_then(|()| serde_json::to_vec(self).map_err(Into::into))
            .and_then(|text| Disk::default().replace(&path, &text));
        if let Err(error) = written {
            tracing::warn!(%error, "cannot save the progress of scrubbing");
        }
    }
}

fn report_path(dir: &Path) -> PathBuf {
    dir.join("cache").join("scrub.json")
}

/// The scrubber of a workspace.
pub(crate) struct Scrub {
    dir: PathBuf,
    images: Images,
    clock: Clock,
    pace: Pace,
    used: AtomicBool,
    stopped: Mutex<bool>,
    stopping: Condvar,
}

impl Scrub {
    pub(crate) fn new(dir: &Path, images: Images, clock: Clock, pace: Pace) -> Scrub {
        let dir = std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
        let (used, stopped) = (AtomicBool::new(false), Mutex::new(false));
        Scrub { dir, images, clock, pace, used, stopped, stopping: Condvar::new() }
    }

    /// Reads the next session of the pass in progress, or of a new one, and returns the number of bytes read; `None` if
    /// the pass is complete.
    fn step(&self, log: &dyn Log, report: &mut ScrubReport) -> Result<Option<u64>, Error> {
        let new = || ScrubPass { started_at: (self.clock)(), after: None, sessions: 0, problems: Vec::new() };
        let pass = report.pass.get_or_insert_with(new);
        let Some(id) = log.ids(pass.after, 1)?.first().copied() else {
            report.problems = report.pass.take().map(|pass| pass.problems).unwrap_or_default();
            report.completed_at = Some((self.clock)());
            return Ok(None);
        };
        let mut bytes = 0;
        let mut problem = |text: String| {
            tracing::warn!(problem = %text, "scrubbing found damage");
            if pass.problems.len() < MAX_PROBLEMS {
                pass.problems.push(text);
            }
        };
        let trail = log.trail(id)?;
        for fault in &trail.faults {
            problem(format!("{id}: event {}: {:?}", fault.seq, fault.kind));
        }
        for event in &trail.events {
            // An estimate: a record of typical size in both copies.
            bytes += 4096;
            let EventBody::Recorded { index, iteration } = &event.body else { continue };
            for image in &iteration.images {
                if *self.stopped.lock() {
                    // The session will be read again from its beginning.
                    return Ok(Some(0));
                }
                self.images.remember(image);
                bytes += image.bytes;
                if let Err(error) = self.images.check(image.hash) {
                    problem(format!("{}: image {}: {error}", id.iteration(*index), image.hash));
                }
            }
        }
        pass.after = Some(id);
        pass.sessions += 1;
        Ok(Some(bytes))
    }

    /// Waits, and returns whether to continue.
    fn wait(&self, duration: Duration) -> bool {
        let mut stopped = self.stopped.lock();
        let until = Instant::now() + duration;
        self.stopping.wait_while_until(&mut stopped, |stopped| !*stopped, until);
        !*stopped
    }

    /// Waits until the workspace has been idle for a while, and returns whether to continue.
    fn wait_until_idle(&self) -> bool {
        loop {
            self.used.store(false, Ordering::Relaxed);
            if !self.wait(self.pace.idle) {
                return false;
            }
            if !self.used.load(Ordering::Relaxed) {
                return true;
            }
        }
    }

    /// Returns how long to wait before the next pass.
    fn until_next_pass(&self, report: &ScrubReport) -> Duration {
        let Some(completed) = report.completed_at.filter(|_| report.pass.is_none()) else { return Duration::ZERO };
        let since = u64::try_from((self.clock)().millis() - completed.millis()).unwrap_or(0);
        self.pace.interval.saturating_sub(Duration::from_millis(since))
    }
}

impl Extension for Scrub {
    fn acknowledged(&self) {
        self.used.store(true, Ordering::Relaxed);
    }

    fn run(&self, log: &LogHandle) {
        if !self.wait(self.pace.start_delay) {
            return;
        }
        loop {
            let mut report = ScrubReport::read(&self.dir);
            if !self.wait(self.until_next_pass(&report)) {
                return;
            }
            loop {
                if !self.wait_until_idle() {
                    return report.write(&self.dir);
                }
                let read = match log.with_log(|log| self.step(log, &mut report)) {
                    Some(Ok(Some(bytes))) => bytes,
                    Some(Ok(None)) => break,
                    // Unreadable does not mean damaged: try again later.
                    Some(Err(error)) => {
                        tracing::warn!(%error, "scrubbing cannot read the log");
                        if !self.wait(self.pace.start_delay) {
                            return;
                        }
                        continue;
                    }
                    None => return report.write(&self.dir),
                };
                if report.pass.as_ref().is_some_and(|pass| pass.sessions.is_multiple_of(SESSIONS_PER_NOTE)) {
                    report.write(&self.dir);
                }
                let millis = read.saturating_mul(1000) / self.pace.bytes_per_second.max(1);
                if !self.wait(Duration::from_millis(millis)) {
                    return report.write(&self.dir);
                }
            }
            tracing::info!(problems = report.problems.len(), "everything in the workspace was read");
            report.write(&self.dir);
        }
    }

    fn stop(&self) {
        *self.stopped.lock() = true;
        self.stopping.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use retake_testutils::{at, open, still_clock};

    use super::*;
    use crate::model::Draft;

    const AT_ONCE: Pace =
        Pace { start_delay: Duration::ZERO, idle: Duration::ZERO, bytes_per_second: u64::MAX, interval: Duration::MAX };

    /// Creates a workspace with three sessions of one image each, and returns the image hashes.
    fn workspace(dir: &Path) -> Vec<crate::model::Hash> {
        let (store, images) = (open(dir), Images::new(Disk::default(), dir));
        (0..3_u8)
            .map(|number| {
                let image = images.put(&[number; 64]).unwrap();
                let hash = image.hash;
                let mut batch = retake_testutils::start("a fox", 0, &format!("k{number}"));
                let Some(Draft::Record(iteration)) = batch.drafts.last_mut() else { panic!() };
                iteration.images.push(image);
                store.append(batch).unwrap();
                hash
            })
            .collect()
    }

    fn scrub(dir: &Path) -> Scrub {
        Scrub::new(dir, Images::new(Disk::default(), dir), still_clock(), AT_ONCE)
    }

    #[test]
    fn a_pass_reads_everything_and_names_what_is_damaged() {
        let dir = tempfile::tempdir().unwrap();
        let hashes = workspace(dir.path());
        let (store, scrub) = (open(dir.path()), scrub(dir.path()));
        let mut report = ScrubReport::default();
        while scrub.step(&store, &mut report).unwrap().is_some() {}
        assert_eq!((report.completed_at, report.problems.len(), &report.pass), (Some(at(0)), 0, &None));

        let path = scrub.images.path(hashes[1]);
        fs::write(path, "damaged").unwrap();
        while scrub.step(&store, &mut report).unwrap().is_some() {}
        assert_eq!(report.problems.len(), 1);
        assert!(report.problems[0].contains(&hashes[1].to_string()), "{:?}", report.problems);
    }

    #[test]
    fn the_next_owner_continues_where_the_last_one_stopped() {
        let dir = tempfile::tempdir().unwrap();
        workspace(dir.path());
        let store = open(dir.path());
        let mut report = ScrubReport::default();
        scrub(dir.path()).step(&store, &mut report).unwrap();
        report.write(dir.path());

        let mut report = ScrubReport::read(dir.path());
        assert_eq!(report.pass.as_ref().unwrap().sessions, 1);
        let next = scrub(dir.path());
        let mut steps = 0;
        while next.step(&store, &mut report).unwrap().is_some() {
            steps += 1;
        }
        assert_eq!(steps, 2, "the first session is not read again");
        assert!(next.until_next_pass(&report) > Duration::from_secs(1000));
    }

    #[test]
    fn it_stops_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let pace = Pace { start_delay: Duration::from_secs(3600), ..AT_ONCE };
        let scrub = Arc::new(Scrub::new(dir.path(), Images::new(Disk::default(), dir.path()), still_clock(), pace));
        scrub.stop();
        assert!(!scrub.wait(Duration::from_secs(3600)));
        assert!(!scrub.wait_until_idle());
    }
}
