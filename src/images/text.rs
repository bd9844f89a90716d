//! Words on pictures: lines that are cut or broken to a width, and written.

use ab_glyph::{Font, GlyphId, PxScale, ScaleFont, point};
use image::{Rgb, RgbImage};

use super::fonts::{self, Sign};

/// How wide a line is, in pixels.
pub(super) fn width(text: &str, size: f32) -> f32 {
    let mut line = Line::new(size);
    text.chars().for_each(|c| line.add(c));
    line.width
}

/// The line, cut where it would pass that width.
pub(super) fn cut(text: &str, size: f32, most: f32) -> String {
    if width(text, size) <= most {
        return text.to_owned();
    }
    let room = most - width("…", size);
    let mut line = Line::new(size);
    let fits = text.char_indices().find(|(_, c)| {
        line.add(*c);
        line.width > room
    });
    let end = fits.map_or(text.len(), |(at, _)| at);
    format!("{}…", text.get(..end).unwrap_or_default().trim_end())
}

/// The text in at most that many lines, broken between words where it can be; the last one is cut.
pub(super) fn broken(text: &str, size: f32, most: f32, lines: usize) -> Vec<String> {
    let mut done = Vec::new();
    let mut rest = text.trim();
    while done.len() + 1 < lines && width(rest, size) > most {
        let mut line = Line::new(size);
        // Where the line may end, and where the next begins: after the last word that fits, else after the last sign.
        let (mut end, mut after_a_word) = (0, 0);
        for (at, c) in rest.char_indices() {
            let wide = fonts::sign(c).is_some_and(|sign| sign.wide);
            if at > 0 && (c.is_whitespace() || wide) {
                after_a_word = at;
            }
            line.add(c);
            if line.width > most {
                break;
            }
            end = at + c.len_utf8();
        }
        let at = if after_a_word > 0 { after_a_word } else { end };
        let Some((first, others)) = rest.split_at_checked(at).filter(|(first, _)| !first.is_empty()) else { break };
        done.push(first.trim_end().to_owned());
        rest = others.trim_start();
    }
    done.push(cut(rest, size, most));
    done
}

/// Writes a line with its upper left corner there.
pub(super) fn draw(onto: &mut RgbImage, (x, y): (u32, u32), text: &str, size: f32, colour: Rgb<u8>) {
    let Some(own) = fonts::own() else { return };
    let baseline = pixel_to_float(y) + own.as_scaled(size).ascent();
    let mut line = Line::new(size);
    for c in text.chars() {
        let Some(sign) = fonts::sign(c) else { continue };
        let at = pixel_to_float(x) + line.place(sign);
        let placed = sign.glyph.with_scale_and_position(PxScale::from(size), point(at, baseline));
        let Some(outlined) = sign.font.outline_glyph(placed) else { continue };
        let corner = outlined.px_bounds().min;
        outlined.draw(|dx, dy, coverage| {
            let (x, y) = (float_to_pixel(corner.x).checked_add(dx), float_to_pixel(corner.y).checked_add(dy));
            if let (Some(x), Some(y)) = (x, y)
                && let Some(pixel) = onto.get_pixel_mut_checked(x, y)
            {
                *pixel = mixed(*pixel, colour, coverage);
            }
        });
    }
}

/// The height of a line.
pub(super) fn line_height(size: f32) -> u32 {
    float_to_pixel((size * 1.35).ceil())
}

/// One colour laid over another.
pub(super) fn mixed(under: Rgb<u8>, over: Rgb<u8>, share: f32) -> Rgb<u8> {
    let share = share.clamp(0.0, 1.0);
    let mix = |under: u8, over: u8| {
        let mixed = f32::from(under) + (f32::from(over) - f32::from(under)) * share;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it lies between two u8")]
        let mixed = mixed.round() as u8;
        mixed
    };
    let ([red, green, blue], over) = (under.0, over.0);
    Rgb([mix(red, over[0]), mix(green, over[1]), mix(blue, over[2])])
}

/// A line as it grows.
struct Line {
    size: f32,
    width: f32,
    last: Option<GlyphId>,
}

impl Line {
    fn new(size: f32) -> Line {
        Line { size, width: 0.0, last: None }
    }

    fn add(&mut self, c: char) {
        if let Some(sign) = fonts::sign(c) {
            self.place(sign);
        }
    }

    /// Puts a sign at the end, and says where it begins.
    fn place(&mut self, sign: Sign) -> f32 {
        let font = sign.font.as_scaled(self.size);
        let begins = self.width + self.last.map_or(0.0, |last| font.kern(last, sign.glyph));
        self.width = begins + font.h_advance(sign.glyph);
        // Signs of different fonts have no distance of their own.
        self.last = Some(sign.glyph).filter(|_| !sign.wide);
        begins
    }
}

/// Pictures are far smaller than where a float begins to skip whole numbers.
#[expect(clippy::cast_precision_loss, reason = "pictures have fewer than 2^24 pixels a side")]
fn pixel_to_float(at: u32) -> f32 {
    at as f32
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "what lies left of a picture is at its edge"
)]
fn float_to_pixel(at: f32) -> u32 {
    at as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_cut_to_its_width() {
        assert_eq!(cut("short", 20.0, 500.0), "short");
        let long = cut("session-2025-12-11-001#3 and much more", 20.0, 120.0);
        assert!(long.ends_with('…') && width(&long, 20.0) <= 120.0, "{long}");
        assert_eq!(cut("anything", 20.0, 1.0), "…");
    }

    #[test]
    fn a_text_is_broken_between_words() {
        let text = "a very long prompt that goes on and on, and has averyveryverylongwordinit too";
        for most in [60.0, 120.0, 300.0] {
            let lines = broken(text, 16.0, most, 40);
            assert!(lines.iter().all(|line| width(line, 16.0) <= most && !line.is_empty()), "{lines:?}");
            let words = |text: &str| text.replace(' ', "");
            assert_eq!(words(&lines.concat()), words(text), "nothing is left out");
        }
        assert_eq!(broken(text, 16.0, 250.0, 40)[0], "a very long prompt that goes on");
        let few = broken(text, 16.0, 120.0, 2);
        assert!(few.len() == 2 && few[1].ends_with('…') && width(&few[1], 16.0) <= 120.0, "{few:?}");
        assert_eq!(broken("", 16.0, 120.0, 3), [""]);
        assert_eq!(broken("word", 16.0, 1.0, 3), ["…"]);
        // Scripts without spaces are broken anywhere.
        assert!(broken(&"猫".repeat(30), 16.0, 100.0, 40).len() > 3);
    }

    #[test]
    fn every_sign_has_a_width_and_none_leaves_the_picture() {
        let mut picture = RgbImage::new(60, 20);
        draw(&mut picture, (50, 10), "猫 é ж → \u{1b}[31m\n a long text", 18.0, Rgb([255, 255, 255]));
        // No font has this one.
        assert_eq!(width("\u{10fffd}", 18.0), width("□", 18.0));
        assert!(width("猫", 18.0) > 0.0);
        assert!(width("ж", 18.0) > 0.0 && width("ж", 18.0) != width("□", 18.0));
        assert_eq!(width("👩\u{200d}🔬\u{fe0f}", 18.0), width("👩🔬", 18.0), "what joins signs is none");
        assert!(picture.pixels().any(|pixel| pixel.0[0] > 128), "nothing was written");
    }
}
