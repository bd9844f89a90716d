//! How a session lies on the screen: as a story. A head, then the tree of its iterations, each with what changed from the
//! one it came from, how it was rated, and what was said of it.

use std::collections::{BTreeMap, HashMap};

use crate::model::{OutcomeStatus, SessionId, StepLabel};
use crate::tracker::{IterationList, IterationRow, SessionRow, StoryStep};

use super::output::{BAD, FAINT, GOOD, HEADING, NAME, Output, TAKEN, TURNED, WARNING, paint};
use super::tree::{self, Placed};
use super::{show, words};

/// Lays out a session.
pub(super) fn layout(row: &SessionRow, list: &IterationList, steps: &[StoryStep], output: &mut Output) {
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

    output.gap();
    let rows: HashMap<u32, &IterationRow> = list.iterations.iter().map(|row| (row.index, row)).collect();
    let steps: HashMap<u32, &StoryStep> = steps.iter().map(|step| (step.reference.index, step)).collect();
    let parent = |index: &u32| {
        let parent = steps.get(index)?.parent?;
        (parent.session == row.id()).then_some(parent.index)
    };
    let indexes = list.lost.iter().chain(rows.keys());
    let parents: BTreeMap<u32, Option<u32>> = indexes.map(|index| (*index, parent(index))).collect();
    for (number, placed) in tree::place(&parents).iter().enumerate() {
        // What begins by itself stands apart.
        if number > 0
            && parents.get(&placed.index).is_some_and(|parent| parent.is_none_or(|it| !parents.contains_key(&it)))
        {
            output.gap();
        }
        match (rows.get(&placed.index), steps.get(&placed.index)) {
            (Some(iteration), Some(step)) => block(placed, iteration, step, row.id(), output),
            _ => {
                let name = paint(NAME, format_args!("#{}", placed.index));
                output.line(format_args!("{}{name}  {}", placed.head, paint(BAD, "lost to damage")));
            }
        }
    }
}

/// A step's name and what there is to say of it at a glance: its kind, how it ended, its rating.
pub(super) fn step_head(step: &StoryStep, within: SessionId) -> String {
    let mut head = paint(NAME, show::shortened(step.reference, within));
    if let Some(label) = step.label {
        head += &format!("  {}", paint(HEADING, label));
    }
    head += &match step.outcome {
        Some(OutcomeStatus::Failed) => format!("  {}", paint(BAD, "failed")),
        Some(OutcomeStatus::Refused) => format!("  {}", paint(WARNING, "refused")),
        Some(OutcomeStatus::Succeeded) | None => String::new(),
    };
    if let Some(rating) = step.rating {
        head += &format!("  {}", paint(WARNING, words::stars(rating)));
    }
    head
}

/// What changed, with what was added and what was removed in colour. The line is cut first, since colours have no width.
pub(super) fn changes(line: &str) -> String {
    let part = |part: &str| match part.chars().next() {
        Some('+') => paint(GOOD, part),
        Some('-') => paint(TAKEN, part),
        Some('~' | '↕') => paint(TURNED, part),
        _ => part.to_owned(),
    };
    // Whoever shows the line shows the label too.
    line.strip_prefix("reroll  ").unwrap_or(line).split("  ").map(part).collect::<Vec<_>>().join("  ")
}

/// What somebody said of a step, in one line.
pub(super) fn said(note: Option<&str>, tags: &[String]) -> Option<String> {
    let note = note.map(|note| format!("“{}”", words::one_line(note)));
    let tags = tags.iter().map(|tag| format!("[{}]", words::one_line(tag)));
    Some(note.into_iter().chain(tags).collect::<Vec<_>>().join(" ")).filter(|said| !said.is_empty())
}

/// What stands before the lines of a block below its head, after the tree.
const INDENT: &str = "   ";

fn block(placed: &Placed, row: &IterationRow, step: &StoryStep, session: SessionId, output: &mut Output) {
    let mut head = format!("{}{}", paint(FAINT, &placed.head), step_head(step, session));
    head += &format!("  {}", paint(FAINT, words::time(row.timestamp)));
    let elsewhere = step.parent.filter(|parent| parent.session != session);
    if let Some(parent) = elsewhere {
        head += &format!("  {}", paint(FAINT, format_args!("from {parent}")));
    }
    output.line(head);
    let used = placed.body.chars().count() + INDENT.len();
    let before = format!("{}{INDENT}", paint(FAINT, &placed.body));
    let begins = step.label.is_none() || step.label == Some(StepLabel::NewIdea) || elsewhere.is_some();
    if begins {
        output.line(format_args!("{before}{}", output.fit(&words::prompt(&row.prompt), used)));
        let known = known(row);
        if step.label.is_none() && !known.is_empty() {
            output.line(format_args!("{before}{}", paint(FAINT, output.fit(&known.join(" · "), used))));
        }
    }
    if step.label.is_some() && step.label != Some(StepLabel::NewIdea) {
        output.line(format_args!("{before}{}", changes(&output.fit(&words::parts(&step.summary), used))));
    }
    if let Some(said) = said(step.note.as_deref(), &step.tags) {
        output.line(format_args!("{before}{}", output.fit(&said, used)));
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
