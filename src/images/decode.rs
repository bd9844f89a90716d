//! The only way to pixels. Whatever the bytes are, the answer comes within bounded memory and time: a [`Picture`] that is
//! upright and has 8 bits a channel, or the reason why there is none.
//!
//! The bound on memory is on side, area and what the decoder may allocate, all checked before it allocates. The bound on
//! time follows from it: the decoders work once through the file and once through the pixels, so limits on both are
//! limits on work. Only a progressive JPEG may ask for more, by as many passes over the picture as it likes; its passes
//! are counted first.
//!
//! PNG, JPEG, WebP and GIF are decoded; of an animation the first frame. AVIF, HEIC, JPEG XL, TIFF, BMP and EXR are known
//! by their first bytes and kept, and cannot be shown: a decoder for AVIF in Rust alone is a video decoder of a megabyte.

use std::io::Cursor;
use std::panic::{AssertUnwindSafe, catch_unwind};

use image::metadata::Orientation;
use image::{DynamicImage, ImageDecoder, ImageFormat, ImageReader, Limits, RgbImage};

use super::header::{self, UNKNOWN_TYPE};
use super::pool::{PIXEL_MEMORY, Permit};
use super::scale;
use crate::model::Hash;

/// The longest side that is decoded.
pub const MAX_SIDE: u32 = 16_384;
/// The most pixels that are decoded.
pub const MAX_PIXELS: u64 = 80_000_000;
/// The largest file that is decoded.
pub const MAX_DECODED_FILE_BYTES: u64 = 128 * 1024 * 1024;
/// The most that one picture's pixels may take as the decoder gives them: a 16-bit picture may have fewer of them.
const MAX_ALLOC: u64 = 320 * 1024 * 1024;
/// The most coefficients that a progressive JPEG may visit, over all its passes: ten passes over the largest picture.
const MAX_PROGRESSIVE_WORK: u64 = 10 * MAX_PROGRESSIVE_PIXELS;
/// A progressive JPEG keeps all coefficients until the last pass, which takes twice what its pixels take.
const MAX_PROGRESSIVE_PIXELS: u64 = MAX_PIXELS / 2;

/// A decoded picture: upright, 8 bits a channel, RGB or, where anything shows through, RGBA.
///
/// It holds a part of the memory that all pictures may take together. Who holds one does not ask for another: that one may
/// have to wait for the first to go.
pub struct Picture {
    /// Either `ImageRgb8` or `ImageRgba8`.
    pixels: DynamicImage,
    _permit: Option<Permit<'static>>,
}

/// Why a file has no pixels for us. It is kept all the same.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Undecodable {
    /// Nothing says that it is a picture.
    #[error("it is no picture of a known type")]
    Unknown,
    /// A picture of a type that is only kept.
    #[error("pictures of type {0} are kept, but cannot be decoded")]
    Unsupported(&'static str),
    /// The file is too large.
    #[error("its file has {0} bytes, and at most {MAX_DECODED_FILE_BYTES} are decoded")]
    TooManyBytes(u64),
    /// The picture is too large.
    #[error("it has {width} x {height} pixels, and at most {MAX_PIXELS} with sides of {MAX_SIDE} are decoded")]
    TooManyPixels {
        /// Its width.
        width: u32,
        /// Its height.
        height: u32,
    },
    /// The picture would take too much memory.
    #[error("its pixels would take more than {MAX_ALLOC} bytes of memory")]
    TooMuchMemory,
    /// The picture would take too long.
    #[error("its pixels are spread over {0} passes, which would take too long")]
    TooManyPasses(u64),
    /// The decoder gave up.
    #[error("its file is broken: {0}")]
    Broken(String),
}

/// Decodes the picture in these bytes, once there is room for it.
pub fn decode(bytes: &[u8]) -> Result<Picture, Undecodable> {
    // A decoder that panics on a crooked file must not take anything else with it.
    catch_unwind(AssertUnwindSafe(|| decode_trusting(bytes)))
        .unwrap_or_else(|_| Err(Undecodable::Broken("the decoder failed on it".to_owned())))
}

impl Picture {
    /// Its width, upright.
    pub fn width(&self) -> u32 {
        self.pixels.width()
    }

    /// Its height, upright.
    pub fn height(&self) -> u32 {
        self.pixels.height()
    }

    /// Its pixels, on a neutral ground where something shows through.
    pub fn into_rgb(self) -> RgbImage {
        match self.pixels {
            DynamicImage::ImageRgb8(pixels) => pixels,
            other => scale::resize(&other, (other.width(), other.height())),
        }
    }

    /// Its pixels: `ImageRgb8`, or `ImageRgba8` when something shows through.
    pub(super) fn pixels(&self) -> &DynamicImage {
        &self.pixels
    }

    /// The hash of what is seen: the same for every lossless copy, whatever its file format and metadata.
    pub fn hash(&self) -> Hash {
        let mut hasher = blake3::Hasher::new();
        hasher.update(b"retake pixels\0");
        hasher.update(&self.width().to_le_bytes());
        hasher.update(&self.height().to_le_bytes());
        hasher.update(&[self.pixels.color().channel_count()]);
        hasher.update(self.pixels.as_bytes());
        Hash(*hasher.finalize().as_bytes())
    }
}

impl From<RgbImage> for Picture {
    fn from(pixels: RgbImage) -> Picture {
        Picture { pixels: pixels.into(), _permit: None }
    }
}

fn decode_trusting(bytes: &[u8]) -> Result<Picture, Undecodable> {
    let mut decoder = open(bytes)?;
    let (width, height) = decoder.dimensions();
    // As decoded, and as much again while it is turned or brought to 8 bits.
    let permit = PIXEL_MEMORY.acquire(u64::from(width) * u64::from(height) * 8);
    // A picture whose EXIF is crooked is shown as it lies.
    let orientation = decoder.orientation().unwrap_or(Orientation::NoTransforms);
    let decoded = DynamicImage::from_decoder(decoder).map_err(|error| broken(&error))?;
    let mut pixels =
        if decoded.color().has_alpha() { see_through(decoded) } else { DynamicImage::ImageRgb8(decoded.into_rgb8()) };
    pixels.apply_orientation(orientation);
    Ok(Picture { pixels, _permit: Some(permit) })
}

/// A decoder that has seen the header and may go on.
fn open(bytes: &[u8]) -> Result<impl ImageDecoder + '_, Undecodable> {
    let length = bytes.len() as u64;
    if length > MAX_DECODED_FILE_BYTES {
        return Err(Undecodable::TooManyBytes(length));
    }
    let mime_type = header::sniff(bytes);
    let format = match mime_type {
        "image/png" => ImageFormat::Png,
        "image/jpeg" => ImageFormat::Jpeg,
        "image/webp" => ImageFormat::WebP,
        "image/gif" => ImageFormat::Gif,
        UNKNOWN_TYPE => return Err(Undecodable::Unknown),
        _ => return Err(Undecodable::Unsupported(mime_type)),
    };
    // No limits on sides here: we want to say how large it is.
    let mut limits = Limits::default();
    limits.max_alloc = Some(MAX_ALLOC);
    let mut reader = ImageReader::with_format(Cursor::new(bytes), format);
    reader.limits(limits);
    let decoder = reader.into_decoder().map_err(|error| broken(&error))?;

    let (width, height) = decoder.dimensions();
    let pixels = u64::from(width) * u64::from(height);
    if width == 0 || height == 0 {
        return Err(Undecodable::Broken("it has no pixels".to_owned()));
    }
    if width > MAX_SIDE || height > MAX_SIDE || pixels > MAX_PIXELS {
        return Err(Undecodable::TooManyPixels { width, height });
    }
    if decoder.total_bytes() > MAX_ALLOC {
        return Err(Undecodable::TooMuchMemory);
    }
    if format == ImageFormat::Jpeg
        && let Some(passes) = progressive_passes(bytes)
    {
        if pixels > MAX_PROGRESSIVE_PIXELS {
            return Err(Undecodable::TooMuchMemory);
        }
        if passes.saturating_mul(pixels) > MAX_PROGRESSIVE_WORK && passes > USUAL_PASSES {
            return Err(Undecodable::TooManyPasses(passes));
        }
    }
    Ok(decoder)
}

/// Encoders write about ten; nobody is refused for that.
const USUAL_PASSES: u64 = 16;

/// How many passes a progressive JPEG makes over its picture; none when it is not progressive.
fn progressive_passes(bytes: &[u8]) -> Option<u64> {
    let mut progressive = false;
    let mut passes = 0;
    let mut at = 2;
    while let Some(found) = bytes.get(at..).and_then(|rest| memchr::memchr(0xff, rest)) {
        at += found + 1;
        match bytes.get(at) {
            // Stuffed bytes and restarts lie within a pass, and before a marker there may be any number of 0xff.
            Some(0x00 | 0x01 | 0xd0..=0xd7) => at += 1,
            Some(0xff) => {}
            Some(0xd9) | None => break,
            Some(marker) => {
                progressive |= matches!(marker, 0xc2 | 0xca);
                passes += u64::from(*marker == 0xda);
                let length = bytes.get(at + 1..at + 3).and_then(|length| length.try_into().ok());
                at += 1 + usize::from(length.map_or(2, u16::from_be_bytes)).max(2);
            }
        }
    }
    progressive.then_some(passes)
}

/// RGBA, or RGB when nothing shows through after all.
fn see_through(decoded: DynamicImage) -> DynamicImage {
    let pixels = decoded.into_rgba8();
    if pixels.pixels().all(|pixel| pixel.0[3] == 0xff) {
        DynamicImage::ImageRgb8(DynamicImage::ImageRgba8(pixels).into_rgb8())
    } else {
        DynamicImage::ImageRgba8(pixels)
    }
}

fn broken(error: &image::ImageError) -> Undecodable {
    match error {
        image::ImageError::Limits(_) => Undecodable::TooMuchMemory,
        error => Undecodable::Broken(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use image::codecs::jpeg::JpegEncoder;
    use image::{ImageEncoder, Rgb, Rgba};

    use super::*;

    fn encoded(picture: &DynamicImage, format: ImageFormat) -> Vec<u8> {
        let mut bytes = Cursor::new(Vec::new());
        picture.write_to(&mut bytes, format).unwrap();
        bytes.into_inner()
    }

    fn colours() -> DynamicImage {
        RgbImage::from_fn(40, 30, |x, y| Rgb([x * 6, y * 8, x ^ y].map(|channel| channel.to_le_bytes()[0]))).into()
    }

    #[test]
    fn every_lossless_copy_has_the_same_pixels() {
        let picture = colours();
        let known = decode(&encoded(&picture, ImageFormat::Png)).unwrap().hash();
        let opaque = DynamicImage::ImageRgba8(picture.to_rgba8());
        for (copy, format) in [
            (&picture, ImageFormat::WebP),
            (&opaque, ImageFormat::Png),
            (&DynamicImage::ImageRgb16(picture.to_rgb16()), ImageFormat::Png),
        ] {
            assert_eq!(decode(&encoded(copy, format)).unwrap().hash(), known, "{format:?} {:?}", copy.color());
        }
        let mut seen_through = picture.to_rgba8();
        seen_through.put_pixel(3, 3, Rgba([0, 0, 0, 254]));
        let other = decode(&encoded(&seen_through.into(), ImageFormat::Png)).unwrap();
        assert_ne!(other.hash(), known);
        assert!(other.pixels().color().has_alpha());
        // The same bytes in another shape are another picture.
        let turned = RgbImage::from_raw(30, 40, picture.to_rgb8().into_raw()).unwrap();
        assert_ne!(Picture::from(turned).hash(), known);
    }

    #[test]
    fn a_picture_is_upright() {
        // Left half red, lying on its side as cameras write it: orientation 6 turns it a quarter to the right.
        let lying = RgbImage::from_fn(64, 32, |x, _| if x < 32 { Rgb([255, 0, 0]) } else { Rgb([0, 0, 255]) });
        let exif = b"MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0";
        let mut jpeg = Vec::new();
        let mut encoder = JpegEncoder::new_with_quality(&mut jpeg, 95);
        encoder.set_exif_metadata(exif.to_vec()).unwrap();
        encoder.encode_image(&lying).unwrap();
        let upright = decode(&jpeg).unwrap();
        assert_eq!((upright.width(), upright.height()), (32, 64));
        let pixels = upright.pixels().to_rgb8();
        assert!(pixels.get_pixel(16, 8).0[0] > 200 && pixels.get_pixel(16, 56).0[2] > 200);
    }

    #[test]
    fn what_is_only_kept_says_so() {
        let reason = |bytes: &[u8]| decode(bytes).err().unwrap();
        assert_eq!(reason(b""), Undecodable::Unknown);
        assert_eq!(reason(b"\0\0\0\x1cftypavif...."), Undecodable::Unsupported("image/avif"));
        assert_eq!(
            reason(b"GIF89a\xff\xff\xff\xff\0\0\0,\0\0\0\0\xff\xff\xff\xff\0\x02\0;"),
            Undecodable::TooManyPixels { width: 65_535, height: 65_535 }
        );
        assert_eq!(
            reason(&vec![0; usize::try_from(MAX_DECODED_FILE_BYTES + 1).unwrap()]),
            Undecodable::TooManyBytes(MAX_DECODED_FILE_BYTES + 1)
        );
        assert!(matches!(reason(b"\x89PNG\r\n\x1a\n"), Undecodable::Broken(_)));
    }

    #[test]
    fn passes_of_a_progressive_jpeg_are_counted() {
        let segment = |marker: u8, body: &[u8]| {
            let length = u16::try_from(body.len() + 2).unwrap().to_be_bytes();
            [&[0xff, marker], &length[..], body].concat()
        };
        let pass = [segment(0xda, b"\x01\x01\0\0\0\0"), b"data\xff\0more\xff\xd0restarted".to_vec()].concat();
        let head = [b"\xff\xd8".to_vec(), segment(0xe0, b"a \xff\xda that is none"), segment(0xc2, b"frame")].concat();
        for passes in [0, 1, 7] {
            let jpeg = [head.clone(), pass.repeat(passes)].concat();
            assert_eq!(progressive_passes(&jpeg), Some(passes as u64));
            assert_eq!(progressive_passes(&[&jpeg[..], b"\xff\xd9"].concat()), Some(passes as u64));
        }
        assert_eq!(progressive_passes(&encoded(&colours(), ImageFormat::Jpeg)), None);
        for cut in 0..head.len() {
            let _ = progressive_passes(&head[..cut]);
        }
    }
}
