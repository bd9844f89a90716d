//! Compares recipes.
//!
//! [`RecipeDiff::between`] compares two recipes: prompts by [tag] with weights, or by [words] if they are prose;
//! [parameters], with the difference for numbers; LoRAs; and the [nodes] of a ComfyUI graph. The result has a
//! [label](StepLabel) and a one-line [summary]. [`parameters::table`] and [`loras::table`] compare any number of
//! recipes, with a column for each.
//!
//! The time is bounded for any input, by counting steps rather than by a clock, so that results are reproducible.
//!
//! This module does not know about iterations, sessions or images, or how a diff is truncated, coloured or laid out.

mod align;
mod label;
pub mod loras;
pub mod nodes;
pub mod parameters;
pub mod prompt;
mod stated;
pub mod summary;
pub mod tag;
pub mod words;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use label::StepLabel;
pub use loras::{LoraChange, LoraRow};
pub use nodes::{NodeChange, NodeChangeKind};
pub use parameters::{ParameterChange, ParameterRow};
pub use prompt::{PromptChange, PromptChangeKind, PromptDiff, Unit};
pub use tag::Tag;

use super::Recipe;

/// What differs between two recipes. What is the same is absent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecipeDiff {
    /// What kind of step it is: `reroll`, `tweak`, `reprompt`, `remodel`, `refine` or `newIdea`.
    pub label: StepLabel,
    /// All of it in one line: `+` added, `-` removed, `~` reweighted, `↕` moved, `old→new`.
    pub summary: String,
    /// The prompt as typed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<PromptDiff>,
    /// The prompt as sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_sent: Option<PromptDiff>,
    /// The negative prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub negative_prompt: Option<PromptDiff>,
    /// Parameters, with what is inside `parameters`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parameters: Vec<ParameterChange>,
    /// LoRAs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub loras: Vec<LoraChange>,
    /// Nodes of the ComfyUI graph in `parameters`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<NodeChange>,
}

impl RecipeDiff {
    /// Compares an old recipe with a new one.
    pub fn between(old: &Recipe, new: &Recipe) -> RecipeDiff {
        let text = |old: &Option<String>, new: &Option<String>| {
            PromptDiff::between(old.as_deref().unwrap_or_default(), new.as_deref().unwrap_or_default())
        };
        let mut diff = RecipeDiff {
            label: StepLabel::Reroll,
            summary: String::new(),
            prompt: PromptDiff::between(&old.prompt, &new.prompt),
            prompt_sent: text(&old.prompt_sent, &new.prompt_sent),
            negative_prompt: text(&old.negative_prompt, &new.negative_prompt),
            parameters: parameters::changes(old, new),
            loras: loras::changes(old, new),
            nodes: nodes::changes(old, new),
        };
        let stated = diff.stated(old, new);
        for node in &mut diff.nodes {
            node.repeats = !stated.nodes.contains(node);
        }
        diff.label = StepLabel::of(old, new, &stated);
        diff.summary = if stated.is_empty() && !diff.is_empty() {
            "the same as far as it is known".to_owned()
        } else {
            summary::recipe(&stated)
        };
        diff
    }

    /// Returns the nodes that changed, without those that repeat what the recipe says.
    pub fn own_nodes(&self) -> Vec<&NodeChange> {
        self.nodes.iter().filter(|node| !node.repeats).collect()
    }

    /// Returns whether nothing differs.
    pub fn is_empty(&self) -> bool {
        let RecipeDiff { label: _, summary: _, prompt, prompt_sent, negative_prompt, parameters, loras, nodes } = self;
        prompt.is_none()
            && prompt_sent.is_none()
            && negative_prompt.is_none()
            && parameters.is_empty()
            && loras.is_empty()
            && nodes.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn recipe(fields: &Value) -> Recipe {
        serde_json::from_value(fields.clone()).unwrap()
    }

    /// Returns the label and the summary of a step that changes these fields of a typical recipe.
    fn step(changes: Value) -> String {
        let mut fields = json!({
            "prompt": "1girl, (red dress:1.2), standing, forest", "negativePrompt": "blurry", "model": "sdxl", "seed": 1,
            "steps": 20, "guidanceScale": 7, "width": 1024, "height": 768, "loras": [{ "name": "detail", "weight": 0.8 }],
            "parameters": { "clipSkip": 2 },
        });
        let old = recipe(&fields);
        for (name, value) in changes.as_object().unwrap() {
            fields[name] = value.clone();
        }
        let diff = RecipeDiff::between(&old, &recipe(&fields));
        format!("{}: {}", diff.label, diff.summary)
    }

    #[test]
    fn a_step_in_a_word_and_in_a_line() {
        for (changes, line) in [
            (json!({}), "reroll: same recipe"),
            (json!({ "seed": 2 }), "reroll: reroll  seed 1→2"),
            (
                json!({ "seed": 2, "parameters": { "clipSkip": 2, "filename_prefix": "b" } }),
                "reroll: reroll  seed 1→2  +filename_prefix b",
            ),
            (json!({ "steps": 30, "guidanceScale": 5.5 }), "tweak: steps 20→30  cfg 7→5.5"),
            (json!({ "width": 768, "height": 1024 }), "tweak: size 1024x768→768x1024"),
            (json!({ "width": 900 }), "tweak: width 1024→900"),
            (
                json!({ "loras": [{ "name": "detail", "weight": 0.6 }, { "name": "fur", "weight": 1 }] }),
                "tweak: ~lora detail 0.8→0.6  +lora fur 1",
            ),
            (json!({ "parameters": { "clipSkip": 1 } }), "tweak: clipSkip 2→1"),
            (
                json!({ "prompt": "1girl, solo, (red dress:1.35), forest" }),
                "reprompt: +solo  ~red dress 1.2→1.35  -standing",
            ),
            (json!({ "negativePrompt": "blurry, text" }), "reprompt: negative: +text"),
            (json!({ "prompt": "1girl, (red dress:1.2), standing,forest" }), "reroll: reformatted"),
            (json!({ "model": "flux" }), "remodel: model sdxl→flux"),
            (
                json!({ "model": "flux", "prompt": "1girl, red dress, forest" }),
                "remodel: ~red dress 1.2→1  -standing  model sdxl→flux",
            ),
            (json!({ "denoise": 0.4 }), "refine: +denoise 0.4"),
            (json!({ "width": 2048, "height": 1536 }), "refine: size 1024x768→2048x1536"),
            (json!({ "parameters": { "clipSkip": 2, "Init image hash": "ab" } }), "refine: +Init image hash ab"),
            (
                json!({ "prompt": "an old lighthouse at dawn" }),
                "new idea: -1girl  -red dress 1.2  -standing  -forest  +an old lighthouse at dawn",
            ),
        ] {
            assert_eq!(step(changes.clone()), line, "{changes}");
        }
    }

    #[test]
    fn a_graph_with_another_seed_is_a_reroll() {
        let graph = |seed: u64, steps: u32| {
            recipe(&json!({ "prompt": "a cat", "seed": seed, "parameters": { "prompt": {
                "3": { "class_type": "KSampler", "inputs": { "seed": seed, "steps": steps } } } } }))
        };
        let reroll = RecipeDiff::between(&graph(1, 20), &graph(2, 20));
        assert_eq!(reroll.label, StepLabel::Reroll);
        assert_eq!(reroll.summary, "reroll  seed 1→2", "what the recipe says is not said again");
        let tweak = RecipeDiff::between(&graph(1, 20), &graph(2, 30));
        assert_eq!(tweak.label, StepLabel::Tweak);
        assert_eq!(tweak.summary, "seed 1→2  [KSampler].steps 20→30");
    }

    #[test]
    fn a_graph_adds_only_what_the_recipe_lacks() {
        let made = |prompt: &str, seed: u64, denoise: f64, source: &str, name: &str| {
            recipe(
                &json!({ "prompt": prompt, "seed": seed, "denoise": denoise, "model": "sdxl", "parameters": { "prompt": {
                "1": { "class_type": "KSampler", "inputs": { "seed": seed, "denoise": denoise, "latent_image": ["2", 0] } },
                "2": { "class_type": source, "inputs": {} },
                "3": { "class_type": "CLIPTextEncode", "inputs": { "text": prompt } },
                "4": { "class_type": "SaveImage", "inputs": { "filename_prefix": name } },
                "5": { "class_type": "CheckpointLoaderSimple", "inputs": { "ckpt_name": "sdxl.safetensors" } } } } }),
            )
        };
        let old = made("a glass bridge at night", 2, 1.0, "EmptyLatentImage", "bridge");
        let new = made("a glass bridge, watercolor", 9, 0.5, "VAEEncode", "i2i");
        let diff = RecipeDiff::between(&old, &new);
        assert_eq!(diff.summary, "-at night  +watercolor  seed 2→9  denoise 1→0.5  -[EmptyLatentImage]  +[VAEEncode]");
        assert!(diff.nodes.len() > 2, "the difference itself keeps everything");
        let own: Vec<&str> = diff.own_nodes().iter().map(|node| node.class_type.as_str()).collect();
        assert_eq!(own, ["EmptyLatentImage", "VAEEncode"], "the others repeat the recipe, and say so");
    }

    #[test]
    fn an_omitted_field_is_not_a_removal() {
        let old = recipe(&json!({ "prompt": "a cat", "negativePrompt": "blurry", "model": "sdxl", "seed": 1,
            "loras": [{ "name": "fur", "weight": 1 }], "parameters": { "clipSkip": 2 } }));
        let line = |new: Value| {
            let diff = RecipeDiff::between(&old, &recipe(&new));
            format!("{}: {}", diff.label, diff.summary)
        };
        assert_eq!(line(json!({ "prompt": "a cat at night" })), "reprompt: +at night");
        assert_eq!(line(json!({ "prompt": "a cat" })), "reroll: the same as far as it is known");
        assert_eq!(line(json!({ "prompt": "a cat", "model": "sdxl" })), "tweak: -lora fur 1");
        assert_eq!(
            line(json!({ "prompt": "a cat", "negativePrompt": "text, dogs", "model": "flux" })),
            "remodel: negative: -blurry, +text, +dogs  model sdxl→flux  -lora fur 1"
        );
    }

    #[test]
    fn a_line_stays_a_line() {
        let many = |sign: &str| (0..500).map(|n| format!("{sign}{n}\n")).collect::<String>();
        let old = recipe(&json!({ "prompt": many("a"), "model": "x".repeat(500) }));
        let new = recipe(&json!({ "prompt": many("b"), "model": "y\n".repeat(200) }));
        let summary = RecipeDiff::between(&old, &new).summary;
        assert!(summary.chars().count() < 20 * 64 && !summary.contains('\n'), "{summary}");
        assert!(summary.contains("  -a9  and 990 more  model xxx"), "{summary}");
    }

    proptest! {
        #[test]
        fn nothing_differs_from_itself(prompt in "\\PC{0,80}", seed in any::<u64>(), cfg in -1e6..1e6, key in "[a-z.\\[\\]]{1,8}") {
            let recipe = recipe(&json!({
                "prompt": prompt, "seed": seed, "guidanceScale": cfg, "negativePrompt": prompt, "promptSent": prompt,
                "loras": [{ "name": prompt, "weight": cfg }], "parameters": { key: { "a": [seed, prompt] } },
            }));
            let diff = RecipeDiff::between(&recipe, &recipe);
            prop_assert!(diff.is_empty());
            prop_assert_eq!(diff.label, StepLabel::Reroll);
        }
    }
}
