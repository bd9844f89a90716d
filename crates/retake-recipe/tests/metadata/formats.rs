//! Containers other than PNG, JPEG, WebP and GIF: AVIF, HEIC, JPEG XL, TIFF, BMP, MP4, QuickTime, WebM and Matroska.
//! Each contains the same texts, and each is also read as a stream.

use std::io::{Cursor, Read};

use retake_recipe::metadata::{Format, Reading, SignatureState, Slot, read_bytes, read_from, read_stream};
use serde_json::json;

use crate::build::{Order, boxed, cbor, chunk, comment, exif, manifest, png_with, text};
use crate::graphs::simple;
use crate::tools::line;

const A1111: &str = "a cat, 猫\nNegative prompt: dog\nSteps: 20, Sampler: Euler, CFG scale: 6.5, Seed: 7, Size: 64x32";
const A1111_READ: &str =
    "A1111 | prompt=a cat, 猫 | negative=dog | seed=7 | steps=20 | cfg=6.5 | sampler=Euler | size=64x32";
const XMP: &str = r#"<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"><rdf:Description xmlns:i="http://iptc.org/std/Iptc4xmpExt/2008-02-29/" xmlns:p="http://ns.adobe.com/photoshop/1.0/" i:DigitalSourceType="http://cv.iptc.org/newscodes/digitalsourcetype/trainedAlgorithmicMedia" p:Credit="Made with Google AI"/></rdf:RDF></x:xmpmeta>"#;

/// Reads a file from memory and as a stream, which must give the same result.
fn both(file: &[u8]) -> Reading {
    let reading = read_bytes(file);
    // A reader that returns one byte at a time, as a slow connection may.
    struct Slow<'a>(Cursor<&'a [u8]>);
    impl Read for Slow<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let most = buffer.len().min(1000);
            self.0.read(&mut buffer[..most])
        }
    }
    assert_eq!(read_stream(Slow(Cursor::new(file))).unwrap(), reading);
    assert_eq!(read_from(Cursor::new(file)).unwrap(), reading);
    reading
}

fn full_box(kind: &[u8; 4], version: u8, data: &[u8]) -> Vec<u8> {
    boxed(kind, &[&[version, 0, 0, 0], data].concat())
}

/// Returns a still image in boxes: an item directory that points into `mdat`.
pub(crate) fn still(brand: &[u8; 4], exif: &[u8], xmp: &str) -> Vec<u8> {
    let exif = [&[0; 4], exif].concat();
    let infe = |id: u8, kind: &[u8; 4], content: &[u8]| {
        full_box(b"infe", 2, &[&[0, id, 0, 0], kind.as_slice(), b"\0", content].concat())
    };
    let items = [infe(1, b"Exif", b""), infe(2, b"mime", b"application/rdf+xml\0")].concat();
    let iinf = full_box(b"iinf", 0, &[&[0, 2], items.as_slice()].concat());
    let ispe = |width: u32, height: u32| full_box(b"ispe", 0, &[width.to_be_bytes(), height.to_be_bytes()].concat());
    let iprp = boxed(b"iprp", &boxed(b"ipco", &[ispe(16, 8), ispe(640, 320)].concat()));
    let ftyp = boxed(b"ftyp", &[brand.as_slice(), &[0; 4], b"mif1", brand].concat());
    // Offsets are known once the sizes are: four-byte offsets and lengths, version 0.
    let iloc = |at: usize| {
        let place = |id: u8, at: usize, length: usize| {
            let number = |number: usize| u32::try_from(number).unwrap().to_be_bytes();
            [&[0, id, 0, 0, 0, 1][..], &number(at), &number(length)].concat()
        };
        full_box(
            b"iloc",
            0,
            &[&[0x44, 0, 0, 2][..], &place(1, at, exif.len()), &place(2, at + exif.len(), xmp.len())].concat(),
        )
    };
    let meta = |at| full_box(b"meta", 0, &[iinf.clone(), iloc(at), iprp.clone()].concat());
    let at = ftyp.len() + meta(0).len() + 8;
    [ftyp, meta(at), boxed(b"mdat", &[&exif, xmp.as_bytes()].concat())].concat()
}

/// Returns a video whose texts are named (`mdta`).
pub(crate) fn movie(brand: &[u8; 4], texts: &[(&str, &str)], cover: Option<&[u8]>) -> Vec<u8> {
    let keys: Vec<u8> = texts
        .iter()
        .flat_map(|(key, _)| {
            [&u32::try_from(key.len() + 8).unwrap().to_be_bytes(), b"mdta".as_slice(), key.as_bytes()].concat()
        })
        .collect();
    let keys = full_box(b"keys", 0, &[&u32::try_from(texts.len()).unwrap().to_be_bytes(), keys.as_slice()].concat());
    let items: Vec<u8> = texts
        .iter()
        .zip(1u32..)
        .flat_map(|((_, value), number)| {
            boxed(&number.to_be_bytes(), &boxed(b"data", &[&[0, 0, 0, 1, 0, 0, 0, 0], value.as_bytes()].concat()))
        })
        .collect();
    let cover = cover.map(|cover| boxed(b"covr", &boxed(b"data", &[&[0, 0, 0, 14, 0, 0, 0, 0], cover].concat())));
    let ilst = boxed(b"ilst", &[items, cover.unwrap_or_default()].concat());
    let hdlr = full_box(b"hdlr", 0, &[&[0; 4], b"mdta".as_slice(), &[0; 13]].concat());
    let udta = boxed(b"udta", &full_box(b"meta", 0, &[hdlr, keys, ilst].concat()));
    let mut tkhd = vec![0; 84];
    tkhd[76..84].copy_from_slice(&[2, 128, 0, 0, 1, 104, 0, 0]);
    let trak = boxed(b"trak", &boxed(b"tkhd", &tkhd));
    // The frames come first, as in most files, with a 64-bit size.
    let mdat = [&1u32.to_be_bytes(), b"mdat".as_slice(), &116u64.to_be_bytes(), &[7; 100]].concat();
    [boxed(b"ftyp", &[brand.as_slice(), &[0; 4], brand].concat()), mdat, boxed(b"moov", &[trak, udta].concat())]
        .concat()
}

fn element(id: &[u8], data: &[u8]) -> Vec<u8> {
    let size = u64::try_from(data.len()).unwrap() | 1 << 56;
    [id, &size.to_be_bytes(), data].concat()
}

/// Returns a Matroska file: frames, an attached cover, tags.
pub(crate) fn matroska(kind: &str, tags: &[(&str, &str)], cover: Option<&[u8]>, live: bool) -> Vec<u8> {
    let head = element(
        &[0x1a, 0x45, 0xdf, 0xa3],
        &[&[0x42, 0x82, 0x80 | u8::try_from(kind.len()).unwrap()], kind.as_bytes()].concat(),
    );
    let video = element(&[0xe0], &[element(&[0xb0], &[2, 128]), element(&[0xba], &[1, 104])].concat());
    let tracks = element(&[0x16, 0x54, 0xae, 0x6b], &element(&[0xae], &video));
    let frames = element(&[0xa3], &[9; 50]);
    let cluster = if live {
        [&[0x1f, 0x43, 0xb6, 0x75, 0x01, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff][..], &frames].concat()
    } else {
        element(&[0x1f, 0x43, 0xb6, 0x75], &frames)
    };
    let cover = cover.map(|cover| {
        let file =
            [element(&[0x46, 0x6e], b"cover.png"), element(&[0x46, 0x60], b"image/png"), element(&[0x46, 0x5c], cover)];
        element(&[0x19, 0x41, 0xa4, 0x69], &element(&[0x61, 0xa7], &file.concat()))
    });
    let simple = |(name, value): &(&str, &str)| {
        element(
            &[0x67, 0xc8],
            &[element(&[0x45, 0xa3], name.as_bytes()), element(&[0x44, 0x87], value.as_bytes())].concat(),
        )
    };
    let tag = element(&[0x73, 0x73], &tags.iter().flat_map(simple).collect::<Vec<_>>());
    let body = [tracks, cover.unwrap_or_default(), cluster, element(&[0x12, 0x54, 0xc3, 0x67], &tag)].concat();
    let segment = if live {
        [&[0x18, 0x53, 0x80, 0x67, 0x01, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff][..], &body].concat()
    } else {
        element(&[0x18, 0x53, 0x80, 0x67], &body)
    };
    [head, segment].concat()
}

/// Returns a JPEG XL in boxes with 8 x 8 pixels.
pub(crate) fn jpeg_xl(boxes: &[u8]) -> Vec<u8> {
    [
        b"\0\0\0\x0cJXL \r\n\x87\n".as_slice(),
        &boxed(b"ftyp", b"jxl \0\0\0\0jxl "),
        boxes,
        &boxed(b"jxlc", b"\xff\x0a\x41\0"),
    ]
    .concat()
}

#[test]
fn still_images_in_boxes() {
    for (brand, format) in [(b"avif", Format::Avif), (b"heic", Format::Heic)] {
        let reading = both(&still(brand, &comment(A1111), XMP));
        assert_eq!((reading.format, reading.width, reading.height), (Some(format), Some(640), Some(320)));
        assert_eq!(line(&reading), A1111_READ);
        assert_eq!(reading.claims[0].signature, SignatureState::Unsigned);
        assert!(reading.notes.is_empty(), "{:?}", reading.notes);
    }
    assert_eq!(line(&both(&still(b"avif", &exif(Order::Big, &[], &[]), XMP))), "Google");
}

#[test]
fn jpeg_xl_in_boxes_and_without() {
    let block = [&[0; 4], comment(A1111).as_slice()].concat();
    let reading = both(&jpeg_xl(&boxed(b"Exif", &block)));
    assert_eq!((reading.format, reading.width, reading.height), (Some(Format::JpegXl), Some(8), Some(8)));
    assert_eq!(line(&reading), A1111_READ);
    assert_eq!(line(&both(&jpeg_xl(&boxed(b"xml ", XMP.as_bytes())))), "Google");
    // Stored without compression: a Brotli stream of one uncompressed block and an empty last one.
    let packed = [b"xml ".as_slice(), &brotli(XMP.as_bytes())].concat();
    assert_eq!(line(&both(&jpeg_xl(&boxed(b"brob", &packed)))), "Google");
    let naked = both(b"\xff\x0a\x41\0\0\0\0\0\0\0\0\0\0\0\0\0");
    assert_eq!((naked.format, naked.width, naked.raw.len()), (Some(Format::JpegXl), Some(8), 0));
}

/// Returns a Brotli stream with one uncompressed block: window bits `0`, then `ISLAST 0`, `MNIBBLES 4`, the length, the
/// flag.
fn brotli(data: &[u8]) -> Vec<u8> {
    let length = u64::try_from(data.len() - 1).unwrap();
    // WBITS=16 is one zero bit; ISLAST=0; MNIBBLES=00 (four nibbles); MLEN-1 in 16 bits; ISUNCOMPRESSED=1.
    let head: u64 = length << 4 | 1 << 20;
    let head = head.to_le_bytes();
    [&head[..3], data, &[0x03]].concat()
}

#[test]
fn tiff_directories() {
    for order in [Order::Big, Order::Little] {
        let two = |number: u16| if order == Order::Big { number.to_be_bytes() } else { number.to_le_bytes() };
        let four = |number: u32| if order == Order::Big { number.to_be_bytes() } else { number.to_le_bytes() };
        // A header, one directory with the size and a description, and the text after it.
        let head = [if order == Order::Big { b"MM" } else { b"II" }.as_slice(), &two(42), &four(8)].concat();
        let side = |tag: u16, side: u16| [two(tag).as_slice(), &two(3), &four(1), &two(side), &two(0)].concat();
        let length = u32::try_from(A1111.len()).unwrap();
        let words = [two(0x010e).as_slice(), &two(2), &four(length), &four(8 + 2 + 36 + 4)].concat();
        let file =
            [head, two(3).to_vec(), side(256, 640), side(257, 320), words, four(0).to_vec(), A1111.into()].concat();
        let reading = both(&file);
        assert_eq!((reading.format, reading.width, reading.height), (Some(Format::Tiff), Some(640), Some(320)));
        assert_eq!(line(&reading), A1111_READ);
    }
    // The directory comes after the text, as in most files: a stream has passed the text by then, and notes it.
    let behind = [b"II*\0".as_slice(), &8u32.to_le_bytes()[..0], &(8 + 100u32).to_le_bytes(), &[b'x'; 100]].concat();
    let entry =
        [&0x010eu16.to_le_bytes()[..], &2u16.to_le_bytes(), &100u32.to_le_bytes(), &8u32.to_le_bytes()].concat();
    let file = [behind, 1u16.to_le_bytes().to_vec(), entry, vec![0; 4]].concat();
    assert_eq!(read_bytes(&file).raw[0].text, "x".repeat(100));
}

#[test]
fn bmp_has_a_size_and_no_text() {
    let head =
        [b"BM".as_slice(), &[0; 12], &40u32.to_le_bytes(), &640i32.to_le_bytes(), &(-320i32).to_le_bytes(), &[0; 40]];
    let reading = both(&head.concat());
    assert_eq!((reading.format, reading.width, reading.height), (Some(Format::Bmp), Some(640), Some(320)));
    assert!(reading.raw.is_empty() && !Format::Bmp.has_texts());
}

#[test]
fn videos_with_names_and_a_cover() {
    let graph = simple().to_string();
    for (brand, format) in [(b"isom", Format::Mp4), (b"M4V ", Format::Mp4), (b"qt  ", Format::QuickTime)] {
        let file = movie(brand, &[("prompt", &graph), ("workflow", "{}")], Some(b"\x89PNG cover"));
        let reading = both(&file);
        assert_eq!((reading.format, reading.width, reading.height), (Some(format), Some(640), Some(360)));
        assert_eq!((reading.recipe.prompt.as_str(), reading.raw[0].slot), ("a cat", Slot::Mp4("keys")));
        let poster = reading.poster.unwrap();
        let at = usize::try_from(poster.offset).unwrap();
        assert_eq!(&file[at..at + usize::try_from(poster.length).unwrap()], b"\x89PNG cover");
    }
    // Under a four-character code, as VideoHelperSuite writes it.
    let both_graphs = json!({"prompt": graph, "workflow": "{}"}).to_string();
    let ilst = boxed(
        b"ilst",
        &boxed(b"\xa9cmt", &boxed(b"data", &[&[0, 0, 0, 1, 0, 0, 0, 0], both_graphs.as_bytes()].concat())),
    );
    let hdlr = full_box(b"hdlr", 0, &[0; 21]);
    let moov = boxed(b"moov", &boxed(b"udta", &full_box(b"meta", 0, &[hdlr, ilst].concat())));
    let reading = both(&[boxed(b"ftyp", b"isom\0\0\0\0isom"), moov].concat());
    assert_eq!((reading.recipe.prompt.as_str(), reading.raw[0].key.as_str()), ("a cat", "comment"));
    // QuickTime's own format: a length, a language and the text directly in the box.
    let words = [&u16::try_from(A1111.len()).unwrap().to_be_bytes(), &[0x55, 0xc4], A1111.as_bytes()].concat();
    let moov = boxed(b"moov", &boxed(b"udta", &boxed(b"\xa9cmt", &words)));
    assert_eq!(line(&both(&[boxed(b"ftyp", b"qt  \0\0\0\0qt  "), moov].concat())), A1111_READ);
}

#[test]
fn videos_of_matroska() {
    let graph = simple().to_string();
    for live in [false, true] {
        for (kind, format) in [("webm", Format::WebM), ("matroska", Format::Matroska)] {
            let file = matroska(kind, &[("PROMPT", &graph)], Some(b"\x89PNG cover"), live);
            let reading = both(&file);
            assert_eq!((reading.format, reading.width, reading.height), (Some(format), Some(640), Some(360)), "{live}");
            assert_eq!((reading.recipe.prompt.as_str(), reading.raw[0].key.as_str()), ("a cat", "PROMPT"));
            let poster = reading.poster.unwrap();
            let at = usize::try_from(poster.offset).unwrap();
            assert_eq!(&file[at..at + usize::try_from(poster.length).unwrap()], b"\x89PNG cover");
        }
    }
    assert_eq!(line(&both(&matroska("webm", &[("PARAMETERS", A1111)], None, false))), A1111_READ);
}

#[test]
fn texts_after_the_end_of_a_png() {
    let file = [png_with(&[], &[]), text("parameters", A1111.as_bytes())].concat();
    assert_eq!(line(&both(&file)), A1111_READ);
    let other = [png_with(&[text("parameters", A1111)], &[]), b"PK\x03\x04 an archive behind it".to_vec()].concat();
    let reading = both(&other);
    assert_eq!((line(&reading).as_str(), reading.notes.len()), (A1111_READ, 0));
}

#[test]
fn claims_in_every_container() {
    let made = json!({"actions": [{"action": "c2pa.created", "softwareAgent": "GPT-4o", "digitalSourceType": "http://cv.iptc.org/newscodes/digitalsourcetype/trainedAlgorithmicMedia"}]});
    let store = manifest(&[
        ("c2pa.actions.v2", cbor(&made)),
        ("c2pa.claim.v2", cbor(&json!({"claim_generator_info": {"name": "ChatGPT"}}))),
    ]);
    let uuid = b"\xd8\xfe\xc3\xd6\x1b\x0e\x48\x3c\x92\x97\x58\x28\x87\x7e\xc4\x81";
    let in_box = boxed(b"uuid", &[uuid.as_slice(), &[0; 4], b"manifest\0", &[0; 8], &store].concat());
    let blocks: Vec<u8> =
        store.chunks(255).flat_map(|part| [&[u8::try_from(part.len()).unwrap()], part].concat()).collect();
    let gif = [b"GIF89a\x10\0\x10\0\0\0\0!\xff\x0bC2PA_GIF\x01\0\0".as_slice(), &blocks, b"\0;"].concat();
    for file in [
        png_with(&[chunk(b"caBX", &store)], &[]),
        [boxed(b"ftyp", b"isom\0\0\0\0isom"), in_box.clone()].concat(),
        [boxed(b"ftyp", b"avif\0\0\0\0avif"), in_box].concat(),
        jpeg_xl(&store),
        gif,
    ] {
        let reading = both(&file);
        assert_eq!(line(&reading), "OpenAI | model=GPT-4o", "{:?}", reading.format);
        assert_eq!(reading.claims[0].signature, SignatureState::Missing);
        assert!(reading.notes.iter().any(|note| note.contains("without a signature")), "{:?}", reading.notes);
    }
}
