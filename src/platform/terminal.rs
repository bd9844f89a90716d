//! Terminal settings.

use std::fs::File;

#[cfg(unix)]
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetpgrp, tcsetattr};

/// The terminal of this process in raw mode: input is neither echoed nor line-buffered. Dropping this restores the
/// settings.
pub(crate) struct RawTerminal {
    /// The terminal, for reading and writing.
    pub(crate) file: File,
    #[cfg(unix)]
    before: Termios,
}

impl RawTerminal {
    /// Prepares the terminal; `None` if there is none, or if this process is in the background, where changing the
    /// settings would stop it. A read returns nothing if no input arrives within `timeout` tenths of a second.
    #[cfg(unix)]
    pub(crate) fn open(timeout: u8) -> Option<RawTerminal> {
        let file = File::options().read(true).write(true).open("/dev/tty").ok()?;
        if tcgetpgrp(&file).ok()? != rustix::process::getpgrp() {
            return None;
        }
        let before = tcgetattr(&file).ok()?;
        let mut settings = before.clone();
        settings.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
        settings.special_codes[SpecialCodeIndex::VMIN] = 0;
        settings.special_codes[SpecialCodeIndex::VTIME] = timeout;
        let terminal = RawTerminal { file, before };
        tcsetattr(&terminal.file, OptionalActions::Drain, &settings).ok()?;
        Some(terminal)
    }

    /// Returns `None`: terminals are not queried on Windows.
    #[cfg(windows)]
    pub(crate) fn open(_timeout: u8) -> Option<RawTerminal> {
        None
    }
}

#[cfg(unix)]
impl Drop for RawTerminal {
    fn drop(&mut self) {
        // If this fails, most shells reset their terminal themselves.
        let _ = tcsetattr(&self.file, OptionalActions::Drain, &self.before);
    }
}
