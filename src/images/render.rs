//! Draws comparisons as one image of bounded size: side by side, with a heat map of the changes, or as a contact sheet;
//! each image above its reference and its differences.
//!
//! An image that cannot be shown gets an empty cell with the reason; the others are still drawn.

use std::convert::Infallible;
use std::io::Cursor;

use image::codecs::jpeg::JpegEncoder;
use image::imageops::fast_blur;
use image::{ImageFormat, Rgb, RgbImage};

use super::blobs::{ImageUnavailable, Images};
use super::compare::{AlignedPair, Area, ImageComparison, Incomparable};
use super::decode::decode;
use super::scale::{box_average, fill_within, fit_within, paste, resize, resize_rgb};
use super::text::{blend, draw, line_height, truncate, width, wrap};
use super::thumbs::ThumbSide;
use crate::model::Hash;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The ways to draw a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Render {
    /// In a row, as large as possible; more than four are drawn as a sheet.
    SideBySide,
    /// Each of up to three others with a map of where it differs from the first.
    Heatmap,
    /// In rows, a little smaller.
    Sheet,
    /// Not at all.
    None,
}

/// An image and its caption.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Panel {
    /// The image, if there is one.
    pub image: Option<Hash>,
    /// The text in place of a missing image; by default that there is none.
    pub absent: Option<String>,
    /// Its title, such as its reference.
    pub title: String,
    /// The lines below the title; those that start with `+`, `-` or `~` are coloured.
    pub lines: Vec<String>,
}

/// A drawn comparison.
pub struct Rendering {
    pixels: RgbImage,
}

impl Images {
    /// Draws 2 to 12 images; further ones are left out.
    pub fn render(&self, how: Render, panels: &[Panel]) -> Rendering {
        match self.render_until(how, panels, |_, _| Ok::<(), Infallible>(())) {
            Ok(rendering) => rendering,
        }
    }

    /// Draws images as [`Images::render`] does, until `step` fails. It is called before each image, with the number of
    /// images drawn and the total.
    pub fn render_until<E>(
        &self,
        how: Render,
        panels: &[Panel],
        step: impl Fn(u64, u64) -> Result<(), E>,
    ) -> Result<Rendering, E> {
        let panels = panels.get(..MAX_PANELS).unwrap_or(panels);
        let how = if panels.len() > MAX_IN_DETAIL { Render::Sheet } else { how };
        let (columns, side) = grid(how, panels.len());
        let within = (side, side * 3 / 2);
        let mut drawn: Vec<Cell> = Vec::new();
        match (how, panels) {
            (Render::Heatmap, [first, others @ ..]) => {
                let of = u64::try_from(others.len()).unwrap_or(u64::MAX);
                for (done, other) in (0..).zip(others) {
                    step(done, of)?;
                    let heat = self.heat_cell(first, other, within);
                    drawn.extend([self.cell(first, within), self.cell(other, within), heat]);
                }
            }
            _ => {
                let of = u64::try_from(panels.len()).unwrap_or(u64::MAX);
                for (done, panel) in (0..).zip(panels) {
                    step(done, of)?;
                    drawn.push(self.cell(panel, within));
                }
            }
        }
        Ok(Rendering { pixels: arrange(drawn, columns, within) })
    }

    /// Returns an image, or the poster of a video, as a JPEG file of at most `max_bytes`, scaled down as little as
    /// possible.
    pub(crate) fn reduced(&self, hash: Hash, max_bytes: usize) -> Result<Vec<u8>, ImageUnavailable> {
        let within = (REDUCED_SIDE, REDUCED_SIDE);
        let pixels =
            self.with_still(hash, |image| resize(image.pixels(), fit_within((image.width(), image.height()), within)))?;
        Ok(Rendering { pixels }.jpeg_within(max_bytes))
    }

    /// Draws a map of where the second image differs from the first, without captions: as large as the larger of the
    /// two, with sides of at most `side` pixels.
    pub fn heat_map(&self, one: Hash, other: Hash, side: u32) -> Result<Rendering, Incomparable> {
        let pair = self.align(one, other)?;
        let found = pair.compare();
        Ok(Rendering { pixels: heat(&pair, found.bounds, found.size, (side, side)) })
    }

    fn cell(&self, panel: &Panel, within: (u32, u32)) -> Cell {
        let image = match panel.image {
            Some(hash) => self.view(hash, within),
            None => Err(panel.absent.clone().unwrap_or_else(|| "no image".to_owned())),
        };
        let lines = panel.lines.iter().map(|line| (line.clone(), colour_of(line))).collect();
        Cell { image, title: panel.title.clone(), lines }
    }

    fn heat_cell(&self, one: &Panel, other: &Panel, within: (u32, u32)) -> Cell {
        let title = "what changed".to_owned();
        let pair = match (one.image, other.image) {
            (Some(one), Some(other)) => self.align(one, other).map_err(|error| error.source.to_string()),
            _ => Err("nothing to compare".to_owned()),
        };
        match pair {
            Ok(pair) => {
                let found = pair.compare();
                let lines = summary(&found).into_iter().map(|line| (line, FAINT)).collect();
                Cell { image: Ok(heat(&pair, found.bounds, found.size, within)), title, lines }
            }
            Err(why) => Cell { image: Err(why), title, lines: Vec::new() },
        }
    }

    /// Returns an image scaled to this size; if the original is missing, its thumbnail.
    fn view(&self, hash: Hash, within: (u32, u32)) -> Result<RgbImage, String> {
        let original = self
            .with_picture(hash, |image| resize(image.pixels(), fit_within((image.width(), image.height()), within)));
        original.or_else(|error| {
            let file = self.thumbnail(hash, ThumbSide::Large).map_err(|_| error.to_string())?;
            let image = decode(&file).map_err(|_| error.to_string())?;
            Ok(resize(image.pixels(), fit_within((image.width(), image.height()), within)))
        })
    }
}

impl Rendering {
    /// Returns the pixels.
    pub fn pixels(&self) -> &RgbImage {
        &self.pixels
    }

    /// Encodes the rendering as PNG.
    pub fn png(&self) -> Vec<u8> {
        let mut file = Cursor::new(Vec::new());
        if let Err(error) = self.pixels.write_to(&mut file, ImageFormat::Png) {
            // Writing to memory does not fail.
            tracing::error!(%error, "a rendering cannot be encoded");
        }
        file.into_inner()
    }

    /// Encodes the rendering in at most this many bytes: as PNG if that is small enough, otherwise as JPEG. Returns the
    /// media type too.
    pub fn within(&self, max_bytes: usize) -> (Vec<u8>, &'static str) {
        let png = self.png();
        if png.len() <= max_bytes {
            return (png, "image/png");
        }
        (self.jpeg_within(max_bytes), "image/jpeg")
    }

    /// Returns the rendering with sides of at most this many pixels, as clients with low limits would scale it down
    /// anyway.
    #[must_use]
    pub fn fitting(self, side: u32) -> Rendering {
        let size = fit_within(self.pixels.dimensions(), (side, side));
        if size == self.pixels.dimensions() { self } else { Rendering { pixels: resize_rgb(&self.pixels, size) } }
    }

    fn jpeg_within(&self, max_bytes: usize) -> Vec<u8> {
        let mut smaller = self.pixels.clone();
        loop {
            for quality in [88, 75, 60] {
                let mut file = Vec::new();
                let written = JpegEncoder::new_with_quality(&mut file, quality).encode_image(&smaller);
                if written.is_ok() && file.len() <= max_bytes || smaller.width() <= 64 {
                    return file;
                }
            }
            let size = (smaller.width() * 3 / 4, (smaller.height() * 3 / 4).max(1));
            smaller = resize_rgb(&smaller, size);
        }
    }
}

/// The maximum number of images in layouts other than a sheet.
const MAX_IN_DETAIL: usize = 4;
/// The maximum side of an image that is sent reduced: enough to continue from it.
const REDUCED_SIDE: u32 = 2048;
/// The maximum number of images in one rendering.
const MAX_PANELS: usize = 12;
/// The maximum number of lines in a caption.
const MAX_LINES: usize = 7;
/// The maximum number of lines that one caption line may be wrapped to.
const MAX_WRAPPED_LINES: usize = 4;
/// The minimum width of a cell, so that its caption fits.
const MIN_CELL_WIDTH: u32 = 300;

/// The height of a cell without an image.
const EMPTY_HEIGHT: u32 = 160;

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

/// One cell of the grid.
struct Cell {
    /// The image, or why it is missing.
    image: Result<RgbImage, String>,
    title: String,
    lines: Vec<(String, Rgb<u8>)>,
}

impl Cell {
    /// Wraps the caption to this width; the last line states how many lines are left out.
    fn wrapped(mut self, side: f32) -> Cell {
        let mut lines: Vec<(String, Rgb<u8>)> = Vec::new();
        let total = self.lines.len();
        for (number, (line, colour)) in self.lines.into_iter().enumerate() {
            // Reserve the last line for that note, unless nothing follows.
            let room = MAX_LINES - lines.len() - usize::from(number + 1 < total);
            if room == 0 {
                lines.push((format!("and {} more", total - number), FAINT));
                break;
            }
            let parts = wrap(&line, LINE_SIZE, side, room.min(MAX_WRAPPED_LINES));
            lines.extend(parts.into_iter().map(|part| (part, colour)));
        }
        self.lines = lines;
        self
    }
}

/// Returns the number of columns for this many images, and the maximum width of each: the total stays below 2000
/// pixels.
fn grid(how: Render, images: usize) -> (u32, u32) {
    match (how, images) {
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

fn arrange(cells: Vec<Cell>, columns: u32, within: (u32, u32)) -> RgbImage {
    // All cells are as wide as the widest image, and smaller images are enlarged, so that an image and its upscale are
    // shown at the same size.
    let widest = cells.iter().filter_map(|cell| cell.image.as_ref().ok()).map(RgbImage::width).max();
    let side = widest.unwrap_or(0).max(MIN_CELL_WIDTH).min(within.0.max(MIN_CELL_WIDTH));
    let sizes: Vec<(u32, u32)> = cells
        .iter()
        .map(|cell| {
            cell.image.as_ref().map_or((side, EMPTY_HEIGHT), |image| fill_within(image.dimensions(), (side, within.1)))
        })
        .collect();
    let used = u32::try_from(cells.len()).unwrap_or(columns).clamp(1, columns);
    let per_row = usize::try_from(used).unwrap_or(1);
    let cells: Vec<Cell> = cells.into_iter().map(|cell| cell.wrapped(float(side))).collect();
    let rows = || cells.chunks(per_row).zip(sizes.chunks(per_row));
    let heights: Vec<(u32, u32)> = rows().map(|(cells, sizes)| (image_height(sizes), caption_height(cells))).collect();

    let total_width = MARGIN + used * (side + MARGIN);
    let total_height = MARGIN + heights.iter().map(|(image, caption)| image + caption + MARGIN).sum::<u32>();
    let mut sheet = RgbImage::from_pixel(total_width, total_height, BACKGROUND);
    let mut y = MARGIN;
    for ((cells, sizes), (image, caption)) in rows().zip(&heights) {
        let mut x = MARGIN;
        for (cell, size) in cells.iter().zip(sizes) {
            draw_image(&mut sheet, cell, *size, (x, y), (side, *image));
            draw_caption(&mut sheet, cell, (x, y + image + GAP), side);
            x += side + MARGIN;
        }
        y += image + caption + MARGIN;
    }
    sheet
}

fn image_height(sizes: &[(u32, u32)]) -> u32 {
    sizes.iter().map(|size| size.1).max().unwrap_or(0)
}

fn caption_height(cells: &[Cell]) -> u32 {
    let lines = cells.iter().map(|cell| cell.lines.len()).max().unwrap_or(0);
    GAP + line_height(TITLE_SIZE) + u32::try_from(lines).unwrap_or(0) * line_height(LINE_SIZE)
}

fn draw_image(sheet: &mut RgbImage, cell: &Cell, size: (u32, u32), (x, y): (u32, u32), room: (u32, u32)) {
    match &cell.image {
        Ok(image) => {
            let image = resize_rgb(image, size);
            // At the bottom, next to its caption.
            let (left, top) = (x + (room.0 - size.0) / 2, y + room.1 - size.1);
            paste(sheet, &image, (left, top));
        }
        Err(why) => {
            paste(sheet, &RgbImage::from_pixel(room.0, room.1, EMPTY), (x, y));
            let why = truncate(why, LINE_SIZE, float(room.0.saturating_sub(2 * GAP)));
            let left = (float(room.0) - width(&why, LINE_SIZE)).max(0.0) / 2.0;
            draw(sheet, (x + pixel(left), y + room.1 / 2), &why, LINE_SIZE, FAINT);
        }
    }
}

fn draw_caption(sheet: &mut RgbImage, cell: &Cell, (x, mut y): (u32, u32), side: u32) {
    draw(sheet, (x, y), &truncate(&cell.title, TITLE_SIZE, float(side)), TITLE_SIZE, BRIGHT);
    y += line_height(TITLE_SIZE);
    for (line, colour) in &cell.lines {
        draw(sheet, (x, y), line, LINE_SIZE, *colour);
        y += line_height(LINE_SIZE);
    }
}

/// Summarises a comparison in a few short lines.
fn summary(found: &ImageComparison) -> Vec<String> {
    let mut lines: Vec<String> = found.verdict().split(" · ").map(str::to_owned).collect();
    lines.push(format!("SSIM {:.2} · distance {} of 128", found.similarity, found.distance));
    if !found.same_shape {
        lines.push("different shapes: centred on each other".to_owned());
    } else if found.scaled {
        lines.push("different sizes: scaled to the larger".to_owned());
    }
    lines
}

/// Draws where the second image differs from the first, over the first in faint grey, with a frame around all changes.
fn heat(pair: &AlignedPair, bounds: Option<Area>, size: (u32, u32), within: (u32, u32)) -> RgbImage {
    let shown = fit_within(pair.one.dimensions(), within);
    let ground = resize_rgb(&pair.one, shown);
    let heat = fast_blur(&box_average(&pair.differences(), shown), 1.5);
    let mut map = RgbImage::new(shown.0, shown.1);
    for ((to, under), heat) in map.pixels_mut().zip(ground.pixels()).zip(heat.pixels()) {
        // Smaller differences are JPEG artefacts.
        let warmth = (f32::from(heat.0[0].saturating_sub(8)) / 247.0).sqrt();
        *to = blend(dimmed(*under), ramp(warmth), (warmth * 1.7).min(0.95));
    }
    if let Some(bounds) = bounds {
        frame(&mut map, bounds, size);
    }
    map
}

fn dimmed(colour: Rgb<u8>) -> Rgb<u8> {
    let [red, green, blue] = colour.0.map(u32::from);
    let light = u8::try_from((red * 3 + green * 6 + blue) / 10).unwrap_or(u8::MAX);
    blend(BACKGROUND, Rgb([light; 3]), 0.42)
}

/// Returns a colour from violet through red and orange to pale yellow, a scale that also works for colour-blind readers
/// and in print.
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
        (Some((from, low)), Some((to, high))) if to > from => blend(*low, *high, (warmth - from) / (to - from)),
        (_, Some((_, colour))) => *colour,
        _ => BRIGHT,
    }
}

fn frame(map: &mut RgbImage, bounds: Area, size: (u32, u32)) {
    let (width, height) = map.dimensions();
    let scale = |at: u32, from: u32, to: u32| {
        u32::try_from(u64::from(at) * u64::from(to) / u64::from(from.max(1))).unwrap_or(to).min(to.saturating_sub(1))
    };
    let (left, top) = (scale(bounds.x, size.0, width), scale(bounds.y, size.1, height));
    let right = scale(bounds.x + bounds.width, size.0, width);
    let bottom = scale(bounds.y + bounds.height, size.1, height);
    let mut mark = |x: u32, y: u32| {
        if let Some(pixel) = map.get_pixel_mut_checked(x, y) {
            *pixel = blend(*pixel, BRIGHT, 0.75);
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

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the point is within the image")]
fn pixel(at: f32) -> u32 {
    at as u32
}
