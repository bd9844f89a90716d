//! `retake mcp`.

use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, Subcommand};

use crate::mcp::{self, Paths};
use crate::tracker::Lifetime;

use super::context::{self, Context};
use super::ending::{Exit, Failure};
use super::install::InstallArgs;

/// Serve the workspace to an agent over the Model Context Protocol, on stdin and stdout
///
/// An MCP client starts this by itself: `retake mcp install` tells it to. Over HTTP, `retake serve` has the same at /mcp.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:\n  \
    retake mcp install claude-code --write\n  \
    retake mcp --root ~/Pictures"
)]
pub(super) struct McpArgs {
    #[command(subcommand)]
    pub(super) verb: Option<McpVerb>,
    /// Take pictures by path only from below this directory; may be given more than once. Without it, any file that you
    /// can read goes
    #[arg(long, value_name = "DIR", env = "RETAKE_ROOTS", value_delimiter = DELIMITER, hide_env_values = true)]
    root: Vec<PathBuf>,
}

/// What to do besides serving.
#[derive(Debug, Subcommand)]
pub(super) enum McpVerb {
    Install(InstallArgs),
}

/// What lies between paths in a variable.
const DELIMITER: char = if cfg!(windows) { ';' } else { ':' };

impl McpArgs {
    /// Serves the workspace on stdin and stdout until the client goes away.
    pub(super) fn run(self, context: &mut Context) -> Result<Exit, Failure> {
        if let Some(McpVerb::Install(install)) = self.verb {
            return install.run(context);
        }
        let paths = Paths::below(&self.root)?;
        // Stderr goes to a client's log, where a bar is noise.
        context.output.bar().silence();
        let tracker = Arc::new(context.open(Lifetime::LongRunning)?);
        let served = mcp::run(Arc::clone(&tracker), context::user(), paths);
        if let Some(tracker) = Arc::into_inner(tracker) {
            context.close(tracker);
        }
        served?;
        Ok(Exit::Done)
    }
}
