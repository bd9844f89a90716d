//! `retake wrap`.

use std::ffi::OsString;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use directories::ProjectDirs;
use serde_json::Value;

use crate::wire::{Error, ErrorKind};
use crate::workspace::{self, Lifetime, Workspace};
use crate::wrap::{self, Announce, Destination, Explained, SessionChoice, WrapOptions};

use super::args::{Json, whole_number};
use super::context::{self, Context};
use super::exit::{Exit, Failure};
use super::output::{FAINT, HEADING, NAME, Output, paint};
use super::words;

/// Record every image that another MCP server makes
///
/// Starts the server, forwards everything between it and the client
/// unchanged, and records each generation with its recipe and images.
/// A recorder that fails never disturbs the traffic.
/// `retake mcp install CLIENT --wrap NAME` sets it up for a server.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    retake wrap -- npx -y nano-banana-mcp\n  \
    retake wrap --session latest --project fox -- uvx minimax-mcp\n  \
    retake wrap --url https://example.com/mcp --addr 127.0.0.1:7400\n  \
    retake wrap --explain transcript.json")]
pub(super) struct WrapArgs {
    /// The server's command and its arguments, after --
    #[arg(value_name = "COMMAND", last = true, required_unless_present_any = ["url", "explain"])]
    command: Vec<OsString>,
    /// A remote server to forward to, instead of a command
    #[arg(long, value_name = "URL", conflicts_with_all = ["command", "explain"], value_parser = web_url)]
    url: Option<String>,
    /// Where to listen for clients of --url; port 0 lets the system choose
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:7374", conflicts_with_all = ["command", "explain"])]
    addr: String,
    /// A profile by name, or its file, instead of the one that matches
    #[arg(long, value_name = "NAME|FILE")]
    profile: Option<String>,
    /// The session to record into: latest, new, or an id
    ///
    /// By default, one per connection and a new one after an hour without calls.
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
    /// The project of new sessions
    #[arg(long, value_name = "NAME")]
    project: Option<String>,
    /// Fetch images from this host if a result only has their address
    ///
    /// May be given more than once, as HOST or HOST:PORT. Without it nothing
    /// is fetched: addresses are recorded, and most of them expire.
    #[arg(long = "fetch", value_name = "HOST")]
    fetch_hosts: Vec<String>,
    /// How the client learns what was recorded
    #[arg(long, value_name = "HOW", value_enum, default_value_t = AnnounceArg::Meta)]
    announce: AnnounceArg,
    /// How long a result may wait to be announced, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 250, allow_negative_numbers = true,
        value_parser = whole_number::<u64>)]
    announce_timeout: u64,
    /// Show what would be recorded from a transcript, and why
    #[arg(long, value_name = "TRANSCRIPT", conflicts_with = "command")]
    explain: Option<PathBuf>,
    #[command(flatten)]
    pub(super) json: Json,
}

/// How the client learns what was recorded.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum AnnounceArg {
    /// In `_meta` of the result
    Meta,
    /// As a line of text in the result
    Text,
    /// Not at all
    Off,
}

impl WrapArgs {
    pub(super) fn run(self, context: &mut Context) -> Result<Exit, Failure> {
        let profiles = ProjectDirs::from("", "", "retake").map(|dirs| dirs.config_dir().join("profiles"));
        if let Some(profile) = &self.profile {
            wrap::find_profile(profile, profiles.as_deref()).map_err(|problem| {
                let message = format!("--profile: {problem}");
                Failure::flags(message, "leave it out: the profile that matches the server is used")
            })?;
        }
        if let Some(transcript) = &self.explain {
            let explained =
                wrap::explain(transcript, self.profile.as_deref(), profiles.as_deref()).map_err(|error| {
                    let what = format!("cannot explain {}", transcript.display());
                    Error::new(ErrorKind::Invalid, what, "give a transcript as docs/wrap.md describes it")
                        .caused_by(error)
                })?;
            context.output.answer(&explained, |output, explained| layout(explained, output));
            return Ok(Exit::Done);
        }
        let chosen = context.workspace_unchecked()?;
        let dir = chosen.dir.clone();
        let open = move || {
            let options = workspace::Options { lifetime: Lifetime::LongRunning, ..workspace::Options::default() };
            let opened = match &chosen.team {
                Some(team) => Workspace::open_team(team, options),
                None => Workspace::open_with(&chosen.dir, options),
            };
            opened.map_err(Error::from)
        };
        let options = WrapOptions {
            destination: Destination {
                open: Arc::new(open),
                dir,
                session: self.session()?,
                project: self.project.clone(),
                user: context::user(),
            },
            profile: self.profile.clone(),
            profiles,
            fetch_hosts: self.fetch_hosts.clone(),
            announce: match self.announce {
                AnnounceArg::Meta => Announce::Meta,
                AnnounceArg::Text => Announce::Text,
                AnnounceArg::Off => Announce::Off,
            },
            announce_timeout: Duration::from_millis(self.announce_timeout),
            warn: Arc::new(|text| {
                // Write directly to stderr, since the output belongs to the thread that waits for the server.
                let _ = std::io::Write::write_all(&mut std::io::stderr(), format!("retake wrap: {text}\n").as_bytes());
            }),
        };
        // Stderr goes to the client's log, where a progress bar is noise.
        context.output.bar().silence();
        if let Some(url) = &self.url {
            return self.forward(url, options, context);
        }
        let code = wrap::run(&self.command, options).map_err(|error| {
            let command = self.command.first().map(|it| it.to_string_lossy().into_owned()).unwrap_or_default();
            Error::new(
                ErrorKind::Invalid,
                format!("cannot run {command:?}"),
                "check the command after --; the client must be able to find it",
            )
            .caused_by(error)
        })?;
        // Exit with the server's code. Another thread may still be blocked on stdin, but nothing is left to do.
        std::process::exit(code)
    }

    fn forward(&self, url: &str, options: WrapOptions, context: &mut Context) -> Result<Exit, Failure> {
        let address = self.addr.to_socket_addrs().ok().and_then(|mut found| found.next()).ok_or_else(|| {
            let message = format!("invalid --addr {:?}: expected HOST:PORT", self.addr);
            Failure::flags(message, "write it like 127.0.0.1:7374")
        })?;
        let output = std::cell::RefCell::new(&mut context.output);
        let ready = |local: SocketAddr| {
            let view = serde_json::json!({ "url": format!("http://{local}/"), "forwardsTo": url });
            let mut output = output.borrow_mut();
            output.answer(&view, |output, _| output.line(format_args!("http://{local}/ forwards to {url}")));
            output.flush();
        };
        wrap::run_http(url, address, options, &ready).map_err(|error| {
            let what = format!("cannot forward to {url}");
            Error::new(ErrorKind::Invalid, what, "check --url, and that --addr is free").caused_by(error)
        })?;
        Ok(Exit::Done)
    }

    fn session(&self) -> Result<SessionChoice, Failure> {
        Ok(match self.session.as_deref() {
            None => SessionChoice::PerConnection,
            Some("new") => SessionChoice::New,
            Some("latest") => SessionChoice::Latest,
            Some(id) if id.parse::<crate::model::SessionId>().is_ok() => SessionChoice::Named(id.to_owned()),
            Some(other) => {
                let message = format!("invalid --session {other:?}: expected latest, new or a session id");
                return Err(Failure::flags(message, "list the sessions to see which there are"));
            }
        })
    }
}

fn web_url(text: &str) -> Result<String, String> {
    let host = text.split_once("://").filter(|(scheme, _)| matches!(*scheme, "http" | "https")).map(|(_, rest)| rest);
    let is_url = host.is_some_and(|host| !host.is_empty() && !host.starts_with('/'));
    if is_url { Ok(text.to_owned()) } else { Err("expected an http or https URL".to_owned()) }
}

fn layout(explained: &Explained, output: &mut Output) {
    let line = |name: &str, value: &str, output: &mut Output| {
        output.line(format_args!("{} {}", paint(HEADING, format_args!("{name:<8}")), words::one_line(value)));
    };
    line("server", explained.server.as_deref().unwrap_or("unknown (it sent no name)"), output);
    line("profile", explained.profile.as_deref().unwrap_or("none: the general rules"), output);
    if explained.other_lines > 0 {
        line("noise", &format!("{} passed unchanged", words::count(explained.other_lines as u64, "line")), output);
    }
    for call in &explained.calls {
        output.gap();
        let name = paint(NAME, words::one_line(&call.call));
        output.line(format_args!("{name} {}: {}", call.decision, words::one_line(&call.why)));
        let iteration = call.iteration.as_ref().and_then(Value::as_object);
        for (field, value) in iteration.into_iter().flatten() {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let source = call.sources.get(field).and_then(Value::as_str).map(words::one_line);
            // Join after reducing each part to one line, which also trims it.
            let source = paint(FAINT, source.map(|source| format!("  ← {source}")).unwrap_or_default());
            output.line(format_args!("  {field:<16} {}{source}", words::one_line(&text)));
        }
    }
}
