//! Builds the index from the whole log: at first, and whenever it cannot be used.

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use retake_log::Log;
use retake_log::model::{AnnotationChange, Event, EventBody, Session, SessionId};
use retake_log::store::{Detail, Error, Progress};

use super::doc::{Doc, SessionDoc, key_of};
use super::index::{BUILDING, Index, Loaded, recoveries};
use super::tail::Tail;

/// The number of session ids that are read at a time.
const SESSIONS_PER_READ: usize = 256;

impl Index {
    /// Builds the index from the current log. Events acknowledged meanwhile are indexed afterwards.
    pub(super) fn make(&self, store: &dyn Log, progress: Option<&Progress>) -> Result<Loaded, Error> {
        self.forget(&mut None);
        let recoveries = recoveries(store);
        let point = store.point()?;
        let mut loaded = Loaded {
            recoveries,
            verified_generation: None,
            point,
            parts: Vec::new(),
            tail: Tail::default(),
            next: 1,
            view: None,
        };
        let total = store.totals()?.events;
        self.made.1.store(total, Ordering::Relaxed);
        let made = self.make_parts(store, &mut loaded, total, progress);
        self.made.1.store(0, Ordering::Relaxed);
        made?;
        self.noted.store(0, Ordering::Relaxed);
        self.waiting.0.lock().merge = true;
        self.waiting.1.notify_one();
        Ok(loaded)
    }

    fn make_parts(
        &self,
        store: &dyn Log,
        loaded: &mut Loaded,
        total: u64,
        progress: Option<&Progress>,
    ) -> Result<(), Error> {
        let (mut after, mut done) = (None, 0);
        loop {
            let ids = store.ids(after, SESSIONS_PER_READ)?;
            store.each_session(&ids, Detail::Brief, &mut |id, events| {
                if self.stopping.load(Ordering::Acquire) {
                    return Err(Error::Misuse("the workspace is being closed".into()));
                }
                done += events.len() as u64;
                take_session(&mut loaded.tail, id, events);
                self.made.0.store(done, Ordering::Relaxed);
                if let Some(progress) = progress {
                    progress(BUILDING, done.min(total), total);
                }
                if loaded.tail.len() >= self.sizes.made_at_once {
                    self.write_part(loaded);
                }
                Ok(())
            })?;
            after = ids.last().copied();
            if ids.len() < SESSIONS_PER_READ {
                break;
            }
        }
        if loaded.tail.len() >= self.sizes.left || !loaded.parts.is_empty() {
            self.write_tail(loaded);
        }
        Ok(())
    }
}

/// Adds all documents of a session.
fn take_session(tail: &mut Tail, id: SessionId, events: Vec<Event>) {
    let mut annotations: Vec<(u32, u32, AnnotationChange)> = Vec::new();
    let mut seqs: HashMap<u32, u32> = HashMap::new();
    for event in &events {
        match &event.body {
            EventBody::Annotated { index, change } => annotations.push((*index, event.seq, change.clone())),
            EventBody::Recorded { index, .. } => {
                seqs.insert(*index, event.seq);
            }
            _ => {}
        }
    }
    let Some(session) = Session::fold(events) else { return };
    let key = key_of(id);
    for (index, state) in &session.iterations {
        let seq = seqs.get(index).copied().unwrap_or(0);
        tail.docs.insert((key, *index), Doc::new(id.iteration(*index), seq, &state.iteration, &state.recorded_by));
    }
    for (index, seq, change) in annotations {
        if let Some(doc) = tail.docs.get_mut(&(key, index)) {
            doc.annotate(seq, &change);
        }
    }
    tail.sessions.insert(key, SessionDoc::new(&session.head));
}
