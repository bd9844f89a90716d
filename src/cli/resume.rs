//! `retake resume`.

use clap::Args;

use crate::model::Recipe;
use crate::wire::{MAX_REPLY_BYTES, ResumeRequest, ResumeView};
use crate::workspace::Workspace;

use super::args::Json;
use super::context::Context;
use super::ending::{Exit, Failure};
use super::output::{FAINT, HEADING, NAME, Output, WARNING, paint};
use super::{references, session, show, words};

/// Show what you need to continue: recipe, history, ratings, branches
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    retake resume                              the latest active session\n  \
    retake resume session-2025-12-11-001       that session\n  \
    retake resume 'session-2025-12-11-001#3'   from that iteration")]
pub(super) struct ResumeArgs {
    /// A session's id or an iteration [default: the most recent active session]
    reference: Option<String>,
    #[command(flatten)]
    pub(super) json: Json,
}

impl ResumeArgs {
    pub(super) fn run(self, context: &mut Context) -> Result<Exit, Failure> {
        context.read(|api, output| {
            let reference = self.reference.as_deref().map(|reference| references::expand(api, reference));
            let request = ResumeRequest { reference: reference.transpose()? };
            // Leave out very large workflows, as `show` does without --full.
            let view = api.clone().with_reply_bytes(MAX_REPLY_BYTES).resume(&request)?;
            output.answer(&view, |output, view| layout(view, api.workspace(), output));
            Ok(Exit::Done)
        })
    }
}

/// The number of history steps listed; earlier ones are only counted.
const MAX_STEPS: usize = 12;

fn layout(view: &ResumeView, workspace: &Workspace, output: &mut Output) {
    let within = view.reference.session;
    let mut head = paint(NAME, view.reference);
    if let Some(title) = view.session.title() {
        head += &format!("  {}", paint(HEADING, words::one_line(title)));
    }
    if let Some(rating) = view.annotations.rating {
        head += &format!("  {}", paint(WARNING, words::stars(rating)));
    }
    if view.session.archived() {
        head += &format!("  {}", paint(FAINT, "(session archived)"));
    }
    output.line(head);
    let mut about = vec![words::count(view.session.iteration_count().into(), "iteration")];
    about.extend(view.session.project().map(|project| format!("project {}", words::one_line(project))));
    about.extend(words::costs(view.session.cost()));
    about.push(format!("made {}", words::time(view.timestamp)));
    output.line(paint(FAINT, about.join(" · ")));

    output.gap();
    output.line(paint(HEADING, "history"));
    if let Some(earlier) = &view.earlier {
        let count = words::count(earlier.iterations.into(), "earlier iteration");
        output.line(format_args!("  {} from {}", paint(FAINT, count), paint(NAME, earlier.first)));
        if let Some(prompt) = &earlier.first_prompt {
            output.line(format_args!("    {}", output.fit(&words::one_line(prompt), 4)));
        }
    }
    let folded = view.story.len().saturating_sub(MAX_STEPS);
    if let Some(first) = view.story.first().filter(|_| folded > 0) {
        let steps = words::count(folded as u64, "step");
        let all = format!("{steps} from {}; all: retake show {within}", show::shortened(first.reference, within));
        output.line(format_args!("  {}", paint(FAINT, all)));
    }
    for step in view.story.iter().skip(folded) {
        let mut head = format!("  {}", session::step_head(step, within));
        if step.rerolls > 0 {
            let rerolls = words::count(step.rerolls.into(), "reroll");
            head += &format!("  {}", paint(FAINT, format_args!("and {rerolls}")));
        }
        output.line(head);
        // The first step has a prompt in place of changes, and a prompt may start with any character.
        let line = match step.label {
            Some(_) => session::changes(&output.fit(&words::parts(&step.summary), 4)),
            None => output.fit(&words::prompt(&step.summary), 4),
        };
        output.line(format_args!("    {line}"));
        if let Some(message) = &step.message {
            output.line(format_args!("    {}", session::message_line(message, 4, output)));
        }
        if let Some(remarks) = session::remarks(step.note.as_deref(), &step.tags) {
            output.line(format_args!("    {}", output.fit(&remarks, 4)));
        }
    }

    if !view.liked.is_empty() {
        output.gap();
        output.line(paint(HEADING, "liked"));
    }
    for liked in &view.liked {
        let mut head = format!("  {}", paint(NAME, show::shortened(liked.reference, within)));
        if let Some(rating) = liked.annotations.rating {
            head += &format!("  {}", paint(WARNING, words::stars(rating)));
        }
        if let Some(remarks) = session::remarks(liked.annotations.note.as_deref(), &liked.annotations.tags) {
            head += &format!("  {}", output.fit(&remarks, 16));
        }
        output.line(head);
        if let Some(since) = &liked.since {
            output.line(format_args!("    since then: {}", session::changes(&output.fit(&words::parts(since), 16))));
        }
    }

    if !view.branches.is_empty() {
        output.gap();
        output.line(paint(HEADING, "open branches"));
    }
    for branch in &view.branches {
        let mut head = format!("  {}", session::step_head(&branch.end, within));
        let steps = words::count(branch.steps.into(), "step");
        let fork = branch.fork.map(|fork| format!(" from {}", show::shortened(fork, within)));
        head += &format!("  {}", paint(FAINT, format_args!("{steps}{}", fork.unwrap_or_default())));
        output.line(head);
        output.line(format_args!("    {}", session::changes(&output.fit(&words::parts(&branch.end.summary), 4))));
    }
    if !view.continued_in.is_empty() {
        output.gap();
        let names: Vec<String> = view.continued_in.iter().map(|id| paint(NAME, id)).collect();
        output.line(format_args!("{} {}", paint(HEADING, "goes on in"), names.join(", ")));
    }

    output.gap();
    let recipe = &view.recipe.recipe;
    show::texts(recipe, false, output);
    let Recipe { prompt, prompt_sent, negative_prompt, .. } = recipe.clone();
    if *recipe != (Recipe { prompt, prompt_sent, negative_prompt, ..Recipe::default() }) {
        output.gap();
    }
    show::recipe(&view.recipe, false, output);
    show::images(&view.images, workspace, output);
    if !view.truncated.is_empty() {
        output.gap();
        let all = format!("retake show '{}' --full", view.reference);
        output.line(paint(FAINT, format_args!("cut short: {}; see {all}", view.truncated.join(", "))));
    }

    output.gap();
    output.line(paint(HEADING, "continue with"));
    let session = view.next.session_id.map(|id| format!(" --session {id}")).unwrap_or_default();
    // Quoted, since some shells take # for the start of a pattern or a comment.
    let from = format!("'{}'", view.next.parent);
    let parent = match view.next.session_id {
        Some(_) if view.next.parent.index + 1 == view.session.iteration_count() => String::new(),
        _ => format!(" --parent {from}"),
    };
    output.line(format_args!("  retake record \"…\" --like {from}{session}{parent} --image FILE"));
    output.line(paint(FAINT, "  the recipe is reused; add flags for anything you change"));
}
