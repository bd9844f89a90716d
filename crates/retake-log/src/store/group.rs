//! Appending several batches with one sync.
//!
//! All batches are decided under one lock of the state, so that their commits join the queue consecutively and are
//! written as one frame: none of them waits for the sync of another. Each is independent, as if it had been appended
//! alone. The first refusal ends the group, since later batches may build on it.

use std::io;

use crate::model::{Hash, Refusal};

use super::commit_queue::{QueuedCommit, await_ticket, join, wait_for};
use super::keys;
use super::log::{AppendError, LocalLog, MAX_ATTEMPTS, provisional};
use super::payload;
use super::view::Snapshot;
use super::{Ack, Batch, Error, GroupAck, Target};

/// A batch with its long texts, whose files are written.
struct Prepared<'a> {
    batch: &'a Batch,
    texts: Vec<(Hash, String)>,
}

/// The result for the first batches of a group.
struct GroupProgress {
    acks: Vec<Ack>,
    error: Option<AppendError>,
}

impl LocalLog {
    /// Appends batches in order, and stops at the first failure. Acknowledged batches are durable when this returns.
    pub(super) fn append_all(&self, batches: &[Batch]) -> GroupAck {
        let (prepared, mut error) = self.keep_all_texts(batches);
        let mut acks = Vec::with_capacity(prepared.len());
        let mut attempt = 0;
        while let Some(rest) = prepared.get(acks.len()..).filter(|rest| !rest.is_empty()) {
            let generation = self.view.generation();
            let progress = self
                .try_append_group(rest)
                .unwrap_or_else(|error| GroupProgress { acks: Vec::new(), error: Some(error) });
            if !progress.acks.is_empty() {
                attempt = 0;
            }
            acks.extend(progress.acks);
            let failed = match progress.error {
                None => continue,
                Some(AppendError::Caller(error)) => Some(error),
                Some(AppendError::Database(_)) if attempt == MAX_ATTEMPTS => {
                    Some(Error::Database("it keeps failing although it was rebuilt".to_owned()))
                }
                Some(AppendError::Database(error)) => self.handle(attempt, generation, error).err(),
            };
            attempt += 1;
            if failed.is_some() {
                error = failed;
                break;
            }
        }
        GroupAck { acks, error }
    }

    /// Writes the long texts of all batches to their files together. Returns the batches before the first whose texts
    /// cannot be written, and the error.
    fn keep_all_texts<'a>(&self, batches: &'a [Batch]) -> (Vec<Prepared<'a>>, Option<Error>) {
        let texts = |batch: &Batch| -> Vec<String> {
            let long = batch.drafts.iter().filter(|draft| payload::may_be_long(draft));
            long.flat_map(|draft| payload::encode(&batch.actor, &batch.key, &provisional(draft)).texts).collect()
        };
        let texts: Vec<Vec<String>> = batches.iter().map(texts).collect();
        let mut stored = self.put_texts(texts.iter().flatten().map(String::as_bytes)).into_iter();
        let mut prepared = Vec::with_capacity(batches.len());
        for (batch, texts) in batches.iter().zip(texts) {
            if batch.drafts.is_empty() {
                return (prepared, Some(Error::Misuse("a batch must have a draft".into())));
            }
            let hashes: io::Result<Vec<Hash>> = stored.by_ref().take(texts.len()).collect();
            match hashes {
                Ok(hashes) => prepared.push(Prepared { batch, texts: hashes.into_iter().zip(texts).collect() }),
                Err(source) => {
                    let path = self.texts.root().to_owned();
                    return (prepared, Some(Error::Io { action: "keep a long text".into(), path, source }));
                }
            }
        }
        (prepared, None)
    }

    /// Writes texts to their files, and returns the result for each.
    fn put_texts<'a>(&self, texts: impl Iterator<Item = &'a [u8]>) -> Vec<io::Result<Hash>> {
        let mut texts = texts.peekable();
        if texts.peek().is_none() {
            return Vec::new();
        }
        // Files are created by path, which must still refer to this workspace.
        let journal = self.lock_journal();
        let check = |text: &[u8]| {
            journal.check_lock()?;
            self.texts.write(&mut &*text)
        };
        let stored = self.texts.persist_all(texts.map(check).collect());
        stored.into_iter().map(|stored| stored.map(|stored| Hash(stored.hash))).collect()
    }

    /// Appends the first of these batches: as many as can be decided without waiting for another writer, at least one.
    fn try_append_group(&self, batches: &[Prepared<'_>]) -> Result<GroupProgress, AppendError> {
        let keys: Vec<Option<[u8; 16]>> = batches.iter().map(|prepared| key_of(prepared.batch)).collect();
        let look_up = || -> Result<Vec<Snapshot>, AppendError> {
            let snapshots = batches.iter().zip(&keys).map(|(prepared, key)| {
                let target = match prepared.batch.target {
                    Target::Existing(id) => Some(id),
                    Target::New(_) => None,
                };
                self.view.look_up(*key, target)
            });
            Ok(snapshots.collect::<Result<_, _>>()?)
        };
        let mut snapshots = look_up()?;
        let mut state = self.ready()?;
        for _ in 0..MAX_ATTEMPTS {
            // The first snapshot is the oldest.
            if snapshots.first().is_none_or(|snapshot| self.view.is_current(snapshot)) {
                break;
            }
            drop(state);
            snapshots = look_up()?;
            state = self.ready()?;
        }
        let mut decided: Vec<(Ack, Option<QueuedCommit>)> = Vec::with_capacity(batches.len());
        let mut error = None;
        for ((prepared, key), snapshot) in batches.iter().zip(&keys).zip(snapshots) {
            if let Some(key) = key {
                if decided.is_empty() {
                    while let Some((ticket, _)) = state.queued.keys.get(key) {
                        let ticket = *ticket;
                        state = await_ticket(self, state, ticket);
                    }
                } else if state.queued.keys.contains_key(key) {
                    // The same request is in progress, in this group or another: write what is decided first.
                    break;
                }
                match self.repeated(*key, &snapshot) {
                    Ok(None) => {}
                    Ok(Some(ack)) => {
                        decided.push((ack, None));
                        continue;
                    }
                    Err(failed) => {
                        error = Some(failed);
                        break;
                    }
                }
            }
            match self.prepare(&state, prepared.batch, &prepared.texts, snapshot) {
                Ok((commit, ack)) => {
                    let ticket = state.queue.next_ticket();
                    state.queued.add(ticket, &commit.change);
                    decided.push((ack, Some(join::<LocalLog>(&mut state, commit))));
                }
                Err(failed) => {
                    error = Some(failed);
                    break;
                }
            }
        }
        let mut held = Some(state);
        let mut acks = Vec::with_capacity(decided.len());
        let mut refused = None;
        // Every commit is awaited, even after one was refused, since the queue counts the holders to be notified.
        for (ack, queued) in decided {
            let settled = queued
                .map_or(Ok(()), |queued| wait_for(self, held.take().unwrap_or_else(|| self.lock_state()), &queued));
            match settled {
                Ok(()) if refused.is_none() => acks.push(ack),
                Ok(()) => {}
                Err(error) => refused = refused.or(Some(AppendError::Caller(self.refusal(&error)))),
            }
        }
        Ok(GroupProgress { acks, error: refused.or(error) })
    }

    /// Returns the acknowledgement of a batch whose key was acknowledged before.
    fn repeated(&self, key: [u8; 16], snapshot: &Snapshot) -> Result<Option<Ack>, AppendError> {
        let Some(hit) = self.view.key(key, snapshot)? else { return Ok(None) };
        let head = self.view.head(hit.session)?.ok_or(Refusal::NoSession(hit.session))?;
        Ok(Some(Ack { head, index: hit.index, repeated: true }))
    }
}

/// Returns the digest of a batch's key; an empty key counts as none.
fn key_of(batch: &Batch) -> Option<[u8; 16]> {
    (!batch.key.is_empty()).then(|| keys::idempotency_key(&batch.key))
}
