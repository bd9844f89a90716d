//! Searching: the owner keeps the index and answers from it; whoever asked makes something of the records it sends along.

use crate::model::{Event, EventBody, Head, Iteration};
use crate::search::{Found, Hit, Question};
use crate::store::{Detail, Error, Progress, Store, split};

use super::owner::Owner;
use super::protocol::{Answer, Ask};
use super::{Role, SharedLog};

/// What a search found, with what is needed to show it.
#[derive(Clone, Debug, PartialEq)]
pub struct Findings {
    /// What the index answered; its hits are in `findings`.
    pub found: Found,
    /// The hits, in order.
    pub findings: Vec<Finding>,
}

/// A hit with what was recorded.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// What the index says of it.
    pub hit: Hit,
    /// What was recorded, without parameters that are kept in a file of their own.
    pub iteration: Box<Iteration>,
    /// Its note.
    pub note: Option<String>,
    /// Where its session stands.
    pub session: Head,
}

/// An answer of the index, with the sessions of its hits and the records they are made of, one behind the other: the
/// recording, and the event of the note where there is one.
pub(super) type Packed = (Found, Vec<Head>, Vec<u8>);

impl SharedLog {
    /// Finds iterations. Everything that was acknowledged before is taken into account; `progress` is told when the
    /// index must be made first.
    pub fn search(&self, question: &Question, progress: Option<&Progress>) -> Result<Findings, Error> {
        loop {
            let role = self.shared.role().clone();
            if let Role::Owner(owner) = role
                && let Some(packed) = owner.with_store(|store| owner.search(store, question, progress))
            {
                return self.unpack(packed?);
            }
            let ask = Ask::Search(Box::new(question.clone()));
            let take = |answer, bytes| match answer {
                Answer::Found(found, heads) => Some((found, heads, bytes)),
                _ => None,
            };
            if let Some(packed) = self.shared.ask(&ask, progress, take)? {
                return self.unpack(packed);
            }
        }
    }

    fn unpack(&self, (mut found, heads, bytes): Packed) -> Result<Findings, Error> {
        let mut records = split(&bytes).into_iter();
        let mut next = || {
            let record = records.next().ok_or(Error::Misuse("a hit has no record".into()))?;
            self.decode(record, Detail::Brief)
        };
        let mut findings = Vec::with_capacity(found.hits.len());
        for (hit, session) in std::mem::take(&mut found.hits).into_iter().zip(heads) {
            let Event { body: EventBody::Recorded { iteration, .. }, .. } = next()? else {
                return Err(Error::Misuse("a hit is no iteration".into()));
            };
            let note = match hit.noted.map(|_| next()).transpose()? {
                Some(Event { body: EventBody::Annotated { change, .. }, .. }) => change.note,
                _ => None,
            };
            findings.push(Finding { hit, iteration, note, session });
        }
        Ok(Findings { found, findings })
    }
}

impl Owner {
    /// Asks the index, and reads what its answer is made of.
    pub(super) fn search(
        &self,
        store: &Store,
        question: &Question,
        progress: Option<&Progress>,
    ) -> Result<Packed, Error> {
        let mut found = self.index.search(store, question, progress)?;
        let (mut heads, mut bytes) = (Vec::new(), Vec::new());
        let mut kept = Vec::new();
        for hit in std::mem::take(&mut found.hits) {
            let id = hit.place.id.session;
            let note = hit.noted.map(|seq| store.record(id, seq)).transpose()?;
            let (recorded, head) = (store.record(id, hit.seq)?, store.head(id)?);
            // What damage took since the index was asked cannot be shown.
            let (Some(recorded), Some(head), None | Some(Some(_))) = (recorded, head, &note) else { continue };
            bytes.extend(recorded);
            bytes.extend(note.flatten().unwrap_or_default());
            heads.push(head);
            kept.push(hit);
        }
        found.hits = kept;
        Ok((found, heads, bytes))
    }
}
