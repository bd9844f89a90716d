//! An in-memory overview of all sessions, for as long as a gallery is open.
//!
//! Without it, every query of a wall (counts, pages, months, projects) would read all rows again. The overview reads
//! them once and then only what changed: sessions with change notifications, and recently modified ones, which come
//! first in the order of recency. If the totals still disagree, it reads everything again. It is derived data and never
//! stored.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use crate::model::{Order, SessionId, Status, Summary, Timestamp};
use crate::store::{RecencyKey, Totals};

use super::cover::Cover;
use super::{Error, Workspace, place};

/// An overview of the sessions of a workspace.
#[derive(Default)]
pub struct Overview {
    rows: Mutex<Rows>,
    covers: Mutex<HashMap<SessionId, KnownCover>>,
    changed: Mutex<PendingChanges>,
}

/// A cover, and the state of the session it was made from: the time of its last modification, and its iteration count.
type KnownCover = (Timestamp, u32, Option<Arc<Cover>>);

/// The sessions shown on a wall, most recently modified first.
pub struct Selection {
    /// The sessions.
    pub rows: Vec<Arc<Summary>>,
    /// The months in which they were last modified, such as `2026-11`, each with its number of sessions, newest first.
    pub months: Vec<(String, usize)>,
    by_name: OnceLock<Vec<Arc<Summary>>>,
}

/// The counts of a project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectTally {
    /// Its name, as the most recently modified session spells it.
    pub name: String,
    /// The number of its sessions.
    pub sessions: u64,
    /// The number of its archived sessions.
    pub archived: u64,
    /// The number of iterations in all its sessions.
    pub iterations: u64,
    /// When one of its sessions was last modified.
    pub last_modified_at: Timestamp,
}

/// The changes known to have happened since the rows were read.
#[derive(Default)]
struct PendingChanges {
    sessions: HashSet<SessionId>,
    everything: bool,
}

/// All sessions, and data derived from them since the last change.
#[derive(Default)]
struct Rows {
    totals: Option<Totals>,
    /// Most recently modified first.
    sorted: Vec<Arc<Summary>>,
    places: HashMap<SessionId, RecencyKey>,
    selections: Vec<((Status, String), Arc<Selection>)>,
    projects: Option<Arc<(Vec<ProjectTally>, u64)>>,
}

/// The number of rows read first when few have changed.
const FIRST_CHUNK: usize = 32;
/// The number of rows read at once when all are read.
const CHUNK: usize = 8192;
/// The maximum number of cached selections.
const MAX_SELECTIONS: usize = 8;
/// The maximum number of cached covers.
const MAX_COVERS: usize = 6000;
/// The maximum number of changed sessions that are read one by one.
const MAX_CHANGED: usize = 2000;

impl Overview {
    /// Records that a session changed.
    pub fn note_change(&self, id: SessionId) {
        self.covers.lock().remove(&id);
        let mut changed = self.changed.lock();
        changed.sessions.insert(id);
        changed.everything |= changed.sessions.len() > MAX_CHANGED;
    }

    /// Records that anything may have changed.
    pub fn note_gap(&self) {
        self.covers.lock().clear();
        self.changed.lock().everything = true;
    }

    /// Returns the sessions with a status and optionally a project, given as a case-insensitive substring of its name.
    pub fn select(
        &self,
        workspace: &Workspace,
        status: Status,
        project: Option<&str>,
    ) -> Result<Arc<Selection>, Error> {
        let mut rows = self.rows.lock();
        self.refresh(workspace, &mut rows)?;
        let wanted = project.map(|project| project.trim().to_lowercase()).unwrap_or_default();
        let key = (status, wanted);
        if let Some((_, known)) = rows.selections.iter().find(|(known, _)| *known == key) {
            return Ok(Arc::clone(known));
        }
        let made = Arc::new(Selection::new(&rows.sorted, status, &key.1));
        if rows.selections.len() >= MAX_SELECTIONS {
            rows.selections.remove(0);
        }
        rows.selections.push((key, Arc::clone(&made)));
        Ok(made)
    }

    /// Returns the projects, most recently modified first, and the number of sessions without one.
    pub fn projects(&self, workspace: &Workspace) -> Result<Arc<(Vec<ProjectTally>, u64)>, Error> {
        let mut rows = self.rows.lock();
        self.refresh(workspace, &mut rows)?;
        if let Some(known) = &rows.projects {
            return Ok(Arc::clone(known));
        }
        let made = Arc::new(projects(&rows.sorted));
        rows.projects = Some(Arc::clone(&made));
        Ok(made)
    }

    /// Returns the cover of each of these sessions; `None` for a session without iterations left.
    pub fn covers(&self, workspace: &Workspace, rows: &[Arc<Summary>]) -> Result<Vec<Option<Arc<Cover>>>, Error> {
        let missing: Vec<&Arc<Summary>> = rows.iter().filter(|row| self.known_cover(row).is_none()).collect();
        let ids: Vec<SessionId> = missing.iter().map(|row| row.id).collect();
        let mut made: HashMap<SessionId, Option<Arc<Cover>>> = HashMap::new();
        for (row, cover) in missing.into_iter().zip(workspace.covers(&ids)?) {
            made.insert(row.id, self.remember_cover(row, cover));
        }
        let cover = |row: &Arc<Summary>| match made.get(&row.id) {
            Some(cover) => Ok(cover.clone()),
            None => self.cover(workspace, row),
        };
        rows.iter().map(cover).collect()
    }

    /// Returns the cover of a session; `None` if none of its iterations is left.
    pub fn cover(&self, workspace: &Workspace, row: &Summary) -> Result<Option<Arc<Cover>>, Error> {
        match self.known_cover(row) {
            Some(known) => Ok(known),
            None => Ok(self.remember_cover(row, workspace.cover(row.id)?)),
        }
    }

    /// Returns the cached cover for this state of a session.
    fn known_cover(&self, row: &Summary) -> Option<Option<Arc<Cover>>> {
        let covers = self.covers.lock();
        let (modified, count, known) = covers.get(&row.id)?;
        ((*modified, *count) == (row.last_modified_at, row.iteration_count())).then(|| known.clone())
    }

    fn remember_cover(&self, row: &Summary, cover: Option<Cover>) -> Option<Arc<Cover>> {
        let cover = cover.map(Arc::new);
        let mut covers = self.covers.lock();
        if covers.len() >= MAX_COVERS {
            covers.clear();
        }
        covers.insert(row.id, (row.last_modified_at, row.iteration_count(), cover.clone()));
        cover
    }

    fn refresh(&self, workspace: &Workspace, rows: &mut Rows) -> Result<(), Error> {
        // Read the totals before the rows: whatever is written in between is found by the next call.
        let totals = workspace.log.totals()?;
        let PendingChanges { sessions, everything } = std::mem::take(&mut *self.changed.lock());
        if rows.totals.is_none() || everything {
            return rows.read_all(workspace, totals);
        }
        if sessions.is_empty() && rows.totals == Some(totals) {
            return Ok(());
        }
        rows.forget_derived();
        rows.read_recent(workspace)?;
        for id in sessions {
            match workspace.summary(id) {
                Ok(summary) => rows.put(&Arc::new(summary)),
                Err(Error::SessionLost(_) | Error::SessionNotFound(_)) => rows.remove(id),
                Err(error) => return Err(error),
            }
        }
        let archived = rows.sorted.iter().filter(|row| row.archived).count() as u64;
        if (rows.sorted.len() as u64, archived) != (totals.sessions, totals.archived) {
            return rows.read_all(workspace, totals);
        }
        rows.totals = Some(totals);
        Ok(())
    }
}

impl Rows {
    fn forget_derived(&mut self) {
        self.selections.clear();
        self.projects = None;
    }

    fn read_all(&mut self, workspace: &Workspace, totals: Totals) -> Result<(), Error> {
        self.forget_derived();
        self.totals = None;
        self.sorted.clear();
        let mut after = None;
        loop {
            let page = workspace.log.page(Status::All, Order::Recent, after, CHUNK)?;
            after = page.last().map(|last| place(last));
            let done = page.len() < CHUNK;
            self.sorted.extend(page);
            if done {
                break;
            }
        }
        self.places = self.sorted.iter().map(|row| (row.id, place(row))).collect();
        // A session modified during the read may have been returned twice.
        if self.places.len() != self.sorted.len() {
            let mut seen = HashSet::new();
            self.sorted.retain(|row| seen.insert(row.id));
            self.places = self.sorted.iter().map(|row| (row.id, place(row))).collect();
        }
        self.totals = Some(totals);
        Ok(())
    }

    /// Reads from the most recent session until a whole chunk is unchanged.
    fn read_recent(&mut self, workspace: &Workspace) -> Result<(), Error> {
        let (mut after, mut chunk) = (None, FIRST_CHUNK);
        loop {
            let page = workspace.log.page(Status::All, Order::Recent, after, chunk)?;
            after = page.last().map(|last| place(last));
            let done = page.len() < chunk || page.iter().all(|row| self.has(row));
            page.iter().for_each(|row| self.put(row));
            if done {
                return Ok(());
            }
            chunk = (chunk * 2).min(CHUNK);
        }
    }

    /// Returns the position of a key, or where it would be inserted.
    fn find(&self, key: RecencyKey) -> Result<usize, usize> {
        self.sorted.binary_search_by(|row| key.cmp(&place(row)))
    }

    fn has(&self, row: &Arc<Summary>) -> bool {
        let found = self.places.get(&row.id).and_then(|key| self.find(*key).ok());
        found.and_then(|at| self.sorted.get(at)).is_some_and(|known| known == row)
    }

    fn put(&mut self, row: &Arc<Summary>) {
        self.remove(row.id);
        let key = place(row);
        if let Err(at) = self.find(key) {
            self.sorted.insert(at, Arc::clone(row));
            self.places.insert(row.id, key);
        }
    }

    fn remove(&mut self, id: SessionId) {
        if let Some(at) = self.places.remove(&id).and_then(|key| self.find(key).ok()) {
            self.sorted.remove(at);
        }
    }
}

impl Selection {
    fn new(sorted: &[Arc<Summary>], status: Status, project: &str) -> Selection {
        let is_wanted = |row: &&Arc<Summary>| {
            let fits = match status {
                Status::All => true,
                Status::Active => !row.archived,
                Status::Archived => row.archived,
            };
            let named = || row.project.as_ref().is_some_and(|name| name.to_lowercase().contains(project));
            fits && (project.is_empty() || named())
        };
        let rows: Vec<Arc<Summary>> = sorted.iter().filter(is_wanted).cloned().collect();
        let mut months: Vec<(String, usize)> = Vec::new();
        let mut last = None;
        for row in &rows {
            // Formatting every time would take longer than everything else.
            let days = row.last_modified_at.millis().div_euclid(86_400_000);
            if last == Some(days)
                && let Some((_, count)) = months.last_mut()
            {
                *count += 1;
                continue;
            }
            last = Some(days);
            let month: String = row.last_modified_at.to_string().chars().take(7).collect();
            match months.last_mut() {
                Some((known, count)) if *known == month => *count += 1,
                _ => months.push((month, 1)),
            }
        }
        Selection { rows, months, by_name: OnceLock::new() }
    }

    /// Returns the sessions by title, case-insensitively, with untitled ones last. Sorted once per selection.
    pub fn by_name(&self) -> &[Arc<Summary>] {
        self.by_name.get_or_init(|| {
            let named =
                |row: &Arc<Summary>| (row.title.is_none(), row.title.as_deref().unwrap_or_default().to_lowercase());
            let mut rows = self.rows.clone();
            rows.sort_by_cached_key(named);
            rows
        })
    }
}

/// Counts the sessions of each project. Names that differ only in case are the same project.
fn projects(sorted: &[Arc<Summary>]) -> (Vec<ProjectTally>, u64) {
    let mut projects: BTreeMap<String, ProjectTally> = BTreeMap::new();
    let mut without = 0;
    for summary in sorted {
        let Some(name) = &summary.project else {
            without += 1;
            continue;
        };
        // The first session seen is the most recently modified one.
        let project = projects.entry(name.to_lowercase()).or_insert_with(|| ProjectTally {
            name: name.clone(),
            sessions: 0,
            archived: 0,
            iterations: 0,
            last_modified_at: summary.last_modified_at,
        });
        project.sessions += 1;
        project.archived += u64::from(summary.archived);
        project.iterations += u64::from(summary.iteration_count());
    }
    let mut projects: Vec<ProjectTally> = projects.into_values().collect();
    projects.sort_by(|a, b| b.last_modified_at.cmp(&a.last_modified_at).then_with(|| a.name.cmp(&b.name)));
    (projects, without)
}
