//! How much two pictures differ: by their looks, by structure, and where.
//!
//! Pictures of different sizes are laid over each other as people do it: the smaller one is scaled to the larger one's
//! box. Where the shapes differ it is centred there, so that a picture and its outpainted successor lie exactly on each
//! other; what only one of them covers counts as changed.

use image::imageops::{self, grayscale};
use image::{GrayImage, RgbImage};
use image_compare::Algorithm;

use super::blobs::{ImageUnavailable, Images};
use super::phash;
use super::scale::{GROUND, filling, fitting, paste, scaled, scaled_rgb};
use super::thumbs::Reduced;
use crate::model::{Hash, PerceptualHash};

/// How much two pictures differ.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// In how many of 128 bits their looks differ; up to [`PerceptualHash::NEAR`] they are nearly the same.
    pub distance: u32,
    /// Mean structural similarity (MSSIM) at 512 pixels, from 0 to 1: 1 is the same, and two different pictures are below 0.3.
    pub similarity: f64,
    /// The share of the larger picture that changed noticeably, from 0 to 1.
    pub changed: f64,
    /// The smallest box around what changed, in pixels of the larger picture; none when nothing did.
    pub bounds: Option<Area>,
    /// The width and height of the larger picture, in whose pixels areas are.
    pub size: (u32, u32),
    /// Whether one had to be scaled.
    pub scaled: bool,
    /// Whether both have the same shape, so that they cover each other.
    pub same_shape: bool,
}

/// A part of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Area {
    /// From the left.
    pub x: u32,
    /// From the top.
    pub y: u32,
    /// Its width.
    pub width: u32,
    /// Its height.
    pub height: u32,
}

/// One of two pictures could not be looked at.
#[derive(Debug, thiserror::Error)]
#[error("image {hash} cannot be compared")]
pub struct Incomparable {
    /// Which.
    pub hash: Hash,
    /// Why.
    pub source: ImageUnavailable,
}

/// From which difference in a channel on a pixel is said to have changed: above what JPEG does at usual qualities.
const NOTICEABLE: u8 = 24;
/// The longest side at which pixels are compared; larger pictures are compared in this size.
const COMPARED_SIDE: u32 = 2048;
/// The longest side at which structure is compared.
const STRUCTURE_SIDE: u32 = 512;
/// How much the shapes may differ, in thousandths, before it is more than rounding.
const SAME_SHAPE: u64 = 10;

impl Images {
    /// How much the pictures of these hashes differ.
    pub fn compare(&self, one: Hash, other: Hash) -> Result<Comparison, Incomparable> {
        Ok(self.overlay(one, other)?.compare())
    }

    /// Both pictures laid over each other. One is in memory whole at a time.
    pub(super) fn overlay(&self, one: Hash, other: Hash) -> Result<Overlay, Incomparable> {
        let load = |hash| {
            let loaded = self.with_picture(hash, |picture| {
                let size = (picture.width(), picture.height());
                let pixels = scaled(picture.pixels(), fitting(size, (COMPARED_SIDE, COMPARED_SIDE)));
                Loaded { size, pixels, perceptual_hash: phash::perceptual_hash(&Reduced::of(picture).small) }
            });
            loaded.map_err(|source| Incomparable { hash, source })
        };
        Ok(Overlay::of(load(one)?, load(other)?))
    }
}

/// A picture, no larger than is compared.
struct Loaded {
    size: (u32, u32),
    pixels: RgbImage,
    perceptual_hash: PerceptualHash,
}

/// Two pictures laid over each other.
pub(super) struct Overlay {
    /// The first, in the common box.
    pub(super) one: RgbImage,
    /// The second, in the common box.
    pub(super) other: RgbImage,
    /// The part of the box that both cover.
    shared: Area,
    size: (u32, u32),
    distance: u32,
    scaled: bool,
    same_shape: bool,
}

impl Overlay {
    fn of(one: Loaded, other: Loaded) -> Overlay {
        let area = |size: (u32, u32)| u64::from(size.0) * u64::from(size.1);
        let larger = if area(other.size) > area(one.size) { &other } else { &one };
        let (size, within) = (larger.size, larger.pixels.dimensions());
        let same_shape = is_same_shape(one.size, other.size);
        let place = |loaded: &Loaded| {
            let to = if same_shape { within } else { filling(loaded.size, within) };
            Area { x: (within.0 - to.0) / 2, y: (within.1 - to.1) / 2, width: to.0, height: to.1 }
        };
        let (first, second) = (place(&one), place(&other));
        let scaled = one.size != other.size;
        let distance = one.perceptual_hash.distance(other.perceptual_hash);
        Overlay {
            shared: first.common(second),
            one: laid(one.pixels, first, within),
            other: laid(other.pixels, second, within),
            size,
            distance,
            scaled,
            same_shape,
        }
    }

    pub(super) fn compare(&self) -> Comparison {
        let differences = self.differences();
        let (width, height) = differences.dimensions();
        let mut count: u64 = 0;
        let mut bounds = Bounds::default();
        for (x, y, difference) in differences.enumerate_pixels() {
            if difference.0[0] > NOTICEABLE {
                count += 1;
                bounds.add(x, y);
            }
        }
        Comparison {
            distance: self.distance,
            similarity: self.similarity(),
            changed: count as f64 / (f64::from(width) * f64::from(height)),
            bounds: bounds.area().map(|area| area.enlarged((width, height), self.size)),
            size: self.size,
            scaled: self.scaled,
            same_shape: self.same_shape,
        }
    }

    /// The largest difference of the three channels in each place; all of it where only one has anything.
    pub(super) fn differences(&self) -> GrayImage {
        let mut differences = GrayImage::new(self.one.width(), self.one.height());
        let pairs = self.one.as_raw().chunks_exact(3).zip(self.other.as_raw().chunks_exact(3));
        for (to, (one, other)) in differences.iter_mut().zip(pairs) {
            *to = one.iter().zip(other).map(|(one, other)| one.abs_diff(*other)).max().unwrap_or_default();
        }
        if !self.same_shape {
            let shared = self.shared;
            for (x, y, pixel) in differences.enumerate_pixels_mut() {
                if !shared.contains(x, y) {
                    pixel.0 = [u8::MAX];
                }
            }
        }
        differences
    }

    fn similarity(&self) -> f64 {
        let Area { x, y, width, height } = self.shared;
        let size = fitting((width, height), (STRUCTURE_SIDE, STRUCTURE_SIDE));
        let part = |picture: &RgbImage| match self.same_shape {
            true => grayscale(&scaled_rgb(picture, size)),
            false => grayscale(&scaled_rgb(&imageops::crop_imm(picture, x, y, width, height).to_image(), size)),
        };
        // Both have the same size, so it cannot fail.
        image_compare::gray_similarity_structure(&Algorithm::MSSIMSimple, &part(&self.one), &part(&self.other))
            .map_or(0.0, |found| found.score.clamp(0.0, 1.0))
    }
}

/// Whether two sizes differ in shape by no more than rounding does.
fn is_same_shape(one: (u32, u32), other: (u32, u32)) -> bool {
    let (first, second) = (u64::from(one.0) * u64::from(other.1), u64::from(one.1) * u64::from(other.0));
    first.abs_diff(second) * 1000 <= first.max(second) * SAME_SHAPE
}

/// A picture at that place of a box, on the neutral ground.
fn laid(pixels: RgbImage, place: Area, within: (u32, u32)) -> RgbImage {
    let pixels = if pixels.dimensions() == (place.width, place.height) {
        pixels
    } else {
        scaled_rgb(&pixels, (place.width, place.height))
    };
    if pixels.dimensions() == within {
        return pixels;
    }
    let mut whole = RgbImage::from_pixel(within.0, within.1, GROUND);
    paste(&mut whole, &pixels, (place.x, place.y));
    whole
}

impl Area {
    fn contains(self, x: u32, y: u32) -> bool {
        (self.x..self.x + self.width).contains(&x) && (self.y..self.y + self.height).contains(&y)
    }

    fn common(self, other: Area) -> Area {
        let (x, y) = (self.x.max(other.x), self.y.max(other.y));
        let right = (self.x + self.width).min(other.x + other.width);
        let bottom = (self.y + self.height).min(other.y + other.height);
        Area { x, y, width: right.saturating_sub(x), height: bottom.saturating_sub(y) }
    }

    /// The same part of a larger picture, no pixel of it left out.
    fn enlarged(self, from: (u32, u32), to: (u32, u32)) -> Area {
        let scaled = |at: u32, from: u32, to: u32, up: bool| {
            let (at, from, to) = (u64::from(at), u64::from(from.max(1)), u64::from(to));
            let scaled = if up { (at * to).div_ceil(from) } else { at * to / from };
            u32::try_from(scaled.min(to)).unwrap_or(u32::MAX)
        };
        let (x, y) = (scaled(self.x, from.0, to.0, false), scaled(self.y, from.1, to.1, false));
        let right = scaled(self.x + self.width, from.0, to.0, true);
        let bottom = scaled(self.y + self.height, from.1, to.1, true);
        Area { x, y, width: right - x, height: bottom - y }
    }
}

/// The smallest box around some pixels.
#[derive(Default)]
struct Bounds {
    corners: Option<((u32, u32), (u32, u32))>,
}

impl Bounds {
    fn add(&mut self, x: u32, y: u32) {
        let (first, last) = self.corners.get_or_insert(((x, y), (x, y)));
        *first = (first.0.min(x), first.1.min(y));
        *last = (last.0.max(x), last.1.max(y));
    }

    fn area(&self) -> Option<Area> {
        self.corners.map(|(first, last)| Area {
            x: first.0,
            y: first.1,
            width: last.0 - first.0 + 1,
            height: last.1 - first.1 + 1,
        })
    }
}

#[cfg(test)]
mod tests {
    use image::Rgb;

    use super::*;

    fn loaded(pixels: RgbImage) -> Loaded {
        let size = pixels.dimensions();
        let perceptual_hash = phash::perceptual_hash(&Reduced::of(&pixels.clone().into()).small);
        Loaded { size, pixels, perceptual_hash }
    }

    fn compare(one: RgbImage, other: RgbImage) -> Comparison {
        Overlay::of(loaded(one), loaded(other)).compare()
    }

    /// Soft stripes, so that scaling changes nothing that is noticed.
    fn scene(width: u32, height: u32) -> RgbImage {
        RgbImage::from_fn(width, height, |x, y| {
            let light = |at: u32, of: u32| (at * 510 / of).abs_diff(255).to_le_bytes()[0];
            Rgb([light(x, width), light(y, height), 90])
        })
    }

    #[test]
    fn what_was_painted_in_is_found_to_the_pixel() {
        let mut painted = scene(640, 480);
        for (x, y) in (100..150).flat_map(|x| (200..230).map(move |y| (x, y))) {
            painted.put_pixel(x, y, Rgb([255, 255, 255]));
        }
        let found = compare(scene(640, 480), painted);
        assert_eq!(found.bounds, Some(Area { x: 100, y: 200, width: 50, height: 30 }));
        assert_eq!(found.changed, 1500.0 / (640.0 * 480.0));
        assert!(found.similarity > 0.9 && found.similarity < 1.0, "{}", found.similarity);
        assert!(found.distance <= PerceptualHash::NEAR && found.same_shape && !found.scaled);

        let same = compare(scene(640, 480), scene(640, 480));
        assert_eq!((same.distance, same.changed, same.bounds, same.similarity), (0, 0.0, None, 1.0));
    }

    #[test]
    fn a_larger_one_is_compared_in_its_own_pixels() {
        let small = scene(320, 240);
        let mut large = scene(640, 480);
        assert_eq!(compare(small.clone(), large.clone()).bounds, None);
        for (x, y) in (300..340).flat_map(|x| (10..20).map(move |y| (x, y))) {
            large.put_pixel(x, y, Rgb([255, 255, 255]));
        }
        for (one, other) in [(&small, &large), (&large, &small)] {
            let found = compare(one.clone(), other.clone());
            assert_eq!((found.size, found.scaled, found.same_shape), ((640, 480), true, true));
            assert_eq!(found.bounds, Some(Area { x: 300, y: 10, width: 40, height: 10 }));
        }
        // Beyond the size that is compared, the box is that of the original all the same.
        let found = compare(scene(4000, 100), RgbImage::from_pixel(4000, 100, Rgb([255, 255, 255])));
        let bounds = found.bounds.unwrap();
        assert_eq!((bounds.x, bounds.y, bounds.height), (0, 0, 100));
        assert!(bounds.width > 3990 && bounds.width <= 4000, "{bounds:?}");
    }

    #[test]
    fn an_outpainted_one_lies_over_its_origin() {
        let wide = scene(960, 480);
        let middle = imageops::crop_imm(&wide, 240, 0, 480, 480).to_image();
        let found = compare(middle, wide);
        assert!(!found.same_shape && found.scaled);
        assert_eq!((found.changed, found.similarity), (0.5, 1.0));
        assert_eq!(found.bounds, Some(Area { x: 0, y: 0, width: 960, height: 480 }));
    }

    #[test]
    fn rounded_shapes_are_the_same_and_odd_ones_do_not_matter() {
        assert!(is_same_shape((832, 1216), (1664, 2432)));
        assert!(is_same_shape((1023, 767), (512, 384)));
        assert!(!is_same_shape((1024, 1024), (1024, 1056)));
        for (one, other) in [((1, 1), (2048, 3)), ((1, 300), (300, 1)), ((7, 5), (3, 2))] {
            let found = compare(scene(one.0, one.1), scene(other.0, other.1));
            assert!((0.0..=1.0).contains(&found.changed) && found.similarity <= 1.0, "{found:?}");
        }
    }
}
