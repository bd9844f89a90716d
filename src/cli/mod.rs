//! The command line: `retake <command>`, one command per file, each a thin layer over the use case of the same name.
//!
//! Shared by all commands: the flags and exit codes (`args.rs`, `ending.rs`), the choice of the workspace
//! (`workspace.rs`), opening it and reporting damage (`context.rs`), formatting of values and tables (`words.rs`,
//! `table.rs`), and the only module that writes (`output.rs`). With `--json`, a command prints the result as one line
//! of JSON.
//!
//! This module does not know how anything is stored, checked or found, and contains no rule that another face needs
//! too.

mod annotate;
mod archive;
mod args;
mod audit;
mod choice;
mod clients;
mod compare;
mod completions;
mod context;
mod demo;
mod doctor;
mod drawing;
mod ending;
mod export;
mod import;
mod inline;
mod install;
mod jsonc;
mod list;
mod man;
mod mcp;
mod output;
mod progress;
mod raw;
mod recipe;
mod record;
mod references;
mod rename;
mod requests;
mod resume;
mod search;
mod serve;
mod session;
mod show;
mod signals;
mod table;
mod team;
mod terminal;
mod times;
mod tree;
mod verify;
mod version;
mod vocabulary;
mod watch;
mod words;
mod workspace;
mod wrap;

use std::ffi::OsString;
use std::io;
use std::process::ExitCode;

use clap::Parser;
use tracing_subscriber::EnvFilter;

use args::{Cli, Verb};
use context::Context;
use ending::{Exit, Failure};
use output::Output;
use times::Zone;

/// Runs the command given by the arguments of this process.
pub fn run() -> ExitCode {
    let args: Vec<OsString> = search::expand_negations(std::env::args_os().collect());
    // Set the zone first, since flags may contain times.
    times::set_zone(if args.iter().any(|arg| arg == "--utc") { Zone::Utc } else { Zone::Local });
    let Cli { verb, json, global } = match Cli::try_parse_from(&args) {
        Ok(cli) => cli,
        Err(error) => return ending::usage(&error, &args).into(),
    };
    let mut output = Output::new(json.json || verb.wants_json(), global.color.into());
    start_log(global.verbose, &mut output);
    let mut context = Context::new(output, global.workspace);

    let ended = carry_out(verb, &mut context);
    let mut output = context.into_output();
    let exit = match ended {
        Ok(exit) => exit,
        Err(failure) => failure.report(&mut output),
    };
    match output.finish() {
        Ok(()) => exit.into(),
        Err(error) => ending::unwritten(&error, &mut output).into(),
    }
}

fn carry_out(verb: Verb, context: &mut Context) -> Result<Exit, Failure> {
    match verb {
        Verb::List(args) => args.run(context),
        Verb::Show(args) => args.run(context),
        Verb::Record(args) => args.run(context),
        Verb::Resume(args) => args.run(context),
        Verb::Compare(args) => args.run(context),
        Verb::Search(args) => args.run(context),
        Verb::Annotate(args) => args.run(context),
        Verb::Rename(args) => args.run(context),
        Verb::Archive(args) => args.archive(context),
        Verb::Restore(args) => args.restore(context),
        Verb::Audit(args) => args.run(context),
        Verb::Export(args) => args.run(context),
        Verb::Import(args) => args.run(context),
        Verb::Watch(args) => args.run(context),
        Verb::Wrap(args) => args.run(context),
        Verb::Verify(args) => args.run(context),
        Verb::Repair(args) => args.run(context),
        Verb::Doctor(_) => doctor::doctor(context),
        Verb::Mcp(args) => args.run(context),
        Verb::Serve(args) => args.run(context),
        Verb::Demo(args) => args.run(context),
        Verb::Team(args) => args.run(context),
        Verb::CompleteReferences(args) => args.run(context),
        Verb::Completions(args) => Ok(args.run(context)),
        Verb::Man(args) => args.run(context),
        Verb::Version(_) => Ok(version::print(&mut context.output)),
    }
}

/// Initialises logging to stderr. By default it only says why a command waits for a team's database.
fn start_log(verbose: u8, output: &mut Output) {
    let asked = match verbose {
        0 => "retake_team::connect=warn",
        1 => "retake=info,warn",
        2 => "retake=debug,info",
        _ => "trace",
    };
    let filter = match std::env::var("RETAKE_LOG") {
        Ok(filter) if verbose == 0 && !filter.is_empty() => EnvFilter::try_new(filter).unwrap_or_else(|error| {
            output.warn(format_args!("RETAKE_LOG is not understood and ignored: {error}"));
            EnvFilter::new(asked)
        }),
        _ => EnvFilter::new(asked),
    };
    // Fails only if a logger is already set, which is then used.
    let _ = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).with_ansi(false).try_init();
}
