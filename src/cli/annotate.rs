//! `retake annotate`.

use clap::Args;

use crate::tracker::{AnnotateRequest, AnnotationsView};

use super::args::Json;
use super::context::Context;
use super::ending::{Exit, Failure, invalid};
use super::output::{HEADING, NAME, Output, WARNING, paint};
use super::words;

/// Rate, tag or note an iteration; what you leave out stays as it was
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    retake annotate latest --rating 4 --note 'the light is right'\n  \
    retake annotate session-2025-12-11-001#3 --tag hero --tag print\n  \
    retake annotate latest --clear-tags --note ''")]
pub(super) struct AnnotateArgs {
    /// The iteration, such as session-2025-12-11-001#3 or latest
    reference: String,
    /// From 1 (worst) to 5 (best)
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    rating: Option<i64>,
    /// A tag it has from now on, in place of those it had; once for each
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// Remove all tags
    #[arg(long, conflicts_with = "tags")]
    clear_tags: bool,
    /// The note it has from now on; an empty one removes it
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
    /// A text unique to this change: asking again with it changes nothing twice
    #[arg(long, value_name = "TEXT")]
    key: Option<String>,
    #[command(flatten)]
    pub(super) json: Json,
}

impl AnnotateArgs {
    pub(super) fn run(self, context: &mut Context) -> Result<Exit, Failure> {
        let rating = self.rating.map(|rating| {
            u8::try_from(rating)
                .map_err(|_| invalid(format!("rating is {rating}"), "give a whole number from 1 (worst) to 5 (best)"))
        });
        let request = AnnotateRequest {
            reference: self.reference,
            rating: rating.transpose()?,
            tags: (self.clear_tags || !self.tags.is_empty()).then_some(self.tags),
            note: self.note,
            idempotency_key: self.key,
        };
        context.write(|tracker, actor, output| {
            let view = tracker.annotate(actor, &request)?;
            output.answer(&view, |output, view| layout(view, output));
            Ok(Exit::Done)
        })
    }
}

fn layout(view: &AnnotationsView, output: &mut Output) {
    let now = &view.annotations;
    let mut head = paint(NAME, view.reference);
    if let Some(rating) = now.rating {
        head += &format!("  {}", paint(WARNING, words::stars(rating)));
    }
    output.line(head);
    if !now.tags.is_empty() {
        let tags = now.tags.iter().map(|tag| words::one_line(tag)).collect::<Vec<_>>().join(", ");
        output.line(format_args!("{} {tags}", paint(HEADING, "tags")));
    }
    if let Some(note) = &now.note {
        output.line(format_args!("{} {}", paint(HEADING, "note"), words::clean(note)));
    }
}
