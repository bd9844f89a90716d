//! How a session lies on the screen: a head, then a block for each iteration with what is known of it.

use std::collections::BTreeMap;

use crate::model::{OutcomeStatus, SessionId};
use crate::tracker::{IterationList, IterationRow, SessionRow};

use super::output::{BAD, FAINT, HEADING, NAME, Output, WARNING, paint};
use super::{show, words};

/// Lays out a session.
pub(super) fn layout(row: &SessionRow, list: &IterationList, output: &mut Output) {
    let mut head = paint(NAME, row.id());
    if let Some(title) = row.title() {
        head += &format!("  {}", paint(HEADING, words::one_line(title)));
    }
    if row.archived() {
        head += &format!("  {}", paint(FAINT, "(archived)"));
    }
    output.line(head);
    let mut about = vec![words::count(row.iteration_count().into(), "iteration")];
    about.extend(row.project().map(|project| format!("project {}", words::one_line(project))));
    about.push(format!("begun {}", words::time(row.created_at())));
    about.push(format!("modified {}", words::time(row.last_modified_at())));
    output.line(paint(FAINT, about.join(" · ")));
    if let Some(cursor) = &list.next_cursor {
        output.gap();
        output.line(paint(FAINT, format_args!("older ones: retake show {} --cursor {cursor}", row.id())));
    }

    let mut blocks: BTreeMap<u32, Option<&IterationRow>> = list.lost.iter().map(|index| (*index, None)).collect();
    blocks.extend(list.iterations.iter().map(|iteration| (iteration.index, Some(iteration))));
    for (index, block) in blocks {
        output.gap();
        match block {
            Some(iteration) => iteration_block(iteration, row.id(), output),
            None => {
                let name = paint(NAME, format_args!("#{index}"));
                output.line(format_args!("{name}  {}", paint(BAD, "lost to damage")));
            }
        }
    }
}

fn iteration_block(row: &IterationRow, session: SessionId, output: &mut Output) {
    let mut head = format!("{}  {}", paint(NAME, format_args!("#{}", row.index)), words::time(row.timestamp));
    head += &match row.outcome {
        Some(OutcomeStatus::Failed) => format!("  {}", paint(BAD, "failed")),
        Some(OutcomeStatus::Refused) => format!("  {}", paint(WARNING, "refused")),
        Some(OutcomeStatus::Succeeded) | None => String::new(),
    };
    if let Some(rating) = row.rating {
        head += &format!("  {}", paint(WARNING, words::stars(rating)));
    }
    if let Some(parent) = row.parent {
        head += &format!("  {}", paint(FAINT, format_args!("from {}", show::shortened(parent, session))));
    }
    output.line(head);
    output.line(format_args!("    {}", output.fit(&words::prompt(&row.prompt), 4)));
    let known = known(row);
    if !known.is_empty() {
        output.line(format_args!("    {}", paint(FAINT, known.join(" · "))));
    }
}

fn known(row: &IterationRow) -> Vec<String> {
    let it = &row.metadata;
    [
        it.model.as_deref().map(words::one_line),
        it.seed.map(|seed| format!("seed {seed}")),
        it.steps.map(|steps| format!("{steps} steps")),
        it.guidance_scale.map(|scale| format!("cfg {scale}")),
        it.sampler.as_deref().map(words::one_line),
        show::size(it.width, it.height),
        it.generation_time_ms.map(words::duration),
        it.cost.as_ref().map(words::cost),
    ]
    .into_iter()
    .flatten()
    .collect()
}
