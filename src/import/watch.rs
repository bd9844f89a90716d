//! `watch`: imports new images from folders as soon as their files are complete, into the session in progress.
//!
//! The operating system reports changes. It may miss some, and network drives report none, so the folders are also
//! scanned periodically. No state is kept between watches except the workspace itself: the first scan recognises new
//! files by content. A file that is not complete yet is examined again until it is.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant, SystemTime};

use notify::{RecursiveMode, Watcher};
use serde::{Deserialize, Serialize};

use crate::images::{Completeness, completeness};
use crate::model::iteration::check_optional_name;
use crate::model::{Actor, IterationId, LikelyParent, SessionId, Timestamp};

use crate::workspace::{Error, Workspace};

use super::{Candidate, FileProblem, FilesReport, FilesRequest, InspectedImage, Intake, NewIteration};

/// An event reported by a watch.
#[derive(Clone, Debug)]
pub enum WatchEvent {
    /// Everything that existed at the start is imported; from now on, each new iteration is reported.
    Ready(Box<FilesReport>),
    /// A new iteration.
    Recorded(WatchedIteration),
    /// A file that cannot be imported.
    Problem(FileProblem),
    /// The workspace cannot be written to at the moment; the watch will retry.
    Refused(Arc<Error>),
}

/// A new iteration in a watched folder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WatchedIteration {
    /// Its reference.
    pub reference: IterationId,
    /// Its session.
    pub session_id: SessionId,
    /// Its index there.
    pub index: u32,
    /// When the image was made (UTC).
    pub timestamp: Timestamp,
    /// The prompt; empty if the file holds none.
    pub prompt: String,
    /// The names of its image files.
    pub images: Vec<String>,
    /// Its parent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<IterationId>,
    /// The evidence for the parent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_reason: Option<String>,
    /// Its likely parent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub likely_parent: Option<LikelyParent>,
}

/// How often incomplete files are examined again.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// How long to wait after the last completed file before recording: the images of a run are written in quick
/// succession.
const QUIET_PERIOD: Duration = Duration::from_millis(250);
/// The longest time a complete image waits for others of its run.
const MAX_RUN_WAIT: Duration = Duration::from_millis(600);
/// How long a file's length must stay unchanged for it to count as complete, if its format does not mark its end.
const UNCHANGED_PERIOD: Duration = Duration::from_secs(2);
/// How often the folders are scanned if the system reports changes.
const RESCAN_INTERVAL: Duration = Duration::from_secs(30);
/// How often the folders are scanned if the system reports no changes.
const UNNOTIFIED_RESCAN_INTERVAL: Duration = Duration::from_secs(1);
/// How long to wait after the workspace could not be written to.
const RETRY_DELAY: Duration = Duration::from_secs(5);
/// Images older than this do not belong to the session in progress.
const MAX_AGE_MILLIS: i64 = 2 * 24 * 60 * 60 * 1000;

impl Workspace {
    /// Imports everything in these folders and then every new image, until `stop` is set, and reports each iteration.
    pub fn watch(
        &self,
        actor: &Actor,
        request: &FilesRequest,
        stop: &AtomicBool,
        mut on_event: impl FnMut(WatchEvent),
    ) -> Result<(), Error> {
        check_optional_name("project", request.project.as_deref())?;
        request.check_paths()?;
        let paths = request.paths.iter().map(|path| path.canonicalize().unwrap_or_else(|_| path.clone()));
        let request = FilesRequest { paths: paths.collect(), dry_run: false, ..request.clone() };
        // Start the watcher first, so that changes during the first scan are reported.
        let (changes, watcher) = changes(&request.paths);
        let mut watch = Watch {
            intake: Intake::new(self, actor, &request)?,
            stop,
            rescan: if watcher.is_some() { RESCAN_INTERVAL } else { UNNOTIFIED_RESCAN_INTERVAL },
            request,
            found: Vec::new(),
            seen: HashMap::new(),
            waiting: HashMap::new(),
            since: None,
            not_before: None,
        };
        watch.scan();
        watch.take_whole(true, &mut on_event);
        if stop.load(Ordering::Relaxed) {
            return Ok(());
        }
        on_event(WatchEvent::Ready(Box::new(watch.intake.take_report())));
        let mut scanned = Instant::now();
        while !stop.load(Ordering::Relaxed) {
            match changes.recv_timeout(POLL_INTERVAL) {
                Ok(Some(path)) => {
                    watch.changed(path);
                    while let Ok(change) = changes.try_recv() {
                        match change {
                            Some(path) => watch.changed(path),
                            None => watch.scan(),
                        }
                    }
                }
                Ok(None) => watch.scan(),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => std::thread::sleep(POLL_INTERVAL),
            }
            if scanned.elapsed() >= watch.rescan {
                watch.scan();
                scanned = Instant::now();
            }
            watch.take_whole(false, &mut on_event);
        }
        drop(watcher);
        Ok(())
    }
}

/// Returns a channel of changed paths, where `None` means that some may have been missed, and the watcher, if the
/// system supports one for these folders.
fn changes(paths: &[PathBuf]) -> (Receiver<Option<PathBuf>>, Option<notify::RecommendedWatcher>) {
    let (sender, receiver) = mpsc::channel();
    let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        // Sending only fails once the watch is over.
        let _ = match event {
            Ok(event) if event.need_rescan() => sender.send(None),
            Ok(event) if event.kind.is_access() || event.kind.is_remove() => Ok(()),
            Ok(event) => event.paths.into_iter().try_for_each(|path| sender.send(Some(path))),
            Err(_) => sender.send(None),
        };
    });
    let watching = watcher.and_then(|mut watcher| {
        paths.iter().try_for_each(|path| watcher.watch(path, RecursiveMode::Recursive))?;
        Ok(watcher)
    });
    let watcher = watching.inspect_err(|error| tracing::warn!(%error, "the system does not watch these folders")).ok();
    (receiver, watcher)
}

struct Watch<'a> {
    intake: Intake<'a>,
    stop: &'a AtomicBool,
    request: FilesRequest,
    rescan: Duration,
    /// Every image examined so far.
    found: Vec<InspectedImage>,
    /// Every file processed so far, with its state at that time.
    seen: HashMap<PathBuf, Stamp>,
    /// Files that are new or changed.
    waiting: HashMap<PathBuf, PendingFile>,
    /// When the first complete image began to wait for others of its run.
    since: Option<Instant>,
    /// When to try again after the workspace could not be written to.
    not_before: Option<Instant>,
}

/// A file's length and modification time; the file counts as unchanged while both stay the same.
type Stamp = (u64, Option<SystemTime>);

struct PendingFile {
    stamp: Option<Stamp>,
    /// When the file entered this state.
    since: Instant,
    whole: bool,
}

impl Watch<'_> {
    /// Scans the folders for changes that were not reported.
    fn scan(&mut self) {
        for candidate in super::candidates(&self.request.paths) {
            self.changed(candidate.path);
        }
    }

    fn changed(&mut self, path: PathBuf) {
        if path.is_dir() {
            // For a folder that was moved here, only the folder itself is reported.
            let below = super::candidates(std::slice::from_ref(&path));
            below.into_iter().for_each(|candidate| self.changed(candidate.path));
        } else if super::may_be_picture(&path)
            && !self.request.paths.iter().any(|given| super::is_passed_over(given, &path))
            && self.seen.get(&path).copied() != stamp(&path)
        {
            self.waiting.entry(path).or_insert_with(|| PendingFile {
                stamp: None,
                since: Instant::now(),
                whole: false,
            });
        }
    }

    /// Imports complete files once no others have been completed for a moment.
    fn take_whole(&mut self, at_once: bool, on_event: &mut impl FnMut(WatchEvent)) {
        self.look_at_waiting();
        let whole = self.waiting.values().filter(|waiting| waiting.whole);
        let Some(latest) = whole.map(|waiting| waiting.since).max() else { return };
        let since = *self.since.get_or_insert(latest);
        let settled = latest.elapsed() >= QUIET_PERIOD || since.elapsed() >= MAX_RUN_WAIT || at_once;
        if !settled || self.not_before.is_some_and(|until| Instant::now() < until) {
            return;
        }
        self.since = None;
        let whole: Vec<PathBuf> =
            self.waiting.iter().filter(|(_, waiting)| waiting.whole).map(|(path, _)| path.clone()).collect();
        let candidates: Vec<Candidate> = whole.iter().map(|path| self.candidate(path)).collect();
        let stamps: Vec<Option<Stamp>> = whole.iter().map(|path| stamp(path)).collect();
        let (new, problems) = super::inspect_all(&candidates, |_| !self.stop.load(Ordering::Relaxed));
        if new.len() + problems.len() < candidates.len() {
            // Stopped: what is recorded must be a prefix in time, but these are only the first by name.
            return;
        }
        problems.into_iter().for_each(|problem| on_event(WatchEvent::Problem(problem)));
        match self.take(new, on_event) {
            Ok(()) => {
                self.not_before = None;
                for (path, stamp) in whole.into_iter().zip(stamps) {
                    self.waiting.remove(&path);
                    if let Some(stamp) = stamp {
                        self.seen.insert(path, stamp);
                    }
                }
            }
            Err(error) => {
                // The files stay in `waiting`.
                self.not_before = Some(Instant::now() + RETRY_DELAY);
                on_event(WatchEvent::Refused(error));
            }
        }
    }

    /// Records new images, grouped with recent ones of the same root.
    fn take(&mut self, new: Vec<InspectedImage>, on_event: &mut impl FnMut(WatchEvent)) -> Result<(), Arc<Error>> {
        let Some(first) = new.iter().map(|picture| picture.at).min() else { return Ok(()) };
        self.found.retain(|old| !new.iter().any(|new| new.path == old.path));
        let from = first.plus_millis(-MAX_AGE_MILLIS);
        let recent = self.found.iter().filter(|old| old.at >= from && new.iter().any(|new| new.root == old.root));
        let mut pictures: Vec<InspectedImage> = recent.cloned().collect();
        pictures.extend(new.iter().cloned());
        self.intake.bring_in(&mut pictures, self.stop, |new| on_event(WatchEvent::Recorded(new.into())));
        let FilesReport { problems, warnings, stopped, .. } = self.intake.take_report();
        problems.into_iter().chain(warnings).for_each(|problem| on_event(WatchEvent::Problem(problem)));
        if let Some(error) = stopped {
            return Err(error);
        }
        self.found.extend(new);
        Ok(())
    }

    fn look_at_waiting(&mut self) {
        self.waiting.retain(|path, waiting| {
            let now = stamp(path);
            let Some(length) = now.map(|(length, _)| length) else { return false };
            if waiting.stamp != now {
                *waiting = PendingFile { stamp: now, since: Instant::now(), whole: false };
            }
            waiting.whole = waiting.whole
                || match completeness(path) {
                    Ok(Completeness::Complete) => true,
                    Ok(Completeness::Unknown) => length > 0 && waiting.since.elapsed() >= UNCHANGED_PERIOD,
                    Ok(Completeness::Partial) | Err(_) => false,
                };
            true
        });
    }

    fn candidate(&self, path: &Path) -> Candidate {
        let given = self.request.paths.iter().find(|given| path.starts_with(given));
        Candidate { root: super::root(given.map_or(path, PathBuf::as_path), path), path: path.to_owned() }
    }
}

impl From<&NewIteration> for WatchedIteration {
    fn from(new: &NewIteration) -> WatchedIteration {
        let iteration = &new.iteration;
        WatchedIteration {
            reference: new.id,
            session_id: new.id.session,
            index: new.id.index,
            timestamp: iteration.created_at,
            prompt: iteration.recipe.prompt.clone(),
            images: iteration.images.iter().filter_map(|image| image.name.clone()).collect(),
            parent: iteration.parent,
            parent_reason: iteration.parent_reason.clone(),
            likely_parent: iteration.likely_parent.clone(),
        }
    }
}

fn stamp(path: &Path) -> Option<Stamp> {
    let about = std::fs::metadata(path).ok()?;
    about.is_file().then(|| (about.len(), about.modified().ok()))
}
