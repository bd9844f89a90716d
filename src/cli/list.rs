//! `retake list`.

use clap::{Args, ValueEnum};

use crate::tracker::{ListRequest, ProjectList, SessionList, Sort, StatusFilter, Tracker};

use super::args::Json;
use super::context::Context;
use super::ending::{Exit, Failure};
use super::output::{FAINT, Output, paint};
use super::table::Table;
use super::words;
use super::workspace::WorkspaceSource;

/// List the sessions, most recently modified first
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    retake list --status active --limit 20\n  \
    retake list --query snow\n  \
    retake list --json | jq -r '.sessions[].id'")]
pub(super) struct ListArgs {
    /// Which sessions to list
    #[arg(long, value_enum, default_value_t = Status::All)]
    status: Status,
    /// Only sessions of exactly this project
    #[arg(long)]
    project: Option<String>,
    /// Only sessions whose title, project or id contains this text, in upper or lower case
    #[arg(long, value_name = "TEXT")]
    query: Option<String>,
    /// In which order
    #[arg(long, value_enum, default_value_t = Order::Recent)]
    sort: Order,
    /// At most this many, up to 1000 [default: 200]
    #[arg(long, value_name = "N")]
    limit: Option<u32>,
    /// Where to go on, as the page before said; with all other flags as they were
    #[arg(long)]
    cursor: Option<String>,
    /// Go on to the last page (not with --json, where each page is an answer of its own)
    #[arg(long)]
    all: bool,
    /// The projects instead, each with how many sessions and iterations it has
    #[arg(long, conflicts_with_all = ["status", "project", "query", "sort", "limit", "cursor", "all"])]
    projects: bool,
    #[command(flatten)]
    pub(super) json: Json,
}

/// Which sessions to list.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Status {
    /// All of them
    All,
    /// Those not archived
    Active,
    /// Those archived
    Archived,
}

/// In which order.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Order {
    /// Last modified first
    Recent,
    /// Last modified last
    Oldest,
}

impl ListArgs {
    pub(super) fn run(self, context: &mut Context) -> Result<Exit, Failure> {
        if self.projects {
            return context.read(|tracker, output| {
                output.answer(&tracker.projects()?, |output, list| print_projects(list, output));
                Ok(Exit::Done)
            });
        }
        if self.all && context.output.is_json() {
            return Err(Failure::flags(
                "--all does not go with --json",
                "ask for one page after the other: give `nextCursor` of the answer back with --cursor",
            ));
        }
        let by = context.workspace()?.by;
        let all = self.all;
        let mut request = self.request();
        context.read(|tracker, output| {
            let mut list = tracker.list(&request)?;
            let mut shown = list.sessions.len();
            let first = if all && list.next_cursor.is_some() { Page::First } else { Page::Alone };
            output.answer(&list, |output, list| print(list, first, output));
            while all && !output.is_gone() && list.next_cursor.is_some() {
                request.cursor = list.next_cursor;
                list = tracker.list(&request)?;
                shown += list.sessions.len();
                print(&list, Page::Later, output);
            }
            if !output.is_json() {
                foot(&list, shown, &request, output);
                if list.total_sessions == 0 && !picks(&request) {
                    begin(tracker, by, output);
                }
            }
            Ok(Exit::Done)
        })
    }

    fn request(self) -> ListRequest {
        ListRequest {
            status: Some(match self.status {
                Status::All => StatusFilter::All,
                Status::Active => StatusFilter::Active,
                Status::Archived => StatusFilter::Archived,
            }),
            sort: Some(match self.sort {
                Order::Recent => Sort::Recent,
                Order::Oldest => Sort::Oldest,
            }),
            limit: self.limit,
            cursor: self.cursor,
            project: self.project,
            query: self.query,
        }
    }
}

/// Which page of a listing this is: those that are printed one after the other have the same columns.
#[derive(Clone, Copy)]
enum Page {
    Alone,
    First,
    Later,
}

fn print(list: &SessionList, page: Page, output: &mut Output) {
    if list.sessions.is_empty() {
        return;
    }
    // How long ago is for people with room for it.
    let roomy = output.width().is_some_and(|width| width >= 120);
    let modified = |at| {
        let minute = words::minute(at);
        if roomy { format!("{minute}, {}", words::ago(at, list.timestamp)) } else { minute }
    };
    let mut table = Table::new([
        ("SESSION", 22),
        ("ITERATIONS", 10),
        ("LAST MODIFIED (UTC)", if roomy { "2025-12-11 14:45, 10 minutes ago".len() } else { 0 }),
        ("STATUS", 8),
        ("PROJECT", 8),
        ("TITLE", 0),
    ]);
    for row in &list.sessions {
        table.row([
            row.id().to_string(),
            row.iteration_count().to_string(),
            modified(row.last_modified_at()),
            if row.archived() { "archived".to_owned() } else { String::new() },
            row.project().unwrap_or_default().to_owned(),
            row.title().unwrap_or_default().to_owned(),
        ]);
    }
    match page {
        Page::Alone => table.without_empty_columns().print(output),
        Page::First => table.print(output),
        Page::Later => table.headless().print(output),
    }
}

fn print_projects(list: &ProjectList, output: &mut Output) {
    if list.total_projects == 0 {
        output.line("No session belongs to a project.");
        output.hint("give one when recording: retake record \"a cat\" --project cats");
        return;
    }
    let mut table =
        Table::new([("PROJECT", 8), ("SESSIONS", 8), ("ARCHIVED", 8), ("ITERATIONS", 10), ("LAST MODIFIED (UTC)", 0)]);
    for row in &list.projects {
        table.row([
            row.project.clone(),
            row.sessions.to_string(),
            if row.archived > 0 { row.archived.to_string() } else { String::new() },
            row.iterations.to_string(),
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
        output.line(paint(FAINT, format_args!("{shown} of {all}; the next: --cursor {cursor}; or all of them: --all")));
    } else if request.cursor.is_none() {
        output.line(paint(FAINT, all));
    } else {
        output.line(paint(FAINT, format_args!("the last of {all}")));
    }
}

/// What to do in a workspace that has nothing in it.
fn begin(tracker: &Tracker, by: WorkspaceSource, output: &mut Output) {
    output.line(format_args!("No sessions yet in {}", tracker.workspace().display()));
    output.gap();
    output.line("Record the first iteration with:");
    output.line("  retake record \"a cat in the snow\" --model sdxl --seed 42 --image cat.png");
    if by == WorkspaceSource::Default {
        output.gap();
        output.line("Or keep a workspace of its own in this directory:");
        output.line("  mkdir .retake");
    }
}

fn picks(request: &ListRequest) -> bool {
    request.project.is_some() || request.query.is_some() || request.status != Some(StatusFilter::All)
}
