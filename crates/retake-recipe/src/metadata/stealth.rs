//! Texts hidden in the pixels: the lowest bit of alpha, or of red, green and blue, column by column. NovelAI writes its
//! keywords so, and an extension of A1111 its text. It takes a whole decode, so only pictures with alpha that say
//! nothing else are looked at.

use std::io::Read;

use flate2::read::GzDecoder;
use image::RgbaImage;

use super::container::{MAX_TEXT, Slot, Texts};

/// What the hidden text begins with: its name, whether it is in the colours, and whether it is packed.
const MARKS: [(&str, bool, bool); 4] = [
    ("stealth_pnginfo", false, false),
    ("stealth_pngcomp", false, true),
    ("stealth_rgbinfo", true, false),
    ("stealth_rgbcomp", true, true),
];
/// All marks are this long.
const MARK_BYTES: usize = 15;

/// Adds the text that is hidden in these pixels, if there is one.
pub(super) fn look(pixels: &RgbaImage, texts: &mut Texts) {
    for (mark, colours, packed) in MARKS {
        let mut bits = Bits { pixels, at: 0, colours };
        if bits.bytes(MARK_BYTES) != Some(mark.as_bytes().to_vec()) {
            continue;
        }
        let slot = Slot::Pixels(if colours { "lowest bits of the colours" } else { "lowest bits of alpha" });
        match hidden(&mut bits, packed) {
            Some(text) => texts.add(slot, 0, mark, text),
            None => texts.note(format!("{slot}: {mark} that cannot be read")),
        }
        return;
    }
}

fn hidden(bits: &mut Bits<'_>, packed: bool) -> Option<String> {
    let length = bits.bytes(4)?.try_into().ok().map(u32::from_be_bytes)?;
    let length = usize::try_from(length / 8).ok().filter(|length| *length <= bits.left() / 8)?;
    let bytes = bits.bytes(length)?;
    if !packed {
        return String::from_utf8(bytes).ok();
    }
    let mut unpacked = Vec::new();
    GzDecoder::new(bytes.as_slice()).take(MAX_TEXT + 1).read_to_end(&mut unpacked).ok()?;
    let fits = u64::try_from(unpacked.len()).is_ok_and(|size| size <= MAX_TEXT);
    fits.then(|| String::from_utf8(unpacked).ok()).flatten()
}

/// The lowest bits, down the columns from the left.
struct Bits<'a> {
    pixels: &'a RgbaImage,
    at: usize,
    colours: bool,
}

impl Bits<'_> {
    /// How many bits there still are.
    fn left(&self) -> usize {
        let channels = if self.colours { 3 } else { 1 };
        (self.pixels.as_raw().len() / 4 * channels).saturating_sub(self.at)
    }

    fn bytes(&mut self, count: usize) -> Option<Vec<u8>> {
        (0..count).map(|_| (0..8).try_fold(0, |byte, _| Some(byte << 1 | self.next()?))).collect()
    }

    fn next(&mut self) -> Option<u8> {
        let (pixel, channel) = if self.colours { (self.at / 3, self.at % 3) } else { (self.at, 3) };
        self.at += 1;
        let (width, height) = (usize::try_from(self.pixels.width()).ok()?, usize::try_from(self.pixels.height()).ok()?);
        let (x, y) = (pixel / height, pixel % height);
        if x >= width {
            return None;
        }
        self.pixels.as_raw().get((y * width + x) * 4 + channel).map(|value| value & 1)
    }
}
