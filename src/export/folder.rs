//! Exports a folder to share: images with their recipes embedded, a page that tells the session's story, and contact
//! sheets.
//!
//! `session.jsonl` holds the events and the patches that turn the files back into the originals: `import` restores the
//! session exactly from it, under the same references.
//!
//! A single session is written to the folder itself, several sessions to one subfolder each. File names are numbers, so
//! that no recorded text becomes part of a path. The folder gets its final name only once it is complete.

use std::fs;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use crate::images::metadata;
use crate::images::{Panel, Render};
use crate::model::{Event, EventBody, ImageRef, IterationId, IterationState, Recipe, Session, SessionId};
use crate::store::Detail;
use crate::workspace::{Error, Workspace};

use super::lines::{self, FileLine};
use super::story::{self, ExportedStep, StoryPage};
use super::{ExportReport, ExportRequest, ending, patch};

/// The number of images on a contact sheet.
const ON_A_SHEET: usize = 12;
/// The keyword of the text chunk that holds the reference in exported images.
const REFERENCE_KEY: &str = "retake";
/// The file that `import` restores a session from.
pub(crate) const SESSION_LINES: &str = "session.jsonl";
/// The keyword of the text chunk in which A1111 stores its parameters.
const RECIPE_KEY: &str = "parameters";

impl Workspace {
    /// Writes sessions into a folder that does not exist yet or is empty. Missing images are reported; everything else
    /// is written.
    pub fn export_folder(&self, request: &ExportRequest, dir: &Path) -> Result<ExportReport, Error> {
        let chosen = self.chosen(request)?;
        if fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_some()) || dir.is_file() {
            return Err(Error::InvalidPath {
                path: dir.to_owned(),
                problem: "this folder already exists",
                hint: "name a folder that does not exist yet: nothing is overwritten",
                source: None,
            });
        }
        let part = part_of(dir);
        let mut folder = Folder { workspace: self, omit_images: request.omit_images, report: ExportReport::default() };
        let written = self.each_chosen(&chosen, |id| {
            let into = if chosen.len() == 1 { part.clone() } else { part.join(id.to_string()) };
            folder.session(id, &into)
        });
        let written = written.and_then(|()| {
            let made = fs::create_dir_all(&part).and_then(|()| match fs::remove_dir(dir) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => fs::rename(&part, dir),
            });
            made.map_err(Error::Export)
        });
        if let Err(error) = written {
            // The directory may not exist.
            let _ = fs::remove_dir_all(&part);
            return Err(error);
        }
        Ok(folder.report)
    }
}

/// Returns the temporary path that a folder is written to until it is complete.
fn part_of(dir: &Path) -> PathBuf {
    let mut name = dir.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.part", std::process::id()));
    dir.with_file_name(name)
}

struct Folder<'a> {
    workspace: &'a Workspace,
    omit_images: bool,
    report: ExportReport,
}

impl Folder<'_> {
    fn session(&mut self, id: SessionId, dir: &Path) -> Result<(), Error> {
        let events = match self.workspace.log.events(id, Detail::Brief) {
            Ok(events) => events,
            Err(error) => {
                self.report.problems.push(format!("{id} is left out: {error}"));
                return Ok(());
            }
        };
        fs::create_dir_all(dir).map_err(Error::Export)?;
        self.report.events += events.len() as u64;
        let whole = self.recipes(&events)?;
        let Some(session) = Session::fold(events) else { return Ok(()) };
        let (mut steps, mut originals) = (Vec::new(), Vec::new());
        for (index, state) in &session.iterations {
            let recipe = whole.iter().find(|(there, _)| there == index).map(|(_, recipe)| recipe);
            let recipe = recipe.unwrap_or(&state.iteration.recipe);
            let files = self.pictures(id.iteration(*index), state, recipe, dir, &mut originals)?;
            steps.push(ExportedStep { index: *index, state, files });
        }
        let sheets = if self.omit_images { Vec::new() } else { self.sheets(&session, dir)? };
        let page = story::page(&StoryPage { head: &session.head, steps: &steps, sheets: &sheets });
        fs::write(dir.join("session.md"), page).map_err(Error::Export)?;
        let mut lines = BufWriter::new(fs::File::create(dir.join(SESSION_LINES)).map_err(Error::Export)?);
        self.report.problems.extend(lines::write_for_folder(self.workspace, id, &originals, &mut lines)?);
        self.report.sessions += 1;
        Ok(())
    }

    /// Returns the full recipes of iterations whose long parameters are left out of `events`.
    fn recipes(&self, events: &[Event]) -> Result<Vec<(u32, Recipe)>, Error> {
        let mut recipes = Vec::new();
        for event in events {
            let EventBody::Recorded { index, iteration } = &event.body else { continue };
            if !iteration.recipe.parameters.is_empty() {
                continue;
            }
            let whole = self.workspace.log.event(event.session, event.seq, Detail::Full)?;
            if let Some(Event { body: EventBody::Recorded { iteration, .. }, .. }) = whole
                && !iteration.recipe.parameters.is_empty()
            {
                recipes.push((*index, iteration.recipe));
            }
        }
        Ok(recipes)
    }

    /// Writes the images of an iteration and returns their file names.
    fn pictures(
        &mut self,
        id: IterationId,
        state: &IterationState,
        recipe: &Recipe,
        dir: &Path,
        originals: &mut Vec<FileLine>,
    ) -> Result<Vec<String>, Error> {
        let images = &state.iteration.images;
        let mut names = Vec::new();
        for (number, image) in images.iter().enumerate().filter(|_| !self.omit_images) {
            let part = if images.len() > 1 { format!("-{}", number + 1) } else { String::new() };
            let name = format!("{:03}{part}.{}", id.index, ending(&image.mime_type));
            match self.workspace.picture(image) {
                Ok(bytes) => {
                    let signed = signed(&bytes, id, recipe);
                    fs::write(dir.join(&name), &signed).map_err(Error::Export)?;
                    self.report.images += 1;
                    let pieces = patch::patch(&signed, &bytes);
                    originals.push(FileLine { name: name.clone(), hash: image.hash, pieces });
                    names.push(name);
                }
                Err(error) => self.report.problems.push(format!("{id}: image {} is left out: {error}", image.hash)),
            }
        }
        Ok(names)
    }

    /// Draws contact sheets of the session's images.
    fn sheets(&self, session: &Session, dir: &Path) -> Result<Vec<String>, Error> {
        let panels: Vec<Panel> =
            session.iterations.iter().map(|(index, state)| panel(session, *index, state)).collect();
        let mut names = Vec::new();
        for (number, panels) in (1..).zip(panels.chunks(ON_A_SHEET)) {
            let name = if number == 1 { "contact-sheet.png".to_owned() } else { format!("contact-sheet-{number}.png") };
            let sheet = self.workspace.images.render(Render::Sheet, panels);
            fs::write(dir.join(&name), sheet.png()).map_err(Error::Export)?;
            names.push(name);
        }
        Ok(names)
    }
}

fn panel(session: &Session, index: u32, state: &IterationState) -> Panel {
    let stars = state.annotation.rating.map(|rating| format!("  {}", story::stars(rating))).unwrap_or_default();
    let what = story::step(&session.iterations, state).map(|diff| diff.summary);
    let prompt = || state.iteration.recipe.prompt.split_whitespace().collect::<Vec<_>>().join(" ");
    Panel {
        image: state.iteration.images.first().map(|image| image.hash),
        absent: None,
        title: format!("#{index}{stars}"),
        lines: vec![what.unwrap_or_else(prompt)],
    }
}

impl Workspace {
    /// Returns the bytes of an image after verifying its hash.
    fn picture(&self, image: &ImageRef) -> io::Result<Vec<u8>> {
        self.images.remember(image);
        self.images.get(image.hash)
    }
}

/// Returns the image with its reference and its recipe (as A1111 parameters) embedded, or unchanged if its format
/// cannot hold them. Pixels and an existing parameters text are preserved.
fn signed(bytes: &[u8], id: IterationId, recipe: &Recipe) -> Vec<u8> {
    let reference = id.to_string();
    let reading = metadata::read(bytes);
    let known = reading.raw.into_iter().filter(|_| reading.generator.is_some());
    let there = known
        .map(|raw| (raw.key, raw.text))
        .find(|(key, text)| [RECIPE_KEY, "UserComment"].contains(&key.as_str()) && !text.trim_start().starts_with('{'));
    let text = there.map_or_else(|| metadata::a1111_text(recipe), |(_, text)| text);
    let texts = [(RECIPE_KEY, text.as_str()), (REFERENCE_KEY, reference.as_str())];
    // Only PNG distinguishes texts by keyword; in other formats the first text would be read as a recipe.
    let texts = match text.is_empty() {
        true if bytes.starts_with(b"\x89PNG") => texts.get(1..).unwrap_or_default(),
        true => return bytes.to_vec(),
        false => &texts,
    };
    metadata::embed(bytes, texts).unwrap_or_else(|_| bytes.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_grows_beside_its_place() {
        let part = part_of(Path::new("/tmp/out"));
        assert_eq!(part.parent(), Some(Path::new("/tmp")));
        assert!(part.to_string_lossy().ends_with(".part"));
    }
}
