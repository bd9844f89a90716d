//! Files that claim or hold as much as they can, in every format: reading them takes little memory, whatever they say.
//!
//! A test binary of its own with one test, since the peak memory of a process is that of everything in it.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a failed assertion is the report of a test")]

use std::io::{self, Read, Seek, SeekFrom, Write};

use flate2::Compression;
use flate2::write::ZlibEncoder;
use retake_recipe::{Format, read_from, read_stream};

/// The length of each file: several times what reading it may take.
const LENGTH: u64 = 192 * 1024 * 1024;
/// The most memory that reading one may add: the cap on texts, a few times over.
const MAX_ADDED_BYTES: u64 = 96 * 1024 * 1024;

/// A file that begins with some bytes and repeats others up to its end, without being in memory.
struct Repeating {
    head: Vec<u8>,
    pattern: Vec<u8>,
    at: u64,
}

impl Read for Repeating {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(LENGTH.saturating_sub(self.at)).unwrap();
        let at = usize::try_from(self.at).unwrap();
        let rest = match self.head.get(at..) {
            Some(head) if !head.is_empty() => head,
            _ => self.pattern.get((at - self.head.len()) % self.pattern.len()..).unwrap(),
        };
        let count = rest.len().min(buffer.len()).min(left);
        buffer.get_mut(..count).unwrap().copy_from_slice(rest.get(..count).unwrap());
        self.at += count as u64;
        Ok(count)
    }
}

impl Seek for Repeating {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.at = match to {
            SeekFrom::Start(at) => at,
            SeekFrom::End(by) => LENGTH.saturating_add_signed(by),
            SeekFrom::Current(by) => self.at.saturating_add_signed(by),
        };
        Ok(self.at)
    }
}

/// Returns the most memory that this process ever had, in bytes.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")).unwrap();
    peak.trim().parse::<u64>().unwrap() * 1024
}

/// A box of an MP4 or of a still image that claims this size.
fn head(kind: &[u8], size: u32) -> Vec<u8> {
    [&size.to_be_bytes(), kind].concat()
}

/// 64 MB of one letter, compressed with Brotli.
const BROTLI_BOMB: &[u8] = b"\xcf\xff\xff\x7f\xf8\x25\xc2\xe2\xb1\x40\x20\xf7\xfe\x9f\xff\xff\xff\xf0\x4b\x00\xc4\x61\x01\x80\xee\xfd\x3f\xff\xff\xff\xe1\x97\x00\x88\xc3\x22\x00\xdd\xfb\x7f\xfe\xff\xff\xc3\x2f\x01\x10\x87\x05\x00\xba\xf7\xff\x03";

/// A chunk of compressed text that is a thousand times as long.
fn bomb() -> Vec<u8> {
    let mut packed = ZlibEncoder::new(Vec::new(), Compression::best());
    // In pieces, since the test measures the peak of the whole process.
    for _ in 0..512 {
        packed.write_all(&[b'a'; 64 * 1024]).unwrap();
    }
    let body = [b"parameters\0\0".as_slice(), &packed.finish().unwrap()].concat();
    [&u32::try_from(body.len()).unwrap().to_be_bytes(), b"zTXt".as_slice(), &body, &[0; 4]].concat()
}

fn files() -> Vec<(&'static str, Format, Vec<u8>, Vec<u8>)> {
    const MAX: u32 = 0x7fff_fff0;
    let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89".to_vec();
    let ftyp = |brand: &[u8]| [b"\0\0\0\x10ftyp".as_slice(), brand, &[0; 4]].concat();
    let jxl = b"\0\0\0\x0cJXL \r\n\x87\n\0\0\0\x14ftypjxl \0\0\0\0jxl ".to_vec();
    let webm = b"\x1a\x45\xdf\xa3\x87\x42\x82\x84webm\x18\x53\x80\x67\x01\xff\xff\xff\xff\xff\xff\xff".to_vec();
    let letters = vec![b'a'; 4096];
    let with = |head: &Vec<u8>, more: &[u8]| [head.as_slice(), more].concat();
    let item = [
        head(b"moov", MAX),
        head(b"udta", MAX),
        head(b"meta", MAX),
        vec![0; 4],
        head(b"ilst", MAX),
        head(b"\xa9cmt", MAX),
        head(b"data", MAX),
        b"\0\0\0\x01\0\0\0\0".to_vec(),
    ];
    let cover = [&item[..5], &[head(b"covr", MAX), head(b"data", MAX), b"\0\0\0\x0e\0\0\0\0".to_vec()]].concat();
    let block = |mark: &[u8], length: usize| [mark, &vec![b'a'; length]].concat();
    vec![
        ("a long text", Format::Png, with(&png, b"\x7f\xff\xff\xf0tEXtparameters\0"), letters.clone()),
        ("many texts", Format::Png, png.clone(), block(b"\0\0\x10\0tEXtk\0", 4096 - 2 + 4)),
        ("many bombs", Format::Png, png.clone(), bomb()),
        ("a deep document", Format::Png, with(&png, b"\x7f\xff\xff\xf0tEXtprompt\0"), b"{\"a\":[".to_vec()),
        ("many other chunks", Format::Png, png, block(b"\0\0\x01\0aaaa", 256 + 4)),
        ("many comments", Format::Jpeg, b"\xff\xd8".to_vec(), block(b"\xff\xfe\xff\xff", 65_533)),
        ("many EXIF blocks", Format::Jpeg, b"\xff\xd8".to_vec(), block(b"\xff\xe1\xff\xffExif\0\0", 65_527)),
        ("a long packet", Format::WebP, b"RIFF\xf0\xff\xff\xffWEBPXMP \xf0\xff\xff\xff".to_vec(), letters.clone()),
        ("many packets", Format::WebP, b"RIFF\xf0\xff\xff\xffWEBP".to_vec(), block(b"XMP \0\0\x10\0", 0x10_0000)),
        ("a long comment", Format::Gif, b"GIF89a\x01\0\x01\0\0\0\0!\xfe".to_vec(), block(b"\xff", 255)),
        ("many comments", Format::Gif, b"GIF89a\x01\0\x01\0\0\0\0".to_vec(), [block(b"!\xfe\xf0", 0xf0), vec![0]].concat()),
        ("a long directory", Format::Avif, with(&ftyp(b"avif"), &head(b"meta", MAX)), vec![0; 4096]),
        ("many directories", Format::Heic, ftyp(b"heic"), [head(b"meta", 12), vec![0; 4]].concat()),
        ("a long packet", Format::JpegXl, with(&jxl, &head(b"xml ", MAX)), letters.clone()),
        ("a long compressed box", Format::JpegXl, with(&jxl, &[head(b"brob", MAX), b"xml ".to_vec()].concat()), letters.clone()),
        (
            "many bombs",
            Format::JpegXl,
            jxl.clone(),
            [head(b"brob", u32::try_from(12 + BROTLI_BOMB.len()).unwrap()), b"xml ".to_vec(), BROTLI_BOMB.to_vec()].concat(),
        ),
        ("many packets", Format::JpegXl, jxl, [head(b"xml ", 0x10_0008), vec![b'a'; 0x10_0000]].concat()),
        (
            "a long description",
            Format::Tiff,
            b"II*\0\x08\0\0\0\x01\0\x0e\x01\x02\0\xf0\xff\xff\x7f\x1a\0\0\0\0\0\0\0".to_vec(),
            letters.clone(),
        ),
        ("many directories", Format::Tiff, b"II*\0\x08\0\0\0".to_vec(), b"\0\0\x0e\0\0\0".to_vec()),
        ("a large image", Format::Bmp, b"BM\0\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0\xff\xff\xff\x7f\xff\xff\xff\x7f".to_vec(), letters.clone()),
        ("deep boxes", Format::Mp4, with(&ftyp(b"isom"), &head(b"moov", MAX)), head(b"udta", MAX)),
        ("deep boxes", Format::Heic, ftyp(b"heic"), [head(b"meta", MAX), vec![0; 4]].concat()),
        ("a long comment", Format::Mp4, with(&ftyp(b"isom"), &item.concat()), letters.clone()),
        ("a large cover", Format::Mp4, with(&ftyp(b"isom"), &cover.concat()), letters.clone()),
        ("many boxes", Format::QuickTime, with(&ftyp(b"qt  "), &head(b"moov", MAX)), head(b"trak", 8)),
        ("a long tag", Format::WebM, with(&webm, b"\x12\x54\xc3\x67\x08\x0f\xff\xff\xff\x73\x73\x08\x0f\xff\xff\xf0\x67\xc8\x08\x0f\xff\xff\xe0\x44\x87\x08\x0f\xff\xff\xd0"), letters),
        ("deep elements", Format::WebM, webm.clone(), b"\x12\x54\xc3\x67\x08\x0f\xff\xff\xff\x73\x73\x08\x0f\xff\xff\xf0\x67\xc8\x08\x0f\xff\xff\xe0".to_vec()),
        ("many tags", Format::WebM, with(&webm, b"\x12\x54\xc3\x67\x08\x0f\xff\xff\xff"), b"\x73\x73\x8b\x67\xc8\x88\x44\x87\x85texts".to_vec()),
        ("many empty elements", Format::Matroska, b"\x1a\x45\xdf\xa3\x8b\x42\x82\x88matroska\x18\x53\x80\x67\x01\xff\xff\xff\xff\xff\xff\xff".to_vec(), b"\xec\x80".to_vec()),
    ]
}

#[test]
fn reading_takes_little_memory_whatever_a_file_claims_or_holds() {
    for (what, format, head, pattern) in files() {
        assert_eq!(Format::of(&[head.as_slice(), &pattern].concat()), Some(format), "{format:?}, {what}");
        // In pieces that are not much shorter than a buffer, so that the test does not measure itself.
        let pattern = pattern.repeat(64 * 1024 / pattern.len() + 1);
        let file = || Repeating { head: head.clone(), pattern: pattern.clone(), at: 0 };
        let before = peak();
        let seeking = read_from(file()).unwrap();
        let streaming = read_stream(file()).unwrap();
        let added = peak() - before;
        assert!(added < MAX_ADDED_BYTES, "{format:?}, {what}: {added} bytes");
        for reading in [seeking, streaming] {
            let text: usize = reading.raw.iter().map(|raw| raw.text.len()).sum();
            assert!(text <= 16 * 1024 * 1024 && reading.raw.len() <= 1000, "{format:?}, {what}: {text} bytes of text");
            assert!(reading.notes.len() <= 100, "{format:?}, {what}: {} notes", reading.notes.len());
        }
    }
}
