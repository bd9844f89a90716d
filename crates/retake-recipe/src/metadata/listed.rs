//! Tools that list their settings in one text, with a separator between them: Mochi Diffusion in the description
//! (`Include in Image: a cube; Steps: 8; …; Generator: Mochi Diffusion 6.0`), and KoboldCpp in `parameters`
//! (`Prompt: a cube | Steps: 8 | … | Version: KoboldCpp`).

use serde_json::Value;

use super::Generator;
use super::container::Texts;
use super::fields::{self, Fields, at};
use super::midjourney::descriptions;

/// How a tool lists its settings.
struct Listing {
    generator: Generator,
    separator: &'static str,
    /// The setting that names the tool, and the beginning of its value.
    signature: (&'static str, &'static str),
    prompt: &'static str,
    negative: &'static str,
    guidance: &'static str,
}

const MOCHI: Listing = Listing {
    generator: Generator::MochiDiffusion,
    separator: "; ",
    signature: ("Generator", "Mochi Diffusion"),
    prompt: "Include in Image",
    negative: "Exclude from Image",
    guidance: "Guidance Scale",
};
const KOBOLD: Listing = Listing {
    generator: Generator::KoboldCpp,
    separator: " | ",
    signature: ("Version", "KoboldCpp"),
    prompt: "Prompt",
    negative: "NegativePrompt",
    guidance: "CFGScale",
};

/// Reads a list of settings.
pub(super) fn read(texts: &Texts) -> Option<Fields> {
    let parameters = texts.png("parameters").map(|index| (index, texts.text(index).to_owned()));
    let found = parameters.and_then(|(index, text)| settings(index, &text, &KOBOLD));
    found.or_else(|| descriptions(texts).find_map(|(index, text)| settings(index, &text, &MOCHI)))
}

fn settings(index: usize, text: &str, listing: &Listing) -> Option<Fields> {
    // The prompt is first, and may contain the separator.
    let rest = text.trim().strip_prefix(listing.prompt)?.strip_prefix(": ")?;
    let next = [listing.negative, "Model", "Steps"];
    let ends = next.iter().filter_map(|name| rest.find(&format!("{}{name}: ", listing.separator)));
    let (prompt, rest) = rest.split_at_checked(ends.min()?)?;
    let pairs: Vec<(&str, &str)> = rest.split(listing.separator).filter_map(|pair| pair.split_once(':')).collect();
    let value = |name: &str| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| value.trim());
    let (signature, tool) = listing.signature;
    if !value(signature)?.starts_with(tool) {
        return None;
    }
    let here = |name: &str| at(index, format!("`{name}`"));
    let json = |name: &str| value(name).map_or(Value::Null, fields::verbatim);
    let mut fields = Fields::of(listing.generator, here(signature));
    fields.prompt(here(listing.prompt), prompt);
    fields.negative(here(listing.negative), value(listing.negative).unwrap_or_default());
    fields.seed(here("Seed"), &json("Seed"));
    fields.steps(here("Steps"), &json("Steps"));
    fields.guidance(here(listing.guidance), &json(listing.guidance));
    fields.sampler(here("Sampler"), value("Sampler").unwrap_or_default());
    fields.scheduler(here("Scheduler"), value("Scheduler").unwrap_or_default());
    fields.model(here("Model"), value("Model").unwrap_or_default(), None);
    if let Some((width, height)) = value("Size").and_then(|size| size.split_once('x')) {
        fields.size(here("Size"), &fields::verbatim(width), &fields::verbatim(height));
    }
    let known = [listing.negative, listing.guidance, "Seed", "Steps", "Sampler", "Scheduler", "Model", "Size"];
    for (name, value) in pairs.iter().filter(|(name, value)| !known.contains(name) && !value.trim().is_empty()) {
        fields.parameter(name, fields::verbatim(value.trim()));
    }
    Some(fields)
}
