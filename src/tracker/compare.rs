//! `compare`: 2 to 12 iterations of any sessions, and everything that differs between them.

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::model::diff::{LoraRow, NodeChange, ParameterRow, PromptDiff, loras, parameters};
use crate::model::{IterationId, OutcomeStatus, Recipe, RecipeDiff, StepLabel, Timestamp};

use super::fit::{self, Cuts, Cutting, MAX_ANSWER_BYTES};
use super::lineage::Lineage;
use super::{Error, ImageView, Tracker, VisualView};

/// What to compare.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CompareRequest {
    /// 2 to 12 iterations of any sessions, such as `session-2025-12-11-001#3`. The others are compared with the first.
    #[schemars(length(min = 2, max = 12))]
    pub references: Vec<String>,
    /// The picture to make of them: `sideBySide` (the default for up to four), `heatmap` (each followed by where it
    /// differs from the first), `sheet` (the default for more), or `none`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub render: Option<Render>,
}

/// How to show pictures beside each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Render {
    /// In a row, as large as possible.
    SideBySide,
    /// Each of the others followed by where it differs from the first.
    Heatmap,
    /// In rows, a little smaller.
    Sheet,
    /// No picture.
    None,
}

/// What differs between iterations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CompareView {
    /// The iterations, in the order asked for. Every list of values below has this order.
    pub iterations: Vec<ComparedIteration>,
    /// How each of the others differs from the first.
    pub differences: Vec<Difference>,
    /// The parameters that differ, with a value for each iteration.
    pub parameters: Vec<ParameterRow>,
    /// The LoRAs that differ, with a weight for each iteration.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub loras: Vec<LoraRow>,
    /// What is the same in all of them, apart from `parameters`.
    pub same: Map<String, Value>,
    /// How they came from each other.
    pub lineage: LineageView,
    /// The fields that were cut short to keep this answer small.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub truncated: Vec<String>,
}

/// An iteration that is compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ComparedIteration {
    /// Its reference, exact.
    pub reference: IterationId,
    /// When the picture was made (UTC).
    pub timestamp: Timestamp,
    /// The prompt as typed, cut short when it is long.
    pub prompt: String,
    /// Present when the attempt did not succeed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<OutcomeStatus>,
    /// Its rating, 1 to 5, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rating: Option<u8>,
    /// Its first picture; absent when it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<ImageView>,
}

/// How an iteration differs from the first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Difference {
    /// The iteration.
    pub reference: IterationId,
    /// What kind of step leads from the first to it: `reroll` (only the seed differs), `tweak`, `reprompt`, `remodel`,
    /// `refine` or `newIdea`.
    pub label: StepLabel,
    /// Everything that differs, in one line: `+` added, `-` removed, `~` reweighted, `↕` moved, `old→new`.
    pub summary: String,
    /// The prompt as typed, when it differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<PromptDiff>,
    /// The prompt as sent, when it differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_sent: Option<PromptDiff>,
    /// The negative prompt, when it differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub negative_prompt: Option<PromptDiff>,
    /// Nodes of the ComfyUI graph in `parameters` that differ.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<NodeChange>,
    /// How the first pictures differ to the eye; absent when one of the two has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub visual: Option<VisualView>,
    /// Why the pictures could not be compared, although both are recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub visual_problem: Option<String>,
}

/// How iterations came from each other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LineageView {
    /// The nearest iteration that all of them came from, or are; absent when there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub common_ancestor: Option<IterationId>,
    /// How many steps each of them is away from it; absent when there is none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<u32>,
}

/// The fewest and the most iterations that are compared.
const COUNT: std::ops::RangeInclusive<usize> = 2..=12;

impl Tracker {
    /// What differs between iterations.
    pub fn compare(&self, request: &CompareRequest) -> Result<CompareView, Error> {
        if !COUNT.contains(&request.references.len()) {
            return Err(Error::invalid(
                format!("there must be 2 to 12 references to compare, not {}", request.references.len()),
                "name the iterations, such as session-2025-12-11-001#3; the others are compared with the first",
            ));
        }
        let ids: Vec<IterationId> =
            request.references.iter().map(|reference| self.resolve(reference)).collect::<Result<_, _>>()?;

        let mut lineage = Lineage::new(self);
        let mut recipes: Vec<Recipe> = Vec::new();
        let mut iterations = Vec::new();
        for id in &ids {
            // One that was lost is named, with the nearest that is left.
            let (_, state) = self.whole(&id.to_string())?;
            let iteration = state.iteration;
            iterations.push(ComparedIteration {
                reference: *id,
                timestamp: iteration.created_at,
                prompt: iteration.recipe.prompt.clone(),
                outcome: Some(iteration.outcome.status).filter(|status| *status != OutcomeStatus::Succeeded),
                rating: state.annotation.rating,
                image: self.image_views(*id, iteration.images.get(..1).unwrap_or_default()).into_iter().next(),
            });
            recipes.push(iteration.recipe);
        }
        let all: Vec<&Recipe> = recipes.iter().collect();
        let mut differences = Vec::new();
        if let Some((first, others)) = all.split_first() {
            differences.extend(ids.iter().skip(1).zip(others).map(|(id, other)| difference(*id, first, other)));
        }
        let picture = |iteration: &ComparedIteration| iteration.image.as_ref().map(|image| image.hash);
        let first = iterations.first().and_then(picture);
        for (difference, other) in differences.iter_mut().zip(iterations.iter().skip(1)) {
            if let (Some(first), Some(other)) = (first, picture(other)) {
                match self.compare_pictures(first, other) {
                    Ok(visual) => difference.visual = Some(visual),
                    Err(error) => difference.visual_problem = Some(error.message),
                }
            }
        }
        let mut view = CompareView {
            iterations,
            differences,
            parameters: parameters::table(&all),
            loras: loras::table(&all),
            same: parameters::shared(&all).into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
            lineage: related(&mut lineage, &ids)?,
            truncated: Vec::new(),
        };
        view.fit();
        Ok(view)
    }
}

fn difference(id: IterationId, first: &Recipe, other: &Recipe) -> Difference {
    // What differs in parameters and LoRAs is in the tables, with a column for each iteration.
    let RecipeDiff { label, summary, prompt, prompt_sent, negative_prompt, parameters: _, loras: _, nodes } =
        RecipeDiff::between(first, other);
    Difference {
        reference: id,
        label,
        summary,
        prompt,
        prompt_sent,
        negative_prompt,
        nodes,
        visual: None,
        visual_problem: None,
    }
}

/// The nearest iteration that all came from.
fn related(lineage: &mut Lineage<'_>, ids: &[IterationId]) -> Result<LineageView, Error> {
    let mut lines: Vec<HashMap<IterationId, u32>> = Vec::new();
    let mut first = Vec::new();
    for id in ids {
        let line = lineage.line(*id)?;
        lines.push(line.iter().copied().zip(0..).collect());
        if first.is_empty() {
            first = line;
        }
    }
    let steps =
        |ancestor: &IterationId| -> Option<Vec<u32>> { lines.iter().map(|line| line.get(ancestor).copied()).collect() };
    let nearest = first.iter().find_map(|ancestor| Some((*ancestor, steps(ancestor)?)));
    let (common_ancestor, steps) = nearest.unzip();
    Ok(LineageView { common_ancestor, steps: steps.unwrap_or_default() })
}

impl CompareView {
    /// Cuts what is longest, a little more each time, until the answer fits; the last step always does.
    fn fit(&mut self) {
        const STEPS: [Cuts; 6] = [
            Cuts { text: 2000, name: 2000, list: 200 },
            Cuts { text: 1000, name: 600, list: 100 },
            Cuts { text: 500, name: 300, list: 40 },
            Cuts { text: 300, name: 150, list: 16 },
            Cuts { text: 200, name: 80, list: 6 },
            Cuts { text: 100, name: 40, list: 2 },
        ];
        for cuts in &STEPS {
            if fit::json_bytes(self) <= MAX_ANSWER_BYTES {
                return;
            }
            self.cut(cuts);
        }
    }

    fn cut(&mut self, cuts: &Cuts) {
        let mut cut = Cutting { truncated: &mut self.truncated };
        for iteration in &mut self.iterations {
            cut.text("iterations.prompt", Some(&mut iteration.prompt), cuts.text);
        }
        for difference in &mut self.differences {
            cut.text("differences.summary", Some(&mut difference.summary), cuts.text.max(200));
            for (name, diff) in [
                ("differences.prompt", &mut difference.prompt),
                ("differences.promptSent", &mut difference.prompt_sent),
                ("differences.negativePrompt", &mut difference.negative_prompt),
            ] {
                let Some(diff) = diff else { continue };
                cut.list(name, &mut diff.changes, cuts.list);
                for change in &mut diff.changes {
                    cut.text(name, Some(&mut change.text), cuts.name);
                    cut.text(name, change.old_text.as_mut(), cuts.name);
                }
            }
            cut.text("differences.visualProblem", difference.visual_problem.as_mut(), cuts.text.max(200));
            cut.list("differences.nodes", &mut difference.nodes, cuts.list);
            for node in &mut difference.nodes {
                cut.text("differences.nodes", Some(&mut node.class_type), cuts.name);
                cut.text("differences.nodes", node.title.as_mut(), cuts.name);
                cut.text("differences.nodes", node.input.as_mut(), cuts.name);
                cut.value("differences.nodes", node.old.as_mut(), cuts.name);
                cut.value("differences.nodes", node.new.as_mut(), cuts.name);
            }
        }
        cut.list("parameters", &mut self.parameters, cuts.list);
        for row in &mut self.parameters {
            cut.text("parameters", Some(&mut row.name), cuts.name);
            row.values.iter_mut().for_each(|value| cut.value("parameters", value.as_mut(), cuts.name));
        }
        cut.list("loras", &mut self.loras, cuts.list);
        for row in &mut self.loras {
            cut.text("loras", Some(&mut row.name), cuts.name);
        }
        for (_, value) in &mut self.same {
            cut.value("same", Some(value), cuts.name);
        }
    }
}
