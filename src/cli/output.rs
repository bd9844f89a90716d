//! The only module that writes: results to stdout, everything else to stderr.
//!
//! Layout code need not handle write errors. The first one is remembered and later output is dropped, so that a closed
//! pipe (`| head`) ends the command quietly, and a full disk under `>` is reported once, at the end.

use std::fmt::Display;
use std::io::{self, BufWriter, IsTerminal, Stdout, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anstream::adapter::strip_str;
use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};
use serde::Serialize;
use terminal_size::terminal_size_of;

use crate::wire::Error;
use crate::workspace::{OnWait, WaitNotice};

use super::progress::Bar;
use super::vocabulary::CommandLine;
use super::words;

/// The style of an id or a reference.
pub(super) const NAME: Style = AnsiColor::Cyan.on_default();
/// The style of headings.
pub(super) const HEADING: Style = Style::new().bold();
/// The style of secondary text.
pub(super) const FAINT: Style = Style::new().dimmed();
/// The style of success.
pub(super) const GOOD: Style = AnsiColor::Green.on_default();
/// The style of warnings.
pub(super) const WARNING: Style = AnsiColor::Yellow.on_default().bold();
/// The style of errors.
pub(super) const BAD: Style = AnsiColor::Red.on_default().bold();

/// The style of removed text in a diff.
pub(super) const TAKEN: Style = AnsiColor::Red.on_default();
/// The style of changed text in a diff.
pub(super) const TURNED: Style = AnsiColor::Yellow.on_default();

/// The output of a command: results and messages.
pub(super) struct Output {
    /// Not locked, since the MCP server writes to stdout from its own threads.
    stdout: BufWriter<Stdout>,
    json: bool,
    colour_out: bool,
    colour_err: bool,
    width: Option<usize>,
    failed: Option<io::Error>,
    bar: Arc<Bar>,
}

impl Output {
    /// Creates an output for JSON or for people, in colour as requested.
    pub(super) fn new(json: bool, colour: ColorChoice) -> Output {
        let interactive = io::stdout().is_terminal();
        let coloured = |auto: ColorChoice| match colour {
            ColorChoice::Auto => auto != ColorChoice::Never,
            ColorChoice::Never => false,
            _ => true,
        };
        Output {
            stdout: BufWriter::new(io::stdout()),
            json,
            colour_out: coloured(AutoStream::choice(&io::stdout())),
            colour_err: coloured(AutoStream::choice(&io::stderr())),
            // Nothing is truncated in a file or a pipe, which may be searched.
            width: interactive.then(|| terminal_size_of(io::stdout()).map_or(80, |(width, _)| width.0.into())),
            failed: None,
            bar: Arc::new(Bar::new(io::stderr().is_terminal())),
        }
    }

    /// Returns whether the output is JSON.
    pub(super) fn is_json(&self) -> bool {
        self.json
    }

    /// Switches the output to JSON.
    pub(super) fn set_json(&mut self) {
        self.json = true;
    }

    /// Returns the width of a line; `None` if stdout is not a terminal and lines may have any width.
    pub(super) fn width(&self) -> Option<usize> {
        self.width
    }

    /// Truncates a text to the rest of a line of which `used` columns are taken.
    pub(super) fn fit(&self, text: &str, used: usize) -> String {
        self.width.map_or_else(|| text.to_owned(), |width| words::cut(text, width.saturating_sub(used)))
    }

    /// Returns whether stdout is a terminal.
    pub(super) fn is_interactive(&self) -> bool {
        io::stdout().is_terminal()
    }

    /// Returns whether the output is coloured.
    pub(super) fn is_coloured(&self) -> bool {
        self.colour_out
    }

    /// Returns the progress bar.
    pub(super) fn bar(&self) -> &Arc<Bar> {
        &self.bar
    }

    /// Returns whether stdout is a closed pipe.
    pub(super) fn is_gone(&self) -> bool {
        self.failed.is_some()
    }

    /// Writes a result: as one line of JSON, or laid out for people.
    pub(super) fn answer<T: Serialize>(&mut self, view: &T, layout: impl FnOnce(&mut Output, &T)) {
        if self.json {
            self.json_line(view);
        } else {
            layout(self, view);
        }
    }

    /// Writes one line of JSON and flushes it.
    pub(super) fn json_line(&mut self, view: &impl Serialize) {
        self.bar.clear();
        let written = serde_json::to_writer(&mut self.stdout, view)
            .map_err(io::Error::from)
            .and_then(|()| self.stdout.write_all(b"\n"))
            .and_then(|()| self.stdout.flush());
        self.note_failure(written);
    }

    /// Writes a line for people.
    pub(super) fn line(&mut self, text: impl Display) {
        self.bar.clear();
        if self.failed.is_some() {
            return;
        }
        let text = text.to_string();
        let written = if self.colour_out {
            writeln!(self.stdout, "{text}")
        } else {
            writeln!(self.stdout, "{}", strip_str(&text))
        };
        self.note_failure(written);
    }

    /// Writes an empty line.
    pub(super) fn gap(&mut self) {
        self.line("");
    }

    /// Returns stdout for raw bytes. Errors are remembered, and also returned to the writer.
    pub(super) fn raw(&mut self) -> Raw<'_> {
        Raw(self)
    }

    /// Writes a line to stderr.
    pub(super) fn aside(&mut self, text: impl Display) {
        self.bar.clear();
        // Flush, so that both streams appear in order on a terminal.
        self.flush();
        let text = text.to_string();
        let mut stderr = io::stderr().lock();
        // If stderr fails, there is nowhere else to report it.
        let _ = if self.colour_err { writeln!(stderr, "{text}") } else { writeln!(stderr, "{}", strip_str(&text)) };
    }

    /// Returns a callback that reports on stderr, once, that the owner of the workspace does not respond.
    pub(super) fn wait_reporter(&self) -> OnWait {
        let (bar, reported) = (Arc::clone(&self.bar), AtomicBool::new(false));
        Arc::new(move |notice: WaitNotice| {
            if !reported.swap(true, Ordering::Relaxed) {
                bar.clear();
                let owner = notice.pid.map_or("another process".to_owned(), |pid| format!("process {pid}"));
                // If stderr fails, there is nowhere else to report it.
                let _ = writeln!(
                    io::stderr().lock(),
                    "waiting for {owner}, which has the workspace open and does not answer"
                );
            }
        })
    }

    /// Writes a warning: the request succeeded, with a caveat.
    pub(super) fn warn(&mut self, text: impl Display) {
        self.aside(format_args!("{} {text}", paint(WARNING, "warning:")));
    }

    /// Writes a hint on what to do next.
    pub(super) fn hint(&mut self, text: impl Display) {
        self.aside(format_args!("{} {text}", paint(GOOD, "hint:")));
    }

    /// Reports an error: as JSON on stdout for scripts, or as text on stderr.
    pub(super) fn error(&mut self, error: &Error) {
        if self.json {
            self.json_line(&error.view());
            return;
        }
        let error = error.reworded(&CommandLine);
        self.aside(format_args!("{} {}", paint(BAD, "error:"), words::clean(&error.message)));
        for cause in &error.causes {
            self.aside(format_args!("{} {}", paint(HEADING, "caused by:"), words::clean(cause)));
        }
        self.hint(words::clean(&error.hint));
    }

    /// Flushes stdout, so that [`is_gone`](Output::is_gone) is up to date.
    pub(super) fn flush(&mut self) {
        if self.failed.is_none() {
            let flushed = self.stdout.flush();
            self.note_failure(flushed);
        }
    }

    /// Flushes everything and returns the first error, unless it was a closed pipe.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        self.bar.clear();
        self.flush();
        match self.failed.take() {
            Some(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
            _ => Ok(()),
        }
    }

    fn note_failure(&mut self, written: io::Result<()>) {
        if let (Err(error), None) = (written, &self.failed) {
            self.failed = Some(error);
        }
    }
}

/// Stdout, byte for byte.
pub(super) struct Raw<'a>(&'a mut Output);

impl Write for Raw<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.0.stdout.write(bytes);
        self.remember(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.0.stdout.flush();
        self.remember(flushed)
    }
}

impl Raw<'_> {
    fn remember<T>(&mut self, result: io::Result<T>) -> io::Result<T> {
        result.inspect_err(|error| {
            if error.kind() != io::ErrorKind::Interrupted {
                let same = error.raw_os_error().map_or_else(|| error.kind().into(), io::Error::from_raw_os_error);
                self.0.note_failure(Err(same));
            }
        })
    }
}

/// Formats a text in this style.
pub(super) fn paint(style: Style, text: impl Display) -> String {
    format!("{style}{text}{style:#}")
}
