//! `retake mcp`.

use std::sync::Arc;

use crate::mcp;
use crate::tracker::Stay;

use super::context::{self, Context};
use super::ending::{Exit, Failure};

/// Serves the workspace on stdin and stdout until the client goes away.
pub(super) fn mcp(context: &mut Context) -> Result<Exit, Failure> {
    // Stderr goes to a client's log, where a bar is noise.
    context.output.bar().silence();
    let tracker = Arc::new(context.open(Stay::Long)?);
    let served = mcp::run(Arc::clone(&tracker), context::user());
    if let Some(tracker) = Arc::into_inner(tracker) {
        context.close(tracker);
    }
    served?;
    Ok(Exit::Done)
}
