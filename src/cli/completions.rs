//! `retake completions`.

use std::io::Write;

use clap::{Args, CommandFactory};
use clap_complete::Shell;
use serde::Serialize;

use super::args::{Cli, Json};
use super::context::Context;
use super::ending::Exit;

/// Print a script that completes `retake` commands in your shell
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    retake completions bash > ~/.local/share/bash-completion/completions/retake\n  \
    retake completions fish > ~/.config/fish/completions/retake.fish")]
pub(super) struct CompletionsArgs {
    /// The shell
    shell: Shell,
    #[command(flatten)]
    pub(super) json: Json,
}

impl CompletionsArgs {
    pub(super) fn run(self, context: &mut Context) -> Exit {
        // Into memory first: the generator panics when it cannot write.
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "retake", &mut script);
        let view = Script { shell: self.shell.to_string(), script: String::from_utf8_lossy(&script).into_owned() };
        context.output.answer(&view, |output, view| {
            // A failure is remembered by the output, and told at the end.
            let _ = output.raw().write_all(view.script.as_bytes());
        });
        Exit::Done
    }
}

#[derive(Serialize)]
struct Script {
    shell: String,
    script: String,
}
