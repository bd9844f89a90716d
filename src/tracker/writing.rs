//! What every writing verb shares: who and when, the idempotency key, and what a repeated key means.

use crate::model::iteration::check_name;
use crate::model::{Actor, Draft, Event, EventBody, SessionId};
use crate::store::{Ack, Batch, Detail, Target};

use super::{Error, ErrorKind, Tracker, fit};

/// What an actor's client or user may take in every event.
const ACTOR_BYTES: usize = 256;

impl Tracker {
    /// A batch with these drafts, under the caller's key or one of our own.
    pub(super) fn batch(
        &self,
        actor: &Actor,
        key: Option<&str>,
        target: Target,
        drafts: Vec<Draft>,
    ) -> Result<Batch, Error> {
        let key = match key {
            Some(key) => {
                check_name("idempotencyKey", key)?;
                key.to_owned()
            }
            None => fresh_key()?,
        };
        let actor = Actor { client: name(&actor.client), user: name(&actor.user) };
        Ok(Batch { target, expected_iterations: None, at: self.now(), actor, key, drafts })
    }

    /// For an append whose key had been seen before: the events it was seen in, which must be of this session, if any is
    /// named, and among which `same` must find what is asked for now.
    pub(super) fn check_repeated(
        &self,
        ack: &Ack,
        key: &str,
        session: Option<SessionId>,
        same: impl FnOnce(&[Event]) -> bool,
    ) -> Result<(), Error> {
        let id = ack.head.id;
        let mut events = Vec::new();
        for event in self.log.events(id, Detail::Brief)?.iter().filter(|event| event.key == key) {
            events.extend(self.log.event(id, event.seq, Detail::Full)?);
        }
        if session.is_none_or(|session| session == id) && same(&events) {
            return Ok(());
        }
        let used = events.last().map_or_else(|| format!("something else in {id}"), described);
        Err(Error::new(
            ErrorKind::Conflict,
            format!("the idempotency key {key:?} was used before, for {used}"),
            "nothing was written: give every request a key of its own, and the same key only to the same request",
        ))
    }

    /// Whether a session has an event of that key, so that asking again is a retry.
    pub(super) fn key_seen(&self, id: SessionId, key: Option<&str>) -> Result<bool, Error> {
        let Some(key) = key else { return Ok(false) };
        Ok(self.log.events(id, Detail::Brief)?.iter().any(|event| event.key == key))
    }
}

fn described(event: &Event) -> String {
    let id = event.session;
    match &event.body {
        EventBody::Recorded { index, .. } => format!("recording {} with other contents", id.iteration(*index)),
        EventBody::Annotated { index, .. } => format!("annotating {} with other contents", id.iteration(*index)),
        body => format!("{:?} in {id}", body.kind().as_str()),
    }
}

/// One line, not too long, never empty.
fn name(text: &str) -> String {
    let mut name: String = text.chars().filter(|c| !c.is_control()).collect();
    fit::clip(&mut name, ACTOR_BYTES);
    if name.trim().is_empty() { "unknown".to_owned() } else { name }
}

/// Returns 128 random bits of the system in hexadecimal digits.
fn fresh_key() -> Result<String, Error> {
    let mut bits = [0; 16];
    getrandom::fill(&mut bits).map_err(|error| {
        let hint = "pass an idempotency key of your own";
        Error::new(ErrorKind::Internal, "the system has no random numbers for an idempotency key", hint)
            .caused_by(error)
    })?;
    Ok(format!("{:032x}", u128::from_be_bytes(bits)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_do_not_repeat() {
        let keys: std::collections::HashSet<String> = (0..10_000).map(|_| fresh_key().unwrap()).collect();
        assert_eq!(keys.len(), 10_000);
        assert!(keys.iter().all(|key| key.len() == 32));
    }

    #[test]
    fn an_actor_is_one_short_line() {
        assert_eq!(name("claude\n\u{1b}[31m 1.0"), "claude[31m 1.0");
        assert_eq!(name(" "), "unknown");
        assert!(name(&"x".repeat(10_000)).len() <= ACTOR_BYTES);
    }
}
