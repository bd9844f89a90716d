//! `retake list`.

use std::collections::HashMap;

use clap::Args;

use crate::model::{Order, SessionId, Status};
use crate::wire::{Api, ListRequest, ProjectList, SessionList, SessionRow};

use super::args::Json;
use super::choice::choice;
use super::context::Context;
use super::exit::{Exit, Failure};
use super::output::{FAINT, Output, paint};
use super::table::Table;
use super::times::{self, Period};
use super::words;
use super::workspace::{ChosenWorkspace, WorkspaceSource};

/// List the sessions, most recently modified first
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    retake list --status active --limit 20\n  \
    retake list --query snow\n  \
    retake list --json | jq -r '.sessions[].id'")]
pub(super) struct ListArgs {
    /// Which sessions to list
    #[arg(long, value_parser = choice::<Status>(), default_value = "all")]
    status: Status,
    /// Only sessions whose project contains this text, in any case
    #[arg(long)]
    project: Option<String>,
    /// Only sessions whose title, project or id contains this text
    #[arg(long, value_name = "TEXT")]
    query: Option<String>,
    /// Only sessions last modified since, such as 2026-03, yesterday or 7d
    #[arg(long, value_name = "TIME", value_parser = times::period)]
    since: Option<Period>,
    /// Only sessions last modified until the end of that time
    #[arg(long, value_name = "TIME", value_parser = times::period)]
    until: Option<Period>,
    /// The order
    #[arg(long, value_parser = choice::<Order>(), default_value = "recent")]
    sort: Order,
    /// Maximum number of sessions (1–1000) [default: 200]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = super::args::limit)]
    limit: Option<u32>,
    /// Continue after a previous page; use the same filters
    #[arg(long)]
    cursor: Option<String>,
    /// Print all pages (not with --json, where each page is a reply)
    #[arg(long)]
    all: bool,
    /// List the projects instead, with their sessions, iterations and cost
    #[arg(long, conflicts_with_all = ["status", "project", "query", "since", "until", "sort", "limit", "cursor", "all"])]
    projects: bool,
    #[command(flatten)]
    pub(super) json: Json,
}

impl ListArgs {
    pub(super) fn run(self, context: &mut Context) -> Result<Exit, Failure> {
        if self.projects {
            return context.read_or_empty(|api, output| {
                output.answer(&api.projects()?, |output, list| print_projects(list, output));
                Ok(Exit::Done)
            });
        }
        if self.all && context.output.is_json() {
            return Err(Failure::flags(
                "--all does not go with --json",
                "ask for one page after the other: pass `nextCursor` of the reply with --cursor",
            ));
        }
        times::check_range(self.since, self.until)?;
        let chosen = context.workspace()?;
        let all = self.all;
        let mut request = self.request();
        context.read_or_empty(|api, output| {
            let mut list = api.list(&request)?;
            let mut shown = list.sessions.len();
            let first = if all && list.next_cursor.is_some() { PagePosition::First } else { PagePosition::Alone };
            output.answer(&list, |output, list| print(list, &names(api, list), first, output));
            while all && !output.is_gone() && list.next_cursor.is_some() {
                request.cursor = list.next_cursor;
                list = api.list(&request)?;
                shown += list.sessions.len();
                let names = names(api, &list);
                print(&list, &names, PagePosition::Later, output);
            }
            if !output.is_json() {
                foot(&list, shown, &request, output);
                if list.total_sessions == 0 && list.recovery.is_none() && !picks(&request) {
                    begin(&chosen, output);
                }
            }
            Ok(Exit::Done)
        })
    }

    fn request(self) -> ListRequest {
        ListRequest {
            status: Some(self.status),
            sort: Some(self.sort),
            limit: self.limit,
            cursor: self.cursor,
            project: self.project,
            query: self.query,
            since: self.since.map(|at| at.first().to_string()),
            until: self.until.map(|at| at.last().to_string()),
        }
    }
}

/// The page of a listing; consecutive pages use the same columns.
#[derive(Clone, Copy)]
enum PagePosition {
    Alone,
    First,
    Later,
}

/// Returns the names of untitled sessions: the beginning of the prompt, or the name of an image.
fn names(api: &Api<'_>, list: &SessionList) -> HashMap<SessionId, String> {
    let untitled: Vec<SessionId> =
        list.sessions.iter().filter(|row| row.title().is_none()).map(SessionRow::id).collect();
    // A listing without names is better than none.
    let covers = api.workspace().covers(&untitled).unwrap_or_default();
    let named = untitled.into_iter().zip(covers).filter_map(|(id, cover)| {
        let cover = cover?;
        let prompt = words::cut(&words::one_line(&cover.prompt), MAX_NAME_COLUMNS);
        Some((id, if prompt.is_empty() { cover.file_name? } else { prompt }))
    });
    named.collect()
}

/// The maximum width of a prompt shown in place of a title.
const MAX_NAME_COLUMNS: usize = 60;

/// Returns what is special about a session.
fn state(row: &SessionRow) -> String {
    let mut parts = Vec::new();
    if row.archived() {
        parts.push("archived".to_owned());
    }
    if row.lost_events() > 0 {
        parts.push(format!("{} lost", words::count(row.lost_events(), "event")));
    }
    parts.join(", ")
}

fn print(list: &SessionList, names: &HashMap<SessionId, String>, page: PagePosition, output: &mut Output) {
    if list.sessions.is_empty() {
        return;
    }
    // Show relative times only if there is space.
    let roomy = output.width().is_some_and(|width| width >= 120);
    let modified = |at| {
        let minute = words::minute(at);
        if roomy { format!("{minute}, {}", words::ago(at, list.timestamp)) } else { minute }
    };
    let heading = format!("LAST MODIFIED ({})", times::zone_name());
    let mut table = Table::new([
        ("SESSION", 22),
        ("ITERATIONS", 10),
        (&heading, if roomy { "2025-12-11 14:45, 10 minutes ago".len() } else { 0 }),
        ("STATUS", 8),
        ("COST", 0),
        ("PROJECT", 8),
        ("TITLE", 0),
    ]);
    for row in &list.sessions {
        let name = names.get(&row.id()).map(String::as_str);
        table.row([
            row.id().to_string(),
            row.iteration_count().to_string(),
            modified(row.last_modified_at()),
            state(row),
            words::sum(row.cost()),
            row.project().unwrap_or_default().to_owned(),
            row.title().or(name).unwrap_or_default().to_owned(),
        ]);
        if row.title().is_none() {
            table.faint();
        }
    }
    match page {
        PagePosition::Alone => table.without_empty_columns().print(output),
        PagePosition::First => table.print(output),
        PagePosition::Later => table.headless().print(output),
    }
}

fn print_projects(list: &ProjectList, output: &mut Output) {
    if list.total_projects == 0 {
        output.line("No session has a project.");
        output.hint("set one with `retake rename latest --project cats`, or when recording with --project");
        return;
    }
    let heading = format!("LAST MODIFIED ({})", times::zone_name());
    let mut table =
        Table::new([("PROJECT", 8), ("SESSIONS", 8), ("ARCHIVED", 8), ("ITERATIONS", 10), ("COST", 0), (&heading, 0)]);
    for row in &list.projects {
        table.row([
            row.project.clone(),
            row.sessions.to_string(),
            if row.archived > 0 { row.archived.to_string() } else { String::new() },
            row.iterations.to_string(),
            words::sum(&row.cost),
            words::minute(row.last_modified_at),
        ]);
    }
    table.without_empty_columns().print(output);
    output.gap();
    let without = words::count(list.sessions_without, "session");
    let shown = match list.projects.len() as u64 {
        shown if shown < list.total_projects => format!("{shown} of "),
        _ => String::new(),
    };
    let all = words::count(list.total_projects, "project");
    output.line(paint(FAINT, format_args!("{shown}{all}; {without} without one")));
}

fn foot(list: &SessionList, shown: usize, request: &ListRequest, output: &mut Output) {
    let all = words::count(list.total_sessions, "session");
    if list.total_sessions == 0 {
        if picks(request) {
            output.line("No session matches.");
        }
        return;
    }
    output.gap();
    if let Some(cursor) = &list.next_cursor {
        output.line(paint(FAINT, format_args!("{shown} of {all}; next page: --cursor {cursor}; all pages: --all")));
    } else if request.cursor.is_none() {
        output.line(paint(FAINT, all));
    } else {
        output.line(paint(FAINT, format_args!("last page of {all}")));
    }
}

/// Prints what to do in an empty workspace.
fn begin(chosen: &ChosenWorkspace, output: &mut Output) {
    output.line(format_args!("No sessions yet in {}", chosen.shown()));
    output.gap();
    output.line("Record the first iteration with:");
    output.line("  retake record \"a cat in the snow\" --model sdxl --seed 42 --image cat.png");
    if chosen.by == WorkspaceSource::Default {
        output.gap();
        output.line("Or create a workspace in this directory:");
        output.line("  mkdir .retake");
    }
}

fn picks(request: &ListRequest) -> bool {
    request.project.is_some()
        || request.query.is_some()
        || request.since.is_some()
        || request.until.is_some()
        || request.status != Some(Status::All)
}
