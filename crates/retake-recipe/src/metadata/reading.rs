//! The result of reading a file's metadata.

use super::container::{Format, Poster, RawText};
use super::generator::Generator;
use crate::{Hash, Recipe, Timestamp};

/// Everything that a file states about how it was made. What was not found is absent, never guessed.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Reading {
    /// The format, recognised by the first bytes of the file; `None` if it is unknown and the file was not searched.
    pub format: Option<Format>,
    /// The width of the image in pixels.
    pub width: Option<u32>,
    /// The height of the image in pixels.
    pub height: Option<u32>,
    /// The tool or maker, if a reader recognised the texts.
    pub generator: Option<Generator>,
    /// The recipe as far as it was found; the prompt is empty if there was none.
    pub recipe: Recipe,
    /// For every field of the recipe that was found, the text it comes from and the rule that found it. A seed with a
    /// source that the recipe does not have is [`ANY_SEED`](super::ANY_SEED).
    pub sources: Vec<Source>,
    /// All candidates for every ambiguous field, including the chosen ones.
    pub candidates: Vec<Candidate>,
    /// Every sampling pass in order, if the file distinguishes them.
    pub passes: Vec<Pass>,
    /// When the image was made, if the file says so; most do not.
    pub created_at: Option<Created>,
    /// Every text of the file, verbatim.
    pub raw: Vec<RawText>,
    /// A key shared by the images of one run: a hash of the whole queued graph, or of all parameters except the seed.
    pub run_key: Option<Hash>,
    /// A key shared by graphs of the same structure, whatever their node ids and inputs.
    pub workflow_fingerprint: Option<Hash>,
    /// Evidence of the image that this one was made from.
    pub evidence: Evidence,
    /// Claims about the origin of the file outside of its generator's own texts.
    pub claims: Vec<Claim>,
    /// An image inside a video file that represents it, such as a cover.
    pub poster: Option<Poster>,
    /// What could not be read, and caveats about what was.
    pub notes: Vec<String>,
}

/// The format, the size and the poster of a file, which can be shown without interpreting its texts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Outline {
    /// The format, recognised by the first bytes of the file; `None` if it is unknown.
    pub format: Option<Format>,
    /// The width of the image in pixels.
    pub width: Option<u32>,
    /// The height of the image in pixels.
    pub height: Option<u32>,
    /// An image inside a video file that represents it, such as a cover.
    pub poster: Option<Poster>,
}

/// The source of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Source {
    /// The field, by its name in the JSON of a recipe.
    pub field: &'static str,
    /// The index of the text in [`Reading::raw`]; `None` if the value does not come from a text (the size of the image
    /// itself).
    pub raw: Option<usize>,
    /// The rule by which it was found.
    pub rule: String,
}

/// A possible value of an ambiguous field.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Candidate {
    /// The field, by its name in the JSON of a recipe.
    pub field: &'static str,
    /// The value.
    pub value: String,
    /// Its location.
    pub place: String,
    /// Whether it was chosen.
    pub taken: bool,
    /// The reason for the decision.
    pub reason: &'static str,
}

/// A claim about the origin of a file outside of a generator's own texts.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Claim {
    /// The structure that holds the claim.
    pub source: ClaimSource,
    /// The maker, verbatim from the claim.
    pub maker: Option<String>,
    /// The kind of source, as an IPTC term: `trainedAlgorithmicMedia` for an image made by a model.
    pub source_type: Option<String>,
    /// Whether the claim is signed.
    pub signature: SignatureState,
}

/// The structure that holds a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClaimSource {
    /// The file's own C2PA manifest.
    C2pa,
    /// The C2PA manifest of something the file was made from.
    C2paIngredient,
    /// An XMP label.
    Xmp,
}

/// Whether a claim is signed. Signatures are never verified here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SignatureState {
    /// There is a signature; it was not verified.
    Unverified,
    /// A signature is required, and it is missing.
    Missing,
    /// Claims of this kind are not signed.
    Unsigned,
}

/// One sampling pass.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pass {
    /// Its name in the file: the node, or the stage.
    pub name: String,
    /// The seed.
    pub seed: Option<u64>,
    /// The number of steps.
    pub steps: Option<u32>,
    /// The guidance scale.
    pub guidance_scale: Option<f64>,
    /// The sampler.
    pub sampler: Option<String>,
    /// The scheduler.
    pub scheduler: Option<String>,
    /// The denoising strength.
    pub denoise: Option<f64>,
}

/// A time and its precision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Created {
    /// The time; for a day its first moment in UTC.
    pub at: Timestamp,
    /// Its precision.
    pub precision: Precision,
}

/// The precision of a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// A second or better.
    Second,
    /// Only the day is known.
    Day,
}

/// Evidence of the image that this one was made from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evidence {
    /// Hashes of the source image.
    pub init_hashes: Vec<InitHash>,
    /// The names of source and guidance images, without folders.
    pub image_names: Vec<String>,
    /// Whether the first pass started from an image rather than from noise.
    pub from_image: bool,
    /// A second pass at a larger size, if the file mentions one.
    pub hires: Option<Hires>,
}

/// A hash of the image that another was made from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum InitHash {
    /// The MD5 of the raw pixels (A1111's `Init image hash`), in lower-case hexadecimal digits.
    PixelsMd5(String),
    /// The SHA-256 of the file (InvokeAI's `orig_hash`), in lower-case hexadecimal digits.
    FileSha256(String),
}

/// An upscaling second pass.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Hires {
    /// The factor.
    pub scale: Option<f64>,
    /// The upscaler.
    pub upscaler: Option<String>,
}

/// Describes a claim that does not identify a known generator.
pub(super) fn claim_note(claim: &Claim) -> String {
    let kind = match claim.source {
        ClaimSource::C2pa => "C2PA claim",
        ClaimSource::C2paIngredient => "C2PA claim of an ingredient",
        ClaimSource::Xmp => "XMP label",
    };
    let state = match claim.signature {
        SignatureState::Unverified => "signed, not verified",
        SignatureState::Missing => "without a signature",
        SignatureState::Unsigned => "not signed",
    };
    let maker = claim.maker.as_ref().map(|maker| format!(" by {maker:?}")).unwrap_or_default();
    let source = claim.source_type.as_ref().map(|source| format!(": {source}")).unwrap_or_default();
    format!("{kind}{maker}{source} ({state})")
}

/// Describes every ambiguous field: the chosen value, the reason, and the other candidates.
pub(super) fn candidate_notes(candidates: &[Candidate]) -> Vec<String> {
    const LONGEST: usize = 80;
    let short = |value: &str| {
        let line = value.split_whitespace().collect::<Vec<_>>().join(" ");
        let cut: String = line.chars().take(LONGEST).collect();
        if cut.len() < line.len() { format!("{cut}…") } else { cut }
    };
    candidates
        .iter()
        .map(|candidate| {
            let verb = if candidate.taken { "taken" } else { "not taken" };
            let Candidate { field, value, place, reason, .. } = candidate;
            format!("candidate for {field}, {verb} ({reason}): {:?} from {place}", short(value))
        })
        .collect()
}
