//! What a picture looks like, in 128 bits: whether it grows lighter from left to right, and from top to bottom, in each of
//! 8 × 8 places. Pictures that look alike differ in few bits, whatever their size, format and quality.

use image::RgbImage;
use image::imageops::grayscale;

use super::scale::averaged;
use crate::model::PerceptualHash;

/// The looks of a picture, told from its small thumbnail: from there it is 50 times as fast as from a large picture.
pub(super) fn perceptual_hash(small: &RgbImage) -> PerceptualHash {
    let grey = grayscale(small);
    let wide = averaged(&grey, (9, 8));
    let tall = averaged(&grey, (8, 9));
    let across = wide.rows().flat_map(|row| {
        let row: Vec<u8> = row.map(|pixel| pixel.0[0]).collect();
        row.windows(2).map(|pair| pair.first() < pair.last()).collect::<Vec<bool>>()
    });
    let down = tall.as_raw().iter().zip(tall.as_raw().iter().skip(8)).map(|(above, below)| above < below);
    PerceptualHash(across.chain(down).fold(0, |bits, bit| bits << 1 | u128::from(bit)))
}
