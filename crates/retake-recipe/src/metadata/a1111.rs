//! The text format of A1111 and compatible tools: Forge and its forks, SD.Next, Civitai, many ComfyUI savers.
//!
//! ```text
//! prompt, on one or more lines
//! Negative prompt: also on one or more lines
//! Steps: 20, Sampler: Euler a, CFG scale: 7, Seed: 1, Size: 512x512, Lora hashes: "a: 1f, b: 2e", Version: v1.10.1
//! ```
//! The last line contains parameters if it has at least three pairs, two of them known. Values may be quoted as in
//! JSON, or be JSON. Some tools write more lines after it.

use serde_json::Value;

use super::container::{Slot, Texts};
use super::fields::{Fields, at};
use super::{Evidence, Generator, Hires, InitHash, Pass, fields, json};

/// Keys that identify a line of parameters.
const KNOWN: [&str; 9] =
    ["Steps", "Seed", "Sampler", "CFG scale", "Size", "Model", "Model hash", "Denoising strength", "Version"];
/// Keys that fill a field of the recipe.
pub(super) const FIELDS: [&str; 10] = [
    "Steps",
    "Seed",
    "Sampler",
    "Schedule type",
    "Scheduler",
    "CFG scale",
    "Size",
    "Model",
    "Model hash",
    "Denoising strength",
];
/// The key of the program that wrote the text.
pub(super) const APP: &str = "App";
/// The key, in texts written by Retake, of the tool that made the image.
pub(super) const PROVIDER: &str = "Provider";
const RETAKE: &str = "Retake";
const NEGATIVE: &str = "Negative prompt:";

/// A parsed text.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Parsed {
    pub(super) prompt: String,
    pub(super) negative: Option<String>,
    pub(super) pairs: Vec<Pair>,
    /// Lines after the parameters.
    pub(super) rest: Vec<String>,
}

impl Parsed {
    /// Returns whether the values of the numbers are numbers.
    fn is_plausible(&self) -> bool {
        // A text may be cut off after the key.
        let is_number = |value: &str| value.trim().is_empty() || value.trim().parse::<f64>().is_ok();
        self.pairs.iter().all(|pair| match pair.key.as_str() {
            "Steps" | "Seed" | "CFG scale" => is_number(&pair.value),
            "Size" => pair.value.chars().all(|c| c.is_ascii_digit() || ['x', ' '].contains(&c)),
            _ => true,
        })
    }
}

/// A parameter.
#[derive(Debug, PartialEq)]
pub(super) struct Pair {
    pub(super) key: String,
    pub(super) value: String,
    /// Whether it was quoted, so that it is a text whatever it looks like.
    pub(super) quoted: bool,
}

/// Reads the first text of the file in A1111's format.
pub(super) fn read(texts: &Texts) -> Option<Fields> {
    let order = |index: &usize| texts.raw.get(*index).map_or(2, |raw| rank(&raw.slot, &raw.key));
    let mut candidates: Vec<usize> = (0..texts.raw.len()).filter(|index| order(index) < 2).collect();
    candidates.sort_by_key(order);
    // A prompt may be a JSON document, but a text that is JSON as a whole is another tool's record. Graphs are large,
    // so they are only parsed for this if necessary.
    let plain = |index: &usize| {
        let text = texts.text(*index);
        let braced = text.trim_start().starts_with(['{', '[']);
        let could_be = || ["Steps: ", "Seed: ", "App: Retake"].iter().any(|key| text.contains(key));
        !braced || (could_be() && texts.json(*index).is_none())
    };
    // Elsewhere a text may only be about such parameters.
    let is_own =
        |index: &usize| order(index) == 0 || parse(texts.text(*index)).is_some_and(|parsed| parsed.is_plausible());
    candidates.into_iter().filter(plain).filter(is_own).find_map(|index| read_text(texts, index))
}

/// Reads this text if it is in A1111's format.
pub(super) fn read_text(texts: &Texts, index: usize) -> Option<Fields> {
    let parsed = parse(texts.text(index))?;
    let mut fields = fill(&parsed, index);
    if let Some(extra) = texts.png("postprocessing").or_else(|| texts.png("extras")) {
        fields.parameter("postprocessing", texts.text(extra).into());
    }
    Some(fields)
}

/// Ranks the locations of such a text: `parameters` first, then any other; never XMP and C2PA.
fn rank(slot: &Slot, key: &str) -> u8 {
    match slot {
        Slot::PngChunk(_) | Slot::Pixels(_) if key == "parameters" => 0,
        Slot::Xmp | Slot::C2pa => 2,
        _ => 1,
    }
}

/// Parses a text; `None` if it has no line of parameters. The prompt may be a JSON document, which several models
/// accept.
pub(super) fn parse(text: &str) -> Option<Parsed> {
    let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\0');
    // In a format without keywords (a JPEG comment), some savers write the keyword before the text.
    let lines: Vec<&str> = text.strip_prefix("parameters: ").unwrap_or(text).lines().collect();
    let (at, line) =
        (0..lines.len()).rev().find_map(|at| lines.get(at).and_then(|line| Some((at, parameter_line(line)?))))?;
    let before: Vec<&str> = lines.iter().take(at).copied().chain(line.before).collect();
    // SD.Next writes the prompt as typed, before wildcards, in front of the parameters.
    let template = before.iter().skip(1).position(|line| line.starts_with("Template: ")).map(|at| at + 1);
    let (before, template) = before.split_at_checked(template.unwrap_or(before.len())).unwrap_or((&before, &[]));
    let (prompt, negative) = split_negative(before, lines.len() == 1);
    let rest = template.iter().chain(lines.iter().skip(at + 1)).map(|line| (*line).to_owned()).collect();
    Some(Parsed { prompt, negative, pairs: line.pairs, rest })
}

/// Splits prompt and negative prompt at the line that starts with the marker, or at the marker itself if a tool lost
/// the line breaks.
fn split_negative(lines: &[&str], one_line: bool) -> (String, Option<String>) {
    let opens = |line: &&str| line.trim_start().starts_with(NEGATIVE) || (one_line && line.contains(NEGATIVE));
    let Some(at) = lines.iter().position(opens) else { return (lines.join("\n"), None) };
    let (before, from) = lines.split_at_checked(at).unwrap_or((lines, &[]));
    let from = from.join("\n");
    let (same_line, negative) = from.split_once(NEGATIVE).unwrap_or(("", &from));
    let prompt = if before.is_empty() { same_line.to_owned() } else { before.join("\n") };
    (prompt, Some(negative.to_owned()))
}

/// A line of parameters.
struct Line<'a> {
    /// The text before them on the same line.
    before: Option<&'a str>,
    pairs: Vec<Pair>,
}

/// Parses a line of parameters into its pairs and the text before them.
fn parameter_line(line: &str) -> Option<Line<'_>> {
    let known = |pair: &Pair| KNOWN.contains(&pair.key.as_str());
    let ours = |pair: &Pair| pair.key == APP && pair.value == RETAKE;
    let enough = |pairs: &[Pair]| {
        (pairs.len() >= 3 && pairs.iter().filter(|pair| known(pair)).count() >= 2) || pairs.last().is_some_and(ours)
    };
    let whole = || Some(pairs(line)).filter(|pairs| enough(pairs)).map(|pairs| Line { before: None, pairs });
    let found = pairs(line);
    let field = |pair: &Pair| known(pair) || FIELDS.contains(&pair.key.as_str());
    if found.first().is_some_and(field) || found.last().is_some_and(ours) {
        return whole();
    }
    // A prompt before it on the same line.
    if let Some(start) = line.match_indices("Steps: ").map(|(at, _)| at).find(|at| {
        let behind_space = line.get(..*at).is_some_and(|before| before.ends_with(char::is_whitespace));
        behind_space && line.get(at + 7..).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    }) {
        let (before, rest) = line.split_at_checked(start)?;
        // `Sampler: x, Steps: 20` is all parameters.
        let comma = before.trim_end().ends_with(',') && !pairs(before).is_empty() && !before.contains(NEGATIVE);
        let found = pairs(rest);
        if !comma && enough(&found) {
            return Some(Line { before: Some(before), pairs: found });
        }
    }
    whole()
}

/// Parses `key: value, key: "value, quoted", key: {"a": 1}`.
fn pairs(line: &str) -> Vec<Pair> {
    const MOST: usize = 2000;
    let mut found = Vec::new();
    let mut rest = line;
    while found.len() < MOST {
        rest = rest.trim_start_matches(|c: char| c.is_whitespace() || c == ',');
        let Some((key, tail)) = key(rest) else {
            // Not a pair: continue after the next comma.
            match rest.split_once(',') {
                Some((_, tail)) => rest = tail,
                None => break,
            }
            continue;
        };
        let (value, quoted, tail) = value(tail);
        found.push(Pair { key: key.to_owned(), value, quoted });
        rest = tail;
    }
    found
}

/// Characters that do not occur in keys.
const NOT_IN_KEYS: [char; 7] = [':', ',', '"', '{', '[', '<', '\n'];

/// Returns whether a line of parameters can contain this key.
pub(super) fn is_key(key: &str) -> bool {
    const LONGEST: usize = 100;
    let begins = key.starts_with(|c: char| c.is_alphanumeric() || c == '_');
    begins && key.len() <= LONGEST && key.trim() == key && !key.contains(NOT_IN_KEYS) && !key.contains('\r')
}

/// Returns a key and the text after its colon.
fn key(text: &str) -> Option<(&str, &str)> {
    let (key, tail) = text.split_at_checked(text.find(NOT_IN_KEYS)?)?;
    let tail = tail.strip_prefix(':')?;
    let key = key.trim_end();
    is_key(key).then_some((key, tail.trim_start_matches(' ')))
}

/// Returns a value, whether it was quoted, and the text after it.
fn value(text: &str) -> (String, bool, &str) {
    let ended = |rest: &str| rest.trim_start().is_empty() || rest.trim_start().starts_with(',');
    if let Some((quoted, rest)) = quoted(text).filter(|(_, rest)| ended(rest)) {
        // A tool that only put quotes around a value has not escaped anything.
        let inner = || quoted.trim_matches('"').to_owned();
        return (serde_json::from_str(quoted).unwrap_or_else(|_| inner()), true, rest);
    }
    if let Some((json, rest)) = bracketed(text).filter(|(_, rest)| ended(rest)) {
        return (json.to_owned(), false, rest);
    }
    let (value, rest) = text.split_once(',').unwrap_or((text, ""));
    (value.trim().to_owned(), false, rest)
}

/// Returns the quoted text at the beginning, including its quotes.
fn quoted(text: &str) -> Option<(&str, &str)> {
    let mut escaped = false;
    let inside = text.strip_prefix('"')?;
    let end = inside.find(|c: char| {
        let ends = c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        ends
    })?;
    text.split_at_checked(end + 2)
}

/// Returns the JSON at the beginning, up to its closing bracket.
fn bracketed(text: &str) -> Option<(&str, &str)> {
    if !text.starts_with(['{', '[']) {
        return None;
    }
    let (mut depth, mut quoted, mut escaped) = (0usize, false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'{' | b'[' if !quoted => depth += 1,
            b'}' | b']' if !quoted => {
                depth -= 1;
                if depth == 0 {
                    return text.split_at_checked(at + 1);
                }
            }
            _ => {}
        }
    }
    None
}

fn fill(parsed: &Parsed, index: usize) -> Fields {
    let get = |key: &str| parsed.pairs.iter().find(|pair| pair.key == key).map(|pair| pair.value.as_str());
    let (generator, rule) = generator(&get);
    let mut fields = Fields::of(generator, at(index, rule));
    fields.prompt(at(index, "the lines before `Negative prompt:` and the parameters"), &parsed.prompt);
    fields.negative(
        at(index, "the lines from `Negative prompt:` to the parameters"),
        parsed.negative.as_deref().unwrap_or(""),
    );
    for Pair { key, value, quoted } in &parsed.pairs {
        let from = at(index, format!("parameter `{key}`"));
        let json = Value::from(value.as_str());
        let taken = match key.as_str() {
            "Steps" => fields.steps(from, &json),
            "Seed" => fields.seed(from, &json),
            "Sampler" => fields.sampler(from, value),
            "Schedule type" | "Scheduler" => fields.scheduler(from, value),
            "CFG scale" => fields.guidance(from, &json),
            "Size" => size(value).is_some_and(|(width, height)| fields.size(from, &width.into(), &height.into())),
            "Model" => fields.model(from, value, Some("Model")),
            // stable-diffusion.cpp lists the parts of a model that come in separate files.
            "Unet" if get("Model").is_none_or(str::is_empty) => fields.model(from, value, Some("Unet")),
            "Model hash" => fields.model_hash(from, value),
            "Denoising strength" => fields.denoise(from, &json),
            PROVIDER if get(APP) == Some(RETAKE) => {
                fields.recipe.provider = Some(value.clone());
                true
            }
            APP if value == RETAKE => {
                // Without a provider, the tool is unknown.
                if get(PROVIDER).is_none() {
                    fields.recipe.provider = None;
                }
                true
            }
            "Created Date" => {
                fields.created(value);
                false
            }
            _ => false,
        };
        if !taken {
            fields.parameter(key, if *quoted { value.as_str().into() } else { fields::verbatim(value) });
        }
    }
    lines_behind(&parsed.rest, &mut fields);
    for (name, weight) in loras(&parsed.prompt) {
        fields.lora(at(index, "`<lora:…>` in the prompt"), name, weight);
    }
    civitai_resources(get("Civitai resources"), index, &mut fields);
    fields.evidence = evidence(&get);
    passes(&get, &mut fields);
    fields
}

/// Returns the tool that wrote a text: by `App`, by `Version`, or by keys that only one tool writes.
fn generator<'a>(get: &impl Fn(&str) -> Option<&'a str>) -> (Generator, String) {
    let version = get("Version").unwrap_or_default();
    let forge =
        version.strip_prefix('f').filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit()) && rest.contains("."));
    let by_version = |generator| (generator, format!("`Version: {version}`"));
    if let Some(app) = get("App").filter(|app| app.starts_with("SD.Next")) {
        return (Generator::SdNext, format!("`App: {app}`"));
    }
    if let Some(provider) = get(PROVIDER).filter(|_| get(APP) == Some(RETAKE)) {
        let known = Generator::ALL.iter().find(|generator| generator.name() == provider);
        return (known.copied().unwrap_or(Generator::A1111), format!("`Provider: {provider}`, as Retake wrote it"));
    }
    match version {
        "ComfyUI" => return by_version(Generator::ComfyUi),
        _ if version.starts_with("stable-diffusion.cpp") => return by_version(Generator::StableDiffusionCpp),
        _ if version.starts_with("FooocusPlus") => return by_version(Generator::FooocusPlus),
        _ if version.starts_with("Fooocus") => return by_version(Generator::Fooocus),
        _ if version.starts_with("classic") => return by_version(Generator::ForgeClassic),
        _ if version.starts_with("neo") => return by_version(Generator::ForgeNeo),
        // `f2.0.1v1.10.1-previous…` is Forge, `f1.0.0v2-v1.10.1RC-latest…` is reForge.
        _ if forge.is_some_and(|rest| rest.contains("-v1.")) => return by_version(Generator::ReForge),
        _ if forge.is_some() => return by_version(Generator::Forge),
        _ if version.starts_with("v1.") => return by_version(Generator::A1111),
        _ => {}
    }
    for (key, generator) in [
        ("Civitai resources", Generator::Civitai),
        ("Civitai metadata", Generator::Civitai),
        ("Pipeline", Generator::SdNext),
        ("Operations", Generator::SdNext),
        ("Backend", Generator::SdNext),
    ] {
        if get(key).is_some() {
            return (generator, format!("parameter `{key}`"));
        }
    }
    (Generator::A1111, "A1111's form, and no other tool is named".to_owned())
}

/// Parses `512x768`.
pub(super) fn size(text: &str) -> Option<(u32, u32)> {
    let (width, height) = text.split_once(['x', 'X', '×'])?;
    Some((width.trim().parse().ok()?, height.trim().parse().ok()?))
}

/// Returns the LoRAs in a prompt: `<lora:name:0.8>` and `<lyco:name:0.8>`, with weight 1 if none is given.
pub(super) fn loras(prompt: &str) -> Vec<(&str, f64)> {
    let tags = prompt.split('<').skip(1).filter_map(|tag| tag.split_once('>'));
    tags.filter_map(|(tag, _)| {
        let tag = tag.strip_prefix("lora:").or_else(|| tag.strip_prefix("lyco:"))?;
        let mut parts = tag.split(':');
        let name = parts.next().filter(|name| !name.trim().is_empty())?;
        let weight = parts.next().map_or(Some(1.0), |weight| weight.trim().parse().ok())?;
        Some((name, weight)).filter(|(_, weight): &(&str, f64)| weight.is_finite())
    })
    .collect()
}

/// Reads `Template:` and `Negative Template:`, each of which extends to the next.
fn lines_behind(lines: &[String], fields: &mut Fields) {
    let mut template: Option<(&str, String)> = None;
    for line in lines {
        let opened = ["Template", "Negative Template"].into_iter().find_map(|key| {
            let rest = line.strip_prefix(key)?.strip_prefix(':')?;
            Some((key, rest.trim_start().to_owned()))
        });
        match (opened, &mut template) {
            (Some(opened), _) => {
                if let Some((key, text)) = template.replace(opened) {
                    fields.parameter(key, text.into());
                }
            }
            (None, Some((_, text))) => {
                text.push('\n');
                text.push_str(line);
            }
            (None, None) if line.trim().is_empty() => {}
            (None, None) => fields.notes.push("there is text after the parameters; see the raw text".to_owned()),
        }
    }
    if let Some((key, text)) = template {
        fields.parameter(key, text.trim_end().into());
    }
}

/// Reads the model and the LoRAs that Civitai's own generator only lists here.
fn civitai_resources(text: Option<&str>, index: usize, fields: &mut Fields) {
    let Some(Value::Array(resources)) = text.and_then(json::parse) else { return };
    for resource in resources.iter().filter_map(Value::as_object) {
        let Some(name) = fields::string(resource, "modelName") else { continue };
        match resource.get("type").and_then(Value::as_str) {
            Some("checkpoint") => {
                fields.model(at(index, "the checkpoint in `Civitai resources`"), &name, None);
            }
            Some("lora" | "lycoris" | "dora" | "locon") => {
                let weight = resource.get("weight").and_then(fields::number).unwrap_or(1.0);
                fields.lora(at(index, "the LoRAs in `Civitai resources`"), &name, weight);
            }
            _ => {}
        }
    }
}

fn evidence<'a>(get: &impl Fn(&str) -> Option<&'a str>) -> Evidence {
    let hires = ["Hires upscale", "Hires resize", "Hires upscaler"].iter().any(|key| get(key).is_some());
    let hash = get("Init image hash").filter(|hash| hash.len() == 32 && hash.bytes().all(|b| b.is_ascii_hexdigit()));
    Evidence {
        init_hashes: hash.map(|hash| InitHash::PixelsMd5(hash.to_ascii_lowercase())).into_iter().collect(),
        image_names: Vec::new(),
        from_image: hash.is_some() || get("Mask blur").is_some() || (get("Denoising strength").is_some() && !hires),
        hires: hires.then(|| Hires {
            scale: get("Hires upscale").and_then(|scale| scale.parse().ok()),
            upscaler: get("Hires upscaler").map(str::to_owned),
        }),
    }
}

fn passes<'a>(get: &impl Fn(&str) -> Option<&'a str>, fields: &mut Fields) {
    let recipe = &fields.recipe;
    let hires = fields.evidence.hires.is_some();
    let base = Pass {
        name: "first pass".to_owned(),
        seed: recipe.seed.map(|seed| seed.0),
        steps: recipe.steps,
        guidance_scale: recipe.guidance_scale,
        sampler: recipe.sampler.clone(),
        scheduler: recipe.scheduler.clone(),
        denoise: recipe.denoise.filter(|_| !hires),
    };
    let text = |key: &str, or: &Option<String>| get(key).map(str::to_owned).or_else(|| or.clone());
    let second = hires.then(|| Pass {
        name: "hires pass".to_owned(),
        steps: get("Hires steps").and_then(|steps| steps.parse().ok()).filter(|steps| *steps > 0).or(base.steps),
        guidance_scale: get("Hires CFG Scale").and_then(|scale| scale.parse().ok()).or(base.guidance_scale),
        sampler: text("Hires sampler", &base.sampler),
        scheduler: text("Hires schedule type", &base.scheduler),
        denoise: recipe.denoise,
        seed: base.seed,
    });
    fields.passes = std::iter::once(base).chain(second).collect();
}
