//! Shared by all writes: the actor, the time, the idempotency key, and the handling of a repeated key.

use crate::model::iteration::check_name;
use crate::model::{Actor, Draft, Event, EventBody, SessionId};
use crate::store::{Ack, Batch, Detail, Target};

use super::{Error, Workspace};

/// The maximum size of an actor's client or user in an event.
const MAX_ACTOR_BYTES: usize = 256;

/// The author of a write, and its idempotency key.
#[derive(Clone, Debug, Default)]
pub(crate) struct Author {
    /// The actor; the workspace's own if absent.
    pub(crate) actor: Option<Actor>,
    /// The caller's key; a new one is generated if absent.
    pub(crate) key: Option<String>,
}

impl Workspace {
    /// Creates a batch with these drafts, under the caller's key or a new one.
    pub(crate) fn batch(&self, author: Author, target: Target, drafts: Vec<Draft>) -> Result<Batch, Error> {
        let key = match author.key {
            Some(key) => {
                check_name("idempotencyKey", &key)?;
                key
            }
            None => new_key()?,
        };
        let actor = author.actor.unwrap_or_else(|| self.actor.clone());
        let actor = Actor { client: actor_name(&actor.client), user: actor_name(&actor.user) };
        Ok(Batch { target, expected_iterations: None, at: self.now(), actor, key, drafts })
    }

    /// Checks an append whose key was used before: its events must belong to this session, if one is given, and
    /// `is_same` must recognise the request in them.
    pub(crate) fn check_repeated(
        &self,
        ack: &Ack,
        key: &str,
        session: Option<SessionId>,
        is_same: impl FnOnce(&[Event]) -> bool,
    ) -> Result<(), Error> {
        let id = ack.head.id;
        let mut events = Vec::new();
        for event in self.log.events(id, Detail::Brief)?.iter().filter(|event| event.key == key) {
            events.extend(self.log.event(id, event.seq, Detail::Full)?);
        }
        if session.is_none_or(|session| session == id) && is_same(&events) {
            return Ok(());
        }
        let used = events.last().map_or_else(|| format!("another request in {id}"), describe);
        Err(Error::KeyReused { key: key.to_owned(), used })
    }

    /// Returns whether a session has an event with this key, so that the request is a retry.
    pub(crate) fn has_key(&self, id: SessionId, key: Option<&str>) -> Result<bool, Error> {
        let Some(key) = key else { return Ok(false) };
        Ok(self.log.events(id, Detail::Brief)?.iter().any(|event| event.key == key))
    }
}

fn describe(event: &Event) -> String {
    let id = event.session;
    match &event.body {
        EventBody::Recorded { index, .. } => format!("recording {} with other contents", id.iteration(*index)),
        EventBody::Annotated { index, .. } => format!("annotating {} with other contents", id.iteration(*index)),
        body => format!("{:?} in {id}", body.kind().as_str()),
    }
}

/// Reduces a name to one line that is neither empty nor too long.
fn actor_name(text: &str) -> String {
    let mut name: String = text.chars().filter(|c| !c.is_control()).collect();
    truncate(&mut name, MAX_ACTOR_BYTES);
    if name.trim().is_empty() { "unknown".to_owned() } else { name }
}

/// Truncates a text to at most `most` bytes at a character boundary, with an ellipsis.
pub(crate) fn truncate(text: &mut String, most: usize) {
    const ELLIPSIS: char = '…';
    if text.len() > most {
        let room = most.saturating_sub(ELLIPSIS.len_utf8());
        let end = text.char_indices().map(|(at, _)| at).take_while(|at| *at <= room).last().unwrap_or(0);
        text.truncate(end);
        text.push(ELLIPSIS);
    }
}

/// Returns 128 random bits from the system as hexadecimal digits.
fn new_key() -> Result<String, Error> {
    let mut bits = [0; 16];
    getrandom::fill(&mut bits).map_err(|error| Error::NoRandomness(error.into()))?;
    Ok(format!("{:032x}", u128::from_be_bytes(bits)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_do_not_repeat() {
        let keys: std::collections::HashSet<String> = (0..10_000).map(|_| new_key().unwrap()).collect();
        assert_eq!(keys.len(), 10_000);
        assert!(keys.iter().all(|key| key.len() == 32));
    }

    #[test]
    fn an_actor_is_one_short_line() {
        assert_eq!(actor_name("claude\n\u{1b}[31m 1.0"), "claude[31m 1.0");
        assert_eq!(actor_name(" "), "unknown");
        assert!(actor_name(&"x".repeat(10_000)).len() <= MAX_ACTOR_BYTES);
    }

    #[test]
    fn truncation_keeps_characters_whole() {
        for most in 3..40 {
            let mut text = "猫 and a dog 🎨".repeat(3);
            truncate(&mut text, most);
            assert!(text.len() <= most && text.ends_with('…'), "{text:?} in {most}");
        }
    }
}
