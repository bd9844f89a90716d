//! Images in the terminal: as pixels if it supports them (kitty, iTerm2, sixel, and compatible ones), otherwise as
//! coloured half-blocks, and not at all if stdout is not a terminal.

use std::env;
use std::io::Write;

use image::RgbImage;
use terminal_size::terminal_size_of;

use super::drawing;
use super::output::Output;
use super::terminal::Listening;

/// The maximum number of columns of an image: wider ones are not easier to see.
const MAX_COLUMNS: u32 = 100;

/// Returns whether images are drawn: only on a terminal with colours, and not as JSON.
pub(super) fn is_shown(output: &Output) -> bool {
    !output.is_json() && output.is_interactive() && output.is_coloured()
}

/// Draws an image in at most this share of the terminal's height. A failure is ignored, since the text is there too.
pub(super) fn draw(output: &mut Output, picture: &RgbImage, share: f64) {
    let Some(columns) = columns(output, picture, share) else { return };
    output.flush();
    let drawn = match DrawingProtocol::of_this_terminal() {
        DrawingProtocol::Kitty => drawing::kitty(picture, columns),
        DrawingProtocol::Iterm => drawing::iterm(picture, columns),
        DrawingProtocol::Sixel { cell_width } => {
            Ok(drawing::sixels(picture, (columns * cell_width).min(MAX_SIXEL_WIDTH)))
        }
        DrawingProtocol::HalfBlocks => {
            let has_true_colour = variable_contains("COLORTERM", &["truecolor", "24bit"]);
            Ok(drawing::half_blocks(picture, columns, has_true_colour))
        }
    };
    // A failure to write is remembered by the output, as for text.
    let shown = drawn.map(|text| output.raw().write_all(text.as_bytes()));
    if let Err(error) = shown {
        tracing::debug!(%error, "cannot encode an image for the terminal");
    }
}

/// The protocol for drawing images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DrawingProtocol {
    Kitty,
    Iterm,
    /// Includes the width of a character cell in pixels.
    Sixel {
        cell_width: u32,
    },
    HalfBlocks,
}

/// The width of a character in pixels, for a terminal that does not report it.
const DEFAULT_CELL_WIDTH: u32 = 6;
/// The maximum width of an image in sixels.
const MAX_SIXEL_WIDTH: u32 = 1000;

impl DrawingProtocol {
    /// Returns the best protocol of this terminal: by its name if that is enough, by a query otherwise.
    fn of_this_terminal() -> DrawingProtocol {
        // A multiplexer inherits the name of its terminal, but forwards few of its sequences.
        let nested = env::var_os("TMUX").is_some() || variable_contains("TERM", &["screen", "tmux"]);
        let may_know_kitty = !nested
            && (env::var_os("KITTY_WINDOW_ID").is_some()
                || variable_contains("TERM", &["kitty", "ghostty"])
                || variable_contains("TERM_PROGRAM", &["kitty", "ghostty", "wezterm"]));
        let iterm = !nested
            && (variable_contains("TERM_PROGRAM", &["iterm", "wezterm", "mintty", "rio", "warpterminal"])
                || variable_contains("LC_TERMINAL", &["iterm"]));
        if iterm && !may_know_kitty {
            return DrawingProtocol::Iterm;
        }
        let can = Listening::begin().map(|mut terminal| terminal.ask(may_know_kitty)).unwrap_or_default();
        match can.cell {
            _ if can.kitty => DrawingProtocol::Kitty,
            _ if iterm => DrawingProtocol::Iterm,
            cell if can.sixel => {
                DrawingProtocol::Sixel { cell_width: cell.map_or(DEFAULT_CELL_WIDTH, |(width, _)| width) }
            }
            _ => DrawingProtocol::HalfBlocks,
        }
    }
}

/// Returns whether a variable of the environment contains one of these words, in any case.
fn variable_contains(name: &str, words: &[&str]) -> bool {
    env::var(name).is_ok_and(|value| words.iter().any(|word| value.to_lowercase().contains(word)))
}

/// Returns the number of columns of an image; `None` if it should not be drawn.
fn columns(output: &Output, picture: &RgbImage, share: f64) -> Option<u32> {
    if !is_shown(output) {
        return None;
    }
    let (width, height) = terminal_size_of(std::io::stdout())?;
    let rows = (f64::from(height.0) * share).max(4.0);
    // A character cell is about twice as high as it is wide.
    let by_height = rows * 2.0 * f64::from(picture.width()) / f64::from(picture.height().max(1));
    let most = f64::from(u32::from(width.0).min(MAX_COLUMNS));
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 1 and a few hundred")]
    let columns = by_height.min(most).max(1.0) as u32;
    Some(columns)
}
