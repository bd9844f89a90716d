//! `wrap`: a proxy between an MCP client and an image server that forwards every byte and records every generation.
//!
//! ```text
//! client ── pump ──────────────────────── server      bytes, unchanged, first
//!             └─ tap ── observer ── recorder ── workspace
//! ```
//! The **pumps** (`pump`, `http`) forward; the **tap** (`tap`) puts copies into a bounded queue and never blocks. The
//! **observer** (`observe`) pairs requests with responses. The **assembler** (`assemble`) recognises generations
//! (`recognise`), parses the arguments (`arguments`) and the results (`answer`, `locate`, `outcome`), tracks jobs and
//! finds parents (`lineage`); **profiles** (`profile`) provide what the rules cannot know. The **recorder** (`record`)
//! is the only module that writes to the workspace; anything that must survive this process before that is in the
//! **spool** (`spool`). One response is marked with the reference (`mark`).
//! `docs/wrap.md` explains the rules and the reasons.
//!
//! This module does not know how anything is printed, nor the log below the use cases.

mod answer;
mod arguments;
mod assemble;
mod base64;
mod child;
mod explain;
mod fetch;
mod files;
mod finding;
mod http;
mod keys;
mod lineage;
mod locate;
mod mark;
mod message;
mod observe;
mod outcome;
mod pipeline;
mod profile;
mod pump;
mod recipe;
mod recognise;
mod record;
mod redact;
mod spool;
mod sse;
mod stdio;
mod tap;
mod values;

use std::ffi::OsString;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use explain::{Explained, ExplainedCall, explain};
pub use mark::{Announce, META_KEY};
pub use record::{Destination, OpenWorkspace, SessionChoice, Warn};

use fetch::Fetcher;
use pipeline::Setup;
use profile::Profiles;

/// The options for wrapping a server.
#[derive(Clone)]
pub struct WrapOptions {
    /// The destination of iterations.
    pub destination: Destination,
    /// A profile, by name or file, instead of the one that matches the server.
    pub profile: Option<String>,
    /// The directory of the user's profiles.
    pub profiles: Option<PathBuf>,
    /// Hosts from which images may be fetched if a result only contains their URL.
    pub fetch_hosts: Vec<String>,
    /// How the client is informed of recorded iterations.
    pub announce: Announce,
    /// How long a response may be held back to be marked.
    pub announce_timeout: Duration,
    /// A callback for warnings of one line.
    pub warn: Warn,
}

/// The default time for which a response is held back: far less than a generation takes, and enough to record it.
pub const ANNOUNCE_TIMEOUT: Duration = Duration::from_millis(250);

/// Runs a stdio server as a child process, between our own stdin and stdout, and returns its exit code.
pub fn run(command: &[OsString], options: WrapOptions) -> io::Result<i32> {
    let name = command.iter().rev().map(|part| stem(Path::new(part))).find(|part| !part.starts_with('-'));
    let announce = options.announce;
    stdio::run(command, options.setup(name.unwrap_or_default())?, announce)
}

/// Forwards requests to a server over HTTP until the process is asked to stop. Calls `ready` with the address once
/// clients can connect.
pub fn run_http(url: &str, address: SocketAddr, options: WrapOptions, ready: &dyn Fn(SocketAddr)) -> io::Result<()> {
    let invalid = |why: String| io::Error::new(io::ErrorKind::InvalidInput, why);
    let target: hyper::Uri = url.parse().map_err(|error| invalid(format!("{url} is not a URL: {error}")))?;
    if !matches!(target.scheme_str(), Some("http" | "https")) || target.authority().is_none() {
        return Err(invalid(format!("{url} is not an http or https URL")));
    }
    let name = target.host().unwrap_or_default().to_owned();
    let announce = options.announce;
    http::run(target, address, options.setup(name)?, announce, ready)
}

impl WrapOptions {
    fn setup(self, fallback_name: String) -> io::Result<Setup> {
        let profiles = profiles(self.profile.as_deref(), self.profiles.as_deref(), &self.warn)?;
        let announce_timeout = if self.announce == Announce::Off { Duration::ZERO } else { self.announce_timeout };
        let fetcher = Fetcher::new(self.fetch_hosts)?;
        Ok(Setup { destination: self.destination, profiles, fallback_name, announce_timeout, fetcher, warn: self.warn })
    }
}

/// Checks that a profile with this name or file exists.
pub fn find_profile(name: &str, dir: Option<&Path>) -> Result<(), String> {
    let mut profiles = Profiles::built_in();
    if let Some(dir) = dir {
        profiles.add_directory(dir);
    }
    profiles.force(name)
}

fn profiles(forced: Option<&str>, dir: Option<&Path>, warn: &Warn) -> io::Result<Profiles> {
    let mut profiles = Profiles::built_in();
    for problem in dir.map(|dir| profiles.add_directory(dir)).unwrap_or_default() {
        warn(&problem);
    }
    if let Some(name) = forced {
        profiles.force(name).map_err(|problem| io::Error::new(io::ErrorKind::InvalidInput, problem))?;
    }
    Ok(profiles)
}

fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}
