//! `retake man`: the manual pages, generated from the same definitions as the help. Hidden, since only packagers and
//! the release script call it.

use std::io;
use std::path::{Path, PathBuf};

use clap::{Args, Command, CommandFactory};
use serde::Serialize;

use crate::wire::{Error, ErrorKind};

use super::args::{Cli, Json};
use super::context::Context;
use super::exit::{Exit, Failure};

/// Write the manual pages, one per command
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  retake man ~/.local/share/man/man1")]
pub(super) struct ManArgs {
    /// The directory to write to; it is created if it does not exist
    dir: PathBuf,
    #[command(flatten)]
    pub(super) json: Json,
}

impl ManArgs {
    pub(super) fn run(self, context: &mut Context) -> Result<Exit, Failure> {
        let failed = |error: io::Error| {
            let message = format!("cannot write manual pages: {}", self.dir.display());
            Failure::Request(
                Error::new(ErrorKind::Internal, message, "name a directory that can be written to").caused_by(error),
            )
        };
        std::fs::create_dir_all(&self.dir).map_err(failed)?;
        // Build the command, so that every subcommand knows its full name.
        let mut command = Cli::command();
        command.build();
        let mut pages = Vec::new();
        write_pages(&command, "retake", &self.dir, &mut pages).map_err(failed)?;
        let view = Pages { pages };
        context.output.answer(&view, |output, view| {
            output.line(format_args!("wrote {} manual pages to {}", view.pages.len(), self.dir.display()));
        });
        Ok(Exit::Done)
    }
}

/// Writes the pages of a command and its visible subcommands: `retake.1`, `retake-record.1`, `retake-mcp-install.1`.
fn write_pages(command: &Command, name: &str, dir: &Path, pages: &mut Vec<String>) -> io::Result<()> {
    let file = format!("{name}.1");
    let page = clap_mangen::Man::new(command.clone().name(name.to_owned()).display_name(name.to_owned()));
    let mut text = Vec::new();
    page.render(&mut text)?;
    std::fs::write(dir.join(&file), text)?;
    pages.push(file);
    for subcommand in command.get_subcommands().filter(|it| !it.is_hide_set() && it.get_name() != "help") {
        write_pages(subcommand, &format!("{name}-{}", subcommand.get_name()), dir, pages)?;
    }
    Ok(())
}

#[derive(Serialize)]
struct Pages {
    /// The files that were written.
    pages: Vec<String>,
}
