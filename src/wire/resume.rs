//! `resume-session`: returns everything an agent or a person needs to continue a session days later.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::{IterationId, IterationState, SessionId, StepLabel, Timestamp};
use crate::workspace::{Branch, Earlier, Liked};

use super::limits::{self, DEFAULT_REPLY_BYTES, Limits, Truncator};
use super::story::StoryStep;
use super::{AnnotationView, Api, Error, ImageView, OutcomeView, RecipeView, SessionRow, parse_reference};

/// What to continue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResumeRequest {
    /// A session's id to continue from its last iteration, or an iteration such as `session-2025-12-11-001#3` to continue
    /// from that one. By default the last iteration of the most recent active session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
}

/// Everything needed to continue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResumeView {
    /// The iteration to continue from.
    pub reference: IterationId,
    /// The row of its session.
    pub session: SessionRow,
    /// Its recipe, in the fields that `record-iteration` takes.
    pub recipe: RecipeView,
    /// What to send besides the recipe with `record-iteration` to continue from here.
    pub next: NextStep,
    /// Its outcome.
    pub outcome: OutcomeView,
    /// Its rating, tags and note.
    pub annotations: AnnotationView,
    /// Its images.
    pub images: Vec<ImageView>,
    /// When the image was made (UTC).
    pub timestamp: Timestamp,
    /// How it came to be: the steps from the beginning to this iteration, oldest first, also through other sessions.
    pub story: Vec<StoryStep>,
    /// The steps before those, in brief, if there are more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub earlier: Option<EarlierSteps>,
    /// The best rated iterations of the session and of the story, best first.
    pub liked: Vec<LikedIteration>,
    /// The ends of other lines in this session, newest first.
    pub branches: Vec<OpenBranch>,
    /// Iterations of other sessions that continue from this one or from the end of a branch.
    pub continued_in: Vec<IterationId>,
    /// The fields that were truncated to keep this reply small.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub truncated: Vec<String>,
}

/// What to send besides a recipe to continue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NextStep {
    /// The session to add to; absent if it is archived: restore it, or start a new session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// The iteration that it is derived from.
    pub parent: IterationId,
    /// The number of iterations in the session, so that nothing another client adds is overlooked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_iteration_count: Option<u32>,
}

/// Steps that are too far back to be listed one by one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EarlierSteps {
    /// The number of iterations.
    pub iterations: u32,
    /// The first of them.
    pub first: IterationId,
    /// The prompt of the first, truncated if it is long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_prompt: Option<String>,
    /// What changed from there to the first listed step, in one line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
}

/// An iteration that was rated or annotated well.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LikedIteration {
    /// The iteration.
    pub reference: IterationId,
    /// Its rating, tags and note.
    #[serde(flatten)]
    pub annotations: AnnotationView,
    /// The kind of step from it to the iteration to continue from; absent for that one itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<StepLabel>,
    /// What changed since, in one line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
}

/// The end of a line other than the one to continue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OpenBranch {
    /// Its last step.
    #[serde(flatten)]
    pub end: StoryStep,
    /// The iteration of the story that it branches off from, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fork: Option<IterationId>,
    /// The number of steps since the fork.
    pub steps: u32,
}

impl Api<'_> {
    /// Returns everything needed to continue from an iteration.
    pub fn resume(&self, request: &ResumeRequest) -> Result<ResumeView, Error> {
        let from = request.reference.as_deref().map(parse_reference).transpose()?;
        let found = self.workspace.resume(from)?;
        let (id, open) = (found.id, !found.session.archived);
        let IterationState { iteration, annotation, .. } = found.state;
        let mut view = ResumeView {
            reference: id,
            next: NextStep {
                session_id: open.then_some(id.session),
                parent: id,
                expected_iteration_count: open.then(|| found.session.iteration_count()),
            },
            session: self.row(&found.session)?,
            images: self.image_views(id, &iteration.images),
            timestamp: iteration.created_at,
            recipe: RecipeView { recipe: iteration.recipe, parameters_omitted_bytes: None },
            outcome: iteration.outcome.into(),
            annotations: annotation.into(),
            story: found.story.iter().map(StoryStep::from).collect(),
            earlier: found.earlier.map(EarlierSteps::from),
            liked: found.liked.into_iter().map(LikedIteration::from).collect(),
            continued_in: found.continued_in,
            branches: found.branches.iter().map(OpenBranch::from).collect(),
            truncated: Vec::new(),
        };
        view.fit(self.reply_bytes);
        Ok(view)
    }
}

/// The size above which the story is shortened, unless the caller raises the reply limit.
const STORY_BYTES: usize = 7500;
/// The maximum size of the first prompt where it is only mentioned.
const FIRST_PROMPT_BYTES: usize = 600;
/// The limits of annotations where they are only mentioned.
const LIKED_LIMITS: Limits = Limits { text: 400, name: 100, list: 8 };

impl From<Earlier> for EarlierSteps {
    fn from(earlier: Earlier) -> EarlierSteps {
        let Earlier { iterations, first, first_prompt, summary } = earlier;
        let first_prompt = first_prompt.map(|mut prompt| {
            limits::clip(&mut prompt, FIRST_PROMPT_BYTES);
            prompt
        });
        EarlierSteps { iterations, first, first_prompt, summary }
    }
}

impl From<Liked> for LikedIteration {
    fn from(liked: Liked) -> LikedIteration {
        let mut annotations = AnnotationView::from(liked.annotation);
        annotations.cut("", &LIKED_LIMITS, &mut Vec::new());
        let (label, since) = liked.since.unzip();
        LikedIteration { reference: liked.id, annotations, label, since }
    }
}

impl From<&Branch> for OpenBranch {
    fn from(branch: &Branch) -> OpenBranch {
        OpenBranch { end: StoryStep::from(&branch.end), fork: branch.fork, steps: branch.steps }
    }
}

impl ResumeView {
    /// Keeps less and less until the reply fits; the recipe is truncated last.
    fn fit(&mut self, reply_bytes: usize) {
        // What an agent reads first should be cheap; a caller that wants the whole story raises the limit.
        let wanted = if reply_bytes <= DEFAULT_REPLY_BYTES { STORY_BYTES } else { reply_bytes };
        for few in [20, 12, 8, 6] {
            if self.fits(wanted) {
                return;
            }
            self.shorten_story(few);
            let mut cut = Truncator { truncated: &mut self.truncated };
            cut.list("liked", &mut self.liked, few / 2);
            cut.list("branches", &mut self.branches, few / 2);
            cut.list("continuedIn", &mut self.continued_in, few);
        }
        if !self.fits(reply_bytes) {
            self.shorten_story(4);
        }
        if !self.fits(reply_bytes) {
            self.recipe.omit_large_parameters();
        }
        for (step, limits) in Limits::STEPS.iter().enumerate() {
            if self.fits(reply_bytes) {
                return;
            }
            if step == 2 {
                self.recipe.omit_parameters();
            }
            self.recipe.cut("recipe.", limits, &mut self.truncated);
            self.annotations.cut("annotations.", limits, &mut self.truncated);
            let mut cut = Truncator { truncated: &mut self.truncated };
            cut.text("outcome.message", self.outcome.message.as_mut(), limits.text);
            cut.list("images", &mut self.images, limits.list);
        }
    }

    /// Keeps the last `few` steps and counts the others as earlier ones.
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
        // The summary described another span.
        earlier.summary = None;
    }

    fn fits(&self, reply_bytes: usize) -> bool {
        limits::json_bytes(self) <= reply_bytes
    }
}
