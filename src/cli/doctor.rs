//! `retake doctor`.

use std::fmt::Display;
use std::path::PathBuf;

use serde::Serialize;

use crate::wire::ErrorKind;
use crate::workspace::{OwnerInfo, WorkspaceStatus, claimed_owner};

use super::clients::CLIENTS;
use super::context::Context;
use super::ending::{Exit, Failure};
use super::install::wrapped_command;
use super::output::{HEADING, Output, paint};
use super::words;
use super::workspace::WorkspaceSource;

/// This version.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Shows which workspace is used, why, and how it is doing.
pub(super) fn doctor(context: &mut Context) -> Result<Exit, Failure> {
    let chosen = context.workspace()?;
    if !context.output.is_json() {
        // Said before the workspace is opened: when that fails, it is what one needs to know.
        line("version", format_args!("retake {VERSION}"), &mut context.output);
        line("workspace", chosen.shown(), &mut context.output);
        line("chosen by", chosen.by.words(), &mut context.output);
    }
    let opened = context.read(|api, output| {
        let status = api.workspace().status()?;
        // While nobody else has it, it is this command that does, for as long as it runs.
        let owner = Some(api.workspace().owner()?).filter(|owner| owner.pid != std::process::id());
        let health = Health { version: VERSION, chosen_by: chosen.by, owner, wrapped: wrapped_servers(), status };
        output.answer(&health, |output, health| layout(health, output));
        Ok(Exit::Done)
    });
    // An owner that does not answer is itself the diagnosis.
    if matches!(&opened, Err(Failure::Request(error)) if error.kind == ErrorKind::Busy)
        && let Some(owner) = claimed_owner(&chosen.dir).filter(|_| !context.output.is_json())
    {
        line("owner", format_args!("process {}, which does not answer", owner.pid), &mut context.output);
    }
    opened
}

/// How the workspace is doing, and how it came to be this one.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Health {
    version: &'static str,
    chosen_by: WorkspaceSource,
    /// The other process that has the workspace open.
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<OwnerInfo>,
    /// Servers that clients run through `retake wrap`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    wrapped: Vec<WrappedServer>,
    #[serde(flatten)]
    status: WorkspaceStatus,
}

/// A server that a client runs through `retake wrap`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WrappedServer {
    client: &'static str,
    name: String,
    command: String,
    file: PathBuf,
}

/// Returns the wrapped servers of all clients that have a configuration we can read.
fn wrapped_servers() -> Vec<WrappedServer> {
    let mut found = Vec::new();
    for client in CLIENTS {
        for file in [client.user_file(), client.project_file()].into_iter().flatten() {
            let Ok(text) = std::fs::read_to_string(&file) else { continue };
            for entry in client.entries(&text).unwrap_or_default() {
                let Some(command) = wrapped_command(&entry).map(|command| command.join(" ")) else { continue };
                found.push(WrappedServer { client: client.title(), name: entry.name, command, file: file.clone() });
            }
        }
    }
    found
}

fn layout(health: &Health, output: &mut Output) {
    let status = &health.status;
    let format =
        status.format_version.map_or_else(|| "unknown: retake.toml cannot be read".to_owned(), |it| it.to_string());
    line("format", format, output);
    line("owner", owner(health.owner.as_ref()), output);
    let archived = if status.archived > 0 { format!(" ({} archived)", status.archived) } else { String::new() };
    line("sessions", format_args!("{}{archived}", status.sessions), output);
    line("events", status.events, output);
    let sizes = &status.sizes;
    for (part, bytes) in [
        ("journal", sizes.journal),
        ("database", sizes.database),
        ("texts", sizes.texts),
        ("images", sizes.images),
        ("quarantine", sizes.quarantine),
    ] {
        line(part, words::size(bytes), output);
    }
    let unread = status.unread_recoveries.len();
    let unread = if unread > 0 { format!(", {unread} unread") } else { String::new() };
    line("recoveries", format_args!("{}{unread}", status.recoveries), output);
    for WrappedServer { client, name, command, .. } in &health.wrapped {
        let shown = words::one_line(&format!("{name} in {client}: {command}"));
        line("wrapped", shown, output);
    }
}

fn owner(owner: Option<&OwnerInfo>) -> String {
    let Some(OwnerInfo { pid, version, since, clients, .. }) = owner else {
        return "nobody: no other process has it open".to_owned();
    };
    // This command is one of its clients.
    let others = match clients.saturating_sub(1) {
        0 => String::new(),
        others => format!(", and {} connected to it", words::count(others.into(), "other client")),
    };
    format!("process {pid}, retake {}, since {}{others}", words::one_line(version), words::time(*since))
}

fn line(name: &str, value: impl Display, output: &mut Output) {
    output.line(format_args!("{} {value}", paint(HEADING, format_args!("{name:<11}"))));
}
