//! Chooses the workspace: `--workspace`, otherwise `RETAKE_WORKSPACE`, otherwise the nearest `.retake/` at or above the
//! current directory, otherwise the platform's data directory.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use directories::ProjectDirs;
use serde::Serialize;

use crate::team::TeamWorkspace;
use crate::wire::{Error, ErrorKind};

use super::exit::Failure;

/// The environment variable that selects a workspace.
const VARIABLE: &str = "RETAKE_WORKSPACE";
/// The name of a workspace directory inside a project directory.
const LOCAL: &str = ".retake";

/// The chosen workspace, and how it was chosen.
#[derive(Clone, Debug)]
pub(super) struct ChosenWorkspace {
    /// Its directory, which may not exist yet; for a team workspace, its local directory.
    pub(super) dir: PathBuf,
    /// The team workspace, if it is one.
    pub(super) team: Option<TeamWorkspace>,
    /// How it was chosen.
    pub(super) by: WorkspaceSource,
}

/// The way a workspace was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum WorkspaceSource {
    /// `--workspace`.
    Flag,
    /// `RETAKE_WORKSPACE`.
    Environment,
    /// A `.retake/` at or above the current directory.
    Directory,
    /// The platform's data directory.
    Default,
}

impl WorkspaceSource {
    /// Describes the source in words.
    pub(super) fn words(self) -> &'static str {
        match self {
            WorkspaceSource::Flag => "--workspace",
            WorkspaceSource::Environment => "RETAKE_WORKSPACE",
            WorkspaceSource::Directory => "the nearest .retake/ at or above the current directory",
            WorkspaceSource::Default => "default: the platform's data directory",
        }
    }
}

/// Chooses the workspace.
pub(super) fn choose(flag: Option<PathBuf>) -> Result<ChosenWorkspace, Failure> {
    let here = env::current_dir().ok();
    let chosen = pick(flag, env::var_os(VARIABLE), here.as_deref(), || {
        Some(ProjectDirs::from("", "", "retake")?.data_dir().to_owned())
    });
    let (dir, by) = chosen.ok_or_else(|| {
        Error::new(
            ErrorKind::Invalid,
            "no directory for a workspace: the system names no data directory for this user",
            format!("pass --workspace DIR, set {VARIABLE}, or create a directory {LOCAL} here"),
        )
    })?;
    if let Some(url) = dir.to_str().filter(|text| TeamWorkspace::is_url(text)) {
        let team = TeamWorkspace::new(url).map_err(|error| {
            Failure::flags(format!("{}: {error}", by.words()), "write postgres://ROLE@HOST/DATABASE")
        })?;
        return Ok(ChosenWorkspace { dir: team.dir().to_owned(), team: Some(team), by });
    }
    if let Some(other) = dir.to_str().filter(|text| text.contains("://")) {
        let message = format!("{} {other:?} is neither a directory nor a PostgreSQL URL", by.words());
        return Err(Failure::flags(message, "pass a directory, or postgres://ROLE@HOST/DATABASE"));
    }
    Ok(ChosenWorkspace { dir, team: None, by })
}

impl ChosenWorkspace {
    /// Returns whether there is a workspace, or the remains of one. An inaccessible directory counts, since opening it
    /// reports the reason, and so does a team workspace, since only its server knows.
    pub(super) fn exists(&self) -> bool {
        const PARTS: [&str; 4] = ["retake.toml", "journal", "db", "images"];
        self.team.is_some() || PARTS.iter().any(|part| self.dir.join(part).try_exists().unwrap_or(true))
    }

    /// Returns its location for display, without secrets.
    pub(super) fn shown(&self) -> String {
        self.team.as_ref().map_or_else(|| self.dir.display().to_string(), TeamWorkspace::url)
    }
}

fn pick(
    flag: Option<PathBuf>,
    variable: Option<OsString>,
    here: Option<&Path>,
    default: impl FnOnce() -> Option<PathBuf>,
) -> Option<(PathBuf, WorkspaceSource)> {
    // Make it absolute: another process, with another current directory, may be asked to work on it.
    let absolute = |dir: PathBuf| match here {
        // Drop the `.` in `./studio`.
        Some(here) if !dir.to_str().is_some_and(|text| text.contains("://")) => here.join(&dir).components().collect(),
        _ => dir,
    };
    if let Some(dir) = flag {
        return Some((absolute(dir), WorkspaceSource::Flag));
    }
    // Clients pass the placeholder of an unset setting unchanged.
    let is_set = |dir: &OsString| !dir.is_empty() && !dir.to_str().is_some_and(|text| text.starts_with("${"));
    if let Some(dir) = variable.filter(is_set) {
        return Some((absolute(dir.into()), WorkspaceSource::Environment));
    }
    let local = here.and_then(|here| here.ancestors().map(|dir| dir.join(LOCAL)).find(|dir| dir.is_dir()));
    if let Some(dir) = local {
        return Some((dir, WorkspaceSource::Directory));
    }
    default().map(|dir| (dir, WorkspaceSource::Default))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_specific_choice_wins() {
        let root = tempfile::tempdir().unwrap();
        let below = root.path().join("project/pictures");
        std::fs::create_dir_all(&below).unwrap();
        let default = || Some(PathBuf::from("/data/retake"));
        let picked = |flag: Option<&str>, variable: Option<&str>| {
            pick(flag.map(Into::into), variable.map(Into::into), Some(&below), default).unwrap()
        };
        assert_eq!(picked(None, None), ("/data/retake".into(), WorkspaceSource::Default));

        std::fs::create_dir(root.path().join(".retake")).unwrap();
        assert_eq!(picked(None, None), (root.path().join(".retake"), WorkspaceSource::Directory));
        std::fs::write(below.join(".retake"), "a file is not a workspace").unwrap();
        assert_eq!(picked(None, None), (root.path().join(".retake"), WorkspaceSource::Directory));
        std::fs::create_dir(root.path().join("project/.retake")).unwrap();
        assert_eq!(picked(None, None), (root.path().join("project/.retake"), WorkspaceSource::Directory));

        assert_eq!(picked(None, Some("${user_config.workspace}")).1, WorkspaceSource::Directory);
        assert_eq!(picked(None, Some("")), (root.path().join("project/.retake"), WorkspaceSource::Directory));
        assert_eq!(picked(None, Some("elsewhere")), (below.join("elsewhere"), WorkspaceSource::Environment));
        assert_eq!(picked(Some("/here"), Some("elsewhere")), ("/here".into(), WorkspaceSource::Flag));
        assert_eq!(picked(None, Some("postgres://h/db")), ("postgres://h/db".into(), WorkspaceSource::Environment));
        assert_eq!(pick(None, None, None, || None), None);
    }
}
