//! The default decoder for hidden texts: decodes PNG and WebP files with alpha, within fixed limits.

use std::io::Cursor;
use std::panic::{AssertUnwindSafe, catch_unwind};

use image::{DynamicImage, ImageDecoder, ImageReader, Limits, RgbaImage};

use super::Pixels;

/// The maximum side that is decoded.
const MAX_SIDE: u32 = 16_384;
/// The maximum number of bytes that the decoder may allocate.
const MAX_ALLOC: u64 = 320 * 1024 * 1024;

/// Decodes an image with alpha and lends its pixels; does nothing if it has no alpha or cannot be decoded.
pub(super) fn decode(bytes: &[u8], lend: &mut dyn FnMut(Pixels<'_>)) {
    // A decoder that panics on a malformed file must only affect that file.
    if let Ok(Some(pixels)) = catch_unwind(AssertUnwindSafe(|| rgba(bytes))) {
        lend(Pixels { width: pixels.width(), rgba: pixels.as_raw() });
    }
}

fn rgba(bytes: &[u8]) -> Option<RgbaImage> {
    let mut limits = Limits::default();
    limits.max_image_width = Some(MAX_SIDE);
    limits.max_image_height = Some(MAX_SIDE);
    limits.max_alloc = Some(MAX_ALLOC);
    let mut reader = ImageReader::new(Cursor::new(bytes)).with_guessed_format().ok()?;
    reader.limits(limits.clone());
    let mut decoder = reader.into_decoder().ok()?;
    decoder.set_limits(limits).ok()?;
    if decoder.total_bytes() > MAX_ALLOC || !decoder.color_type().has_alpha() {
        return None;
    }
    Some(DynamicImage::from_decoder(decoder).ok()?.into_rgba8())
}
