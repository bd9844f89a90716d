//! Images as text that a terminal draws: one function per protocol.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::io::Cursor;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use color_quant::NeuQuant;
use image::imageops::{self, FilterType};
use image::{ImageFormat, ImageResult, Rgb, RgbImage, RgbaImage};

/// The number of base64 bytes in one escape sequence of the kitty protocol, which allows no more.
const KITTY_CHUNK: usize = 4096;
/// The number of colours of a sixel image: terminals support at least this many.
const SIXEL_COLOURS: usize = 256;
/// The quality at which colours are chosen, from 1 (best) to 30 (fastest).
const QUANTISATION: i32 = 10;
/// The number of rows of pixels in one line of sixels.
const SIXEL_ROWS: u32 = 6;
/// The levels of red, green and blue in the colour cube of terminals with 256 colours.
const CUBE: [u8; 6] = [0, 95, 135, 175, 215, 255];
/// The palette index of the first grey, and the number of greys. They are 10 apart and begin at 8.
const FIRST_GREY: u8 = 232;
const GREYS: u8 = 24;

/// Draws by the kitty protocol. The pixels are sent inline, as PNG, so that it works across connections; the terminal
/// chooses the height that keeps the proportions, and does not answer.
pub(super) fn kitty(picture: &RgbImage, columns: u32) -> ImageResult<String> {
    let encoded = STANDARD.encode(png(picture)?);
    let mut chunks = encoded.as_bytes().chunks(KITTY_CHUNK).map(String::from_utf8_lossy).peekable();
    let mut text = String::with_capacity(encoded.len() + encoded.len() / 200);
    let mut control = format!("a=T,f=100,q=2,c={columns},");
    while let Some(chunk) = chunks.next() {
        let more = u8::from(chunks.peek().is_some());
        text += &format!("\x1b_G{control}m={more};{chunk}\x1b\\");
        control.clear();
    }
    Ok(text + "\n")
}

/// Draws by the protocol of iTerm2.
pub(super) fn iterm(picture: &RgbImage, columns: u32) -> ImageResult<String> {
    let png = png(picture)?;
    let (size, encoded) = (png.len(), STANDARD.encode(png));
    Ok(format!("\x1b]1337;File=inline=1;size={size};width={columns};preserveAspectRatio=1:{encoded}\x07\n"))
}

/// Draws as sixels of that width in pixels.
pub(super) fn sixels(picture: &RgbImage, width: u32) -> String {
    let picture = resized(picture, width);
    let (width, height) = picture.dimensions();
    let rgba = RgbaImage::from_fn(width, height, |x, y| {
        let Rgb([red, green, blue]) = *picture.get_pixel(x, y);
        image::Rgba([red, green, blue, u8::MAX])
    });
    let palette = NeuQuant::new(QUANTISATION, SIXEL_COLOURS, rgba.as_raw());
    let indexes: Vec<usize> = rgba.pixels().map(|pixel| palette.index_of(&pixel.0)).collect();

    let mut text = format!("\x1bP0;1;0q\"1;1;{width};{height}");
    for (index, colour) in palette.color_map_rgb().chunks_exact(3).enumerate() {
        let percent = |channel: usize| (u32::from(colour.get(channel).copied().unwrap_or_default()) * 100 + 127) / 255;
        let _ = write!(text, "#{index};2;{};{};{}", percent(0), percent(1), percent(2));
    }
    let width = width as usize;
    for band in indexes.chunks(width * SIXEL_ROWS as usize) {
        draw_band(&mut text, band, width);
        text.push('-');
    }
    text + "\x1b\\\n"
}

/// Draws six rows of pixels: for every colour in them, the whole line with the pixels that have it.
fn draw_band(text: &mut String, band: &[usize], width: usize) {
    let colours: BTreeSet<usize> = band.iter().copied().collect();
    for colour in colours {
        let _ = write!(text, "#{colour}");
        let columns = (0..width).map(|x| {
            let rows = band.iter().skip(x).step_by(width).enumerate();
            rows.fold(0_u8, |bits, (row, index)| if *index == colour { bits | 1 << row } else { bits })
        });
        push_runs(text, columns);
        // Back to the start of the line, for the next colour.
        text.push('$');
    }
}

/// Writes columns of six pixels each, equal neighbours as one run.
fn push_runs(text: &mut String, columns: impl Iterator<Item = u8>) {
    let mut columns = columns.peekable();
    while let Some(bits) = columns.next() {
        let mut run = 1;
        while columns.next_if_eq(&bits).is_some() {
            run += 1;
        }
        let sixel = char::from(b'?' + bits);
        if run > 3 {
            let _ = write!(text, "!{run}{sixel}");
        } else {
            text.extend(std::iter::repeat_n(sixel, run));
        }
    }
}

/// Draws two pixels per character: the upper one as its background, the lower one as half a block.
pub(super) fn half_blocks(picture: &RgbImage, columns: u32, has_true_colour: bool) -> String {
    let mut picture = resized(picture, columns);
    if picture.height() % 2 == 1 {
        picture = imageops::resize(&picture, picture.width(), picture.height() + 1, FilterType::Triangle);
    }
    let colour = |Rgb([red, green, blue]): &Rgb<u8>| {
        if has_true_colour {
            format!("2;{red};{green};{blue}")
        } else {
            format!("5;{}", palette_index(*red, *green, *blue))
        }
    };
    let mut text = String::new();
    for y in (0..picture.height()).step_by(2) {
        for x in 0..picture.width() {
            let (upper, lower) = (colour(picture.get_pixel(x, y)), colour(picture.get_pixel(x, y + 1)));
            let _ = write!(text, "\x1b[48;{upper}m\x1b[38;{lower}m▄");
        }
        text += "\x1b[0m\n";
    }
    text
}

/// Returns the nearest colour of the 240 that are the same in all terminals with 256 colours.
fn palette_index(red: u8, green: u8, blue: u8) -> u8 {
    let distance = |[r, g, b]: [u8; 3]| {
        let square = |one: u8, other: u8| u32::from(one.abs_diff(other)).pow(2);
        square(r, red) + square(g, green) + square(b, blue)
    };
    let nearest = |channel: u8| (0_u8..).zip(CUBE).min_by_key(|(_, level)| level.abs_diff(channel)).unwrap_or_default();
    let [(r, red_level), (g, green_level), (b, blue_level)] = [nearest(red), nearest(green), nearest(blue)];
    let in_cube = [red_level, green_level, blue_level];
    let grey = (0..GREYS).min_by_key(|grey| distance([8 + 10 * grey; 3])).unwrap_or_default();
    if distance([8 + 10 * grey; 3]) < distance(in_cube) { FIRST_GREY + grey } else { 16 + 36 * r + 6 * g + b }
}

/// Scales to a width and keeps the proportions.
fn resized(picture: &RgbImage, width: u32) -> RgbImage {
    let width = width.max(1);
    let height = f64::from(picture.height()) * f64::from(width) / f64::from(picture.width().max(1));
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most a few thousand")]
    let height = (height.round() as u32).max(1);
    imageops::resize(picture, width, height, FilterType::Triangle)
}

fn png(picture: &RgbImage) -> ImageResult<Vec<u8>> {
    let mut bytes = Cursor::new(Vec::new());
    picture.write_to(&mut bytes, ImageFormat::Png)?;
    Ok(bytes.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_counted_from_four_on() {
        let mut text = String::new();
        push_runs(&mut text, [0, 0, 0, 63, 63, 63, 63, 1].into_iter());
        assert_eq!(text, "???!4~@");
    }

    #[test]
    fn colours_map_to_the_nearest_of_the_palette() {
        for ((red, green, blue), index) in [
            ((0, 0, 0), 16),
            ((255, 255, 255), 231),
            ((255, 0, 0), 196),
            ((95, 135, 175), 67),
            ((8, 8, 8), 232),
            ((238, 238, 238), 255),
            ((120, 121, 119), 243),
        ] {
            assert_eq!(palette_index(red, green, blue), index, "{red} {green} {blue}");
        }
    }
}
