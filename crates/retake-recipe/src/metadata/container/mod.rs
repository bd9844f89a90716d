//! The walker: every text of a picture's file, with its place, whatever the file's name says it is.
//!
//! It believes nothing: lengths are held against the end of the file before anything is read, no buffer grows by a claim,
//! all texts of a file together stay below a cap, and so does what is inflated. Where a file makes no sense any more the
//! walk ends with a note, and what came before stands. Pixels are skipped.

mod bytes;
mod exif;
mod gif;
mod input;
mod iptc;
mod jpeg;
mod jumbf;
mod png;
mod text;
mod webp;

use std::cell::OnceCell;
use std::fmt;
use std::io::{self, Read, Seek};

use serde_json::Value;

use super::json;
use input::Input;

/// The most text that is taken from one file, inflated or not: the largest workflows seen are 1 MB.
pub(super) const MAX_TEXT: u64 = 16 * 1024 * 1024;
/// The most texts that are taken from one file.
const MAX_TEXTS: usize = 1000;

/// What a file is, told from its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Format {
    Png,
    Jpeg,
    WebP,
    Gif,
}

impl Format {
    /// What these bytes are the beginning of.
    pub fn of(bytes: &[u8]) -> Option<Format> {
        let webp = bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP");
        match bytes {
            _ if bytes.starts_with(png::MAGIC) => Some(Format::Png),
            [0xff, 0xd8, 0xff, ..] => Some(Format::Jpeg),
            _ if webp => Some(Format::WebP),
            _ if bytes.starts_with(b"GIF87a") || bytes.starts_with(b"GIF89a") => Some(Format::Gif),
            _ => None,
        }
    }

    /// Its media type.
    pub fn mime_type(self) -> &'static str {
        match self {
            Format::Png => "image/png",
            Format::Jpeg => "image/jpeg",
            Format::WebP => "image/webp",
            Format::Gif => "image/gif",
        }
    }
}

/// A text of the file, verbatim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawText {
    /// What it lies in.
    pub slot: Slot,
    /// Where that begins, in bytes from the beginning of the file.
    pub offset: u64,
    /// What it is called there: a keyword, or the name of a tag.
    pub key: String,
    /// The text.
    pub text: String,
}

/// What a text lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// A chunk of a PNG, by its type.
    PngChunk(&'static str),
    /// A tag of EXIF, by its directory.
    Exif(&'static str),
    /// A packet of XMP.
    Xmp,
    /// An IPTC record.
    Iptc,
    /// A comment of a JPEG.
    JpegComment,
    /// A comment of a GIF.
    GifComment,
    /// An assertion of a C2PA manifest; never verified here.
    C2pa,
    /// The lowest bits of the pixels.
    Pixels(&'static str),
    /// A file beside the picture, by its ending or name; the offset is one in that file.
    Beside(&'static str),
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Slot::PngChunk(kind) => write!(f, "PNG {kind}"),
            Slot::Exif(directory) => write!(f, "EXIF {directory}"),
            Slot::Xmp => f.write_str("XMP"),
            Slot::Iptc => f.write_str("IPTC"),
            Slot::JpegComment => f.write_str("JPEG COM"),
            Slot::GifComment => f.write_str("GIF comment"),
            Slot::C2pa => f.write_str("C2PA"),
            Slot::Pixels(channels) => write!(f, "{channels} of the pixels"),
            Slot::Beside(file) => write!(f, "{file} beside the picture"),
        }
    }
}

impl RawText {
    /// Where it is, in words: `PNG tEXt at byte 33`.
    pub fn place(&self) -> String {
        match self.slot {
            Slot::Pixels(_) => self.slot.to_string(),
            slot => format!("{slot} at byte {}", self.offset),
        }
    }
}

/// What the walk found.
#[derive(Debug, Default)]
pub(super) struct Texts {
    pub(super) format: Option<Format>,
    pub(super) width: Option<u32>,
    pub(super) height: Option<u32>,
    /// Whether its pixels have an alpha channel.
    pub(super) alpha: bool,
    pub(super) raw: Vec<RawText>,
    pub(super) notes: Vec<String>,
    /// What the file is called, where it has a name.
    pub(super) name: Option<String>,
    /// What each text is as JSON, once somebody asked.
    parsed: Vec<OnceCell<Option<Value>>>,
    /// How much text has been taken.
    taken: u64,
}

/// Lists the texts of a file.
pub(super) fn walk(reader: impl Read + Seek) -> io::Result<Texts> {
    let mut input = Input::new(reader)?;
    let mut texts = Texts { format: Format::of(&input.peek(12)?), ..Texts::default() };
    match texts.format {
        Some(Format::Png) => png::walk(&mut input, &mut texts)?,
        Some(Format::Jpeg) => jpeg::walk(&mut input, &mut texts)?,
        Some(Format::WebP) => webp::walk(&mut input, &mut texts)?,
        Some(Format::Gif) => gif::walk(&mut input, &mut texts)?,
        None => {}
    }
    Ok(texts)
}

/// The size of a WebP, and whether it has alpha.
pub(super) struct WebpSize {
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) alpha: bool,
}

/// What a WebP says of its size.
pub(super) fn webp_size(picture: &[u8]) -> Option<WebpSize> {
    let texts = walk(io::Cursor::new(picture)).ok()?;
    Some(WebpSize { width: texts.width?, height: texts.height?, alpha: texts.alpha })
}

impl Texts {
    /// Takes a text, unless the file has had its share.
    pub(super) fn add(&mut self, slot: Slot, offset: u64, key: impl Into<String>, text: String) {
        let size = u64::try_from(text.len()).unwrap_or(u64::MAX);
        if self.raw.len() >= MAX_TEXTS || size > self.room() {
            self.note(format!("{slot} at byte {offset}: left out, there is too much text in this file"));
            return;
        }
        self.taken += size;
        self.raw.push(RawText { slot, offset, key: key.into(), text });
        self.parsed.push(OnceCell::new());
    }

    /// How much text there is.
    pub(super) fn taken(&self) -> usize {
        usize::try_from(self.taken).unwrap_or(usize::MAX)
    }

    /// How much more text is taken.
    pub(super) fn room(&self) -> u64 {
        MAX_TEXT.saturating_sub(self.taken)
    }

    /// Says what could not be read.
    pub(super) fn note(&mut self, note: String) {
        const MOST: usize = 20;
        if self.notes.len() < MOST {
            self.notes.push(note);
        }
    }

    /// The first text of a PNG under this keyword.
    pub(super) fn png(&self, keyword: &str) -> Option<usize> {
        self.raw.iter().position(|raw| matches!(raw.slot, Slot::PngChunk(_)) && raw.key == keyword)
    }

    /// The first text of a tag of EXIF, in whichever directory it lies.
    pub(super) fn exif(&self, tag: &str) -> Option<usize> {
        self.raw.iter().position(|raw| matches!(raw.slot, Slot::Exif(_)) && raw.key == tag)
    }

    /// The text of such a file beside the picture.
    pub(super) fn beside(&self, file: &str) -> Option<usize> {
        self.raw.iter().position(|raw| matches!(raw.slot, Slot::Beside(name) if name == file))
    }

    /// The text at this index.
    pub(super) fn text(&self, index: usize) -> &str {
        self.raw.get(index).map_or("", |raw| &raw.text)
    }

    /// The text at this index as JSON, where it is.
    pub(super) fn json(&self, index: usize) -> Option<&Value> {
        self.parsed.get(index)?.get_or_init(|| json::parse(self.text(index))).as_ref()
    }
}
