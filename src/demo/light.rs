//! The lighting of a time of day, chosen by the words of a prompt.

pub(super) type Colour = [f32; 3];

/// The colours of a time of day.
pub(super) struct Lighting {
    pub(super) top: Colour,
    pub(super) low: Colour,
    pub(super) glow: Colour,
    pub(super) far: Colour,
    pub(super) near: Colour,
    /// The position and size of the sun or moon.
    pub(super) sun: Option<(f32, f32, f32)>,
    pub(super) stars: f32,
}

/// A time of day: its words, its colours from the sky down to the nearest ground, the height and size of the sun, the
/// words required for the sun to appear, and the brightness of the stars.
type Hour = (&'static [&'static str], [Colour; 5], Option<(f32, f32)>, &'static [&'static str], f32);

/// The times of day. The first that a prompt mentions is used, otherwise a clear day.
const HOURS: [Hour; 5] = [
    (
        &["night", "moon", "aurora", "northern lights", "midnight"],
        [[0.03, 0.05, 0.12], [0.14, 0.22, 0.36], [0.72, 0.78, 0.90], [0.13, 0.19, 0.30], [0.02, 0.03, 0.07]],
        Some((0.20, 0.045)),
        &["moon"],
        1.0,
    ),
    (
        &["dawn", "sunrise", "morning"],
        [[0.50, 0.66, 0.82], [0.98, 0.84, 0.74], [1.0, 0.92, 0.78], [0.62, 0.64, 0.74], [0.16, 0.22, 0.26]],
        Some((0.40, 0.030)),
        &[],
        0.0,
    ),
    (
        &["dusk", "sunset", "golden", "evening"],
        [[0.20, 0.20, 0.40], [0.98, 0.62, 0.38], [1.0, 0.80, 0.48], [0.56, 0.38, 0.44], [0.10, 0.07, 0.13]],
        Some((0.44, 0.040)),
        &[],
        0.0,
    ),
    (
        &["storm", "rain", "overcast"],
        [[0.28, 0.33, 0.38], [0.66, 0.70, 0.72], [0.86, 0.88, 0.86], [0.46, 0.52, 0.56], [0.10, 0.14, 0.16]],
        None,
        &[],
        0.0,
    ),
    (
        &["desert", "dunes"],
        [[0.26, 0.52, 0.72], [0.96, 0.86, 0.70], [1.0, 0.94, 0.78], [0.86, 0.66, 0.46], [0.56, 0.30, 0.16]],
        Some((0.22, 0.034)),
        &[],
        0.0,
    ),
];

const DAY: Hour = (
    &[],
    [[0.30, 0.54, 0.80], [0.82, 0.90, 0.94], [1.0, 0.98, 0.90], [0.52, 0.66, 0.76], [0.12, 0.26, 0.20]],
    Some((0.18, 0.030)),
    &[],
    0.0,
);

impl Lighting {
    /// Returns the lighting for a prompt. `says` returns whether the prompt contains one of some words; `place`, from 0
    /// to 1, is the position of the sun.
    pub(super) fn of(says: &dyn Fn(&[&str]) -> bool, place: f32) -> Lighting {
        let hour = HOURS.iter().find(|(words, ..)| says(words)).unwrap_or(&DAY);
        let (_, [top, low, glow, far, near], sun, only_with, stars) = *hour;
        let shines = only_with.is_empty() || says(only_with);
        let sun = sun.filter(|_| shines).map(|(height, size)| (0.22 + 0.56 * place, height, size));
        Lighting { top, low, glow, far, near, sun, stars }
    }
}
