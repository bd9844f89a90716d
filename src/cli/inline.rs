//! Images in the terminal: in pixels if it can show them (kitty, iTerm2, sixels, and compatible ones), in coloured
//! half-blocks if it cannot, and not at all if stdout is not a terminal.

use std::env;

use image::{DynamicImage, RgbImage};
use terminal_size::terminal_size_of;

use super::output::Output;
use super::terminal::Listening;

/// The maximum number of columns of an image: wider ones are not easier to see.
const MOST_COLUMNS: u32 = 100;

/// Returns whether images are drawn: not in a file or a pipe, not as JSON, not without colour.
pub(super) fn is_shown(output: &Output) -> bool {
    !output.is_json() && output.is_interactive() && output.is_coloured()
}

/// Draws an image in at most that share of the terminal's height. A terminal that does not accept it is not a failure:
/// the text is there.
pub(super) fn draw(output: &mut Output, picture: &RgbImage, share: f64) {
    let Some(columns) = columns(output, picture, share) else { return };
    output.flush();
    // Kept until the image is drawn, since the drawing crate queries the terminal too.
    let mut listening = None;
    let protocol = DrawingProtocol::of_this_terminal(&mut listening);
    let config = viuer::Config {
        absolute_offset: false,
        width: Some(protocol.width(columns)),
        use_kitty: protocol == DrawingProtocol::Kitty,
        use_iterm: protocol == DrawingProtocol::Iterm,
        use_sixel: matches!(protocol, DrawingProtocol::Sixel { .. }),
        ..viuer::Config::default()
    };
    if let Err(error) = viuer::print(&DynamicImage::ImageRgb8(picture.clone()), &config) {
        tracing::debug!(%error, "the terminal does not show the picture");
    }
    if matches!(protocol, DrawingProtocol::Sixel { .. }) {
        // After sixels the cursor stands in their last line; after the others, below them.
        output.gap();
    }
}

/// The protocol by which a terminal draws images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DrawingProtocol {
    Kitty,
    Iterm,
    /// With the width of a character in pixels.
    Sixel {
        cell_width: u32,
    },
    HalfBlocks,
}

/// The width of the sixels for a character.
const SIXEL_CELL: u32 = 6;
/// The maximum width of an image in sixels.
const MOST_SIXELS: u32 = 1000;

impl DrawingProtocol {
    /// Returns the best protocol of this terminal: by its name if that is enough, by a query otherwise.
    fn of_this_terminal(listening: &mut Option<Listening>) -> DrawingProtocol {
        let says = |name: &str, words: &[&str]| {
            env::var(name).is_ok_and(|value| words.iter().any(|word| value.to_lowercase().contains(word)))
        };
        // A multiplexer inherits the name of its terminal, but forwards few of its sequences.
        let nested = env::var_os("TMUX").is_some() || says("TERM", &["screen", "tmux"]);
        let may_know_kitty = !nested
            && (env::var_os("KITTY_WINDOW_ID").is_some()
                || says("TERM", &["kitty", "ghostty"])
                || says("TERM_PROGRAM", &["kitty", "ghostty", "wezterm"]));
        let iterm = !nested && viuer::is_iterm_supported();
        if iterm && !may_know_kitty {
            return DrawingProtocol::Iterm;
        }
        *listening = Listening::begin();
        let can = listening.as_mut().map(|terminal| terminal.ask(may_know_kitty)).unwrap_or_default();
        match can.cell {
            _ if can.kitty => DrawingProtocol::Kitty,
            _ if iterm => DrawingProtocol::Iterm,
            cell if can.sixel => DrawingProtocol::Sixel { cell_width: cell.map_or(SIXEL_CELL, |(width, _)| width) },
            _ => DrawingProtocol::HalfBlocks,
        }
    }

    /// Returns the width in pixels of an image that takes that many columns.
    fn width(self, columns: u32) -> u32 {
        match self {
            DrawingProtocol::Sixel { cell_width } => (columns * cell_width).min(MOST_SIXELS) / SIXEL_CELL,
            DrawingProtocol::Kitty | DrawingProtocol::Iterm | DrawingProtocol::HalfBlocks => columns,
        }
    }
}

/// Returns the number of columns of an image; `None` if it is not to be drawn.
fn columns(output: &Output, picture: &RgbImage, share: f64) -> Option<u32> {
    if !is_shown(output) {
        return None;
    }
    let (width, height) = terminal_size_of(std::io::stdout())?;
    let rows = (f64::from(height.0) * share).max(4.0);
    // A character is about twice as high as it is wide.
    let by_height = rows * 2.0 * f64::from(picture.width()) / f64::from(picture.height().max(1));
    let most = f64::from(u32::from(width.0).min(MOST_COLUMNS));
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 1 and a few hundred")]
    let columns = by_height.min(most).max(1.0) as u32;
    Some(columns)
}
