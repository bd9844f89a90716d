//! The settings of a terminal.

use std::fs::File;

#[cfg(unix)]
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetpgrp, tcsetattr};

/// The terminal of this process, whose answers are neither echoed nor held back until the end of a line. Dropping this
/// restores it.
pub(crate) struct RawTerminal {
    /// The terminal, for reading and writing.
    pub(crate) file: File,
    #[cfg(unix)]
    before: Termios,
}

impl RawTerminal {
    /// Prepares the terminal; `None` if there is none, or if this process runs in its background, where changing settings
    /// would stop it. A read returns nothing if no answer has come after that many tenths of a second.
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

    /// Returns `None`: terminals of Windows are not asked.
    #[cfg(windows)]
    pub(crate) fn open(_timeout: u8) -> Option<RawTerminal> {
        None
    }
}

#[cfg(unix)]
impl Drop for RawTerminal {
    fn drop(&mut self) {
        // Shells reset their terminal by themselves if this fails.
        let _ = tcsetattr(&self.file, OptionalActions::Drain, &self.before);
    }
}
