//! The progress bar, shown on stderr if that is a terminal and the work takes a while.

use std::fmt::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use parking_lot::{Mutex, MutexGuard};

use crate::workspace::Progress;

/// The delay before the bar appears; shorter work shows none.
const BAR_DELAY: Duration = Duration::from_millis(300);

/// The progress bar of this process.
pub(super) struct Bar {
    state: Mutex<State>,
}

struct State {
    wanted: bool,
    since: Option<Instant>,
    shown: Option<ProgressBar>,
}

impl Bar {
    /// Creates a bar, which stays hidden unless it is `wanted`.
    pub(super) fn new(wanted: bool) -> Bar {
        Bar { state: Mutex::new(State { wanted, since: None, shown: None }) }
    }

    /// Returns the callback that updates this bar.
    pub(super) fn mover(self: &Arc<Bar>) -> Progress {
        let bar = Arc::clone(self);
        Arc::new(move |what, done, total| bar.update(what, done, total))
    }

    /// Hides the bar permanently, where it would interfere with other output.
    pub(super) fn silence(&self) {
        self.clear();
        self.state().wanted = false;
    }

    /// Removes the bar from the screen until there is more work.
    pub(super) fn clear(&self) {
        let mut state = self.state();
        state.since = None;
        if let Some(shown) = state.shown.take() {
            shown.finish_and_clear();
        }
    }

    fn update(&self, what: &str, done: u64, total: u64) {
        let mut state = self.state();
        if !state.wanted || state.since.get_or_insert_with(Instant::now).elapsed() < BAR_DELAY {
            return;
        }
        let shown = state
            .shown
            .get_or_insert_with(|| ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr_with_hz(10)));
        // The total may only become known during the work, so every update sets the style.
        let length = (total > 0).then_some(total);
        if shown.length() != length || shown.message() != what {
            shown.set_style(style(length.is_some()));
            shown.set_message(what.to_owned());
            match length {
                Some(length) => shown.set_length(length),
                None => shown.unset_length(),
            }
        }
        shown.set_position(done);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

fn style(known: bool) -> ProgressStyle {
    let template = if known {
        "{msg} [{bar:30}] {percent}%  {human_pos}/{human_len}{rate}{left}"
    } else {
        "{msg}: {human_pos}{rate}"
    };
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    style.progress_chars("=> ").with_key("rate", rate).with_key("left", left)
}

/// Returns the rate, once it is known.
fn rate(state: &ProgressState, out: &mut dyn Write) {
    // A write error in the bar does not matter.
    let _ = match state.per_sec() {
        none if none < 0.05 => Ok(()),
        few if few < 10.0 => write!(out, "  {few:.1}/s"),
        many => write!(out, "  {many:.0}/s"),
    };
}

/// Returns the remaining time, once it is known.
fn left(state: &ProgressState, out: &mut dyn Write) {
    if state.per_sec() >= 0.05 {
        let _ = write!(out, "  {} left", HumanDuration(state.eta()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_work_shows_nothing() {
        let bar = Arc::new(Bar::new(true));
        bar.mover()("checking", 1, 2);
        assert!(bar.state().shown.is_none());
        assert!(bar.state().since.is_some());
        bar.clear();
        assert!(bar.state().since.is_none(), "the next work has its own delay");
    }

    #[test]
    fn the_bar_needs_a_terminal() {
        let bar = Arc::new(Bar::new(false));
        bar.state().since = Instant::now().checked_sub(BAR_DELAY * 2);
        bar.mover()("checking", 1, 2);
        assert!(bar.state().shown.is_none());
    }
}
