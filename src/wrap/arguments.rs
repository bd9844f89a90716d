//! Parses the arguments of a call: the requested recipe, the input images, and the output location.
//!
//! Servers use many names for the same thing, so keys are compared without case and separators, and one level of
//! nesting (`params`, `input`, …) is resolved, even if it is JSON in a string.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::model::{Lora, Recipe, Seed};

use super::keys::{
    ArgumentRole, CONTAINERS, COUNTS, DENOISES, GUIDANCES, HEIGHTS, MODELS, NEGATIVES, PROMPT_LISTS, PROMPTS, SAMPLERS,
    SCHEDULERS, SEEDS, SIZES, STEPS, WIDTHS, is_input_by_value, is_kind_of_prompt, looks_like_image, place,
};
use super::observe::ListedTool;
use super::profile::ToolProfile;
use super::redact::normalized;
use super::values::{filled, lora, number, prompt_list, seed, size, texts, whole};

/// The parsed arguments of a call.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct CallArguments {
    /// The prompts as typed: one, unless the call requests several images at once.
    pub(crate) prompts: Vec<String>,
    /// The requested recipe, without the prompt. The seed is never a placeholder for "any"; the parameters are the
    /// remaining arguments, unchanged.
    pub(crate) recipe: Recipe,
    /// The number of requested images.
    pub(crate) count: Option<u64>,
    /// The values of arguments that name an input image.
    pub(crate) inputs: Vec<NamedArgument>,
    /// The values of arguments that name a mask.
    pub(crate) masks: Vec<NamedArgument>,
    /// The values of arguments that name the output location.
    pub(crate) outputs: Vec<NamedArgument>,
    /// For each field found, the argument it came from.
    #[serde(skip)]
    pub(crate) sources: Vec<(&'static str, String)>,
    /// Whether an argument contains a ComfyUI graph.
    pub(crate) has_graph: bool,
}

/// A value and the argument it came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NamedArgument {
    /// The argument.
    pub(crate) argument: String,
    /// The value.
    pub(crate) value: String,
}

impl CallArguments {
    /// Parses the arguments of a call. The roles in the tool's profile, if there is one, take precedence.
    pub(crate) fn read(arguments: &Value, tool: Option<&ListedTool>, profile: Option<&ToolProfile>) -> CallArguments {
        let mut reader = Reader { fields: flattened(arguments), asked: CallArguments::default(), profile };
        reader.read(tool);
        reader.finish()
    }

    /// Returns the prompt, with several prompts on separate lines.
    pub(crate) fn prompt(&self) -> Option<String> {
        (!self.prompts.is_empty()).then(|| self.prompts.join("\n"))
    }
}

struct Field {
    /// The original name.
    name: String,
    key: String,
    value: Value,
    /// The container it was in.
    within: Option<String>,
    used: bool,
}

/// Lists the arguments, with containers replaced by their contents.
fn flattened(arguments: &Value) -> Vec<Field> {
    let mut fields = Vec::new();
    let Some(arguments) = arguments.as_object() else { return fields };
    let field = |name: &String, value: Value, within: Option<&String>| Field {
        name: name.clone(),
        key: normalized(name),
        value,
        within: within.cloned(),
        used: false,
    };
    for (name, value) in arguments {
        let nested = if CONTAINERS.contains(&normalized(name).as_str()) { nested(value) } else { None };
        match nested {
            Some(nested) => {
                fields.extend(nested.into_iter().map(|(inner, value)| field(&inner, value, Some(name))));
            }
            None => fields.push(field(name, value.clone(), None)),
        }
    }
    fields
}

fn nested(value: &Value) -> Option<Map<String, Value>> {
    match value {
        // A graph is kept as it is: its keys are nodes, not arguments.
        Value::Object(object) if !is_graph(value) => Some(object.clone()),
        Value::String(text) if text.trim_start().starts_with('{') => {
            serde_json::from_str::<Map<String, Value>>(text).ok()
        }
        _ => None,
    }
}

/// Returns whether a value is a ComfyUI graph in the format in which it is queued.
pub(crate) fn is_graph(value: &Value) -> bool {
    value
        .as_object()
        .is_some_and(|nodes| !nodes.is_empty() && nodes.values().all(|node| node.get("class_type").is_some()))
}

struct Reader<'a> {
    fields: Vec<Field>,
    asked: CallArguments,
    profile: Option<&'a ToolProfile>,
}

impl Reader<'_> {
    fn read(&mut self, tool: Option<&ListedTool>) {
        self.places();
        self.prompts(tool);
        self.asked.recipe.negative_prompt = self.take("negativePrompt", NEGATIVES, &|value| match value {
            Value::Array(items) => {
                let items: Vec<&str> = items.iter().filter_map(Value::as_str).collect();
                (!items.is_empty()).then(|| items.join(", "))
            }
            other => filled(other),
        });
        self.asked.recipe.model = self.take("model", MODELS, &|value| match value {
            Value::Object(model) => ["id", "name", "model"].iter().find_map(|key| model.get(*key).and_then(filled)),
            other => filled(other).filter(|name| !name.contains('\n')),
        });
        self.asked.recipe.seed = self.seed(tool);
        self.asked.count = self.take("count", COUNTS, &|value| whole(value).filter(|count| *count > 0));
        let u32_of = |value: &Value| whole(value).and_then(|number| u32::try_from(number).ok());
        self.asked.recipe.steps = self.take("steps", STEPS, &u32_of);
        self.asked.recipe.guidance_scale = self.take("guidanceScale", GUIDANCES, &number);
        self.asked.recipe.sampler = self.take("sampler", SAMPLERS, &filled);
        self.asked.recipe.scheduler = self.take("scheduler", SCHEDULERS, &filled);
        self.asked.recipe.denoise =
            self.take("denoise", DENOISES, &|value| number(value).filter(|it| (0.0..=1.0).contains(it)));
        self.size();
        self.loras();
        self.asked.has_graph = self.fields.iter().any(|field| is_graph(&field.value));
    }

    fn places(&mut self) {
        for field in &mut self.fields {
            let place = match self.profile.and_then(|profile| profile.role_of(&field.name)) {
                Some("input" | "parent") => ArgumentRole::Input,
                Some("mask") => ArgumentRole::Mask,
                Some("output") => ArgumentRole::Output,
                Some(_) => continue,
                None => match place(&field.key) {
                    Some(place) => place,
                    None if texts(&field.value).iter().any(|value| is_input_by_value(&field.key, value)) => {
                        ArgumentRole::Input
                    }
                    None => continue,
                },
            };
            let list = match place {
                ArgumentRole::Input => &mut self.asked.inputs,
                ArgumentRole::Mask => &mut self.asked.masks,
                ArgumentRole::Output => &mut self.asked.outputs,
            };
            let values = texts(&field.value);
            // `input: "a fox"` is a prompt; `input: "fox.png"` is an image.
            if field.key == "input" && !values.iter().all(|value| looks_like_image(value)) {
                continue;
            }
            list.extend(values.into_iter().map(|value| NamedArgument { argument: field.name.clone(), value }));
        }
    }

    fn prompts(&mut self, tool: Option<&ListedTool>) {
        if let Some(list) = self.take("prompt", PROMPT_LISTS, &prompt_list) {
            self.asked.prompts = list;
        }
        let usable = |value: &Value| match value {
            Value::Array(_) => prompt_list(value),
            other => filled(other).filter(|text| !looks_like_image(text)).map(|text| vec![text]),
        };
        if self.asked.prompts.is_empty() {
            self.asked.prompts = self.take("prompt", PROMPTS, &usable).unwrap_or_default();
        }
        if self.asked.prompts.is_empty() {
            let other = |field: &&mut Field| !field.used && is_kind_of_prompt(&field.key) && field.value.is_string();
            if let Some(field) = self.fields.iter_mut().find(other) {
                field.used = true;
                self.asked.prompts = filled(&field.value).into_iter().collect();
                self.asked.sources.push(("prompt", field.name.clone()));
            }
        }
        if self.asked.prompts.is_empty() {
            self.asked.prompts = self.take("prompt", &["input"], &usable).unwrap_or_default();
        }
        if self.asked.prompts.is_empty() {
            self.described_prompt(tool);
        }
    }

    /// Uses the argument that the tool's schema describes as a prompt, whatever its name; otherwise the only text of
    /// several words.
    fn described_prompt(&mut self, tool: Option<&ListedTool>) {
        let is_described = |name: &str| {
            let schema = tool.and_then(|tool| tool.properties.get(name));
            let text = schema.and_then(|schema| schema.get("description")).and_then(Value::as_str).unwrap_or_default();
            let text = text.to_lowercase();
            ["prompt", "describ", "description of", "what to draw", "what to generate"]
                .iter()
                .any(|it| text.contains(it))
                && !["negative", "avoid", "exclude"].iter().any(|it| text.contains(it))
        };
        let profile = self.profile;
        let asked = &self.asked;
        let is_free = |field: &Field| {
            let is_place = |list: &[NamedArgument]| list.iter().any(|named| named.argument == field.name);
            let text = field.value.as_str().unwrap_or_default().trim();
            let is_taken = field.used
                || profile.is_some_and(|profile| profile.role_of(&field.name).is_some())
                || NEGATIVES.contains(&field.key.as_str())
                || [&asked.inputs, &asked.masks, &asked.outputs].into_iter().any(|list| is_place(list));
            !is_taken
                && (text.contains(' ') || text.chars().filter(|c| !c.is_ascii()).count() > 1)
                && !looks_like_image(text)
        };
        let free: Vec<usize> =
            self.fields.iter().enumerate().filter(|(_, field)| is_free(field)).map(|(place, _)| place).collect();
        let name_at = |place: &usize| self.fields.get(*place).map(|field| field.name.as_str()).unwrap_or_default();
        let described = free.iter().find(|place| is_described(name_at(place))).copied();
        let only = free.first().copied().filter(|_| free.len() == 1);
        if let Some(field) = described.or(only).and_then(|place| self.fields.get_mut(place)) {
            field.used = true;
            self.asked.prompts = filled(&field.value).into_iter().collect();
            self.asked.sources.push(("prompt", field.name.clone()));
        }
    }

    /// Returns the requested seed. -1 means any seed, and so does 0 unless the tool's schema says otherwise.
    fn seed(&mut self, tool: Option<&ListedTool>) -> Option<Seed> {
        let randomized = self.fields.iter().any(|field| {
            field.key.starts_with("random") && field.key.ends_with("seed") && field.value == Value::Bool(true)
        });
        if randomized {
            return None;
        }
        let property =
            tool.and_then(|tool| tool.properties.iter().find(|(name, _)| SEEDS.contains(&normalized(name).as_str())));
        let zero_counts = property.is_some_and(|(_, schema)| {
            let says_random = schema
                .get("description")
                .and_then(Value::as_str)
                .is_some_and(|text| text.to_lowercase().contains("random"));
            !says_random && schema.get("default").and_then(Value::as_i64) != Some(0)
        });
        self.take("seed", SEEDS, &|value| {
            let value = value.as_array().and_then(|seeds| seeds.first()).unwrap_or(value);
            seed(value).filter(|seed| seed.0 > 0 || zero_counts)
        })
    }

    fn size(&mut self) {
        let pixels = |value: &Value| whole(value).and_then(|side| u32::try_from(side).ok()).filter(|side| *side > 0);
        let width = self.take("width", WIDTHS, &pixels);
        let height = self.take("height", HEIGHTS, &pixels);
        (self.asked.recipe.width, self.asked.recipe.height) = (width, height);
        if width.is_none() && height.is_none() {
            // The text itself stays in the parameters: `auto` and `landscape_4_3` say more than two numbers.
            let found = self.fields.iter().find_map(|field| {
                // `custom_size: "1536x1024"` is recognised by its value.
                (SIZES.contains(&field.key.as_str())
                    || field.key.ends_with("size")
                    || field.key.ends_with("dimensions"))
                .then(|| size(&field.value))
                .flatten()
                .map(|size| (field.name.clone(), size))
            });
            if let Some((name, (width, height))) = found {
                (self.asked.recipe.width, self.asked.recipe.height) = (Some(width), Some(height));
                self.asked.sources.push(("size", name));
            }
        }
    }

    fn loras(&mut self) {
        let loras = |value: &Value| {
            let list: Option<Vec<Lora>> = value.as_array()?.iter().map(lora).collect();
            list.filter(|list| !list.is_empty())
        };
        self.asked.recipe.loras = self.take("loras", &["loras", "lora"], &loras).unwrap_or_default();
    }

    /// Takes the first of these arguments whose value can be parsed, preferring the profile's choice.
    fn take<T>(&mut self, field: &'static str, keys: &[&str], read: &dyn Fn(&Value) -> Option<T>) -> Option<T> {
        let profile = self.profile;
        let claimed = move |name: &str| profile.and_then(|profile| profile.role_of(name));
        let chosen = self.fields.iter().position(|it| !it.used && claimed(&it.name) == Some(field));
        let by_key = || {
            let usable = |it: &Field, key: &str| {
                !it.used && it.key == key && claimed(&it.name).is_none() && read(&it.value).is_some()
            };
            keys.iter().find_map(|key| self.fields.iter().position(|it| usable(it, key)))
        };
        let place = chosen.or_else(by_key)?;
        let found = self.fields.get_mut(place)?;
        let value = read(&found.value)?;
        found.used = true;
        self.asked.sources.push((field, found.name.clone()));
        Some(value)
    }

    fn finish(self) -> CallArguments {
        let Reader { fields, mut asked, .. } = self;
        for Field { name, value, within, used, .. } in fields {
            if used {
                continue;
            }
            let target = match within {
                None => &mut asked.recipe.parameters,
                Some(within) => {
                    let inner = asked.recipe.parameters.entry(within).or_insert_with(|| Value::Object(Map::new()));
                    match inner {
                        Value::Object(inner) => inner,
                        _ => continue,
                    }
                }
            };
            target.insert(name, value);
        }
        asked
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::keys::is_input_key;
    use super::*;

    fn read(arguments: Value) -> CallArguments {
        CallArguments::read(&arguments, None, None)
    }

    #[test]
    fn every_field_under_its_many_names() {
        let asked = read(json!({
            "prompt": "a fox", "negative_prompt": "blur", "model_id": "flux", "seed": 7, "num_inference_steps": 4.0,
            "cfg_scale": "7.5", "sampler_name": "euler", "scheduler_name": "karras", "size": "1024x768",
            "denoising_strength": 0.4, "n": 2, "image": "in.png", "mask_path": "m.png", "output_path": "out.png",
            "loras": [{"path": "detail", "scale": 0.5}], "style": "vivid",
        }));
        assert_eq!(asked.prompts, ["a fox"]);
        assert_eq!(asked.recipe.negative_prompt.as_deref(), Some("blur"));
        assert_eq!(asked.recipe.model.as_deref(), Some("flux"));
        assert_eq!(
            (asked.recipe.seed, asked.recipe.steps, asked.recipe.guidance_scale),
            (Some(Seed(7)), Some(4), Some(7.5))
        );
        assert_eq!(
            (asked.recipe.sampler.as_deref(), asked.recipe.scheduler.as_deref()),
            (Some("euler"), Some("karras"))
        );
        assert_eq!(
            (asked.recipe.width, asked.recipe.height, asked.recipe.denoise, asked.count),
            (Some(1024), Some(768), Some(0.4), Some(2))
        );
        assert_eq!(asked.inputs[0].value, "in.png");
        assert_eq!(asked.masks[0].value, "m.png");
        assert_eq!(asked.outputs[0].value, "out.png");
        assert_eq!((asked.recipe.loras[0].name.as_str(), asked.recipe.loras[0].weight), ("detail", 0.5));
        assert_eq!(asked.recipe.parameters["style"], "vivid");
        assert_eq!(asked.recipe.parameters["size"], "1024x768");
        assert!(!asked.recipe.parameters.contains_key("prompt"));
    }

    #[test]
    fn nested_arguments_are_found_and_the_rest_keeps_its_place() {
        let asked = read(json!({"model": "m", "input": {"prompt": "a", "seed": 3, "go_fast": true}}));
        assert_eq!((asked.prompts.as_slice(), asked.recipe.seed), (&["a".to_owned()][..], Some(Seed(3))));
        assert_eq!(asked.recipe.parameters, *json!({"input": {"go_fast": true}}).as_object().unwrap());
        assert_eq!(read(json!({"parameters": "{\"prompt\": \"b\"}"})).prompts, ["b"]);
        assert_eq!(read(json!({"input": "a bare prompt"})).prompts, ["a bare prompt"]);
        assert_eq!(read(json!({"input": "/a/b.png", "edit_prompt": "c"})).inputs[0].value, "/a/b.png");
        assert_eq!(read(json!({"requests": [{"prompt": "a"}, {"prompt": "b"}]})).prompts, ["a", "b"]);
        assert_eq!(read(json!({"blend_prompt": "mix"})).prompts, ["mix"]);
        assert_eq!(read(json!({"prompt_zh": "狐狸"})).prompts, ["狐狸"]);
        assert_eq!(read(json!({"prompt_strength": "0.5"})).prompts, Vec::<String>::new());
    }

    #[test]
    fn a_stand_in_for_any_seed_is_not_a_seed() {
        for arguments in [
            json!({"seed": -1}),
            json!({"seed": 0}),
            json!({"seed": 42, "randomize_seed": true}),
            json!({"seed": null}),
        ] {
            assert_eq!(read(arguments.clone()).recipe.seed, None, "{arguments}");
        }
        assert_eq!(read(json!({"seed": "18446744073709551615"})).recipe.seed, Some(Seed(u64::MAX)));
        let tool = |schema: Value| ListedTool {
            properties: json!({ "seed": schema }).as_object().unwrap().clone(),
            ..ListedTool::default()
        };
        let asked = |tool: &ListedTool| CallArguments::read(&json!({"seed": 0}), Some(tool), None).recipe.seed;
        assert_eq!(asked(&tool(json!({"type": "integer", "default": -1}))), Some(Seed(0)));
        assert_eq!(asked(&tool(json!({"default": 0}))), None);
    }

    #[test]
    fn inputs_are_distinguished_from_outputs() {
        for key in [
            "image",
            "image_path",
            "imagePath",
            "input_image_path_1",
            "reference_images",
            "image_url",
            "init_image",
            "imageFileUri",
            "image_data",
            "encoded_image",
            "imageURI",
            "image_urls",
            "file",
            "image_id",
            "asset_id",
        ] {
            assert!(is_input_key(key), "{key}");
        }
        for key in
            ["output_path", "fileName", "saveDir", "image_count", "image_size", "imageSize", "num_images", "prompt"]
        {
            assert!(!is_input_key(key), "{key}");
        }
    }
}
