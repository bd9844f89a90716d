//! The item directory of AVIF and HEIC images: which items contain EXIF or XMP, their locations, and the size of the
//! image.

use std::fmt;

use super::bytes::{ByteOrder, u16_at, u32_at, uint_at};

/// The maximum number of items examined.
const MAX_ITEMS: usize = 2_000;

/// An item with a text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Item {
    pub(super) kind: ItemKind,
    /// Its offset in the file.
    pub(super) offset: u64,
    pub(super) length: u64,
}

/// The contents of an item.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum ItemKind {
    Exif,
    Xmp,
}

impl fmt::Display for ItemKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ItemKind::Exif => "EXIF block",
            ItemKind::Xmp => "XMP packet",
        })
    }
}

/// The contents of a directory.
#[derive(Debug, Default)]
pub(super) struct Directory {
    pub(super) items: Vec<Item>,
    pub(super) width: Option<u32>,
    pub(super) height: Option<u32>,
}

/// Reads the contents of a `meta` box at `offset` of the file.
pub(super) fn read(meta: &[u8], offset: u64) -> Directory {
    let mut directory = Directory::default();
    let mut kinds: Vec<(u32, ItemKind)> = Vec::new();
    let mut places: Vec<Place> = Vec::new();
    let mut data_at = None;
    // Skip version and flags.
    for (kind, at, contents) in boxes(meta, 4) {
        match kind {
            b"iinf" => kinds = item_kinds(contents),
            b"iloc" => places = locations(contents),
            b"idat" => data_at = u64::try_from(at).ok().map(|at| offset + at),
            b"iprp" => largest(contents, &mut directory),
            _ => {}
        }
    }
    for (id, kind) in kinds {
        let place = places.iter().find(|place| place.id == id);
        let base = |place: &Place| if place.in_directory { data_at } else { Some(0) };
        if let Some((place, base)) = place.and_then(|place| Some((place, base(place)?))) {
            directory.items.push(Item { kind, offset: base.saturating_add(place.offset), length: place.length });
        }
    }
    directory
}

/// Iterates over boxes: kind, offset of the contents, contents.
fn boxes(bytes: &[u8], mut at: usize) -> impl Iterator<Item = (&[u8; 4], usize, &[u8])> {
    std::iter::from_fn(move || {
        let size = usize::try_from(u32_at(bytes, at, ByteOrder::Big)?).ok()?;
        let kind = bytes.get(at + 4..at + 8)?.try_into().ok()?;
        let end = if size == 0 { bytes.len() } else { at.checked_add(size.max(8))?.min(bytes.len()) };
        let start = at + 8;
        at = end;
        Some((kind, start, bytes.get(start..end)?))
    })
    .take(MAX_ITEMS)
}

fn item_kinds(iinf: &[u8]) -> Vec<(u32, ItemKind)> {
    let entries = if iinf.first() == Some(&0) { 6 } else { 8 };
    boxes(iinf, entries)
        .filter(|(kind, _, _)| *kind == b"infe")
        .filter_map(|(_, _, entry)| {
            let wide = match entry.first()? {
                2 => 0,
                3 => 2,
                _ => return None,
            };
            let id = uint_at(entry, 4, 2 + wide).and_then(|id| u32::try_from(id).ok())?;
            // A protection index, the type, a NUL-terminated name, and for `mime` the content type.
            let kind = entry.get(8 + wide..12 + wide)?;
            let mut strings = entry.get(12 + wide..)?.split(|byte| *byte == 0);
            let _name = strings.next();
            match kind {
                b"Exif" => Some((id, ItemKind::Exif)),
                b"mime" if strings.next() == Some(b"application/rdf+xml") => Some((id, ItemKind::Xmp)),
                _ => None,
            }
        })
        .collect()
}

struct Place {
    id: u32,
    /// Whether the offset is relative to the data in the directory rather than to the beginning of the file.
    in_directory: bool,
    offset: u64,
    length: u64,
}

/// Reads the locations of items. An item in several pieces is described by its first piece and the total length if the
/// pieces are adjacent; otherwise it is left out.
fn locations(iloc: &[u8]) -> Vec<Place> {
    let Some(version) = iloc.first().copied().filter(|version| *version <= 2) else { return Vec::new() };
    let nibble = |at: usize, shift: u8| iloc.get(at).map_or(0, |byte| usize::from(byte >> shift & 15));
    let (offset_size, length_size, base_size) = (nibble(4, 4), nibble(4, 0), nibble(5, 4));
    let index_size = if version == 0 { 0 } else { nibble(5, 0) };
    let id_size = if version == 2 { 4 } else { 2 };
    let mut at = 6;
    let mut number = |size: usize| {
        let value = uint_at(iloc, at, size)?;
        at += size;
        Some(value)
    };
    let mut places = Vec::new();
    let count = number(id_size).unwrap_or(0);
    for _ in 0..count.min(u64::try_from(MAX_ITEMS).unwrap_or(u64::MAX)) {
        let mut place = || {
            let id = u32::try_from(number(id_size)?).ok()?;
            let method = if version == 0 { 0 } else { number(2)? & 15 };
            let _data_reference = number(2)?;
            let base = number(base_size)?;
            let pieces = number(2)?;
            let mut whole: Option<(u64, u64)> = None;
            let mut adjacent = pieces > 0 && method < 2;
            for _ in 0..pieces {
                let _index = number(index_size)?;
                let offset = base.saturating_add(number(offset_size)?);
                let length = number(length_size)?;
                whole = match whole {
                    None => Some((offset, length)),
                    Some((start, so_far)) => {
                        adjacent &= start.saturating_add(so_far) == offset;
                        Some((start, so_far.saturating_add(length)))
                    }
                };
            }
            Some((whole.filter(|_| adjacent), id, method == 1))
        };
        let Some((whole, id, in_directory)) = place() else { break };
        places.extend(whole.map(|(offset, length)| Place { id, in_directory, offset, length }));
    }
    places
}

/// Finds the size of the image, which is that of its largest item, since thumbnails and tiles are smaller.
fn largest(iprp: &[u8], directory: &mut Directory) {
    let properties = boxes(iprp, 0).filter(|(kind, _, _)| *kind == b"ipco");
    let sizes = properties.flat_map(|(_, _, ipco)| boxes(ipco, 0)).filter(|(kind, _, _)| *kind == b"ispe");
    let size = |contents: &[u8]| Some((u32_at(contents, 4, ByteOrder::Big)?, u32_at(contents, 8, ByteOrder::Big)?));
    let sizes = sizes.filter_map(|(_, _, contents)| size(contents));
    if let Some((width, height)) = sizes.max_by_key(|(width, height)| u64::from(*width) * u64::from(*height)) {
        (directory.width, directory.height) = (Some(width), Some(height));
    }
}

/// Returns whether one of the brands in an `ftyp` box is among these.
pub(super) fn has_brand(file: &[u8], brands: &[&[u8; 4]]) -> bool {
    let size = u32_at(file, 0, ByteOrder::Big).and_then(|size| usize::try_from(size).ok()).unwrap_or(0);
    let listed = file.get(8..size.min(file.len())).unwrap_or_default();
    // The major brand, its version, the compatible brands; a version never looks like a brand.
    listed.chunks_exact(4).any(|brand| brands.iter().any(|known| known.as_slice() == brand))
}

/// Returns the 16-bit number that QuickTime stores as text length.
pub(super) fn text_length(bytes: &[u8]) -> Option<usize> {
    u16_at(bytes, 0, ByteOrder::Big).map(usize::from)
}
