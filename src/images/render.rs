//! Comparisons to look at, drawn as one picture of bounded size: side by side, with a heat map of what changed, or as a
//! contact sheet; each picture over its reference and what differs.
//!
//! A picture that is lost gets an empty place that says so; it does not cost the others.

use std::io::Cursor;

use image::codecs::jpeg::JpegEncoder;
use image::imageops::fast_blur;
use image::{ImageFormat, Rgb, RgbImage};

use super::blobs::Images;
use super::compare::{Area, Comparison, Incomparable, Overlay};
use super::decode::decode;
use super::scale::{averaged, filling, fitting, paste, scaled, scaled_rgb};
use super::text::{broken, cut, draw, line_height, mixed, width};
use super::thumbs::ThumbSide;
use crate::model::Hash;

/// How to draw a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Render {
    /// Up to four in a row, as large as possible; more than four are drawn as a sheet.
    SideBySide,
    /// The first, another, and what changed between them; a row for each of up to three others.
    Heatmap,
    /// All in rows, a little smaller.
    Sheet,
}

/// A picture and the words under it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Panel {
    /// The picture; none where there is none.
    pub image: Option<Hash>,
    /// Which it is, such as its reference.
    pub title: String,
    /// What to say of it, each in one line; those that begin with `+`, `-` or `~` in a colour of their own.
    pub lines: Vec<String>,
}

/// A comparison that was drawn.
pub struct Rendering {
    pixels: RgbImage,
}

impl Images {
    /// Draws these pictures, of which there should be 2 to 12; more are left out.
    pub fn render(&self, how: Render, panels: &[Panel]) -> Rendering {
        let panels = panels.get(..MAX_PANELS).unwrap_or(panels);
        let how = if panels.len() > MAX_IN_DETAIL { Render::Sheet } else { how };
        let (columns, side) = grid(how, panels.len());
        let within = (side, side * 3 / 2);
        let cell = |panel: &Panel| self.cell(panel, within);
        let drawn: Vec<Cell> = match (how, panels) {
            (Render::Heatmap, [first, others @ ..]) => others
                .iter()
                .flat_map(|other| [cell(first), cell(other), self.heat_cell(first, other, within)])
                .collect(),
            _ => panels.iter().map(cell).collect(),
        };
        Rendering { pixels: arranged(drawn, columns, within) }
    }

    /// Where the second picture differs from the first, without words: as large as the larger of the two, at most `side`.
    pub fn heat_map(&self, one: Hash, other: Hash, side: u32) -> Result<Rendering, Incomparable> {
        let overlay = self.overlay(one, other)?;
        let found = overlay.compare();
        Ok(Rendering { pixels: heat(&overlay, found.bounds, found.size, (side, side)) })
    }

    fn cell(&self, panel: &Panel, within: (u32, u32)) -> Cell {
        let picture = match panel.image {
            Some(hash) => self.view(hash, within),
            None => Err("no picture".to_owned()),
        };
        let lines = panel.lines.iter().map(|line| (line.clone(), colour_of(line))).collect();
        Cell { picture, title: panel.title.clone(), lines }
    }

    fn heat_cell(&self, one: &Panel, other: &Panel, within: (u32, u32)) -> Cell {
        let title = "what changed".to_owned();
        let overlay = match (one.image, other.image) {
            (Some(one), Some(other)) => self.overlay(one, other).map_err(|error| error.source.to_string()),
            _ => Err("nothing to compare".to_owned()),
        };
        match overlay {
            Ok(overlay) => {
                let found = overlay.compare();
                let lines = numbers(&found).into_iter().map(|line| (line, FAINT)).collect();
                Cell { picture: Ok(heat(&overlay, found.bounds, found.size, within)), title, lines }
            }
            Err(why) => Cell { picture: Err(why), title, lines: Vec::new() },
        }
    }

    /// A picture no larger than that; its thumbnail where the original is gone.
    fn view(&self, hash: Hash, within: (u32, u32)) -> Result<RgbImage, String> {
        let whole = self.with_picture(hash, |picture| {
            scaled(picture.pixels(), fitting((picture.width(), picture.height()), within))
        });
        whole.or_else(|error| {
            let file = self.thumbnail(hash, ThumbSide::Large).map_err(|_| error.to_string())?;
            let picture = decode(&file).map_err(|_| error.to_string())?;
            Ok(scaled(picture.pixels(), fitting((picture.width(), picture.height()), within)))
        })
    }
}

impl Rendering {
    /// Its pixels.
    pub fn pixels(&self) -> &RgbImage {
        &self.pixels
    }

    /// As a PNG file.
    pub fn png(&self) -> Vec<u8> {
        let mut file = Cursor::new(Vec::new());
        if let Err(error) = self.pixels.write_to(&mut file, ImageFormat::Png) {
            // Writing to memory does not fail.
            tracing::error!(%error, "a rendering could not be encoded");
        }
        file.into_inner()
    }

    /// As a file of at most that many bytes, and its type: PNG if that is small enough, else JPEG.
    pub fn within(&self, most: usize) -> (Vec<u8>, &'static str) {
        let png = self.png();
        if png.len() <= most {
            return (png, "image/png");
        }
        let mut smaller = self.pixels.clone();
        loop {
            for quality in [88, 75, 60] {
                let mut file = Vec::new();
                let written = JpegEncoder::new_with_quality(&mut file, quality).encode_image(&smaller);
                if written.is_ok() && file.len() <= most || smaller.width() <= 64 {
                    return (file, "image/jpeg");
                }
            }
            let size = (smaller.width() * 3 / 4, (smaller.height() * 3 / 4).max(1));
            smaller = scaled_rgb(&smaller, size);
        }
    }
}

/// The most pictures that are drawn in another way than as a sheet.
const MAX_IN_DETAIL: usize = 4;
/// The most pictures in one rendering.
const MAX_PANELS: usize = 12;
/// The most lines of words under a picture.
const MAX_LINES: usize = 7;
/// The most lines that one thing to say takes.
const MAX_LINES_EACH: usize = 4;
/// The narrowest place for a picture, so that there is room for words.
const LEAST_SIDE: u32 = 300;

/// The lowest place for a picture that is not there.
const LEAST_HEIGHT: u32 = 160;

const MARGIN: u32 = 28;
const GAP: u32 = 12;
const TITLE_SIZE: f32 = 21.0;
const LINE_SIZE: f32 = 16.0;

const BACKGROUND: Rgb<u8> = Rgb([0x16, 0x18, 0x1d]);
const EMPTY: Rgb<u8> = Rgb([0x24, 0x27, 0x2e]);
const BRIGHT: Rgb<u8> = Rgb([0xf2, 0xf3, 0xf5]);
const FAINT: Rgb<u8> = Rgb([0xb0, 0xb5, 0xbf]);
const ADDED: Rgb<u8> = Rgb([0x7e, 0xd5, 0x8f]);
const REMOVED: Rgb<u8> = Rgb([0xf0, 0x8a, 0x82]);
const CHANGED: Rgb<u8> = Rgb([0xf2, 0xc4, 0x6d]);

/// A place with what is drawn there.
struct Cell {
    /// The picture, or why there is none.
    picture: Result<RgbImage, String>,
    title: String,
    lines: Vec<(String, Rgb<u8>)>,
}

impl Cell {
    /// The words broken to lines of that width, and a word on those that find no room.
    fn broken_to(mut self, side: f32) -> Cell {
        let mut lines: Vec<(String, Rgb<u8>)> = Vec::new();
        let total = self.lines.len();
        for (number, (line, colour)) in self.lines.into_iter().enumerate() {
            // The last line is for what follows, unless nothing does.
            let room = MAX_LINES - lines.len() - usize::from(number + 1 < total);
            if room == 0 {
                lines.push((format!("and {} more", total - number), FAINT));
                break;
            }
            let parts = broken(&line, LINE_SIZE, side, room.min(MAX_LINES_EACH));
            lines.extend(parts.into_iter().map(|part| (part, colour)));
        }
        self.lines = lines;
        self
    }
}

/// How many columns for so many pictures, and how wide one may be: the whole stays below 2000 pixels.
fn grid(how: Render, pictures: usize) -> (u32, u32) {
    match (how, pictures) {
        (Render::SideBySide, 0..=2) => (2, 760),
        (Render::SideBySide, 3) | (Render::Heatmap, 0..=2) => (3, 580),
        (Render::SideBySide, 4) => (4, 440),
        (Render::Heatmap, _) => (3, 400),
        (_, 0..=2) => (2, 520),
        (_, 3) => (3, 440),
        (_, 4) => (2, 440),
        (_, 5..=6 | 9) => (3, 400),
        _ => (4, 360),
    }
}

fn colour_of(line: &str) -> Rgb<u8> {
    match line.chars().next() {
        Some('+') => ADDED,
        Some('-' | '−') => REMOVED,
        Some('~') => CHANGED,
        _ => FAINT,
    }
}

fn arranged(cells: Vec<Cell>, columns: u32, within: (u32, u32)) -> RgbImage {
    // All places are as wide as the widest picture, and smaller pictures fill theirs: a pair of which one was upscaled
    // is seen in one size.
    let shown = |of: fn(&RgbImage) -> u32| cells.iter().filter_map(|cell| cell.picture.as_ref().ok()).map(of).max();
    let side = shown(RgbImage::width).unwrap_or(0).max(LEAST_SIDE).min(within.0.max(LEAST_SIDE));
    let sizes: Vec<(u32, u32)> = cells
        .iter()
        .map(|cell| {
            cell.picture
                .as_ref()
                .map_or((side, LEAST_HEIGHT), |picture| filling(picture.dimensions(), (side, within.1)))
        })
        .collect();
    let used = u32::try_from(cells.len()).unwrap_or(columns).clamp(1, columns);
    let per_row = usize::try_from(used).unwrap_or(1);
    let cells: Vec<Cell> = cells.into_iter().map(|cell| cell.broken_to(float(side))).collect();
    let rows = || cells.chunks(per_row).zip(sizes.chunks(per_row));
    let heights: Vec<(u32, u32)> = rows().map(|(cells, sizes)| (picture_height(sizes), words_height(cells))).collect();

    let total_width = MARGIN + used * (side + MARGIN);
    let total_height = MARGIN + heights.iter().map(|(picture, words)| picture + words + MARGIN).sum::<u32>();
    let mut sheet = RgbImage::from_pixel(total_width, total_height, BACKGROUND);
    let mut y = MARGIN;
    for ((cells, sizes), (picture, words)) in rows().zip(&heights) {
        let mut x = MARGIN;
        for (cell, size) in cells.iter().zip(sizes) {
            place_picture(&mut sheet, cell, *size, (x, y), (side, *picture));
            place_words(&mut sheet, cell, (x, y + picture + GAP), side);
            x += side + MARGIN;
        }
        y += picture + words + MARGIN;
    }
    sheet
}

fn picture_height(sizes: &[(u32, u32)]) -> u32 {
    sizes.iter().map(|size| size.1).max().unwrap_or(0)
}

fn words_height(cells: &[Cell]) -> u32 {
    let lines = cells.iter().map(|cell| cell.lines.len()).max().unwrap_or(0);
    GAP + line_height(TITLE_SIZE) + u32::try_from(lines).unwrap_or(0) * line_height(LINE_SIZE)
}

fn place_picture(sheet: &mut RgbImage, cell: &Cell, size: (u32, u32), (x, y): (u32, u32), room: (u32, u32)) {
    match &cell.picture {
        Ok(picture) => {
            let picture = scaled_rgb(picture, size);
            // At the bottom, where its words are.
            let (left, top) = (x + (room.0 - size.0) / 2, y + room.1 - size.1);
            paste(sheet, &picture, (left, top));
        }
        Err(why) => {
            paste(sheet, &RgbImage::from_pixel(room.0, room.1, EMPTY), (x, y));
            let why = cut(why, LINE_SIZE, float(room.0.saturating_sub(2 * GAP)));
            let left = (float(room.0) - width(&why, LINE_SIZE)).max(0.0) / 2.0;
            draw(sheet, (x + pixel(left), y + room.1 / 2), &why, LINE_SIZE, FAINT);
        }
    }
}

fn place_words(sheet: &mut RgbImage, cell: &Cell, (x, mut y): (u32, u32), side: u32) {
    draw(sheet, (x, y), &cut(&cell.title, TITLE_SIZE, float(side)), TITLE_SIZE, BRIGHT);
    y += line_height(TITLE_SIZE);
    for (line, colour) in &cell.lines {
        draw(sheet, (x, y), line, LINE_SIZE, *colour);
        y += line_height(LINE_SIZE);
    }
}

/// What a comparison says, in a few short lines.
fn numbers(found: &Comparison) -> Vec<String> {
    let mut lines = vec![
        format!("{:.1} % of the area", found.changed * 100.0),
        format!("SSIM {:.2} · distance {} of 128", found.similarity, found.distance),
    ];
    if !found.same_shape {
        lines.push("different shapes: centred on each other".to_owned());
    } else if found.scaled {
        lines.push("different sizes: scaled to the larger".to_owned());
    }
    lines
}

/// Where the second differs from the first, over the first in faint grey, with a frame around all of it.
fn heat(overlay: &Overlay, bounds: Option<Area>, size: (u32, u32), within: (u32, u32)) -> RgbImage {
    let shown = fitting(overlay.one.dimensions(), within);
    let ground = scaled_rgb(&overlay.one, shown);
    let heat = fast_blur(&averaged(&overlay.differences(), shown), 1.5);
    let mut map = RgbImage::new(shown.0, shown.1);
    for ((to, under), heat) in map.pixels_mut().zip(ground.pixels()).zip(heat.pixels()) {
        // Below this it is what saving a JPEG file does.
        let warmth = (f32::from(heat.0[0].saturating_sub(8)) / 247.0).sqrt();
        *to = mixed(dimmed(*under), ramp(warmth), (warmth * 1.7).min(0.95));
    }
    if let Some(bounds) = bounds {
        frame(&mut map, bounds, size);
    }
    map
}

fn dimmed(colour: Rgb<u8>) -> Rgb<u8> {
    let [red, green, blue] = colour.0.map(u32::from);
    let light = u8::try_from((red * 3 + green * 6 + blue) / 10).unwrap_or(u8::MAX);
    mixed(BACKGROUND, Rgb([light; 3]), 0.42)
}

/// From violet over red and orange to a pale yellow: also told apart by those who do not see red and green, and in print.
fn ramp(warmth: f32) -> Rgb<u8> {
    const STOPS: [(f32, Rgb<u8>); 5] = [
        (0.0, Rgb([0x3b, 0x0f, 0x70])),
        (0.3, Rgb([0x8c, 0x29, 0x81])),
        (0.55, Rgb([0xe3, 0x50, 0x4f])),
        (0.8, Rgb([0xfc, 0xa5, 0x4a])),
        (1.0, Rgb([0xfc, 0xf7, 0xc8])),
    ];
    let above = STOPS.iter().position(|(at, _)| *at >= warmth).unwrap_or(STOPS.len() - 1);
    match (STOPS.get(above.saturating_sub(1)), STOPS.get(above)) {
        (Some((from, low)), Some((to, high))) if to > from => mixed(*low, *high, (warmth - from) / (to - from)),
        (_, Some((_, colour))) => *colour,
        _ => BRIGHT,
    }
}

fn frame(map: &mut RgbImage, bounds: Area, size: (u32, u32)) {
    let (width, height) = map.dimensions();
    let scaled = |at: u32, from: u32, to: u32| {
        u32::try_from(u64::from(at) * u64::from(to) / u64::from(from.max(1))).unwrap_or(to).min(to.saturating_sub(1))
    };
    let (left, top) = (scaled(bounds.x, size.0, width), scaled(bounds.y, size.1, height));
    let right = scaled(bounds.x + bounds.width, size.0, width);
    let bottom = scaled(bounds.y + bounds.height, size.1, height);
    let mut mark = |x: u32, y: u32| {
        if let Some(pixel) = map.get_pixel_mut_checked(x, y) {
            *pixel = mixed(*pixel, BRIGHT, 0.75);
        }
    };
    for x in left..=right {
        mark(x, top);
        mark(x, bottom);
    }
    for y in top + 1..bottom {
        mark(left, y);
        mark(right, y);
    }
}

#[expect(clippy::cast_precision_loss, reason = "renderings have fewer than 2^24 pixels a side")]
fn float(at: u32) -> f32 {
    at as f32
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within the picture")]
fn pixel(at: f32) -> u32 {
    at as u32
}
