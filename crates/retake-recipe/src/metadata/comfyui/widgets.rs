//! The values of the nodes in graphs of ComfyUI's editor, which saves them by position.
//!
//! Names come from what newer editors write about the values, else from the table of known classes, else from an order
//! that leaves no doubt.

use serde_json::{Map, Value};

use super::classes::{self, CONTROL, is_control, only_seed};
use super::cone;
use super::workflow::linked_inputs;

/// Returns the values of a node with their names; a value with an unknown name is named by its position.
pub(super) fn named_widgets<'a>(class: &str, node: &'a Value) -> Vec<(String, &'a Value)> {
    let values = match node.get("widgets_values") {
        Some(Value::Object(named)) => return named.iter().map(|(name, value)| (name.clone(), value)).collect(),
        Some(Value::Array(values)) => values,
        _ => return Vec::new(),
    };
    let names = known_names(class, node, values).unwrap_or_default();
    let name = |place: usize| names.get(place).copied().filter(|name| !name.is_empty());
    let named = |place| name(place).map_or_else(|| format!("value {place}"), str::to_owned);
    values.iter().enumerate().map(|(place, value)| (named(place), value)).collect()
}

/// Returns the values of a node by name, as far as the names are known.
pub(super) fn widgets(class: &str, node: &Value) -> Map<String, Value> {
    let values = match node.get("widgets_values") {
        Some(Value::Object(named)) => return named.clone(),
        Some(Value::Array(values)) => values,
        _ => return Map::new(),
    };
    if let Some(names) = known_names(class, node, values) {
        let named = names.iter().zip(values).filter(|(name, _)| !name.is_empty());
        return named.map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    }
    let by_output = named_by_outputs(node, values);
    if !by_output.is_empty() {
        return by_output;
    }
    match values.as_slice() {
        [value @ Value::String(_)] => Map::from_iter([("text".to_owned(), value.clone())]),
        [value @ Value::String(_), ..] if class.to_ascii_lowercase().contains("textencode") => {
            Map::from_iter([("text".to_owned(), value.clone())])
        }
        // The only value of a node that makes a schedule is its length.
        [value @ Value::Number(_)] if node.pointer("/outputs/0/type") == Some(&"SIGMAS".into()) => {
            Map::from_iter([("steps".to_owned(), value.clone())])
        }
        [value @ Value::Number(_)] => Map::from_iter([("value".to_owned(), value.clone())]),
        values if sampling(values).is_some() => sampling(values).unwrap_or_default(),
        values if request(node, values).is_some() => request(node, values).unwrap_or_default(),
        // The editor adds a control only after a seed.
        [seed @ Value::Number(_), control, ..] if is_control(control) => {
            Map::from_iter([("seed".to_owned(), seed.clone())])
        }
        values if values.iter().any(Value::is_object) => values
            .iter()
            .enumerate()
            .filter(|(_, value)| value.is_object())
            // rgthree stores each LoRA as an object.
            .map(|(place, value)| (format!("lora_{place}"), value.clone()))
            .collect(),
        values => {
            // Another node may draw a number with a seed of its own.
            let samples = linked_inputs(node).any(|(name, _)| name.contains("latent") || name.contains("positive"));
            let (text, seed) = (only_sentence(values), only_seed(values).filter(|_| samples));
            let named = text.map(|text| ("text", text)).into_iter().chain(seed.map(|seed| ("seed", seed)));
            named.map(|(name, value)| (name.to_owned(), value.clone())).collect()
        }
    }
}

/// Names the values of a node that takes nothing else and has as many outputs: each output is a value. Values that do
/// not fit the type of their output are left out.
fn named_by_outputs(node: &Value, values: &[Value]) -> Map<String, Value> {
    let outputs: Vec<&Value> = node.get("outputs").and_then(Value::as_array).into_iter().flatten().collect();
    if outputs.len() != values.len() || outputs.len() < 2 || linked_inputs(node).next().is_some() {
        return Map::new();
    }
    let fits = |kind: &str, value: &Value| match kind {
        "INT" => value.is_i64() || value.is_u64(),
        "FLOAT" => value.is_number(),
        "STRING" => value.is_string(),
        _ => false,
    };
    let named = outputs.into_iter().zip(values).filter_map(|(output, value)| {
        let (name, kind) = (output.get("name")?.as_str()?, output.get("type")?.as_str()?);
        fits(kind, value).then(|| (name.to_lowercase(), value.clone()))
    });
    named.collect()
}

/// Returns the names of the first values of a node, one for each: those that the file itself lists, or those that its
/// class is known to have.
fn known_names<'a>(class: &str, node: &'a Value, values: &[Value]) -> Option<Vec<&'a str>> {
    let inputs = node.get("inputs").and_then(Value::as_array).into_iter().flatten();
    let listed: Vec<&str> = inputs.filter_map(|input| input.pointer("/widget/name")?.as_str()).collect();
    // Older editors only list values that were made inputs; newer ones, which also state the display name of each,
    // list all of them.
    let lists_all = node.pointer("/inputs/0/localized_name").is_some();
    let own = || with_controls(&listed, values).filter(|names| !listed.is_empty() && names.len() == values.len());
    let complete = || lists_all.then(|| with_controls(&listed, values)).flatten().filter(|names| !names.is_empty());
    own().filter(|_| lists_all).or_else(|| classes::names(class, values)).or_else(own).or_else(complete)
}

/// Returns the names of the first values, given the names without the controls that the editor adds after seeds;
/// `None` if there are more names than values.
fn with_controls<'a>(names: &[&'a str], values: &[Value]) -> Option<Vec<&'a str>> {
    let mut found = Vec::new();
    let mut values = values.iter().peekable();
    for name in names {
        let value = values.next()?;
        found.push(*name);
        let of_seed = |next: &&Value| ["seed", "noise_seed"].contains(name) && (next.is_null() || next.is_boolean());
        if value.is_number() && values.next_if(|next| is_control(next) || of_seed(next)).is_some() {
            found.push(CONTROL);
        }
    }
    Some(found)
}

/// Names the values of a sampler of an unknown class, which nearly all copy from ComfyUI's own: steps, guidance, sampler
/// and scheduler, then how much is changed; or sampler and scheduler first, with steps and guidance as texts in some
/// nodes. A known scheduler in its place is required. The seed is the only number with a control.
fn sampling(values: &[Value]) -> Option<Map<String, Value>> {
    const SCHEDULERS: [&str; 12] = [
        "normal",
        "karras",
        "exponential",
        "sgm_uniform",
        "simple",
        "ddim_uniform",
        "beta",
        "beta57",
        "linear_quadratic",
        "kl_optimal",
        "bong_tangent",
        "align_your_steps",
    ];
    let scheduled = |value: &Value| value.as_str().is_some_and(|name| SCHEDULERS.contains(&name));
    let whole = |value: &Value| value.is_u64() || value.as_str().is_some_and(|text| text.parse::<u32>().is_ok());
    let number = |value: &Value| value.is_number() || value.as_str().is_some_and(|text| text.parse::<f64>().is_ok());
    let mut settings = values.windows(4).enumerate().filter_map(|(place, window)| {
        let [first, second, third, fourth] = window else { return None };
        let usual = first.is_u64() && second.is_number() && third.is_string() && scheduled(fourth);
        // What follows the usual four may look like the other order.
        let before = place.checked_sub(2).and_then(|start| values.get(start..place));
        let follows = matches!(before, Some([steps, cfg]) if steps.is_u64() && cfg.is_number());
        let swapped = !follows && first.is_string() && scheduled(second) && whole(third) && number(fourth);
        let [steps, cfg, sampler, scheduler] = match (usual, swapped) {
            (true, _) => [first, second, third, fourth],
            (_, true) => [third, fourth, first, second],
            _ => return None,
        };
        let denoise = values.get(place + 4).filter(|value| usual && value.as_f64().is_some_and(|share| share <= 1.0));
        let named = [("steps", steps), ("cfg", cfg), ("sampler_name", sampler), ("scheduler", scheduler)];
        let named = named.into_iter().chain(denoise.map(|denoise| ("denoise", denoise)));
        Some(named.chain(only_seed(values).map(|seed| ("seed", seed))).collect::<Vec<_>>())
    });
    let found = settings.next().filter(|_| settings.next().is_none())?;
    Some(found.into_iter().map(|(name, value)| (name.to_owned(), value.clone())).collect())
}

/// Returns the only text of several words, or the prompts by frame, whatever is put before and after each of them.
fn only_sentence(values: &[Value]) -> Option<&Value> {
    if let Some(schedule) = values.iter().find(|value| value.as_str().is_some_and(cone::is_schedule)) {
        return Some(schedule);
    }
    let mut sentences = values.iter().filter(|value| value.as_str().is_some_and(cone::is_sentence));
    sentences.next().filter(|_| sentences.next().is_none())
}

/// Names the values of a node of an unknown class that asks a provider for an image: the only sentence among them is
/// the prompt, and the number with a control the seed. With two sentences, either could be it.
fn request(node: &Value, values: &[Value]) -> Option<Map<String, Value>> {
    let kind = node.pointer("/outputs/0/type")?.as_str()?;
    let takes_any = linked_inputs(node).next().is_some();
    if !["IMAGE", "VIDEO"].contains(&kind) || takes_any {
        return None;
    }
    let (seed, prompt) = (only_seed(values)?, only_sentence(values)?);
    Some(Map::from_iter([("prompt".to_owned(), prompt.clone()), ("seed".to_owned(), seed.clone())]))
}
