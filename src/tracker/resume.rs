//! `resume`: all it takes to go on with a session days later: the last recipe whole, how it came to be, what was liked,
//! and what was left open.

use std::collections::HashSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::{IterationId, IterationState, Refusal, SessionId, StepLabel, Timestamp};
use crate::store::{Order, Status};

use super::fit::{self, Cuts, Cutting, MAX_ANSWER_BYTES};
use super::lineage::Lineage;
use super::story::StoryStep;
use super::{AnnotationView, Error, ErrorKind, ImageView, OutcomeView, RecipeView, SessionRow, Tracker};

/// What to go on with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResumeRequest {
    /// A session's id to go on from its last iteration, or an iteration such as `session-2025-12-11-001#3` to go on from
    /// that one. By default the last iteration of the most recent session that is not archived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
}

/// All it takes to go on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResumeView {
    /// The iteration to go on from.
    pub reference: IterationId,
    /// The row of its session.
    pub session: SessionRow,
    /// Its recipe, in the fields that `record-iteration` takes.
    pub recipe: RecipeView,
    /// What to send beside the recipe with `record-iteration` to go on from here.
    pub next: NextStep,
    /// What came of it.
    pub outcome: OutcomeView,
    /// What was said of it.
    pub annotations: AnnotationView,
    /// Its pictures.
    pub images: Vec<ImageView>,
    /// When the picture was made (UTC).
    pub timestamp: Timestamp,
    /// How it came to be: the steps from the beginning to this iteration, oldest first, also through other sessions.
    pub story: Vec<StoryStep>,
    /// The steps before those, in brief, when there are more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub earlier: Option<EarlierSteps>,
    /// The best rated iterations of the session and of the story, best first, with what the person said.
    pub liked: Vec<LikedIteration>,
    /// The ends of other lines in this session, newest first: what was tried and left.
    pub branches: Vec<OpenBranch>,
    /// Iterations of other sessions that go on from this one or from the end of a branch.
    pub continued_in: Vec<IterationId>,
    /// The fields that were cut short to keep this answer small.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub truncated: Vec<String>,
}

/// What to send beside a recipe to go on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NextStep {
    /// The session to add to; absent when it is archived: restore it, or leave this out to start a new session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// The iteration it comes from.
    pub parent: IterationId,
    /// How many iterations the session has, so that nothing another client adds is overlooked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_iteration_count: Option<u32>,
}

/// Steps that are too long ago to be told one by one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EarlierSteps {
    /// How many iterations.
    pub iterations: u32,
    /// Where it all began.
    pub first: IterationId,
    /// The prompt it began with, cut short when it is long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_prompt: Option<String>,
    /// What changed from there to the first step told, in one line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
}

/// An iteration that somebody liked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LikedIteration {
    /// The iteration.
    pub reference: IterationId,
    /// What was said of it.
    #[serde(flatten)]
    pub annotations: AnnotationView,
    /// What kind of step leads from it to the iteration to go on from; absent for that one itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<StepLabel>,
    /// What changed since, in one line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
}

/// The end of a line that is not the one gone on with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OpenBranch {
    /// Its last step.
    #[serde(flatten)]
    pub end: StoryStep,
    /// The iteration of the story that it branches off from; absent when it has none in common with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fork: Option<IterationId>,
    /// How many steps it has after that.
    pub steps: u32,
}

impl Tracker {
    /// All it takes to go on from an iteration.
    pub fn resume(&self, request: &ResumeRequest) -> Result<ResumeView, Error> {
        let id = self.point_of_return(request)?;
        let (id, state) = self.whole(&id.to_string())?;
        let IterationState { iteration, annotation, .. } = state;
        let session = SessionRow::new(&self.summary(id.session)?)?;
        let open = !session.archived();
        let mut lineage = Lineage::new(self);
        let line = lineage.line(id)?;
        let (story, earlier) = tell(&mut lineage, &line)?;
        let branches = branches(&mut lineage, &line)?;
        let mut view = ResumeView {
            reference: id,
            next: NextStep {
                session_id: open.then_some(id.session),
                parent: id,
                expected_iteration_count: open.then(|| session.iteration_count()),
            },
            session,
            recipe: RecipeView { recipe: iteration.recipe, parameters_omitted_bytes: None },
            outcome: iteration.outcome.into(),
            annotations: annotation.into(),
            images: self.image_views(id, &iteration.images),
            timestamp: iteration.created_at,
            story,
            earlier,
            liked: liked(&mut lineage, &line)?,
            continued_in: self.continued_elsewhere(id, &branches)?,
            branches,
            truncated: Vec::new(),
        };
        view.fit();
        Ok(view)
    }

    /// The iteration to go on from. Of a session it is the last one that is left, since damage may have taken the last.
    fn point_of_return(&self, request: &ResumeRequest) -> Result<IterationId, Error> {
        let last_left = |session: SessionId| -> Result<IterationId, Error> {
            let folded = self.folded(session)?;
            let last = folded.iterations.last_key_value().map(|(index, _)| session.iteration(*index));
            last.ok_or_else(|| Refusal::Gone(session).into())
        };
        if let Some(reference) = request.reference.as_deref() {
            return match reference.parse::<SessionId>() {
                Ok(session) => {
                    self.summary(session)?;
                    last_left(session)
                }
                Err(_) => self.resolve(reference),
            };
        }
        match self.log.page(Status::Active, Order::Recent, None, 1)?.first() {
            Some(summary) => last_left(summary.id),
            None if self.log.totals()?.sessions > 0 => Err(Error::new(
                ErrorKind::NotFound,
                "all sessions of the workspace are archived",
                "give a session or an iteration as reference, or restore one of the archived sessions",
            )),
            None => self.resolve("latest"),
        }
    }

    /// What other sessions made of it.
    fn continued_elsewhere(&self, id: IterationId, branches: &[OpenBranch]) -> Result<Vec<IterationId>, Error> {
        let mut found = Vec::new();
        for at in [id].into_iter().chain(branches.iter().map(|branch| branch.end.reference)) {
            found.extend(self.log.children(at)?.into_iter().filter(|child| child.session != id.session));
        }
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }
}

/// The most steps that are told one by one.
const MOST_STEPS: usize = 40;
/// The most iterations that are looked at to tell them.
const MOST_LOOKED_AT: usize = 500;
/// The most liked iterations.
const MOST_LIKED: usize = 6;
/// The most branches.
const MOST_BRANCHES: usize = 8;
/// What the first prompt may take where it is only mentioned.
const FIRST_PROMPT_BYTES: usize = 600;

/// The steps of a line, oldest first, with rerolls that nobody said anything of folded into the step before them; and
/// what is too long ago.
fn tell(lineage: &mut Lineage<'_>, line: &[IterationId]) -> Result<(Vec<StoryStep>, Option<EarlierSteps>), Error> {
    let mut steps: Vec<StoryStep> = Vec::new();
    let mut told = 0;
    let mut rerolls: u32 = 0;
    for (at, id) in line.iter().take(MOST_LOOKED_AT).enumerate() {
        if steps.len() >= MOST_STEPS {
            break;
        }
        told = at + 1;
        let Some(mut step) = lineage.step(*id)? else { continue };
        // The first in line is where one goes on from, so it is told however it came to be.
        if at > 0 && step.is_mere_reroll() {
            rerolls += 1;
            continue;
        }
        step.rerolls = std::mem::take(&mut rerolls);
        steps.push(step);
    }
    // Rerolls of a step that is too long ago are too.
    told -= usize::try_from(rerolls).unwrap_or(0).min(told);
    steps.reverse();
    let first = line.last().filter(|_| told < line.len());
    let Some(first) = first else { return Ok((steps, None)) };
    let since = match steps.first() {
        Some(step) => lineage.changes(*first, step.reference)?.map(|changes| changes.summary),
        None => None,
    };
    let prompt = lineage.state(*first)?.map(|state| {
        let prompt = &state.iteration.recipe.prompt;
        fit::clipped(prompt, FIRST_PROMPT_BYTES).unwrap_or_else(|| prompt.clone())
    });
    let iterations = u32::try_from(line.len() - told).unwrap_or(u32::MAX);
    Ok((steps, Some(EarlierSteps { iterations, first: *first, first_prompt: prompt, summary: since })))
}

/// What somebody liked in the session that is gone on with, and on the way there.
fn liked(lineage: &mut Lineage<'_>, line: &[IterationId]) -> Result<Vec<LikedIteration>, Error> {
    let Some(here) = line.first().copied() else { return Ok(Vec::new()) };
    let mut found: Vec<(IterationId, AnnotationView)> = Vec::new();
    let mut note = |id: IterationId, state: &IterationState| {
        let said = &state.annotation;
        let liked = said.rating.map_or(!said.tags.is_empty() || said.note.is_some(), |rating| rating >= LIKED_RATING);
        if liked {
            found.push((id, said.clone().into()));
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
    // What is rated counts before what is only noted, and the newer before the older.
    found.sort_by(|(one, said), (other, of_other)| of_other.rating.cmp(&said.rating).then_with(|| other.cmp(one)));
    let mut liked = Vec::new();
    for (id, mut annotations) in found.into_iter().take(MOST_LIKED) {
        annotations.cut("", &LIKED_CUTS, &mut Vec::new());
        let changes = if id == here { None } else { lineage.changes(id, here)? };
        let label = changes.as_ref().map(|changes| changes.label);
        liked.push(LikedIteration { reference: id, annotations, label, since: changes.map(|changes| changes.summary) });
    }
    Ok(liked)
}

/// From this rating on, it was liked.
const LIKED_RATING: u8 = 4;
/// What is shown of what was said.
const LIKED_CUTS: Cuts = Cuts { text: 400, name: 100, list: 8 };

/// The ends of lines of the session that is gone on with, other than the one gone on with.
fn branches(lineage: &mut Lineage<'_>, line: &[IterationId]) -> Result<Vec<OpenBranch>, Error> {
    let Some(here) = line.first().copied() else { return Ok(Vec::new()) };
    let Some(session) = lineage.session(here.session)? else { return Ok(Vec::new()) };
    let gone_on: HashSet<IterationId> =
        session.iterations.values().filter_map(|state| state.iteration.parent).chain(line.iter().copied()).collect();
    let ends: Vec<IterationId> = session
        .iterations
        .keys()
        .rev()
        .map(|index| here.session.iteration(*index))
        .filter(|id| !gone_on.contains(id))
        .take(MOST_BRANCHES)
        .collect();
    let story: HashSet<IterationId> = line.iter().copied().collect();
    let mut branches = Vec::new();
    for id in ends {
        let Some(end) = lineage.step(id)? else { continue };
        let back = lineage.line(id)?;
        let steps = back.iter().position(|at| story.contains(at));
        branches.push(OpenBranch {
            end,
            fork: steps.and_then(|at| back.get(at).copied()),
            steps: u32::try_from(steps.unwrap_or(back.len())).unwrap_or(u32::MAX),
        });
    }
    Ok(branches)
}

impl ResumeView {
    /// Leaves less and less until the answer fits: first what is furthest from going on, the recipe last.
    fn fit(&mut self) {
        for few in [20, 8] {
            if self.fits() {
                return;
            }
            self.shorten_story(few);
            let mut cut = Cutting { truncated: &mut self.truncated };
            cut.list("liked", &mut self.liked, few / 2);
            cut.list("branches", &mut self.branches, few / 2);
            cut.list("continuedIn", &mut self.continued_in, few);
        }
        if !self.fits() {
            self.recipe.omit_large_parameters();
        }
        for (step, cuts) in Cuts::STEPS.iter().enumerate() {
            if self.fits() {
                return;
            }
            if step == 2 {
                self.recipe.omit_parameters();
            }
            self.recipe.cut("recipe.", cuts, &mut self.truncated);
            self.annotations.cut("annotations.", cuts, &mut self.truncated);
            let mut cut = Cutting { truncated: &mut self.truncated };
            cut.text("outcome.message", self.outcome.message.as_mut(), cuts.text);
            cut.list("images", &mut self.images, cuts.list);
        }
    }

    /// Leaves so many steps, and counts the others among the earlier ones.
    fn shorten_story(&mut self, few: usize) {
        let older = self.story.len().saturating_sub(few);
        let dropped: Vec<StoryStep> = self.story.drain(..older).collect();
        let Some(first) = dropped.first() else { return };
        let earlier = self.earlier.get_or_insert(EarlierSteps {
            iterations: 0,
            first: first.reference,
            first_prompt: None,
            summary: None,
        });
        let iterations: u32 = dropped.iter().map(|step| step.rerolls.saturating_add(1)).sum();
        earlier.iterations = earlier.iterations.saturating_add(iterations);
        // It told of another stretch.
        earlier.summary = None;
    }

    fn fits(&self) -> bool {
        fit::json_bytes(self) <= MAX_ANSWER_BYTES
    }
}
