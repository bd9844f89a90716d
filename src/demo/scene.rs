//! Procedural images: layered landscapes that follow the recipe. The words of the prompt choose light, weather and
//! buildings, the seed chooses the shapes, the guidance the saturation, and few steps leave the image rough. The same
//! recipe results in the same image, a reroll in a similar one, and a changed word in the expected change.

use image::codecs::png::{CompressionType, FilterType, PngEncoder};
use image::{ExtendedColorType, ImageEncoder};

use super::light::{Colour, Lighting};
use crate::model::Recipe;

/// A landscape about to be painted.
struct Scene {
    width: usize,
    height: usize,
    seed: u64,
    light: Lighting,
    ridges: usize,
    rough: f32,
    water: bool,
    snow: bool,
    mist: f32,
    trees: bool,
    dunes: bool,
    lighthouse: bool,
    sails: bool,
    aurora: bool,
    clouds: f32,
    strength: f32,
    grain: f32,
}

/// Paints the image of a recipe, and returns it as a PNG file.
pub(super) fn paint(recipe: &Recipe) -> Vec<u8> {
    let scene = Scene::of(recipe);
    let pixels = scene.pixels();
    let mut png = Vec::new();
    let encoder = PngEncoder::new_with_quality(&mut png, CompressionType::Fast, FilterType::Up);
    let (width, height) = (u32::try_from(scene.width).unwrap_or(1), u32::try_from(scene.height).unwrap_or(1));
    // Writing to memory does not fail; otherwise the demo would only lack an image.
    let _ = encoder.write_image(&pixels, width, height, ExtendedColorType::Rgb8);
    png
}

impl Scene {
    fn of(recipe: &Recipe) -> Scene {
        let prompt = recipe.prompt.to_lowercase();
        let negative = recipe.negative_prompt.as_deref().unwrap_or_default().to_lowercase();
        let says = |words: &[&str]| words.iter().any(|word| prompt.contains(word) && !negative.contains(word));
        let seed = recipe.seed.map_or(0, |seed| seed.0);
        let place = unit(seed, 1, 7);
        let steps = recipe.steps.unwrap_or(30).clamp(1, 60);
        let guidance = recipe.guidance_scale.unwrap_or(6.0).clamp(1.0, 16.0);
        let side = |side: Option<u32>| usize::try_from(side.unwrap_or(640).clamp(64, 2048)).unwrap_or(640);
        Scene {
            width: side(recipe.width),
            height: side(recipe.height),
            seed,
            light: Lighting::of(&says, place),
            ridges: if says(&["plain", "sea", "ocean"]) {
                2
            } else if says(&["mountain", "peaks", "fjord"]) {
                6
            } else {
                4
            },
            rough: if says(&["mountain", "peaks", "fjord", "cliff"]) { 1.5 } else { 0.8 },
            water: says(&["lake", "harbour", "sea", "ocean", "fjord", "river", "water"]),
            snow: says(&["snow", "winter", "frozen"]),
            mist: if says(&["mist", "fog", "haze"]) { 0.75 } else { 0.28 },
            trees: says(&["forest", "pines", "trees", "woods"]),
            dunes: says(&["desert", "dunes"]),
            lighthouse: says(&["lighthouse"]),
            sails: says(&["sail", "boat"]),
            aurora: says(&["aurora", "northern lights"]),
            clouds: if says(&["cloud", "storm"]) {
                0.55
            } else if says(&["clear"]) {
                0.0
            } else {
                0.22
            },
            strength: 0.62 + 0.06 * narrow(guidance),
            grain: 0.008 + 0.10 * (1.0 - narrow(f64::from(steps)) / 30.0).max(0.0),
        }
    }

    fn pixels(&self) -> Vec<u8> {
        let (width, height) = (self.width, self.height);
        let air = Air::over(self);
        let shore = if self.water { (share(height) * 0.66) as usize } else { height };
        let ridges: Vec<Vec<f32>> = (0..self.ridges).map(|layer| self.ridge(layer)).collect();
        let mut rows: Vec<Colour> = Vec::with_capacity(width * height);
        for y in 0..shore.min(height) {
            for x in 0..width {
                rows.push(self.land(x, y, &ridges, &air));
            }
        }
        self.stand(&mut rows, shore);
        for y in shore..height {
            let depth = share(y - shore) / share((height - shore).max(1));
            let wave = fractal(self.seed, 50, depth.powf(0.5) * 42.0, 2) - 0.5;
            for x in 0..width {
                rows.push(self.mirror(x, y, depth, wave, shore, &rows));
            }
        }
        let mut bytes = Vec::with_capacity(rows.len() * 3);
        for (at, colour) in rows.iter().enumerate() {
            let (x, y) = (at % width, at / width);
            let off = [share(x) / share(width) - 0.5, share(y) / share(height) - 0.5];
            let edge = 1.0 - 0.35 * (off[0] * off[0] + off[1] * off[1]);
            let noise = (unit(self.seed, at as u64, 99) - 0.5) * self.grain;
            let grey = (colour[0] + colour[1] + colour[2]) / 3.0;
            for part in colour {
                let part = (grey + (part - grey) * self.strength) * edge + noise;
                bytes.push(level(part));
            }
        }
        bytes
    }

    /// Returns the top edge of a ridge in each column, as a share of the height.
    fn ridge(&self, layer: usize) -> Vec<f32> {
        let depth = (share(layer) + 1.0) / share(self.ridges);
        let base = if self.water { 0.36 + 0.26 * depth } else { 0.40 + 0.44 * depth };
        let high = (0.30 - 0.19 * depth) * self.rough;
        let wide = 2.2 + 3.0 * depth;
        let salt = 11 + layer as u64;
        (0..self.width)
            .map(|x| {
                let u = share(x) / share(self.width);
                let shape = if self.dunes {
                    0.5 + 0.5
                        * (u * wide * 2.1 + 6.0 * unit(self.seed, salt, 3)).sin()
                        * fractal(self.seed, salt, u * 2.0, 2)
                } else {
                    fractal(self.seed, salt, u * wide, 5)
                };
                let mut top = base - high * shape;
                if self.trees && layer + 2 >= self.ridges {
                    let step = 60.0 - 22.0 * depth;
                    let cell = (u * step).floor();
                    let tall = unit(self.seed, cell as u64, salt + 40);
                    let middle = (u * step - cell - 0.5).abs() * 2.0;
                    top -= (0.03 + 0.07 * depth * tall) * (1.0 - middle).max(0.0) * if tall > 0.2 { 1.0 } else { 0.2 };
                }
                top
            })
            .collect()
    }

    /// Returns the colour of the sky or of the ridges in front of it.
    fn land(&self, x: usize, y: usize, ridges: &[Vec<f32>], air: &Air) -> Colour {
        let (u, v) = (share(x) / share(self.width), share(y) / share(self.height));
        let covered = ridges.iter().any(|ridge| ridge.get(x).is_some_and(|top| v >= *top));
        let mut colour = if covered { self.light.low } else { self.sky(x, y, air) };
        let count = share(self.ridges.max(2) - 1);
        for (layer, ridge) in ridges.iter().enumerate() {
            let top = ridge.get(x).copied().unwrap_or(1.0);
            if v < top {
                continue;
            }
            let depth = share(layer) / count;
            let mut ground = mix(self.light.far, self.light.near, depth.powf(0.8));
            let below = ((v - top) / 0.16).min(1.0);
            if self.snow && below < 0.5 && layer + 1 < ridges.len() {
                let patch = 0.55 + 0.45 * smooth(self.seed, 70 + layer as u64, u * 90.0 - v * 30.0);
                ground = mix(ground, [0.90, 0.93, 0.97], ((0.5 - below) * 1.5 * patch).clamp(0.0, 0.8));
            }
            if self.snow && layer + 1 == ridges.len() {
                ground = mix(ground, [0.84, 0.88, 0.94], 0.55);
            }
            // Haze between the ridges lightens the foot of each.
            let air = self.mist * below * (1.0 - depth * 0.8);
            colour = mix(ground, mix(self.light.low, self.light.glow, 0.25), air);
        }
        colour
    }

    fn sky(&self, x: usize, y: usize, air: &Air) -> Colour {
        let (u, v) = (share(x) / share(self.width), share(y) / share(self.height));
        let light = &self.light;
        let mut colour = mix(light.top, light.low, (v / 0.62).clamp(0.0, 1.0).powf(0.85));
        let tall = share(self.height) / share(self.width);
        if let Some((sun_u, sun_v, size)) = light.sun {
            let away = ((u - sun_u).powi(2) + ((v - sun_v) * tall).powi(2)).sqrt();
            colour = mix(colour, light.glow, (-away * 4.2).exp() * 0.75);
            let disc = ((size - away) / 0.006).clamp(0.0, 1.0);
            colour = mix(colour, [1.0, 0.97, 0.90], disc * 0.96);
        }
        if light.stars > 0.0 {
            let (cell_u, cell_v) = ((u * 260.0) as u64, (v * tall * 260.0) as u64);
            let chance = unit(self.seed, cell_u * 1009 + cell_v, 5);
            if chance > 0.993 {
                let shine = (1.0 - v / 0.55).max(0.0) * light.stars * (chance - 0.993) / 0.007;
                colour = mix(colour, [0.95, 0.96, 1.0], shine);
            }
        }
        for (band, curtain) in air.curtains.iter().enumerate() {
            let (line, ray) = curtain.get(x).copied().unwrap_or((0.0, 0.0));
            if v < line {
                let over = (line - v).min(0.34) / 0.34;
                let glow = (over * (1.0 - over) * 4.0).powf(1.4) * ray * 0.42;
                colour = mix(colour, if band == 1 { [0.62, 0.42, 0.86] } else { [0.32, 0.92, 0.66] }, glow);
            }
        }
        if self.clouds > 0.0 {
            let band = (v * CLOUD_BANDS) as usize;
            let at = |band: usize| air.across.get(band * self.width + x).copied().unwrap_or(0.0);
            let within = v * CLOUD_BANDS - share(band);
            let across = at(band) + (at(band + 1) - at(band)) * within;
            let cloud = across * air.down.get(y).copied().unwrap_or(0.0);
            let cover = ((cloud - 0.22) * 2.6).clamp(0.0, 1.0) * self.clouds * (1.0 - v).sqrt();
            colour = mix(colour, mix(light.low, [1.0, 1.0, 1.0], 0.35), cover);
        }
        colour
    }

    /// Returns the colour of the water: a reflection of what is above it, broken by waves.
    fn mirror(&self, x: usize, y: usize, depth: f32, wave: f32, shore: usize, rows: &[Colour]) -> Colour {
        let ripple = (unit(self.seed, (y as u64) << 20 | (x as u64 / 9), 51) - 0.5) * 10.0 * depth;
        let from_x = (share(x) + wave * 26.0 * (0.2 + depth) + ripple).clamp(0.0, share(self.width) - 1.0) as usize;
        let up = 2 + ((share(y - shore)) * 0.86) as usize;
        let from_y = shore.saturating_sub(up);
        let above = rows.get(from_y * self.width + from_x).copied().unwrap_or(self.light.low);
        let deep = mix(self.light.top, self.light.near, 0.45);
        let mut colour = mix(above, deep, 0.22 + 0.34 * depth);
        if unit(self.seed, (y as u64 / 2) << 20 | (x as u64 / 14), 52) > 0.965 {
            colour = mix(colour, self.light.glow, 0.22 * (1.0 - depth));
        }
        colour
    }

    /// Draws the objects at the shore.
    fn stand(&self, rows: &mut [Colour], shore: usize) {
        let dark = mix(self.light.near, [0.02, 0.02, 0.04], 0.45);
        let mut dot = |x: f32, y: f32, colour: Colour, much: f32| {
            if x < 0.0 || y < 0.0 || x >= share(self.width) || y >= share(shore) {
                return;
            }
            if let Some(under) = rows.get_mut(y as usize * self.width + x as usize) {
                *under = mix(*under, colour, much);
            }
        };
        let (wide, tall) = (share(self.width), share(shore));
        if self.lighthouse {
            let middle = wide * (0.70 + 0.12 * unit(self.seed, 4, 4));
            let (foot, top) = (tall * 0.985, tall * 0.56);
            for y in top as usize..foot as usize {
                let down = (share(y) - top) / (foot - top);
                let half = wide * (0.011 + 0.011 * down);
                let band =
                    if ((down * 5.0) as usize).is_multiple_of(2) { [0.93, 0.90, 0.86] } else { [0.62, 0.20, 0.16] };
                for x in 0..(half * 2.0) as usize {
                    let across = share(x) / half - 1.0;
                    dot(middle + share(x) - half, share(y), mix(band, dark, 0.25 + 0.4 * across.max(0.0)), 1.0);
                }
            }
            let reach = wide * 0.09;
            for y in 0..(reach * 2.0) as usize {
                for x in 0..(reach * 2.0) as usize {
                    let (off_x, off_y) = (share(x) - reach, share(y) - reach);
                    let away = (off_x * off_x + off_y * off_y).sqrt() / reach;
                    dot(middle + off_x, top - wide * 0.012 + off_y, [1.0, 0.93, 0.70], (1.0 - away).max(0.0).powf(2.6));
                }
            }
            for x in 0..(wide * 0.34) as usize {
                let across = share(x) / (wide * 0.34) * 2.0 - 1.0;
                let rise =
                    tall * 0.045 * (1.0 - across * across) * (0.8 + 0.4 * fractal(self.seed, 33, share(x) / 40.0, 3));
                for y in 0..rise as usize {
                    dot(middle + share(x) - wide * 0.17, tall - share(y) - 1.0, dark, 1.0);
                }
            }
        }
        if self.sails {
            for boat in 0..3_u64 {
                let middle = wide * (0.14 + 0.2 * share_of(boat) + 0.10 * unit(self.seed, boat, 6));
                let size = wide * (0.030 + 0.020 * unit(self.seed, boat, 8));
                for y in 0..(size * 1.9) as usize {
                    let reach = size * 0.62 * share(y) / (size * 1.9);
                    for x in 0..reach as usize {
                        dot(middle + share(x) + 1.0, tall - size * 2.1 + share(y), [0.95, 0.92, 0.86], 0.92);
                        dot(middle - share(x) * 0.55 - 1.0, tall - size * 2.1 + share(y), [0.80, 0.76, 0.72], 0.92);
                    }
                }
                for x in 0..(size * 1.5) as usize {
                    for y in 0..(size * 0.18) as usize {
                        dot(middle - size * 0.7 + share(x), tall - share(y) - 1.0, dark, 1.0);
                    }
                }
            }
        }
    }
}

/// The number of bands of cloud from top to bottom.
const CLOUD_BANDS: f32 = 9.0;

/// The parts of the sky that are constant along a row or a column, computed once.
struct Air {
    /// The lower end and the brightness of each curtain of northern lights in each column.
    curtains: Vec<Vec<(f32, f32)>>,
    /// The amount of cloud in each band at each column.
    across: Vec<f32>,
    /// The amount of cloud at each row.
    down: Vec<f32>,
}

impl Air {
    fn over(scene: &Scene) -> Air {
        let column = |x: usize| share(x) / share(scene.width);
        let curtain = |band: u64| -> Vec<(f32, f32)> {
            let of = |x: usize| {
                let bend = fractal(scene.seed, 80 + band, column(x) * 2.4, 4);
                let ray = 0.6 + 0.4 * fractal(scene.seed, 90 + band, column(x) * 38.0, 2);
                (0.32 + 0.10 * share_of(band) + 0.22 * (bend - 0.5), ray)
            };
            (0..scene.width).map(of).collect()
        };
        let bands = 0..CLOUD_BANDS as usize + 2;
        let cloud = |band: usize| {
            (0..scene.width).map(move |x| fractal(scene.seed, 60, column(x) * 3.0 + share(band) * 7.3, 4))
        };
        Air {
            curtains: if scene.aurora { (0..3).map(curtain).collect() } else { Vec::new() },
            across: bands.flat_map(cloud).collect(),
            down: (0..scene.height)
                .map(|y| fractal(scene.seed, 61, share(y) / share(scene.height) * 13.0, 3))
                .collect(),
        }
    }
}

fn mix(from: Colour, to: Colour, much: f32) -> Colour {
    let much = much.clamp(0.0, 1.0);
    [0, 1, 2].map(|part: usize| {
        let (from, to) = (from.get(part).copied().unwrap_or(0.0), to.get(part).copied().unwrap_or(0.0));
        from + (to - from) * much
    })
}

/// Returns fractal noise along a line, 0 to 1.
fn fractal(seed: u64, salt: u64, at: f32, octaves: u32) -> f32 {
    let (mut sum, mut part, mut scale, mut whole) = (0.0, 1.0, 1.0, 0.0);
    for octave in 0..octaves {
        sum += part * smooth(seed, salt + u64::from(octave) * 131, at * scale);
        whole += part;
        part *= 0.5;
        scale *= 2.03;
    }
    sum / whole
}

fn smooth(seed: u64, salt: u64, at: f32) -> f32 {
    let cell = at.floor();
    let within = at - cell;
    let ease = within * within * (3.0 - 2.0 * within);
    let left = unit(seed, (cell + 4096.0) as u64, salt);
    let right = unit(seed, (cell + 4097.0) as u64, salt);
    left + (right - left) * ease
}

/// Returns a pseudo-random number from 0 to 1 that only depends on the arguments.
fn unit(seed: u64, at: u64, salt: u64) -> f32 {
    let mut mixed = seed ^ at.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ salt.wrapping_mul(0xd1b5_4a32_d192_ed03);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^= mixed >> 31;
    share_of(mixed >> 40) / 16_777_216.0
}

fn share(number: usize) -> f32 {
    number as f32
}

fn share_of(number: u64) -> f32 {
    number as f32
}

fn narrow(number: f64) -> f32 {
    number as f32
}

fn level(part: f32) -> u8 {
    (part.clamp(0.0, 1.0) * 255.0 + 0.5) as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Seed;

    #[test]
    fn the_same_recipe_gives_the_same_image_and_another_word_another() {
        let recipe = |prompt: &str, seed: u64| Recipe {
            prompt: prompt.to_owned(),
            seed: Some(Seed(seed)),
            width: Some(96),
            height: Some(64),
            ..Recipe::default()
        };
        let first = paint(&recipe("a lake at dusk", 7));
        assert_eq!(first, paint(&recipe("a lake at dusk", 7)));
        assert_ne!(first, paint(&recipe("a lake at dusk", 8)));
        assert_ne!(first, paint(&recipe("a lake at night", 7)));
        assert!(first.starts_with(b"\x89PNG"));
    }
}
