//! `retake audit`: prints the audit trail of one session or many, and whether it verifies.

use clap::Args;

use crate::model::Status;
use crate::wire::{
    AuditEvent, AuditReport, AuditReportRequest, AuditRequest, AuditView, ChainView, ImageFault, ImagesCheck,
    SessionRow,
};

use super::args::Json;
use super::choice::choice;
use super::context::{Context, session_named};
use super::ending::{Exit, Failure};
use super::output::{BAD, FAINT, GOOD, HEADING, NAME, Output, paint};
use super::times::{self, Period};
use super::words;

/// Show what happened to one session or to many, and whether it verifies
///
/// Prints every event with time, actor and reason, whether the hash chain holds in both copies, and whether the images are
/// there, unchanged. Exits with status 3 if something is wrong. The actor is what the client stated: the name of the user
/// it ran as, and its own name.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    retake audit session-2025-12-11-001\n  \
    retake audit --status archived --project cards\n  \
    retake audit --actor ada --since last-week")]
pub(super) struct AuditArgs {
    /// The session's id, or latest [default: all sessions]
    #[arg(value_name = "SESSION", conflicts_with_all = ["status", "project", "since", "until", "actor"])]
    session: Option<String>,
    /// For many sessions: which ones [default: all]
    #[arg(long, value_parser = choice::<Status>())]
    status: Option<Status>,
    /// For many sessions: those whose project contains this text, in any case
    #[arg(long)]
    project: Option<String>,
    /// For many sessions: only what happened since, such as 2026-03 or 7d
    #[arg(long, value_name = "TIME", value_parser = times::period)]
    since: Option<Period>,
    /// For many sessions: only what happened until the end of that time
    #[arg(long, value_name = "TIME", value_parser = times::period)]
    until: Option<Period>,
    /// For many sessions: only what this user or client did
    #[arg(long, value_name = "NAME")]
    actor: Option<String>,
    /// For one session: maximum number of events (1–1000) [default: 200]
    #[arg(long, value_name = "N", requires = "session", allow_negative_numbers = true, value_parser = super::args::limit)]
    limit: Option<u32>,
    /// For one session: continue after a previous page
    #[arg(long, requires = "session")]
    cursor: Option<String>,
    /// For one session: print all pages (not with --json)
    #[arg(long, requires = "session")]
    all: bool,
    #[command(flatten)]
    pub(super) json: Json,
}

impl AuditArgs {
    pub(super) fn run(mut self, context: &mut Context) -> Result<Exit, Failure> {
        if self.all && context.output.is_json() {
            return Err(Failure::flags(
                "--all does not go with --json",
                "ask for one page after the other: pass `nextCursor` of the reply with --cursor",
            ));
        }
        times::check_range(self.since, self.until)?;
        match self.session.take() {
            Some(session) => self.one(session, context),
            None => self.many(context),
        }
    }

    fn one(self, session: String, context: &mut Context) -> Result<Exit, Failure> {
        let is_team = context.workspace()?.team.is_some();
        context.read(|api, output| {
            let session_id = session_named(api, session)?;
            let mut request = AuditRequest { session_id, limit: self.limit, cursor: self.cursor };
            let row = api.session(&request.session_id)?;
            let mut view = api.audit(&request)?;
            let whole = view.chain.holds && view.images.as_ref().is_none_or(is_whole);
            output.answer(&view, |output, view| {
                let mut head = vec![words::count(view.total_events, "event")];
                head.extend(words::costs(&view.cost));
                output.line(heading(&row, &head));
                output.gap();
                trail(&view.events, output);
            });
            let images = view.images.take();
            while self.all && !output.is_gone() && view.next_cursor.is_some() {
                request.cursor = view.next_cursor;
                view = api.audit(&request)?;
                trail(&view.events, output);
            }
            if !output.is_json() {
                findings(&view, images.as_ref(), is_team, output);
            }
            Ok(if whole { Exit::Done } else { Exit::Damaged })
        })
    }

    fn many(self, context: &mut Context) -> Result<Exit, Failure> {
        let request = AuditReportRequest {
            status: self.status,
            project: self.project,
            since: self.since.map(|at| at.first().to_string()),
            until: self.until.map(|at| at.last().to_string()),
            actor: self.actor,
        };
        let is_team = context.workspace()?.team.is_some();
        context.read(|api, output| {
            let report = api.audit_report(&request)?;
            output.answer(&report, |output, report| layout(report, is_team, output));
            Ok(if report.holds { Exit::Done } else { Exit::Damaged })
        })
    }
}

/// Returns the line that names a session, with more about it.
fn heading(row: &SessionRow, about: &[String]) -> String {
    let mut head = paint(NAME, row.id());
    if let Some(title) = row.title() {
        head += &format!("  {}", paint(HEADING, words::one_line(title)));
    }
    let mut parts = about.to_vec();
    parts.extend(row.archived().then(|| "archived".to_owned()));
    parts.extend(row.project().map(|project| format!("project {}", words::one_line(project))));
    format!("{head}  {}", paint(FAINT, parts.join(" · ")))
}

fn layout(report: &AuditReport, is_team: bool, output: &mut Output) {
    for audited in &report.sessions {
        let row = &audited.session;
        let mut about = vec![words::count(audited.events.len() as u64, "event")];
        about.extend(words::costs(row.cost()));
        output.line(heading(row, &about));
        trail(&audited.events, output);
        if !audited.holds() {
            chain_findings(&audited.chain, is_team, output);
            image_findings(&audited.images, output);
        }
        output.gap();
    }
    let mut total = vec![words::count(report.total_sessions, "session"), words::count(report.total_events, "event")];
    total.extend(words::costs(&report.cost));
    output.line(paint(FAINT, total.join(" · ")));
    if report.total_sessions == 0 {
        output.line("No session matches.");
        return;
    }
    if report.total_events == 0 {
        output.line("No event matches.");
    }
    if report.holds {
        output.line(paint(
            GOOD,
            "everything checks out: every hash chain is intact, and every image is present and unchanged",
        ));
    } else {
        output.line(paint(BAD, "something is wrong with the sessions named above"));
    }
}

fn is_whole(images: &ImagesCheck) -> bool {
    images.missing.is_empty() && images.damaged.is_empty()
}

fn trail(events: &[AuditEvent], output: &mut Output) {
    for AuditEvent { seq, kind, at, actor, role, reason, index, summary, made_at, model, .. } in events {
        let place = paint(NAME, format_args!("{seq:>3}"));
        let index = index.map(|index| format!(" #{index}")).unwrap_or_default();
        let what = paint(HEADING, format_args!("{kind}{index}"));
        let who = match actor.user.as_str() {
            "" => format!("by {}", actor.client),
            user => format!("by {user} with {}", actor.client),
        };
        let who = role.as_ref().map_or_else(|| who.clone(), |role| format!("{who} as {role}"));
        output.line(format_args!("{place}  {}  {what}  {}", words::time(*at), paint(FAINT, words::one_line(&who))));
        let reason = reason.as_ref().map(|reason| format!("; reason: {reason}")).unwrap_or_default();
        output.line(format_args!("     {}", output.fit(&words::one_line(&format!("{summary}{reason}")), 5)));
        let mut made: Vec<String> = made_at.map(|made| format!("made {}", words::time(made))).into_iter().collect();
        made.extend(model.as_deref().map(|model| format!("with {}", words::one_line(model))));
        if !made.is_empty() {
            output.line(format_args!("     {}", paint(FAINT, output.fit(&made.join(" "), 5))));
        }
    }
}

fn findings(view: &AuditView, images: Option<&ImagesCheck>, is_team: bool, output: &mut Output) {
    output.gap();
    if let Some(cursor) = &view.next_cursor {
        output.line(paint(FAINT, format_args!("more events: --cursor {cursor}; or all of them: --all")));
        output.gap();
    }
    chain_findings(&view.chain, is_team, output);
    if let Some(images) = images {
        image_findings(images, output);
    }
}

fn chain_findings(chain: &ChainView, is_team: bool, output: &mut Output) {
    if chain.holds {
        // PostgreSQL keeps one copy, and its standbys and backups the others.
        let copies = if is_team { "" } else { " in both copies" };
        let words = format!("hash chain is intact: every event is present and unchanged{copies}");
        output.line(paint(GOOD, words));
        return;
    }
    output.line(paint(BAD, "hash chain is broken:"));
    for fault in &chain.faults {
        output.line(format_args!("  event {}: {}", fault.seq, words::one_line(&fault.what)));
    }
    more(chain.faults_omitted, output);
}

fn image_findings(images: &ImagesCheck, output: &mut Output) {
    let checked = words::count(images.checked, "image");
    if is_whole(images) {
        let words = match images.checked {
            0 => "no images to check".to_owned(),
            _ => format!("images are intact: {checked} read and compared with the recorded hash"),
        };
        output.line(paint(GOOD, words));
        return;
    }
    output.line(paint(BAD, format_args!("images are damaged or missing ({checked} checked):")));
    let mut name = |faults: &[ImageFault], what: &str| {
        for fault in faults {
            output.line(format_args!("  {}: {what}: {}", fault.reference, fault.hash));
        }
    };
    name(&images.missing, "missing");
    name(&images.damaged, "damaged");
    more(images.omitted, output);
}

fn more(omitted: u64, output: &mut Output) {
    if omitted > 0 {
        output.line(format_args!("  and {omitted} more"));
    }
}
