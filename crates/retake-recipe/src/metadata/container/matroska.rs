//! Matroska and WebM: nested elements. Texts are in `Tags` and `Info`, cover images and other files in `Attachments`;
//! clusters, which contain the frames, are skipped.

use std::io::{self, Read, Seek};

use super::input::MediaInput;
use super::{Poster, Slot, Texts, text};

/// The first bytes of a Matroska or WebM file.
pub(super) const MAGIC: &[u8] = &[0x1a, 0x45, 0xdf, 0xa3];

/// The maximum number of elements visited in one file.
const MAX_ELEMENTS: usize = 50_000;
/// The maximum nesting depth of elements.
const MAX_DEPTH: usize = 8;
/// The maximum length of a tag or file name.
const MAX_NAME: u64 = 1_000;

const SEGMENT: u32 = 0x1853_8067;
const CLUSTER: u32 = 0x1f43_b675;
const INFO: u32 = 0x1549_a966;
const TITLE: u32 = 0x7ba9;
const WRITING_APP: u32 = 0x5741;
const TRACKS: u32 = 0x1654_ae6b;
const TRACK_ENTRY: u32 = 0xae;
const VIDEO: u32 = 0xe0;
const PIXEL_WIDTH: u32 = 0xb0;
const PIXEL_HEIGHT: u32 = 0xba;
const TAGS: u32 = 0x1254_c367;
const TAG: u32 = 0x7373;
const SIMPLE_TAG: u32 = 0x67c8;
const TAG_NAME: u32 = 0x45a3;
const TAG_STRING: u32 = 0x4487;
const ATTACHMENTS: u32 = 0x1941_a469;
const ATTACHED_FILE: u32 = 0x61a7;
const FILE_NAME: u32 = 0x466e;
const FILE_MIME_TYPE: u32 = 0x4660;
const FILE_DATA: u32 = 0x465c;

/// Returns whether the document type at the beginning of a Matroska file is WebM.
pub(super) fn is_webm(bytes: &[u8]) -> bool {
    memchr::memmem::find(bytes, b"\x42\x82\x84webm").is_some()
}

/// Lists the texts of a Matroska or WebM file.
pub(super) fn walk<R: Read + Seek>(input: &mut MediaInput<R>, texts: &mut Texts) -> io::Result<()> {
    let end = input.at().saturating_add(input.left());
    let mut walk = ElementWalk { visited: 0, texts, tag: None, file: File::default() };
    walk.elements(input, end, 0)
}

struct ElementWalk<'a> {
    visited: usize,
    texts: &'a mut Texts,
    /// The name of the tag whose value comes next.
    tag: Option<String>,
    file: File,
}

/// An attached file that is being read.
#[derive(Default)]
struct File {
    name: String,
    mime_type: String,
    data: Option<(u64, u64)>,
}

impl ElementWalk<'_> {
    fn elements<R: Read + Seek>(&mut self, input: &mut MediaInput<R>, end: u64, depth: usize) -> io::Result<()> {
        while input.at() < end {
            if self.visited >= MAX_ELEMENTS {
                self.texts.note(format!("only the first {MAX_ELEMENTS} elements were visited"));
                return Ok(());
            }
            self.visited += 1;
            let start = input.at();
            let (Some(id), Some(size)) = (id(input)?, size(input)?) else { return Ok(()) };
            // A live recording does not know its length: it ends where its parent does. The children of such a cluster
            // are visited as its siblings, since nesting them would let a file control the depth of the stack.
            let inner_end = match size {
                Some(size) => input.at().saturating_add(size).min(end),
                None if id == CLUSTER => input.at(),
                None => end,
            };
            self.visit(input, id, start, inner_end, depth)?;
            input.seek_to(inner_end.max(input.at()))?;
        }
        Ok(())
    }

    fn visit<R: Read + Seek>(
        &mut self,
        input: &mut MediaInput<R>,
        id: u32,
        start: u64,
        end: u64,
        depth: usize,
    ) -> io::Result<()> {
        let length = end.saturating_sub(input.at());
        match id {
            SEGMENT | INFO | TRACKS | TRACK_ENTRY | VIDEO | TAGS | TAG | ATTACHMENTS if depth < MAX_DEPTH => {
                self.elements(input, end, depth + 1)
            }
            SIMPLE_TAG if depth < MAX_DEPTH => {
                self.tag = None;
                self.elements(input, end, depth + 1)
            }
            ATTACHED_FILE if depth < MAX_DEPTH => {
                self.file = File::default();
                self.elements(input, end, depth + 1)?;
                self.attached();
                Ok(())
            }
            PIXEL_WIDTH | PIXEL_HEIGHT if length <= 4 => {
                let side = input.bytes(length)?.iter().fold(0, |side, byte| side << 8 | u32::from(*byte));
                let kept = if id == PIXEL_WIDTH { &mut self.texts.width } else { &mut self.texts.height };
                kept.get_or_insert(side);
                Ok(())
            }
            TAG_NAME if length <= MAX_NAME => {
                self.tag = Some(text::ascii(&input.bytes(length)?));
                Ok(())
            }
            TITLE | WRITING_APP | TAG_STRING => {
                let key = match id {
                    TITLE => "title".to_owned(),
                    WRITING_APP => "WritingApp".to_owned(),
                    _ => self.tag.take().unwrap_or_default(),
                };
                if length > self.texts.room() {
                    self.texts.note(format!("a text of {length} bytes is left out, at byte {start}"));
                    return Ok(());
                }
                let value = text::ascii(&input.bytes(length)?);
                self.texts.add(Slot::Matroska("tag"), start, key, value);
                Ok(())
            }
            FILE_NAME if length <= MAX_NAME => {
                self.file.name = text::ascii(&input.bytes(length)?);
                Ok(())
            }
            FILE_MIME_TYPE if length <= MAX_NAME => {
                self.file.mime_type = text::ascii(&input.bytes(length)?);
                Ok(())
            }
            FILE_DATA => {
                let at = input.at();
                self.file.data = Some((at, length));
                let named = self.file.name.to_ascii_lowercase();
                let is_text = self.file.mime_type.starts_with("application/json") || named.ends_with(".json");
                if is_text && length <= self.texts.room() {
                    let key = self.file.name.rsplit_once('.').map_or(self.file.name.as_str(), |(stem, _)| stem);
                    let key = key.to_owned();
                    let value = text::ascii(&input.bytes(length)?);
                    self.texts.add(Slot::Matroska("attachment"), start, key, value);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Reads an attachment; the first attached image is the poster.
    fn attached(&mut self) {
        let mime_type = match self.file.mime_type.as_str() {
            "image/jpeg" | "image/jpg" => "image/jpeg",
            "image/png" => "image/png",
            "image/webp" => "image/webp",
            _ => return,
        };
        if let (None, Some((offset, length))) = (self.texts.poster, self.file.data) {
            self.texts.poster = Some(Poster { offset, length, mime_type });
        }
    }
}

/// Reads the id of an element: up to four bytes, including the length marker bit.
fn id<R: Read + Seek>(input: &mut MediaInput<R>) -> io::Result<Option<u32>> {
    let Some(first) = input.byte()? else { return Ok(None) };
    let more = first.leading_zeros();
    if more > 3 {
        return Ok(None);
    }
    let mut id = u32::from(first);
    for _ in 0..more {
        let Some(byte) = input.byte()? else { return Ok(None) };
        id = id << 8 | u32::from(byte);
    }
    Ok(Some(id))
}

/// Reads the size of an element; the inner `None` means an unknown size (all bits set).
fn size<R: Read + Seek>(input: &mut MediaInput<R>) -> io::Result<Option<Option<u64>>> {
    let Some(first) = input.byte()? else { return Ok(None) };
    let more = first.leading_zeros();
    if more > 7 {
        return Ok(None);
    }
    let mut size = u64::from(first) & ((1 << (7 - more)) - 1);
    let mut unknown = size == (1 << (7 - more)) - 1;
    for _ in 0..more {
        let Some(byte) = input.byte()? else { return Ok(None) };
        unknown &= byte == 0xff;
        size = size << 8 | u64::from(byte);
    }
    Ok(Some((!unknown).then_some(size)))
}
