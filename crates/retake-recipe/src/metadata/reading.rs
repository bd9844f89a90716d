//! What a file says about how it was made, as the readers return it.

use super::container::{Format, Poster, RawText};
use super::generator::Generator;
use crate::{Hash, Recipe, Timestamp};

/// Everything a file says about how it was made. What was not found is absent, never guessed.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Reading {
    /// The format, recognised by the first bytes of the file; `None` if the file was not searched because its format is
    /// not known.
    pub format: Option<Format>,
    /// The width of the image in pixels.
    pub width: Option<u32>,
    /// The height of the image in pixels.
    pub height: Option<u32>,
    /// The tool or maker, if a reader recognised the texts.
    pub generator: Option<Generator>,
    /// The recipe as far as it was found; its prompt is empty if there was none.
    pub recipe: Recipe,
    /// For every field of the recipe that was found, the text it comes from and the rule that found it. A seed with a
    /// source that the recipe does not have is [`ANY_SEED`](super::ANY_SEED).
    pub sources: Vec<Source>,
    /// For every field for which the file leaves a choice, all values that were considered, with the one that was taken.
    pub candidates: Vec<Candidate>,
    /// Every sampling pass in order, if the file distinguishes them.
    pub passes: Vec<Pass>,
    /// When the image was made, if the file says so; most do not.
    pub created_at: Option<Created>,
    /// Every text of the file, verbatim.
    pub raw: Vec<RawText>,
    /// A key that images of one run share: a hash of the whole queued graph, or of all parameters but the seed.
    pub run_key: Option<Hash>,
    /// A key that graphs of one shape share, whatever their nodes are called and their inputs contain.
    pub workflow_fingerprint: Option<Hash>,
    /// What points to the image that this one was made from.
    pub evidence: Evidence,
    /// What the file claims about its origin outside of its generator's own texts.
    pub claims: Vec<Claim>,
    /// An image inside a video file that stands for it, such as a cover.
    pub poster: Option<Poster>,
    /// What could not be read, and what to keep in mind about what was.
    pub notes: Vec<String>,
}

/// The format, the size and the poster of a file: what can be shown of it without interpreting its texts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Outline {
    /// The format, recognised by the first bytes of the file; `None` if it is not known.
    pub format: Option<Format>,
    /// The width of the image in pixels.
    pub width: Option<u32>,
    /// The height of the image in pixels.
    pub height: Option<u32>,
    /// An image inside a video file that stands for it, such as a cover.
    pub poster: Option<Poster>,
}

/// Where a field came from.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Source {
    /// The field, by its name in the JSON of a recipe.
    pub field: &'static str,
    /// The index of the text in [`Reading::raw`]; `None` if the value is not from a text (the size of the image itself).
    pub raw: Option<usize>,
    /// How it was found there.
    pub rule: String,
}

/// A value that could be meant, where a file leaves a choice.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Candidate {
    /// The field, by its name in the JSON of a recipe.
    pub field: &'static str,
    /// The value.
    pub value: String,
    /// Where it stands.
    pub place: String,
    /// Whether it was taken.
    pub taken: bool,
    /// Why it was taken, or why not.
    pub reason: &'static str,
}

/// What a file claims about its origin outside of a generator's own texts.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Claim {
    /// The structure that holds the claim.
    pub source: ClaimSource,
    /// The maker, in the claim's own words.
    pub maker: Option<String>,
    /// The kind of source, as a term of IPTC's vocabulary: `trainedAlgorithmicMedia` for an image that a model made.
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
    /// How precise it is.
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

/// What points to the image that this one was made from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evidence {
    /// Hashes of the image it started from.
    pub init_hashes: Vec<InitHash>,
    /// Names of the images it started from or was guided by, without folders.
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

/// Describes a claim that names no known generator.
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

/// Describes every choice: what was taken and why, and what else was there.
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
