//! Words on pictures: one line at a time, in DejaVu Sans, which has accents, Greek, Cyrillic and arrows. What it has no sign
//! for, such as Chinese, is shown as an empty box.

use std::sync::LazyLock;

use ab_glyph::{Font, FontRef, GlyphId, PxScaleFont, ScaleFont, point};
use image::{Rgb, RgbImage};

/// The font. It is part of the program, so a missing one would be a mistake of ours and only costs the words.
static FONT: LazyLock<Option<FontRef<'static>>> =
    LazyLock::new(|| FontRef::try_from_slice(dejavu::sans::regular()).ok());

/// What stands for a sign that the font has not.
const MISSING: char = '□';

/// How wide a line is, in pixels.
pub(super) fn width(text: &str, size: f32) -> f32 {
    let Some(font) = font(size) else { return 0.0 };
    let mut last = None;
    glyphs(&font, text).map(|glyph| advance(&font, last.replace(glyph), glyph)).sum()
}

/// The line, cut where it would pass that width.
pub(super) fn cut(text: &str, size: f32, most: f32) -> String {
    if width(text, size) <= most {
        return text.to_owned();
    }
    let room = most - width("…", size);
    let mut cut = String::new();
    for c in text.chars() {
        cut.push(c);
        if width(&cut, size) > room {
            cut.pop();
            break;
        }
    }
    cut.truncate(cut.trim_end().len());
    cut.push('…');
    cut
}

/// Writes a line with its upper left corner there.
pub(super) fn draw(onto: &mut RgbImage, (x, y): (u32, u32), text: &str, size: f32, colour: Rgb<u8>) {
    let Some(font) = font(size) else { return };
    let mut at = pixel_to_float(x);
    let baseline = pixel_to_float(y) + font.ascent();
    let mut last = None;
    for glyph in glyphs(&font, text) {
        at += kern(&font, last.replace(glyph), glyph);
        let placed = glyph.with_scale_and_position(font.scale(), point(at, baseline));
        at += font.h_advance(glyph);
        let Some(outlined) = font.outline_glyph(placed) else { continue };
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

fn font(size: f32) -> Option<PxScaleFont<&'static FontRef<'static>>> {
    FONT.as_ref().map(|font| font.as_scaled(size))
}

fn glyphs<'a>(font: &'a PxScaleFont<&'static FontRef<'static>>, text: &'a str) -> impl Iterator<Item = GlyphId> + 'a {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).map(|c| match font.glyph_id(c) {
        GlyphId(0) => font.glyph_id(MISSING),
        glyph => glyph,
    })
}

fn advance(font: &PxScaleFont<&'static FontRef<'static>>, last: Option<GlyphId>, glyph: GlyphId) -> f32 {
    kern(font, last, glyph) + font.h_advance(glyph)
}

fn kern(font: &PxScaleFont<&'static FontRef<'static>>, last: Option<GlyphId>, glyph: GlyphId) -> f32 {
    last.map_or(0.0, |last| font.kern(last, glyph))
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
    fn every_sign_has_a_width_and_none_leaves_the_picture() {
        let mut picture = RgbImage::new(60, 20);
        draw(&mut picture, (50, 10), "猫 é ж → \u{1b}[31m\n a long text", 18.0, Rgb([255, 255, 255]));
        assert_eq!(width("猫", 18.0), width("□", 18.0));
        assert!(width("ж", 18.0) > 0.0 && width("ж", 18.0) != width("□", 18.0));
        assert!(picture.pixels().any(|pixel| pixel.0[0] > 128), "nothing was written");
    }
}
