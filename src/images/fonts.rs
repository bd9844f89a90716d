//! The glyphs of labels on images. DejaVu Sans is embedded, which covers accents, Greek, Cyrillic and arrows; Chinese,
//! Japanese and Korean use a system font, if one is installed in a common location.
//!
//! Such a font has tens of megabytes, so it is not embedded, and only loaded when a character needs it. Looking up
//! fonts by name would require crates with dozens of dependencies; one font for these scripts is enough for labels.

use std::fs;
use std::sync::LazyLock;

use ab_glyph::{Font, FontArc, FontVec, GlyphId};
use unicode_width::UnicodeWidthChar;

/// A glyph of one of the fonts.
#[derive(Clone, Copy)]
pub(super) struct Glyph {
    pub(super) font: &'static FontArc,
    pub(super) id: GlyphId,
    /// Whether a line may be wrapped before it: scripts with wide characters do not use spaces.
    pub(super) wide: bool,
}

/// The embedded font; if it fails to parse, labels are left out.
static EMBEDDED: LazyLock<Option<FontArc>> = LazyLock::new(|| FontArc::try_from_slice(dejavu::sans::regular()).ok());

/// The first font of [`SYSTEM_FONTS`] that can be loaded.
static SYSTEM: LazyLock<Option<FontArc>> = LazyLock::new(|| {
    SYSTEM_FONTS.iter().find_map(|path| {
        let font = FontVec::try_from_vec_and_index(fs::read(path).ok()?, 0).ok()?;
        tracing::debug!(path, "using a font of the system");
        Some(FontArc::new(font))
    })
});

/// The common paths of fonts for Chinese, Japanese and Korean.
const SYSTEM_FONTS: [&str; 14] = [
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

/// The replacement for characters that no font contains.
const REPLACEMENT: char = '□';

/// Returns the font used for line metrics.
pub(super) fn embedded() -> Option<&'static FontArc> {
    EMBEDDED.as_ref()
}

/// Returns the glyph of a character; `None` for invisible ones, such as the joiners of emoji.
pub(super) fn glyph(c: char) -> Option<Glyph> {
    let embedded = EMBEDDED.as_ref()?;
    let columns = if c.is_control() { return glyph_in(embedded, ' ', false) } else { c.width().unwrap_or(0) };
    let wide = columns > 1;
    let system = || SYSTEM.as_ref().filter(|_| wide).and_then(|font| glyph_in(font, c, wide));
    let found = glyph_in(embedded, c, wide).or_else(system);
    match columns {
        0 => None,
        _ => found.or_else(|| glyph_in(embedded, REPLACEMENT, wide)),
    }
}

fn glyph_in(font: &'static FontArc, c: char, wide: bool) -> Option<Glyph> {
    let id = font.glyph_id(c);
    (id != GlyphId(0)).then_some(Glyph { font, id, wide })
}
