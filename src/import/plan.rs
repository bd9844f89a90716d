//! Builds the part of the report that describes sessions with new iterations, and each iteration of a dry run.

use crate::model::diff::{RecipeDiff, StepLabel};
use crate::model::{Iteration, IterationId};
use crate::workspace::{step_label, truncate};

use super::inspect::{ImageFacts, InspectedImage};
use super::intake::Intake;
use super::lineage::{Origin, RunPlace};
use super::runs::Group;
use super::sessions::TargetSession;
use super::{ImportedSession, PlannedIteration};

/// The maximum size of a prompt in a plan.
const SHOWN_PROMPT_BYTES: usize = 200;

impl Intake<'_> {
    /// Returns the place of the next iteration of a dry run.
    pub(super) fn plan_place(&mut self, target: &mut TargetSession) -> RunPlace {
        match target.session {
            Some(id) => RunPlace::Recorded(id.iteration(target.next_index)),
            None => {
                let number = *target.new.get_or_insert_with(|| {
                    self.planned_sessions += 1;
                    self.planned_sessions - 1
                });
                RunPlace::Planned(number, target.next_index)
            }
        }
    }

    /// Adds an iteration to the description of its session.
    pub(super) fn describe(
        &mut self,
        target: &mut TargetSession,
        group: &Group,
        place: RunPlace,
        iteration: &Iteration,
        (facts, origin, files, title): (&ImageFacts, &Origin, &[&InspectedImage], Option<String>),
    ) {
        let at = iteration.created_at;
        let planned = self.request.dry_run.then(|| self.planned(place, iteration, (facts, origin, files)));
        let (session_id, new) = (target.session, target.new);
        let is_first = matches!(place, RunPlace::Planned(_, 0) | RunPlace::Recorded(IterationId { index: 0, .. }));
        let view = target.view.get_or_insert_with(|| ImportedSession {
            session_id,
            new_number: new.map(|number| number as u64 + 1),
            title: title.filter(|_| is_first),
            folder: group.root.display().to_string(),
            begins: group.cut.clone(),
            from: at,
            to: at,
            iterations: 0,
            images: 0,
            plan: Vec::new(),
        });
        view.session_id = view.session_id.or(session_id);
        (view.from, view.to) = (view.from.min(at), view.to.max(at));
        view.iterations += 1;
        view.images += iteration.images.len() as u64;
        if let Some(planned) = planned {
            view.plan.push(planned);
            if let Some(first) = files.first() {
                self.planned_files.insert(place, first.path.clone());
            }
        }
    }

    fn planned(
        &self,
        place: RunPlace,
        iteration: &Iteration,
        (facts, origin, files): (&ImageFacts, &Origin, &[&InspectedImage]),
    ) -> PlannedIteration {
        let index = match place {
            RunPlace::Recorded(id) => id.index,
            RunPlace::Planned(_, index) => index,
        };
        let text = |place: &Option<(RunPlace, String)>| place.as_ref().map(|(place, _)| place.to_string());
        let reason = |place: &Option<(RunPlace, String)>| place.as_ref().map(|(_, reason)| reason.clone());
        let mut shown_prompt = iteration.recipe.prompt.clone();
        truncate(&mut shown_prompt, SHOWN_PROMPT_BYTES);
        PlannedIteration {
            index,
            timestamp: iteration.created_at,
            prompt: shown_prompt,
            generator: facts.generator.map(|generator| generator.name().to_owned()),
            line: origin.line as u64,
            label: origin.parent.as_ref().and_then(|(parent, _)| self.label(*parent, iteration)),
            parent: text(&origin.parent),
            parent_reason: reason(&origin.parent),
            likely_parent: text(&origin.likely),
            likely_reason: reason(&origin.likely),
            files: files.iter().map(|file| file.path.display().to_string()).collect(),
        }
    }

    /// Returns the label of the step from a parent, as the session's story will show it.
    fn label(&self, parent: RunPlace, iteration: &Iteration) -> Option<StepLabel> {
        let old = self.whole_recipe(parent).ok()??;
        let label = RecipeDiff::between(&old, &iteration.recipe).label;
        let size = iteration.images.first().and_then(|image| image.width.zip(image.height));
        Some(step_label(label, (&old, self.lineage.size(parent)), (&iteration.recipe, size)))
    }
}
