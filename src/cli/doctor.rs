//! `retake doctor`.

use std::fmt::Display;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::wire::ErrorKind;
use crate::workspace::{
    Error, OwnerInfo, SessionFilter, Sizes, Workspace, WorkspaceStatus, claimed_owner, format_version,
};

use super::clients::{CLIENTS, Client, Entry};
use super::context::Context;
use super::ending::{Exit, Failure};
use super::install::{runs, wrapped_command};
use super::output::{GOOD, HEADING, Output, WARNING, paint};
use super::words;
use super::workspace::WorkspaceSource;

/// This version.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Shows which workspace is used, why, and its state.
pub(super) fn doctor(context: &mut Context) -> Result<Exit, Failure> {
    let chosen = context.workspace()?;
    if !context.output.is_json() {
        // Print this before opening the workspace, since it helps most if that fails.
        line("version", format_args!("retake {VERSION}"), &mut context.output);
        line("workspace", chosen.shown(), &mut context.output);
        line("chosen by", chosen.by.words(), &mut context.output);
        context.output.flush();
    }
    if !chosen.exists() {
        let absent = Absent {
            version: VERSION,
            chosen_by: chosen.by,
            workspace: chosen.shown(),
            exists: false,
            agents: configured_agents(),
            wrapped: wrapped_servers(),
        };
        context.output.answer(&absent, |output, absent| {
            line("status", "not created yet: `retake record` or `retake import` creates it", output);
            agents_layout(&absent.agents, &absent.workspace, output);
            wrapped_layout(&absent.wrapped, output);
        });
        return Ok(Exit::Done);
    }
    context.owner_timeout = Some(OWNER_TIMEOUT);
    let opened = context.read(|api, output| {
        let status = api.workspace().status()?;
        // Without another owner, this command is the owner while it runs.
        let owner = Some(api.workspace().owner()?).filter(|owner| owner.pid != std::process::id());
        let team = chosen.team.as_ref().map(|team| team.health().map(TeamHealth::from)).transpose();
        let team = team.map_err(Error::from)?;
        let images = look_at_images(api.workspace())?;
        let log_is_gone = api.recovery_notice()?.is_some_and(|notice| notice.log_is_gone);
        let advice = advice(&status, log_is_gone, api.workspace().losses()?.values().sum(), images);
        let (agents, wrapped) = (configured_agents(), wrapped_servers());
        let health =
            Health { version: VERSION, chosen_by: chosen.by, owner, agents, wrapped, team, status, images, advice };
        output.answer(&health, |output, health| layout(health, &chosen.shown(), output));
        Ok(Exit::Done)
    });
    // An owner that does not respond is itself the diagnosis.
    if matches!(&opened, Err(Failure::Request(error)) if error.kind == ErrorKind::Busy)
        && let Some(owner) = claimed_owner(&chosen.dir)
    {
        let advice = format!(
            "resume process {pid} (`fg` in its terminal, or `kill -CONT {pid}`) or end it; nothing can be read until then",
            pid = owner.pid
        );
        let blocked = Blocked {
            version: VERSION,
            chosen_by: chosen.by,
            workspace: chosen.shown(),
            format_version: format_version(&chosen.dir),
            owner,
            owner_responds: false,
            agents: configured_agents(),
            wrapped: wrapped_servers(),
            sizes: Sizes::of(&chosen.dir),
            advice: [advice],
        };
        let is_team = chosen.team.is_some();
        context.output.answer(&blocked, |output, blocked| blocked_layout(blocked, is_team, output));
        return Ok(Exit::Failed);
    }
    opened
}

/// The state of the workspace, and how it was chosen.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Health {
    version: &'static str,
    chosen_by: WorkspaceSource,
    /// The other process that owns the workspace.
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<OwnerInfo>,
    /// The clients whose agents use Retake.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    agents: Vec<ConfiguredAgent>,
    /// Servers that clients run through `retake wrap`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    wrapped: Vec<WrappedServer>,
    /// The server of a team workspace.
    #[serde(skip_serializing_if = "Option::is_none")]
    team: Option<TeamHealth>,
    #[serde(flatten)]
    status: WorkspaceStatus,
    /// The originals of the images.
    images: Originals,
    /// What to do, if anything.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    advice: Vec<String>,
}

/// The originals that were checked for existence.
#[derive(Clone, Copy, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Originals {
    /// The number of originals checked.
    looked_for: u64,
    /// The number of them that are links to files elsewhere.
    linked: u64,
    /// The number of them that are missing.
    missing: u64,
    /// The number of sessions that were skipped because time ran out.
    #[serde(skip_serializing_if = "is_zero")]
    sessions_left: u64,
}

/// How long doctor waits for a silent owner of the workspace: it has its answer then.
const OWNER_TIMEOUT: Duration = Duration::from_secs(3);
/// How long doctor looks for images, so that it answers in any workspace.
const LOOK_TIME: Duration = Duration::from_secs(2);

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Checks whether the originals exist, starting with the most recent sessions.
fn look_at_images(workspace: &Workspace) -> Result<Originals, Error> {
    let started = Instant::now();
    let mut found = Originals::default();
    for summary in workspace.sessions(&SessionFilter::default()) {
        let summary = summary?;
        if started.elapsed() > LOOK_TIME {
            found.sessions_left += 1;
            continue;
        }
        for state in workspace.load_session(summary.id)?.iterations.values() {
            for image in &state.iteration.images {
                found.looked_for += 1;
                found.linked += u64::from(image.linked.is_some());
                found.missing += u64::from(!workspace.has_original(image));
            }
        }
    }
    Ok(found)
}

/// Returns what to do about what was found.
fn advice(status: &WorkspaceStatus, log_is_gone: bool, lost_events: u64, images: Originals) -> Vec<String> {
    let mut advice = Vec::new();
    if log_is_gone {
        advice.push("the log is gone: restore journal/ or db/ from a backup, or import an export".to_owned());
    }
    if lost_events > 0 {
        let what = words::count(lost_events, "event");
        advice.push(format!("{what} lost to damage: `retake verify` says which"));
    }
    if !status.unread_recoveries.is_empty() {
        advice.push("read what was lost and saved with `retake repair`, which marks it as read".to_owned());
    }
    if images.missing > 0 {
        let what = words::count(images.missing, "original");
        advice.push(format!("{what} not found: name them with `retake verify`, then import or record the files again"));
    }
    if status.format_version.is_none() {
        advice.push("restore retake.toml from a backup, or run `retake repair`".to_owned());
    }
    advice
}

/// The PostgreSQL server of a team workspace.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TeamHealth {
    server_version: String,
    role: String,
    encrypted: bool,
    warnings: Vec<String>,
}

impl From<retake_team::Health> for TeamHealth {
    fn from(health: retake_team::Health) -> TeamHealth {
        let retake_team::Health { version, role, encrypted, warnings } = health;
        TeamHealth { server_version: version, role, encrypted, warnings }
    }
}

/// A chosen workspace that does not exist.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Absent {
    version: &'static str,
    chosen_by: WorkspaceSource,
    workspace: String,
    exists: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    agents: Vec<ConfiguredAgent>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    wrapped: Vec<WrappedServer>,
}

/// A workspace whose owner does not respond, described by what can be read without it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Blocked {
    version: &'static str,
    chosen_by: WorkspaceSource,
    workspace: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    format_version: Option<u32>,
    owner: OwnerInfo,
    owner_responds: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    agents: Vec<ConfiguredAgent>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    wrapped: Vec<WrappedServer>,
    sizes: Sizes,
    advice: [String; 1],
}

/// A client configured to start `retake mcp`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ConfiguredAgent {
    client: &'static str,
    name: String,
    /// The workspace in its configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    workspace: Option<String>,
    file: PathBuf,
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

/// Returns the servers of all clients whose configuration can be read.
fn configured_servers() -> impl Iterator<Item = (Client, PathBuf, Entry)> {
    let files = CLIENTS.into_iter().flat_map(|client| {
        [client.user_file(), client.project_file()].into_iter().flatten().map(move |file| (client, file))
    });
    files.flat_map(|(client, file)| {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        let entries = client.entries(&text).unwrap_or_default();
        entries.into_iter().map(move |entry| (client, file.clone(), entry))
    })
}

fn configured_agents() -> Vec<ConfiguredAgent> {
    let agents = configured_servers().filter(|(_, _, entry)| runs(entry, "mcp")).map(|(client, file, entry)| {
        let mut args = entry.args.into_iter().skip_while(|arg| arg != "--workspace").skip(1);
        ConfiguredAgent { client: client.title(), name: entry.name, workspace: args.next(), file }
    });
    agents.collect()
}

fn wrapped_servers() -> Vec<WrappedServer> {
    let wrapped = configured_servers().filter_map(|(client, file, entry)| {
        let command = wrapped_command(&entry)?.join(" ");
        Some(WrappedServer { client: client.title(), name: entry.name, command, file })
    });
    wrapped.collect()
}

fn layout(health: &Health, workspace: &str, output: &mut Output) {
    let status = &health.status;
    let format = status.format_version.map_or_else(|| UNKNOWN_FORMAT.to_owned(), describe_format);
    match &health.team {
        Some(TeamHealth { server_version, role, encrypted, warnings }) => {
            let how = if *encrypted { "encrypted" } else { "not encrypted" };
            line("server", format_args!("PostgreSQL {server_version} as {role}, {how}"), output);
            warnings.iter().for_each(|warning| line("warning", warning, output));
        }
        None => line("format", format, output),
    }
    line("owner", owner(health.owner.as_ref()), output);
    let archived = if status.archived > 0 { format!(" ({} archived)", status.archived) } else { String::new() };
    line("sessions", format_args!("{}{archived}", status.sessions), output);
    line("events", status.events, output);
    // The log and the originals of a team workspace are not on this machine.
    if health.team.is_none() {
        sizes_layout(&status.sizes, output);
    }
    let unread = status.unread_recoveries.len();
    let unread = if unread > 0 { format!(", {unread} unread") } else { String::new() };
    line("recoveries", format_args!("{}{unread}", status.recoveries), output);
    line("originals", originals(health.images), output);
    agents_layout(&health.agents, workspace, output);
    wrapped_layout(&health.wrapped, output);
    if health.advice.is_empty() {
        line("health", paint(GOOD, "nothing needs attention; `retake verify` reads and checks everything"), output);
    }
    for advice in &health.advice {
        line("advice", paint(WARNING, words::one_line(advice)), output);
    }
}

fn blocked_layout(blocked: &Blocked, is_team: bool, output: &mut Output) {
    let Blocked { format_version, owner, agents, workspace, wrapped, sizes, advice, .. } = blocked;
    if !is_team {
        line("format", format_version.map_or_else(|| UNKNOWN_FORMAT.to_owned(), describe_format), output);
    }
    let OwnerInfo { pid, version, since, .. } = owner;
    let (version, since) = (words::one_line(version), words::time(*since));
    let owner = format!("process {pid}, which does not answer; retake {version}, since {since}");
    line("owner", paint(WARNING, owner), output);
    if !is_team {
        sizes_layout(sizes, output);
    }
    agents_layout(agents, workspace, output);
    wrapped_layout(wrapped, output);
    for advice in advice {
        line("advice", paint(WARNING, advice), output);
    }
}

fn sizes_layout(sizes: &Sizes, output: &mut Output) {
    for (part, bytes) in [
        ("journal", sizes.journal),
        ("database", sizes.database),
        ("texts", sizes.texts),
        ("images", sizes.images),
        ("quarantine", sizes.quarantine),
    ] {
        line(part, words::size(bytes), output);
    }
}

/// The format of a workspace whose `retake.toml` is missing or damaged.
const UNKNOWN_FORMAT: &str = "unknown: retake.toml cannot be read";

/// Describes the format of a workspace beside what this program reads.
fn describe_format(format: u32) -> String {
    let newest = crate::store::FORMAT_VERSION;
    if format < newest { format!("{format} (this program reads up to {newest})") } else { format.to_string() }
}

fn agents_layout(agents: &[ConfiguredAgent], here: &str, output: &mut Output) {
    for ConfiguredAgent { client, workspace, .. } in agents {
        let used = match workspace {
            Some(workspace) if workspace == here => "this workspace".to_owned(),
            Some(workspace) => format!("another workspace: {workspace}"),
            None => "the workspace of the directory it starts in, else the data directory".to_owned(),
        };
        line("agents", words::one_line(&format!("{client} uses {used}")), output);
    }
}

fn wrapped_layout(wrapped: &[WrappedServer], output: &mut Output) {
    for WrappedServer { client, name, command, .. } in wrapped {
        let shown = words::one_line(&format!("{name} in {client}: {command}"));
        line("wrapped", shown, output);
    }
}

fn originals(images: Originals) -> String {
    if images.looked_for == 0 && images.sessions_left == 0 {
        return "none: no iteration has an image".to_owned();
    }
    let mut text = words::count(images.looked_for, "image reference");
    if images.linked > 0 {
        text += &format!(", {} of them linked", images.linked);
    }
    text += &match images.missing {
        0 => ", all there".to_owned(),
        missing => format!(", {missing} missing"),
    };
    if images.sessions_left > 0 {
        text += &format!("; {} not looked at", words::count(images.sessions_left, "older session"));
    }
    text
}

fn owner(owner: Option<&OwnerInfo>) -> String {
    let Some(OwnerInfo { pid, version, since, clients, .. }) = owner else {
        return "none: no other process has it open".to_owned();
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
