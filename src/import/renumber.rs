//! Records sessions whose ids are taken under new ids, with their times, actors, annotations and lineage.
//!
//! Ids count from 001 each day on each machine, so ids clash whenever two machines are merged. A record contains its id
//! and cannot be moved to another session, so the events are appended again, in chronological order: a parent exists
//! before its child. Sessions derived from a clashing one are renumbered with it; otherwise their parents would refer
//! to a different session.
//!
//! Every event carries an idempotency key that names its origin, `from session-2025-12-11-001 HASH`. Importing again
//! therefore adds only what is new, and the audit trail shows where a session came from.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::num::NonZeroU32;

use chrono::NaiveDate;

use crate::model::{Draft, Event, EventBody, IterationId, SessionId};
use crate::store::{self, Batch, Detail, Target};
use crate::workspace::{Error, Workspace};

use super::lines::{Collected, Import, Renumbered};

/// The first word of the idempotency key of a renumbered event.
const WORD: &str = "from";

/// Returns the original session of an event that was renumbered on import.
#[cfg(feature = "mcp")]
pub(crate) fn origin(event: &Event) -> Option<SessionId> {
    let mut words = event.key.split(' ');
    let (word, session, hash) = (words.next()?, words.next()?, words.next()?);
    let is_ours = word == WORD && hash.len() == 64 && words.next().is_none();
    session.parse().ok().filter(|_| is_ours)
}

/// Returns the local records of a session, with their sequence numbers.
pub(super) fn records_here(workspace: &Workspace, id: SessionId) -> Result<Vec<(u32, Vec<u8>)>, Error> {
    if workspace.log.head(id)?.is_none() {
        return Ok(Vec::new());
    }
    let records = workspace.log.records(id)?.into_iter();
    Ok(records.filter_map(|record| Some((store::decode(&record, Detail::Brief, &|_| None)?.seq, record))).collect())
}

/// Appends all sessions of an export: unchanged if their ids are free, otherwise under new ids.
pub(super) fn append_collected(import: &mut Import<'_>, collected: Vec<Collected>) -> Result<(), Error> {
    let mut clashing = BTreeSet::new();
    let mut present = BTreeSet::new();
    let mut parents: HashMap<SessionId, BTreeSet<SessionId>> = HashMap::new();
    for session in &collected {
        let here: HashMap<u32, Vec<u8>> = records_here(import.workspace, session.id)?.into_iter().collect();
        let mut all_here = true;
        for record in &session.records {
            let Some(event) = import.decode(record, Detail::Brief) else { continue };
            match here.get(&event.seq) {
                Some(there) if there == record => {}
                Some(_) => drop(clashing.insert(session.id)),
                None => all_here = false,
            }
            if let EventBody::Recorded { iteration, .. } = &event.body {
                let parent = iteration.parent.map(|parent| parent.session);
                let likely = iteration.likely_parent.as_ref().map(|likely| likely.reference.session);
                parents.entry(session.id).or_default().extend(parent.into_iter().chain(likely));
            }
        }
        if all_here {
            present.insert(session.id);
        }
    }
    while let Some(derived) = parents.iter().find_map(|(id, parents)| {
        let moves = parents.iter().any(|parent| clashing.contains(parent));
        (moves && !clashing.contains(id) && !present.contains(id)).then_some(*id)
    }) {
        clashing.insert(derived);
    }
    let (anew, as_they_are): (Vec<Collected>, Vec<Collected>) =
        collected.into_iter().partition(|session| clashing.contains(&session.id));
    for session in &as_they_are {
        import.flush(session)?;
    }
    let plan = Plan { kept: as_they_are.iter().map(|session| session.id).collect(), ..Plan::default() };
    replay(import, anew, clashing, plan)
}

/// Appends the events of these sessions under new ids.
fn replay(
    import: &mut Import<'_>,
    sessions: Vec<Collected>,
    clashing: BTreeSet<SessionId>,
    plan: Plan,
) -> Result<(), Error> {
    let mut events: Vec<(Event, u64)> = Vec::new();
    for session in &sessions {
        for (record, line) in session.records.iter().zip(&session.lines) {
            match import.decode(record, Detail::Brief) {
                Some(event) if event.session == session.id => events.push((event, *line)),
                _ => import.problem(*line, format!("a record of {} cannot be read", session.id)),
            }
        }
    }
    events.sort_by_key(|(event, _)| (event.at, event.session, event.seq));
    let records: HashMap<(SessionId, u32), &Vec<u8>> = sessions
        .iter()
        .flat_map(|session| session.records.iter().map(|record| (session.id, record)))
        .filter_map(|(id, record)| Some(((id, import.decode(record, Detail::Brief)?.seq), record)))
        .collect();
    let mut replay = Replay {
        clashing,
        started: HashMap::new(),
        sessions: HashMap::new(),
        iterations: HashMap::new(),
        extended: HashSet::new(),
        plan,
    };
    for (event, line) in events {
        // Load long parameters only when their event is appended, so that only one set is in memory.
        let whole = records.get(&(event.session, event.seq)).and_then(|record| import.decode(record, Detail::Full));
        replay.event(import, whole.unwrap_or(event), line)?;
    }
    Ok(())
}

struct Replay {
    /// The sessions that get new ids.
    clashing: BTreeSet<SessionId>,
    /// The title and project of sessions whose first iteration has not been appended yet.
    started: HashMap<SessionId, (Option<String>, Option<String>)>,
    /// The new ids.
    sessions: HashMap<SessionId, SessionId>,
    iterations: HashMap<IterationId, IterationId>,
    /// The sessions that got something new.
    extended: HashSet<SessionId>,
    plan: Plan,
}

impl Replay {
    fn event(&mut self, import: &mut Import<'_>, event: Event, line: u64) -> Result<(), Error> {
        let id = event.session;
        let key = format!("{WORD} {id} {}", event.hash);
        let mut recorded = None;
        let mut drafts = Vec::new();
        match event.body {
            EventBody::Started { title, project } => {
                self.started.insert(id, (title, project));
                return Ok(());
            }
            EventBody::Recorded { index, mut iteration } => {
                recorded = Some((index, iteration.created_at.day()));
                iteration.parent = iteration.parent.and_then(|parent| self.mapped(parent));
                iteration.likely_parent = iteration.likely_parent.and_then(|mut likely| {
                    likely.reference = self.mapped(likely.reference)?;
                    Some(likely)
                });
                if !self.sessions.contains_key(&id) {
                    let (title, project) = self.started.remove(&id).unwrap_or_default();
                    drafts.push(Draft::Start { title, project });
                }
                drafts.push(Draft::BringIn(iteration));
            }
            EventBody::Annotated { index, change } => match self.mapped(id.iteration(index)) {
                Some(there) => drafts.push(Draft::Annotate { index: there.index, change }),
                None => {
                    import
                        .problem(line, format!("{}: an annotation of an iteration that is lost", id.iteration(index)));
                    return Ok(());
                }
            },
            EventBody::Titled { title, project } => drafts.push(Draft::Title { title, project }),
            EventBody::Archived { reason } => drafts.push(Draft::Archive { reason }),
            EventBody::Restored { reason } => drafts.push(Draft::Restore { reason }),
            EventBody::Lost(_) => {
                import.problem(line, format!("{id} lost events in its original workspace, which the copy lacks"));
                return Ok(());
            }
            EventBody::Unknown { .. } => {
                import.problem(line, format!("{id}: an event of a newer version cannot be recorded under another id"));
                return Ok(());
            }
        }
        let target = match (self.sessions.get(&id), recorded) {
            (Some(new), _) => Target::Existing(*new),
            (None, Some((_, day))) => Target::New(day),
            (None, None) => return Ok(()),
        };
        let count = drafts.len() as u64;
        let (new, there, repeated) = if import.options.dry_run {
            self.plan.place(import.workspace, &key, target)?
        } else {
            let batch = Batch { target, expected_iterations: None, at: event.at, actor: event.actor, key, drafts };
            match import.workspace.log.append(batch) {
                Ok(ack) => (ack.head.id, ack.index, ack.repeated),
                Err(store::Error::Refused(refusal)) => {
                    import.problem(line, format!("{id}: {refusal}"));
                    return Ok(());
                }
                Err(error) => return Err(error.into()),
            }
        };
        self.sessions.insert(id, new);
        if repeated {
            import.report.skipped += count;
        } else {
            import.report.events += count;
            if self.extended.insert(id) {
                import.report.sessions += 1;
                import.report.renumbered.push(Renumbered { from: id, to: new });
            }
        }
        if let (Some((index, _)), Some(there)) = (recorded, there) {
            self.iterations.insert(id.iteration(index), new.iteration(there));
        }
        Ok(())
    }

    /// Returns the local id of an iteration; `None` if it could not be recorded.
    fn mapped(&self, id: IterationId) -> Option<IterationId> {
        if self.clashing.contains(&id.session) { self.iterations.get(&id).copied() } else { Some(id) }
    }
}

/// Predicts where a dry run would append events.
#[derive(Default)]
struct Plan {
    /// The sessions of the same import that keep their ids.
    kept: BTreeSet<SessionId>,
    /// The last number of each day that was read.
    last: HashMap<NaiveDate, u32>,
    /// The events of these days that came from another workspace: their session and iteration, by idempotency key.
    known: HashMap<String, (SessionId, Option<u32>)>,
}

impl Plan {
    /// Returns the session and the iteration of an event, and whether it is already here. The index of a new iteration
    /// is not predicted: 0 stands for it.
    fn place(
        &mut self,
        workspace: &Workspace,
        key: &str,
        target: Target,
    ) -> Result<(SessionId, Option<u32>, bool), Error> {
        let day = match target {
            Target::New(day) => day,
            Target::Existing(id) => id.day(),
        };
        if !self.last.contains_key(&day) {
            self.read(workspace, day)?;
        }
        if let Some((session, index)) = self.known.get(key) {
            return Ok((*session, *index, true));
        }
        let session = match target {
            Target::Existing(id) => id,
            Target::New(_) => {
                let last = self.last.entry(day).or_default();
                *last = last.saturating_add(1);
                let id = NonZeroU32::new(*last).and_then(|number| SessionId::new(day, number));
                id.ok_or_else(|| Error::InvalidField {
                    field: "createdAt",
                    problem: format!("is on {day}, for which there are no session ids"),
                    hint: "leave this session out".to_owned(),
                })?
            }
        };
        Ok((session, Some(0), false))
    }

    /// Reads the sessions of a day.
    fn read(&mut self, workspace: &Workspace, day: NaiveDate) -> Result<(), Error> {
        const CHUNK: usize = 1000;
        let mut last = self.kept.iter().filter(|id| id.day() == day).map(|id| id.number().get()).max().unwrap_or(0);
        let mut after = day.pred_opt().and_then(|before| SessionId::new(before, NonZeroU32::MAX));
        loop {
            let ids = workspace.log.ids(after, CHUNK)?;
            let of_day = ids.iter().take_while(|id| id.day() == day);
            for id in of_day.copied() {
                last = last.max(id.number().get());
                for event in workspace.log.events(id, Detail::Brief)? {
                    let index = match event.body {
                        EventBody::Recorded { index, .. } | EventBody::Annotated { index, .. } => Some(index),
                        _ => None,
                    };
                    // Events of one batch share a key; the recording is the last of them.
                    self.known.insert(event.key, (id, index));
                }
            }
            after = ids.last().copied();
            if after.is_none_or(|last| last.day() != day) {
                break;
            }
        }
        self.last.insert(day, last);
        Ok(())
    }
}
