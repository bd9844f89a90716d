//! Builds tiny images for these tests, with any text in any place where a tool was seen to put one.

use std::io::{Cursor, Write};

use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};
use image::{ImageFormat, RgbImage, RgbaImage};

/// The side of every image here.
pub(crate) const SIDE: u32 = 16;

/// The byte order of EXIF.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Big,
    Little,
}

/// Returns a PNG with these chunks before its pixels.
pub(crate) fn png(chunks: &[Vec<u8>]) -> Vec<u8> {
    png_with(chunks, &[])
}

/// Returns a PNG with these chunks before and after its pixels.
pub(crate) fn png_with(before: &[Vec<u8>], behind: &[Vec<u8>]) -> Vec<u8> {
    let plain = encoded(ImageFormat::Png);
    let end = plain.len() - 12;
    [&plain[..33], &before.concat(), &plain[33..end], &behind.concat(), &plain[end..]].concat()
}

/// Returns a chunk of a PNG.
pub(crate) fn chunk(kind: &[u8; 4], data: &[u8]) -> Vec<u8> {
    let crc = crc32fast::hash(&[kind, data].concat());
    [&u32::try_from(data.len()).unwrap().to_be_bytes(), kind.as_slice(), data, &crc.to_be_bytes()].concat()
}

/// Returns a `tEXt` chunk with these bytes as text.
pub(crate) fn text(key: &str, text: impl AsRef<[u8]>) -> Vec<u8> {
    chunk(b"tEXt", &[key.as_bytes(), b"\0", text.as_ref()].concat())
}

/// Returns a `zTXt` chunk.
pub(crate) fn ztxt(key: &str, text: &str) -> Vec<u8> {
    chunk(b"zTXt", &[key.as_bytes(), b"\0\0", &deflated(text.as_bytes())].concat())
}

/// Returns an `iTXt` chunk, compressed or not.
pub(crate) fn itxt(key: &str, text: &str, packed: bool) -> Vec<u8> {
    let flag: &[u8] = if packed { b"\0\x01\0" } else { b"\0\0\0" };
    let body = if packed { deflated(text.as_bytes()) } else { text.as_bytes().to_vec() };
    chunk(b"iTXt", &[key.as_bytes(), flag, b"en\0translated\0", &body].concat())
}

/// Returns a JPEG with these segments before its scan.
pub(crate) fn jpeg(segments: &[(u8, Vec<u8>)]) -> Vec<u8> {
    let plain = encoded(ImageFormat::Jpeg);
    let mut bytes = plain[..2].to_vec();
    for (marker, data) in segments {
        bytes.extend([0xff, *marker]);
        bytes.extend(u16::try_from(data.len() + 2).unwrap().to_be_bytes());
        bytes.extend(data);
    }
    bytes.extend(&plain[2..]);
    bytes
}

/// Returns a segment with EXIF.
pub(crate) fn exif_segment(exif: &[u8]) -> (u8, Vec<u8>) {
    (0xe1, [b"Exif\0\0", exif].concat())
}

/// Returns a WebP with these chunks after its pixels.
pub(crate) fn webp(chunks: &[(&[u8; 4], Vec<u8>)]) -> Vec<u8> {
    let mut bytes = encoded(ImageFormat::WebP);
    for (kind, data) in chunks {
        bytes.extend(*kind);
        bytes.extend(u32::try_from(data.len()).unwrap().to_le_bytes());
        bytes.extend(data);
        bytes.resize(bytes.len() + data.len() % 2, 0);
    }
    let length = u32::try_from(bytes.len() - 8).unwrap().to_le_bytes();
    bytes[4..8].copy_from_slice(&length);
    bytes
}

/// Returns a GIF with a comment, split into blocks as required.
pub(crate) fn gif(comment: &str) -> Vec<u8> {
    let blocks = comment.as_bytes().chunks(200).map(|block| [&[u8::try_from(block.len()).unwrap()], block].concat());
    [b"GIF89a\x10\0\x10\0\0\0\0!\xfe".to_vec(), blocks.collect::<Vec<_>>().concat(), b"\0;".to_vec()].concat()
}

/// Returns EXIF with tags in the main directory and in EXIF's own: (tag, type, value).
pub(crate) fn exif(order: Order, main: &[(u16, u16, Vec<u8>)], own: &[(u16, u16, Vec<u8>)]) -> Vec<u8> {
    let two = |number: u16| if order == Order::Big { number.to_be_bytes() } else { number.to_le_bytes() };
    let four = |number: usize| {
        let number = u32::try_from(number).unwrap();
        if order == Order::Big { number.to_be_bytes() } else { number.to_le_bytes() }
    };
    let mut tiff = if order == Order::Big { b"MM".to_vec() } else { b"II".to_vec() };
    tiff.extend(two(42));
    tiff.extend(four(8));
    let main_size = 2 + 12 * (main.len() + usize::from(!own.is_empty())) + 4;
    let own_size = 2 + 12 * own.len() + 4;
    let mut heap: Vec<u8> = Vec::new();
    let heap_at = 8 + main_size + own_size;
    let mut directory = |tags: &[(u16, u16, Vec<u8>)], pointer: Option<usize>| {
        let mut bytes = two(u16::try_from(tags.len() + usize::from(pointer.is_some())).unwrap()).to_vec();
        for (tag, kind, value) in tags {
            bytes.extend(two(*tag));
            bytes.extend(two(*kind));
            bytes.extend(four(value.len()));
            if value.len() <= 4 {
                bytes.extend(value.iter().copied().chain([0; 4]).take(4));
            } else {
                bytes.extend(four(heap_at + heap.len()));
                heap.extend(value);
            }
        }
        if let Some(pointer) = pointer {
            bytes.extend([two(0x8769), two(4)].concat());
            bytes.extend([four(1), four(pointer)].concat());
        }
        bytes.extend([0; 4]);
        bytes
    };
    let main = directory(main, (!own.is_empty()).then_some(8 + main_size));
    let own = directory(own, None);
    tiff.extend(main);
    tiff.extend(own);
    tiff.extend(heap);
    tiff
}

/// Returns EXIF with only a comment, as most tools write it.
pub(crate) fn comment(text: &str) -> Vec<u8> {
    exif(Order::Big, &[], &[(0x9286, 7, unicode(text, Order::Big))])
}

/// Returns a comment in UTF-16.
pub(crate) fn unicode(text: &str, order: Order) -> Vec<u8> {
    let units =
        text.encode_utf16().flat_map(|unit| if order == Order::Big { unit.to_be_bytes() } else { unit.to_le_bytes() });
    b"UNICODE\0".iter().copied().chain(units).collect()
}

/// Returns a PNG with alpha that hides these bytes under this marker: in alpha, or in the colours.
pub(crate) fn stealth(mark: &str, payload: &[u8], colours: bool) -> Vec<u8> {
    let length = u32::try_from(payload.len() * 8).unwrap().to_be_bytes();
    let bytes = [mark.as_bytes(), &length, payload].concat();
    let mut bits = bytes.iter().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1));
    let mut picture = RgbaImage::from_pixel(64, 64, image::Rgba([200, 100, 50, 254]));
    for x in 0..64 {
        for y in 0..64 {
            let channels = if colours { 0..3 } else { 3..4 };
            for channel in channels {
                let value = &mut picture.get_pixel_mut(x, y).0[channel];
                *value = *value & !1 | bits.next().unwrap_or(0);
            }
        }
    }
    assert_eq!(bits.next(), None, "the payload is too long for the picture");
    let mut png = Cursor::new(Vec::new());
    picture.write_to(&mut png, ImageFormat::Png).unwrap();
    png.into_inner()
}

/// Compresses bytes as gzip.
pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::best());
    packed.write_all(bytes).unwrap();
    packed.finish().unwrap()
}

/// Returns a C2PA manifest store whose only manifest has these assertions, each a label and its CBOR.
pub(crate) fn manifest(assertions: &[(&str, Vec<u8>)]) -> Vec<u8> {
    manifests(&[("urn:c2pa:0", assertions.to_vec())])
}

/// The assertions of a manifest: a label and its CBOR each.
pub(crate) type Assertions<'a> = Vec<(&'a str, Vec<u8>)>;

/// Returns a C2PA manifest store with these manifests, that of the file last.
pub(crate) fn manifests(manifests: &[(&str, Assertions<'_>)]) -> Vec<u8> {
    let one = |assertions: &[(&str, Vec<u8>)]| -> Vec<u8> {
        assertions.iter().flat_map(|(label, cbor)| superbox(label, &boxed(b"cbor", cbor))).collect()
    };
    let all: Vec<u8> = manifests.iter().flat_map(|(label, assertions)| superbox(label, &one(assertions))).collect();
    superbox("c2pa", &all)
}

/// Encodes a value as CBOR.
pub(crate) fn cbor(value: &serde_json::Value) -> Vec<u8> {
    use serde_json::Value;
    let head = |major: u8, length: usize| match u8::try_from(length).unwrap() {
        short @ 0..24 => vec![major << 5 | short],
        long => vec![major << 5 | 24, long],
    };
    match value {
        Value::String(text) => [head(3, text.len()), text.as_bytes().to_vec()].concat(),
        Value::Array(list) => [vec![head(4, list.len())], list.iter().map(cbor).collect()].concat().concat(),
        Value::Object(map) => {
            let pairs = map.iter().flat_map(|(key, value)| [cbor(&key.as_str().into()), cbor(value)]);
            [vec![head(5, map.len())], pairs.collect()].concat().concat()
        }
        _ => vec![0xf6],
    }
}

/// Returns a box: its size, its type, its contents.
pub(crate) fn boxed(kind: &[u8; 4], data: &[u8]) -> Vec<u8> {
    [&u32::try_from(data.len() + 8).unwrap().to_be_bytes(), kind.as_slice(), data].concat()
}

fn superbox(label: &str, inner: &[u8]) -> Vec<u8> {
    let description = [&[0; 16], b"\x03".as_slice(), label.as_bytes(), b"\0"].concat();
    boxed(b"jumb", &[boxed(b"jumd", &description), inner.to_vec()].concat())
}

fn encoded(format: ImageFormat) -> Vec<u8> {
    let mut bytes = Cursor::new(Vec::new());
    RgbImage::from_fn(SIDE, SIDE, |x, y| image::Rgb([u8::try_from(x * y).unwrap(), 80, 160]))
        .write_to(&mut bytes, format)
        .unwrap();
    bytes.into_inner()
}

fn deflated(bytes: &[u8]) -> Vec<u8> {
    let mut packed = ZlibEncoder::new(Vec::new(), Compression::best());
    packed.write_all(bytes).unwrap();
    packed.finish().unwrap()
}
