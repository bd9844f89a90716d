//! The log: connects the journal, the commit queue before it, and the view after it.
//!
//! An append is decided under the state's lock: whether the session accepts it, and which id, index and sequence number
//! it gets. It joins the queue, is written to the journal with others, and is acknowledged; then it goes to the view,
//! where a thread applies it to sled.
//!
//! Lock order: `state`, the locks of the view, `journal`.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::disk::{ContentDir, Disk, DiskFile, FileId};
use crate::log::Follower;
use crate::model::{Draft, EventBody, Hash, Head, Refusal};

use super::checkpoint::Checkpoint;
use super::commit::Commit;
use super::commit_queue::{CommitQueue, Committer, await_ticket, submit};
use super::database::{Database, DatabaseError};
use super::journal::{CommitError, Journal, JournalPosition, Written};
use super::keys;
use super::layout::Layout;
use super::record;
use super::segments::JournalFiles;
use super::unapplied::Unapplied;
use super::view::{AcknowledgedProgress, Snapshot, View};
use super::{Ack, Batch, Clock, Error, Target, Totals};

/// The maximum number of attempts of a request after the database was replaced.
pub(super) const MAX_ATTEMPTS: usize = 3;

/// An open log.
pub(super) struct LocalLog {
    pub(super) layout: Layout,
    pub(super) disk: Disk,
    pub(super) files: JournalFiles,
    pub(super) workspace: [u8; 16],
    pub(super) texts: ContentDir,
    pub(super) lock: Option<(PathBuf, FileId)>,
    pub(super) clock: Clock,
    pub(super) segment_bytes: u64,
    pub(super) checkpoint_after: Duration,
    state: Mutex<State>,
    /// Signalled when a group was settled, and when a rebuild ended.
    settled: Condvar,
    pub(super) journal: Mutex<Journal>,
    pub(super) view: View,
    pub(super) checkpoint: Mutex<Checkpoint>,
    /// The checkpoint file, opened for notes of acknowledgements.
    note_file: Mutex<Option<DiskFile>>,
    /// The minimum size of a segment that is sealed.
    pub(super) seal_from: u64,
    /// Wakes the sealer after a checkpoint; `None` once the log is closing.
    sealing: Mutex<Option<SyncSender<()>>>,
    /// Whether the log is closing, which stops long background work.
    pub(super) is_closing: AtomicBool,
}

/// The state that appends are decided on.
pub(super) struct State {
    pub(super) queue: CommitQueue<Commit>,
    /// Queued commits, which may still be refused.
    pub(super) queued: Unapplied,
    /// The number of threads that are replacing the database or waiting to; no append starts meanwhile.
    rebuilding: usize,
    pub(super) followers: Vec<Follower>,
}

/// The result of opening.
pub(super) struct Parts {
    pub(super) layout: Layout,
    pub(super) disk: Disk,
    pub(super) files: JournalFiles,
    pub(super) workspace: [u8; 16],
    pub(super) texts: ContentDir,
    pub(super) lock: Option<(PathBuf, FileId)>,
    pub(super) clock: Clock,
    pub(super) segment_bytes: u64,
    pub(super) checkpoint_after: Duration,
    pub(super) journal: Journal,
    pub(super) database: Database,
    pub(super) totals: Totals,
    pub(super) checkpoint: Checkpoint,
    pub(super) since_open: usize,
    pub(super) seal_from: u64,
}

/// The reason why an append failed: an error for the caller, or one that requires replacing the database.
pub(super) enum AppendError {
    Caller(Error),
    Database(DatabaseError),
}

impl From<Refusal> for AppendError {
    fn from(refusal: Refusal) -> AppendError {
        AppendError::Caller(Error::Refused(refusal))
    }
}

impl From<DatabaseError> for AppendError {
    fn from(error: DatabaseError) -> AppendError {
        AppendError::Database(error)
    }
}

impl LocalLog {
    pub(super) fn new(parts: Parts, checkpoints: SyncSender<()>) -> LocalLog {
        let progress = AcknowledgedProgress {
            totals: parts.totals,
            frame: parts.checkpoint.frame,
            end: parts.checkpoint.end,
            newest: parts.checkpoint.newest,
        };
        let path = parts.layout.database();
        let view = View::new(parts.disk.clone(), path, parts.database, progress, parts.since_open);
        let state =
            State { queue: CommitQueue::default(), queued: Unapplied::default(), rebuilding: 0, followers: Vec::new() };
        LocalLog {
            layout: parts.layout,
            disk: parts.disk,
            files: parts.files,
            workspace: parts.workspace,
            texts: parts.texts,
            lock: parts.lock,
            clock: parts.clock,
            segment_bytes: parts.segment_bytes,
            checkpoint_after: parts.checkpoint_after,
            state: Mutex::new(state),
            settled: Condvar::new(),
            journal: Mutex::new(parts.journal),
            view,
            checkpoint: Mutex::new(parts.checkpoint),
            note_file: Mutex::new(None),
            seal_from: parts.seal_from,
            sealing: Mutex::new(Some(checkpoints)),
            is_closing: AtomicBool::new(false),
        }
    }

    /// Records that a group was written, before it is acknowledged. The note is only additional evidence: without it,
    /// everything is as safe as before.
    fn note_written(&self, group: &[(u64, Commit)], written: &Written) {
        let AcknowledgedProgress { totals, newest, .. } = self.view.ahead().progress;
        let events = group.iter().map(|(_, commit)| commit.events.len() as u64).sum::<u64>();
        let started = group.iter().map(|(_, commit)| &commit.change).filter(|change| change.is_new_session());
        let newest = started.map(|change| keys::numbers(change.session())).fold(newest, Ord::max);
        let note = Checkpoint {
            frame: written.frame,
            end: written.end,
            events: totals.events + events,
            newest,
            workspace: self.workspace,
            ..Checkpoint::default()
        };
        let mut file = self.note_file.lock().unwrap_or_else(PoisonError::into_inner);
        if file.is_none() {
            *file = self.disk.open(&self.layout.checkpoint()).ok();
        }
        if let Some(file) = &*file
            && let Err(error) = note.write_note(file)
        {
            tracing::debug!(%error, "cannot write the note of an acknowledgement");
        }
    }

    /// Makes the next note reopen the checkpoint file, which may have been replaced.
    pub(super) fn forget_note_file(&self) {
        *self.note_file.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Returns the journal position up to which both copies are synced.
    pub(super) fn checkpointed(&self) -> JournalPosition {
        self.checkpoint.lock().unwrap_or_else(PoisonError::into_inner).end
    }

    /// Wakes the sealer, unless it is already about to run.
    pub(super) fn wake_sealer(&self) {
        if let Some(sealing) = &*self.sealing.lock().unwrap_or_else(PoisonError::into_inner) {
            let _ = sealing.try_send(());
        }
    }

    /// Stops the sealer, whatever it is doing.
    pub(super) fn stop_sealing(&self) {
        self.is_closing.store(true, Ordering::Relaxed);
        self.sealing.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// Appends a batch; it is durable when this returns.
    pub(super) fn append(&self, batch: &Batch) -> Result<Ack, Error> {
        if batch.drafts.is_empty() {
            return Err(Error::Misuse("a batch must have a draft".into()));
        }
        let texts = self.keep_texts(batch)?;
        self.attempt(|| self.try_append(batch, &texts))
    }

    /// Runs a write, and retries it after the database was replaced.
    pub(super) fn attempt<T>(&self, write: impl Fn() -> Result<T, AppendError>) -> Result<T, Error> {
        for attempt in 0..MAX_ATTEMPTS {
            let generation = self.view.generation();
            match write() {
                Ok(done) => return Ok(done),
                Err(AppendError::Caller(error)) => return Err(error),
                Err(AppendError::Database(error)) => self.handle(attempt, generation, error)?,
            }
        }
        Err(Error::Database("it keeps failing although it was rebuilt".to_owned()))
    }

    /// Locks the state that appends are decided on.
    pub(super) fn lock_state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn lock_journal(&self) -> MutexGuard<'_, Journal> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a long text from its file, or else from the journal, restoring the file.
    pub(super) fn text(&self, hash: Hash) -> Option<String> {
        if let Ok(bytes) = self.texts.get(hash.0) {
            return String::from_utf8(bytes).ok();
        }
        self.view.wait_until_applied(None);
        let position = self.view.read().ok()?.text(hash).ok()??;
        let text = self.files.text_at(position, hash).ok()??;
        if let Err(error) = self.texts.put(text.as_bytes()) {
            tracing::warn!(%hash, %error, "a long text is only in the journal, and its file cannot be written");
        }
        Some(text)
    }

    /// Writes the long texts of a batch to their files.
    fn keep_texts(&self, batch: &Batch) -> Result<Vec<(Hash, String)>, Error> {
        let mut kept = Vec::new();
        for draft in batch.drafts.iter().filter(|draft| super::payload::may_be_long(draft)) {
            let body = provisional(draft);
            for text in super::payload::encode(&batch.actor, &batch.key, &body).texts {
                kept.push((self.keep_text(&text)?, text));
            }
        }
        Ok(kept)
    }

    /// Writes a long text to its file.
    pub(super) fn keep_text(&self, text: &str) -> Result<Hash, Error> {
        // The file is created by path, which must still refer to this workspace.
        let kept = self.lock_journal().check_lock().and_then(|()| self.texts.put(text.as_bytes()));
        let error =
            |source| Error::Io { action: "keep a long text".into(), path: self.texts.root().to_owned(), source };
        Ok(Hash(kept.map_err(error)?.hash))
    }

    fn try_append(&self, batch: &Batch, texts: &[(Hash, String)]) -> Result<Ack, AppendError> {
        // An empty key counts as none.
        let key = (!batch.key.is_empty()).then(|| keys::idempotency_key(&batch.key));
        let target = match batch.target {
            Target::Existing(id) => Some(id),
            Target::New(_) => None,
        };
        let mut snapshot = self.view.look_up(key, target)?;
        let mut state = self.ready()?;
        for _ in 0..MAX_ATTEMPTS {
            if self.view.is_current(&snapshot) {
                break;
            }
            drop(state);
            snapshot = self.view.look_up(key, target)?;
            state = self.ready()?;
        }
        if let Some(key) = key {
            while let Some((ticket, _)) = state.queued.keys.get(&key) {
                // The same request is in progress: its outcome decides.
                let ticket = *ticket;
                state = await_ticket(self, state, ticket);
            }
            if let Some(hit) = self.view.key(key, &snapshot)? {
                let head = self.view.head(hit.session)?.ok_or(Refusal::NoSession(hit.session))?;
                return Ok(Ack { head, index: hit.index, repeated: true });
            }
        }
        let (commit, ack) = self.prepare(&state, batch, texts, snapshot)?;
        self.enqueue(state, commit)?;
        Ok(ack)
    }

    /// Decides a batch with a new key: where its events go, and their bytes.
    pub(super) fn prepare(
        &self,
        state: &State,
        batch: &Batch,
        texts: &[(Hash, String)],
        snapshot: Snapshot,
    ) -> Result<(Commit, Ack), AppendError> {
        let before = self.target(state, batch, snapshot)?;
        let mut commit = Commit::new(before.id, (before.next_seq > 0).then_some(before));
        commit.change.keys_are_new = true;
        for (hash, text) in texts {
            if !state.queued.texts.contains_key(hash) && !self.view.has_text(*hash)? {
                commit.add_text(*hash, text);
            }
        }
        for draft in &batch.drafts {
            let head = commit.head();
            let body = head.place(draft.clone())?;
            let place = (head.id, head.next_seq, head.tip);
            let record = record::encode(place, batch.at, &batch.actor, &batch.key, body);
            commit.add(record.event, record.bytes);
        }
        let head = commit.head().clone();
        let index = commit.events.iter().find_map(|event| match event.body {
            EventBody::Recorded { index, .. } => Some(index),
            _ => None,
        });
        Ok((commit, Ack { head, index, repeated: false }))
    }

    /// Queues a commit and waits until it is acknowledged or refused.
    pub(super) fn enqueue<'a>(&'a self, mut state: MutexGuard<'a, State>, commit: Commit) -> Result<(), AppendError> {
        let ticket = state.queue.next_ticket();
        state.queued.add(ticket, &commit.change);
        submit(self, state, commit).map_err(|error| AppendError::Caller(self.refusal(&error)))
    }

    pub(super) fn refusal(&self, error: &CommitError) -> Error {
        let path = self.layout.journal();
        let source = io::Error::new(error.source().kind(), error.source().to_string());
        let source = error.source().raw_os_error().map_or(source, io::Error::from_raw_os_error);
        match error {
            CommitError::Refused(_) | CommitError::Moved(_) => {
                Error::Io { action: "write the journal".into(), path, source }
            }
            CommitError::Unknown(_) => Error::OutcomeUnknown { path, source },
        }
    }

    /// Waits until an append may start.
    pub(super) fn ready(&self) -> Result<MutexGuard<'_, State>, DatabaseError> {
        self.view.wait_for_room()?;
        let state = self.lock_state();
        let is_busy = |state: &mut State| state.rebuilding > 0;
        Ok(self.settled.wait_while(state, is_busy).unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the current state of the session that a batch goes to.
    fn target(&self, state: &State, batch: &Batch, snapshot: Snapshot) -> Result<Head, AppendError> {
        match batch.target {
            Target::New(day) => {
                let number = keys::day_number(day);
                let last = match state.queued.days.get(&number) {
                    Some((_, last)) => *last,
                    None => self.view.last_of_day(number)?,
                };
                let id = last.checked_add(1).and_then(|next| keys::session_from(number, next));
                let misuse = |problem: &'static str| AppendError::Caller(Error::Misuse(problem.into()));
                let id = id.ok_or_else(|| misuse("no more sessions can start on that day"))?;
                if !matches!(batch.drafts.as_slice(), [Draft::Start { .. }, Draft::Record(_) | Draft::BringIn(_), ..]) {
                    return Err(misuse("a session begins with its first iteration"));
                }
                Ok(Head::new(id))
            }
            Target::Existing(id) => {
                let head = match state.queued.heads.get(&id) {
                    Some((_, head)) => Some(head.clone()),
                    None => self.view.head_since(id, snapshot)?,
                };
                let head = head.ok_or(Refusal::NoSession(id))?;
                if head.last_index.is_none() {
                    // All iterations are lost, and the indexes in use are unknown.
                    return Err(Refusal::Gone(id).into());
                }
                let actual = head.last_index.map_or(0, |last| last.saturating_add(1));
                match batch.expected_iterations {
                    Some(expected) if expected != actual => Err(Refusal::Count { id, expected, actual })?,
                    _ => Ok(head),
                }
            }
        }
    }

    /// Runs `work` while no append is in progress and none can start, then wakes the waiting threads.
    pub(super) fn while_still<T>(&self, work: impl FnOnce() -> T) -> T {
        let mut state = self.lock_state();
        state.rebuilding += 1;
        let is_busy = |state: &mut State| !state.queue.is_idle();
        drop(self.settled.wait_while(state, is_busy).unwrap_or_else(PoisonError::into_inner));
        let done = work();
        self.lock_state().rebuilding -= 1;
        self.settled.notify_all();
        done
    }
}

impl Committer for LocalLog {
    type State = State;
    type Item = Commit;
    type Written = Written;

    fn state(&self) -> MutexGuard<'_, State> {
        self.lock_state()
    }

    fn queue(state: &mut State) -> &mut CommitQueue<Commit> {
        &mut state.queue
    }

    fn settled(&self) -> &Condvar {
        &self.settled
    }

    fn write(&self, group: &[(u64, Commit)]) -> Result<Written, CommitError> {
        let mut body = Vec::with_capacity(group.iter().map(|(_, commit)| commit.bytes.len()).sum());
        group.iter().for_each(|(_, commit)| body.extend_from_slice(&commit.bytes));
        let entries = group.iter().map(|(_, commit)| commit.entries).sum();
        let written = self.lock_journal().commit(&body, entries, 0)?;
        self.note_written(group, &written);
        Ok(written)
    }

    fn acknowledge(&self, state: &mut State, group: Vec<(u64, Commit)>, written: Written) {
        let last = group.last().map_or(0, |(ticket, _)| *ticket);
        let (mut changes, mut events, mut offset) = (Vec::with_capacity(group.len()), Vec::new(), 0);
        for (ticket, mut commit) in group {
            commit.locate(written.body, offset, written.end);
            offset += commit.bytes.len() as u64;
            events.append(&mut commit.events);
            changes.push((ticket, commit.change));
        }
        self.view.push(changes, written.frame, written.end);
        state.queued.forget(last);
        if !state.followers.is_empty() {
            for event in events {
                let event = Arc::new(event);
                state.followers.retain_mut(|follower| follower(&event));
            }
        }
    }

    fn refuse(&self, state: &mut State, error: &CommitError) {
        state.queued = Unapplied::default();
        if matches!(error, CommitError::Moved(_)) {
            // If only a segment was replaced, reopening the workspace repairs it.
            self.view.set_broken(error.source().to_string());
        }
    }
}

/// Returns the event body of a draft, only for the texts in it: its index and parent do not matter.
pub(super) fn provisional(draft: &Draft) -> EventBody {
    match draft.clone() {
        Draft::Start { title, project } => EventBody::Started { title, project },
        Draft::Record(iteration) | Draft::BringIn(iteration) => EventBody::Recorded { index: 0, iteration },
        Draft::Annotate { index, change } => EventBody::Annotated { index, change },
        Draft::Title { title, project } => EventBody::Titled { title, project },
        Draft::Archive { reason } => EventBody::Archived { reason },
        Draft::Restore { reason } => EventBody::Restored { reason },
        Draft::Lose(loss) => EventBody::Lost(loss),
    }
}
