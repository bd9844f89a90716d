//! The history of work: each iteration as a step from its parent.

use crate::model::{IterationId, IterationState, OutcomeStatus, Recipe, StepLabel};

use super::lineage::Lineage;
use super::{Error, Workspace};

/// An iteration as a step from its parent.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The iteration.
    pub id: IterationId,
    /// The iteration with its annotation, without large parameters.
    pub state: IterationState,
    /// The kind of step; `None` at the beginning, or if the parent could not be compared.
    pub label: Option<StepLabel>,
    /// The changes in one line; at the beginning, the prompt.
    pub summary: String,
    /// The number of unannotated rerolls after this step, which are not listed as separate steps.
    pub rerolls: u32,
}

impl Workspace {
    /// Returns these iterations as steps from their parents. Lost iterations are left out.
    pub fn steps(&self, ids: impl IntoIterator<Item = IterationId>) -> Result<Vec<Step>, Error> {
        let mut lineage = Lineage::new(self);
        let steps = ids.into_iter().map(|id| lineage.step(id));
        steps.filter_map(Result::transpose).collect()
    }
}

impl Workspace {
    /// Returns how an iteration was made: the last `limit` steps of its ancestry, oldest first and ending with itself,
    /// and the number of earlier ones.
    pub fn ancestry(&self, id: IterationId, limit: usize) -> Result<(Vec<Step>, usize), Error> {
        let mut lineage = Lineage::new(self);
        let line = lineage.line(id)?;
        let steps = line.iter().take(limit).map(|id| lineage.step(*id));
        let mut steps: Vec<Step> = steps.filter_map(Result::transpose).collect::<Result<_, Error>>()?;
        steps.reverse();
        Ok((steps, line.len().saturating_sub(limit)))
    }
}

impl Lineage<'_> {
    /// Returns an iteration as a step from its parent; `None` if it was lost.
    pub(crate) fn step(&mut self, id: IterationId) -> Result<Option<Step>, Error> {
        let Some(state) = self.state(id)?.cloned() else { return Ok(None) };
        let (label, summary) = match state.iteration.parent {
            None => (None, state.iteration.recipe.prompt.clone()),
            Some(parent) => match self.changes(parent, id)? {
                Some(changes) => {
                    let old = self.state(parent)?.map(|old| (&old.iteration.recipe, image_size(old)));
                    let new = (&state.iteration.recipe, image_size(&state));
                    let label = old.map_or(changes.label, |old| step_label(changes.label, old, new));
                    (Some(label), changes.summary)
                }
                None => {
                    let name =
                        if parent.session == id.session { format!("#{}", parent.index) } else { parent.to_string() };
                    let why = if self.state(parent)?.is_none() { "lost" } else { "not compared" };
                    (None, format!("from {name}, which was {why}"))
                }
            },
        };
        Ok(Some(Step { id, state, label, summary, rerolls: 0 }))
    }
}

/// The minimum factor of an upscale; below it is a crop.
const MIN_UPSCALE: f64 = 1.2;

/// Returns the label of a step from its recipes and the sizes of its images. Tools that only enlarge an image often
/// leave the recipe unchanged, so that only the size tells.
pub(crate) fn step_label(
    label: StepLabel,
    (old, old_size): (&Recipe, Option<(u32, u32)>),
    (new, new_size): (&Recipe, Option<(u32, u32)>),
) -> StepLabel {
    let same_idea = matches!(label, StepLabel::Reroll | StepLabel::Tweak) && old.seed.is_some() && old.seed == new.seed;
    let (Some((w0, h0)), Some((w1, h1))) = (old_size, new_size) else { return label };
    let scale = f64::from(w1) / f64::from(w0.max(1));
    // Sizes are multiples of eight, so the same aspect ratio may be off by a few pixels.
    let same_shape = (f64::from(h0) * scale - f64::from(h1)).abs() <= 8.0;
    if same_idea && scale >= MIN_UPSCALE && same_shape { StepLabel::Refine } else { label }
}

fn image_size(state: &IterationState) -> Option<(u32, u32)> {
    state.iteration.images.first().and_then(|image| image.width.zip(image.height))
}

impl Step {
    /// Returns the outcome if the attempt did not succeed.
    pub fn failure(&self) -> Option<OutcomeStatus> {
        Some(self.state.iteration.outcome.status).filter(|status| *status != OutcomeStatus::Succeeded)
    }

    /// Returns whether it is a reroll without an annotation.
    pub(crate) fn is_mere_reroll(&self) -> bool {
        self.label == Some(StepLabel::Reroll) && !self.is_annotated()
    }

    /// Returns whether it has a rating, tags or a note.
    pub(crate) fn is_annotated(&self) -> bool {
        let annotation = &self.state.annotation;
        annotation.rating.is_some() || !annotation.tags.is_empty() || annotation.note.is_some()
    }
}
