//! `retake show`: one iteration, or a session as a story.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;

use crate::images::is_video;
use crate::model::{ExactReference, IterationId, OutcomeStatus, Recipe, SessionId};
use crate::wire::{
    Error, ErrorKind, GetRequest, ImageRequest, ImageView, IterationView, IterationsRequest, MAX_REPLY_BYTES,
    RecipeView, StoryStep,
};

use crate::workspace::Workspace;

use super::args::Json;
use super::context::Context;
use super::ending::{Exit, Failure};
use super::output::{BAD, FAINT, HEADING, NAME, Output, WARNING, paint};
use super::{inline, raw, references, session, words};

/// Show an iteration in full, or a session as a story
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    retake show latest                         the last iteration\n  \
    retake show session-2025-12-11-001         each step of a session\n  \
    retake show 'session-2025-12-11-001#3'     one iteration in full\n  \
    retake show 'session-2025-12-11-001#3/1'   with its second image\n  \
    retake show latest --output best.png       write the original\n  \
    retake show --raw image.png                the metadata of any file")]
pub(super) struct ShowArgs {
    /// A session's id or a reference; with --raw also the path of an image
    reference: String,
    /// Show the metadata in the image file, field by field
    #[arg(long)]
    raw: bool,
    /// Show long texts and parameters in full
    #[arg(long)]
    full: bool,
    /// Write the original image to this file, byte for byte
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["raw", "full", "limit", "cursor"])]
    output: Option<PathBuf>,
    /// With --output: replace the file if there is one
    #[arg(long, requires = "output")]
    force: bool,
    /// Of a session: maximum number of iterations (1–1000) [default: 200]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = super::args::limit)]
    limit: Option<u32>,
    /// Of a session: continue with older iterations
    #[arg(long)]
    cursor: Option<String>,
    #[command(flatten)]
    pub(super) json: Json,
}

impl ShowArgs {
    pub(super) fn run(self, context: &mut Context) -> Result<Exit, Failure> {
        if self.raw {
            return raw::run(context, &self.reference, self.full);
        }
        if let Some(path) = &self.output {
            return write_original(&self.reference, path, self.force, context);
        }
        if self.names_a_file() {
            return Err(Failure::flags(
                format!("{:?} is a file and not a reference", self.reference),
                format!(
                    "read its metadata with `retake show --raw {}`, or bring it in with `retake import`",
                    self.reference
                ),
            ));
        }
        // Only an abbreviation requires the workspace to tell them apart; `#` marks an iteration in any form.
        let is_session = self.reference != "latest" && !self.reference.contains('#');
        if is_session && self.full {
            return Err(Failure::flags(
                "--full is for an iteration",
                format!("name one, such as {}#latest", self.reference),
            ));
        }
        if !is_session && (self.limit.is_some() || self.cursor.is_some()) {
            return Err(Failure::flags(
                "--limit and --cursor are for a session's iterations",
                "give a session's id, or leave them out",
            ));
        }
        context.read(|api, output| {
            if is_session {
                let ShowArgs { reference, limit, cursor, .. } = self;
                let session_id = references::expand(api, &reference)?;
                if session_id.parse::<SessionId>().is_err() {
                    // Neither an id nor a reference: the error for a reference explains more.
                    api.resolve(&session_id)?;
                }
                let row = api.session(&session_id)?;
                let request = IterationsRequest { session_id, limit, cursor, include_images: false };
                let list = api.iterations(&request)?;
                // The changes of each step are for people; scripts get the rows defined by the JSON surface.
                let shown: &[_] = if output.is_json() { &[] } else { &list.iterations };
                let ids = shown.iter().map(|it| list.session_id.iteration(it.index));
                let steps: Vec<StoryStep> = api.workspace().steps(ids)?.iter().map(StoryStep::from).collect();
                output.answer(&list, |output, list| session::layout(&row, list, &steps, output));
            } else {
                // Very large workflows are shown only on request.
                let api =
                    if self.full { api.clone().unbounded() } else { api.clone().with_reply_bytes(MAX_REPLY_BYTES) };
                let reference = references::expand(&api, &self.reference)?;
                let named = api.resolve_exactly(&reference)?;
                let view = api.get(&GetRequest { reference, ..GetRequest::default() })?;
                output.answer(&view, |output, view| layout(view, named, api.workspace(), self.full, output));
                if let Some(image) = view.images.get(usize::try_from(named.image_number()).unwrap_or(usize::MAX))
                    && inline::is_shown(output)
                    && let Ok(picture) = api.workspace().preview(image.hash)
                {
                    output.gap();
                    inline::draw(output, &picture, PICTURE_SHARE);
                }
            }
            Ok(Exit::Done)
        })
    }
}

impl ShowArgs {
    /// Returns whether the argument is most likely the path of an image file.
    fn names_a_file(&self) -> bool {
        let path = Path::new(&self.reference);
        path.extension().is_some() && path.is_file() && !self.reference.starts_with("session-")
    }
}

/// Writes the original of an iteration's image to a file.
fn write_original(reference: &str, path: &Path, force: bool, context: &mut Context) -> Result<Exit, Failure> {
    context.read(|api, output| {
        let reference = references::expand(api, reference)?;
        let found = api.image(&ImageRequest { reference, image: None })?;
        let shown = words::one_line(&path.display().to_string());
        let mut options = OpenOptions::new();
        options.write(true);
        if force {
            options.create(true).truncate(true)
        } else {
            options.create_new(true)
        };
        options.open(path).and_then(|mut file| file.write_all(&found.data)).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => Error::new(
                ErrorKind::Conflict,
                format!("there is already a file {shown}"),
                "choose another name, or pass --force to replace it",
            ),
            _ => Error::new(
                ErrorKind::Internal,
                format!("cannot write the image: {shown}"),
                "choose a file that can be written",
            )
            .caused_by(error),
        })?;
        let written = WrittenImage { reference: found.reference, file: path.to_owned(), bytes: found.image.bytes };
        output.answer(&written, |output, written| {
            output.line(format_args!(
                "wrote {shown} ({}) from {}",
                words::size(written.bytes),
                paint(NAME, written.reference)
            ));
        });
        Ok(Exit::Done)
    })
}

/// An original that was written to a file.
#[derive(Serialize)]
struct WrittenImage {
    reference: IterationId,
    file: PathBuf,
    bytes: u64,
}

/// The share of the terminal's height that an image takes, so that the recipe above it stays visible.
const PICTURE_SHARE: f64 = 0.5;

fn layout(view: &IterationView, named: ExactReference, workspace: &Workspace, full: bool, output: &mut Output) {
    let mut head = paint(NAME, named);
    head += &match view.outcome.status {
        OutcomeStatus::Succeeded => String::new(),
        OutcomeStatus::Failed => format!("  {}", paint(BAD, "failed")),
        OutcomeStatus::Refused => format!("  {}", paint(WARNING, "refused")),
    };
    if let Some(rating) = view.annotations.rating {
        head += &format!("  {}", paint(WARNING, words::stars(rating)));
    }
    if view.session.archived() {
        head += &format!("  {}", paint(FAINT, "(session archived)"));
    }
    output.line(head);

    output.gap();
    texts(&view.recipe.recipe, full, output);
    text("message", view.outcome.message.as_deref(), output);
    text("note", view.annotations.note.as_deref(), output);
    output.gap();

    recipe(&view.recipe, full, output);
    line("took", view.outcome.generation_time_ms.map(words::duration), output);
    line("cost", view.outcome.cost.as_ref().map(words::cost), output);
    let (tags, ratings) = words::tags_and_ratings(&view.annotations.tags);
    line("images", list(ratings.into_iter()), output);
    line("tags", list(tags.into_iter()), output);
    line("from", view.parent.map(|parent| shortened(parent, view.session_id)), output);
    line("led to", list(view.children.iter().map(|child| shortened(*child, view.session_id))), output);
    match named.image.and_then(|number| view.images.get(usize::try_from(number).unwrap_or(usize::MAX))) {
        Some(only) => images(std::slice::from_ref(only), workspace, output),
        None => images(&view.images, workspace, output),
    }
    line("title", view.session.title().map(str::to_owned), output);
    line("project", view.session.project().map(str::to_owned), output);
    line("made", Some(words::time(view.timestamp)), output);
    let by = &view.recorded_by;
    line("recorded", Some(format!("{} by {} with {}", words::time(view.recorded_at), by.user, by.client)), output);
    if !view.truncated.is_empty() {
        output.gap();
        output.line(paint(FAINT, format_args!("truncated: {}; see --full", view.truncated.join(", "))));
    }
}

/// Prints the prompts of a recipe.
pub(super) fn texts(recipe: &Recipe, full: bool, output: &mut Output) {
    let prompts = [
        ("prompt", Some(recipe.prompt.as_str())),
        ("prompt as sent", recipe.prompt_sent.as_deref()),
        ("negative prompt", recipe.negative_prompt.as_deref()),
    ];
    for (name, prompt) in prompts {
        match prompt.map(|prompt| (prompt, prompt.char_indices().nth(MAX_PROMPT_CHARS))) {
            Some((prompt, Some((end, _)))) if !full => {
                text(name, prompt.get(..end), output);
                let size = words::size(prompt.len() as u64);
                output.line(paint(FAINT, format_args!("  … {size} in all; see --full")));
            }
            _ => text(name, prompt, output),
        }
    }
}

/// Prints the rest of a recipe.
pub(super) fn recipe(view: &RecipeView, full: bool, output: &mut Output) {
    let recipe = &view.recipe;
    for (label, value) in recipe.facts() {
        line(&label.to_lowercase(), Some(value), output);
    }
    for (name, value) in &recipe.parameters {
        let value = value.to_string();
        let value = match value.char_indices().nth(MAX_PARAMETER_CHARS) {
            Some((end, _)) if !full => {
                let size = words::size(value.len() as u64);
                format!("{}… {size} in all; see --full", value.get(..end).unwrap_or_default())
            }
            _ => value,
        };
        line("parameter", Some(format!("{name} = {value}")), output);
    }
    let omitted = view.parameters_omitted_bytes.map(|bytes| format!("{} omitted; see --full", words::size(bytes)));
    line("parameters", omitted, output);
}

/// Prints a name and a value; nothing if there is no value.
pub(super) fn line(name: &str, value: Option<String>, output: &mut Output) {
    if let Some(value) = value {
        output.line(format_args!("{} {}", paint(HEADING, format_args!("{name:<12}")), words::one_line(&value)));
    }
}

/// Formats a size as `--size` accepts it, such as `1024x768`.
pub(super) fn size(width: Option<u32>, height: Option<u32>) -> Option<String> {
    let side = |side: Option<u32>| side.map_or_else(|| "?".to_owned(), |side| side.to_string());
    (width.is_some() || height.is_some()).then(|| format!("{}x{}", side(width), side(height)))
}

/// Returns a reference without its session if that is `within`, such as `#3`.
pub(super) fn shortened(id: IterationId, within: SessionId) -> String {
    if id.session == within { format!("#{}", id.index) } else { id.to_string() }
}

fn text(name: &str, text: Option<&str>, output: &mut Output) {
    let Some(text) = text else { return };
    output.line(paint(HEADING, name));
    for line in words::clean(text).lines() {
        output.line(format_args!("  {line}"));
    }
}

fn list(items: impl Iterator<Item = String>) -> Option<String> {
    Some(items.collect::<Vec<_>>().join(", ")).filter(|items| !items.is_empty())
}

/// Prints the images, each with the path of its original if that is on this machine.
pub(super) fn images(images: &[ImageView], workspace: &Workspace, output: &mut Output) {
    for picture in images {
        let what = if is_video(&picture.mime_type) { "video" } else { "image" };
        line(what, Some(image(picture)), output);
        line("original", workspace.local_original(picture.hash).map(|path| path.display().to_string()), output);
    }
}

/// The maximum number of characters of a prompt, unless all of it is requested.
const MAX_PROMPT_CHARS: usize = 2000;
/// The maximum number of characters of a parameter, unless all of it is requested.
const MAX_PARAMETER_CHARS: usize = 200;

/// Describes an image on one line.
pub(super) fn image(image: &ImageView) -> String {
    let mut about = vec![image.mime_type.clone()];
    about.extend(size(image.width, image.height));
    about.push(words::size(image.bytes));
    about.extend(image.missing.then(|| "MISSING".to_owned()));
    let name = image.name.clone().unwrap_or_default();
    format!("{name} ({}) {}", about.join(", "), image.hash)
}
