//! Encodes thumbnails as JPEG: baseline, 4:2:0, chroma averaged.
//!
//! Thumbnails are the only images written by the thousand, and the encoder of `image` takes almost four times as long
//! as the `jpeg-encoder` crate used here. Compared with the encoder that Retake previously contained (42 images of
//! generators at 512 px, quality 80, one thread, median of 25 rounds): 2.35 ms to 2.43 ms, 47.7 kB to 47.6 kB, 34.2 dB
//! both. Two of its options are avoided: without averaging, chroma aliases, which costs 0.7 dB; and optimized Huffman
//! tables combined with 4:2:0 result in files that `image` decodes to noise.

use image::RgbImage;
use jpeg_encoder::{ChromaSubsamplingMethod, ColorType, Encoder, EncodingError, SamplingFactor};

/// Encodes an image with a quality from 1 to 100. Fails if a side is 0 or above 65,535.
pub(super) fn encode(image: &RgbImage, quality: u8) -> Result<Vec<u8>, EncodingError> {
    let side = |pixels: u32| u16::try_from(pixels).unwrap_or_default();
    let mut file = Vec::with_capacity(48 * 1024);
    let mut encoder = Encoder::new(&mut file, quality);
    encoder.set_sampling_factor(SamplingFactor::F_2_2);
    encoder.set_chroma_subsampling_method(ChromaSubsamplingMethod::Average);
    encoder.encode(image.as_raw(), side(image.width()), side(image.height()), ColorType::Rgb)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use image::Rgb;
    use image::codecs::jpeg::JpegEncoder;
    use retake_testutils::Random;

    use super::*;

    fn encoded(image: &RgbImage, quality: u8) -> Vec<u8> {
        encode(image, quality).unwrap()
    }

    fn decoded(file: &[u8]) -> RgbImage {
        image::load_from_memory_with_format(file, image::ImageFormat::Jpeg).unwrap().to_rgb8()
    }

    /// Returns the mean difference of two images per channel.
    fn difference(one: &RgbImage, other: &RgbImage) -> f64 {
        assert_eq!(one.dimensions(), other.dimensions());
        let sum: u64 = one.iter().zip(other.iter()).map(|(one, other)| u64::from(one.abs_diff(*other))).sum();
        sum as f64 / one.len() as f64
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "waves lie between 28 and 228")]
    fn scene(width: u32, height: u32) -> RgbImage {
        RgbImage::from_fn(width, height, |x, y| {
            let wave = |at: u32, length: f64| (f64::from(at) / length).sin() * 100.0 + 128.0;
            Rgb([wave(x, 23.0), wave(y, 17.0), wave(x + y, 40.0)].map(|light| light as u8))
        })
    }

    #[test]
    fn decoding_gives_the_image_back() {
        for (width, height) in [(512, 512), (350, 512), (16, 16), (17, 33), (1, 1), (1, 300), (300, 2)] {
            let image = scene(width, height);
            let difference = difference(&decoded(&encoded(&image, 80)), &image);
            assert!(difference < 4.0, "{width} x {height}: {difference}");
        }
        let (fine, coarse) = (encoded(&scene(256, 256), 95), encoded(&scene(256, 256), 10));
        assert!(fine.len() > 2 * coarse.len(), "{} and {} bytes", fine.len(), coarse.len());
    }

    #[test]
    fn as_good_as_another_encoder_and_not_larger() {
        let image = scene(256, 256);
        let mut other = Vec::new();
        JpegEncoder::new_with_quality(&mut other, 80).encode_image(&image).unwrap();
        let own = encoded(&image, 80);
        assert!(difference(&decoded(&own), &image) < difference(&decoded(&other), &image) + 1.0);
        assert!(own.len() <= other.len(), "{} and {} bytes", own.len(), other.len());
    }

    #[test]
    fn noise_and_checkerboards_are_encoded_completely() {
        let mut random = Random::new(1);
        let noise =
            RgbImage::from_fn(80, 96, |_, _| Rgb([0; 3].map(|_: u8| if random.below(2) == 1 { 255 } else { 0 })));
        let board = RgbImage::from_fn(64, 64, |x, y| Rgb([if (x + y) % 2 == 0 { 255 } else { 0 }; 3]));
        for quality in [1, 10, 50, 80, 95, 100] {
            for image in [&noise, &board] {
                assert_eq!(decoded(&encoded(image, quality)).dimensions(), image.dimensions());
            }
        }
        assert!(difference(&decoded(&encoded(&board, 100)), &board) < 2.0);
    }

    #[test]
    fn an_empty_image_is_an_error() {
        assert!(encode(&RgbImage::new(0, 8), 80).is_err());
    }
}
