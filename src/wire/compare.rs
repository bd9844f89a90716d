//! `compare-iterations`: compares 2 to 12 iterations of any sessions.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::images::{Panel, Render, Rendering};
use crate::model::diff::{LoraRow, NodeChange, ParameterRow, PromptDiff};
use crate::model::{ExactReference, IterationId, IterationState, OutcomeStatus, RecipeDiff, StepLabel, Timestamp};
use crate::workspace;

use super::limits::{self, Limits, Truncator};
use super::{Api, Error, ImageView, VisualView};

/// What to compare.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CompareRequest {
    /// 2 to 12 iterations of any sessions, such as `session-2025-12-11-001#3`, or single images of them, such as
    /// `session-2025-12-11-001#3/1` for the second. The others are compared with the first.
    #[schemars(length(min = 2, max = 12))]
    pub references: Vec<String>,
    /// The image to draw: `sideBySide` (the default for two), `heatmap` (each with a map of where it differs from the
    /// first), `sheet` (the default for more, and what more than four are always drawn as), or `none`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub render: Option<Render>,
}

/// What differs between iterations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CompareView {
    /// The iterations, in the order asked for. Every list of values below has this order.
    pub iterations: Vec<ComparedIteration>,
    /// How each of the others differs from the first.
    pub differences: Vec<DifferenceView>,
    /// The parameters that differ, with a value for each iteration.
    pub parameters: Vec<ParameterRow>,
    /// The LoRAs that differ, with a weight for each iteration.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub loras: Vec<LoraRow>,
    /// What is the same in all of them, apart from `parameters`.
    pub same: Map<String, Value>,
    /// How they descend from each other.
    pub lineage: LineageView,
    /// The fields that were cut short to keep this answer small.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub truncated: Vec<String>,
}

/// An iteration that is compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ComparedIteration {
    /// Its reference, exact; with the number of its image if that was named.
    pub reference: ExactReference,
    /// When the image was made (UTC).
    pub timestamp: Timestamp,
    /// The prompt as typed, truncated if it is long.
    pub prompt: String,
    /// Present if the attempt did not succeed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<OutcomeStatus>,
    /// Its rating from 1 to 5, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rating: Option<u8>,
    /// The image that is compared: the one that was named, or the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<ImageView>,
}

/// How an iteration differs from the first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DifferenceView {
    /// The iteration, as it is named in `iterations`.
    pub reference: ExactReference,
    /// The kind of step from the first to it: `reroll` (only the seed differs), `tweak`, `reprompt`, `remodel`,
    /// `refine` or `newIdea`.
    pub label: StepLabel,
    /// Everything that differs, in one line: `+` added, `-` removed, `~` reweighted, `↕` moved, `old→new`.
    pub summary: String,
    /// The prompt as typed, if it differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<PromptDiff>,
    /// The prompt as sent, if it differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_sent: Option<PromptDiff>,
    /// The negative prompt, if it differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub negative_prompt: Option<PromptDiff>,
    /// Nodes of the ComfyUI graph in `parameters` that differ.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<NodeChange>,
    /// How the images differ visually; absent if one of the two has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub visual: Option<VisualView>,
    /// Why the images could not be compared, although both are recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub visual_problem: Option<String>,
}

/// How iterations were derived from each other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LineageView {
    /// The nearest iteration that all of them were derived from, or are; absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub common_ancestor: Option<IterationId>,
    /// How many steps each of them is away from it; absent if there is none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<u32>,
}

impl Api<'_> {
    /// Compares iterations with the first one.
    pub fn compare(&self, request: &CompareRequest) -> Result<CompareView, Error> {
        let references: Vec<ExactReference> =
            request.references.iter().map(|reference| self.resolve_exactly(reference)).collect::<Result<_, _>>()?;
        let found = self.workspace.compare_in(&references, &self.context)?;
        let iterations = found.iterations.into_iter().map(|(reference, state)| {
            let IterationState { iteration, annotation, .. } = state;
            ComparedIteration {
                reference,
                timestamp: iteration.created_at,
                outcome: Some(iteration.outcome.status).filter(|status| *status != OutcomeStatus::Succeeded),
                rating: annotation.rating,
                image: self.image_of(reference, &iteration.images),
                prompt: iteration.recipe.prompt,
            }
        });
        let mut view = CompareView {
            iterations: iterations.collect(),
            differences: found.differences.into_iter().map(DifferenceView::from).collect(),
            parameters: found.parameters,
            loras: found.loras,
            same: found.same.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
            lineage: LineageView { common_ancestor: found.common_ancestor, steps: found.steps },
            truncated: Vec::new(),
        };
        view.fit(self.reply_bytes);
        Ok(view)
    }

    /// Draws a comparison: every image above its reference and its differences. `None` if that was not requested, or if
    /// no iteration has an image. By default, two are drawn side by side and more as a sheet.
    pub fn render(&self, view: &CompareView, how: Option<Render>) -> Result<Option<Rendering>, Error> {
        let default = if view.iterations.len() == 2 { Render::SideBySide } else { Render::Sheet };
        let panel = |iteration: &ComparedIteration| {
            let difference = view.differences.iter().find(|other| other.reference == iteration.reference);
            let lines = match difference {
                // Two spaces separate the parts of a summary.
                Some(difference) => difference.summary.split("  ").map(|part| part.trim().to_owned()).collect(),
                None => vec![iteration.prompt.chars().take(MAX_LABEL_CHARS).collect()],
            };
            let image = iteration.image.as_ref().map(|image| image.hash);
            let absent = match iteration.outcome {
                Some(OutcomeStatus::Refused) => Some("refused".to_owned()),
                Some(OutcomeStatus::Failed) => Some("failed".to_owned()),
                _ => None,
            };
            Panel { image, absent, title: iteration.reference.to_string(), lines }
        };
        let panels: Vec<Panel> = view.iterations.iter().map(panel).collect();
        Ok(self.workspace.render(how.unwrap_or(default), &panels, &self.context)?)
    }
}

/// The maximum number of characters of a prompt below an image, which is more than fit there.
const MAX_LABEL_CHARS: usize = 300;

impl From<workspace::Difference> for DifferenceView {
    fn from(difference: workspace::Difference) -> DifferenceView {
        // Differing parameters and LoRAs are in tables with a column for each iteration.
        let RecipeDiff { label, summary, prompt, prompt_sent, negative_prompt, nodes, .. } = difference.recipe;
        let (visual, visual_problem) = match difference.visual {
            Some(Ok(found)) => (Some(found.into()), None),
            Some(Err(error)) => (None, Some(Error::from(error).message)),
            None => (None, None),
        };
        DifferenceView {
            reference: difference.reference,
            label,
            summary,
            prompt,
            prompt_sent,
            negative_prompt,
            nodes,
            visual,
            visual_problem,
        }
    }
}

impl CompareView {
    /// Truncates the longest parts step by step until the reply fits, which it always does after the last step.
    fn fit(&mut self, reply_bytes: usize) {
        const STEPS: [Limits; 7] = [
            Limits { text: 2000, name: 2000, list: 200 },
            Limits { text: 1000, name: 600, list: 100 },
            Limits { text: 500, name: 300, list: 40 },
            Limits { text: 300, name: 150, list: 16 },
            Limits { text: 200, name: 80, list: 6 },
            Limits { text: 100, name: 40, list: 2 },
            Limits { text: 60, name: 30, list: 1 },
        ];
        for limits in &STEPS {
            if limits::json_bytes(self) <= reply_bytes {
                return;
            }
            self.cut(limits);
        }
    }

    fn cut(&mut self, limits: &Limits) {
        let mut cut = Truncator { truncated: &mut self.truncated };
        for iteration in &mut self.iterations {
            cut.text("iterations.prompt", Some(&mut iteration.prompt), limits.text);
        }
        for difference in &mut self.differences {
            cut.text("differences.summary", Some(&mut difference.summary), limits.text.max(200));
            for (name, diff) in [
                ("differences.prompt", &mut difference.prompt),
                ("differences.promptSent", &mut difference.prompt_sent),
                ("differences.negativePrompt", &mut difference.negative_prompt),
            ] {
                let Some(diff) = diff else { continue };
                cut.list(name, &mut diff.changes, limits.list);
                for change in &mut diff.changes {
                    cut.text(name, Some(&mut change.text), limits.name);
                    cut.text(name, change.old_text.as_mut(), limits.name);
                }
            }
            cut.text("differences.visualProblem", difference.visual_problem.as_mut(), limits.text.max(200));
            cut.list("differences.nodes", &mut difference.nodes, limits.list);
            for node in &mut difference.nodes {
                cut.text("differences.nodes", Some(&mut node.class_type), limits.name);
                cut.text("differences.nodes", node.title.as_mut(), limits.name);
                cut.text("differences.nodes", node.input.as_mut(), limits.name);
                cut.value("differences.nodes", node.old.as_mut(), limits.name);
                cut.value("differences.nodes", node.new.as_mut(), limits.name);
            }
        }
        cut.list("parameters", &mut self.parameters, limits.list);
        for row in &mut self.parameters {
            cut.text("parameters", Some(&mut row.name), limits.name);
            row.values.iter_mut().for_each(|value| cut.value("parameters", value.as_mut(), limits.name));
        }
        cut.list("loras", &mut self.loras, limits.list);
        for row in &mut self.loras {
            cut.text("loras", Some(&mut row.name), limits.name);
        }
        for (_, value) in &mut self.same {
            cut.value("same", Some(value), limits.name);
        }
    }
}
