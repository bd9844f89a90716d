//! Videos for tests, created for this project with ffmpeg. Both contain the ComfyUI graph of [`PROMPT`] with the seed
//! 41.

/// A WebM of one second and 64 × 48 pixels (VP8), without a cover.
pub const WEBM: &[u8] = include_bytes!("../data/fox.webm");

/// An MP4 of one second and 64 × 48 pixels (H.264), with an orange cover of 96 × 64 pixels.
pub const MP4: &[u8] = include_bytes!("../data/fox.mp4");

/// The prompt in both.
pub const PROMPT: &str = "a fox runs through snow";
