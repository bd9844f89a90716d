//! `retake serve`.

use std::collections::BTreeSet;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;

use clap::Args;
use serde::Serialize;

use crate::platform;
use crate::web::{self, Bound, GalleryLock, Held, Served, Serving};
use crate::workspace::{Lifetime, Workspace};

use super::args::{Json, whole_number};
use super::context::{self, Context};
use super::exit::{Exit, Failure};
use super::output::{NAME, Output, paint};

/// Serve the gallery, /api and /mcp over HTTP
///
/// Listens on 127.0.0.1:7373, which only this machine can reach. Any other address needs a token. If the workspace is
/// already being served, prints the URL.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    retake serve --open\n  \
    retake serve --port 7406\n  \
    retake serve --addr 0.0.0.0:7373 --token 'correct horse battery'")]
pub(super) struct ServeArgs {
    #[command(flatten)]
    pub(super) at: ListenArgs,
    #[command(flatten)]
    pub(super) json: Json,
}

/// Where and for whom to serve.
#[derive(Debug, Args)]
pub(super) struct ListenArgs {
    /// The address to listen on, or only a port; port 0 chooses a free one
    #[arg(long, value_name = "HOST:PORT")]
    addr: Option<String>,
    /// The port to listen on, on 127.0.0.1
    #[arg(long, value_name = "PORT", conflicts_with = "addr", allow_negative_numbers = true,
        value_parser = whole_number::<u16>)]
    port: Option<u16>,
    /// The token that clients need; required beyond this machine
    #[arg(long, value_name = "TOKEN", env = "RETAKE_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// Open the gallery in the browser
    #[arg(long)]
    open: bool,
}

/// The default address of the gallery.
const USUAL: &str = "127.0.0.1:7373";

impl ServeArgs {
    pub(super) fn run(self, context: &mut Context) -> Result<Exit, Failure> {
        let address = self.at.address(USUAL)?;
        platform::bound_heap();
        let dir = context.workspace()?.dir;
        let workspace = context.open(Lifetime::LongRunning)?;
        match GalleryLock::take(&dir)? {
            GalleryLock::Taken(served) => {
                context.close(workspace);
                self.at.show_served(&served, address, &mut context.output)
            }
            GalleryLock::Free(held) => self.at.serve(workspace, &held, address, context),
        }
    }
}

impl ListenArgs {
    /// Returns the address, which must be local unless there is a token.
    pub(super) fn address(&self, usual: &str) -> Result<SocketAddr, Failure> {
        let asked = match (&self.addr, self.port) {
            (Some(addr), _) => with_host_and_port(addr, usual),
            (None, Some(port)) => format!("127.0.0.1:{port}"),
            (None, None) => usual.to_owned(),
        };
        let found = asked.to_socket_addrs().ok().and_then(|mut found| found.next());
        let address = found.ok_or_else(|| {
            let message = format!("--addr {:?} is not an address", self.addr.as_deref().unwrap_or(&asked));
            Failure::flags(message, "write HOST:PORT, such as 127.0.0.1:7373, or only a port")
        })?;
        if let Some(token) = &self.token {
            check_token(token)?;
        }
        if self.token.is_none() && !web::is_loopback(&address) {
            return Err(Failure::flags(
                format!("{address} can be reached from other machines and needs a token"),
                "add --token with a long random text, or serve on 127.0.0.1",
            ));
        }
        Ok(address)
    }

    /// Serves until the process is asked to stop.
    pub(super) fn serve(
        &self,
        workspace: Workspace,
        held: &Held,
        address: SocketAddr,
        context: &mut Context,
    ) -> Result<Exit, Failure> {
        let bound: Bound = web::bind(address)?;
        let url = bound.url();
        held.announce(&url, bound.address(), self.token.as_deref())?;
        self.show(&url, false, &mut context.output);
        if !web::is_loopback(&bound.address()) {
            context
                .output
                .hint("this is HTTP without encryption: use it in a network you trust, or behind a TLS proxy");
        }
        let workspace = Arc::new(workspace);
        let serving = Serving { user: context::user(), token: self.token.clone() };
        let served = bound.serve(Arc::clone(&workspace), serving);
        if let Some(workspace) = Arc::into_inner(workspace) {
            context.close(workspace);
        }
        served?;
        Ok(Exit::Done)
    }

    /// Prints the URL of the gallery served by another process, which must match the flags.
    pub(super) fn show_served(
        &self,
        served: &Served,
        address: SocketAddr,
        output: &mut Output,
    ) -> Result<Exit, Failure> {
        let chosen = self.addr.is_some() || self.port.is_some();
        served.check(chosen.then_some(address), self.token.as_deref())?;
        self.show(&served.url, true, output);
        Ok(Exit::Done)
    }

    /// Prints the URL of the gallery, and opens it if requested.
    pub(super) fn show(&self, url: &str, already: bool, output: &mut Output) {
        let url = match &self.token {
            Some(token) => format!("{url}?token={}", web::encode(token)),
            None => url.to_owned(),
        };
        output.answer(&Shown { url: &url, already_served: already }, |output, shown| {
            let what = if already { "Served already" } else { "Gallery" };
            output.line(format_args!("{what}: {}", paint(NAME, shown.url)));
            if !already {
                output.line("Press Ctrl-C to stop.");
            }
        });
        output.flush();
        if self.open
            && let Err(error) = open::that_detached(&url)
        {
            output.warn(format_args!("no browser could be opened: {error}"));
        }
    }
}

/// Completes an address that consists only of a port or a host: `7406`, `:7406`, `localhost`.
fn with_host_and_port(addr: &str, usual: &str) -> String {
    let port = addr.strip_prefix(':').unwrap_or(addr);
    if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) {
        return format!("127.0.0.1:{port}");
    }
    match addr.rsplit_once(':') {
        None if !addr.is_empty() => format!("{addr}:{}", usual.rsplit(':').next().unwrap_or("7373")),
        _ => addr.to_owned(),
    }
}

/// The minimum length of a token in characters.
const MIN_TOKEN_CHARS: usize = 16;
/// The minimum number of distinct characters in a token.
const MIN_TOKEN_VARIETY: usize = 8;

/// Checks that a token is hard to guess.
fn check_token(token: &str) -> Result<(), Failure> {
    let variety: BTreeSet<char> = token.chars().collect();
    if token.trim().chars().count() < MIN_TOKEN_CHARS || variety.len() < MIN_TOKEN_VARIETY {
        return Err(Failure::flags(
            format!(
                "the token is too easy to guess: it needs {MIN_TOKEN_CHARS} characters or more, {MIN_TOKEN_VARIETY} of them different"
            ),
            "generate one, for example with `openssl rand -base64 24`",
        ));
    }
    Ok(())
}

/// The URL of a gallery.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown<'a> {
    url: &'a str,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    already_served: bool,
}
