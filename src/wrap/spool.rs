//! The spool: data that must survive this process before it is in the workspace. It holds jobs whose image has not
//! arrived yet, and iterations that could not be recorded.
//!
//! ```text
//! cache/wrap/RUN.lock          held while the process runs, so that others see whose files are orphaned
//! cache/wrap/RUN.jobs          the jobs of one server, replaced as a whole
//! cache/wrap/RUN.KEY.waiting   one iteration, with its images and its idempotency key
//! ```
//! A killed process leaves its files behind. The next process that wraps the same server adopts its jobs, so that a
//! poll completes the same iteration. The next process that wraps any server records waiting iterations under the same
//! keys, so that each is recorded exactly once.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::disk::Disk;
use crate::model::{Actor, Timestamp};

use super::assemble::StoredJob;
use super::finding::Finding;

/// The files of this run, and those of dead runs.
#[derive(Debug)]
pub(crate) struct Spool {
    dir: PathBuf,
    run: String,
    lock: Option<File>,
    has_jobs: bool,
}

/// An iteration that could not be recorded yet.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct UnrecordedIteration {
    /// What to record.
    pub(crate) finding: Finding,
    /// On whose behalf.
    pub(crate) actor: Actor,
    /// The idempotency key.
    pub(crate) key: String,
}

/// The data of dead processes.
#[derive(Debug, Default)]
pub(crate) struct Adopted {
    /// Jobs of the same server, and expired jobs of any server.
    pub(crate) jobs: Vec<StoredJob>,
    /// Iterations to record, oldest first.
    pub(crate) waiting: Vec<UnrecordedIteration>,
}

/// The stored jobs of a run.
#[derive(Serialize, Deserialize)]
struct JobsFile {
    version: u32,
    server: String,
    jobs: Vec<StoredJob>,
}

/// The file format version. Files of other versions are ignored.
const VERSION: u32 = 2;
/// The maximum size of a file that is adopted.
const MAX_FILE_BYTES: u64 = 512 * 1024 * 1024;

impl Spool {
    /// Returns the spool of a run below the directory of a workspace, without creating anything.
    pub(crate) fn new(workspace: &Path, run: &str) -> Spool {
        Spool { dir: workspace.join("cache").join("wrap"), run: run.to_owned(), lock: None, has_jobs: false }
    }

    /// Writes and syncs a few bytes, to find out whether the disk accepts them without delay.
    pub(crate) fn probe(&mut self) -> io::Result<()> {
        let mut file = self.lock()?;
        file.set_len(0)?;
        file.write_all(std::process::id().to_string().as_bytes())?;
        file.sync_data()
    }

    /// Replaces the stored jobs of a server.
    pub(crate) fn save_jobs(&mut self, server: &str, jobs: Vec<StoredJob>) -> io::Result<()> {
        let path = self.path("jobs");
        if jobs.is_empty() {
            // Most runs never have a job, and touch nothing here.
            return if std::mem::take(&mut self.has_jobs) { fs::remove_file(path) } else { Ok(()) };
        }
        self.lock()?;
        replace(&path, &serde_json::to_vec(&JobsFile { version: VERSION, server: server.to_owned(), jobs })?)?;
        self.has_jobs = true;
        Ok(())
    }

    /// Stores an iteration that is waiting to be recorded.
    pub(crate) fn save_waiting(&mut self, waiting: &UnrecordedIteration) -> io::Result<()> {
        self.lock()?;
        replace(&self.waiting_path(&waiting.key), &serde_json::to_vec(waiting)?)
    }

    /// Removes an iteration that was recorded.
    pub(crate) fn remove_waiting(&self, key: &str) {
        // If it remains, it is recorded again under the same key, which changes nothing.
        let _ = fs::remove_file(self.waiting_path(key));
    }

    /// Returns whether there are files of other runs, without reading them.
    pub(crate) fn has_others(&self) -> bool {
        self.runs().iter().any(|run| *run != self.run)
    }

    /// Adopts the data of dead processes: waiting iterations, jobs of this server, and jobs of any server without a
    /// message since `expired`. The jobs are saved as ours before the other file is removed.
    pub(crate) fn adopt(&mut self, server: &str, expired: Timestamp) -> Adopted {
        let mut adopted = Adopted::default();
        for run in self.runs() {
            let lock = self.dir.join(format!("{run}.lock"));
            if run == self.run || !is_orphaned(&lock) {
                continue;
            }
            let mut rest = 0;
            for path in self.files_of(&run) {
                let taken = match path.extension().and_then(|extension| extension.to_str()) {
                    Some("jobs") => self.adopt_jobs(&path, server, expired, &mut adopted.jobs),
                    Some("waiting") => self.adopt_waiting(&path, &run, &mut adopted.waiting),
                    _ => continue,
                };
                rest += usize::from(!taken);
            }
            if rest == 0 {
                let _ = fs::remove_file(lock);
            }
        }
        adopted.waiting.sort_by_key(|waiting| waiting.finding.created_at.map(Timestamp::millis));
        adopted
    }

    /// Removes the files of this run, unless something is still waiting in them.
    pub(crate) fn end(mut self) {
        if self.files_of(&self.run).iter().all(|path| path.extension().is_some_and(|it| it == "lock")) {
            if self.lock.take().is_some() {
                let _ = fs::remove_file(self.path("lock"));
            }
            // Fails unless it is empty.
            let _ = fs::remove_dir(&self.dir);
        }
    }

    fn adopt_jobs(&mut self, path: &Path, server: &str, expired: Timestamp, jobs: &mut Vec<StoredJob>) -> bool {
        let Some(found) = read::<JobsFile>(path).filter(|found| found.version == VERSION) else { return false };
        if found.server != server && !found.jobs.iter().all(|job| job.last < expired.millis()) {
            return false;
        }
        jobs.extend(found.jobs);
        // Write ours first: a crash in between leaves both files, which is harmless because the jobs have the same
        // keys.
        self.save_jobs(server, jobs.clone()).is_ok() && fs::remove_file(path).is_ok()
    }

    fn adopt_waiting(&mut self, path: &Path, run: &str, waiting: &mut Vec<UnrecordedIteration>) -> bool {
        // A file of an earlier layout has no recipe in this place, and is ignored as well.
        let has_recipe = |found: &UnrecordedIteration| !found.finding.recipe.prompt.is_empty();
        let Some(found) = read(path).filter(has_recipe) else { return false };
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let Some(rest) = name.strip_prefix(run) else { return false };
        let renamed = self.lock().is_ok() && fs::rename(path, self.dir.join(format!("{}{rest}", self.run))).is_ok();
        if renamed {
            waiting.push(found);
        }
        renamed
    }

    /// Creates the directory and the lock of this run, once.
    fn lock(&mut self) -> io::Result<&File> {
        if self.lock.is_none() {
            fs::create_dir_all(&self.dir)?;
            let file = OpenOptions::new().create(true).truncate(false).write(true).open(self.path("lock"))?;
            file.try_lock().map_err(io::Error::from)?;
            self.lock = Some(file);
        }
        self.lock.as_ref().ok_or_else(|| io::Error::other("the spool is not locked"))
    }

    fn path(&self, extension: &str) -> PathBuf {
        self.dir.join(format!("{}.{extension}", self.run))
    }

    fn waiting_path(&self, key: &str) -> PathBuf {
        self.path(&format!("{key}.waiting"))
    }

    fn runs(&self) -> BTreeSet<String> {
        let names = self.names();
        names.iter().filter_map(|name| name.split_once('.')).map(|(run, _)| run.to_owned()).collect()
    }

    fn files_of(&self, run: &str) -> Vec<PathBuf> {
        let prefix = format!("{run}.");
        let mut names = self.names();
        names.retain(|name| name.starts_with(&prefix));
        names.sort_unstable();
        names.into_iter().map(|name| self.dir.join(name)).collect()
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.dir).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
    }
}

/// Returns whether the process that held this lock is gone.
fn is_orphaned(lock: &Path) -> bool {
    match OpenOptions::new().write(true).open(lock) {
        Ok(file) => file.try_lock().is_ok(),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// Replaces a file durably and as a whole: a crash or a power cut leaves the old one or the new one.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = path.with_extension("new");
    let mut file = File::create(&new)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    Disk::default().rename(&new, path)
}

fn read<T: for<'de> Deserialize<'de>>(path: &Path) -> Option<T> {
    let is_small = fs::metadata(path).is_ok_and(|found| found.len() <= MAX_FILE_BYTES);
    serde_json::from_slice(&fs::read(path).ok().filter(|_| is_small)?).ok()
}

#[cfg(test)]
mod tests {
    use crate::model::Recipe;

    use super::*;

    fn waiting(key: &str) -> UnrecordedIteration {
        let actor = Actor { client: "c".to_owned(), user: "u".to_owned() };
        UnrecordedIteration {
            finding: Finding { recipe: Recipe::new(key), ..Finding::default() },
            actor,
            key: key.to_owned(),
        }
    }

    #[test]
    fn only_what_dead_runs_left_is_taken_over() {
        let dir = tempfile::tempdir().unwrap();
        let now = Timestamp::from_millis(1_765_000_000_000).unwrap();
        let mut alive = Spool::new(dir.path(), "alive");
        alive.save_waiting(&waiting("a")).unwrap();
        let mut dead = Spool::new(dir.path(), "dead");
        dead.save_waiting(&waiting("d")).unwrap();
        let job = StoredJob { ids: vec!["j1".to_owned()], last: now.millis(), ..StoredJob::default() };
        dead.save_jobs("server", vec![job]).unwrap();
        drop(dead);

        let mut other = Spool::new(dir.path(), "other");
        assert!(other.has_others());
        let found = other.adopt("another", Timestamp::from_millis(0).unwrap());
        assert_eq!(found.waiting.iter().map(|it| it.key.as_str()).collect::<Vec<_>>(), ["d"]);
        assert!(found.jobs.is_empty(), "they belong to another server");
        let mut next = Spool::new(dir.path(), "next");
        let found = next.adopt("server", Timestamp::from_millis(0).unwrap());
        assert_eq!(found.jobs.iter().map(|it| it.ids.clone()).collect::<Vec<_>>(), [vec!["j1".to_owned()]]);
        assert!(found.waiting.is_empty(), "the other one has it, and is alive");

        other.remove_waiting("d");
        other.end();
        next.save_jobs("server", Vec::new()).unwrap();
        next.end();
        alive.remove_waiting("a");
        alive.end();
        assert!(!dir.path().join("cache/wrap").exists(), "nothing is left behind");
    }
}
