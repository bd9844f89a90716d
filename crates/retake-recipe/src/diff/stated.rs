//! Reduces a difference to what a recipe explicitly states about a step.
//!
//! A recipe recorded without a model does not state that the model was removed: it states nothing about it. And a
//! ComfyUI graph repeats the recipe in the inputs of its nodes. Labels and one-line summaries are based on the reduced
//! difference; the full difference keeps everything.

use serde_json::Value;

use super::parameters::{is_file_name, same};
use super::{NodeChange, NodeChangeKind, ParameterChange, RecipeDiff};
use crate::{Field, Recipe};

impl RecipeDiff {
    /// Returns the difference without fields that the new recipe leaves out, and without repetitions.
    pub(super) fn stated(&self, old: &Recipe, new: &Recipe) -> RecipeDiff {
        let mut diff = self.clone();
        diff.prompt_sent.take_if(|_| new.prompt_sent.is_none());
        diff.negative_prompt.take_if(|_| new.negative_prompt.is_none());
        diff.parameters.retain(|change| {
            let can_be_removed = Field::by_key(&change.name).is_none() && !new.parameters.is_empty();
            change.new.is_some() || can_be_removed
        });
        if has_only_texts(new) {
            diff.loras.clear();
        }
        let (parameters, has_loras) = (&diff.parameters, !diff.loras.is_empty());
        diff.nodes.retain(|change| {
            !(repeats_parameter(change, parameters)
                || repeats_text(change, old, new)
                || (has_loras && is_about_loras(change))
                || change.input.as_deref().is_some_and(is_file_name)
                || follows_from_nodes(change, &self.nodes))
        });
        diff
    }
}

/// Returns whether only prompts were recorded, so that not even the LoRAs are known.
fn has_only_texts(recipe: &Recipe) -> bool {
    let is_text = |key: &str| matches!(key, "promptSent" | "negativePrompt");
    recipe.loras.is_empty()
        && recipe.parameters.is_empty()
        && recipe.values().all(|(field, value)| is_text(field.key) || value.is_none())
}

/// Returns whether a parameter of the recipe changed in the same way.
fn repeats_parameter(change: &NodeChange, parameters: &[ParameterChange]) -> bool {
    change.kind == NodeChangeKind::Changed
        && parameters.iter().any(|parameter| {
            is_alike(change.old.as_ref(), parameter.old.as_ref())
                && is_alike(change.new.as_ref(), parameter.new.as_ref())
        })
}

/// Returns whether the input is one of the prompts.
fn repeats_text(change: &NodeChange, old: &Recipe, new: &Recipe) -> bool {
    let texts = |recipe: &Recipe| {
        let texts = [Some(recipe.prompt.clone()), recipe.prompt_sent.clone(), recipe.negative_prompt.clone()];
        texts.into_iter().flatten().map(|text| text.trim().to_owned()).collect::<Vec<_>>()
    };
    let is_in = |value: Option<&Value>, texts: &[String]| {
        value.and_then(Value::as_str).is_some_and(|text| texts.iter().any(|known| known == text.trim()))
    };
    change.kind == NodeChangeKind::Changed
        && is_in(change.old.as_ref(), &texts(old))
        && is_in(change.new.as_ref(), &texts(new))
}

fn is_about_loras(change: &NodeChange) -> bool {
    change.class_type.to_lowercase().contains("lora")
}

/// Returns whether a link changed because a node was added or removed, which is reported separately.
fn follows_from_nodes(change: &NodeChange, all: &[NodeChange]) -> bool {
    let source = |value: Option<&Value>| {
        let link = value?.as_str()?.strip_prefix("from ")?;
        Some(link.rsplit_once(' ')?.0.to_owned())
    };
    let is_of = |name: &str, kind: NodeChangeKind| {
        let is_called = |node: &NodeChange| node.title.as_deref().unwrap_or(&node.class_type) == name;
        all.iter().any(|node| node.kind == kind && node.input.is_none() && is_called(node))
    };
    let (old, new) = (source(change.old.as_ref()), source(change.new.as_ref()));
    old.is_some_and(|name| is_of(&name, NodeChangeKind::Removed))
        || new.is_some_and(|name| is_of(&name, NodeChangeKind::Added))
}

/// Returns whether two values are equivalent, including a number and its text, or a model with and without its file
/// extension.
fn is_alike(one: Option<&Value>, other: Option<&Value>) -> bool {
    let text = |value: &Value| match value {
        Value::String(text) => stem(text).to_owned(),
        other => other.to_string(),
    };
    same(one, other) || matches!((one, other), (Some(one), Some(other)) if text(one) == text(other))
}

/// Returns the name of a model without its directory and file extension.
fn stem(name: &str) -> &str {
    let name = name.rsplit(['/', '\\']).next().unwrap_or(name);
    [".safetensors", ".ckpt", ".gguf", ".pt"].iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(name)
}
