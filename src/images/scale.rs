//! Resizes images. Transparent parts are blended with a neutral backdrop.

use fast_image_resize::{FilterType, IntoImageView, IntoImageViewMut, ResizeAlg, ResizeOptions, Resizer};
use image::{DynamicImage, GrayImage, Rgb, RgbImage, RgbaImage};

/// The colour behind transparent parts: equally far from black and white drawings.
pub(super) const BACKDROP: Rgb<u8> = Rgb([0x80, 0x80, 0x80]);

/// Returns the largest size of this aspect ratio that fits into a box, without enlarging it.
pub(super) fn fit_within(size: (u32, u32), within: (u32, u32)) -> (u32, u32) {
    if size.0 <= within.0 && size.1 <= within.1 { size } else { fill_within(size, within) }
}

/// Returns the largest size of this aspect ratio that fits into a box, enlarging it if necessary.
pub(super) fn fill_within((width, height): (u32, u32), within: (u32, u32)) -> (u32, u32) {
    let (width, height) = (u64::from(width.max(1)), u64::from(height.max(1)));
    let (max_width, max_height) = (u64::from(within.0), u64::from(within.1));
    let scale = |side: u64, to: u64, from: u64| ((side * to + from / 2) / from).max(1);
    let (width, height) = if max_width * height <= max_height * width {
        (max_width, scale(height, max_width, width))
    } else {
        (scale(width, max_height, height), max_height)
    };
    // Neither exceeds the box, whose sides are `u32`.
    let side = |side: u64, max: u32| u32::try_from(side).unwrap_or(max).clamp(1, max.max(1));
    (side(width, within.0), side(height, within.1))
}

/// Resizes an image and flattens transparency.
pub(super) fn resize(pixels: &DynamicImage, size: (u32, u32)) -> RgbImage {
    match pixels {
        DynamicImage::ImageRgb8(pixels) => resize_rgb(pixels, size),
        DynamicImage::ImageRgba8(pixels) if pixels.dimensions() == size => flatten(pixels),
        DynamicImage::ImageRgba8(pixels) => {
            let mut resized = RgbaImage::new(size.0, size.1);
            convolve(pixels, &mut resized, FilterType::Lanczos3);
            flatten(&resized)
        }
        other => resize_rgb(&other.to_rgb8(), size),
    }
}

/// Resizes an opaque image.
pub(super) fn resize_rgb(pixels: &RgbImage, size: (u32, u32)) -> RgbImage {
    if pixels.dimensions() == size {
        return pixels.clone();
    }
    let mut resized = RgbImage::new(size.0, size.1);
    convolve(pixels, &mut resized, FilterType::Lanczos3);
    resized
}

/// Scales down a grey image; each pixel becomes the average of those it replaces.
pub(super) fn box_average(pixels: &GrayImage, size: (u32, u32)) -> GrayImage {
    let mut resized = GrayImage::new(size.0, size.1);
    convolve(pixels, &mut resized, FilterType::Box);
    resized
}

/// Scales down an opaque image; each pixel becomes the average of those it replaces.
pub(super) fn box_average_rgb(pixels: &RgbImage, size: (u32, u32)) -> RgbImage {
    let mut resized = RgbImage::new(size.0, size.1);
    convolve(pixels, &mut resized, FilterType::Box);
    resized
}

/// Copies an image onto a larger one, with its top left corner at this point. Parts outside are cut off.
pub(super) fn paste(onto: &mut RgbImage, image: &RgbImage, (x, y): (u32, u32)) {
    // Row by row, since `imageops::replace` copies pixel by pixel.
    let index = |at: u32| usize::try_from(at).unwrap_or(usize::MAX);
    let (width, from) = (index(onto.width()) * 3, index(x) * 3);
    let rows = image.as_raw().chunks_exact((index(image.width()) * 3).max(1));
    for (row, to) in rows.zip(onto.chunks_exact_mut(width.max(1)).skip(index(y))) {
        let to = to.get_mut(from..).unwrap_or_default();
        let fits = row.len().min(to.len());
        if let (Some(to), Some(row)) = (to.get_mut(..fits), row.get(..fits)) {
            to.copy_from_slice(row);
        }
    }
}

fn convolve(from: &impl IntoImageView, to: &mut impl IntoImageViewMut, filter: FilterType) {
    let options = ResizeOptions::new().resize_alg(ResizeAlg::Convolution(filter));
    if let Err(error) = Resizer::new().resize(from, to, &options) {
        // Both have the same pixel type, so this cannot happen; a black image is better than none.
        tracing::error!(%error, "an image cannot be resized");
    }
}

/// Blends transparent pixels with the backdrop.
fn flatten(pixels: &RgbaImage) -> RgbImage {
    let mut opaque = RgbImage::new(pixels.width(), pixels.height());
    for (to, from) in opaque.pixels_mut().zip(pixels.pixels()) {
        let [red, green, blue, alpha] = from.0;
        let over = |channel: u8, backdrop: u8| {
            let mixed = u32::from(channel) * u32::from(alpha) + u32::from(backdrop) * (255 - u32::from(alpha));
            u8::try_from((mixed + 127) / 255).unwrap_or(u8::MAX)
        };
        *to = Rgb([over(red, BACKDROP.0[0]), over(green, BACKDROP.0[1]), over(blue, BACKDROP.0[2])]);
    }
    opaque
}

#[cfg(test)]
mod tests {
    use image::Rgba;

    use super::*;

    #[test]
    fn sizes_keep_their_shape_and_at_least_one_pixel() {
        for (size, within, fit) in [
            ((1024, 1024), (256, 256), (256, 256)),
            ((832, 1216), (256, 256), (175, 256)),
            ((100, 50), (256, 256), (100, 50)),
            ((16_384, 1), (256, 256), (256, 1)),
            ((1, 16_384), (512, 512), (1, 512)),
            ((257, 256), (256, 256), (256, 255)),
        ] {
            assert_eq!(fit_within(size, within), fit, "{size:?}");
        }
        assert_eq!(fill_within((512, 512), (1536, 1024)), (1024, 1024));
        assert_eq!(fill_within((768, 512), (1536, 1024)), (1536, 1024));
    }

    #[test]
    fn transparency_is_flattened_and_hidden_colours_do_not_bleed() {
        // The transparent left half is red: it must not tint the edge.
        let image =
            RgbaImage::from_fn(64, 64, |x, _| if x < 32 { Rgba([255, 0, 0, 0]) } else { Rgba([0, 0, 255, 255]) });
        let small = resize(&image.into(), (16, 16));
        assert_eq!(*small.get_pixel(1, 8), BACKDROP);
        assert_eq!(*small.get_pixel(14, 8), Rgb([0, 0, 255]));
        assert!(small.pixels().all(|pixel| pixel.0[0] <= BACKDROP.0[0] + 8), "red bleeds");
    }
}
