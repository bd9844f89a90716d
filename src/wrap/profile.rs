//! Profiles: declarative files that describe what the rules cannot know about a server.
//!
//! Built-in profiles are chosen by how the server introduces itself; a user's file, or one given with `--profile`,
//! takes precedence. Nothing in a profile is executed. `docs/wrap.md` describes the format.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use super::observe::Connection;
use super::redact::normalized;

/// A profile.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Profile {
    /// The name, from the file name.
    #[serde(skip)]
    pub(crate) name: String,
    /// The servers it applies to.
    #[serde(default, rename = "match")]
    matches: Matches,
    /// Additional redactions.
    #[serde(default)]
    pub(crate) redact: Redact,
    /// The tools, by name.
    #[serde(default)]
    tool: BTreeMap<String, ToolProfile>,
}

/// The condition for a server to match. All parts must hold.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Matches {
    /// The name under which the server introduces itself, case-insensitive.
    server: Option<String>,
    /// Tools that the server must offer.
    #[serde(default)]
    tools: Vec<String>,
}

/// Additional redactions.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Redact {
    /// Arguments that hold a secret.
    #[serde(default)]
    pub(crate) arguments: Vec<String>,
}

/// The profile of one tool.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ToolProfile {
    /// The purpose of the tool.
    pub(crate) kind: Option<ToolKind>,
    /// Roles of arguments: `prompt`, `negativePrompt`, `model`, `seed`, `steps`, `count`, `input`, `mask`, `output`,
    /// `parent`, `job`, `ignore`, …, each with the name of the argument.
    #[serde(default)]
    arguments: BTreeMap<String, Names>,
    /// Locations in the result: `job`, `status`, `error`, `model`, `seed`, `promptSent`, `cost`, each a path into the
    /// JSON of the result, such as `data.0.seed`.
    #[serde(default)]
    pub(crate) result: BTreeMap<String, String>,
    /// A constant model, or `"tool"` for the name of the tool.
    pub(crate) model: Option<String>,
    /// Whether images in the result are previews of the real ones.
    #[serde(default)]
    pub(crate) preview: bool,
    /// Whether to keep waiting for the image after the job is done, since another call fetches it.
    #[serde(default)]
    pub(crate) image_follows: bool,
}

/// One name or several.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Names {
    One(String),
    Several(Vec<String>),
}

/// The purpose of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ToolKind {
    /// It makes an image from a prompt.
    Generate,
    /// It makes an image from another one.
    Edit,
    /// It reports on a job or fetches its output.
    Poll,
    /// It is never recorded.
    Ignore,
}

impl ToolProfile {
    /// Returns the role of an argument according to the profile.
    pub(crate) fn role_of(&self, argument: &str) -> Option<&str> {
        let same = |name: &String| normalized(name) == normalized(argument);
        let found = self.arguments.iter().find(|(_, names)| match names {
            Names::One(name) => same(name),
            Names::Several(names) => names.iter().any(same),
        });
        found.map(|(role, _)| role.as_str())
    }
}

impl Profile {
    /// Parses a profile.
    pub(crate) fn parse(name: &str, text: &str) -> Result<Profile, String> {
        let profile: Profile = toml::from_str(text).map_err(|error| error.to_string())?;
        Ok(Profile { name: name.to_owned(), ..profile })
    }

    /// Returns the profile of a tool.
    pub(crate) fn tool(&self, name: &str) -> Option<&ToolProfile> {
        self.tool.get(name)
    }

    fn matches(&self, connection: &Connection) -> bool {
        let Matches { server, tools } = &self.matches;
        let named =
            |wanted: &String| connection.server.as_ref().is_some_and(|peer| peer.name.eq_ignore_ascii_case(wanted));
        (server.is_some() || !tools.is_empty())
            && server.as_ref().is_none_or(named)
            && tools.iter().all(|tool| connection.tools.contains_key(tool))
    }
}

/// All known profiles.
#[derive(Clone, Debug, Default)]
pub(crate) struct Profiles {
    /// The one requested by the user, applied to any server.
    forced: Option<Profile>,
    /// The user's profiles, followed by the built-in ones.
    known: Vec<Profile>,
}

impl Profiles {
    /// Reads the built-in profiles.
    pub(crate) fn built_in() -> Profiles {
        let parse = |(name, text): &(&str, &str)| Profile::parse(name, text).ok();
        Profiles { forced: None, known: BUILT_IN.iter().filter_map(parse).collect() }
    }

    /// Adds the profiles in a directory before all others. Returns the files that could not be read, with the reason.
    pub(crate) fn add_directory(&mut self, dir: &Path) -> Vec<String> {
        let mut problems = Vec::new();
        let Ok(entries) = std::fs::read_dir(dir) else { return problems };
        let mut found = Vec::new();
        for entry in entries.flatten() {
            let path = entry.path();
            if path.extension().is_none_or(|extension| extension != "toml") {
                continue;
            }
            match load(&path) {
                Ok(profile) => found.push(profile),
                Err(problem) => problems.push(problem),
            }
        }
        found.sort_by(|one, other| one.name.cmp(&other.name));
        found.append(&mut self.known);
        self.known = found;
        problems
    }

    /// Uses the profile of this name or in this file, regardless of how the server introduces itself.
    pub(crate) fn force(&mut self, name: &str) -> Result<(), String> {
        let known = self.known.iter().find(|profile| profile.name == name).cloned();
        self.forced = Some(match known {
            Some(profile) => profile,
            None if Path::new(name).is_file() => load(Path::new(name))?,
            None => {
                let names: Vec<&str> = self.known.iter().map(|profile| profile.name.as_str()).collect();
                return Err(format!("no profile or file is named {name:?}; known profiles: {}", names.join(", ")));
            }
        });
        Ok(())
    }

    /// Returns the profile for a server.
    pub(crate) fn choose(&self, connection: &Connection) -> Option<&Profile> {
        self.forced.as_ref().or_else(|| self.known.iter().find(|profile| profile.matches(connection)))
    }
}

fn load(path: &Path) -> Result<Profile, String> {
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let shown = path.display();
    let text = std::fs::read_to_string(path).map_err(|error| format!("cannot read the profile {shown}: {error}"))?;
    Profile::parse(&name, &text).map_err(|error| format!("invalid profile {shown}: {error}"))
}

/// Follows a path such as `data.0.url` into a value.
pub(crate) fn follow<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(value, |value, step| match value {
        Value::Array(items) => items.get(step.parse::<usize>().ok()?),
        other => other.get(step),
    })
}

/// The built-in profiles, by name.
const BUILT_IN: &[(&str, &str)] = &[
    ("comfyui-mcp-server", include_str!("../../data/wrap/profiles/comfyui-mcp-server.toml")),
    ("image-generation-mcp", include_str!("../../data/wrap/profiles/image-generation-mcp.toml")),
    ("kie-ai", include_str!("../../data/wrap/profiles/kie-ai.toml")),
    ("midjourney", include_str!("../../data/wrap/profiles/midjourney.toml")),
    ("nanobanana-extension", include_str!("../../data/wrap/profiles/nanobanana-extension.toml")),
    ("replicate", include_str!("../../data/wrap/profiles/replicate.toml")),
    ("together", include_str!("../../data/wrap/profiles/together.toml")),
];

#[cfg(test)]
mod tests {
    use super::super::observe::{Implementation, ListedTool};
    use super::*;

    fn connection(server: &str, tools: &[&str]) -> Connection {
        let tool = |name: &&str| ((*name).to_owned(), ListedTool { name: (*name).to_owned(), ..ListedTool::default() });
        Connection {
            server: Some(Implementation { name: server.to_owned(), version: String::new() }),
            client: None,
            tools: tools.iter().map(tool).collect(),
        }
    }

    #[test]
    fn every_built_in_profile_can_be_read_and_has_something_to_match() {
        for (name, text) in BUILT_IN {
            let profile = Profile::parse(name, text).unwrap();
            assert!(profile.matches.server.is_some() || !profile.matches.tools.is_empty(), "{name}");
            assert!(!profile.tool.is_empty(), "{name}");
        }
    }

    #[test]
    fn the_users_profile_wins_and_a_forced_one_always() {
        let server = connection("image-generation-mcp", &["generate_image", "check_generation_status", "show_image"]);
        let mut profiles = Profiles::built_in();
        assert_eq!(profiles.choose(&server).unwrap().name, "image-generation-mcp");
        assert!(profiles.choose(&connection("other", &["generate_image"])).is_none());

        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("mine.toml"), "[match]\nserver = \"IMAGE-generation-mcp\"\n").unwrap();
        std::fs::write(dir.path().join("bad.toml"), "[match]\nserver = 7\n").unwrap();
        let problems = profiles.add_directory(dir.path());
        assert!(problems.len() == 1 && problems[0].contains("bad.toml"), "{problems:?}");
        assert_eq!(profiles.choose(&server).unwrap().name, "mine");
        profiles.force("midjourney").unwrap();
        assert_eq!(profiles.choose(&server).unwrap().name, "midjourney");
        assert!(profiles.force("nothing").unwrap_err().contains("image-generation-mcp"));
    }

    #[test]
    fn unknown_keys_are_refused() {
        assert!(Profile::parse("x", "[tool.a]\nkinds = \"generate\"\n").unwrap_err().contains("kinds"));
        assert!(Profile::parse("x", "[tool.a]\nkind = \"make\"\n").is_err());
    }
}
