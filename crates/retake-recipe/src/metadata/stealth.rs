//! Texts hidden in the least significant bits of alpha, or of red, green and blue, column by column. NovelAI writes its
//! keywords this way, and an A1111 extension its text. Finding them requires decoding the image, so only images with
//! alpha in which nothing else was recognised are searched.

use std::io::Read;

use super::container::{MAX_TEXT, Slot, Texts};
use flate2::read::GzDecoder;

/// The pixels of an image: four bytes each (red, green, blue, alpha), row by row.
#[derive(Clone, Copy, Debug)]
pub struct Pixels<'a> {
    /// The width in pixels.
    pub width: u32,
    /// The bytes: `width` × height × 4.
    pub rgba: &'a [u8],
}

/// The markers at the start of a hidden text: the name, whether it is in the colours, and whether it is compressed.
const MARKS: [(&str, bool, bool); 4] = [
    ("stealth_pnginfo", false, false),
    ("stealth_pngcomp", false, true),
    ("stealth_rgbinfo", true, false),
    ("stealth_rgbcomp", true, true),
];
/// The length of every marker.
const MARK_BYTES: usize = 15;

/// Adds the text hidden in these pixels, if there is one.
pub(super) fn search(pixels: Pixels<'_>, texts: &mut Texts) {
    for (mark, colours, packed) in MARKS {
        let mut bits = PixelBits { pixels, at: 0, colours };
        if bits.bytes(MARK_BYTES) != Some(mark.as_bytes().to_vec()) {
            continue;
        }
        let slot = Slot::Pixels(if colours { "lowest bits of the colours" } else { "lowest bits of alpha" });
        match hidden(&mut bits, packed) {
            Some(text) => texts.add(slot, 0, mark, text),
            None => texts.note(format!("{slot}: {mark} cannot be decoded")),
        }
        return;
    }
}

fn hidden(bits: &mut PixelBits<'_>, packed: bool) -> Option<String> {
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

/// The least significant bits, column by column from the left.
struct PixelBits<'a> {
    pixels: Pixels<'a>,
    at: usize,
    colours: bool,
}

impl PixelBits<'_> {
    /// Returns the number of bits left.
    fn left(&self) -> usize {
        let channels = if self.colours { 3 } else { 1 };
        (self.pixels.rgba.len() / 4 * channels).saturating_sub(self.at)
    }

    fn bytes(&mut self, count: usize) -> Option<Vec<u8>> {
        (0..count).map(|_| (0..8).try_fold(0, |byte, _| Some(byte << 1 | self.next()?))).collect()
    }

    fn next(&mut self) -> Option<u8> {
        let (pixel, channel) = if self.colours { (self.at / 3, self.at % 3) } else { (self.at, 3) };
        self.at += 1;
        let width = usize::try_from(self.pixels.width).ok().filter(|width| *width > 0)?;
        let height = self.pixels.rgba.len() / 4 / width;
        let (x, y) = (pixel.checked_div(height)?, pixel.checked_rem(height)?);
        if x >= width {
            return None;
        }
        self.pixels.rgba.get((y * width + x) * 4 + channel).map(|value| value & 1)
    }
}
