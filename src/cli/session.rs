//! A session as a story: a header, then the tree of its iterations, each with its changes, rating and note. Rerolls
//! without annotations share a line, since long sessions consist mostly of those.

use std::collections::{BTreeMap, HashMap};

use crate::model::{IterationId, OutcomeStatus, SessionId, StepLabel, Timestamp};
use crate::wire::{IterationList, IterationRow, SessionRow, StoryStep};

use super::output::{BAD, FAINT, GOOD, HEADING, NAME, Output, TAKEN, TURNED, WARNING, paint};
use super::tree::{self, Placed};
use super::{show, times, words};

/// Prints a session.
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
    about.extend(words::costs(row.cost()));
    about.push(format!("started {}", words::time(row.created_at())));
    about.push(format!("modified {}", words::time(row.last_modified_at())));
    output.line(paint(FAINT, about.join(" · ")));
    if let Some(cursor) = &list.next_cursor {
        output.gap();
        let oldest = list.iterations.first().map_or(0, |row| row.index);
        let older = words::count(u64::from(oldest), "older one");
        output.line(paint(FAINT, format_args!("{older}: retake show {} --cursor {cursor}", row.id())));
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
    let rerolls = Rerolls::of(&parents, &steps);
    let mut clock = Clock { day: String::new() };
    let parents = rerolls.folded(&parents);
    for (number, placed) in tree::place(&parents).iter().enumerate() {
        let is_root =
            parents.get(&placed.index).is_some_and(|parent| parent.is_none_or(|it| !parents.contains_key(&it)));
        // An empty line before an iteration without a parent.
        if number > 0 && is_root {
            output.gap();
        }
        let head = paint(FAINT, &placed.head);
        match (rows.get(&placed.index), steps.get(&placed.index), rerolls.runs.get(&placed.index)) {
            (.., Some(run)) if run.len() > 1 => {
                let times: Vec<_> = run.iter().filter_map(|index| Some(rows.get(index)?.timestamp)).collect();
                let from = times.iter().min().map(|at| clock.format(*at)).unwrap_or_default();
                let to = times.iter().max().map(|at| clock.format(*at)).unwrap_or_default();
                let (name, count) = (paint(NAME, several(run)), words::count(run.len() as u64, "reroll"));
                let times = paint(FAINT, format_args!("{from} – {to}"));
                output.line(format_args!("{head}{name}  {}  {times}", paint(HEADING, count)));
            }
            (Some(iteration), Some(step), _) => {
                let from = step.parent.filter(|parent| parent.session != row.id() || is_root);
                block(placed, iteration, step, (from, clock.format(iteration.timestamp)), output);
            }
            _ => {
                let name = paint(NAME, format_args!("#{}", placed.index));
                output.line(format_args!("{head}{name}  {}", paint(BAD, "lost to damage")));
            }
        }
    }
}

/// Runs of successful rerolls without annotations: consecutive ones, or siblings without children.
struct Rerolls {
    /// The members of a run, by its first iteration.
    runs: BTreeMap<u32, Vec<u32>>,
    /// The first iteration of the run that an iteration belongs to.
    first: HashMap<u32, u32>,
}

impl Rerolls {
    fn of(parents: &BTreeMap<u32, Option<u32>>, steps: &HashMap<u32, &StoryStep>) -> Rerolls {
        let mut children: HashMap<u32, usize> = HashMap::new();
        for parent in parents.values().flatten() {
            *children.entry(*parent).or_default() += 1;
        }
        // The last iteration always gets its own line.
        let last = parents.keys().next_back();
        let is_mere = |index: &u32| {
            let step = steps.get(index).filter(|_| Some(index) != last);
            step.is_some_and(|step| {
                step.label == Some(StepLabel::Reroll)
                    && step.outcome.is_none()
                    && step.rating.is_none()
                    && step.tags.is_empty()
                    && step.note.is_none()
            })
        };
        let mut rerolls = Rerolls { runs: BTreeMap::new(), first: HashMap::new() };
        // The run of childless rerolls, by parent.
        let mut side_by_side: HashMap<u32, u32> = HashMap::new();
        for (index, parent) in parents.iter().filter(|(index, _)| is_mere(index)) {
            let only_child = parent.filter(|parent| children.get(parent) == Some(&1));
            let before = only_child.and_then(|parent| rerolls.first.get(&parent).copied());
            let beside = || {
                let leads_nowhere = !children.contains_key(index);
                parent.filter(|_| leads_nowhere).map(|parent| *side_by_side.entry(parent).or_insert(*index))
            };
            let first = before.or_else(beside).unwrap_or(*index);
            rerolls.first.insert(*index, first);
            rerolls.runs.entry(first).or_default().push(*index);
        }
        rerolls
    }

    /// Returns the tree with each run replaced by its first iteration.
    fn folded(&self, parents: &BTreeMap<u32, Option<u32>>) -> BTreeMap<u32, Option<u32>> {
        let place = |index: u32| self.first.get(&index).copied().unwrap_or(index);
        let own = parents.iter().filter(|(index, _)| place(**index) == **index);
        own.map(|(index, parent)| (*index, parent.map(place))).collect()
    }
}

/// Returns the label of several iterations.
fn several(indexes: &[u32]) -> String {
    match indexes {
        [first, .., last] if indexes.len() > 2 && (last - first) as usize == indexes.len() - 1 => {
            format!("#{first}–#{last}")
        }
        _ => format!("#{}", words::numbers(indexes).replace(", ", ", #")),
    }
}

/// Formats times, with the date only if it changed.
struct Clock {
    day: String,
}

impl Clock {
    fn format(&mut self, at: Timestamp) -> String {
        let (day, time) = times::day_and_time(at);
        if day == self.day {
            return time;
        }
        self.day = day;
        words::time(at)
    }
}

/// Returns the heading of a step: its name, label, outcome and rating.
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

/// Returns the changes with additions and removals in colour. The line is truncated first, since colour codes have no
/// width.
pub(super) fn changes(line: &str) -> String {
    let part = |part: &str| match part.chars().next() {
        Some('+') => paint(GOOD, part),
        Some('-') => paint(TAKEN, part),
        Some('~' | '↕') => paint(TURNED, part),
        _ => part.to_owned(),
    };
    // The label is shown separately.
    line.strip_prefix("reroll  ").unwrap_or(line).split("  ").map(part).collect::<Vec<_>>().join("  ")
}

/// Returns the annotation of a step on one line.
pub(super) fn remarks(note: Option<&str>, tags: &[String]) -> Option<String> {
    let note = note.map(|note| format!("“{}”", words::one_line(note)));
    let (tags, ratings) = words::tags_and_ratings(tags);
    let tags = tags.into_iter().map(|tag| format!("[{tag}]"));
    Some(note.into_iter().chain(ratings).chain(tags).collect::<Vec<_>>().join(" "))
        .filter(|remarks| !remarks.is_empty())
}

/// Returns the provider's message of an attempt that did not succeed, on one line.
pub(super) fn message_line(message: &str, used: usize, output: &Output) -> String {
    paint(WARNING, output.fit(&format!("message: {}", words::one_line(message)), used))
}

/// The indentation of the lines below a step's heading.
const INDENT: &str = "   ";

fn block(
    placed: &Placed,
    row: &IterationRow,
    step: &StoryStep,
    (from, time): (Option<IterationId>, String),
    output: &mut Output,
) {
    let session = step.reference.session;
    let mut head = format!("{}{}", paint(FAINT, &placed.head), step_head(step, session));
    let reroll = step.label == Some(StepLabel::Reroll);
    if let Some(seed) = row.metadata.seed.filter(|_| reroll) {
        head += &format!("  seed {seed}");
    }
    head += &format!("  {}", paint(FAINT, time));
    if let Some(parent) = from {
        head += &format!("  {}", paint(FAINT, format_args!("from {}", show::shortened(parent, session))));
    }
    output.line(head);
    let elsewhere = from.filter(|parent| parent.session != session);
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
    if step.label.is_some() && step.label != Some(StepLabel::NewIdea) && !reroll {
        output.line(format_args!("{before}{}", changes(&output.fit(&words::parts(&step.summary), used))));
    }
    if let Some(message) = &step.message {
        output.line(format_args!("{before}{}", message_line(message, used, output)));
    }
    if let Some(remarks) = remarks(step.note.as_deref(), &step.tags) {
        output.line(format_args!("{before}{}", output.fit(&remarks, used)));
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
