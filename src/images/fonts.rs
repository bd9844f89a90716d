//! The signs that words on pictures are written with: DejaVu Sans, which is part of the program and has accents, Greek,
//! Cyrillic and arrows; and for Chinese, Japanese and Korean a font of the system, where there is one at a usual place.
//!
//! Such a font has tens of megabytes, so none is part of the program, and one is only read when a sign asks for it. Looking
//! for others by their names is left to crates with dozens of crates behind them: one font for these scripts is enough to
//! read a label.

use std::fs;
use std::sync::LazyLock;

use ab_glyph::{Font, FontArc, FontVec, GlyphId};
use unicode_width::UnicodeWidthChar;

/// A sign of one of the fonts.
#[derive(Clone, Copy)]
pub(super) struct Sign {
    pub(super) font: &'static FontArc,
    pub(super) glyph: GlyphId,
    /// Whether a line may be broken before it: such scripts have no spaces.
    pub(super) wide: bool,
}

/// A missing one would be a mistake of ours, and only costs the words.
static OWN: LazyLock<Option<FontArc>> = LazyLock::new(|| FontArc::try_from_slice(dejavu::sans::regular()).ok());

static OF_THE_SYSTEM: LazyLock<Option<FontArc>> = LazyLock::new(|| {
    PLACES.iter().find_map(|place| {
        let font = FontVec::try_from_vec_and_index(fs::read(place).ok()?, 0).ok()?;
        tracing::debug!(place, "a font of the system");
        Some(FontArc::new(font))
    })
});

/// Where systems have a font with most signs of these scripts.
const PLACES: [&str; 14] = [
    "/usr/share/fonts/opentype/noto/NotoSansCJK-Regular.ttc",
    "/usr/share/fonts/noto-cjk/NotoSansCJK-Regular.ttc",
    "/usr/share/fonts/google-noto-sans-cjk-fonts/NotoSansCJK-Regular.ttc",
    "/usr/share/fonts/google-noto-cjk/NotoSansCJK-Regular.ttc",
    "/usr/share/fonts/truetype/droid/DroidSansFallbackFull.ttf",
    "/usr/share/fonts/truetype/wqy/wqy-microhei.ttc",
    "/System/Library/Fonts/Supplemental/Arial Unicode.ttf",
    "/Library/Fonts/Arial Unicode.ttf",
    "/System/Library/Fonts/Hiragino Sans GB.ttc",
    "/System/Library/Fonts/PingFang.ttc",
    "C:\\Windows\\Fonts\\msyh.ttc",
    "C:\\Windows\\Fonts\\YuGothM.ttc",
    "C:\\Windows\\Fonts\\msgothic.ttc",
    "C:\\Windows\\Fonts\\malgun.ttf",
];

/// What stands for a sign that no font has.
const MISSING: char = '□';

/// The font that lines are laid out by.
pub(super) fn own() -> Option<&'static FontArc> {
    OWN.as_ref()
}

/// The sign for a character; none for one that is not seen, such as what joins emoji.
pub(super) fn sign(c: char) -> Option<Sign> {
    let own = OWN.as_ref()?;
    let columns = if c.is_control() { return of(own, ' ', false) } else { c.width().unwrap_or(0) };
    let wide = columns > 1;
    let found = of(own, c, wide).or_else(|| OF_THE_SYSTEM.as_ref().filter(|_| wide).and_then(|font| of(font, c, wide)));
    match columns {
        0 => None,
        _ => found.or_else(|| of(own, MISSING, wide)),
    }
}

fn of(font: &'static FontArc, c: char, wide: bool) -> Option<Sign> {
    let glyph = font.glyph_id(c);
    (glyph != GlyphId(0)).then_some(Sign { font, glyph, wide })
}
