//! Pictures in the terminal: in pixels where it can show them (kitty, iTerm2 and those that speak as they do), in coloured
//! half-blocks where it cannot, and not at all where nobody would see them.

use std::env;
use std::io::{self, IsTerminal};

use image::{DynamicImage, RgbImage};
use terminal_size::terminal_size_of;

use super::output::Output;

/// The most columns a picture takes: beyond that it is no easier to see, and half-blocks become a wall.
const MOST_COLUMNS: u32 = 100;

/// Whether a picture would be seen: not in a file or a pipe, not as JSON, not without colour.
pub(super) fn is_shown(output: &Output) -> bool {
    !output.is_json() && output.is_interactive() && output.is_coloured()
}

/// Draws a picture, at most so many shares of the terminal's height. A terminal that will not have it is no failure: the
/// words are there.
pub(super) fn draw(output: &mut Output, picture: &RgbImage, share: f64) {
    let Some(columns) = columns(output, picture, share) else { return };
    output.flush();
    let config = viuer::Config {
        absolute_offset: false,
        width: Some(columns),
        use_kitty: speaks_kitty(),
        ..viuer::Config::default()
    };
    if let Err(error) = viuer::print(&DynamicImage::ImageRgb8(picture.clone()), &config) {
        tracing::debug!(%error, "the terminal does not show the picture");
    }
}

/// How many columns the picture takes; none when it is not to be drawn.
fn columns(output: &Output, picture: &RgbImage, share: f64) -> Option<u32> {
    if !is_shown(output) {
        return None;
    }
    let (width, height) = terminal_size_of(io::stdout())?;
    let rows = (f64::from(height.0) * share).max(4.0);
    // A character is about twice as high as it is wide.
    let by_height = rows * 2.0 * f64::from(picture.width()) / f64::from(picture.height().max(1));
    let most = f64::from(u32::from(width.0).min(MOST_COLUMNS));
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 1 and a few hundred")]
    let columns = by_height.min(most).max(1.0) as u32;
    Some(columns)
}

/// Whether the terminal says by its name that it knows kitty's way. Asking it instead means to wait for an answer that
/// many never give, and to read what was typed meanwhile.
fn speaks_kitty() -> bool {
    let says = |name: &str, words: &[&str]| {
        env::var(name).is_ok_and(|value| words.iter().any(|word| value.to_lowercase().contains(word)))
    };
    io::stdin().is_terminal()
        && (env::var_os("KITTY_WINDOW_ID").is_some()
            || says("TERM", &["kitty", "ghostty"])
            || says("TERM_PROGRAM", &["kitty", "ghostty", "wezterm"]))
}
