//! Walks from iterations to their parents, across sessions.
//!
//! Each session is read once, without large parameters. Those are read one iteration at a time and only up to a limit,
//! since the workflows of a long session can exceed memory.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use crate::model::{Event, EventBody, IterationId, IterationState, Recipe, RecipeDiff, Session, SessionId};
use crate::store::Detail;

use super::{Error, Workspace};

/// The sessions and recipes read during one walk.
pub(crate) struct Lineage<'a> {
    workspace: &'a Workspace,
    /// `None` for a session that does not exist or whose iterations are all lost.
    sessions: HashMap<SessionId, Option<Read>>,
    recipes: HashMap<IterationId, Rc<Recipe>>,
    bytes_left: usize,
}

/// A session that has been read.
struct Read {
    session: Session,
    /// The sequence numbers of its recordings, by index.
    places: HashMap<u32, u32>,
}

/// The maximum number of sessions that one walk reads.
const MAX_SESSIONS: usize = 64;
/// The maximum number of iterations that one walk visits.
const MAX_STEPS: usize = 20_000;
/// The maximum size of all recipes that one walk compares.
const MAX_RECIPE_BYTES: usize = 64 << 20;
/// The cost of comparing a byte of a prompt relative to a byte of a workflow.
const PROMPT_FACTOR: usize = 32;

impl<'a> Lineage<'a> {
    /// Creates a walk that has read nothing yet.
    pub(crate) fn new(workspace: &'a Workspace) -> Lineage<'a> {
        Lineage { workspace, sessions: HashMap::new(), recipes: HashMap::new(), bytes_left: MAX_RECIPE_BYTES }
    }

    /// Returns a session without large parameters; `None` if none of its iterations is left.
    pub(crate) fn session(&mut self, id: SessionId) -> Result<Option<&Session>, Error> {
        Ok(self.read(id)?.map(|read| &read.session))
    }

    /// Returns an iteration without large parameters; `None` if it was lost.
    pub(crate) fn state(&mut self, id: IterationId) -> Result<Option<&IterationState>, Error> {
        Ok(self.session(id.session)?.and_then(|session| session.iterations.get(&id.index)))
    }

    /// Returns the iterations from this one back to its first ancestor.
    pub(crate) fn line(&mut self, from: IterationId) -> Result<Vec<IterationId>, Error> {
        let mut line = vec![from];
        let mut passed = HashSet::from([from]);
        let mut at = from;
        while let Some(parent) = self.state(at)?.and_then(|state| state.iteration.parent) {
            // Imported lineage may contain a cycle.
            if line.len() >= MAX_STEPS || !passed.insert(parent) {
                break;
            }
            line.push(parent);
            at = parent;
        }
        Ok(line)
    }

    /// Compares two iterations; `None` if either was lost, or if the limit of this walk is reached.
    pub(crate) fn changes(&mut self, old: IterationId, new: IterationId) -> Result<Option<RecipeDiff>, Error> {
        let (Some(old), Some(new)) = (self.recipe(old)?, self.recipe(new)?) else { return Ok(None) };
        Ok(Some(RecipeDiff::between(&old, &new)))
    }

    /// Returns a full recipe; `None` if it was lost, or if the limit of this walk is reached.
    pub(crate) fn recipe(&mut self, id: IterationId) -> Result<Option<Rc<Recipe>>, Error> {
        if let Some(recipe) = self.recipes.get(&id) {
            return Ok(Some(Rc::clone(recipe)));
        }
        let place = self.read(id.session)?.and_then(|read| read.places.get(&id.index).copied());
        let Some(place) = place.filter(|_| self.bytes_left > 0) else { return Ok(None) };
        let Some(Event { body: EventBody::Recorded { iteration, .. }, .. }) =
            self.workspace.log.event(id.session, place, Detail::Full)?
        else {
            return Ok(None);
        };
        let recipe = iteration.recipe;
        let prompts = [Some(&recipe.prompt), recipe.prompt_sent.as_ref(), recipe.negative_prompt.as_ref()];
        let prompts: usize = prompts.into_iter().flatten().map(String::len).sum();
        self.bytes_left = self.bytes_left.saturating_sub(
            serde_json::to_vec(&recipe.parameters).map_or(0, |json| json.len()) + PROMPT_FACTOR * prompts,
        );
        let recipe = Rc::new(recipe);
        self.recipes.insert(id, Rc::clone(&recipe));
        Ok(Some(recipe))
    }

    fn read(&mut self, id: SessionId) -> Result<Option<&Read>, Error> {
        if !self.sessions.contains_key(&id) {
            let read = if self.sessions.len() < MAX_SESSIONS { self.read_now(id)? } else { None };
            self.sessions.insert(id, read);
        }
        Ok(self.sessions.get(&id).and_then(Option::as_ref))
    }

    fn read_now(&self, id: SessionId) -> Result<Option<Read>, Error> {
        let events = self.workspace.log.events(id, Detail::Brief)?;
        let places = events.iter().filter_map(|event| match event.body {
            EventBody::Recorded { index, .. } => Some((index, event.seq)),
            _ => None,
        });
        let places = places.collect();
        Ok(Session::fold(events).map(|session| Read { session, places }))
    }
}
