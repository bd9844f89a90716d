//! Other sizes of a picture, with Lanczos and with whatever shows through laid on a neutral ground.

use fast_image_resize::{FilterType, IntoImageView, IntoImageViewMut, ResizeAlg, ResizeOptions, Resizer};
use image::{DynamicImage, GrayImage, Rgb, RgbImage, RgbaImage};

/// What is seen behind a picture that can be seen through: as far from black drawings as from white ones.
pub(super) const GROUND: Rgb<u8> = Rgb([0x80, 0x80, 0x80]);

/// The largest size of that shape that fits a box; never larger than it is.
pub(super) fn fitting(size: (u32, u32), within: (u32, u32)) -> (u32, u32) {
    if size.0 <= within.0 && size.1 <= within.1 { size } else { filling(size, within) }
}

/// The largest size of that shape that fits a box, larger than it is where the box is.
pub(super) fn filling((width, height): (u32, u32), within: (u32, u32)) -> (u32, u32) {
    let (width, height) = (u64::from(width.max(1)), u64::from(height.max(1)));
    let (most_wide, most_high) = (u64::from(within.0), u64::from(within.1));
    let scaled = |side: u64, to: u64, from: u64| ((side * to + from / 2) / from).max(1);
    let (width, height) = if most_wide * height <= most_high * width {
        (most_wide, scaled(height, most_wide, width))
    } else {
        (scaled(width, most_high, height), most_high)
    };
    // Neither passes the box, whose sides are u32.
    let side = |side: u64, most: u32| u32::try_from(side).unwrap_or(most).clamp(1, most.max(1));
    (side(width, within.0), side(height, within.1))
}

/// The picture in that size, without anything showing through.
pub(super) fn scaled(pixels: &DynamicImage, size: (u32, u32)) -> RgbImage {
    match pixels {
        DynamicImage::ImageRgb8(pixels) => scaled_rgb(pixels, size),
        DynamicImage::ImageRgba8(pixels) if pixels.dimensions() == size => grounded(pixels),
        DynamicImage::ImageRgba8(pixels) => {
            let mut scaled = RgbaImage::new(size.0, size.1);
            convolve(pixels, &mut scaled, FilterType::Lanczos3);
            grounded(&scaled)
        }
        other => scaled_rgb(&other.to_rgb8(), size),
    }
}

/// An opaque picture in that size.
pub(super) fn scaled_rgb(pixels: &RgbImage, size: (u32, u32)) -> RgbImage {
    if pixels.dimensions() == size {
        return pixels.clone();
    }
    let mut scaled = RgbImage::new(size.0, size.1);
    convolve(pixels, &mut scaled, FilterType::Lanczos3);
    scaled
}

/// A grey picture in that size, each pixel the average of those it stands for.
pub(super) fn averaged(pixels: &GrayImage, size: (u32, u32)) -> GrayImage {
    let mut scaled = GrayImage::new(size.0, size.1);
    convolve(pixels, &mut scaled, FilterType::Box);
    scaled
}

/// Puts a picture onto a larger one, with its upper left corner there. What does not fit is left out.
pub(super) fn paste(onto: &mut RgbImage, picture: &RgbImage, (x, y): (u32, u32)) {
    // A row at a time: image's own way goes pixel by pixel.
    let index = |at: u32| usize::try_from(at).unwrap_or(usize::MAX);
    let (width, from) = (index(onto.width()) * 3, index(x) * 3);
    let rows = picture.as_raw().chunks_exact((index(picture.width()) * 3).max(1));
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
        // Both have pixels, of the same type. Were it otherwise, a black picture is better than none.
        tracing::error!(%error, "a picture could not be scaled");
    }
}

fn grounded(pixels: &RgbaImage) -> RgbImage {
    let mut opaque = RgbImage::new(pixels.width(), pixels.height());
    for (to, from) in opaque.pixels_mut().zip(pixels.pixels()) {
        let [red, green, blue, alpha] = from.0;
        let over = |channel: u8, ground: u8| {
            let mixed = u32::from(channel) * u32::from(alpha) + u32::from(ground) * (255 - u32::from(alpha));
            u8::try_from((mixed + 127) / 255).unwrap_or(u8::MAX)
        };
        *to = Rgb([over(red, GROUND.0[0]), over(green, GROUND.0[1]), over(blue, GROUND.0[2])]);
    }
    opaque
}

#[cfg(test)]
mod tests {
    use image::Rgba;

    use super::*;

    #[test]
    fn sizes_keep_their_shape_and_their_last_pixel() {
        for (size, within, fit) in [
            ((1024, 1024), (256, 256), (256, 256)),
            ((832, 1216), (256, 256), (175, 256)),
            ((100, 50), (256, 256), (100, 50)),
            ((16_384, 1), (256, 256), (256, 1)),
            ((1, 16_384), (512, 512), (1, 512)),
            ((257, 256), (256, 256), (256, 255)),
        ] {
            assert_eq!(fitting(size, within), fit, "{size:?}");
        }
        assert_eq!(filling((512, 512), (1536, 1024)), (1024, 1024));
        assert_eq!(filling((768, 512), (1536, 1024)), (1536, 1024));
    }

    #[test]
    fn nothing_shows_through_and_hidden_colours_do_not_bleed() {
        // The hidden left half is red: it must not tint the edge.
        let seen =
            RgbaImage::from_fn(64, 64, |x, _| if x < 32 { Rgba([255, 0, 0, 0]) } else { Rgba([0, 0, 255, 255]) });
        let small = scaled(&seen.into(), (16, 16));
        assert_eq!(*small.get_pixel(1, 8), GROUND);
        assert_eq!(*small.get_pixel(14, 8), Rgb([0, 0, 255]));
        assert!(small.pixels().all(|pixel| pixel.0[0] <= GROUND.0[0] + 8), "red bleeds");
    }
}
