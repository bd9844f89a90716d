//! `retake mcp install`: configures an MCP client to start Retake.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;

use crate::platform::PROGRAM_FILE_NAME;
use crate::wire::{Error, ErrorKind};

use super::args::Json;
use super::clients::{Client, ServerEntry};
use super::context::Context;
use super::exit::{Exit, Failure};
use super::words;
use super::workspace::WorkspaceSource;

/// Print or write the configuration that makes an MCP client start Retake
///
/// --write merges it into the client's own file, leaves the rest alone and keeps a backup. A file that cannot be parsed is
/// not changed. `--workspace` becomes part of the configuration; without it, the workspace is chosen in the directory in
/// which the client starts Retake. Agents can then record image files below your home directory and the system's temporary
/// directory, with --project below the current directory, unless --root says otherwise.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    retake mcp install claude-desktop --write\n  \
    retake mcp install cursor --project --write\n  \
    retake mcp install codex --workspace ~/studio\n  \
    retake mcp install cursor --wrap nano-banana --write")]
pub(super) struct InstallArgs {
    /// The client
    #[arg(value_name = "CLIENT", value_enum)]
    client: Client,
    /// Write it into the client's file instead of printing it
    #[arg(long)]
    write: bool,
    /// Only for the current directory, if the client supports that
    #[arg(long)]
    project: bool,
    /// Let agents record files only below this directory; may be repeated
    #[arg(long, value_name = "DIR", conflicts_with_all = ["wrap", "unwrap"])]
    root: Vec<PathBuf>,
    /// The name under which the client lists Retake
    #[arg(long, value_name = "NAME", default_value = "retake")]
    name: String,
    /// Run a configured image server through `retake wrap`
    #[arg(long, value_name = "NAME", conflicts_with_all = ["name", "unwrap"])]
    wrap: Option<String>,
    /// Run a server directly again, without `retake wrap`
    #[arg(long, value_name = "NAME", conflicts_with = "name")]
    unwrap: Option<String>,
    #[command(flatten)]
    pub(super) json: Json,
}

/// The result of an installation, or of a preview.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Installed {
    client: String,
    /// The client's file.
    file: PathBuf,
    /// Whether the file contains the entry now.
    written: bool,
    /// Whether the file was changed.
    changed: bool,
    /// The backup of the file, if it was changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    backup: Option<PathBuf>,
    /// The configuration with only this entry.
    configuration: String,
    /// The workspace that commands use here, if the client may use another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    other_workspace: Option<String>,
}

/// Remove Retake from the configuration of an MCP client
///
/// Leaves the rest of the file alone and keeps a backup. Nothing that was recorded is touched.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    retake mcp uninstall claude-desktop\n  \
    retake mcp uninstall cursor --project")]
pub(super) struct UninstallArgs {
    /// The client
    #[arg(value_name = "CLIENT", value_enum)]
    client: Client,
    /// Only for the current directory, if the client supports that
    #[arg(long)]
    project: bool,
    /// The name under which the client lists Retake
    #[arg(long, value_name = "NAME", default_value = "retake")]
    name: String,
    #[command(flatten)]
    pub(super) json: Json,
}

impl UninstallArgs {
    pub(super) fn run(self, context: &mut Context) -> Result<Exit, Failure> {
        let UninstallArgs { client, project, name, json } = self;
        let install =
            InstallArgs { client, write: true, project, root: Vec::new(), name, wrap: None, unwrap: None, json };
        let mut done = Installed {
            client: client.title().to_owned(),
            file: install.file()?,
            written: false,
            changed: false,
            backup: None,
            configuration: String::new(),
            other_workspace: None,
        };
        let edit = |text: &str| match client.removed(text, &install.name) {
            _ if text.trim().is_empty() => Ok(text.to_owned()),
            removed => removed.map(|removed| removed.unwrap_or_else(|| text.to_owned())),
        };
        if done.file.exists() {
            install.put(&edit, &mut done)?;
        }
        let file = words::one_line(&done.file.display().to_string());
        context.output.answer(&done, |output, done| {
            if !done.changed {
                output.line(format_args!("{} does not start {:?}: {file}", done.client, install.name));
                return;
            }
            output.line(format_args!("{} no longer starts {:?}: {file}", done.client, install.name));
            if let Some(backup) = &done.backup {
                output.line(format_args!("backup: {}", words::one_line(&backup.display().to_string())));
            }
            output.hint(format_args!("restart {} to apply the change", done.client));
        });
        Ok(Exit::Done)
    }
}

impl InstallArgs {
    pub(super) fn run(self, context: &mut Context) -> Result<Exit, Failure> {
        if self.name.is_empty() || !self.name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c)) {
            return Err(Failure::flags("a name takes letters, digits, - and _ only", "choose another one with --name"));
        }
        if let Some((name, wrap)) =
            self.wrap.as_ref().map(|name| (name, true)).or(self.unwrap.as_ref().map(|name| (name, false)))
        {
            return self.rewrap(name, wrap, context);
        }
        let entry =
            ServerEntry { name: self.name.clone(), command: program(self.project)?, args: self.arguments(context)? };
        let mut done = Installed {
            client: self.client.title().to_owned(),
            file: self.file()?,
            written: false,
            changed: false,
            backup: None,
            configuration: self.client.alone(&entry),
            other_workspace: self.other_workspace(context)?,
        };
        if self.write {
            self.put(&|text| self.client.merged(text, &entry), &mut done)?;
        }
        let file = words::one_line(&done.file.display().to_string());
        context.output.answer(&done, |output, done| {
            match (done.written, done.changed) {
                (false, _) => {
                    output.raw().write_all(done.configuration.as_bytes()).ok();
                    output.aside(format_args!("{} reads this from {file}", done.client));
                    output.hint("--write merges it into that file, and keeps the rest of it");
                }
                (true, true) => {
                    output.line(format_args!("Retake was added to {}: {file}", done.client));
                    if let Some(backup) = &done.backup {
                        let backup = words::one_line(&backup.display().to_string());
                        output.line(format_args!("backup: {backup}"));
                    }
                    output.hint(format_args!("restart {} to apply the change", done.client));
                }
                (true, false) => output.line(format_args!("{} already has Retake: {file}", done.client)),
            }
            if let Some(here) = &done.other_workspace {
                let here = words::one_line(here);
                output
                    .hint(format_args!("commands here use {here}; add --workspace '{here}' for agents to use it, too"));
            }
        });
        Ok(Exit::Done)
    }

    /// Returns the workspace that commands use here, if the client may use another one: without --project, the client
    /// starts Retake neither in this directory nor with the variables of this shell.
    fn other_workspace(&self, context: &Context) -> Result<Option<String>, Failure> {
        if context.named_workspace().is_some() {
            return Ok(None);
        }
        let chosen = context.workspace()?;
        let differs = match chosen.by {
            WorkspaceSource::Environment => true,
            WorkspaceSource::Directory => !self.project,
            WorkspaceSource::Flag | WorkspaceSource::Default => false,
        };
        Ok(differs.then(|| chosen.shown()))
    }

    /// Returns the arguments that the client starts Retake with. They always include a root: an agent may be tricked
    /// into recording a file that its user would not share.
    fn arguments(&self, context: &Context) -> Result<Vec<String>, Error> {
        let mut arguments = with_workspace(vec!["mcp".to_owned()], context)?;
        let roots = match self.root.as_slice() {
            [] if self.project => vec![PathBuf::from(".")],
            [] => {
                let home = directories::BaseDirs::new().map(|dirs| dirs.home_dir().to_owned());
                home.into_iter().chain([std::env::temp_dir()]).collect()
            }
            roots => {
                // `retake mcp` would fail to start, and clients report that poorly.
                if let Some(absent) = roots.iter().find(|root| !root.is_dir()) {
                    let what = format!("--root is not a directory: {}", absent.display());
                    return Err(Error::new(ErrorKind::Invalid, what, "pass an existing directory, or create it first"));
                }
                roots.iter().map(|root| std::path::absolute(root).unwrap_or_else(|_| root.clone())).collect()
            }
        };
        for root in roots {
            let root = root.to_str().ok_or_else(|| {
                let what = format!("the path of --root is not Unicode: {}", root.display());
                Error::new(ErrorKind::Invalid, what, "configurations are text: choose another directory")
            })?;
            arguments.extend(["--root".to_owned(), root.to_owned()]);
        }
        Ok(arguments)
    }

    fn file(&self) -> Result<PathBuf, Failure> {
        if self.project {
            let file = self.client.project_file().ok_or_else(|| {
                Failure::flags(
                    format!("{} has no configuration for one directory", self.client.title()),
                    "leave --project out",
                )
            })?;
            return Ok(std::path::absolute(&file).unwrap_or(file));
        }
        let home = || {
            Error::new(
                ErrorKind::Invalid,
                "you have no home directory, where clients keep their configuration",
                "set HOME, or write it for one directory with --project",
            )
        };
        Ok(self.client.user_file().ok_or_else(home)?)
    }

    /// Changes an entry to run its server through `retake wrap`, or directly again.
    fn rewrap(&self, name: &str, wrap: bool, context: &mut Context) -> Result<Exit, Failure> {
        let file = self.file()?;
        let shown = words::one_line(&file.display().to_string());
        let title = self.client.title();
        let unread = |why: &dyn std::fmt::Display| {
            let what = format!("cannot read the configuration of {title}: {shown}");
            Error::new(ErrorKind::Invalid, what, "check the file; it was not changed").caused_by(why)
        };
        let text = fs::read_to_string(&file).map_err(|error| unread(&error))?;
        let entries = self.client.entries(&text).map_err(|why| unread(&why))?;
        let Some(entry) = entries.iter().find(|entry| entry.name == name) else {
            let known: Vec<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
            let hint = if known.is_empty() {
                "add the server to the client first; only servers that are started as programs can be wrapped"
                    .to_owned()
            } else {
                format!("name one of: {}", known.join(", "))
            };
            let what = format!("{title} starts no server {name:?}: {shown}");
            return Err(Error::new(ErrorKind::NotFound, what, hint).into());
        };
        let changed = if wrap { wrapped(entry, self.project, context)? } else { unwrapped(entry) };
        let mut done = Installed {
            client: title.to_owned(),
            file,
            written: false,
            changed: false,
            backup: None,
            configuration: self.client.alone(&changed),
            other_workspace: None,
        };
        if self.write {
            self.put(&|text| self.client.replaced(text, &changed), &mut done)?;
        }
        context.output.answer(&done, |output, done| match (done.written, done.changed) {
            (false, _) => {
                output.raw().write_all(done.configuration.as_bytes()).ok();
                output.hint(format_args!("--write changes this entry in {shown}, and keeps the rest of it"));
            }
            (true, false) => output.line(format_args!("{name} is configured like that already: {shown}")),
            (true, true) => {
                let state = if wrap { "runs through retake wrap" } else { "runs without retake wrap" };
                output.line(format_args!("{name} {state} from now on: {shown}"));
                if let Some(backup) = &done.backup {
                    output.line(format_args!("backup: {}", words::one_line(&backup.display().to_string())));
                }
                output.hint(format_args!("start {title} again, so that it reads the file"));
            }
        });
        Ok(Exit::Done)
    }

    fn put(&self, edit: &dyn Fn(&str) -> Result<String, String>, done: &mut Installed) -> Result<(), Error> {
        // Configuration files are often symbolic links into a dotfiles repository: keep the link.
        let file = done.file.canonicalize().unwrap_or_else(|_| done.file.clone());
        let left_alone = |why: &dyn std::fmt::Display| {
            let title = self.client.title();
            Error::new(
                ErrorKind::Invalid,
                format!("the configuration of {title} was not changed: {}", done.file.display()),
                format!("add this to it by hand: {}", words::one_line(&done.configuration)),
            )
            .caused_by(why)
        };
        let before = match fs::read(&file) {
            Ok(bytes) => Some(String::from_utf8(bytes).map_err(|_| left_alone(&"it is not text"))?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(left_alone(&error)),
        };
        let after = edit(before.as_deref().unwrap_or_default()).map_err(|why| left_alone(&why))?;
        done.written = true;
        if before.as_ref() == Some(&after) {
            return Ok(());
        }
        let failed = |error: io::Error| {
            let what = format!("cannot write the configuration: {}", file.display());
            Error::new(ErrorKind::Internal, what, "look at the cause; the file is as it was").caused_by(error)
        };
        if let Some(parent) = file.parent() {
            fs::create_dir_all(parent).map_err(failed)?;
        }
        if before.is_some() {
            done.backup = Some(keep(&file).map_err(failed)?);
        }
        replace(&file, after.as_bytes()).map_err(failed)?;
        done.changed = true;
        Ok(())
    }
}

/// Returns the command that starts this program: its name in PATH, where an upgrade puts the next version, otherwise
/// its own path. A file that is shared with others contains only the command name.
fn program(project: bool) -> Result<String, Error> {
    if project {
        return Ok("retake".to_owned());
    }
    if let Some(found) = on_path() {
        return Ok(found);
    }
    let unknown = |cause: &dyn std::fmt::Display| {
        Error::new(ErrorKind::Internal, "cannot determine the path of this program", "call it by its full path")
            .caused_by(cause)
    };
    let program = std::env::current_exe().map_err(|error| unknown(&error))?;
    program.to_str().map(str::to_owned).ok_or_else(|| unknown(&"its path is not Unicode"))
}

/// Returns this program's path in PATH. Links are not resolved, since package managers replace their targets.
fn on_path() -> Option<String> {
    let ours = std::env::current_exe().ok()?.canonicalize().ok()?;
    let found = std::env::split_paths(&std::env::var_os("PATH")?)
        .filter(|dir| dir.is_absolute())
        .map(|dir| dir.join(PROGRAM_FILE_NAME))
        .find(|path| path.canonicalize().is_ok_and(|path| path == ours))?;
    found.to_str().map(str::to_owned)
}

/// Returns an entry that starts its server through `retake wrap`.
fn wrapped(entry: &ServerEntry, project: bool, context: &Context) -> Result<ServerEntry, Error> {
    let mut args = with_workspace(vec!["wrap".to_owned()], context)?;
    args.push("--".to_owned());
    let inner = unwrapped(entry);
    args.push(inner.command);
    args.extend(inner.args);
    Ok(ServerEntry { name: entry.name.clone(), command: program(project)?, args })
}

/// Returns an entry that starts its server directly.
fn unwrapped(entry: &ServerEntry) -> ServerEntry {
    match wrapped_command(entry) {
        Some([command, args @ ..]) => {
            ServerEntry { name: entry.name.clone(), command: command.clone(), args: args.to_vec() }
        }
        _ => entry.clone(),
    }
}

/// Returns the command that an entry runs through `retake wrap`; `None` if it does not use it.
pub(super) fn wrapped_command(entry: &ServerEntry) -> Option<&[String]> {
    let command = entry.args.iter().position(|arg| arg == "--").and_then(|place| entry.args.get(place + 1..));
    command.filter(|_| runs(entry, "wrap"))
}

/// Returns whether an entry runs this subcommand of Retake.
pub(super) fn runs(entry: &ServerEntry, verb: &str) -> bool {
    let program = Path::new(&entry.command);
    // The program may be installed under another name.
    let is_this = || std::env::current_exe().is_ok_and(|this| this == program);
    let is_ours = program.file_stem().is_some_and(|stem| stem == "retake") || is_this();
    is_ours && entry.args.first().is_some_and(|first| first == verb)
}

fn with_workspace(mut arguments: Vec<String>, context: &Context) -> Result<Vec<String>, Error> {
    if let Some(named) = context.named_workspace() {
        // A URL is not a local path.
        let is_url = named.to_str().is_some_and(|text| text.contains("://"));
        let dir = Some(named).filter(|_| !is_url).and_then(|dir| std::path::absolute(dir).ok());
        let dir = dir.unwrap_or_else(|| named.to_owned());
        let dir = dir.to_str().ok_or_else(|| {
            let what = format!("the workspace's path is not Unicode: {}", dir.display());
            Error::new(ErrorKind::Invalid, what, "configurations are text: choose another directory")
        })?;
        arguments.extend(["--workspace".to_owned(), dir.to_owned()]);
    }
    Ok(arguments)
}

/// Copies the file to an unused name next to it.
fn keep(file: &Path) -> io::Result<PathBuf> {
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut number = 1;
    loop {
        let suffix = if number == 1 { String::new() } else { format!("-{number}") };
        let backup = file.with_file_name(format!("{name}.before-retake{suffix}"));
        if !backup.try_exists()? {
            fs::copy(file, &backup)?;
            return Ok(backup);
        }
        number += 1;
    }
}

/// Replaces a file atomically and keeps its permissions, since it may contain secrets.
fn replace(file: &Path, bytes: &[u8]) -> io::Result<()> {
    let temp = file.with_file_name(format!(".retake-install-{}", std::process::id()));
    let written = (|| {
        let mut new = OpenOptions::new().write(true).create_new(true).open(&temp)?;
        if let Ok(before) = fs::metadata(file) {
            new.set_permissions(before.permissions())?;
        }
        new.write_all(bytes)?;
        new.sync_all()?;
        fs::rename(&temp, file)
    })();
    if written.is_err() {
        let _ = fs::remove_file(&temp);
    }
    written
}
