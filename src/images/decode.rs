//! The only pixel decoder. For any input, it returns in bounded memory and time a [`Picture`] that is upright and has 8
//! bits per channel, or the reason why it cannot be decoded.
//!
//! Memory is bounded by limits on side, area and allocations, all checked before the decoder allocates. This also
//! bounds the time: the decoders make one pass over the file and one over the pixels. Only a progressive JPEG can
//! require more, by any number of passes over the image; its passes are counted first.
//!
//! PNG, JPEG, WebP and the first frame of GIF are decoded. AVIF, HEIC, JPEG XL, TIFF, BMP and EXR are recognised by
//! their first bytes and stored, but cannot be shown: an AVIF decoder in pure Rust is a video decoder of a megabyte.
//! Frames of videos are not decoded either (see `video.rs`).

use std::io::Cursor;
use std::panic::{AssertUnwindSafe, catch_unwind};

use image::metadata::Orientation;
use image::{DynamicImage, ImageDecoder, ImageFormat, ImageReader, Limits, RgbImage};

use super::header::{self, UNKNOWN_TYPE};
use super::pool::{PIXEL_MEMORY, Permit};
use super::profile::{self, MAX_PROFILE_BYTES};
use super::scale;
use super::video::is_video;
use crate::model::Hash;

/// The maximum side that is decoded.
pub const MAX_SIDE: u32 = 16_384;
/// The maximum number of pixels that are decoded.
pub const MAX_PIXELS: u64 = 80_000_000;
/// The maximum size of a file that is decoded.
pub const MAX_DECODED_FILE_BYTES: u64 = 128 * 1024 * 1024;
/// The maximum size of the decoded pixels of one image: an image with 16 bits per channel may have fewer pixels.
const MAX_ALLOC: u64 = 320 * 1024 * 1024;
/// The maximum number of coefficients that a progressive JPEG may visit over all passes: ten passes over the largest
/// image.
const MAX_PROGRESSIVE_WORK: u64 = 10 * MAX_PROGRESSIVE_PIXELS;
/// The maximum number of pixels of a progressive JPEG, whose coefficients take twice the memory of its pixels until the
/// last pass.
const MAX_PROGRESSIVE_PIXELS: u64 = MAX_PIXELS / 2;

/// A decoded image: upright, 8 bits per channel, RGB or, if it has transparent parts, RGBA.
///
/// It holds a permit of the memory budget shared by all images. A thread that holds one must not decode another image,
/// which might have to wait for the first to be dropped.
pub struct Picture {
    /// Either `ImageRgb8` or `ImageRgba8`.
    pixels: DynamicImage,
    _permit: Option<Permit<'static>>,
}

/// The reason why a file cannot be decoded. Such files are stored nevertheless.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Undecodable {
    /// The first bytes are not those of an image.
    #[error("it is not an image or video of a known type")]
    Unknown,
    /// An image of a type that is stored but not decoded.
    #[error("images of type {0} are stored but cannot be decoded")]
    Unsupported(&'static str),
    /// A video, of this media type.
    #[error("it is a video ({0}), and frames of videos are not decoded")]
    Video(&'static str),
    /// The file is too large.
    #[error("its file has {0} bytes: the limit for decoding is {MAX_DECODED_FILE_BYTES}")]
    TooManyBytes(u64),
    /// The image has too many pixels.
    #[error("it has {width} x {height} pixels: the limits are {MAX_PIXELS} pixels and sides of {MAX_SIDE}")]
    TooManyPixels {
        /// Its width.
        width: u32,
        /// Its height.
        height: u32,
    },
    /// The image would take too much memory.
    #[error("its pixels would take more than {MAX_ALLOC} bytes of memory")]
    TooMuchMemory,
    /// The colour profile is too large.
    #[error("its colour profile has more than {MAX_PROFILE_BYTES} bytes")]
    TooLargeProfile,
    /// Decoding the image would take too long.
    #[error("its pixels are spread over {0} passes, which would take too long")]
    TooManyPasses(u64),
    /// The decoder failed.
    #[error("its file is broken: {0}")]
    Broken(String),
}

/// Decodes an image once the memory budget allows it.
pub fn decode(bytes: &[u8]) -> Result<Picture, Undecodable> {
    // A decoder that panics on a malformed file must not affect anything else.
    catch_unwind(AssertUnwindSafe(|| decode_unguarded(bytes)))
        .unwrap_or_else(|_| Err(Undecodable::Broken("the decoder panicked".to_owned())))
}

impl Picture {
    /// Returns the width, upright.
    pub fn width(&self) -> u32 {
        self.pixels.width()
    }

    /// Returns the height, upright.
    pub fn height(&self) -> u32 {
        self.pixels.height()
    }

    /// Returns the pixels, with transparent parts on a neutral backdrop.
    pub fn into_rgb(self) -> RgbImage {
        match self.pixels {
            DynamicImage::ImageRgb8(pixels) => pixels,
            other => scale::resize(&other, (other.width(), other.height())),
        }
    }

    /// Returns the pixels: `ImageRgb8`, or `ImageRgba8` if there are transparent parts.
    pub(super) fn pixels(&self) -> &DynamicImage {
        &self.pixels
    }

    /// Returns the hash of the pixels: the same for every lossless copy, whatever its file format and metadata.
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

fn decode_unguarded(bytes: &[u8]) -> Result<Picture, Undecodable> {
    let mut decoder = open(bytes)?;
    let (width, height) = decoder.dimensions();
    // The decoded image, and as much again while it is rotated or converted to 8 bits.
    let permit = PIXEL_MEMORY.acquire(u64::from(width) * u64::from(height) * 8);
    // If the EXIF data is malformed, the image is not rotated.
    let orientation = decoder.orientation().unwrap_or(Orientation::NoTransforms);
    let decoded = DynamicImage::from_decoder(decoder).map_err(|error| broken(&error))?;
    let mut pixels = if decoded.color().has_alpha() {
        drop_opaque_alpha(decoded)
    } else {
        DynamicImage::ImageRgb8(decoded.into_rgb8())
    };
    pixels.apply_orientation(orientation);
    Ok(Picture { pixels, _permit: Some(permit) })
}

/// Returns a decoder that has read the header and is within all limits.
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
        _ if is_video(mime_type) => return Err(Undecodable::Video(mime_type)),
        _ => return Err(Undecodable::Unsupported(mime_type)),
    };
    if !profile::is_bounded(bytes, mime_type) {
        return Err(Undecodable::TooLargeProfile);
    }
    // No limits on sides here, so that the error can state the size.
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

/// The number of passes that is always allowed: encoders write about ten.
const USUAL_PASSES: u64 = 16;

/// Returns the number of passes of a progressive JPEG; `None` if it is not progressive.
fn progressive_passes(bytes: &[u8]) -> Option<u64> {
    let mut progressive = false;
    let mut passes = 0;
    let mut at = 2;
    while let Some(found) = bytes.get(at..).and_then(|rest| memchr::memchr(0xff, rest)) {
        at += found + 1;
        match bytes.get(at) {
            // Stuffed bytes and restart markers occur within a pass, and any number of 0xff may precede a marker.
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

/// Returns the image as RGBA, or as RGB if no pixel is transparent.
fn drop_opaque_alpha(decoded: DynamicImage) -> DynamicImage {
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
    fn lossless_copies_have_the_same_pixel_hash() {
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
        // The same bytes in another shape are a different image.
        let turned = RgbImage::from_raw(30, 40, picture.to_rgb8().into_raw()).unwrap();
        assert_ne!(Picture::from(turned).hash(), known);
    }

    #[test]
    fn orientation_is_applied() {
        // The left half is red; orientation 6, as written by cameras, rotates it a quarter turn clockwise.
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
    fn the_reason_is_named_if_an_image_cannot_be_decoded() {
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
