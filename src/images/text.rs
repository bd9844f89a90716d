//! Labels on images: truncates, wraps and draws text.

use ab_glyph::{Font, GlyphId, PxScale, ScaleFont, point};
use image::{Rgb, RgbImage};

use super::fonts::{self, Glyph};

/// Returns the width of a line in pixels.
pub(super) fn width(text: &str, size: f32) -> f32 {
    let mut line = LineLayout::new(size);
    text.chars().for_each(|c| line.add(c));
    line.width
}

/// Truncates a line to a width, with an ellipsis.
pub(super) fn truncate(text: &str, size: f32, max_width: f32) -> String {
    if width(text, size) <= max_width {
        return text.to_owned();
    }
    let room = max_width - width("…", size);
    let mut line = LineLayout::new(size);
    let fits = text.char_indices().find(|(_, c)| {
        line.add(*c);
        line.width > room
    });
    let end = fits.map_or(text.len(), |(at, _)| at);
    format!("{}…", text.get(..end).unwrap_or_default().trim_end())
}

/// Wraps a text to at most this many lines, between words if possible. The last line is truncated.
pub(super) fn wrap(text: &str, size: f32, max_width: f32, max_lines: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut rest = text.trim();
    while lines.len() + 1 < max_lines && width(rest, size) > max_width {
        let mut line = LineLayout::new(size);
        // End the line after the last word that fits, or else after the last character.
        let (mut end, mut word_end) = (0, 0);
        for (at, c) in rest.char_indices() {
            let wide = fonts::glyph(c).is_some_and(|glyph| glyph.wide);
            if at > 0 && (c.is_whitespace() || wide) {
                word_end = at;
            }
            line.add(c);
            if line.width > max_width {
                break;
            }
            end = at + c.len_utf8();
        }
        let at = if word_end > 0 { word_end } else { end };
        let Some((first, others)) = rest.split_at_checked(at).filter(|(first, _)| !first.is_empty()) else { break };
        lines.push(first.trim_end().to_owned());
        rest = others.trim_start();
    }
    lines.push(truncate(rest, size, max_width));
    lines
}

/// Draws a line with its top left corner at this point.
pub(super) fn draw(onto: &mut RgbImage, (x, y): (u32, u32), text: &str, size: f32, colour: Rgb<u8>) {
    let Some(font) = fonts::embedded() else { return };
    let baseline = pixel_to_float(y) + font.as_scaled(size).ascent();
    let mut line = LineLayout::new(size);
    for c in text.chars() {
        let Some(glyph) = fonts::glyph(c) else { continue };
        let at = pixel_to_float(x) + line.place(glyph);
        let placed = glyph.id.with_scale_and_position(PxScale::from(size), point(at, baseline));
        let Some(outlined) = glyph.font.outline_glyph(placed) else { continue };
        let corner = outlined.px_bounds().min;
        outlined.draw(|dx, dy, coverage| {
            let (x, y) = (float_to_pixel(corner.x).checked_add(dx), float_to_pixel(corner.y).checked_add(dy));
            if let (Some(x), Some(y)) = (x, y)
                && let Some(pixel) = onto.get_pixel_mut_checked(x, y)
            {
                *pixel = blend(*pixel, colour, coverage);
            }
        });
    }
}

/// Returns the height of a line.
pub(super) fn line_height(size: f32) -> u32 {
    float_to_pixel((size * 1.35).ceil())
}

/// Blends two colours.
pub(super) fn blend(under: Rgb<u8>, over: Rgb<u8>, share: f32) -> Rgb<u8> {
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

/// A line being laid out.
struct LineLayout {
    size: f32,
    width: f32,
    last: Option<GlyphId>,
}

impl LineLayout {
    fn new(size: f32) -> LineLayout {
        LineLayout { size, width: 0.0, last: None }
    }

    fn add(&mut self, c: char) {
        if let Some(glyph) = fonts::glyph(c) {
            self.place(glyph);
        }
    }

    /// Appends a glyph and returns its offset.
    fn place(&mut self, glyph: Glyph) -> f32 {
        let font = glyph.font.as_scaled(self.size);
        let offset = self.width + self.last.map_or(0.0, |last| font.kern(last, glyph.id));
        self.width = offset + font.h_advance(glyph.id);
        // No kerning between glyphs of different fonts.
        self.last = Some(glyph.id).filter(|_| !glyph.wide);
        offset
    }
}

#[expect(clippy::cast_precision_loss, reason = "images have fewer than 2^24 pixels a side")]
fn pixel_to_float(at: u32) -> f32 {
    at as f32
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "what lies left of an image is clamped to its edge"
)]
fn float_to_pixel(at: f32) -> u32 {
    at as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_truncated_to_a_width() {
        assert_eq!(truncate("short", 20.0, 500.0), "short");
        let long = truncate("session-2025-12-11-001#3 and much more", 20.0, 120.0);
        assert!(long.ends_with('…') && width(&long, 20.0) <= 120.0, "{long}");
        assert_eq!(truncate("anything", 20.0, 1.0), "…");
    }

    #[test]
    fn a_text_is_wrapped_between_words() {
        let text = "a very long prompt that goes on and on, and has averyveryverylongwordinit too";
        for max_width in [60.0, 120.0, 300.0] {
            let lines = wrap(text, 16.0, max_width, 40);
            assert!(lines.iter().all(|line| width(line, 16.0) <= max_width && !line.is_empty()), "{lines:?}");
            let words = |text: &str| text.replace(' ', "");
            assert_eq!(words(&lines.concat()), words(text), "nothing is left out");
        }
        assert_eq!(wrap(text, 16.0, 250.0, 40)[0], "a very long prompt that goes on");
        let few = wrap(text, 16.0, 120.0, 2);
        assert!(few.len() == 2 && few[1].ends_with('…') && width(&few[1], 16.0) <= 120.0, "{few:?}");
        assert_eq!(wrap("", 16.0, 120.0, 3), [""]);
        assert_eq!(wrap("word", 16.0, 1.0, 3), ["…"]);
        // Scripts without spaces can be wrapped anywhere.
        assert!(wrap(&"猫".repeat(30), 16.0, 100.0, 40).len() > 3);
    }

    #[test]
    fn every_character_has_a_width_and_none_is_drawn_outside() {
        let mut image = RgbImage::new(60, 20);
        draw(&mut image, (50, 10), "猫 é ж → \u{1b}[31m\n a long text", 18.0, Rgb([255, 255, 255]));
        // A private-use character that no font contains.
        assert_eq!(width("\u{10fffd}", 18.0), width("□", 18.0));
        assert!(width("猫", 18.0) > 0.0);
        assert!(width("ж", 18.0) > 0.0 && width("ж", 18.0) != width("□", 18.0));
        assert_eq!(width("👩\u{200d}🔬\u{fe0f}", 18.0), width("👩🔬", 18.0), "joiners have no width");
        assert!(image.pixels().any(|pixel| pixel.0[0] > 128), "nothing was drawn");
    }
}
