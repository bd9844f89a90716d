//! The perceptual hash: 128 bits that state, for each of 8 × 8 cells, whether the image gets brighter to the right and
//! whether it gets brighter downwards. Images of the same composition differ in few bits, whatever their size, format
//! and quality. Colours are ignored.

use image::RgbImage;
use image::imageops::grayscale;

use super::scale::box_average;
use crate::model::PerceptualHash;

/// Computes the perceptual hash of an image from its small thumbnail, which is 50 times as fast as from a large original.
pub(super) fn perceptual_hash(small: &RgbImage) -> PerceptualHash {
    let grey = grayscale(small);
    let wide = box_average(&grey, (9, 8));
    let tall = box_average(&grey, (8, 9));
    let across = wide.rows().flat_map(|row| {
        let row: Vec<u8> = row.map(|pixel| pixel.0[0]).collect();
        row.windows(2).map(|pair| pair.first() < pair.last()).collect::<Vec<bool>>()
    });
    let down = tall.as_raw().iter().zip(tall.as_raw().iter().skip(8)).map(|(above, below)| above < below);
    PerceptualHash(across.chain(down).fold(0, |bits, bit| bits << 1 | u128::from(bit)))
}
