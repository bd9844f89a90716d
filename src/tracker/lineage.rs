//! Walking from iteration to parent, through any number of sessions, and reading what lies on the way.
//!
//! A session is read once and without its large parameters; those are read one iteration at a time, and only as long as
//! all of them together stay moderate, since the workflows of a long session can be larger than memory.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use crate::model::{Event, EventBody, IterationId, IterationState, Recipe, RecipeDiff, Session, SessionId};
use crate::store::Detail;

use super::{Error, Tracker, fit};

/// The sessions that were read on the way.
pub(super) struct Lineage<'a> {
    tracker: &'a Tracker,
    /// None for one that is not there, or whose iterations are all lost.
    sessions: HashMap<SessionId, Option<Read>>,
    recipes: HashMap<IterationId, Rc<Recipe>>,
    bytes_left: usize,
}

/// A session that was read.
struct Read {
    session: Session,
    /// The places of iterations in the session's chain.
    places: HashMap<u32, u32>,
}

/// The most sessions that one walk reads.
const MOST_SESSIONS: usize = 64;
/// The most iterations that one walk passes.
const MOST_STEPS: usize = 20_000;
/// The most bytes of recipes that one walk compares.
const MOST_RECIPE_BYTES: usize = 64 << 20;
/// How much longer it takes to compare a byte of a prompt than one of a workflow.
const PROMPT_FACTOR: usize = 32;

impl<'a> Lineage<'a> {
    /// Nothing read yet.
    pub(super) fn new(tracker: &'a Tracker) -> Lineage<'a> {
        Lineage { tracker, sessions: HashMap::new(), recipes: HashMap::new(), bytes_left: MOST_RECIPE_BYTES }
    }

    /// A session, without the large parameters of its iterations; none when there is nothing of it.
    pub(super) fn session(&mut self, id: SessionId) -> Result<Option<&Session>, Error> {
        Ok(self.read(id)?.map(|read| &read.session))
    }

    /// An iteration, without its large parameters; none when it was lost.
    pub(super) fn state(&mut self, id: IterationId) -> Result<Option<&IterationState>, Error> {
        Ok(self.session(id.session)?.and_then(|session| session.iterations.get(&id.index)))
    }

    /// The iterations from this one back to where it all began, this one first.
    pub(super) fn line(&mut self, from: IterationId) -> Result<Vec<IterationId>, Error> {
        let mut line = vec![from];
        let mut passed = HashSet::from([from]);
        let mut at = from;
        while let Some(parent) = self.state(at)?.and_then(|state| state.iteration.parent) {
            // What was imported from a damaged export may lead round in a circle.
            if line.len() >= MOST_STEPS || !passed.insert(parent) {
                break;
            }
            line.push(parent);
            at = parent;
        }
        Ok(line)
    }

    /// What changed from one iteration to another; none when either was lost, or when enough was compared already.
    pub(super) fn changes(&mut self, old: IterationId, new: IterationId) -> Result<Option<RecipeDiff>, Error> {
        let (Some(old), Some(new)) = (self.recipe(old)?, self.recipe(new)?) else { return Ok(None) };
        Ok(Some(RecipeDiff::between(&old, &new)))
    }

    /// A recipe whole; none when it was lost, or when enough was read already.
    pub(super) fn recipe(&mut self, id: IterationId) -> Result<Option<Rc<Recipe>>, Error> {
        if let Some(recipe) = self.recipes.get(&id) {
            return Ok(Some(Rc::clone(recipe)));
        }
        let place = self.read(id.session)?.and_then(|read| read.places.get(&id.index).copied());
        let Some(place) = place.filter(|_| self.bytes_left > 0) else { return Ok(None) };
        let Some(Event { body: EventBody::Recorded { iteration, .. }, .. }) =
            self.tracker.log.event(id.session, place, Detail::Full)?
        else {
            return Ok(None);
        };
        let recipe = iteration.recipe;
        let prompts = [Some(&recipe.prompt), recipe.prompt_sent.as_ref(), recipe.negative_prompt.as_ref()];
        let prompts: usize = prompts.into_iter().flatten().map(String::len).sum();
        self.bytes_left = self.bytes_left.saturating_sub(fit::json_bytes(&recipe) + PROMPT_FACTOR * prompts);
        let recipe = Rc::new(recipe);
        self.recipes.insert(id, Rc::clone(&recipe));
        Ok(Some(recipe))
    }

    fn read(&mut self, id: SessionId) -> Result<Option<&Read>, Error> {
        if !self.sessions.contains_key(&id) {
            let read = if self.sessions.len() < MOST_SESSIONS { self.read_now(id)? } else { None };
            self.sessions.insert(id, read);
        }
        Ok(self.sessions.get(&id).and_then(Option::as_ref))
    }

    fn read_now(&self, id: SessionId) -> Result<Option<Read>, Error> {
        let events = self.tracker.log.events(id, Detail::Brief)?;
        let places = events.iter().filter_map(|event| match event.body {
            EventBody::Recorded { index, .. } => Some((index, event.seq)),
            _ => None,
        });
        let places = places.collect();
        Ok(Session::fold(events).map(|session| Read { session, places }))
    }
}
