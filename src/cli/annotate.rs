//! `retake annotate`.

use clap::Args;

use crate::model::AnnotationChange;
use crate::wire::{AnnotateRequest, AnnotationsView};

use super::args::Json;
use super::context::{Context, resolve_exactly};
use super::ending::{Exit, Failure};
use super::output::{HEADING, NAME, Output, WARNING, paint};
use super::words;

/// Rate, tag or note iterations; what you leave out stays as it is
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    retake annotate latest --rating 4 --note 'the light is right'\n  \
    retake annotate 'session-2025-12-11-001#3' --tag hero --tag print\n  \
    retake annotate latest --clear-rating --clear-tags --note ''\n  \
    retake annotate latest '#2' '#4' --rating 3 --add-tag client\n  \
    retake annotate 'session-2025-12-11-001#3/1' --rating 5\n\n\
    The last one rates the second image of iteration 3 alone; tags and\n\
    notes belong to the whole iteration.\n\
    An archived session can be annotated too; its trail shows when.")]
pub(super) struct AnnotateArgs {
    /// The iterations, such as session-2025-12-11-001#3 or latest
    #[arg(value_name = "REFERENCE", required = true)]
    references: Vec<String>,
    /// From 1 (worst) to 5 (best); 0 removes the rating
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = rating)]
    rating: Option<u8>,
    /// Remove the rating
    #[arg(long, conflicts_with = "rating")]
    clear_rating: bool,
    /// A tag, replacing all present ones; may be repeated
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// Add a tag to the present ones; may be repeated
    #[arg(long = "add-tag", value_name = "TAG")]
    add_tags: Vec<String>,
    /// Remove a tag; may be repeated
    #[arg(long = "remove-tag", value_name = "TAG")]
    remove_tags: Vec<String>,
    /// Remove all tags
    #[arg(long, conflicts_with = "tags")]
    clear_tags: bool,
    /// The note; an empty one removes it
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
    /// Idempotency key: a retry with the same key is applied only once
    #[arg(long, value_name = "TEXT")]
    key: Option<String>,
    #[command(flatten)]
    pub(super) json: Json,
}

impl AnnotateArgs {
    pub(super) fn run(self, context: &mut Context) -> Result<Exit, Failure> {
        let request = AnnotateRequest {
            reference: String::new(),
            rating: if self.clear_rating { Some(AnnotationChange::NO_RATING) } else { self.rating },
            tags: (self.clear_tags || !self.tags.is_empty()).then_some(self.tags),
            add_tags: self.add_tags,
            remove_tags: self.remove_tags,
            note: self.note,
            idempotency_key: self.key,
        };
        context.change(|api, output| {
            // Resolve all references before the first write, so that a typo in the last one changes nothing.
            let resolved = self.references.iter().map(|reference| resolve_exactly(api, reference));
            let mut references = Vec::new();
            for reference in resolved.collect::<Result<Vec<_>, _>>()? {
                if !references.contains(&reference) {
                    references.push(reference);
                }
            }
            for reference in references {
                let request = AnnotateRequest { reference: reference.to_string(), ..request.clone() };
                let view = api.annotate(&request)?;
                output.answer(&view, |output, view| layout(view, output));
            }
            Ok(Exit::Done)
        })
    }
}

fn rating(text: &str) -> Result<u8, String> {
    let number = text.parse().ok().filter(|rating| (0..=5).contains(rating));
    number.ok_or_else(|| "expected a whole number from 1 (worst) to 5 (best), or 0 to remove the rating".to_owned())
}

fn layout(view: &AnnotationsView, output: &mut Output) {
    let now = &view.annotations;
    let mut head = paint(NAME, view.reference);
    if let Some(rating) = now.rating {
        head += &format!("  {}", paint(WARNING, words::stars(rating)));
    }
    output.line(head);
    let (tags, ratings) = words::tags_and_ratings(&now.tags);
    for (name, values) in [("images", ratings), ("tags", tags)] {
        if !values.is_empty() {
            output.line(format_args!("{} {}", paint(HEADING, name), values.join(", ")));
        }
    }
    if let Some(note) = &now.note {
        output.line(format_args!("{} {}", paint(HEADING, "note"), words::clean(note)));
    }
}
