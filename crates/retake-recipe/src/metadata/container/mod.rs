//! The walker: lists every text of a file with its location, whatever the file is called.
//!
//! It trusts nothing. Lengths are checked against the end of the file before anything is read, no buffer is allocated
//! by a claimed length, and there are limits on the total text of a file, on inflated data, and on the number of boxes
//! visited. If a file stops making sense, the walk ends with a note, and everything found before is kept. Pixels are
//! skipped.

mod bmff;
mod bmp;
mod bytes;
mod exif;
mod gif;
mod heif;
mod input;
mod iptc;
mod jpeg;
mod jumbf;
mod jxl;
mod matroska;
mod png;
mod quicktime;
mod text;
mod tiff;
mod webp;

use std::cell::OnceCell;
use std::fmt;
use std::io::{self, Read, Seek};

use serde_json::Value;

use super::json;
pub(super) use bytes::{ByteOrder, u16_at, u32_at};
use input::{Forward, MediaInput};
pub(super) use jumbf::SIGNATURE;

/// The maximum amount of text taken from one file, inflated or not; the largest workflows seen have 1 MB.
pub(super) const MAX_TEXT: u64 = 16 * 1024 * 1024;
/// The maximum amount of data inflated from one file, including what was too long to be taken: otherwise, each of many
/// small bombs would be inflated up to the limit.
const MAX_INFLATED: u64 = 2 * MAX_TEXT;
/// The maximum number of texts taken from one file.
const MAX_TEXTS: usize = 1000;
/// The number of bytes needed to recognise the format of a file.
const MAGIC_BYTES: usize = 64;

/// The format of a file, recognised by its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are those of the formats")]
#[non_exhaustive]
pub enum Format {
    Png,
    Jpeg,
    WebP,
    Gif,
    Avif,
    Heic,
    JpegXl,
    Tiff,
    Bmp,
    Mp4,
    QuickTime,
    WebM,
    Matroska,
}

impl Format {
    /// All formats that are recognised.
    pub const ALL: [Format; 13] = [
        Format::Png,
        Format::Jpeg,
        Format::WebP,
        Format::Gif,
        Format::Avif,
        Format::Heic,
        Format::JpegXl,
        Format::Tiff,
        Format::Bmp,
        Format::Mp4,
        Format::QuickTime,
        Format::WebM,
        Format::Matroska,
    ];

    /// Returns the format of a file that starts with these bytes; `None` if it is not recognised.
    pub fn of(bytes: &[u8]) -> Option<Format> {
        let webp = bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP");
        match bytes {
            _ if bytes.starts_with(png::MAGIC) => Some(Format::Png),
            [0xff, 0xd8, 0xff, ..] => Some(Format::Jpeg),
            _ if webp => Some(Format::WebP),
            _ if bytes.starts_with(b"GIF87a") || bytes.starts_with(b"GIF89a") => Some(Format::Gif),
            _ if bytes.starts_with(jxl::CODESTREAM) || bytes.starts_with(jxl::CONTAINER) => Some(Format::JpegXl),
            _ if tiff::is_tiff(bytes) => Some(Format::Tiff),
            _ if bmp::is_bmp(bytes) => Some(Format::Bmp),
            _ if bytes.starts_with(matroska::MAGIC) && matroska::is_webm(bytes) => Some(Format::WebM),
            _ if bytes.starts_with(matroska::MAGIC) => Some(Format::Matroska),
            // The size of the box distinguishes a file from a text with these letters at the same position ("The wide
            // road").
            [0, 0, _, _, b'f', b't', b'y', b'p', ..] => brand(bytes),
            // Old QuickTime files start without a brand.
            [0, _, _, _, b'm', b'o', b'o', b'v', ..] | [0, 0, 0, 8, b'w', b'i', b'd', b'e', ..] => {
                Some(Format::QuickTime)
            }
            _ => None,
        }
    }

    /// Returns the media type.
    pub fn mime_type(self) -> &'static str {
        match self {
            Format::Png => "image/png",
            Format::Jpeg => "image/jpeg",
            Format::WebP => "image/webp",
            Format::Gif => "image/gif",
            Format::Avif => "image/avif",
            Format::Heic => "image/heic",
            Format::JpegXl => "image/jxl",
            Format::Tiff => "image/tiff",
            Format::Bmp => "image/bmp",
            Format::Mp4 => "video/mp4",
            Format::QuickTime => "video/quicktime",
            Format::WebM => "video/webm",
            Format::Matroska => "video/x-matroska",
        }
    }

    /// Returns the common name of the format.
    pub fn name(self) -> &'static str {
        match self {
            Format::Png => "PNG",
            Format::Jpeg => "JPEG",
            Format::WebP => "WebP",
            Format::Gif => "GIF",
            Format::Avif => "AVIF",
            Format::Heic => "HEIC",
            Format::JpegXl => "JPEG XL",
            Format::Tiff => "TIFF",
            Format::Bmp => "BMP",
            Format::Mp4 => "MP4",
            Format::QuickTime => "QuickTime",
            Format::WebM => "WebM",
            Format::Matroska => "Matroska",
        }
    }

    /// Returns whether files of this format are videos.
    pub fn is_video(self) -> bool {
        matches!(self, Format::Mp4 | Format::QuickTime | Format::WebM | Format::Matroska)
    }

    /// Returns whether the format can hold texts at all.
    pub fn has_texts(self) -> bool {
        self != Format::Bmp
    }

    /// Returns whether files of this format are still images in boxes.
    fn is_still(self) -> bool {
        matches!(self, Format::Avif | Format::Heic | Format::JpegXl)
    }
}

/// The major brands of files in the same boxes that are neither images nor videos: audio, and raw photographs.
const OTHER_BRANDS: [&[u8]; 7] = [b"M4A ", b"M4B ", b"M4P ", b"F4A ", b"F4B ", b"crx ", b"jpx "];

/// Distinguishes still images from videos by their brands; `None` for other files.
fn brand(bytes: &[u8]) -> Option<Format> {
    let has = |brands: &[&[u8; 4]]| heif::has_brand(bytes, brands);
    if bytes.get(8..12).is_some_and(|major| OTHER_BRANDS.contains(&major)) {
        None
    } else if has(&[b"avif", b"avis"]) {
        Some(Format::Avif)
    } else if has(&[b"heic", b"heix", b"hevc", b"heim", b"heis", b"mif1", b"msf1"]) {
        Some(Format::Heic)
    } else if has(&[b"qt  "]) {
        Some(Format::QuickTime)
    } else {
        Some(Format::Mp4)
    }
}

/// An image inside a video file that represents it, such as a cover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Poster {
    /// The offset of its first byte in the file.
    pub offset: u64,
    /// Its length in bytes, as the file claims.
    pub length: u64,
    /// Its media type, as the file claims.
    pub mime_type: &'static str,
}

/// A text of the file, verbatim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawText {
    /// The structure that contains it.
    pub slot: Slot,
    /// The offset of that structure in the file.
    pub offset: u64,
    /// Its name there: a keyword, or the name of a tag.
    pub key: String,
    /// The text.
    pub text: String,
}

/// The structure that contains a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Slot {
    /// A chunk of a PNG, by its type.
    PngChunk(&'static str),
    /// A tag of EXIF, by its directory.
    Exif(&'static str),
    /// An XMP packet.
    Xmp,
    /// An IPTC record.
    Iptc,
    /// A comment of a JPEG.
    JpegComment,
    /// A comment of a GIF.
    GifComment,
    /// An assertion of the file's own C2PA manifest; never verified here.
    C2pa,
    /// An assertion of the C2PA manifest of something the file was made from; never verified here.
    C2paIngredient,
    /// A text of an MP4 or QuickTime file, by its structure.
    Mp4(&'static str),
    /// A text of a Matroska or WebM file: a tag or an attachment.
    Matroska(&'static str),
    /// The lowest bits of the pixels.
    Pixels(&'static str),
    /// A sidecar file of the image, by its extension or name; the offset refers to that file.
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
            Slot::C2paIngredient => f.write_str("C2PA of an ingredient"),
            Slot::Mp4(place) => write!(f, "MP4 {place}"),
            Slot::Matroska(place) => write!(f, "Matroska {place}"),
            Slot::Pixels(channels) => write!(f, "{channels} of the pixels"),
            Slot::Beside(file) => write!(f, "{file} beside the image"),
        }
    }
}

impl RawText {
    /// Returns the location of the text: `PNG tEXt at byte 33`.
    pub fn place(&self) -> String {
        match self.slot {
            Slot::Pixels(_) => self.slot.to_string(),
            slot => format!("{slot} at byte {}", self.offset),
        }
    }
}

/// The result of a walk.
#[derive(Debug, Default)]
pub(super) struct Texts {
    pub(super) format: Option<Format>,
    pub(super) width: Option<u32>,
    pub(super) height: Option<u32>,
    /// Whether the pixels have an alpha channel.
    pub(super) alpha: bool,
    pub(super) poster: Option<Poster>,
    pub(super) raw: Vec<RawText>,
    pub(super) notes: Vec<String>,
    /// The name of the file, if known.
    pub(super) name: Option<String>,
    /// Every text parsed as JSON, on demand.
    parsed: Vec<OnceCell<Option<Value>>>,
    /// The total size of the texts.
    taken: u64,
    /// The total size of what was inflated, whether or not it was added.
    inflated: u64,
}

/// Lists the texts of a file.
pub(super) fn walk(reader: impl Read + Seek) -> io::Result<Texts> {
    walk_input(&mut MediaInput::new(reader)?)
}

/// Lists the texts of a stream that cannot seek.
pub(super) fn walk_stream(reader: impl Read) -> io::Result<Texts> {
    walk_input(&mut MediaInput::unbounded(Forward(reader)))
}

fn walk_input<R: Read + Seek>(input: &mut MediaInput<R>) -> io::Result<Texts> {
    let mut texts = Texts { format: Format::of(&input.peek(MAGIC_BYTES)?), ..Texts::default() };
    match texts.format {
        Some(Format::Png) => png::walk(input, &mut texts)?,
        Some(Format::Jpeg) => jpeg::walk(input, &mut texts)?,
        Some(Format::WebP) => webp::walk(input, &mut texts)?,
        Some(Format::Gif) => gif::walk(input, &mut texts)?,
        Some(Format::Tiff) => tiff::walk(input, &mut texts)?,
        Some(Format::Bmp) => bmp::walk(input, &mut texts)?,
        Some(Format::JpegXl) if input.peek(2)? == jxl::CODESTREAM => jxl::size(&input.bytes(16)?, &mut texts),
        Some(Format::JpegXl | Format::Avif | Format::Heic | Format::Mp4 | Format::QuickTime) => {
            bmff::walk(input, &mut texts)?;
        }
        Some(Format::WebM | Format::Matroska) => matroska::walk(input, &mut texts)?,
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

/// Returns the size stated in a WebP.
pub(super) fn webp_size(image: &[u8]) -> Option<WebpSize> {
    let texts = walk(io::Cursor::new(image)).ok()?;
    Some(WebpSize { width: texts.width?, height: texts.height?, alpha: texts.alpha })
}

impl Texts {
    /// Adds a text, unless the limits on text are reached.
    pub(super) fn add(&mut self, slot: Slot, offset: u64, key: impl Into<String>, text: String) {
        let size = u64::try_from(text.len()).unwrap_or(u64::MAX);
        if self.raw.len() >= MAX_TEXTS || size > self.room() {
            self.note(format!("{slot} at byte {offset}: left out, since this file has too much text"));
            return;
        }
        self.taken += size;
        self.raw.push(RawText { slot, offset, key: key.into(), text });
        self.parsed.push(OnceCell::new());
    }

    /// Returns the total size of the texts.
    pub(super) fn taken(&self) -> usize {
        usize::try_from(self.taken).unwrap_or(usize::MAX)
    }

    /// Returns how much more text can be added.
    pub(super) fn room(&self) -> u64 {
        MAX_TEXT.saturating_sub(self.taken)
    }

    /// Inflates what a decoder yields; `None` if it is more than can be added, or invalid. If `accept_partial`, what was
    /// inflated before invalid data is returned.
    pub(super) fn inflate(&mut self, decoder: impl Read, accept_partial: bool) -> Option<Vec<u8>> {
        let most = self.room().min(MAX_INFLATED.saturating_sub(self.inflated));
        let mut contents = Vec::new();
        let result = decoder.take(most.saturating_add(1)).read_to_end(&mut contents);
        let size = u64::try_from(contents.len()).unwrap_or(u64::MAX);
        self.inflated = self.inflated.saturating_add(size);
        let is_valid = result.is_ok() || (accept_partial && size > 0);
        (size <= most && is_valid).then_some(contents)
    }

    /// Adds a note about what could not be read.
    pub(super) fn note(&mut self, note: String) {
        const MOST: usize = 20;
        if self.notes.len() < MOST {
            self.notes.push(note);
        }
    }

    /// Returns the first text with this keyword: of a PNG, or of a video, whose formats do not preserve the case of
    /// names.
    pub(super) fn png(&self, keyword: &str) -> Option<usize> {
        self.raw.iter().position(|raw| match raw.slot {
            Slot::PngChunk(_) => raw.key == keyword,
            Slot::Mp4(_) | Slot::Matroska(_) => raw.key.eq_ignore_ascii_case(keyword),
            _ => false,
        })
    }

    /// Returns the first text of an EXIF tag, in any directory.
    pub(super) fn exif(&self, tag: &str) -> Option<usize> {
        self.raw.iter().position(|raw| matches!(raw.slot, Slot::Exif(_)) && raw.key == tag)
    }

    /// Returns the first text of an IPTC record.
    pub(super) fn iptc(&self, record: &str) -> Option<usize> {
        self.raw.iter().position(|raw| raw.slot == Slot::Iptc && raw.key == record)
    }

    /// Returns the text of a sidecar file.
    pub(super) fn beside(&self, file: &str) -> Option<usize> {
        self.raw.iter().position(|raw| matches!(raw.slot, Slot::Beside(name) if name == file))
    }

    /// Returns the text at this index.
    pub(super) fn text(&self, index: usize) -> &str {
        self.raw.get(index).map_or("", |raw| &raw.text)
    }

    /// Returns the text at this index as JSON, if it is JSON and contains one of these words. Workflows are large, and
    /// a reader that is not concerned should not cause them to be parsed.
    pub(super) fn json_with(&self, index: usize, words: &[&str]) -> Option<&Value> {
        let text = self.text(index).as_bytes();
        let there = words.iter().any(|word| memchr::memmem::find(text, word.as_bytes()).is_some());
        if there { self.json(index) } else { None }
    }

    /// Returns the text at this index as JSON, if it is JSON.
    pub(super) fn json(&self, index: usize) -> Option<&Value> {
        self.parsed.get(index)?.get_or_init(|| json::parse(self.text(index))).as_ref()
    }
}
