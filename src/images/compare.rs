//! Measures how much two images differ in composition, colour and structure, and where.
//!
//! Images of different sizes are aligned first: the smaller one is scaled to the box of the larger one. If their aspect
//! ratios differ, it is centred there, so that an image and its outpainted successor match exactly; what only one of
//! them covers counts as changed.

use std::borrow::Cow;

use image::imageops::{self, grayscale};
use image::{GrayImage, RgbImage};
use image_compare::Algorithm;

use super::blobs::{ImageUnavailable, Images};
use super::colour::colour_difference;
use super::phash;
use super::scale::{BACKDROP, fill_within, fit_within, paste, resize, resize_rgb};
use super::thumbs::Reduced;
use crate::model::{Hash, PerceptualHash};

/// The differences between two images.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ImageComparison {
    /// The number of bits, of 128, in which their perceptual hashes differ. Up to [`PerceptualHash::NEAR`] they have
    /// the same composition; the hash ignores colours.
    pub distance: u32,
    /// The mean colour difference in hundredths of Oklab units: 0 means identical, about 2 is just noticeable. Up to
    /// [`ImageComparison::NEAR_COLOUR`] they have nearly the same colours.
    pub colour_difference: f64,
    /// The mean structural similarity (MSSIM) at 512 pixels, from 0 to 1: 1 means identical, unrelated images are below
    /// 0.3.
    pub similarity: f64,
    /// The share of the larger image that changed noticeably, from 0 to 1.
    pub changed: f64,
    /// The bounding box of all changes, in pixels of the larger image; `None` if nothing changed.
    pub bounds: Option<Area>,
    /// The width and height of the larger image, to whose pixels areas refer.
    pub size: (u32, u32),
    /// Whether one had to be scaled.
    pub scaled: bool,
    /// Whether both have the same aspect ratio, so that they cover each other.
    pub same_shape: bool,
}

/// A rectangle within an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Area {
    /// The distance from the left edge.
    pub x: u32,
    /// The distance from the top edge.
    pub y: u32,
    /// Its width.
    pub width: u32,
    /// Its height.
    pub height: u32,
}

/// The error for two images of which one cannot be decoded.
#[derive(Debug, thiserror::Error)]
#[error("image {hash} cannot be compared")]
pub struct Incomparable {
    /// The image that cannot be decoded.
    pub hash: Hash,
    /// The reason.
    pub source: ImageUnavailable,
}

/// The largest channel difference that counts as unchanged: above JPEG artefacts at common qualities.
const NOTICEABLE: u8 = 24;
/// The longest side at which pixels are compared; larger images are scaled down.
const COMPARED_SIDE: u32 = 2048;
/// The longest side at which structure is compared.
const STRUCTURE_SIDE: u32 = 512;
/// The largest perceptual distance of similar compositions, which a new seed often results in.
const SIMILAR_COMPOSITION: u32 = 40;
/// The largest colour difference that counts as the same: just noticeable.
const SAME_COLOUR: f64 = 2.0;
/// The largest colour difference that does not count as strong, such as between two times of day.
const STRONG_COLOUR: f64 = 15.0;
/// The largest difference between two aspect ratios, in thousandths, that rounding explains.
const SAME_SHAPE: u64 = 10;

impl ImageComparison {
    /// The largest [`colour_difference`](ImageComparison::colour_difference) of nearly identical images: above re-saved
    /// or resized copies and slight corrections, below another time of day.
    pub const NEAR_COLOUR: f64 = 8.0;
    /// The smallest [`similarity`](ImageComparison::similarity) of nearly identical images: below re-saved, resized or
    /// slightly blurred copies, above another seed with the same composition.
    pub const NEAR_SIMILARITY: f64 = 0.6;

    /// Returns whether both have the same composition, whatever their colours.
    pub fn has_same_composition(&self) -> bool {
        self.distance <= PerceptualHash::NEAR
    }

    /// Returns the verdict in one line: composition, colour, and the share of the area that changed.
    pub fn verdict(&self) -> String {
        let composition = match self.distance {
            0..=PerceptualHash::NEAR => "same",
            _ if self.distance <= SIMILAR_COMPOSITION => "similar",
            _ => "different",
        };
        let colour = match self.colour_difference {
            apart if apart <= SAME_COLOUR => "same",
            apart if apart <= ImageComparison::NEAR_COLOUR => "slightly changed",
            apart if apart <= STRONG_COLOUR => "changed",
            _ => "strongly changed",
        };
        let area = match self.bounds {
            None => "nothing noticeable".to_owned(),
            Some(_) => format!("{:.1} % of the area", self.changed * 100.0),
        };
        format!("Composition: {composition} · Colour: {colour} · {area}")
    }

    /// Returns whether both are nearly the same image: composition, colours and details match.
    pub fn is_nearly_same(&self) -> bool {
        self.has_same_composition()
            && self.colour_difference <= ImageComparison::NEAR_COLOUR
            && self.similarity >= ImageComparison::NEAR_SIMILARITY
    }
}

impl Images {
    /// Compares the images of these hashes.
    pub fn compare(&self, one: Hash, other: Hash) -> Result<ImageComparison, Incomparable> {
        Ok(self.align(one, other)?.compare())
    }

    /// Aligns two images. Only one of them is in memory at full size at a time.
    pub(super) fn align(&self, one: Hash, other: Hash) -> Result<AlignedPair, Incomparable> {
        let load = |hash| {
            let loaded = self.with_picture(hash, |image| {
                let size = (image.width(), image.height());
                let pixels = resize(image.pixels(), fit_within(size, (COMPARED_SIDE, COMPARED_SIDE)));
                Loaded { size, pixels, perceptual_hash: phash::perceptual_hash(&Reduced::of(image).small) }
            });
            loaded.map_err(|source| Incomparable { hash, source })
        };
        Ok(AlignedPair::new(load(one)?, load(other)?))
    }
}

/// An image, scaled down to the size at which it is compared.
struct Loaded {
    size: (u32, u32),
    pixels: RgbImage,
    perceptual_hash: PerceptualHash,
}

/// Two images in a common box.
pub(super) struct AlignedPair {
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

impl AlignedPair {
    fn new(one: Loaded, other: Loaded) -> AlignedPair {
        let area = |size: (u32, u32)| u64::from(size.0) * u64::from(size.1);
        let larger = if area(other.size) > area(one.size) { &other } else { &one };
        let (size, within) = (larger.size, larger.pixels.dimensions());
        let same_shape = is_same_shape(one.size, other.size);
        let place = |loaded: &Loaded| {
            let to = if same_shape { within } else { fill_within(loaded.size, within) };
            Area { x: (within.0 - to.0) / 2, y: (within.1 - to.1) / 2, width: to.0, height: to.1 }
        };
        let (first, second) = (place(&one), place(&other));
        let scaled = one.size != other.size;
        let distance = one.perceptual_hash.distance(other.perceptual_hash);
        AlignedPair {
            shared: first.common(second),
            one: placed(one.pixels, first, within),
            other: placed(other.pixels, second, within),
            size,
            distance,
            scaled,
            same_shape,
        }
    }

    pub(super) fn compare(&self) -> ImageComparison {
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
        ImageComparison {
            distance: self.distance,
            colour_difference: self.colour_difference(),
            similarity: self.similarity(),
            changed: count as f64 / (f64::from(width) * f64::from(height)),
            bounds: bounds.area().map(|area| area.enlarged((width, height), self.size)),
            size: self.size,
            scaled: self.scaled,
            same_shape: self.same_shape,
        }
    }

    /// Returns the largest channel difference at each pixel; 255 where only one image has a pixel.
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
        let size = fit_within((self.shared.width, self.shared.height), (STRUCTURE_SIDE, STRUCTURE_SIDE));
        let [one, other] = self.shared_parts().map(|part| grayscale(&resize_rgb(&part, size)));
        // Both have the same size, so this cannot fail.
        image_compare::gray_similarity_structure(&Algorithm::MSSIMSimple, &one, &other)
            .map_or(0.0, |found| found.score.clamp(0.0, 1.0))
    }

    fn colour_difference(&self) -> f64 {
        let [one, other] = self.shared_parts();
        colour_difference(&one, &other)
    }

    /// Returns the parts of both images that cover each other.
    fn shared_parts(&self) -> [Cow<'_, RgbImage>; 2] {
        let Area { x, y, width, height } = self.shared;
        [&self.one, &self.other].map(|image| match self.same_shape {
            true => Cow::Borrowed(image),
            false => Cow::Owned(imageops::crop_imm(image, x, y, width, height).to_image()),
        })
    }
}

/// Returns whether rounding explains the difference between the aspect ratios of two sizes.
fn is_same_shape(one: (u32, u32), other: (u32, u32)) -> bool {
    let (first, second) = (u64::from(one.0) * u64::from(other.1), u64::from(one.1) * u64::from(other.0));
    first.abs_diff(second) * 1000 <= first.max(second) * SAME_SHAPE
}

/// Returns an image placed in a box on the neutral backdrop.
fn placed(pixels: RgbImage, place: Area, within: (u32, u32)) -> RgbImage {
    let pixels = if pixels.dimensions() == (place.width, place.height) {
        pixels
    } else {
        resize_rgb(&pixels, (place.width, place.height))
    };
    if pixels.dimensions() == within {
        return pixels;
    }
    let mut canvas = RgbImage::from_pixel(within.0, within.1, BACKDROP);
    paste(&mut canvas, &pixels, (place.x, place.y));
    canvas
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

    /// Scales this area to a larger image, rounding outwards.
    fn enlarged(self, from: (u32, u32), to: (u32, u32)) -> Area {
        let scale = |at: u32, from: u32, to: u32, up: bool| {
            let (at, from, to) = (u64::from(at), u64::from(from.max(1)), u64::from(to));
            let scaled = if up { (at * to).div_ceil(from) } else { at * to / from };
            u32::try_from(scaled.min(to)).unwrap_or(u32::MAX)
        };
        let (x, y) = (scale(self.x, from.0, to.0, false), scale(self.y, from.1, to.1, false));
        let right = scale(self.x + self.width, from.0, to.0, true);
        let bottom = scale(self.y + self.height, from.1, to.1, true);
        Area { x, y, width: right - x, height: bottom - y }
    }
}

/// The bounding box of some pixels.
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

    fn compare(one: RgbImage, other: RgbImage) -> ImageComparison {
        AlignedPair::new(loaded(one), loaded(other)).compare()
    }

    /// Returns soft stripes, which scaling does not change noticeably.
    fn scene(width: u32, height: u32) -> RgbImage {
        RgbImage::from_fn(width, height, |x, y| {
            let light = |at: u32, of: u32| (at * 510 / of).abs_diff(255).to_le_bytes()[0];
            Rgb([light(x, width), light(y, height), 90])
        })
    }

    #[test]
    fn an_inpainted_area_is_found_to_the_pixel() {
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
    fn areas_are_in_pixels_of_the_larger_image() {
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
        // The box is in pixels of the original, even above the size that is compared.
        let found = compare(scene(4000, 100), RgbImage::from_pixel(4000, 100, Rgb([255, 255, 255])));
        let bounds = found.bounds.unwrap();
        assert_eq!((bounds.x, bounds.y, bounds.height), (0, 0, 100));
        assert!(bounds.width > 3990 && bounds.width <= 4000, "{bounds:?}");
    }

    #[test]
    fn an_outpainted_image_is_aligned_with_its_origin() {
        let wide = scene(960, 480);
        let middle = imageops::crop_imm(&wide, 240, 0, 480, 480).to_image();
        let found = compare(middle, wide);
        assert!(!found.same_shape && found.scaled);
        assert_eq!((found.changed, found.similarity), (0.5, 1.0));
        assert_eq!(found.bounds, Some(Area { x: 0, y: 0, width: 960, height: 480 }));
    }

    #[test]
    fn the_same_composition_in_other_colours_is_not_nearly_the_same() {
        let morning = scene(640, 480);
        let mut dusk = morning.clone();
        dusk.pixels_mut().for_each(|pixel| pixel.0.swap(0, 2));
        let recoloured = compare(morning.clone(), dusk);
        assert!(recoloured.has_same_composition(), "{recoloured:?}");
        assert!(recoloured.colour_difference > ImageComparison::NEAR_COLOUR + 4.0, "{recoloured:?}");
        assert!(!recoloured.is_nearly_same());

        let mut corrected = resize_rgb(&morning, (320, 240));
        corrected.pixels_mut().for_each(|pixel| pixel.0[0] = pixel.0[0].saturating_add(8));
        let copy = compare(morning.clone(), corrected);
        assert!(copy.is_nearly_same() && copy.colour_difference > 0.5, "{copy:?}");

        let mut negative = morning.clone();
        imageops::invert(&mut negative);
        let inverted = compare(morning, negative);
        assert!(!inverted.has_same_composition() && !inverted.is_nearly_same(), "{inverted:?}");
    }

    #[test]
    fn the_same_composition_with_other_details_is_not_nearly_the_same() {
        let mut state = 7_u32;
        let mut textured = || {
            let mut image = scene(640, 480);
            for pixel in image.pixels_mut() {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let grain = state.to_be_bytes()[0] / 4;
                pixel.0 = pixel.0.map(|channel| (channel / 2).saturating_add(grain));
            }
            image
        };
        let reseeded = compare(textured(), textured());
        assert!(reseeded.has_same_composition() && reseeded.colour_difference < 4.0, "{reseeded:?}");
        assert!(reseeded.similarity < 0.5 && !reseeded.is_nearly_same(), "{reseeded:?}");
    }

    #[test]
    fn rounded_aspect_ratios_are_the_same_shape() {
        assert!(is_same_shape((832, 1216), (1664, 2432)));
        assert!(is_same_shape((1023, 767), (512, 384)));
        assert!(!is_same_shape((1024, 1024), (1024, 1056)));
        for (one, other) in [((1, 1), (2048, 3)), ((1, 300), (300, 1)), ((7, 5), (3, 2))] {
            let found = compare(scene(one.0, one.1), scene(other.0, other.1));
            assert!((0.0..=1.0).contains(&found.changed) && found.similarity <= 1.0, "{found:?}");
        }
    }
}
