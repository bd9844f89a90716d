//! The colour difference of two images, cell by cell. The perceptual hash only captures brightness gradients; a blue
//! morning and an orange dusk of the same composition have the same hash.

use image::RgbImage;

use super::scale::box_average_rgb;

/// The number of cells per side in which colours are averaged and compared.
const GRID: u32 = 16;

/// Returns the mean colour difference of two images of the same shape, in hundredths of Oklab units: 0 means identical,
/// about 2 is just noticeable, and a change of the light from day to dusk is above 10.
pub(super) fn colour_difference(one: &RgbImage, other: &RgbImage) -> f64 {
    let (one, other) = (box_average_rgb(one, (GRID, GRID)), box_average_rgb(other, (GRID, GRID)));
    let sum: f64 = one.pixels().zip(other.pixels()).map(|(one, other)| distance(oklab(one.0), oklab(other.0))).sum();
    100.0 * sum / f64::from(GRID * GRID)
}

fn distance(one: [f64; 3], other: [f64; 3]) -> f64 {
    one.iter().zip(other).map(|(one, other)| (one - other).powi(2)).sum::<f64>().sqrt()
}

/// Converts sRGB to Oklab, in which distances match human perception (Ottosson 2020).
fn oklab(srgb: [u8; 3]) -> [f64; 3] {
    let linear = srgb.map(|channel| match f64::from(channel) / 255.0 {
        dark if dark <= 0.040_45 => dark / 12.92,
        light => ((light + 0.055) / 1.055).powf(2.4),
    });
    let product = |row: [f64; 3], of: [f64; 3]| row.iter().zip(of).map(|(factor, value)| factor * value).sum::<f64>();
    let cones = [
        [0.412_221_470_8, 0.536_332_536_3, 0.051_445_992_9],
        [0.211_903_498_2, 0.680_699_545_1, 0.107_396_956_6],
        [0.088_302_461_9, 0.281_718_837_6, 0.629_978_700_5],
    ]
    .map(|row| product(row, linear).cbrt());
    [
        [0.210_454_255_3, 0.793_617_785_0, -0.004_072_046_8],
        [1.977_998_495_1, -2.428_592_205_0, 0.450_593_709_9],
        [0.025_904_037_1, 0.782_771_766_2, -0.808_675_766_0],
    ]
    .map(|row| product(row, cones))
}

#[cfg(test)]
mod tests {
    use image::Rgb;

    use super::*;

    #[test]
    fn distances_are_those_of_oklab() {
        let near = |found: [f64; 3], known: [f64; 3]| distance(found, known) < 0.001;
        assert!(near(oklab([255, 255, 255]), [1.0, 0.0, 0.0]));
        assert!(near(oklab([0, 0, 0]), [0.0, 0.0, 0.0]));
        assert!(near(oklab([255, 0, 0]), [0.6280, 0.2249, 0.1258]));
        assert!(near(oklab([0, 0, 255]), [0.4520, -0.0325, -0.3115]));
        let (black, white) = (RgbImage::new(40, 30), RgbImage::from_pixel(80, 60, Rgb([255; 3])));
        assert!((colour_difference(&black, &white) - 100.0).abs() < 0.1);
        assert_eq!(colour_difference(&white, &white), 0.0);
    }
}
