//! Reads how an image or video was made: the texts in its file, and their interpretation by generator.
//!
//! There are two steps, and the first never depends on the second. A tolerant **walker** (`container/`) lists every
//! text of the file with its location; pixels are skipped, not decoded. Then the **readers**, one file per generator,
//! are tried in order; the first that recognises the texts fills in the recipe and states for every field which text it
//! came from and by which rule. Texts that no reader understands stay raw: nothing is guessed, and nothing is lost.
//!
//! ```text
//! bytes ── container ──> RawText…  ── reader ──> Recipe + sources + passes + evidence
//! ```
//! A damaged file yields what could be read, with notes on what could not: claimed lengths are never trusted, and text,
//! inflation and nesting are limited. `docs/metadata.md` lists every rule with an example.
//!
//! This module does not know about sessions, grouping, or where images are stored.

mod a1111;
mod beside;
mod civitai;
pub(crate) mod comfyui;
mod container;
mod draw_things;
mod easy_diffusion;
mod embed;
mod fields;
mod fooocus;
mod generator;
mod hugging_face;
mod invokeai;
mod json;
mod listed;
mod midjourney;
mod novelai;
#[cfg(feature = "pixels")]
mod pixels;
mod provenance;
mod reading;
mod ruined_fooocus;
mod stability_matrix;
mod stealth;
mod swarmui;
mod tensorart;
mod uno;
mod write;
mod xmp;

use std::fs::File;
use std::io::{self, Cursor, Read, Seek, SeekFrom};
use std::path::Path;

pub use container::{Format, Poster, RawText, Slot};
pub use embed::{NotEmbedded, embed};
pub use fields::ANY_SEED;
pub use generator::Generator;
pub use reading::{
    Candidate, Claim, ClaimSource, Created, Evidence, Hires, InitHash, Outline, Pass, Precision, Reading,
    SignatureState, Source,
};
pub use stealth::Pixels;
pub use write::a1111_text;

use container::Texts;

/// The maximum size of a file whose pixels are searched for a hidden text.
pub const MAX_DECODED_FILE_BYTES: u64 = 128 * 1024 * 1024;

/// A function that decodes an image and lends its pixels, so that a caller with its own memory budget can account for
/// them.
///
/// It calls the given function at most once, and not at all if the image cannot be decoded or has no alpha channel.
pub type PixelDecoder<'a> = &'a dyn Fn(&[u8], &mut dyn FnMut(Pixels<'_>));

/// Reads the metadata of an image or video file, and of its generator's sidecar files if the file itself has none.
///
/// Only a file that cannot be opened or read is an error: a damaged file, or one of an unknown format, yields a reading
/// with less in it.
///
/// ```
/// # fn main() -> std::io::Result<()> {
/// # let dir = std::env::temp_dir().join("retake-recipe-read");
/// # std::fs::create_dir_all(&dir)?;
/// # let path = dir.join("cat.gif");
/// # std::fs::write(&path, b"GIF89a\x10\0\x10\0\0\0\0!\xfe\x33a cat\nSteps: 20, Sampler: Euler, Seed: 7, Size: 8x8\0;")?;
/// let reading = retake_recipe::read(&path)?;
/// assert_eq!(reading.recipe.prompt, "a cat");
/// for source in &reading.sources {
///     println!("{}: {}", source.field, source.rule);
/// }
/// # Ok(())
/// # }
/// ```
pub fn read(path: impl AsRef<Path>) -> io::Result<Reading> {
    read_with(path, DECODER)
}

/// Reads the metadata of an image or video file like [`read`], with another decoder for texts hidden in pixels.
pub fn read_with(path: impl AsRef<Path>, decoder: PixelDecoder<'_>) -> io::Result<Reading> {
    let path = path.as_ref();
    read_input(File::open(path)?, Some(path), decoder)
}

/// Reads the metadata of a file like [`read_with`], given its contents: an open file, or its bytes.
pub fn read_contents_with(
    path: impl AsRef<Path>,
    contents: impl Read + Seek,
    decoder: PixelDecoder<'_>,
) -> io::Result<Reading> {
    read_input(contents, Some(path.as_ref()), decoder)
}

/// Reads the metadata of an image or video from its bytes.
///
/// ```
/// let png = b"GIF89a\x10\0\x10\0\0\0\0!\xfe\x33a cat\nSteps: 20, Sampler: Euler, Seed: 7, Size: 8x8\0;";
/// let reading = retake_recipe::read_bytes(png);
/// assert_eq!(reading.recipe.seed.unwrap().0, 7);
/// assert_eq!(reading.raw[0].place(), "GIF comment at byte 13");
/// ```
pub fn read_bytes(bytes: &[u8]) -> Reading {
    read_bytes_with(bytes, DECODER)
}

/// Reads the metadata of an image or video from its bytes like [`read_bytes`], with another decoder.
pub fn read_bytes_with(bytes: &[u8], decoder: PixelDecoder<'_>) -> Reading {
    // Reading from memory does not fail.
    read_input(Cursor::new(bytes), None, decoder).unwrap_or_default()
}

/// Reads the metadata of an image or video from anything that can seek. Pixels and long videos are skipped, not read.
pub fn read_from(input: impl Read + Seek) -> io::Result<Reading> {
    read_input(input, None, DECODER)
}

/// Reads the metadata of an image or video from a stream, in one pass and without holding the file in memory.
///
/// Texts hidden in pixels are not searched, and texts before the directory that points to them (possible in TIFF and
/// HEIC) are noted and left out: both need a seekable input.
pub fn read_stream(input: impl Read) -> io::Result<Reading> {
    let texts = container::walk_stream(input)?;
    let found = read_texts(&texts);
    Ok(reading(texts, found))
}

/// Reads only the format, the size and the poster of an image or video, without interpreting its texts.
///
/// ```
/// let gif = b"GIF89a\x10\0\x08\0\0\0\0;";
/// let outline = retake_recipe::metadata::read_outline(std::io::Cursor::new(gif))?;
/// assert_eq!((outline.width, outline.height), (Some(16), Some(8)));
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn read_outline(mut input: impl Read + Seek) -> io::Result<Outline> {
    let Texts { format, width, height, poster, .. } = container::walk(&mut input)?;
    Ok(Outline { format, width, height, poster })
}

#[cfg(feature = "pixels")]
const DECODER: PixelDecoder<'static> = &pixels::decode;
#[cfg(not(feature = "pixels"))]
const DECODER: PixelDecoder<'static> = &|_, _| {};

fn read_input(mut input: impl Read + Seek, path: Option<&Path>, decoder: PixelDecoder<'_>) -> io::Result<Reading> {
    let mut texts = container::walk(&mut input)?;
    texts.name = path.and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    let mut found = read_texts(&texts);
    if found.is_none() && texts.alpha {
        let length = input.seek(SeekFrom::End(0))?;
        if length <= MAX_DECODED_FILE_BYTES {
            input.seek(SeekFrom::Start(0))?;
            let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or(0));
            input.take(MAX_DECODED_FILE_BYTES).read_to_end(&mut bytes)?;
            decoder(&bytes, &mut |pixels| stealth::search(pixels, &mut texts));
            found = read_texts(&texts);
        } else {
            texts.note(format!("the pixels of a file of {length} bytes are not searched for a text"));
        }
    }
    if let (None, Some(_), Some(path)) = (&found, texts.format, path) {
        beside::search(path, &mut texts);
        found = read_texts(&texts);
    }
    Ok(reading(texts, found))
}

fn reading(texts: Texts, found: Option<fields::Fields>) -> Reading {
    let mut fields = found.unwrap_or_default();
    fields.complete(&texts);
    let claims = provenance::claims(&texts);
    let Texts { format, width, height, raw, poster, mut notes, .. } = texts;
    notes.append(&mut fields.notes);
    notes.extend(claims.iter().filter(|_| fields.generator.is_none()).map(reading::claim_note));
    notes.extend(reading::candidate_notes(&fields.candidates));
    Reading {
        format,
        width,
        height,
        generator: fields.generator,
        recipe: fields.recipe,
        sources: fields.sources,
        candidates: fields.candidates,
        passes: fields.passes,
        created_at: fields.created_at,
        raw,
        run_key: fields.run_key,
        workflow_fingerprint: fields.workflow_fingerprint,
        evidence: fields.evidence,
        claims,
        poster,
        notes,
    }
}

fn read_texts(texts: &Texts) -> Option<fields::Fields> {
    READERS.iter().find_map(|reader| reader(texts))
}

/// A function that recognises the texts of one generator.
type TextsReader = fn(&Texts) -> Option<fields::Fields>;

/// The readers in the order in which they are tried: one that wraps the texts of another comes before it.
const READERS: &[TextsReader] = &[
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
    uno::read,
    listed::read,
    comfyui::read,
    a1111::read,
    midjourney::read,
    provenance::read,
];
