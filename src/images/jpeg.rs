//! JPEG files of thumbnails: baseline, with colours at half the resolution, and the tables that the standard gives as
//! examples, as nearly every encoder writes them.
//!
//! Thumbnails are the only thing that is written as JPEG by the thousand, and writing them was most of what taking in a
//! picture cost: `image`'s own encoder keeps colours at full resolution and takes almost four times as long. Files and quality
//! are those of libjpeg, to within a few bytes.
#![expect(
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "tables of 8 to 256 places with indexes of as many bits, and bits that are cut off on purpose"
)]

use std::borrow::Cow;

use image::RgbImage;

/// The picture as a JPEG file; the quality is from 1 to 100, as everybody counts it. Sides are those of thumbnails.
pub(super) fn encoded(picture: &RgbImage, quality: u8) -> Vec<u8> {
    let tables = [BRIGHTNESS, COLOUR].map(|table| quantizers(&table, quality));
    let mut bits = Bits { file: Vec::with_capacity(48 * 1024), held: 0, count: 0 };
    begin(&mut bits.file, picture.dimensions(), &tables);
    let [fine, coarse] = tables.map(|table| reciprocals(&table));
    let mut codes = Codes::new();
    let padded = padded(picture);
    let row = padded.width() as usize * 3;
    let mut strip = Strip::new(padded.width() as usize);
    for rows in padded.as_raw().chunks_exact(row * UNIT) {
        strip.fill(rows);
        strip.each_block(|kind, block| {
            let steps = if kind == 0 { &fine } else { &coarse };
            codes.write(kind, &frequencies(block, steps), &mut bits);
        });
    }
    bits.end()
}

/// How many pixels wide and high a round of blocks is: four of brightness, and one of each colour.
const UNIT: usize = 16;

/// A block of 8 × 8 values, row by row.
type Block = [Lanes; 8];

/// Eight values that are worked on together.
#[derive(Clone, Copy, Default)]
struct Lanes([f32; 8]);

impl std::ops::Add for Lanes {
    type Output = Lanes;
    fn add(mut self, other: Lanes) -> Lanes {
        self.0.iter_mut().zip(other.0).for_each(|(to, other)| *to += other);
        self
    }
}

impl std::ops::Sub for Lanes {
    type Output = Lanes;
    fn sub(mut self, other: Lanes) -> Lanes {
        self.0.iter_mut().zip(other.0).for_each(|(to, other)| *to -= other);
        self
    }
}

impl std::ops::Mul<f32> for Lanes {
    type Output = Lanes;
    fn mul(mut self, by: f32) -> Lanes {
        self.0.iter_mut().for_each(|to| *to *= by);
        self
    }
}

/// As many rows as one round of blocks takes: brightness in full, and both colours at half the resolution, around zero.
/// No more of a picture at a time, so that it stays in the cache.
struct Strip {
    brightness: Vec<f32>,
    blues: Vec<f32>,
    reds: Vec<f32>,
    /// Of the brightness, in values.
    width: usize,
}

impl Strip {
    fn new(width: usize) -> Strip {
        let colour = vec![0.0; width * UNIT / 4];
        Strip { brightness: vec![0.0; width * UNIT], blues: colour.clone(), reds: colour, width }
    }

    fn fill(&mut self, rows: &[u8]) {
        let width = self.width;
        let colours = self.blues.chunks_exact_mut(width / 2).zip(self.reds.chunks_exact_mut(width / 2));
        let pairs = rows.chunks_exact(width * 6).zip(self.brightness.chunks_exact_mut(width * 2));
        for ((rows, brightness), (blues, reds)) in pairs.zip(colours) {
            let (upper, lower) = rows.split_at(width * 3);
            let (to_upper, to_lower) = brightness.split_at_mut(width);
            let pixels = upper.as_chunks::<6>().0.iter().zip(lower.as_chunks::<6>().0);
            let to = to_upper.as_chunks_mut::<2>().0.iter_mut().zip(to_lower.as_chunks_mut::<2>().0);
            for (((upper, lower), (to_upper, to_lower)), (blue, red)) in pixels.zip(to).zip(blues.iter_mut().zip(reds))
            {
                let [a, b, c, d, e, f] = upper.map(f32::from);
                let [g, h, i, j, k, l] = lower.map(f32::from);
                *to_upper = [bright(a, b, c), bright(d, e, f)];
                *to_lower = [bright(g, h, i), bright(j, k, l)];
                let light = (to_upper[0] + to_upper[1] + to_lower[0] + to_lower[1]) * 0.25 + 128.0;
                *blue = ((c + f + i + l) * 0.25 - light) * 0.564_334_1;
                *red = ((a + d + g + j) * 0.25 - light) * 0.713_266_8;
            }
        }
    }

    /// Shows every block in the order of the file.
    fn each_block(&self, mut show: impl FnMut(usize, &Block)) {
        let half = self.width / 2;
        for left in (0..half).step_by(8) {
            for top in [0, 8] {
                show(0, &block(&self.brightness, self.width, top, left * 2));
                show(0, &block(&self.brightness, self.width, top, left * 2 + 8));
            }
            show(1, &block(&self.blues, half, 0, left));
            show(2, &block(&self.reds, half, 0, left));
        }
    }
}

/// How bright a colour is, around zero.
fn bright(red: f32, green: f32, blue: f32) -> f32 {
    red * 0.299 + green * 0.587 + blue * 0.114 - 128.0
}

/// The picture with its last column and row repeated, so that both sides are whole units.
fn padded(picture: &RgbImage) -> Cow<'_, RgbImage> {
    let (width, height) = picture.dimensions();
    let unit = UNIT as u32;
    let to = (width.next_multiple_of(unit), height.next_multiple_of(unit));
    if to == (width, height) {
        return Cow::Borrowed(picture);
    }
    Cow::Owned(RgbImage::from_fn(to.0, to.1, |x, y| *picture.get_pixel(x.min(width - 1), y.min(height - 1))))
}

fn block(plane: &[f32], width: usize, top: usize, left: usize) -> Block {
    let mut block = Block::default();
    for (row, values) in block.iter_mut().zip(plane.chunks_exact(width).skip(top)) {
        if let Some(values) = values.get(left..left + 8) {
            row.0.copy_from_slice(values);
        }
    }
    block
}

/// What is left of the frequencies in a block, in the order of the file, and which of them are not zero.
struct Frequencies {
    values: [i32; 64],
    present: u64,
}

fn frequencies(block: &Block, steps: &Block) -> Frequencies {
    let across = transposed(cosine(*block));
    let both = cosine(across);
    let mut rounded = [0_i32; 64];
    let (rows, _) = rounded.as_chunks_mut::<8>();
    for ((to, values), steps) in rows.iter_mut().zip(both).zip(steps) {
        for ((to, value), step) in to.iter_mut().zip(values.0).zip(steps.0) {
            // Adding this leaves the nearest whole number in the last bits; rounding itself is a call on most targets.
            let shifted = (value * step).clamp(-1023.0, 1023.0) + 12_582_912.0;
            *to = shifted.to_bits().wrapping_sub(0x4b40_0000) as i32;
        }
    }
    let mut found = Frequencies { values: [0; 64], present: 0 };
    for (number, (to, place)) in found.values.iter_mut().zip(ORDER).enumerate() {
        *to = rounded[place as usize & 63];
        found.present |= u64::from(*to != 0) << number;
    }
    found
}

/// The discrete cosine transform of all columns, by Arai, Agui and Nakajima; its factors are in the steps.
fn cosine(rows: Block) -> Block {
    let [a, b, c, d, e, f, g, h] = rows;
    let (sum_ah, sum_bg, sum_cf, sum_de) = (a + h, b + g, c + f, d + e);
    let (diff_ah, diff_bg, diff_cf, diff_de) = (a - h, b - g, c - f, d - e);

    let (outer, inner) = (sum_ah + sum_de, sum_bg + sum_cf);
    let edge = sum_ah - sum_de;
    let turned = (sum_bg - sum_cf + edge) * 0.707_106_77;

    let (first, middle, last) = (diff_de + diff_cf, diff_cf + diff_bg, diff_bg + diff_ah);
    let shared = (first - last) * 0.382_683_43;
    let low = first * 0.541_196_1 + shared;
    let high = last * 1.306_563 + shared;
    let half = middle * 0.707_106_77;
    let (plus, minus) = (diff_ah + half, diff_ah - half);

    [outer + inner, plus + high, edge + turned, minus - low, outer - inner, minus + low, edge - turned, plus - high]
}

fn transposed(rows: Block) -> Block {
    std::array::from_fn(|row| Lanes(std::array::from_fn(|column| rows[column].0[row])))
}

/// How the frequencies of a table are made whole numbers, with what the transform leaves undone.
fn reciprocals(table: &[u8; 64]) -> Block {
    const FACTORS: [f32; 8] = [1.0, 1.387_039_8, 1.306_563, 1.175_875_6, 1.0, 0.785_694_96, 0.541_196_1, 0.275_899_38];
    // Columns are rows here, as the transform leaves them.
    std::array::from_fn(|column| {
        Lanes(std::array::from_fn(|row| {
            1.0 / (f32::from(table[row * 8 + column]) * FACTORS[row] * FACTORS[column] * 8.0)
        }))
    })
}

/// A table for a quality.
fn quantizers(table: &[u8; 64], quality: u8) -> [u8; 64] {
    let quality = u32::from(quality.clamp(1, 100));
    let scale = if quality < 50 { 5000 / quality } else { 200 - 2 * quality };
    table.map(|value| u8::try_from(((u32::from(value) * scale + 50) / 100).clamp(1, 255)).unwrap_or(u8::MAX))
}

/// The codes of all tables, and what the next block of each kind goes on from.
struct Codes {
    first: [[(u32, u32); 16]; 2],
    others: [[(u32, u32); 256]; 2],
    last: [i32; 3],
}

impl Codes {
    fn new() -> Codes {
        let first = [FIRST_BRIGHTNESS, FIRST_COLOUR].map(|(counts, values)| codes::<16>(counts, values));
        let others = [OTHER_BRIGHTNESS, OTHER_COLOUR].map(|(counts, values)| codes::<256>(counts, values));
        Codes { first, others, last: [0; 3] }
    }

    fn write(&mut self, kind: usize, found: &Frequencies, bits: &mut Bits) {
        let table = kind.min(1);
        let change = found.values[0] - self.last[kind];
        self.last[kind] = found.values[0];
        let (size, value) = sized(change);
        bits.push(self.first[table][size as usize & 15]);
        bits.push((value, size));

        let others = &self.others[table];
        let mut left = found.present & !1;
        let mut before = 0;
        while left != 0 {
            let at = left.trailing_zeros();
            left &= left - 1;
            let mut zeros = at - before - 1;
            before = at;
            while zeros > 15 {
                bits.push(others[0xf0]);
                zeros -= 16;
            }
            let (size, value) = sized(found.values[at as usize & 63]);
            let (code, length) = others[(zeros << 4 | size) as usize & 255];
            bits.push((code << size | value, length + size));
        }
        if before < 63 {
            bits.push(others[0]);
        }
    }
}

/// How many bits a number takes, and which: those of a negative one are those of the positive one turned over.
fn sized(number: i32) -> (u32, u32) {
    let size = 32 - number.unsigned_abs().leading_zeros();
    let bits = if number < 0 { number - 1 } else { number };
    (size, bits as u32 & ((1 << size) - 1))
}

/// The codes of a table, with their lengths, by value.
fn codes<const N: usize>(counts: [u8; 16], values: &[u8]) -> [(u32, u32); N] {
    let mut codes = [(0, 0); N];
    let (mut code, mut values) = (0, values.iter());
    for (length, count) in (1..).zip(counts) {
        for value in values.by_ref().take(usize::from(count)) {
            if let Some(place) = codes.get_mut(usize::from(*value)) {
                *place = (code, length);
            }
            code += 1;
        }
        code <<= 1;
    }
    codes
}

/// Bits on their way into the file.
struct Bits {
    file: Vec<u8>,
    held: u64,
    count: u32,
}

impl Bits {
    /// At most 32 of them.
    #[inline]
    fn push(&mut self, (bits, length): (u32, u32)) {
        self.held = self.held << length | u64::from(bits);
        self.count += length;
        if self.count >= 32 {
            self.count -= 32;
            let whole = (self.held >> self.count) as u32;
            // A byte of ones is followed by one of zeros, so that it is not taken for a mark.
            if whole & 0x8080_8080 & (!whole).wrapping_sub(0x0101_0101) == 0 {
                self.file.extend_from_slice(&whole.to_be_bytes());
            } else {
                for byte in whole.to_be_bytes() {
                    self.file.push(byte);
                    if byte == 0xff {
                        self.file.push(0);
                    }
                }
            }
        }
    }

    fn end(mut self) -> Vec<u8> {
        // What is left is filled with ones.
        let missing = (8 - self.count % 8) % 8;
        self.push(((1 << missing) - 1, missing));
        while self.count >= 8 {
            self.count -= 8;
            let byte = (self.held >> self.count) as u8;
            self.file.push(byte);
            if byte == 0xff {
                self.file.push(0);
            }
        }
        self.file.extend_from_slice(b"\xff\xd9");
        self.file
    }
}

fn begin(file: &mut Vec<u8>, (width, height): (u32, u32), tables: &[[u8; 64]; 2]) {
    file.extend_from_slice(b"\xff\xd8\xff\xe0\0\x10JFIF\0\x01\x01\0\0\x01\0\x01\0\0");
    for (number, table) in (0..).zip(tables) {
        file.extend_from_slice(&[0xff, 0xdb, 0, 67, number]);
        // The order of the file goes through columns where ours goes through rows.
        file.extend(ORDER.iter().map(|place| table[((place & 7) << 3 | place >> 3) as usize & 63]));
    }
    file.extend_from_slice(b"\xff\xc0\0\x11\x08");
    for side in [height, width] {
        file.extend_from_slice(&u16::try_from(side).unwrap_or(u16::MAX).to_be_bytes());
    }
    file.extend_from_slice(b"\x03\x01\x22\0\x02\x11\x01\x03\x11\x01");
    let all = [(0x00, FIRST_BRIGHTNESS), (0x10, OTHER_BRIGHTNESS), (0x01, FIRST_COLOUR), (0x11, OTHER_COLOUR)];
    for (name, (counts, values)) in all {
        file.extend_from_slice(b"\xff\xc4");
        file.extend_from_slice(&(19 + values.len() as u16).to_be_bytes());
        file.push(name);
        file.extend_from_slice(&counts);
        file.extend_from_slice(values);
    }
    file.extend_from_slice(b"\xff\xda\0\x0c\x03\x01\0\x02\x11\x03\x11\0\x3f\0");
}

/// The order of frequencies in the file, as places in a transposed block: along diagonals, there and back.
const ORDER: [u8; 64] = {
    let mut order = [0; 64];
    let (mut number, mut diagonal) = (0, 0_u8);
    while diagonal < 15 {
        let least = diagonal.saturating_sub(7);
        let mut at = least;
        while at <= diagonal - least {
            let (row, column) = if diagonal % 2 == 0 { (diagonal - at, at) } else { (at, diagonal - at) };
            order[number] = column * 8 + row;
            number += 1;
            at += 1;
        }
        diagonal += 1;
    }
    order
};

/// How coarse brightness may be, at quality 50.
const BRIGHTNESS: [u8; 64] = [
    16, 11, 10, 16, 24, 40, 51, 61, 12, 12, 14, 19, 26, 58, 60, 55, 14, 13, 16, 24, 40, 57, 69, 56, 14, 17, 22, 29, 51,
    87, 80, 62, 18, 22, 37, 56, 68, 109, 103, 77, 24, 35, 55, 64, 81, 104, 113, 92, 49, 64, 78, 87, 103, 121, 120, 101,
    72, 92, 95, 98, 112, 100, 103, 99,
];
/// How coarse colours may be, at quality 50.
const COLOUR: [u8; 64] = [
    17, 18, 24, 47, 99, 99, 99, 99, 18, 21, 26, 66, 99, 99, 99, 99, 24, 26, 56, 99, 99, 99, 99, 99, 47, 66, 99, 99, 99,
    99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99,
    99, 99, 99, 99, 99, 99,
];

/// How many codes there are of each length, and what they stand for.
type CodeTable = ([u8; 16], &'static [u8]);

const FIRST_BRIGHTNESS: CodeTable =
    ([0, 1, 5, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0], &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
const FIRST_COLOUR: CodeTable =
    ([0, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0], &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
const OTHER_BRIGHTNESS: CodeTable = (
    [0, 2, 1, 3, 3, 2, 4, 3, 5, 5, 4, 4, 0, 0, 1, 0x7d],
    b"\x01\x02\x03\x00\x04\x11\x05\x12\x21\x31\x41\x06\x13\x51\x61\x07\x22\x71\x14\x32\x81\x91\xa1\x08\x23\x42\xb1\xc1\x15\x52\xd1\xf0\
      \x24\x33\x62\x72\x82\x09\x0a\x16\x17\x18\x19\x1a\x25\x26\x27\x28\x29\x2a\x34\x35\x36\x37\x38\x39\x3a\x43\x44\x45\x46\x47\x48\x49\
      \x4a\x53\x54\x55\x56\x57\x58\x59\x5a\x63\x64\x65\x66\x67\x68\x69\x6a\x73\x74\x75\x76\x77\x78\x79\x7a\x83\x84\x85\x86\x87\x88\x89\
      \x8a\x92\x93\x94\x95\x96\x97\x98\x99\x9a\xa2\xa3\xa4\xa5\xa6\xa7\xa8\xa9\xaa\xb2\xb3\xb4\xb5\xb6\xb7\xb8\xb9\xba\xc2\xc3\xc4\xc5\
      \xc6\xc7\xc8\xc9\xca\xd2\xd3\xd4\xd5\xd6\xd7\xd8\xd9\xda\xe1\xe2\xe3\xe4\xe5\xe6\xe7\xe8\xe9\xea\xf1\xf2\xf3\xf4\xf5\xf6\xf7\xf8\
      \xf9\xfa",
);
const OTHER_COLOUR: CodeTable = (
    [0, 2, 1, 2, 4, 4, 3, 4, 7, 5, 4, 4, 0, 1, 2, 0x77],
    b"\x00\x01\x02\x03\x11\x04\x05\x21\x31\x06\x12\x41\x51\x07\x61\x71\x13\x22\x32\x81\x08\x14\x42\x91\xa1\xb1\xc1\x09\x23\x33\x52\xf0\
      \x15\x62\x72\xd1\x0a\x16\x24\x34\xe1\x25\xf1\x17\x18\x19\x1a\x26\x27\x28\x29\x2a\x35\x36\x37\x38\x39\x3a\x43\x44\x45\x46\x47\x48\
      \x49\x4a\x53\x54\x55\x56\x57\x58\x59\x5a\x63\x64\x65\x66\x67\x68\x69\x6a\x73\x74\x75\x76\x77\x78\x79\x7a\x82\x83\x84\x85\x86\x87\
      \x88\x89\x8a\x92\x93\x94\x95\x96\x97\x98\x99\x9a\xa2\xa3\xa4\xa5\xa6\xa7\xa8\xa9\xaa\xb2\xb3\xb4\xb5\xb6\xb7\xb8\xb9\xba\xc2\xc3\
      \xc4\xc5\xc6\xc7\xc8\xc9\xca\xd2\xd3\xd4\xd5\xd6\xd7\xd8\xd9\xda\xe2\xe3\xe4\xe5\xe6\xe7\xe8\xe9\xea\xf2\xf3\xf4\xf5\xf6\xf7\xf8\
      \xf9\xfa",
);

#[cfg(test)]
mod tests {
    use image::Rgb;
    use image::codecs::jpeg::JpegEncoder;

    use super::*;

    fn decoded(file: &[u8]) -> RgbImage {
        image::load_from_memory_with_format(file, image::ImageFormat::Jpeg).unwrap().to_rgb8()
    }

    /// How far two pictures are apart in a channel, on average.
    fn apart(one: &RgbImage, other: &RgbImage) -> f64 {
        assert_eq!(one.dimensions(), other.dimensions());
        let sum: u64 = one.iter().zip(other.iter()).map(|(one, other)| u64::from(one.abs_diff(*other))).sum();
        sum as f64 / one.len() as f64
    }

    fn scene(width: u32, height: u32) -> RgbImage {
        RgbImage::from_fn(width, height, |x, y| {
            let wave = |at: u32, length: f64| (f64::from(at) / length).sin() * 100.0 + 128.0;
            Rgb([wave(x, 23.0), wave(y, 17.0), wave(x + y, 40.0)].map(|light| light as u8))
        })
    }

    #[test]
    fn what_is_written_is_what_was_seen() {
        for (width, height) in [(512, 512), (350, 512), (16, 16), (17, 33), (1, 1), (1, 300), (300, 2)] {
            let picture = scene(width, height);
            let apart = apart(&decoded(&encoded(&picture, 80)), &picture);
            assert!(apart < 4.0, "{width} x {height}: {apart}");
        }
        let (fine, coarse) = (encoded(&scene(256, 256), 95), encoded(&scene(256, 256), 10));
        assert!(fine.len() > 2 * coarse.len(), "{} and {} bytes", fine.len(), coarse.len());
    }

    #[test]
    fn it_is_as_good_as_another_encoder_and_no_larger() {
        let picture = scene(256, 256);
        let mut other = Vec::new();
        JpegEncoder::new_with_quality(&mut other, 80).encode_image(&picture).unwrap();
        let own = encoded(&picture, 80);
        assert!(apart(&decoded(&own), &picture) < apart(&decoded(&other), &picture) + 1.0);
        assert!(own.len() <= other.len(), "{} and {} bytes", own.len(), other.len());
    }

    #[test]
    fn the_hardest_pictures_are_written_whole() {
        let mut state = 1_u32;
        let noise = RgbImage::from_fn(80, 96, |_, _| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            Rgb([24, 16, 8].map(|bit| if state >> bit & 1 == 1 { 255 } else { 0 }))
        });
        let board = RgbImage::from_fn(64, 64, |x, y| Rgb([if (x + y) % 2 == 0 { 255 } else { 0 }; 3]));
        for quality in [1, 10, 50, 80, 95, 100] {
            for picture in [&noise, &board] {
                assert_eq!(decoded(&encoded(picture, quality)).dimensions(), picture.dimensions());
            }
        }
        assert!(apart(&decoded(&encoded(&board, 100)), &board) < 2.0);
    }
}
