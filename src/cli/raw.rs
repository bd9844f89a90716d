//! `retake show --raw`: prints the generation metadata of an image file, with the source of every value.

use std::path::Path;

use serde_json::Value;

use crate::wire::{RawEntry, RawView, raw_file};

use super::context::Context;
use super::exit::{Exit, Failure};
use super::output::{FAINT, HEADING, NAME, Output, WARNING, paint};
use super::{show, words};

/// The maximum number of lines of a text, unless all of it is requested.
const SHOWN_LINES: usize = 12;
const SHOWN_CHARS: usize = 1200;
/// The media type of files that are not known images.
const UNKNOWN: &str = "application/octet-stream";

/// Shows a file, or the image of an iteration if the file does not exist.
pub(super) fn run(context: &mut Context, file: &str, full: bool) -> Result<Exit, Failure> {
    let path = Path::new(file);
    let is_reference = !path.exists() && (file.starts_with("session-") || file.starts_with('#') || file == "latest");
    if is_reference {
        return context.read(|api, output| {
            let view = api.raw(file)?;
            output.answer(&view, |output, view| layout(view, full, output));
            Ok(Exit::Done)
        });
    }
    let view = raw_file(path)?;
    context.output.answer(&view, |output, view| layout(view, full, output));
    Ok(Exit::Done)
}

fn layout(view: &RawView, full: bool, output: &mut Output) {
    let mut head = paint(NAME, words::one_line(&view.file));
    for image in &view.images {
        let size = show::size(image.width, image.height).map(|size| format!(" {size}")).unwrap_or_default();
        head += &format!("  {}{size}, {}", image.mime_type, words::size(image.bytes));
    }
    output.line(head);
    match (&view.generator, view.raw.is_empty()) {
        (Some(_), _) => {}
        (None, true) if view.images.iter().all(|image| image.mime_type == UNKNOWN) => {
            output.line("this is not an image or video of a known type");
        }
        // If the file could not be searched, the notes say so.
        (None, true) if !view.searched => {}
        (None, true) => output.line("there is no text in this file"),
        (None, false) => output.line("no known tool wrote the texts in this file; they are below, as they are"),
    }
    if !view.recipe.is_empty() {
        output.gap();
        for (name, value) in &view.recipe {
            recipe_line(name, value, view, full, output);
        }
    }
    if let Some(time) = view.created_at {
        let day = if view.only_the_day { " (only the day is known)" } else { "" };
        output.line(format_args!("{} {}{day}", paint(HEADING, "made          "), words::time(time)));
    }
    for pass in &view.passes {
        let settings = pass.settings.iter().map(|(name, value)| format!("{name} {}", plain(value)));
        let settings = words::one_line(&settings.collect::<Vec<_>>().join(", "));
        output.line(format_args!("{} {}: {settings}", paint(HEADING, "pass          "), words::one_line(&pass.name)));
    }
    for note in &view.notes {
        output.line(format_args!("{} {}", paint(WARNING, "note:"), words::one_line(note)));
    }
    for (number, entry) in view.raw.iter().enumerate() {
        output.gap();
        text(number, entry, full, output);
    }
}

/// Writes a field, its value and its source.
fn recipe_line(name: &str, value: &Value, view: &RawView, full: bool, output: &mut Output) {
    if name == "parameters" {
        for (key, value) in value.as_object().into_iter().flatten() {
            let shown = shortened(&plain(value), full);
            output.line(format_args!("{} {} = {shown}", paint(HEADING, "parameter     "), words::one_line(key)));
        }
        return;
    }
    let source = view.sources.iter().find(|source| source.field == name);
    let from = source.map(|source| {
        let raw = source.raw.map(|raw| format!("text {raw}: ")).unwrap_or_default();
        paint(FAINT, format_args!("  ← {raw}{}", words::one_line(&source.rule)))
    });
    let from = from.unwrap_or_default();
    output.line(format_args!(
        "{} {}{from}",
        paint(HEADING, format_args!("{name:<14}")),
        shortened(&plain(value), full)
    ));
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        value => value.to_string(),
    }
}

/// Shortens a text to one line.
fn shortened(text: &str, full: bool) -> String {
    const SHOWN: usize = 300;
    let line = words::one_line(text);
    if full { line } else { words::cut(&line, SHOWN) }
}

fn text(number: usize, entry: &RawEntry, full: bool, output: &mut Output) {
    let title = format!("text {number}: {}, {}", entry.place, words::one_line(&entry.key));
    output.line(paint(HEADING, title));
    let clean = words::clean(&entry.text);
    let mut left = if full { usize::MAX } else { SHOWN_CHARS };
    let mut cut = false;
    for (at, line) in clean.lines().enumerate() {
        let shown: String = line.chars().take(left).collect();
        cut = (!full && at >= SHOWN_LINES) || left == 0;
        if cut {
            break;
        }
        left = left.saturating_sub(line.chars().count());
        cut = shown.len() < line.len();
        output.line(format_args!("  {shown}"));
    }
    if cut {
        let size = u64::try_from(entry.text.len()).unwrap_or(u64::MAX);
        output.line(paint(FAINT, format_args!("  … {} in all; see --full", words::size(size))));
    }
}
