//! `retake mcp`.

use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, Subcommand};

use crate::mcp::{self, Paths};
use crate::platform::PATH_DELIMITER;
use crate::workspace::Lifetime;

use super::args::Json;
use super::context::{self, Context};
use super::exit::{Exit, Failure};
use super::install::{InstallArgs, UninstallArgs};

/// Serve the workspace to an agent (MCP) on stdin and stdout
///
/// MCP clients start this themselves: see `retake mcp install`. `retake serve` offers the same over HTTP at /mcp.
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
    /// Read images only below this directory; may be repeated [default: any]
    #[arg(long, value_name = "DIR", env = "RETAKE_ROOTS", value_delimiter = PATH_DELIMITER, hide_env_values = true)]
    root: Vec<PathBuf>,
    #[command(flatten)]
    pub(super) json: Json,
}

/// What to do besides serving.
#[derive(Debug, Subcommand)]
pub(super) enum McpVerb {
    Install(InstallArgs),
    Uninstall(UninstallArgs),
}

impl McpVerb {
    /// Returns whether the subcommand's own `--json` flag was given.
    pub(super) fn wants_json(&self) -> bool {
        match self {
            McpVerb::Install(install) => install.json.json,
            McpVerb::Uninstall(uninstall) => uninstall.json.json,
        }
    }
}

impl McpArgs {
    /// Serves the workspace on stdin and stdout until the client disconnects.
    pub(super) fn run(self, context: &mut Context) -> Result<Exit, Failure> {
        match self.verb {
            Some(McpVerb::Install(install)) => return install.run(context),
            Some(McpVerb::Uninstall(uninstall)) => return uninstall.run(context),
            None => {}
        }
        let paths = Paths::below(&self.root)?;
        // Stderr goes to the client's log, where a progress bar is noise.
        context.output.bar().silence();
        let workspace = Arc::new(context.open(Lifetime::LongRunning)?);
        let served = mcp::run(Arc::clone(&workspace), context::user(), paths);
        if let Some(workspace) = Arc::into_inner(workspace) {
            context.close(workspace);
        }
        served?;
        Ok(Exit::Done)
    }
}
