//! The commands, and the flags that all of them share.

use std::path::PathBuf;

use anstream::ColorChoice;
use clap::{Args, Parser, Subcommand, ValueEnum};

use super::annotate::AnnotateArgs;
use super::archive::ArchiveArgs;
use super::audit::AuditArgs;
use super::compare::CompareArgs;
use super::completions::{CompleteReferencesArgs, CompletionsArgs};
use super::demo::DemoArgs;
use super::export::ExportArgs;
use super::import::ImportArgs;
use super::list::ListArgs;
use super::man::ManArgs;
use super::mcp::{McpArgs, McpVerb};
use super::record::RecordArgs;
use super::rename::RenameArgs;
use super::resume::ResumeArgs;
use super::search::SearchArgs;
use super::serve::ServeArgs;
use super::show::ShowArgs;
use super::team::TeamArgs;
use super::verify::{RepairArgs, VerifyArgs};
use super::version;
use super::watch::WatchArgs;
use super::wrap::WrapArgs;

/// The memory of image-generation work
///
/// Retake keeps every iteration (prompt, recipe, images, cost, lineage) in append-only sessions, so that you or an agent can
/// resume a workflow days later and show how each image was made.
#[derive(Debug, Parser)]
#[command(name = "retake", version, long_version = version::LONG.as_str(), max_term_width = 100, after_help = AFTER_HELP)]
pub(super) struct Cli {
    #[command(subcommand)]
    pub(super) verb: Verb,
    #[command(flatten)]
    pub(super) json: Json,
    #[command(flatten)]
    pub(super) global: Global,
}

const AFTER_HELP: &str = "\
References:
  'session-2025-12-11-001#3'   iteration 3 of that session, from 0
  'session-2025-12-11-001#3/1' its second image
  session-2025-12-11-001       the session, or its last iteration
  latest                       the last iteration of the active session
                               that was modified last
  '#first' '#3' '#latest'      an iteration of that same session
  '001#3' '12-11-001#3'        of session 001 of today, or of the only
                               session whose id ends so
  Put references with # in quotes: shells give it a meaning of its own.

Exit status:
  0  done
  1  the request failed
  2  bad usage: an unknown flag or an invalid value
  3  the workspace is damaged; what was lost and saved is named

Start with:
  retake record \"a cat in the snow\" --model sdxl --seed 42 --image cat.png
  retake list
  retake resume";

/// What to do.
#[derive(Debug, Subcommand)]
pub(super) enum Verb {
    List(ListArgs),
    Show(ShowArgs),
    Record(Box<RecordArgs>),
    Resume(ResumeArgs),
    Compare(CompareArgs),
    Search(SearchArgs),
    Annotate(AnnotateArgs),
    Rename(RenameArgs),
    /// Archive a session: it takes no more iterations, and nothing is deleted
    #[command(after_help = "Example:\n  retake archive session-2025-12-11-001 --reason 'delivered'")]
    Archive(ArchiveArgs),
    /// Restore an archived session, so that it accepts iterations again
    #[command(after_help = "Example:\n  retake restore session-2025-12-11-001 --reason 'client wants changes'")]
    Restore(ArchiveArgs),
    Audit(AuditArgs),
    Export(ExportArgs),
    Import(ImportArgs),
    Watch(WatchArgs),
    Wrap(WrapArgs),
    Verify(VerifyArgs),
    Repair(RepairArgs),
    /// Show which workspace is used, why, and its state
    Doctor(Json),
    Mcp(McpArgs),
    Serve(ServeArgs),
    Demo(DemoArgs),
    Team(TeamArgs),
    Completions(CompletionsArgs),
    #[command(hide = true)]
    CompleteReferences(CompleteReferencesArgs),
    #[command(hide = true)]
    Man(ManArgs),
    /// What `--version` prints, for those who try this first
    #[command(hide = true)]
    Version(Json),
}

impl Verb {
    /// Returns whether the command's own `--json` flag was given.
    pub(super) fn wants_json(&self) -> bool {
        match self {
            Verb::List(ListArgs { json, .. })
            | Verb::Show(ShowArgs { json, .. })
            | Verb::Resume(ResumeArgs { json, .. })
            | Verb::Compare(CompareArgs { json, .. })
            | Verb::Search(SearchArgs { json, .. })
            | Verb::Annotate(AnnotateArgs { json, .. })
            | Verb::Rename(RenameArgs { json, .. })
            | Verb::Archive(ArchiveArgs { json, .. })
            | Verb::Restore(ArchiveArgs { json, .. })
            | Verb::Audit(AuditArgs { json, .. })
            | Verb::Export(ExportArgs { json, .. })
            | Verb::Import(ImportArgs { json, .. })
            | Verb::Watch(WatchArgs { json, .. })
            | Verb::Wrap(WrapArgs { json, .. })
            | Verb::Serve(ServeArgs { json, .. })
            | Verb::Demo(DemoArgs { json, .. })
            | Verb::Completions(CompletionsArgs { json, .. })
            | Verb::Man(ManArgs { json, .. })
            | Verb::Verify(VerifyArgs { json, .. })
            | Verb::Repair(RepairArgs { json, .. })
            | Verb::Doctor(json)
            | Verb::Version(json) => json.json,
            Verb::CompleteReferences(_) => false,
            Verb::Team(team) => team.wants_json(),
            Verb::Record(record) => record.json.is_some(),
            Verb::Mcp(McpArgs { verb, json, .. }) => json.json || verb.as_ref().is_some_and(McpVerb::wants_json),
        }
    }
}

/// The flag for scripts. It is a flag of each verb and not a global one, because `record` takes a value with it.
#[derive(Clone, Copy, Debug, Args)]
pub(super) struct Json {
    /// Print one line of JSON, errors included
    #[arg(long)]
    pub(super) json: bool,
}

/// Flags that go with every verb.
#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
pub(super) struct Global {
    /// The workspace to use
    ///
    /// A directory, or postgres://ROLE@HOST/DATABASE for a team's workspace.
    /// Without it: RETAKE_WORKSPACE, else the nearest .retake/ at or above the current directory, else the platform's
    /// data directory.
    #[arg(long, global = true, value_name = "DIR|URL")]
    pub(super) workspace: Option<PathBuf>,
    /// Read and show times in UTC instead of local time
    // Read before anything is parsed, since values of flags may be times.
    #[arg(long = "utc", global = true)]
    _utc: bool,
    /// When to use colours (auto: on a terminal, unless NO_COLOR is set)
    #[arg(long, global = true, value_name = "WHEN", value_enum, default_value_t = Color::Auto)]
    pub(super) color: Color,
    /// Log to stderr; repeat for more detail (or set RETAKE_LOG)
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(super) verbose: u8,
}

/// Parses the number of rows on a page.
pub(super) fn limit(text: &str) -> Result<u32, String> {
    text.parse()
        .ok()
        .filter(|rows| (1..=1000).contains(rows))
        .ok_or_else(|| "expected a number from 1 to 1000".to_owned())
}

/// Parses a whole number. The error states what was expected rather than quoting Rust's parser.
pub(super) fn whole_number<T: TryFrom<u64>>(text: &str) -> Result<T, String> {
    let bits = u32::try_from(8 * size_of::<T>()).unwrap_or(u64::BITS);
    let most = u64::MAX.checked_shr(u64::BITS.saturating_sub(bits)).unwrap_or_default();
    let number = text.parse::<u64>().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()));
    number
        .and_then(|number| T::try_from(number).ok())
        .ok_or_else(|| format!("expected a whole number from 0 to {most}"))
}

/// When to use colours. Without words of their own, the values take one line in every help.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum Color {
    Auto,
    Always,
    Never,
}

impl From<Color> for ColorChoice {
    fn from(color: Color) -> ColorChoice {
        match color {
            Color::Auto => ColorChoice::Auto,
            Color::Always => ColorChoice::Always,
            Color::Never => ColorChoice::Never,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_arguments_agree_with_each_other() {
        Cli::command().debug_assert();
    }

    #[test]
    fn whole_numbers_have_the_bounds_of_their_type() {
        assert_eq!(whole_number::<u16>("65535"), Ok(65535));
        assert_eq!(whole_number::<u64>("18446744073709551615"), Ok(u64::MAX));
        for text in ["65536", "-1", "+1", "1.5", "", " 1", "one"] {
            assert_eq!(
                whole_number::<u16>(text),
                Err("expected a whole number from 0 to 65535".to_owned()),
                "{text:?}"
            );
        }
    }
}
