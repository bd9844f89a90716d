//! Resuming: everything needed to continue a session days later: the last recipe, its history, what was liked, and open
//! branches.

use std::collections::HashSet;

use crate::model::{Annotation, IterationId, IterationState, Reference, SessionChoice, SessionId, StepLabel, Summary};
use crate::model::{Position, diff};

use super::lineage::Lineage;
use super::story::Step;
use super::{Error, Workspace};

/// Everything needed to continue from an iteration.
#[derive(Debug)]
pub struct Resumption {
    /// The iteration to continue from.
    pub id: IterationId,
    /// The iteration with its whole recipe.
    pub state: IterationState,
    /// Its session.
    pub session: Summary,
    /// The steps from the beginning to this iteration, oldest first, across sessions.
    pub story: Vec<Step>,
    /// A summary of the steps before those, if there are more.
    pub earlier: Option<Earlier>,
    /// The best rated iterations of the session and of the story, best first.
    pub liked: Vec<Liked>,
    /// The ends of other lines in this session, newest first.
    pub branches: Vec<Branch>,
    /// Iterations of other sessions that continue from this one or from the end of a branch.
    pub continued_in: Vec<IterationId>,
}

/// Steps that are too far back to be listed one by one.
#[derive(Clone, Debug, PartialEq)]
pub struct Earlier {
    /// The number of iterations.
    pub iterations: u32,
    /// The first of them.
    pub first: IterationId,
    /// The prompt of the first, unless it was lost.
    pub first_prompt: Option<String>,
    /// What changed from the first to the first listed step, in one line.
    pub summary: Option<String>,
}

/// A highly rated or annotated iteration.
#[derive(Clone, Debug, PartialEq)]
pub struct Liked {
    /// The iteration.
    pub id: IterationId,
    /// Its annotation.
    pub annotation: Annotation,
    /// The kind of step from it to the iteration to continue from, and the changes in one line.
    pub since: Option<(StepLabel, String)>,
}

/// The end of a line other than the one to continue.
#[derive(Clone, Debug, PartialEq)]
pub struct Branch {
    /// Its last step.
    pub end: Step,
    /// The iteration of the story that it branches off from, if any.
    pub fork: Option<IterationId>,
    /// The number of steps since the fork.
    pub steps: u32,
}

impl Workspace {
    /// Returns everything needed to continue from a reference, or by default from the last iteration of the most recent
    /// active session.
    pub fn resume(&self, from: Option<Reference>) -> Result<Resumption, Error> {
        let id = self.starting_point(from)?;
        let state = self.state(id)?;
        let mut lineage = Lineage::new(self);
        let line = lineage.line(id)?;
        let (story, earlier) = steps_of(&mut lineage, &line)?;
        let branches = branches(&mut lineage, &line)?;
        Ok(Resumption {
            id,
            session: self.summary(id.session)?,
            story,
            earlier,
            liked: liked(&mut lineage, &line)?,
            continued_in: self.continued_elsewhere(id, &branches)?,
            branches,
            state,
        })
    }

    /// Returns the iteration to continue from. For a session, this is the last surviving one.
    fn starting_point(&self, from: Option<Reference>) -> Result<IterationId, Error> {
        let last_left = |session: SessionId| -> Result<IterationId, Error> {
            let loaded = self.load_session(session)?;
            let last = loaded.iterations.last_key_value().map(|(index, _)| session.iteration(*index));
            last.ok_or(Error::SessionLost(session))
        };
        match from {
            Some(Reference { session: SessionChoice::Id(session), position: Position::Unsaid, image: None }) => {
                self.summary(session)?;
                last_left(session)
            }
            Some(reference) => self.resolve(reference),
            None => last_left(self.most_recent_active()?.id),
        }
    }

    /// Returns the iterations of other sessions that continue from here or from a branch.
    fn continued_elsewhere(&self, id: IterationId, branches: &[Branch]) -> Result<Vec<IterationId>, Error> {
        let mut found = Vec::new();
        for at in [id].into_iter().chain(branches.iter().map(|branch| branch.end.id)) {
            found.extend(self.log.children(at)?.into_iter().filter(|child| child.session != id.session));
        }
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }
}

/// The maximum number of steps listed.
const MAX_STEPS: usize = 40;
/// The maximum number of iterations examined for them.
const MAX_EXAMINED: usize = 500;
/// The maximum number of liked iterations.
const MAX_LIKED: usize = 6;
/// The maximum number of branches.
const MAX_BRANCHES: usize = 8;
/// The lowest rating of a liked iteration.
const LIKED_RATING: u8 = 4;

/// Returns the steps of a line, oldest first, with unannotated rerolls folded into the step before them, and a summary
/// of what precedes them.
fn steps_of(lineage: &mut Lineage<'_>, line: &[IterationId]) -> Result<(Vec<Step>, Option<Earlier>), Error> {
    let mut steps: Vec<Step> = Vec::new();
    let mut listed = 0;
    let mut rerolls: u32 = 0;
    for (at, id) in line.iter().take(MAX_EXAMINED).enumerate() {
        if steps.len() >= MAX_STEPS {
            break;
        }
        listed = at + 1;
        let Some(mut step) = lineage.step(*id)? else { continue };
        // The first in line is where the work continues, so it is always listed.
        if at > 0 && step.is_mere_reroll() {
            rerolls += 1;
            continue;
        }
        step.rerolls = std::mem::take(&mut rerolls);
        steps.push(step);
    }
    // Rerolls of an unlisted step are not listed either.
    listed -= usize::try_from(rerolls).unwrap_or(0).min(listed);
    steps.reverse();
    let Some(first) = line.last().filter(|_| listed < line.len()) else { return Ok((steps, None)) };
    let summary = match steps.first() {
        Some(step) => lineage.changes(*first, step.id)?.map(|changes| changes.summary),
        None => None,
    };
    let first_prompt = lineage.state(*first)?.map(|state| state.iteration.recipe.prompt.clone());
    let iterations = u32::try_from(line.len() - listed).unwrap_or(u32::MAX);
    Ok((steps, Some(Earlier { iterations, first: *first, first_prompt, summary })))
}

/// Returns the liked iterations of the session and of the line.
fn liked(lineage: &mut Lineage<'_>, line: &[IterationId]) -> Result<Vec<Liked>, Error> {
    let Some(here) = line.first().copied() else { return Ok(Vec::new()) };
    let mut found: Vec<(IterationId, Annotation)> = Vec::new();
    let mut note = |id: IterationId, state: &IterationState| {
        let it = &state.annotation;
        if it.rating.map_or(!it.tags.is_empty() || it.note.is_some(), |rating| rating >= LIKED_RATING) {
            found.push((id, it.clone()));
        }
    };
    if let Some(session) = lineage.session(here.session)? {
        session.iterations.iter().for_each(|(index, state)| note(here.session.iteration(*index), state));
    }
    for id in line.iter().filter(|id| id.session != here.session) {
        if let Some(state) = lineage.state(*id)? {
            note(*id, state);
        }
    }
    // Rated ones first, then newer ones first.
    found.sort_by(|(one, of_one), (other, of_other)| of_other.rating.cmp(&of_one.rating).then_with(|| other.cmp(one)));
    let mut liked = Vec::new();
    for (id, annotation) in found.into_iter().take(MAX_LIKED) {
        let changes: Option<diff::RecipeDiff> = if id == here { None } else { lineage.changes(id, here)? };
        liked.push(Liked { id, annotation, since: changes.map(|changes| (changes.label, changes.summary)) });
    }
    Ok(liked)
}

/// Returns the ends of the other lines in the session.
fn branches(lineage: &mut Lineage<'_>, line: &[IterationId]) -> Result<Vec<Branch>, Error> {
    let Some(here) = line.first().copied() else { return Ok(Vec::new()) };
    let Some(session) = lineage.session(here.session)? else { return Ok(Vec::new()) };
    let continued: HashSet<IterationId> =
        session.iterations.values().filter_map(|state| state.iteration.parent).chain(line.iter().copied()).collect();
    let ends: Vec<IterationId> = session
        .iterations
        .keys()
        .rev()
        .map(|index| here.session.iteration(*index))
        .filter(|id| !continued.contains(id))
        .take(MAX_BRANCHES)
        .collect();
    let story: HashSet<IterationId> = line.iter().copied().collect();
    let mut branches = Vec::new();
    for id in ends {
        let Some(end) = lineage.step(id)? else { continue };
        let back = lineage.line(id)?;
        let steps = back.iter().position(|at| story.contains(at));
        branches.push(Branch {
            end,
            fork: steps.and_then(|at| back.get(at).copied()),
            steps: u32::try_from(steps.unwrap_or(back.len())).unwrap_or(u32::MAX),
        });
    }
    Ok(branches)
}
