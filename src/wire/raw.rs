//! `show --raw`: the generation metadata of an image file, field by field, whether or not the image was recorded.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::images::metadata::{self, Precision, Reading};
use crate::images::{Header, is_decoded, is_video};
use crate::model::Timestamp;

use crate::workspace;

use super::{Api, Error};

/// The generation metadata of an image file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RawView {
    /// The file, or the reference that was asked for.
    pub file: String,
    /// The tool that made it; null if no reader recognised it.
    pub generator: Option<String>,
    /// What was found of the recipe, under the names that recipes have everywhere. Nothing in it is guessed.
    pub recipe: Map<String, Value>,
    /// When it was made, as the file says (UTC).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Timestamp>,
    /// Present and true when only the day is known.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub only_the_day: bool,
    /// The image itself.
    pub images: Vec<RawImage>,
    /// Every text of the file, verbatim.
    pub raw: Vec<RawEntry>,
    /// Where each field of the recipe came from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<RawSource>,
    /// The sampling passes, where there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub passes: Vec<RawPass>,
    /// What could not be read, and notes on what was.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Whether the file was searched for texts: its format is known and has a place for them.
    #[serde(skip)]
    pub searched: bool,
}

/// The image in a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RawImage {
    /// Its media type, detected from its first bytes.
    pub mime_type: String,
    /// The size of the file.
    pub bytes: u64,
    /// Its width in pixels, where it could be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub width: Option<u32>,
    /// Its height in pixels, where it could be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub height: Option<u32>,
}

/// A text of the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RawEntry {
    /// The structure that contains it, and its offset in the file.
    #[serde(rename = "where")]
    pub place: String,
    /// Its name there.
    pub key: String,
    /// The text.
    pub text: String,
}

/// Where a field came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RawSource {
    /// The field of the recipe.
    pub field: String,
    /// Which of the `raw` texts, from 0; absent when it is from none of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw: Option<usize>,
    /// How it was found there.
    pub rule: String,
}

/// A sampling pass.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RawPass {
    /// What it is called in the file.
    pub name: String,
    /// What it was given, under the names that recipes have.
    #[serde(flatten)]
    pub settings: Map<String, Value>,
}

/// Reads the metadata of an image file, without a workspace.
pub fn raw_file(path: &Path) -> Result<RawView, Error> {
    let invalid = |problem, source| workspace::Error::InvalidPath {
        path: path.to_owned(),
        problem,
        hint: "pass the path of an image file, or a reference",
        source,
    };
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => invalid("no such file", Some(error)),
        _ => workspace::Error::io("read the image", path, error),
    };
    let about = fs::metadata(path).map_err(failed)?;
    if !about.is_file() {
        return Err(invalid("not a regular file", None).into());
    }
    let reading = metadata::read_file(path).map_err(failed)?;
    let mut head = Vec::new();
    if reading.format.is_none() {
        File::open(path).and_then(|file| file.take(64).read_to_end(&mut head)).map_err(failed)?;
    }
    Ok(view(path.to_string_lossy().into_owned(), about.len(), Header::of(&head).mime_type, reading))
}

impl Api<'_> {
    /// Reads the metadata of an iteration's image: the one named, or the first.
    pub fn raw(&self, reference: &str) -> Result<RawView, Error> {
        let reference = self.resolve_exactly(reference)?;
        let image = self.workspace.image_ref(reference.iteration, reference.image_number())?;
        // A video can be many times larger than its texts, which are read from the file instead.
        if is_video(&image.mime_type)
            && let Some(video) = self.workspace.open_video(image.hash)?
        {
            let failed = |error| workspace::Error::io("read the video", &self.workspace.original_path(&image), error);
            let reading = metadata::read_from(&video.file).map_err(failed)?;
            return Ok(view(reference.to_string(), video.bytes, video.mime_type, reading));
        }
        let (image, data) = self.workspace.image(reference.iteration, reference.image_number())?;
        Ok(view(reference.to_string(), image.bytes, Header::of(&data).mime_type, metadata::read(&data)))
    }
}

fn view(file: String, bytes: u64, other: &'static str, reading: Reading) -> RawView {
    let Reading { format, width, height, generator, recipe, sources, passes, created_at, raw, mut notes, .. } = reading;
    let mut found = match serde_json::to_value(&recipe) {
        Ok(Value::Object(found)) => found,
        _ => Map::new(),
    };
    if recipe.prompt.is_empty() {
        found.shift_remove("prompt");
    }
    // A random seed has no value that a recipe can hold, but it is what the file says.
    if recipe.seed.is_none() && sources.iter().any(|source| source.field == "seed") {
        found.insert("seed".to_owned(), metadata::ANY_SEED.into());
    }
    let mime_type = format.map_or(other, metadata::Format::mime_type);
    let name = format.map_or_else(|| if mime_type == "image/x-exr" { "EXR" } else { "" }, metadata::Format::name);
    let searched = format.is_some_and(metadata::Format::has_texts);
    match format {
        Some(format) if !format.has_texts() => notes.push(format!("{name} files have no place for texts")),
        None if !name.is_empty() => notes.push(format!("{name} files are not searched for texts")),
        _ => {}
    }
    if !name.is_empty() && !is_decoded(mime_type) && !is_video(mime_type) {
        notes.push(format!("{name} images are not decoded: Retake keeps them without a preview"));
    }
    let mime_type = mime_type.to_owned();
    RawView {
        file,
        generator: generator.map(|generator| generator.name().to_owned()),
        recipe: found,
        created_at: created_at.map(|created| created.at),
        only_the_day: created_at.is_some_and(|created| created.precision == Precision::Day),
        images: vec![RawImage { mime_type, bytes, width, height }],
        raw: raw.into_iter().map(|raw| RawEntry { place: raw.place(), key: raw.key, text: raw.text }).collect(),
        sources: sources
            .into_iter()
            .map(|source| RawSource { field: source.field.to_owned(), raw: source.raw, rule: source.rule })
            .collect(),
        passes: if passes.len() > 1 { passes.into_iter().map(pass).collect() } else { Vec::new() },
        searched,
        notes,
    }
}

fn pass(pass: metadata::Pass) -> RawPass {
    let metadata::Pass { name, seed, steps, guidance_scale, sampler, scheduler, denoise } = pass;
    let settings = [
        ("seed", seed.map(|seed| Value::from(seed.to_string()))),
        ("steps", steps.map(Value::from)),
        ("guidanceScale", guidance_scale.map(Value::from)),
        ("sampler", sampler.map(Value::from)),
        ("scheduler", scheduler.map(Value::from)),
        ("denoise", denoise.map(Value::from)),
    ];
    let known = settings.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    RawPass { name, settings: known.collect() }
}
