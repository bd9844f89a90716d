//! How work went: each iteration as a step from the one it was derived from.

use crate::model::{IterationId, IterationState, OutcomeStatus, StepLabel};

use super::lineage::Lineage;
use super::{Error, Workspace};

/// An iteration as a step from its parent.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The iteration.
    pub id: IterationId,
    /// The iteration with its annotation, without large parameters.
    pub state: IterationState,
    /// The kind of the step; `None` at the beginning, or if the parent could not be compared.
    pub label: Option<StepLabel>,
    /// What changed, in one line; at the beginning the prompt.
    pub summary: String,
    /// The number of rerolls that followed without an annotation and are not steps of their own here.
    pub rerolls: u32,
}

impl Workspace {
    /// Returns these iterations, each as a step from its parent. Those that were lost are left out.
    pub fn steps(&self, ids: impl IntoIterator<Item = IterationId>) -> Result<Vec<Step>, Error> {
        let mut lineage = Lineage::new(self);
        let steps = ids.into_iter().map(|id| lineage.step(id));
        steps.filter_map(Result::transpose).collect()
    }
}

impl Lineage<'_> {
    /// Returns an iteration as a step from its parent; `None` if it was lost.
    pub(crate) fn step(&mut self, id: IterationId) -> Result<Option<Step>, Error> {
        let Some(state) = self.state(id)?.cloned() else { return Ok(None) };
        let (label, summary) = match state.iteration.parent {
            None => (None, state.iteration.recipe.prompt.clone()),
            Some(parent) => match self.changes(parent, id)? {
                Some(changes) => (Some(changes.label), changes.summary),
                None => (None, format!("from {parent}, which was not compared")),
            },
        };
        Ok(Some(Step { id, state, label, summary, rerolls: 0 }))
    }
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
