//! Metadata of MP4, M4V and QuickTime files: `udta` texts, `ilst` items under their four-character codes or under names
//! from `keys`, and cover images.

use std::io::{self, Read, Seek};

use super::bmff::{BoxWalk, Head, capped};
use super::bytes::{ByteOrder, u32_at};
use super::heif::text_length;
use super::input::MediaInput;
use super::{Poster, Slot, Texts, text};

/// The maximum number of names taken from `keys`.
const MAX_KEYS: usize = 1_000;

/// Reads the user data of a movie or a track.
pub(super) fn user_data<R: Read + Seek>(
    walk: &mut BoxWalk,
    input: &mut MediaInput<R>,
    head: Head,
    depth: usize,
    texts: &mut Texts,
) -> io::Result<()> {
    for_each_box(input, head.end, |input, inner| match &inner.kind {
        b"meta" => meta(walk, input, inner, depth + 1, texts),
        b"XMP_" => {
            let packet = capped(input, inner, texts.room(), "XMP packet", texts)?;
            texts.add(Slot::Xmp, inner.start, "XMP", text::ascii(&packet));
            Ok(())
        }
        [0xa9, ..] => {
            let value = capped(input, inner, texts.room(), "text", texts)?;
            // A length, a language, the text; further languages follow.
            let own = text_length(&value).and_then(|length| value.get(4..)?.get(..length));
            if let Some(own) = own {
                texts.add(Slot::Mp4("udta"), inner.start, name(&inner.kind), text::ascii(own));
            }
            Ok(())
        }
        _ => Ok(()),
    })
}

/// Reads a metadata box: its names, then its items.
pub(super) fn meta<R: Read + Seek>(
    walk: &mut BoxWalk,
    input: &mut MediaInput<R>,
    head: Head,
    _depth: usize,
    texts: &mut Texts,
) -> io::Result<()> {
    // ISO has version and flags here; QuickTime's own format does not.
    if input.peek(8)?.get(4..8) != Some(b"hdlr") {
        input.skip(4)?;
    }
    let mut keys = std::mem::take(&mut walk.keys);
    for_each_box(input, head.end, |input, inner| match &inner.kind {
        b"keys" => {
            let listed = capped(input, inner, texts.room(), "list of names", texts)?;
            keys = names(&listed);
            Ok(())
        }
        b"ilst" => for_each_box(input, inner.end, |input, item| item_texts(input, item, &keys, texts)),
        _ => Ok(()),
    })?;
    walk.keys = keys;
    Ok(())
}

/// Reads the size of the first visible track: 16.16 fixed-point numbers at the end of `tkhd`.
pub(super) fn track_size(tkhd: &[u8], texts: &mut Texts) {
    let at = if tkhd.first() == Some(&1) { 88 } else { 76 };
    let side = |at: usize| u32_at(tkhd, at, ByteOrder::Big).map(|side| side >> 16).filter(|side| *side > 0);
    if let (None, Some(width), Some(height)) = (texts.width, side(at), side(at + 4)) {
        (texts.width, texts.height) = (Some(width), Some(height));
    }
}

fn item_texts<R: Read + Seek>(
    input: &mut MediaInput<R>,
    item: Head,
    keys: &[String],
    texts: &mut Texts,
) -> io::Result<()> {
    let number = usize::try_from(u32::from_be_bytes(item.kind)).ok();
    let keyed = number.and_then(|number| keys.get(number.checked_sub(1)?));
    let slot = Slot::Mp4(if keyed.is_some() { "keys" } else { "ilst" });
    let mut key = keyed.cloned().unwrap_or_else(|| name(&item.kind));
    for_each_box(input, item.end, |input, part| match &part.kind {
        // `----` items carry their name next to the value.
        b"name" => {
            let value = capped(input, part, 1_000, "name", texts)?;
            key = text::ascii(value.get(4..).unwrap_or_default());
            Ok(())
        }
        b"data" => {
            let Some([_, _, _, kind, ..]) = input.array::<8>()? else { return Ok(()) };
            let (offset, length) = (input.at(), part.left(input));
            match kind {
                1 => {
                    let value = capped(input, part, texts.room(), "text", texts)?;
                    texts.add(slot, item.start, key.clone(), text::ascii(&value));
                }
                2 => {
                    let value = capped(input, part, texts.room(), "text", texts)?;
                    texts.add(slot, item.start, key.clone(), text::utf16_be(&value));
                }
                13 | 14 if texts.poster.is_none() => {
                    let mime_type = if kind == 13 { "image/jpeg" } else { "image/png" };
                    texts.poster = Some(Poster { offset, length, mime_type });
                }
                _ => {}
            }
            Ok(())
        }
        _ => Ok(()),
    })
}

/// Returns the names of numbered items: a count, then the size, namespace and name of each.
fn names(keys: &[u8]) -> Vec<String> {
    let mut names = Vec::new();
    let mut rest = keys.get(8..).unwrap_or_default();
    while let Some(size) = u32_at(rest, 0, ByteOrder::Big).and_then(|size| usize::try_from(size).ok()) {
        let Some(name) = rest.get(8..size) else { break };
        if names.len() >= MAX_KEYS {
            break;
        }
        let name = text::ascii(name);
        // QuickTime qualifies its own names.
        names.push(name.strip_prefix("com.apple.quicktime.").map(str::to_owned).unwrap_or(name));
        rest = rest.get(size..).unwrap_or_default();
    }
    names
}

/// Visits a sequence of small boxes; an invalid box ends it.
fn for_each_box<R: Read + Seek>(
    input: &mut MediaInput<R>,
    end: u64,
    mut visit: impl FnMut(&mut MediaInput<R>, Head) -> io::Result<()>,
) -> io::Result<()> {
    const MAX_BOXES: usize = 2_000;
    for _ in 0..MAX_BOXES {
        let start = input.at();
        if start.saturating_add(8) > end {
            break;
        }
        let Some([a, b, c, d, kind @ ..]) = input.array::<8>()? else { break };
        let size = u64::from(u32::from_be_bytes([a, b, c, d]));
        if size < 8 {
            break;
        }
        let head = Head { kind, start, end: start.saturating_add(size).min(end) };
        visit(input, head)?;
        input.seek_to(head.end.max(input.at()))?;
    }
    Ok(())
}

/// Returns the readable name of a four-character code.
fn name(kind: &[u8; 4]) -> String {
    match kind {
        b"\xa9cmt" => "comment".to_owned(),
        b"\xa9nam" => "title".to_owned(),
        b"\xa9des" | b"desc" | b"ldes" => "description".to_owned(),
        b"\xa9too" | b"\xa9swr" | b"\xa9enc" => "encoder".to_owned(),
        b"\xa9ART" | b"\xa9aut" => "artist".to_owned(),
        b"\xa9day" => "date".to_owned(),
        b"\xa9inf" => "information".to_owned(),
        _ => kind.iter().map(|byte| char::from(*byte)).collect(),
    }
}
