//! InvokeAI's three formats: `invokeai_metadata` (3 and later), `sd-metadata` (1 and 2), and the earlier `Dream`
//! command line, also written alongside it. JPEG exports have the same in comments, as `invokeai_metadata: {…}`.

use serde_json::{Map, Value};

use super::container::{Slot, Texts};
use super::fields::{self, Fields, at, string};
use super::{Generator, InitHash, json};

const KNOWN: &[&str] = &[
    "positive_prompt",
    "negative_prompt",
    "seed",
    "steps",
    "cfg_scale",
    "width",
    "height",
    "scheduler",
    "strength",
    "model",
    "loras",
];
const KNOWN_BEFORE: &[&str] =
    &["prompt", "seed", "steps", "cfg_scale", "width", "height", "sampler", "strength", "orig_hash"];

/// Reads InvokeAI's metadata.
pub(super) fn read(texts: &Texts) -> Option<Fields> {
    let mut fields = None;
    for name in ["invokeai_metadata", "invokeai_graph", "invokeai_workflow", "sd-metadata"] {
        let Some((index, record)) = find(texts, name) else { continue };
        let fields = fields.get_or_insert_with(|| Fields::of(Generator::InvokeAi, at(index, format!("`{name}`"))));
        match (name, &record) {
            ("invokeai_metadata", Value::Object(record)) => metadata(record, index, fields),
            ("invokeai_graph", Value::Object(graph)) => accumulated(graph, index, fields),
            ("sd-metadata", Value::Object(record)) => before(record, index, fields),
            _ => {}
        }
    }
    if let Some(index) = texts.png("Dream") {
        let fields = fields.get_or_insert_with(|| Fields::of(Generator::InvokeAi, at(index, "`Dream`")));
        dream(texts.text(index), index, fields);
    }
    fields
}

/// Returns the text under a PNG keyword, or a comment that starts with the name.
fn find(texts: &Texts, name: &str) -> Option<(usize, Value)> {
    let named = texts.png(name).and_then(|index| Some((index, texts.json(index)?.clone())));
    named.or_else(|| {
        texts.raw.iter().enumerate().find_map(|(index, raw)| {
            let rest = raw.text.strip_prefix(name).filter(|_| raw.slot == Slot::JpegComment)?;
            Some((index, json::parse(rest.trim_start().strip_prefix(':')?)?))
        })
    })
}

fn metadata(record: &Map<String, Value>, index: usize, fields: &mut Fields) {
    let text = |key: &str| string(record, key).unwrap_or_default();
    let value = |key: &str| record.get(key).unwrap_or(&Value::Null);
    fields.prompt(at(index, "`positive_prompt`"), &text("positive_prompt"));
    fields.negative(at(index, "`negative_prompt`"), &text("negative_prompt"));
    fields.seed(at(index, "`seed`"), value("seed"));
    fields.steps(at(index, "`steps`"), value("steps"));
    fields.guidance(at(index, "`cfg_scale`"), value("cfg_scale"));
    fields.size(at(index, "`width`, `height`"), value("width"), value("height"));
    // Its scheduler is called the sampler in other tools.
    fields.sampler(at(index, "`scheduler`"), &text("scheduler"));
    fields.denoise(at(index, "`strength`"), value("strength"));
    // 3 has `model_name`, 4 and later `name`, and the first beta plain text.
    let name = |model: &Value| match model {
        Value::Object(model) => string(model, "name").or_else(|| string(model, "model_name")),
        model => model.as_str().map(str::to_owned),
    };
    if let Some(model) = name(value("model")) {
        fields.model(at(index, "`model`"), &model, None);
    }
    if let Some(hash) = value("model").get("hash").and_then(Value::as_str) {
        fields.model_hash(at(index, "`model`, its `hash`"), hash);
    }
    for lora in value("loras").as_array().into_iter().flatten() {
        let named = lora.get("model").or_else(|| lora.get("lora")).and_then(name);
        let weight = lora.get("weight").and_then(fields::number).unwrap_or(1.0);
        fields.lora(at(index, "`loras`"), &named.unwrap_or_default(), weight);
    }
    if let Some(image) = string(record, "init_image") {
        fields.evidence.image_names.push(image);
        fields.evidence.from_image = true;
    }
    let mode = text("generation_mode");
    fields.evidence.from_image |= ["img2img", "inpaint", "outpaint"].iter().any(|part| mode.contains(part));
    fields.parameters_but(record, KNOWN);
    if value("model").is_object() {
        fields.parameter("model", value("model").clone());
    }
    fields.parameter("loras", value("loras").clone());
}

/// Reads the metadata that the first versions of 3 only stored in a node of the graph.
fn accumulated(graph: &Map<String, Value>, index: usize, fields: &mut Fields) {
    if fields.any() {
        return;
    }
    let nodes = graph.get("nodes").and_then(Value::as_object);
    let kept = nodes.into_iter().flat_map(Map::values).filter_map(Value::as_object).find(|node| {
        let kind = node.get("type").and_then(Value::as_str).unwrap_or_default();
        ["metadata_accumulator", "core_metadata"].contains(&kind)
            && node.get("positive_prompt").is_some_and(Value::is_string)
    });
    if let Some(kept) = kept {
        metadata(kept, index, fields);
        for noise in ["id", "type", "is_intermediate", "use_cache"] {
            fields.recipe.parameters.shift_remove(noise);
        }
    }
    fields.parameter("invokeai_graph", Value::Object(graph.clone()));
}

fn before(record: &Map<String, Value>, index: usize, fields: &mut Fields) {
    let image = record.get("image").or_else(|| record.pointer_list("images")).and_then(Value::as_object);
    let Some(image) = image else { return };
    let text = |key: &str| string(image, key).unwrap_or_default();
    let value = |key: &str| image.get(key).unwrap_or(&Value::Null);
    let prompt = match value("prompt") {
        Value::Array(parts) => {
            let parts: Vec<&str> = parts.iter().filter_map(|part| part.get("prompt")?.as_str()).collect();
            parts.join("\n")
        }
        prompt => json::plain(prompt).unwrap_or_default(),
    };
    sides(&prompt, index, "`image.prompt`", fields);
    if value("prompt").as_array().is_some_and(|parts| parts.len() > 1) {
        fields.parameter("prompt", value("prompt").clone());
    }
    fields.seed(at(index, "`image.seed`"), value("seed"));
    fields.steps(at(index, "`image.steps`"), value("steps"));
    fields.guidance(at(index, "`image.cfg_scale`"), value("cfg_scale"));
    fields.size(at(index, "`image.width`, `image.height`"), value("width"), value("height"));
    fields.sampler(at(index, "`image.sampler`"), &text("sampler"));
    fields.denoise(at(index, "`image.strength`"), value("strength"));
    fields.model(at(index, "`model_weights`"), &string(record, "model_weights").unwrap_or_default(), None);
    fields.model_hash(at(index, "`model_hash`"), &string(record, "model_hash").unwrap_or_default());
    if let Some(hash) = string(image, "orig_hash").filter(|hash| hash.len() == 64) {
        fields.evidence.init_hashes.push(InitHash::FileSha256(hash.to_ascii_lowercase()));
    }
    fields.evidence.from_image |= text("type") == "img2img";
    fields.parameters_but(image, KNOWN_BEFORE);
    for key in ["app_id", "app_version", "model"] {
        fields.parameter(key, record.get(key).cloned().unwrap_or_default());
    }
}

trait First {
    /// Returns the first item of a list under a key.
    fn pointer_list(&self, key: &str) -> Option<&Value>;
}

impl First for Map<String, Value> {
    fn pointer_list(&self, key: &str) -> Option<&Value> {
        self.get(key)?.as_array()?.first()
    }
}

/// Parses `"a prompt [unwanted]" -s50 -S123 -W512 -H512 -C7.5 -Ak_lms`, with or without spaces after the flags. A line
/// that starts with `!` is a command on another image.
fn dream(line: &str, index: usize, fields: &mut Fields) {
    let line = line.trim();
    if line.starts_with('!') {
        fields.parameter("Dream", line.into());
        return;
    }
    let (prompt, flags) = match line.strip_prefix('"') {
        Some(quoted) => match quoted.rfind("\" -").or_else(|| quoted.rfind('"')) {
            Some(end) => quoted.split_at_checked(end).unwrap_or((quoted, "")),
            None => (quoted, ""),
        },
        None => line.find(" -").and_then(|at| line.split_at_checked(at)).unwrap_or((line, "")),
    };
    sides(prompt, index, "the prompt of `Dream`", fields);
    let mut width = Value::Null;
    let mut words = flags.trim_start_matches('"').split_whitespace().peekable();
    while let Some(word) = words.next() {
        let Some(flag) = word.strip_prefix('-').filter(|flag| !flag.is_empty()) else { continue };
        let mut letters = flag.chars();
        let letter = letters.next().unwrap_or_default();
        let attached = letters.as_str();
        let is_value = |word: &&str| !word.starts_with('-') || word.parse::<f64>().is_ok();
        let one_letter = "sSWHCAfI".contains(letter) && !flag.starts_with('-');
        let mut value = if one_letter { attached.to_owned() } else { String::new() };
        if value.is_empty() {
            while let Some(next) = words.next_if(is_value) {
                value = if value.is_empty() { next.to_owned() } else { format!("{value} {next}") };
            }
        }
        let from = at(index, format!("flag -{letter} of `Dream`"));
        let json = Value::from(value.as_str());
        let taken = one_letter
            && match letter {
                's' => fields.steps(from, &json),
                'S' => fields.seed(from, &json),
                'C' => fields.guidance(from, &json),
                'A' => fields.sampler(from, &value),
                'f' => fields.denoise(from, &json),
                'W' => {
                    width = json;
                    true
                }
                'H' => fields.size(at(index, "flags -W and -H of `Dream`"), &width, &json),
                'I' => {
                    let name = value.rsplit(['/', '\\']).next().unwrap_or(&value).trim_matches('"').to_owned();
                    fields.evidence.from_image = true;
                    fields.evidence.image_names.push(name);
                    false
                }
                _ => false,
            };
        if !taken {
            let key = if one_letter { format!("-{letter}") } else { word.to_owned() };
            fields.parameter(&key, if value.is_empty() { true.into() } else { fields::verbatim(&value) });
        }
    }
}

/// Splits off the text in `[brackets]`, which is the negative prompt.
fn sides(prompt: &str, index: usize, rule: &str, fields: &mut Fields) {
    let (mut wanted, mut unwanted) = (String::new(), Vec::new());
    let mut rest = prompt;
    while let Some((before, tail)) = rest.split_once('[') {
        let Some((inside, after)) = tail.split_once(']') else { break };
        wanted.push_str(before);
        unwanted.push(inside.trim());
        rest = after;
    }
    wanted.push_str(rest);
    fields.prompt(at(index, format!("{rule} without [brackets]")), &wanted);
    fields.negative(at(index, format!("[brackets] in {rule}")), &unwanted.join(", "));
}
