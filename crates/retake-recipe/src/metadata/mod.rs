//! What a picture says of how it was made: the texts in the file, and what its generator meant by them.
//!
//! Two steps, and the first never depends on the second. A tolerant **walker** (`container/`) lists every text of the file
//! with its place; pixels are skipped, not decoded. Then the **readers**, one generator a file, are asked in turn whether
//! they know these texts; the first that does fills in the recipe, and for every field says which text it took it from
//! and by which rule. What no reader understands stays raw: nothing is guessed, and nothing is lost.
//!
//! ```text
//! bytes ── container ──> RawText…  ── reader ──> Recipe + sources + passes + evidence
//! ```
//! A crooked file costs only itself: claimed lengths are never believed, text and inflating are capped, and a reading of
//! a damaged file is what could be read with a note on what could not. `docs/metadata.md` lists every rule.
//!
//! Never known here: sessions, grouping, where pictures are kept, what people call an error.

mod a1111;
mod beside;
mod civitai;
mod comfyui;
mod container;
mod draw_things;
mod easy_diffusion;
mod embed;
mod fields;
mod fooocus;
mod hugging_face;
mod invokeai;
mod json;
mod midjourney;
mod novelai;
mod pixels;
mod provenance;
mod ruined_fooocus;
mod stability_matrix;
mod stealth;
mod swarmui;
mod tensorart;
mod write;
mod xmp;

use std::fs::File;
use std::io::{self, Cursor, Read, Seek, SeekFrom};
use std::path::Path;

pub use container::{Format, RawText, Slot};
pub use embed::{NotEmbedded, embed};
pub use fields::ANY_SEED;
pub use write::a1111_text;

use image::RgbaImage;

use crate::{Hash, Recipe, Timestamp};
use container::Texts;

/// All that a picture says of how it was made. What was not found is absent, never guessed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    /// What the file is, told from its first bytes.
    pub format: Option<Format>,
    /// The picture's own width in pixels.
    pub width: Option<u32>,
    /// The picture's own height in pixels.
    pub height: Option<u32>,
    /// The tool that made it, where a reader knew the texts.
    pub generator: Option<Generator>,
    /// What was found of the recipe; the prompt is empty when there was none.
    pub recipe: Recipe,
    /// For every field of the recipe that was found: from which text, by which rule. A seed with a source that the recipe
    /// does not have is [`ANY_SEED`].
    pub sources: Vec<Source>,
    /// Every sampling pass, the first one first, where the file tells them apart.
    pub passes: Vec<Pass>,
    /// When it was made, as the file says; most files do not.
    pub created_at: Option<Created>,
    /// Every text of the file, verbatim.
    pub raw: Vec<RawText>,
    /// The same for pictures of one run: of the whole queued graph, or of all parameters but the seed.
    pub run_key: Option<Hash>,
    /// The same for graphs of one shape, whatever their nodes are called and their inputs say.
    pub workflow_fingerprint: Option<Hash>,
    /// What hints at the picture it was made from.
    pub evidence: Evidence,
    /// What could not be read, and what to think of what was.
    pub notes: Vec<String>,
}

/// A tool that makes pictures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Generator {
    A1111,
    Forge,
    ForgeClassic,
    ForgeNeo,
    ReForge,
    SdNext,
    Civitai,
    ComfyUi,
    InvokeAi,
    NovelAi,
    Fooocus,
    RuinedFooocus,
    SwarmUi,
    DrawThings,
    StabilityMatrix,
    TensorArt,
    EasyDiffusion,
    Midjourney,
    HuggingFaceSpace,
    OpenAi,
    Google,
}

/// Where a field came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The field, by its name in the recipe's JSON.
    pub field: &'static str,
    /// Which of the raw texts, by its index; none when it is not from a text (the picture's own size).
    pub raw: Option<usize>,
    /// How it was found there.
    pub rule: String,
}

/// One sampling pass.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pass {
    /// What it is called in the file: the node, or the stage.
    pub name: String,
    /// Its seed.
    pub seed: Option<u64>,
    /// Its steps.
    pub steps: Option<u32>,
    /// Its guidance scale.
    pub guidance_scale: Option<f64>,
    /// Its sampler.
    pub sampler: Option<String>,
    /// Its scheduler.
    pub scheduler: Option<String>,
    /// Its denoising strength.
    pub denoise: Option<f64>,
}

/// A time and how exact it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Created {
    /// The time; for a day its first moment, UTC.
    pub at: Timestamp,
    /// How exact it is.
    pub precision: Precision,
}

/// How exact a time is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// To the second or better.
    Second,
    /// Only the day is known.
    Day,
}

/// What hints at the picture that this one was made from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evidence {
    /// Hashes of the picture it started from.
    pub init_hashes: Vec<InitHash>,
    /// Names of the pictures it started from or was guided by, without folder.
    pub image_names: Vec<String>,
    /// Whether the first pass started from a picture rather than from noise.
    pub from_image: bool,
    /// A second pass at a larger size: how it says so.
    pub hires: Option<Hires>,
}

/// A hash of the picture that another was made from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum InitHash {
    /// MD5 of the raw pixels (A1111 `Init image hash`), in lower-case hexadecimal digits.
    PixelsMd5(String),
    /// SHA-256 of the file (InvokeAI `orig_hash`), in lower-case hexadecimal digits.
    FileSha256(String),
}

/// An upscaling second pass.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Hires {
    /// By how much.
    pub scale: Option<f64>,
    /// With what.
    pub upscaler: Option<String>,
}

impl Generator {
    /// All there are.
    pub const ALL: [Generator; 21] = [
        Generator::A1111,
        Generator::Forge,
        Generator::ForgeClassic,
        Generator::ForgeNeo,
        Generator::ReForge,
        Generator::SdNext,
        Generator::Civitai,
        Generator::ComfyUi,
        Generator::InvokeAi,
        Generator::NovelAi,
        Generator::Fooocus,
        Generator::RuinedFooocus,
        Generator::SwarmUi,
        Generator::DrawThings,
        Generator::StabilityMatrix,
        Generator::TensorArt,
        Generator::EasyDiffusion,
        Generator::Midjourney,
        Generator::HuggingFaceSpace,
        Generator::OpenAi,
        Generator::Google,
    ];

    /// Its name as its users write it. Stable: it is recorded as the provider.
    pub fn name(self) -> &'static str {
        match self {
            Generator::A1111 => "A1111",
            Generator::Forge => "Forge",
            Generator::ForgeClassic => "Forge Classic",
            Generator::ForgeNeo => "Forge Neo",
            Generator::ReForge => "reForge",
            Generator::SdNext => "SD.Next",
            Generator::Civitai => "Civitai",
            Generator::ComfyUi => "ComfyUI",
            Generator::InvokeAi => "InvokeAI",
            Generator::NovelAi => "NovelAI",
            Generator::Fooocus => "Fooocus",
            Generator::RuinedFooocus => "RuinedFooocus",
            Generator::SwarmUi => "SwarmUI",
            Generator::DrawThings => "Draw Things",
            Generator::StabilityMatrix => "StabilityMatrix",
            Generator::TensorArt => "TensorArt",
            Generator::EasyDiffusion => "Easy Diffusion",
            Generator::Midjourney => "Midjourney",
            Generator::HuggingFaceSpace => "Hugging Face Space",
            Generator::OpenAi => "OpenAI",
            Generator::Google => "Google",
        }
    }
}

/// The largest file whose pixels are searched for a hidden text.
pub const MAX_DECODED_FILE_BYTES: u64 = 128 * 1024 * 1024;

/// Decodes an image and lends its pixels, so that a caller with a memory budget of its own can account for them.
///
/// It calls the function it is given at most once, and not at all if the image cannot be decoded or has no alpha channel.
pub type PixelDecoder<'a> = &'a dyn Fn(&[u8], &mut dyn FnMut(&RgbaImage));

/// Reads the metadata of an image file, and of the files that its generator wrote beside it if the image itself has none.
///
/// Only a file that cannot be opened or read is an error: one that is damaged or not an image gives a reading with less
/// in it.
pub fn read_file(path: &Path) -> io::Result<Reading> {
    read_file_with(path, &pixels::decode)
}

/// Reads the metadata of an image file like [`read_file`], with another decoder.
pub fn read_file_with(path: &Path, decoder: PixelDecoder<'_>) -> io::Result<Reading> {
    read_from(File::open(path)?, Some(path), decoder)
}

/// Reads the metadata of an image from its bytes.
pub fn read(bytes: &[u8]) -> Reading {
    read_with(bytes, &pixels::decode)
}

/// Reads the metadata of an image from its bytes like [`read`], with another decoder.
pub fn read_with(bytes: &[u8], decoder: PixelDecoder<'_>) -> Reading {
    // Reading from memory does not fail.
    read_from(Cursor::new(bytes), None, decoder).unwrap_or_default()
}

fn read_from(mut input: impl Read + Seek, path: Option<&Path>, decoder: PixelDecoder<'_>) -> io::Result<Reading> {
    let mut texts = container::walk(&mut input)?;
    texts.name = path.and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    let mut found = read_texts(&texts);
    if found.is_none() && texts.alpha {
        input.seek(SeekFrom::Start(0))?;
        let mut bytes = Vec::new();
        input.take(MAX_DECODED_FILE_BYTES).read_to_end(&mut bytes)?;
        decoder(&bytes, &mut |pixels| stealth::look(pixels, &mut texts));
        found = read_texts(&texts);
    }
    if let (None, Some(_), Some(path)) = (&found, texts.format, path) {
        beside::look(path, &mut texts);
        found = read_texts(&texts);
    }
    let mut fields = found.unwrap_or_default();
    fields.settle(&texts);
    let Texts { format, width, height, raw, mut notes, .. } = texts;
    notes.append(&mut fields.notes);
    Ok(Reading {
        format,
        width,
        height,
        generator: fields.generator,
        recipe: fields.recipe,
        sources: fields.sources,
        passes: fields.passes,
        created_at: fields.created_at,
        raw,
        run_key: fields.run_key,
        workflow_fingerprint: fields.workflow_fingerprint,
        evidence: fields.evidence,
        notes,
    })
}

fn read_texts(texts: &Texts) -> Option<fields::Fields> {
    READERS.iter().find_map(|reader| reader(texts))
}

/// Knows the texts of one generator.
type Reader = fn(&Texts) -> Option<fields::Fields>;

/// Those that wrap another's texts come before it.
const READERS: &[Reader] = &[
    swarmui::read,
    stability_matrix::read,
    tensorart::read,
    civitai::read,
    invokeai::read,
    novelai::read,
    fooocus::read,
    ruined_fooocus::read,
    draw_things::read,
    easy_diffusion::read,
    hugging_face::read,
    comfyui::read,
    a1111::read,
    midjourney::read,
    provenance::read,
];
