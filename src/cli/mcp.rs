//! `retake mcp`.

use std::sync::Arc;

use crate::tracker::{Error, ErrorKind, Stay, Tracker};

use super::context::{self, Context};
use super::ending::{Exit, Failure};

/// Serves the workspace on stdin and stdout until the client goes away.
pub(super) fn mcp(context: &mut Context) -> Result<Exit, Failure> {
    // Stderr goes to a client's log, where a bar is noise.
    context.output.bar().silence();
    let tracker = Arc::new(context.open(Stay::Long)?);
    let served = serve(Arc::clone(&tracker), context::user());
    if let Some(tracker) = Arc::into_inner(tracker) {
        context.close(tracker);
    }
    served?;
    Ok(Exit::Done)
}

fn serve(tracker: Arc<Tracker>, user: String) -> Result<(), Error> {
    drop((tracker, user));
    Err(Error::new(ErrorKind::Internal, "the MCP server is not built yet", "use the command line: `retake help`"))
}
