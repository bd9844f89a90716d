//! `retake serve`.

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;

use clap::Args;
use serde::Serialize;

use crate::tracker::{Lifetime, Tracker};
use crate::web::{self, Bound, GalleryLock, Held, Serving};

use super::args::Json;
use super::context::{self, Context};
use super::ending::{Exit, Failure};
use super::output::{NAME, Output, paint};

/// Show the workspace in a browser, and serve it over HTTP: the gallery, /api, /mcp
///
/// At 127.0.0.1:7373 unless told otherwise. Only this machine can reach it, unless you choose another address; that asks for a token, which everyone who uses it
/// then needs. When the workspace is served already, prints where.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    retake serve --open\n  \
    retake serve --addr 127.0.0.1:0\n  \
    retake serve --addr 0.0.0.0:7373 --token 'a long secret'")]
pub(super) struct ServeArgs {
    #[command(flatten)]
    pub(super) at: At,
    #[command(flatten)]
    pub(super) json: Json,
}

/// Where and for whom to serve.
#[derive(Debug, Args)]
pub(super) struct At {
    /// Where to listen, instead of on this machine at the usual port; port 0 lets the system choose
    #[arg(long, value_name = "HOST:PORT")]
    addr: Option<String>,
    /// What everyone who asks must have; needed to serve more than this machine
    #[arg(long, value_name = "TOKEN", env = "RETAKE_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// Open it in the browser
    #[arg(long)]
    open: bool,
}

/// Where the gallery is when nobody says.
const USUAL: &str = "127.0.0.1:7373";

impl ServeArgs {
    pub(super) fn run(self, context: &mut Context) -> Result<Exit, Failure> {
        let address = self.at.address(USUAL)?;
        let dir = context.workspace()?.dir;
        let tracker = context.open(Lifetime::LongRunning)?;
        match GalleryLock::take(&dir)? {
            GalleryLock::Taken(url) => {
                context.close(tracker);
                self.at.show(&url, true, &mut context.output);
                Ok(Exit::Done)
            }
            GalleryLock::Free(held) => self.at.serve(tracker, &held, address, context),
        }
    }
}

impl At {
    /// The address, which must be this machine's alone unless there is a token.
    pub(super) fn address(&self, usual: &str) -> Result<SocketAddr, Failure> {
        let asked = self.addr.as_deref().unwrap_or(usual);
        let found = asked.to_socket_addrs().ok().and_then(|mut found| found.next());
        let address = found.ok_or_else(|| {
            let message = format!("--addr {asked:?} is no address");
            Failure::flags(message, "write HOST:PORT, such as 127.0.0.1:7373")
        })?;
        if self.token.as_deref().is_some_and(|token| token.trim().is_empty()) {
            return Err(Failure::flags("the token is empty", "give a long text that nobody guesses"));
        }
        if self.token.is_none() && !web::is_loopback(&address) {
            return Err(Failure::flags(
                format!("{address} can be reached from other machines, and there is no token"),
                "add --token with a long text that nobody guesses, or serve on 127.0.0.1",
            ));
        }
        Ok(address)
    }

    /// Serves until the process is told to end.
    pub(super) fn serve(
        &self,
        tracker: Tracker,
        held: &Held,
        address: SocketAddr,
        context: &mut Context,
    ) -> Result<Exit, Failure> {
        let bound: Bound = web::bind(address)?;
        let url = bound.url();
        held.announce(&url)?;
        self.show(&url, false, &mut context.output);
        let tracker = Arc::new(tracker);
        let serving = Serving { user: context::user(), token: self.token.clone() };
        let served = bound.serve(Arc::clone(&tracker), serving);
        if let Some(tracker) = Arc::into_inner(tracker) {
            context.close(tracker);
        }
        served?;
        Ok(Exit::Done)
    }

    /// Says where the gallery is, and opens it when that was asked for.
    pub(super) fn show(&self, url: &str, already: bool, output: &mut Output) {
        let url = match &self.token {
            Some(token) => format!("{url}?token={}", web::encode(token)),
            None => url.to_owned(),
        };
        output.answer(&Shown { url: &url, already_served: already }, |output, shown| {
            let what = if already { "Served already" } else { "Gallery" };
            output.line(format_args!("{what}: {}", paint(NAME, shown.url)));
            if !already {
                output.line("Ctrl-C ends it.");
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

/// Where a gallery is.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown<'a> {
    url: &'a str,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    already_served: bool,
}
