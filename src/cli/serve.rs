//! `retake serve`.

use std::collections::BTreeSet;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;

use clap::Args;
use serde::Serialize;

use crate::tracker::{Lifetime, Tracker};
use crate::web::{self, Bound, GalleryLock, Held, Served, Serving};

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
    retake serve --addr 0.0.0.0:7373 --token 'correct horse battery'")]
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
            GalleryLock::Taken(served) => {
                context.close(tracker);
                self.at.show_served(&served, address, &mut context.output)
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
        if let Some(token) = &self.token {
            check_token(token)?;
        }
        if self.token.is_none() && !web::is_loopback(&address) {
            return Err(Failure::flags(
                format!("{address} can be reached from other machines, and there is no token"),
                "add --token with a long random text, or serve on 127.0.0.1",
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
        held.announce(&url, bound.address(), self.token.as_deref())?;
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

    /// Shows where the gallery is that another process serves, which must be the one that was asked for.
    pub(super) fn show_served(
        &self,
        served: &Served,
        address: SocketAddr,
        output: &mut Output,
    ) -> Result<Exit, Failure> {
        served.check(self.addr.is_some().then_some(address), self.token.as_deref())?;
        self.show(&served.url, true, output);
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

/// The fewest characters of a token.
const MIN_TOKEN_CHARS: usize = 16;
/// The fewest different characters of a token.
const MIN_TOKEN_VARIETY: usize = 8;

/// Checks that a token cannot be guessed.
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

/// Where a gallery is.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown<'a> {
    url: &'a str,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    already_served: bool,
}
