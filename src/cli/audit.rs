//! `retake audit`: the trail of a session, and whether it checks out.

use clap::Args;

use crate::wire::{AuditEvent, AuditRequest, AuditView, ImageFault, ImagesCheck};

use super::args::Json;
use super::context::{Context, session_named};
use super::ending::{Exit, Failure};
use super::output::{BAD, FAINT, GOOD, HEADING, NAME, Output, paint};
use super::words;

/// Show everything that happened to a session, and whether it verifies
///
/// Prints every event with time, actor and reason, whether the hash chain holds in both copies, and whether the images are
/// there, unchanged. Exits with status 3 if something is wrong.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  retake audit session-2025-12-11-001")]
pub(super) struct AuditArgs {
    /// The session's id, or latest
    #[arg(value_name = "SESSION")]
    session: String,
    /// Maximum number of events (1–1000) [default: 200]
    #[arg(long, value_name = "N")]
    limit: Option<u32>,
    /// Continue after a previous page
    #[arg(long)]
    cursor: Option<String>,
    /// Print all pages (not with --json, where each page is a reply)
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    pub(super) json: Json,
}

impl AuditArgs {
    pub(super) fn run(self, context: &mut Context) -> Result<Exit, Failure> {
        if self.all && context.output.is_json() {
            return Err(Failure::flags(
                "--all does not go with --json",
                "ask for one page after the other: pass `nextCursor` of the reply with --cursor",
            ));
        }
        context.read(|api, output| {
            let session_id = session_named(api, self.session)?;
            let mut request = AuditRequest { session_id, limit: self.limit, cursor: self.cursor };
            let mut view = api.audit(&request)?;
            let whole = holds(&view);
            output.answer(&view, |output, view| {
                output.line(format_args!(
                    "{}  {}",
                    paint(NAME, view.session_id),
                    words::count(view.total_events, "event")
                ));
                output.gap();
                trail(view, output);
            });
            let images = view.images.take();
            while self.all && !output.is_gone() && view.next_cursor.is_some() {
                request.cursor = view.next_cursor;
                view = api.audit(&request)?;
                trail(&view, output);
            }
            if !output.is_json() {
                findings(&view, images.as_ref(), output);
            }
            Ok(if whole { Exit::Done } else { Exit::Damaged })
        })
    }
}

fn holds(view: &AuditView) -> bool {
    let images = view.images.as_ref().is_none_or(|images| images.missing.is_empty() && images.damaged.is_empty());
    view.chain.holds && images
}

fn trail(view: &AuditView, output: &mut Output) {
    for AuditEvent { seq, kind, at, actor, reason, index, summary, .. } in &view.events {
        let place = paint(NAME, format_args!("{seq:>3}"));
        let index = index.map(|index| format!(" #{index}")).unwrap_or_default();
        let what = paint(HEADING, format_args!("{kind}{index}"));
        let who = match actor.user.as_str() {
            "" => format!("by {}", actor.client),
            user => format!("by {user} with {}", actor.client),
        };
        output.line(format_args!("{place}  {}  {what}  {}", words::time(*at), paint(FAINT, words::one_line(&who))));
        let reason = reason.as_ref().map(|reason| format!("; reason: {reason}")).unwrap_or_default();
        output.line(format_args!("     {}", output.fit(&words::one_line(&format!("{summary}{reason}")), 5)));
    }
}

fn findings(view: &AuditView, images: Option<&ImagesCheck>, output: &mut Output) {
    output.gap();
    if let Some(cursor) = &view.next_cursor {
        output.line(paint(FAINT, format_args!("more events: --cursor {cursor}; or all of them: --all")));
        output.gap();
    }
    if view.chain.holds {
        let words = "chain holds: every event is there, unchanged, in both copies, and names the one before it";
        output.line(paint(GOOD, words));
    } else {
        output.line(paint(BAD, "chain is broken:"));
        for fault in &view.chain.faults {
            output.line(format_args!("  at {}: {}", fault.seq, words::one_line(&fault.what)));
        }
        more(view.chain.faults_omitted, output);
    }
    if let Some(images) = images {
        image_findings(images, output);
    }
}

fn image_findings(images: &ImagesCheck, output: &mut Output) {
    let checked = words::count(images.checked, "image");
    if images.missing.is_empty() && images.damaged.is_empty() {
        let words = match images.checked {
            0 => "no images to check".to_owned(),
            _ => format!("images are whole: {checked} read and compared with the hash"),
        };
        output.line(paint(GOOD, words));
        return;
    }
    output.line(paint(BAD, format_args!("images are not whole ({checked} looked for):")));
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
