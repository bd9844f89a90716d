//! The fields found by a reader. Every value is checked against the limits of a recipe, so that a reading can be
//! recorded; values that do not fit a field are kept in `parameters`, or else in the raw text.

use serde_json::{Map, Number, Value};

use super::container::Texts;
use super::{Candidate, Created, Evidence, Generator, Pass, Precision, Source, json};
use crate::recipe::{MAX_LIST, MAX_NAME_BYTES, MAX_PARAMETERS_BYTES, MAX_PROMPT_BYTES, MAX_SIDE, check_name};
use crate::{Hash, Lora, Recipe, Seed, Timestamp};

/// Extensions of model files, which are not part of a model's name.
const MODEL_EXTENSIONS: [&str; 9] =
    [".safetensors", ".ckpt", ".gguf", ".sft", ".pth", ".pt", ".bin", ".onnx", ".diffusers"];

/// The seed that means any seed.
pub const ANY_SEED: &str = "-1";

/// The fields found by a reader.
#[derive(Debug, Default)]
pub(super) struct Fields {
    pub(super) generator: Option<Generator>,
    pub(super) recipe: Recipe,
    pub(super) sources: Vec<Source>,
    pub(super) passes: Vec<Pass>,
    pub(super) created_at: Option<Created>,
    pub(super) run_key: Option<Hash>,
    pub(super) workflow_fingerprint: Option<Hash>,
    pub(super) evidence: Evidence,
    pub(super) notes: Vec<String>,
    pub(super) candidates: Vec<Candidate>,
    /// The location of a seed of -1, which means any seed.
    any_seed: Option<At>,
}

/// The location of a value: the text and the rule.
#[derive(Clone, Debug)]
pub(super) struct At {
    raw: Option<usize>,
    rule: String,
}

/// Creates a location from the index of a text and a rule.
pub(super) fn at(raw: usize, rule: impl Into<String>) -> At {
    At { raw: Some(raw), rule: rule.into() }
}

/// Setters return whether the value fits the field; a field that is already set is kept.
impl Fields {
    /// Creates empty fields for a generator that was recognised there.
    pub(super) fn of(generator: Generator, at: At) -> Fields {
        let mut fields = Fields::default();
        fields.known_as(generator, at);
        fields
    }

    /// Sets the generator.
    pub(super) fn known_as(&mut self, generator: Generator, at: At) {
        self.generator = Some(generator);
        self.recipe.provider = Some(generator.name().to_owned());
        self.sources.retain(|source| source.field != "provider");
        self.source("provider", at);
    }

    /// Returns the location by which the generator was recognised.
    pub(super) fn by(&self) -> At {
        let source = self.sources.iter().find(|source| source.field == "provider");
        At {
            raw: source.and_then(|source| source.raw),
            rule: source.map(|source| source.rule.clone()).unwrap_or_default(),
        }
    }

    /// Returns whether anything was found that states how the image was made.
    pub(super) fn any(&self) -> bool {
        let recipe = &self.recipe;
        !recipe.prompt.is_empty() || recipe.seed.is_some() || recipe.steps.is_some()
    }

    /// Sets the prompt as typed.
    pub(super) fn prompt(&mut self, at: At, text: &str) -> bool {
        let Some(text) = self.long("prompt", text) else { return false };
        if self.recipe.prompt.is_empty() {
            self.recipe.prompt = text;
            self.source("prompt", at);
        }
        true
    }

    /// Sets the prompt as sent, if it differs from the prompt as typed.
    pub(super) fn prompt_sent(&mut self, at: At, text: &str) -> bool {
        let Some(text) = self.long("promptSent", text) else { return false };
        if self.recipe.prompt_sent.is_none() && text != self.recipe.prompt {
            self.recipe.prompt_sent = Some(text);
            self.source("promptSent", at);
        }
        true
    }

    /// Sets the negative prompt.
    pub(super) fn negative(&mut self, at: At, text: &str) -> bool {
        let Some(text) = self.long("negativePrompt", text) else { return false };
        if self.recipe.negative_prompt.is_none() {
            self.recipe.negative_prompt = Some(text);
            self.source("negativePrompt", at);
        }
        true
    }

    /// Sets the model: its name without folder and extension, so that it is the same for all tools. If the full name
    /// differs, it is kept in `parameters` under `key`.
    pub(super) fn model(&mut self, at: At, name: &str, key: Option<&str>) -> bool {
        let short = model_name(name);
        let Some(fits) = fitting(short) else { return false };
        if self.recipe.model.is_none() {
            if let Some(key) = key.filter(|_| short != name.trim()) {
                self.parameter(key, name.trim().into());
            }
            self.recipe.model = Some(fits);
            self.source("model", at);
        }
        true
    }

    /// Sets the hash of the model.
    pub(super) fn model_hash(&mut self, at: At, text: &str) -> bool {
        let Some(fits) = fitting(text) else { return false };
        if self.recipe.model_hash.is_none() {
            self.recipe.model_hash = Some(fits);
            self.source("modelHash", at);
        }
        true
    }

    /// Sets the sampler.
    pub(super) fn sampler(&mut self, at: At, text: &str) -> bool {
        let Some(fits) = fitting(text) else { return false };
        if self.recipe.sampler.is_none() {
            self.recipe.sampler = Some(fits);
            self.source("sampler", at);
        }
        true
    }

    /// Sets the scheduler.
    pub(super) fn scheduler(&mut self, at: At, text: &str) -> bool {
        let Some(fits) = fitting(text) else { return false };
        if self.recipe.scheduler.is_none() {
            self.recipe.scheduler = Some(fits);
            self.source("scheduler", at);
        }
        true
    }

    /// Sets the seed; -1 means any seed and is not set.
    pub(super) fn seed(&mut self, at: At, value: &Value) -> bool {
        let Some(seed) = seed(value) else {
            if self.any_seed.is_none() && json::plain(value).is_some_and(|text| text.trim() == ANY_SEED) {
                self.any_seed = Some(at);
            }
            return false;
        };
        if self.recipe.seed.is_none() {
            self.recipe.seed = Some(Seed(seed));
            self.source("seed", at);
        }
        true
    }

    /// Sets the steps.
    pub(super) fn steps(&mut self, at: At, value: &Value) -> bool {
        let Some(steps) = whole(value) else { return false };
        if self.recipe.steps.is_none() {
            self.recipe.steps = Some(steps);
            self.source("steps", at);
        }
        true
    }

    /// Sets the guidance scale.
    pub(super) fn guidance(&mut self, at: At, value: &Value) -> bool {
        let Some(scale) = number(value).filter(|scale| scale.abs() <= 1e6) else { return false };
        if self.recipe.guidance_scale.is_none() {
            self.recipe.guidance_scale = Some(scale);
            self.source("guidanceScale", at);
        }
        true
    }

    /// Sets the denoising strength.
    pub(super) fn denoise(&mut self, at: At, value: &Value) -> bool {
        let Some(strength) = number(value).filter(|strength| (0.0..=1.0).contains(strength)) else { return false };
        if self.recipe.denoise.is_none() {
            self.recipe.denoise = Some(strength);
            self.source("denoise", at);
        }
        true
    }

    /// Sets the requested size.
    pub(super) fn size(&mut self, at: At, width: &Value, height: &Value) -> bool {
        let side = |side| whole(side).filter(|side| (1..=MAX_SIDE).contains(side));
        let (Some(width), Some(height)) = (side(width), side(height)) else { return false };
        if self.recipe.width.is_none() && self.recipe.height.is_none() {
            (self.recipe.width, self.recipe.height) = (Some(width), Some(height));
            self.source("width", at.clone());
            self.source("height", at);
        }
        true
    }

    /// Adds a LoRA.
    pub(super) fn lora(&mut self, at: At, name: &str, weight: f64) -> bool {
        let Some(name) = fitting(model_name(name)) else { return false };
        let fits = weight.abs() <= 1e6 && self.recipe.loras.len() < MAX_LIST;
        let lora = Lora::new(name, weight);
        if fits && !self.recipe.loras.contains(&lora) {
            if self.recipe.loras.is_empty() {
                self.source("loras", at);
            }
            self.recipe.loras.push(lora);
        }
        fits
    }

    /// Stores another value under the generator's own name.
    pub(super) fn parameter(&mut self, key: &str, value: Value) {
        if !value.is_null() && !self.recipe.parameters.contains_key(key) {
            self.recipe.parameters.insert(key.to_owned(), value);
        }
    }

    /// Stores all values of an object except those under these keys.
    pub(super) fn parameters_but(&mut self, object: &Map<String, Value>, known: &[&str]) {
        for (key, value) in object.iter().filter(|(key, _)| !known.contains(&key.as_str())) {
            self.parameter(key, value.clone());
        }
    }

    /// Fills in missing fields from another reading of the same file.
    pub(super) fn fill_from(&mut self, other: Fields) {
        let Fields {
            recipe,
            sources,
            passes,
            created_at,
            run_key,
            workflow_fingerprint,
            evidence,
            notes,
            any_seed,
            candidates,
            ..
        } = other;
        self.any_seed = self.any_seed.take().or(any_seed);
        let mine = &mut self.recipe;
        let mut taken = Vec::new();
        let mut take = |field: &'static str, lacking: bool| {
            taken.extend(lacking.then_some(field));
            lacking
        };
        macro_rules! fill {
            ($($field:ident $name:literal),*) => {
                $(if mine.$field.is_none() && recipe.$field.is_some() && take($name, true) {
                    mine.$field = recipe.$field;
                })*
            };
        }
        if take("prompt", mine.prompt.is_empty()) {
            mine.prompt = recipe.prompt;
        }
        if take("loras", mine.loras.is_empty()) {
            mine.loras = recipe.loras;
        }
        fill!(
            prompt_sent "promptSent", negative_prompt "negativePrompt", model "model", model_hash "modelHash", seed "seed",
            steps "steps", guidance_scale "guidanceScale", sampler "sampler", scheduler "scheduler", width "width",
            height "height", denoise "denoise"
        );
        self.sources.extend(sources.into_iter().filter(|source| taken.contains(&source.field)));
        for (key, value) in recipe.parameters {
            self.parameter(&key, value);
        }
        if !passes.is_empty() {
            self.passes = passes;
        }
        self.created_at = self.created_at.or(created_at);
        self.run_key = run_key.or(self.run_key);
        self.workflow_fingerprint = self.workflow_fingerprint.or(workflow_fingerprint);
        self.evidence.init_hashes.extend(evidence.init_hashes);
        self.evidence.image_names.extend(evidence.image_names);
        self.evidence.from_image |= evidence.from_image;
        self.evidence.hires = self.evidence.hires.take().or(evidence.hires);
        self.notes.extend(notes);
        self.candidates.extend(candidates.into_iter().filter(|candidate| taken.contains(&candidate.field)));
    }

    /// Sets when the image was made.
    pub(super) fn created(&mut self, text: &str) {
        self.created_at = self.created_at.or_else(|| created(text));
    }

    /// Records the source of a field.
    fn source(&mut self, field: &'static str, at: At) {
        self.sources.push(Source { field, raw: at.raw, rule: at.rule });
    }

    /// Returns a longer text in recordable form: without surrounding white space and control characters.
    fn long(&mut self, field: &str, text: &str) -> Option<String> {
        let kept = |c: char| !c.is_control() || matches!(c, '\n' | '\r' | '\t');
        let text = text.trim_matches(|c: char| c.is_whitespace() || !kept(c));
        if text.is_empty() {
            return None;
        }
        if text.len() > MAX_PROMPT_BYTES {
            self.notes.push(format!("{field}: {} bytes are too long for a recipe; see the raw text", text.len()));
            return None;
        }
        if text.chars().all(kept) {
            return Some(text.to_owned());
        }
        self.notes.push(format!("{field}: control characters were left out"));
        Some(text.chars().filter(|c| kept(*c)).collect())
    }

    /// Completes the fields in ways that are common to all generators.
    pub(super) fn complete(&mut self, texts: &Texts) {
        if self.generator.is_none() {
            return;
        }
        if let (None, Some(At { raw, rule })) = (self.recipe.seed, self.any_seed.take()) {
            // A recipe has no field for it, so it is kept in the parameters unless the reader already did so.
            if !self.recipe.parameters.keys().any(|key| key.eq_ignore_ascii_case("seed")) {
                self.parameter("seed", ANY_SEED.into());
            }
            self.source("seed", At { raw, rule: format!("{rule}: it stands for any seed") });
        }
        let bytes = |recipe: &Recipe| serde_json::to_string(&recipe.parameters).map_or(usize::MAX, |text| text.len());
        // Escaping makes the JSON of a text at most six times as long.
        while texts.taken() > MAX_PARAMETERS_BYTES / 6 && bytes(&self.recipe) > MAX_PARAMETERS_BYTES {
            let size = |value: &Value| value.to_string().len();
            let parameters = &self.recipe.parameters;
            let Some(largest) = parameters.iter().max_by_key(|(_, value)| size(value)).map(|(key, _)| key.clone())
            else {
                break;
            };
            self.recipe.parameters.shift_remove(&largest);
            self.notes.push(format!("{largest:?} is too large for a recipe; see the raw text"));
        }
        if self.run_key.is_none() && self.any() {
            let mut same = Recipe { seed: None, ..self.recipe.clone() };
            // The place of an image in its batch is not what the batch was asked for.
            same.parameters.retain(|name, _| !name.eq_ignore_ascii_case("batch pos"));
            self.run_key = serde_json::to_vec(&same).ok().map(|bytes| Hash::of(&bytes));
        }
        if let (true, Some(width), Some(height)) = (self.any(), texts.width, texts.height) {
            let own = At {
                raw: None,
                rule: "the size of the image itself, since no text says what was asked for".to_owned(),
            };
            self.size(own, &width.into(), &height.into());
        }
    }
}

/// Returns a model's name without folder and extension. A name without the extension of a model file is kept in full:
/// it may be a repository such as `black-forest-labs/FLUX.1-dev`.
pub(super) fn model_name(name: &str) -> &str {
    let name = name.trim();
    let lower = name.to_ascii_lowercase();
    let Some(extension) = MODEL_EXTENSIONS.iter().find(|extension| lower.ends_with(*extension)) else { return name };
    let stem = name.get(..name.len() - extension.len()).unwrap_or(name);
    let short = stem.rsplit(['/', '\\']).next().unwrap_or(stem).trim();
    if short.is_empty() { name } else { short }
}

/// Parses a seed from a number or its digits.
pub(super) fn seed(value: &Value) -> Option<u64> {
    match value {
        Value::Number(number) => number.as_u64().or_else(|| whole_number(number.as_f64()?)),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

/// Parses a whole number, including `20.0` and `"20"`.
pub(super) fn whole(value: &Value) -> Option<u32> {
    match value {
        Value::Number(number) => number.as_u64().or_else(|| whole_number(number.as_f64()?)),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
    .and_then(|number: u64| u32::try_from(number).ok())
}

/// Parses a number, including one written as text.
pub(super) fn number(value: &Value) -> Option<f64> {
    let number = match value {
        Value::Number(number) => number.as_f64()?,
        Value::String(text) => text.trim().parse().ok()?,
        _ => return None,
    };
    number.is_finite().then_some(number)
}

/// Returns a text as JSON: an object or a list; a number or a boolean that formats to the same text; otherwise a
/// string.
pub(super) fn verbatim(text: &str) -> Value {
    let number = || text.parse::<Number>().ok().filter(|number| number.to_string() == text).map(Value::Number);
    match text {
        "true" | "false" => Value::Bool(text == "true"),
        _ => json::parse(text).or_else(number).unwrap_or_else(|| Value::String(text.to_owned())),
    }
}

/// Parses a day (`2026-01-03`) or an RFC 3339 time, also with a space instead of the `T`.
pub(super) fn created(text: &str) -> Option<Created> {
    let text = text.trim();
    if let Ok(at) = text.parse::<Timestamp>().or_else(|_| text.replacen(' ', "T", 1).parse::<Timestamp>()) {
        return Some(Created { at, precision: Precision::Second });
    }
    let at = (text.len() == 10).then(|| format!("{text}T00:00:00Z").parse().ok()).flatten()?;
    Some(Created { at, precision: Precision::Day })
}

/// Returns the string under a key, or the digits of a number.
pub(super) fn string(object: &Map<String, Value>, key: &str) -> Option<String> {
    object.get(key).and_then(json::plain)
}

fn whole_number(number: f64) -> Option<u64> {
    let exact = (0.0..9e15).contains(&number) && number.fract() == 0.0;
    // The text of a whole float is its digits; a cast could truncate.
    exact.then(|| format!("{number:.0}").parse().ok()).flatten()
}

/// Returns a name if it is within the limits of a recipe.
fn fitting(name: &str) -> Option<String> {
    let name = name.trim();
    (name.len() <= MAX_NAME_BYTES && check_name("", name).is_ok()).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_the_same_whichever_tool_wrote_them() {
        for (written, name) in [
            ("SDXL\\juggernaut XL.v9.safetensors", "juggernaut XL.v9"),
            ("models/sd/v1-5.ckpt", "v1-5"),
            ("v1-5", "v1-5"),
            ("flux1-dev-Q8_0.GGUF", "flux1-dev-Q8_0"),
            ("black-forest-labs/FLUX.1-dev", "black-forest-labs/FLUX.1-dev"),
            (".safetensors", ".safetensors"),
        ] {
            assert_eq!(model_name(written), name);
        }
    }

    #[test]
    fn numbers_in_any_notation() {
        assert_eq!(seed(&Value::from(u64::MAX)), Some(u64::MAX));
        assert_eq!(seed(&"6952411511246973023".into()), Some(6_952_411_511_246_973_023));
        assert_eq!(seed(&(-1).into()), None);
        assert_eq!(seed(&"-1".into()), None);
        assert_eq!((whole(&20.0.into()), whole(&20.5.into()), whole(&"7".into())), (Some(20), None, Some(7)));
        assert_eq!(number(&"inf".into()), None);
        assert_eq!(verbatim("7"), Value::from(7));
        assert_eq!(verbatim("7.50"), Value::from("7.50"));
    }

    #[test]
    fn times_have_a_precision() {
        let day = created("2026-01-03").unwrap();
        assert_eq!((day.at.to_string().as_str(), day.precision), ("2026-01-03T00:00:00.000Z", Precision::Day));
        let time = created("2026-07-01T19:12:31.6490025Z").unwrap();
        assert_eq!((time.at.to_string().as_str(), time.precision), ("2026-07-01T19:12:31.649Z", Precision::Second));
        assert_eq!(created("3.68e-05"), None);
    }
}
