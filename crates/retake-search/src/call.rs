//! Searching a shared workspace: the owner keeps the index and searches it; the calling process decodes the records
//! that come with the result.

use std::path::Path;
use std::sync::Arc;

use retake_log::Log;
use retake_log::model::{Actor, Event, EventBody, Head, Iteration};
use retake_log::sharing::{Call, CallContext, Extension, LogHandle, Records, Registry, SharedLog};
use retake_log::store::{Detail, Error, Progress};
use serde::{Deserialize, Serialize};

use super::{Found, Hit, Index, Question, Sizes};

/// The hits of a search, with the data needed to show them.
#[derive(Clone, Debug, PartialEq)]
pub struct Findings {
    /// The result of the index; its hits are in `findings`.
    pub found: Found,
    /// The hits, in order.
    pub findings: Vec<Finding>,
}

/// A hit with the recorded data.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// What the index knows about it.
    pub hit: Hit,
    /// The iteration, without parameters stored in separate files.
    pub iteration: Box<Iteration>,
    /// Its note.
    pub note: Option<String>,
    /// The state of its session.
    pub session: Head,
    /// Who recorded it.
    pub recorded_by: Actor,
}

/// Returns the search index of the workspace in `dir`, for [`SharedLog::open`].
pub fn extension(dir: &Path) -> Arc<dyn Extension> {
    let dir = std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
    Arc::new(Index::new(&dir, Sizes::default()))
}

/// Search in a shared workspace that was opened with the [`extension`].
pub trait SearchLog {
    /// Finds iterations, including everything acknowledged before the call. Calls `progress` if the index must be built
    /// first.
    fn search(&self, question: &Question, progress: Option<&Progress>) -> Result<Findings, Error>;

    /// Returns up to three words that are similar to a folded word and occur somewhere, most similar first.
    fn near_words(&self, word: &str) -> Result<Vec<String>, Error>;
}

impl SearchLog for SharedLog {
    fn search(&self, question: &Question, progress: Option<&Progress>) -> Result<Findings, Error> {
        unpack(self, self.call(Search { question: question.clone() }, progress)?)
    }

    fn near_words(&self, word: &str) -> Result<Vec<String>, Error> {
        self.call(NearWords { word: word.to_owned() }, None)
    }
}

impl Extension for Index {
    fn register(&self, calls: &mut Registry) {
        calls.add::<Search>();
        calls.add::<NearWords>();
    }

    fn acknowledged(&self) {
        self.note();
    }

    fn run(&self, log: &LogHandle) {
        while self.wait() {
            if log.with_log(|log| self.tend(log)).is_none() {
                return;
            }
        }
    }

    fn stop(&self) {
        Index::stop(self);
    }

    fn close(&self, log: &dyn Log) {
        Index::close(self, log);
    }
}

/// A search sent to the owner.
#[derive(Serialize, Deserialize)]
struct Search {
    question: Question,
}

/// A word that occurs nowhere, sent to the owner.
#[derive(Serialize, Deserialize)]
struct NearWords {
    word: String,
}

impl Call for NearWords {
    const NAME: &'static str = "near-words";
    type Answer = Vec<String>;

    fn run(self, context: &CallContext<'_>) -> Result<Vec<String>, Error> {
        context.extension::<Index>()?.near_words(context.log(), &self.word, context.progress())
    }
}

/// The result of the index, with the sessions of its hits and their records: the recording, and the event of the note,
/// if there is one.
#[derive(Serialize, Deserialize)]
struct Packed {
    found: Found,
    heads: Vec<Head>,
    records: Records,
}

impl Call for Search {
    const NAME: &'static str = "search";
    type Answer = Packed;

    fn run(self, context: &CallContext<'_>) -> Result<Packed, Error> {
        let log = context.log();
        let mut found = context.extension::<Index>()?.search(log, &self.question, context.progress())?;
        let (mut heads, mut records, mut kept) = (Vec::new(), Vec::new(), Vec::new());
        for hit in std::mem::take(&mut found.hits) {
            let id = hit.place.id.session;
            let note = hit.noted.map(|seq| log.record(id, seq)).transpose()?;
            let (recorded, head) = (log.record(id, hit.seq)?, log.head(id)?);
            // Records that were damaged since the index was searched cannot be shown.
            let (Some(recorded), Some(head), None | Some(Some(_))) = (recorded, head, &note) else { continue };
            records.push(recorded);
            records.extend(note.flatten());
            heads.push(head);
            kept.push(hit);
        }
        found.hits = kept;
        Ok(Packed { found, heads, records: Records(records) })
    }
}

fn unpack(log: &SharedLog, packed: Packed) -> Result<Findings, Error> {
    let Packed { mut found, heads, records } = packed;
    let mut records = records.0.iter();
    let mut next = || {
        let record = records.next().ok_or(Error::Misuse("a hit has no record".into()))?;
        Ok::<_, Error>(log.decode(record, Detail::Brief))
    };
    let mut findings = Vec::with_capacity(found.hits.len());
    for (hit, session) in std::mem::take(&mut found.hits).into_iter().zip(heads) {
        let recorded = next()?;
        let note = match hit.noted.map(|_| next()).transpose()?.flatten() {
            Some(Event { body: EventBody::Annotated { change, .. }, .. }) => change.note,
            _ => None,
        };
        // A record that was altered since it was indexed cannot be shown.
        let Some(Event { body: EventBody::Recorded { iteration, .. }, actor: recorded_by, .. }) = recorded else {
            continue;
        };
        findings.push(Finding { hit, iteration, note, session, recorded_by });
    }
    Ok(Findings { found, findings })
}
