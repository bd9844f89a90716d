//! `retake compare`.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::Value;

use crate::images::{Render, Rendering};
use crate::model::diff::{NodeChangeKind, summary};
use crate::model::{IterationId, OutcomeStatus};
use crate::wire::{CompareRequest, CompareView, Difference, Error, ErrorKind, VisualView};

use super::args::Json;
use super::choice::choice;
use super::context::Context;
use super::ending::{Exit, Failure};
use super::output::{BAD, FAINT, HEADING, NAME, Output, WARNING, paint};
use super::table::Table;
use super::{inline, references, session, words};

/// Compare 2 to 12 iterations: prompts, recipes, workflows and images
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    retake compare '#1' '#3'       two of the most recent session\n  \
    retake compare '#3/0' '#3/1'   two images of a batch\n  \
    retake compare 'session-2025-12-11-001#3' session-2025-12-12-002\n  \
    retake compare '#1' '#3' --output pair.png --render heatmap")]
pub(super) struct CompareArgs {
    /// The iterations; the others are compared with the first
    #[arg(required = true, value_name = "REFERENCE")]
    references: Vec<String>,
    /// Write an image of the comparison to this PNG file
    #[arg(short, long, value_name = "FILE.png")]
    output: Option<PathBuf>,
    /// What to draw [default: sideBySide for two, sheet for more]
    #[arg(long, value_name = "HOW", value_parser = choice::<Render>())]
    render: Option<Render>,
    #[command(flatten)]
    pub(super) json: Json,
}

impl CompareArgs {
    pub(super) fn run(self, context: &mut Context) -> Result<Exit, Failure> {
        let render = self.render;
        if let Some(path) = &self.output {
            check_output(path, render)?;
        }
        context.read(|api, output| {
            let references = self.references.iter().map(|reference| references::expand(api, reference));
            let request = CompareRequest { references: references.collect::<Result<_, _>>()?, render };
            let view = api.compare(&request)?;
            let wanted = self.output.is_some() || inline::is_shown(output);
            let drawn = if wanted { api.render(&view, render)? } else { None };
            if let Some(path) = &self.output {
                write(path, drawn.as_ref())?;
            }
            output.answer(&view, |output, view| layout(view, output));
            if let Some(path) = self.output.as_ref().filter(|_| !output.is_json()) {
                output.gap();
                output.line(format_args!("wrote {}", words::one_line(&path.display().to_string())));
            }
            if let Some(drawn) = drawn.as_ref().filter(|_| inline::is_shown(output)) {
                output.gap();
                inline::draw(output, drawn.pixels(), PICTURE_SHARE);
            }
            Ok(Exit::Done)
        })
    }
}

/// The share of the terminal's height that the image takes.
const PICTURE_SHARE: f64 = 0.6;

/// Checks that the image can be written to the file.
fn check_output(path: &Path, render: Option<Render>) -> Result<(), Failure> {
    if render == Some(Render::None) {
        return Err(Failure::flags(
            "--output needs an image, and --render none draws none",
            "leave out one of the two",
        ));
    }
    let ending = path.extension().map(|ending| ending.to_string_lossy().to_lowercase());
    match ending.as_deref() {
        None | Some("png") => Ok(()),
        Some(_) => Err(Failure::flags(
            format!("the image is written as PNG, and the file has another extension: {}", path.display()),
            "give a name that ends in .png",
        )),
    }
}

fn write(path: &Path, drawn: Option<&Rendering>) -> Result<(), Failure> {
    let Some(drawn) = drawn else {
        return Err(Error::new(
            ErrorKind::Invalid,
            "none of these iterations has an image, so there is nothing to draw",
            "leave out --output, or name iterations that have images",
        )
        .into());
    };
    fs::write(path, drawn.png()).map_err(|error| {
        let message = format!("cannot write the image: {}", path.display());
        Error::new(ErrorKind::Internal, message, "choose a file that can be written").caused_by(error).into()
    })
}

/// The labels of the iterations in tables.
const LETTERS: [&str; 12] = ["A", "B", "C", "D", "E", "F", "G", "H", "I", "J", "K", "L"];

fn layout(view: &CompareView, output: &mut Output) {
    for (letter, iteration) in LETTERS.iter().zip(&view.iterations) {
        let mut head = format!("{}  {}", paint(HEADING, letter), paint(NAME, iteration.reference));
        head += &match iteration.outcome {
            Some(OutcomeStatus::Failed) => format!("  {}", paint(BAD, "failed")),
            Some(OutcomeStatus::Refused) => format!("  {}", paint(WARNING, "refused")),
            Some(OutcomeStatus::Succeeded) | None => String::new(),
        };
        if let Some(rating) = iteration.rating {
            head += &format!("  {}", paint(WARNING, words::stars(rating)));
        }
        head += &format!("  {}", paint(FAINT, words::time(iteration.timestamp)));
        output.line(head);
        output.line(format_args!("   {}", output.fit(&words::prompt(&iteration.prompt), 3)));
    }
    for (letter, difference) in LETTERS.iter().skip(1).zip(&view.differences) {
        output.gap();
        let is_itself = view.iterations.first().is_some_and(|first| first.reference == difference.reference);
        let label = if is_itself { "the same iteration".to_owned() } else { difference.label.to_string() };
        output.line(format_args!("{}  {}", paint(HEADING, format_args!("A → {letter}")), paint(HEADING, label)));
        changes(difference, output);
    }
    if !view.parameters.is_empty() || !view.loras.is_empty() {
        output.gap();
        table(view, output);
    }
    if !view.same.is_empty() {
        output.gap();
        let same: Vec<String> = view
            .same
            .iter()
            .map(|(name, value)| format!("{} {}", words::field(name), words::one_line(&summary::value(value))))
            .collect();
        output.line(paint(FAINT, output.fit(&format!("the same: {}", same.join(" · ")), 0)));
    }
    output.gap();
    output.line(lineage(view));
    if !view.truncated.is_empty() {
        output.line(paint(FAINT, format_args!("cut short: {}", view.truncated.join(", "))));
    }
}

/// Prints the differences that do not fit the one-column-per-iteration table.
fn changes(difference: &Difference, output: &mut Output) {
    for (name, diff) in [
        ("prompt", &difference.prompt),
        ("negative prompt", &difference.negative_prompt),
        ("prompt as sent", &difference.prompt_sent),
    ] {
        let Some(diff) = diff else { continue };
        let line = words::parts(&summary::prompt(diff));
        let used = name.len() + 4;
        output.line(format_args!("  {}  {}", paint(FAINT, name), session::changes(&output.fit(&line, used))));
    }
    for node in difference.nodes.iter().filter(|node| !node.repeats) {
        let name = words::one_line(node.title.as_ref().unwrap_or(&node.class_type));
        let value = |value: &Option<Value>| {
            value
                .as_ref()
                .map_or_else(|| "–".to_owned(), |value| words::cut(&words::one_line(&summary::value(value)), 60))
        };
        let line = match node.kind {
            NodeChangeKind::Added => format!("+{name}"),
            NodeChangeKind::Removed => format!("-{name}"),
            NodeChangeKind::Changed => {
                let input = words::one_line(node.input.as_deref().unwrap_or_default());
                format!("{name}.{input} {} → {}", value(&node.old), value(&node.new))
            }
        };
        output.line(format_args!("  {}  {}", paint(FAINT, "node"), session::changes(&output.fit(&line, 8))));
    }
    if let Some(visual) = &difference.visual {
        output.line(format_args!("  {}  {}", paint(FAINT, "image"), seen(visual)));
    }
    if let Some(problem) = &difference.visual_problem {
        output.line(format_args!("  {}  {}", paint(FAINT, "image"), paint(WARNING, words::one_line(problem))));
    }
    if difference.prompt.is_none() && difference.nodes.is_empty() && difference.summary == "same recipe" {
        output.line(paint(FAINT, "  same recipe"));
    }
}

/// Describes how far apart two images are, on one line.
fn seen(visual: &VisualView) -> String {
    let mut parts = vec![visual.verdict.clone()];
    let whole = u64::from(visual.width) * u64::from(visual.height) * 9;
    let part = visual.changed_box.filter(|part| u64::from(part.width) * u64::from(part.height) * 10 < whole);
    parts.extend(part.map(|part| format!("within {}x{} at {},{}", part.width, part.height, part.x, part.y)));
    parts.push(format!("SSIM {:.2}", visual.ssim));
    parts.push(format!("distance {} of 128", visual.perceptual_distance));
    if visual.different_shapes {
        parts.push("different shapes".to_owned());
    } else if visual.scaled {
        parts.push("different sizes".to_owned());
    }
    parts.join(" · ")
}

fn table(view: &CompareView, output: &mut Output) {
    let columns = LETTERS.iter().take(view.iterations.len());
    let headings = ["PARAMETER"].into_iter().chain(columns.copied()).chain(["CHANGE"]);
    let mut table = Table::of(headings.map(|heading| (heading, 0)).collect());
    let widest = output.width().map_or(usize::MAX, |_| MOST_COLUMNS);
    let shown = |value: Option<String>| words::cut(&words::one_line(&value.unwrap_or_else(|| "–".to_owned())), widest);
    for row in &view.parameters {
        let values = row.values.iter().map(|value| shown(value.as_ref().map(summary::value)));
        let delta = row.delta.map(|delta| format!("{delta:+}")).unwrap_or_default();
        table.row_of([words::field(&row.name)].into_iter().chain(values).chain([delta]).collect());
    }
    for row in &view.loras {
        let weights = row.weights.iter().map(|weight| shown(weight.map(|weight| weight.to_string())));
        let name = format!("lora {}", row.name);
        table.row_of([name].into_iter().chain(weights).chain([String::new()]).collect());
    }
    table.without_empty_columns().print(output);
}

/// The maximum width of a value on a terminal.
const MOST_COLUMNS: usize = 24;

fn lineage(view: &CompareView) -> String {
    let Some(ancestor) = view.lineage.common_ancestor else {
        return paint(FAINT, "they have no common ancestor");
    };
    let letter_of = |id: IterationId| {
        LETTERS
            .iter()
            .zip(&view.iterations)
            .find(|(_, iteration)| iteration.reference.iteration == id)
            .map(|(letter, _)| *letter)
    };
    let led_to: Vec<String> = LETTERS
        .iter()
        .zip(&view.lineage.steps)
        .filter(|(_, steps)| **steps > 0)
        .map(|(letter, steps)| format!("to {letter} in {}", words::count(u64::from(*steps), "step")))
        .collect();
    let from = letter_of(ancestor).map_or_else(|| paint(NAME, ancestor), str::to_owned);
    match led_to.as_slice() {
        [] => paint(FAINT, "both are the same iteration"),
        led_to => format!("{from} led {}", led_to.join(", ")),
    }
}
