//! *Continue with*: what to paste or run to continue from an iteration in common tools.

use axum::extract::{Path, State};
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use serde_json::Value;

use super::frame::{Broken, Wording};
use super::session_head::session_id;
use crate::images::metadata::a1111_text;
use crate::model::{IterationId, Recipe};
use crate::web::state::Gallery;
use crate::wire::{Api, Error, ErrorKind};

/// Handles `GET /sessions/{id}/{index}/a1111`: the full recipe in the form that can be pasted into A1111, Forge and
/// similar tools.
pub(super) async fn a1111(
    State(gallery): State<Gallery>,
    Path((id, index)): Path<(String, u32)>,
) -> Result<Response, Broken> {
    let read = gallery.ask(move |workspace, _| Ok(workspace.state(session_id(&id)?.iteration(index))?));
    let state = read.await?;
    Ok(([(CONTENT_TYPE, "text/plain; charset=utf-8")], a1111_text(&state.iteration.recipe)).into_response())
}

/// Handles `GET /sessions/{id}/{index}/workflow`: the ComfyUI graph as a file to open. The editor's graph if the image
/// contains it, otherwise the queued one.
pub(super) async fn workflow(
    State(gallery): State<Gallery>,
    Path((id, index)): Path<(String, u32)>,
) -> Result<Response, Broken> {
    let here = format!("/sessions/{id}/{index}");
    let file = format!("attachment; filename=\"{id}-{index}-workflow.json\"");
    let read = gallery.ask(move |workspace, _| {
        let reference = session_id(&id)?.iteration(index);
        let recipe = workspace.state(reference)?.iteration.recipe;
        // If the original is missing, only the graph embedded in it is unavailable.
        let embedded = Api::new(workspace).raw(&reference.to_string()).ok().and_then(|view| {
            let entry = view.raw.into_iter().find(|entry| entry.key.eq_ignore_ascii_case("workflow"))?;
            serde_json::from_str::<Value>(&entry.text).is_ok_and(|value| value.is_object()).then_some(entry.text)
        });
        Ok(embedded.or_else(|| graph(&recipe).map(|graph| serde_json::to_string_pretty(graph).unwrap_or_default())))
    });
    let Some(text) = read.await? else {
        let error = Error::new(ErrorKind::NotFound, "no workflow was recorded", "");
        let text = "Neither the recipe nor the file of this iteration holds a ComfyUI workflow.".to_owned();
        let ways = vec![(here, "Back to the iteration".to_owned())];
        return Err(Broken::worded(error, Wording { heading: "No workflow", text, ways }));
    };
    Ok(([(CONTENT_TYPE, "application/json".to_owned()), (CONTENT_DISPOSITION, file)], text).into_response())
}

/// Returns the ComfyUI graph in a recipe.
fn graph(recipe: &Recipe) -> Option<&Value> {
    ["workflow", "prompt"].iter().find_map(|key| recipe.parameters.get(*key).filter(|value| value.is_object()))
}

/// Returns whether there may be a workflow to download: parameters too large to be shown usually contain one.
pub(super) fn has_workflow(recipe: &Recipe, parameters_omitted: bool) -> bool {
    parameters_omitted || graph(recipe).is_some()
}

/// Renders the ways to continue from an iteration. An archived session is continued in a new session.
pub(super) fn ways(id: IterationId, archived: bool, workflow: bool) -> Markup {
    let path = format!("/sessions/{}/{}", id.session, id.index);
    let command = command(id, archived);
    let prompt = agent_prompt(id, archived);
    html! {
        div.ways {
            button type="button" data-do="copy" data-what="A1111 text" data-path={ (path) "/a1111" } {
                strong { "A1111 text" } span { "Paste into A1111, Forge or SD.Next" }
            }
            @if workflow {
                a.button href={ (path) "/workflow" } download={ (id.session) "-" (id.index) "-workflow.json" } {
                    strong { "ComfyUI workflow" } span { "A file to drop onto the canvas" }
                }
            }
            button type="button" data-do="copy" data-what="Command line" data-text=(command) {
                strong { "Command line" } span { "Record the next one with this recipe" }
            }
            button type="button" data-do="copy" data-what="Prompt for an agent" data-text=(prompt) {
                strong { "Prompt for an agent" } span { "Paste into a chat that has Retake" }
            }
        }
    }
}

/// Returns the command that records the next iteration. The user fills in the changed prompt and the new image.
pub(super) fn command(id: IterationId, archived: bool) -> String {
    let session = if archived { String::new() } else { format!(" --session {}", id.session) };
    format!("retake record{session} --like '{id}' --parent '{id}' --prompt 'NEW PROMPT' --image NEW.png")
}

/// Returns the prompt for an agent.
fn agent_prompt(id: IterationId, archived: bool) -> String {
    let place = if archived {
        "The session is archived: leave out sessionId, which starts a new one.".to_owned()
    } else {
        format!("Use sessionId \"{}\".", id.session)
    };
    format!(
        "Continue the image work recorded in Retake as {id}. First call resume-session with reference \"{id}\" and read \
         what was tried and liked. Suggest the next change, generate the image, then record it with record-iteration: \
         parent \"{id}\", like \"{id}\", and only the fields that changed. {place} Record failures and refusals too."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archived_session_is_continued_in_a_new_one() {
        let id: IterationId = "session-2025-12-11-001#3".parse().unwrap();
        assert_eq!(
            command(id, false),
            "retake record --session session-2025-12-11-001 --like 'session-2025-12-11-001#3' --parent \
             'session-2025-12-11-001#3' --prompt 'NEW PROMPT' --image NEW.png"
        );
        assert!(!command(id, true).contains("--session"));
        assert!(agent_prompt(id, true).contains("archived"));
    }
}
