//! Videos: recognised by their first bytes, stored and played, but never decoded. Where an image is expected, a video
//! is represented by its poster: the cover in its file, or else a drawing with its format.

use std::io::{self, Read, Seek, SeekFrom};

use image::{Rgb, RgbImage};
use retake_recipe::metadata::{Format, Outline, Poster, read_outline};

use super::decode::decode;
use super::scale::{fill_within, fit_within, resize};
use super::text::{blend, draw, line_height, width};

/// The maximum size of a cover that is decoded; covers are thumbnails of a few hundred kilobytes.
const MAX_POSTER_BYTES: u64 = 16 * 1024 * 1024;
/// The maximum side of a poster.
const MAX_POSTER_SIDE: u32 = 1024;
/// The maximum side of a drawn poster.
const DRAWN_SIDE: u32 = 512;
/// The aspect ratio of a drawn poster if the size of the video is unknown.
const USUAL_SHAPE: (u32, u32) = (16, 9);
/// The number of bytes needed to detect the type of a file.
const FIRST_BYTES: u64 = 64;

/// Returns whether this media type is a video.
pub fn is_video(mime_type: &str) -> bool {
    mime_type.starts_with("video/")
}

/// Returns the outline of a video file; `None` if the file is not a video.
pub(super) fn outline(mut input: impl Read + Seek) -> io::Result<Option<Outline>> {
    let mut first = Vec::new();
    input.by_ref().take(FIRST_BYTES).read_to_end(&mut first)?;
    if !Format::of(&first).is_some_and(Format::is_video) {
        return Ok(None);
    }
    input.seek(SeekFrom::Start(0))?;
    read_outline(input).map(Some)
}

/// Returns the poster of a video: its cover, or a drawing if it has none that can be decoded. Both have a play symbol,
/// so that a video is never mistaken for an image.
pub(super) fn poster(input: impl Read + Seek, outline: &Outline) -> RgbImage {
    let cover = outline.poster.and_then(|poster| cover(input, poster));
    let mut pixels = cover.unwrap_or_else(|| film(outline));
    draw_play_symbol(&mut pixels);
    pixels
}

/// Decodes the cover within the limits of images.
fn cover(mut input: impl Read + Seek, poster: Poster) -> Option<RgbImage> {
    if poster.length > MAX_POSTER_BYTES {
        return None;
    }
    input.seek(SeekFrom::Start(poster.offset)).ok()?;
    let mut bytes = Vec::new();
    input.take(poster.length).read_to_end(&mut bytes).ok()?;
    let picture = decode(&bytes).ok()?;
    let size = fit_within((picture.width(), picture.height()), (MAX_POSTER_SIDE, MAX_POSTER_SIDE));
    Some(resize(picture.pixels(), size))
}

const BACKGROUND: Rgb<u8> = Rgb([38, 36, 35]);
const EDGE: Rgb<u8> = Rgb([20, 19, 18]);
const HOLE: Rgb<u8> = Rgb([74, 70, 67]);
const LABEL: Rgb<u8> = Rgb([214, 209, 203]);

/// Draws a film frame in the aspect ratio of the video, labelled with its format and size.
fn film(outline: &Outline) -> RgbImage {
    let shape = outline.width.zip(outline.height).filter(|(width, height)| *width > 0 && *height > 0);
    let (wide, high) = fill_within(shape.unwrap_or(USUAL_SHAPE), (DRAWN_SIDE, DRAWN_SIDE));
    let edge = high / 9;
    let (hole, gap) = ((edge / 2).max(1), (edge * 5 / 4).max(2));
    let mut pixels = RgbImage::from_fn(wide, high, |x, y| {
        let from_edge = y.min(high - 1 - y);
        let in_row = (edge / 4..edge / 4 + hole).contains(&from_edge);
        match from_edge < edge {
            true if in_row && x % gap < gap * 3 / 5 => HOLE,
            true => EDGE,
            false => BACKGROUND,
        }
    });
    let name = outline.format.map_or("video", Format::name);
    let label = shape.map_or_else(|| name.to_owned(), |(width, height)| format!("{name} · {width} × {height}"));
    let size = f32::from(u16::try_from(high / 16).unwrap_or(u16::MAX)).max(8.0);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the width of a line on a small image")]
    let length = width(&label, size).ceil().max(0.0) as u32;
    // A label that does not fit between the edges would be cut at both ends.
    let y = high.saturating_sub(edge + line_height(size) + edge / 4);
    if length <= wide && y > high * 2 / 3 {
        draw(&mut pixels, ((wide - length) / 2, y), &label, size, LABEL);
    }
    pixels
}

/// Draws a triangle in a disc at the centre.
fn draw_play_symbol(onto: &mut RgbImage) {
    let (wide, high) = onto.dimensions();
    let side = |side: u32| f32::from(u16::try_from(side).unwrap_or(u16::MAX));
    let (centre_x, centre_y, radius) = (side(wide) / 2.0, side(high) / 2.0, side(wide.min(high)) / 8.0);
    for (x, y, pixel) in onto.enumerate_pixels_mut() {
        let (dx, dy) = ((side(x) + 0.5 - centre_x) / radius, (side(y) + 0.5 - centre_y) / radius);
        // Distances are in pixels, so that edges are antialiased over one pixel.
        let disc = (1.0 - dx.hypot(dy)) * radius + 0.5;
        if disc <= 0.0 {
            continue;
        }
        *pixel = blend(*pixel, Rgb([0, 0, 0]), disc.min(1.0) * 0.6);
        let slope = (0.55 - dx) * 0.5 - dy.abs() * 0.866;
        let triangle = slope.min(dx + 0.3) * radius + 0.5;
        *pixel = blend(*pixel, Rgb([255, 255, 255]), triangle);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    /// Returns a video of 320 × 180 pixels with this cover and no frames.
    fn mp4(cover: Option<&[u8]>) -> Vec<u8> {
        let atom = |kind: &[u8], body: &[u8]| {
            let length = u32::try_from(body.len() + 8).unwrap();
            [&length.to_be_bytes(), kind, body].concat()
        };
        let mut track = [0; 84];
        track[76..80].copy_from_slice(&(320_u32 << 16).to_be_bytes());
        track[80..84].copy_from_slice(&(180_u32 << 16).to_be_bytes());
        let item = cover.map(|cover| atom(b"covr", &atom(b"data", &[b"\0\0\0\x0e\0\0\0\0", cover].concat())));
        let meta = [vec![0; 4], atom(b"ilst", &item.unwrap_or_default())].concat();
        let moov = [atom(b"trak", &atom(b"tkhd", &track)), atom(b"udta", &atom(b"meta", &meta))].concat();
        [atom(b"ftyp", b"isom\0\0\0\0mp42"), atom(b"moov", &moov)].concat()
    }

    fn poster_of(file: &[u8]) -> RgbImage {
        let outline = outline(Cursor::new(file)).unwrap().unwrap();
        assert_eq!((outline.width, outline.height), (Some(320), Some(180)));
        poster(Cursor::new(file), &outline)
    }

    #[test]
    fn the_cover_is_the_poster() {
        let mut png = Cursor::new(Vec::new());
        RgbImage::from_pixel(90, 60, Rgb([250, 120, 0])).write_to(&mut png, image::ImageFormat::Png).unwrap();
        let poster = poster_of(&mp4(Some(png.get_ref())));
        assert_eq!(poster.dimensions(), (90, 60));
        assert_eq!(*poster.get_pixel(2, 2), Rgb([250, 120, 0]));
        assert_eq!(*poster.get_pixel(45, 30), Rgb([255, 255, 255]), "the play symbol");
    }

    #[test]
    fn a_video_without_a_usable_cover_is_drawn_in_its_shape() {
        let drawn = poster_of(&mp4(None));
        assert_eq!(drawn.dimensions(), (512, 288));
        // A cover that is truncated or not an image falls back to the drawing.
        assert_eq!(poster_of(&mp4(Some(b"not an image"))), drawn);
        assert_eq!(poster_of(&mp4(Some(b"\x89PNG\r\n\x1a\n"))), drawn);
    }

    #[test]
    fn any_shape_can_be_drawn() {
        for (width, height) in [(1, 1), (1, 60_000), (60_000, 1), (u32::MAX, 7), (1080, 1920)] {
            let mut outline = Outline::default();
            (outline.width, outline.height) = (Some(width), Some(height));
            let drawn = poster(io::empty(), &outline);
            assert!(drawn.width() <= DRAWN_SIDE && drawn.height() <= DRAWN_SIDE, "{width} x {height}");
        }
    }

    #[test]
    fn other_files_are_not_videos() {
        for bytes in [&b""[..], b"The wide road", b"\0\0\0\x18ftypM4A \0\0\0\0", b"\x89PNG\r\n\x1a\n"] {
            assert_eq!(outline(Cursor::new(bytes)).unwrap(), None, "{bytes:?}");
        }
    }
}
