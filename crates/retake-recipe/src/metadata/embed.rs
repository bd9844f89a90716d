//! Embeds texts into a copy of an image, whose pixels stay byte for byte the same.
//!
//! A PNG gets an `iTXt` chunk for every text, replacing those with the same keywords. JPEG and WebP use EXIF, which has
//! no keywords: the first text becomes UserComment, the second ImageUniqueID. Existing EXIF is kept: its directories
//! are rewritten after it with the new entries, so that no offset in it changes.

use super::container::{ByteOrder, Format, u16_at, u32_at};

/// The maximum size of a JPEG segment.
const MAX_SEGMENT: usize = 65_533;
const EXIF_MARK: &[u8] = b"Exif\0\0";
const EXIF_DIRECTORY: u16 = 0x8769;
const USER_COMMENT: u16 = 0x9286;
const IMAGE_UNIQUE_ID: u16 = 0xa420;

/// The reason why a text cannot be embedded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotEmbedded {
    /// The format does not support it.
    #[error("this file format takes no text")]
    Format,
    /// The text is too long for the format.
    #[error("the text is too long for this file format")]
    TooLong,
    /// The file is damaged.
    #[error("the file is damaged")]
    Damaged,
}

/// Returns a copy of an image with these texts embedded: in a PNG under their keywords, in JPEG and WebP the first as
/// EXIF's comment and the second as its id.
pub fn embed(picture: &[u8], texts: &[(&str, &str)]) -> Result<Vec<u8>, NotEmbedded> {
    let format = Format::of(picture).ok_or(NotEmbedded::Format)?;
    let embedded = match format {
        Format::Png => png(picture, texts),
        Format::Jpeg => return jpeg(picture, texts),
        Format::WebP => webp(picture, texts),
        _ => return Err(NotEmbedded::Format),
    };
    embedded.ok_or(NotEmbedded::Damaged)
}

fn png(picture: &[u8], texts: &[(&str, &str)]) -> Option<Vec<u8>> {
    let mut out = picture.get(..8)?.to_vec();
    let mut rest = picture.get(8..)?;
    let mut added = false;
    while !rest.is_empty() {
        let length = usize::try_from(u32::from_be_bytes(rest.get(..4)?.try_into().ok()?)).ok()?;
        let end = length.checked_add(12)?;
        let chunk = rest.get(..end)?;
        let kind = chunk.get(4..8)?;
        let keyword = chunk.get(8..)?.split(|byte| *byte == 0).next()?;
        let is_text = matches!(kind, b"tEXt" | b"zTXt" | b"iTXt");
        let replaced = is_text && texts.iter().any(|(key, _)| key.as_bytes() == keyword);
        if !replaced {
            out.extend_from_slice(chunk);
        }
        if kind == b"IHDR" && !added {
            added = true;
            for (key, text) in texts {
                let data = [b"iTXt", key.as_bytes(), b"\0\0\0\0\0", text.as_bytes()].concat();
                out.extend_from_slice(&u32::try_from(data.len() - 4).ok()?.to_be_bytes());
                out.extend_from_slice(&data);
                out.extend_from_slice(&crc32fast::hash(&data).to_be_bytes());
            }
        }
        if kind == b"IEND" {
            // Data after the end is kept.
            out.extend_from_slice(rest.get(end..)?);
            break;
        }
        rest = rest.get(end..)?;
    }
    added.then_some(out)
}

fn jpeg(picture: &[u8], texts: &[(&str, &str)]) -> Result<Vec<u8>, NotEmbedded> {
    // The segment that contains EXIF, and the position of a new one: after JFIF's, which must be first.
    let (mut at, mut place, mut old) = (2, 2, None);
    while let Some([0xff, marker @ 0xe0..=0xef, high, low]) = picture.get(at..at + 4) {
        let end = at + 2 + usize::from(u16::from_be_bytes([*high, *low]));
        let segment = picture.get(at + 4..end).ok_or(NotEmbedded::Damaged)?;
        if *marker == 0xe0 {
            place = end;
        }
        if *marker == 0xe1 && segment.starts_with(EXIF_MARK) && old.is_none() {
            old = Some((at, end, segment));
        }
        at = end;
    }
    let block = old.and_then(|(_, _, segment)| segment.strip_prefix(EXIF_MARK));
    let tiff = tiff(block.unwrap_or_default(), texts).ok_or(NotEmbedded::Damaged)?;
    let length = tiff.len() + EXIF_MARK.len() + 2;
    let length = u16::try_from(length).ok().filter(|_| length <= MAX_SEGMENT).ok_or(NotEmbedded::TooLong)?;
    let (start, end) = old.map_or((place, place), |(start, end, _)| (start, end));
    let parts = [
        picture.get(..start),
        Some(b"\xff\xe1"),
        Some(&length.to_be_bytes()),
        Some(EXIF_MARK),
        Some(&tiff),
        picture.get(end..),
    ];
    parts.into_iter().collect::<Option<Vec<&[u8]>>>().map(|parts| parts.concat()).ok_or(NotEmbedded::Damaged)
}

fn webp(picture: &[u8], texts: &[(&str, &str)]) -> Option<Vec<u8>> {
    const HAS_EXIF: u8 = 8;
    const HAS_ALPHA: u8 = 16;
    let mut chunks: Vec<(&[u8], Vec<u8>)> = Vec::new();
    let mut rest = picture.get(12..)?;
    while rest.len() >= 8 {
        let length = usize::try_from(u32::from_le_bytes(rest.get(4..8)?.try_into().ok()?)).ok()?;
        chunks.push((rest.get(..4)?, rest.get(8..length.checked_add(8)?)?.to_vec()));
        rest = rest.get((length + 8 + length % 2).min(rest.len())..)?;
    }
    let old = chunks.iter().position(|(kind, _)| *kind == b"EXIF").map(|place| chunks.remove(place).1);
    let old = old.as_deref().map(|block| block.strip_prefix(EXIF_MARK).unwrap_or(block));
    let exif = tiff(old.unwrap_or_default(), texts)?;
    if chunks.first()?.0 != b"VP8X" {
        // The simple format only has pixels; the extended one starts with their size.
        let header = super::container::webp_size(picture)?;
        let side = |side: u32| side.checked_sub(1).map(u32::to_le_bytes);
        let ([w0, w1, w2, _], [h0, h1, h2, _]) = (side(header.width)?, side(header.height)?);
        let flags = if header.alpha { HAS_ALPHA } else { 0 };
        chunks.insert(0, (b"VP8X", vec![flags, 0, 0, 0, w0, w1, w2, h0, h1, h2]));
    }
    *chunks.first_mut()?.1.first_mut()? |= HAS_EXIF;
    let xmp = chunks.iter().position(|(kind, _)| *kind == b"XMP ").unwrap_or(chunks.len());
    chunks.insert(xmp, (b"EXIF", exif));
    let mut body = b"WEBP".to_vec();
    for (kind, data) in chunks {
        body.extend_from_slice(kind);
        body.extend_from_slice(&u32::try_from(data.len()).ok()?.to_le_bytes());
        body.extend_from_slice(&data);
        body.resize(body.len() + data.len() % 2, 0);
    }
    Some([b"RIFF".as_slice(), &u32::try_from(body.len()).ok()?.to_le_bytes(), &body].concat())
}

/// An entry of a directory in its raw form.
type Entry = (u16, [u8; 12]);

/// Returns the block with the texts added, or a new one.
fn tiff(old: &[u8], texts: &[(&str, &str)]) -> Option<Vec<u8>> {
    let mut tiff = if old.is_empty() { b"MM\0\x2a\0\0\0\0".to_vec() } else { old.to_vec() };
    let order = if tiff.starts_with(b"II") { ByteOrder::Little } else { ByteOrder::Big };
    let first = u32_at(&tiff, 4, order)?;
    let mut main = if first == 0 { Vec::new() } else { directory(&tiff, first, order)? };
    let below = main.iter().find(|(tag, _)| *tag == EXIF_DIRECTORY).and_then(|(_, entry)| u32_at(entry, 8, order));
    let mut exif = below.map_or(Some(Vec::new()), |below| directory(&tiff, below, order))?;
    for ((_, text), tag) in texts.iter().zip([USER_COMMENT, IMAGE_UNIQUE_ID]) {
        let (kind, value) = if tag == USER_COMMENT {
            let units = text.encode_utf16().flat_map(|unit| order.u16_bytes(unit));
            (7, b"UNICODE\0".iter().copied().chain(units).collect::<Vec<u8>>())
        } else {
            (2, [text.as_bytes(), b"\0"].concat())
        };
        // A comment in the main directory, where some savers put it, would be found first.
        main.retain(|(there, _)| *there != tag);
        place(&mut tiff, &mut exif, order, tag, kind, &value)?;
    }
    let exif = append(&mut tiff, exif, order)?;
    let mut pointer = [0; 12];
    write_entry(&mut pointer, order, EXIF_DIRECTORY, 4, 1, order.u32_bytes(exif));
    main.retain(|(tag, _)| *tag != EXIF_DIRECTORY);
    main.push((EXIF_DIRECTORY, pointer));
    let main = append(&mut tiff, main, order)?;
    tiff.get_mut(4..8)?.copy_from_slice(&order.u32_bytes(main));
    Some(tiff)
}

fn directory(tiff: &[u8], at: u32, order: ByteOrder) -> Option<Vec<Entry>> {
    let at = usize::try_from(at).ok()?;
    let count = usize::from(u16_at(tiff, at, order)?);
    let entries = (0..count).map(|entry| {
        let start = at.checked_add(2 + 12 * entry)?;
        Some((u16_at(tiff, start, order)?, tiff.get(start..start + 12)?.try_into().ok()?))
    });
    entries.collect()
}

/// Writes a value after the block and its entry into the directory.
fn place(
    tiff: &mut Vec<u8>,
    entries: &mut Vec<Entry>,
    order: ByteOrder,
    tag: u16,
    kind: u16,
    value: &[u8],
) -> Option<()> {
    let count = u32::try_from(value.len()).ok()?;
    let mut inline = [0; 4];
    match inline.get_mut(..value.len()) {
        Some(short) => short.copy_from_slice(value),
        None => {
            tiff.resize(tiff.len() + tiff.len() % 2, 0);
            inline = order.u32_bytes(u32::try_from(tiff.len()).ok()?);
            tiff.extend_from_slice(value);
        }
    }
    let mut entry = [0; 12];
    write_entry(&mut entry, order, tag, kind, count, inline);
    entries.retain(|(there, _)| *there != tag);
    entries.push((tag, entry));
    Some(())
}

fn write_entry(entry: &mut [u8; 12], order: ByteOrder, tag: u16, kind: u16, count: u32, value: [u8; 4]) {
    let bytes =
        order.u16_bytes(tag).into_iter().chain(order.u16_bytes(kind)).chain(order.u32_bytes(count)).chain(value);
    for (place, byte) in entry.iter_mut().zip(bytes) {
        *place = byte;
    }
}

/// Writes a directory after the block and returns its offset. A thumbnail's directory is dropped.
fn append(tiff: &mut Vec<u8>, mut entries: Vec<Entry>, order: ByteOrder) -> Option<u32> {
    entries.sort_by_key(|(tag, _)| *tag);
    tiff.resize(tiff.len() + tiff.len() % 2, 0);
    let at = u32::try_from(tiff.len()).ok()?;
    tiff.extend_from_slice(&order.u16_bytes(u16::try_from(entries.len()).ok()?));
    for (_, entry) in entries {
        tiff.extend_from_slice(&entry);
    }
    tiff.extend_from_slice(&[0; 4]);
    Some(at)
}
