//! `retake completions`.

use std::io::Write;
use std::time::Duration;

use clap::{Args, CommandFactory, ValueHint};
use clap_complete::Shell;
use serde::Serialize;

use crate::wire::ListRequest;

use super::args::{Cli, Json};
use super::context::Context;
use super::ending::{Exit, Failure};
use super::words;

/// Print a script that completes `retake` commands in your shell
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    retake completions bash > ~/.local/share/bash-completion/completions/retake\n  \
    retake completions fish > ~/.config/fish/completions/retake.fish")]
pub(super) struct CompletionsArgs {
    /// The shell
    shell: Shell,
    #[command(flatten)]
    pub(super) json: Json,
}

impl CompletionsArgs {
    pub(super) fn run(self, context: &mut Context) -> Exit {
        // Generate into memory first: the generator panics if it cannot write.
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut hinted(Cli::command()), "retake", &mut script);
        script.extend_from_slice(references(self.shell).as_bytes());
        let view = Script { shell: self.shell.to_string(), script: String::from_utf8_lossy(&script).into_owned() };
        context.output.answer(&view, |output, view| {
            // The output remembers a failure and reports it at the end.
            let _ = output.raw().write_all(view.script.as_bytes());
        });
        Exit::Done
    }
}

/// The placeholders of texts that may also be the name of a file.
const MAYBE_FILES: [&str; 2] = ["IMAGE", "NAME|FILE"];

/// Marks the values of flags that are not files, so that shells do not offer file names for them.
fn hinted(command: clap::Command) -> clap::Command {
    let command = command.mut_args(|arg| {
        let names = arg.get_value_names().unwrap_or_default();
        // clap knows the hint of paths from their type.
        let may_be_file = arg.get_value_hint() != ValueHint::Unknown
            || names.iter().any(|name| MAYBE_FILES.contains(&name.as_str()))
            || arg.is_positional();
        if may_be_file || !arg.get_action().takes_values() { arg } else { arg.value_hint(ValueHint::Other) }
    });
    command.mut_subcommands(hinted)
}

/// Returns the part of the script that completes session ids by calling `retake complete-references`.
fn references(shell: Shell) -> &'static str {
    match shell {
        Shell::Bash => BASH,
        Shell::Zsh => ZSH,
        Shell::Fish => FISH,
        _ => "",
    }
}

const BASH: &str = r#"
# Session ids and references, where one is expected.
_retake_references() {
    local cur="${COMP_WORDS[COMP_CWORD]}" prev="${COMP_WORDS[COMP_CWORD-1]}" verb="" at
    local -a place=()
    for ((at = 1; at < COMP_CWORD; at++)); do
        case "${COMP_WORDS[at]}" in
            --workspace) place=(--workspace "${COMP_WORDS[at+1]}"); ((at++)) ;;
            --color) ((at++)) ;;
            -*) ;;
            *) [[ -z "$verb" ]] && verb="${COMP_WORDS[at]}" ;;
        esac
    done
    case "$prev" in
        --session|--parent|--like|--similar-to) ;;
        -*) _retake "$@"; return ;;
        *) case "$verb" in
               show|resume|compare|annotate|rename|archive|restore|audit|export) ;;
               *) _retake "$@"; return ;;
           esac
           [[ "$cur" == -* ]] && { _retake "$@"; return; } ;;
    esac
    COMPREPLY=($(compgen -W "$("${COMP_WORDS[0]}" "${place[@]}" complete-references 2>/dev/null)" -- "$cur"))
}
complete -F _retake_references -o nosort -o bashdefault -o default retake 2>/dev/null ||
    complete -F _retake_references -o bashdefault -o default retake
"#;

const ZSH: &str = r#"
# Session ids and references, where one is expected.
_retake_references() {
    local prev="${words[CURRENT-1]}" verb="" at
    local -a place=()
    for ((at = 2; at < CURRENT; at++)); do
        case "${words[at]}" in
            --workspace) place=(--workspace "${words[at+1]}"); ((at++)) ;;
            --color) ((at++)) ;;
            -*) ;;
            *) [[ -z "$verb" ]] && verb="${words[at]}" ;;
        esac
    done
    case "$prev" in
        --session|--parent|--like|--similar-to) ;;
        -*) _retake "$@"; return ;;
        *) case "$verb" in
               show|resume|compare|annotate|rename|archive|restore|audit|export) ;;
               *) _retake "$@"; return ;;
           esac
           [[ "${words[CURRENT]}" == -* ]] && { _retake "$@"; return; } ;;
    esac
    local -a found=(${(f)"$(${words[1]} "${place[@]}" complete-references 2>/dev/null)"})
    compadd -a found
}
compdef _retake_references retake
"#;

const FISH: &str = r#"
# Session ids and references, where one is expected.
complete -c retake -n "__fish_seen_subcommand_from show resume compare annotate rename archive restore audit export" -f -a "(retake complete-references --titles 2>/dev/null)"
complete -c retake -n "__fish_seen_subcommand_from record" -l session -x -a "(retake complete-references --titles 2>/dev/null)"
complete -c retake -n "__fish_seen_subcommand_from record" -l parent -x -a "(retake complete-references --titles 2>/dev/null)"
complete -c retake -n "__fish_seen_subcommand_from record" -l like -x -a "(retake complete-references --titles 2>/dev/null)"
"#;

/// Print the references that a shell offers, newest first
#[derive(Debug, Args)]
pub(super) struct CompleteReferencesArgs {
    /// Add a title to each, separated by a tab
    #[arg(long)]
    titles: bool,
}

impl CompleteReferencesArgs {
    pub(super) fn run(&self, context: &mut Context) -> Result<Exit, Failure> {
        // A key press must not create a workspace.
        if !context.workspace()?.dir.exists() {
            return Ok(Exit::Done);
        }
        // Nor must it wait for an owner that was suspended.
        context.owner_timeout = Some(OWNER_TIMEOUT);
        context.read(|api, output| {
            let list = api.list(&ListRequest { limit: Some(MAX_OFFERED), ..ListRequest::default() })?;
            output.line("latest");
            for row in &list.sessions {
                let title = row.title().filter(|_| self.titles).map(|title| format!("\t{}", words::one_line(title)));
                output.line(format_args!("{}{}", row.id(), title.unwrap_or_default()));
            }
            Ok(Exit::Done)
        })
    }
}

/// How long a key press waits for a silent owner of the workspace.
const OWNER_TIMEOUT: Duration = Duration::from_secs(1);
/// The maximum number of sessions offered.
const MAX_OFFERED: u32 = 100;

#[derive(Serialize)]
struct Script {
    shell: String,
    script: String,
}
