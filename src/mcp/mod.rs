//! The MCP server: offers the tools of the registry to agents over stdio and HTTP, in every revision of the protocol
//! from 2024-11-05 to 2026-07-28.
//!
//! The tools are defined in `wire/tools/`. This module contains `server.rs` (the requests of the protocol),
//! `resources.rs` with `address.rs` (readable resources), `subscriptions.rs` with `changes.rs` (change notifications),
//! `prompts.rs` (prompts and completion), `waiting.rs` (calls on separate threads, with progress and cancellation),
//! `paths.rs` (the files a client may name) and `app.rs` (the page for clients that can display pages); `lines.rs` and
//! `http.rs` are the transports.
//!
//! Absent here: how a workspace is found or stored, what a tool does, and recorded text in instructions, names and
//! descriptions. Those are fixed, so that nothing recorded can address an agent as if it were Retake.

mod address;
mod app;
mod changes;
mod http;
mod icon;
pub(crate) mod json;
mod lines;
mod paths;
mod prompts;
mod resources;
mod server;
mod subscriptions;
mod waiting;

pub use http::http;
pub use paths::Paths;
pub use server::Server;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use rmcp::ServiceExt;
use rmcp::service::ServerInitializeError;
use rmcp::transport::stdio_pipes;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::Builder;

use crate::platform::termination;
use crate::wire::tool::FilePolicy;
use crate::wire::{Error, ErrorKind, ImageInput};
use crate::workspace::Workspace;
use lines::Lines;

impl FilePolicy for Paths {
    fn open_files(&self, images: &mut [ImageInput]) -> Result<(), Error> {
        self.open(images)
    }
}

/// Serves the workspace on stdin and stdout on behalf of `user`, until stdin ends or the process is asked to stop.
/// Reads images from `paths`.
///
/// Earlier requests get a few seconds to finish. Unless a call takes longer, nothing keeps the workspace open when this
/// returns.
pub fn run(workspace: Arc<Workspace>, user: String, paths: Paths) -> Result<(), Error> {
    // One thread is enough: it only moves lines, and every workspace call has its own thread.
    let runtime = Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(MAX_CALLS_AT_ONCE)
        .build()
        .map_err(|error| broken("cannot start the MCP server", &error))?;
    let served = runtime.block_on(async {
        let ended = termination().map_err(|error| broken("cannot listen for signals", &error))?;
        let (reader, writer) = stdio_pipes();
        serve(Server::new(workspace, user).taking(paths), reader, writer, ended).await
    });
    // A read of stdin that never returns must not keep the process alive.
    runtime.shutdown_background();
    served
}

/// Serves one client on a pair of streams until `reader` ends or `ended` completes.
pub async fn serve<R, W>(server: Server, reader: R, writer: W, ended: impl Future<Output = ()>) -> Result<(), Error>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let mut ended = std::pin::pin!(ended);
    let lines = Lines::new(reader, writer, server.close());
    let opened = lines.opened();
    let session = tokio::select! {
        session = server.serve(lines) => match session {
            Ok(session) => session,
            // The client disconnected without a request.
            Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
            Err(error) => return Err(broken("the MCP client could not be served", &error)),
        },
        () = &mut ended => return Ok(()),
    };
    opened.store(true, Ordering::Relaxed);
    let end = session.cancellation_token();
    let mut finished = std::pin::pin!(session.waiting());
    let finished = tokio::select! {
        finished = &mut finished => finished,
        () = &mut ended => {
            end.cancel();
            finished.await
        }
    };
    finished.map(drop).map_err(|error| broken("the MCP server broke off", &error))
}

/// The maximum number of threads: enough for concurrent recordings to share an fsync.
const MAX_CALLS_AT_ONCE: usize = 64;

fn broken(what: &str, cause: &dyn std::fmt::Display) -> Error {
    Error::new(
        ErrorKind::Internal,
        what,
        "look at the cause, then start `retake mcp` again: nothing that was acknowledged is lost",
    )
    .caused_by(cause)
}
