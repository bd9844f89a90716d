//! Prompts, which people choose from a menu to make an agent resume earlier work or compare iterations; and completion
//! of their arguments and of resource templates.

use rmcp::model::{
    ArgumentInfo, CacheScope, CompleteRequestParams, CompleteResult, CompletionInfo, ErrorData, GetPromptResult,
    JsonObject, ListPromptsResult, Prompt, PromptArgument, PromptMessage, Reference, Resource, Role,
};
use serde_json::Value;

use super::address::Address;
use super::resources;
use super::server::FRESH_FOR_MS;
use crate::model::IterationId;
use crate::wire::tool::one_line;
use crate::wire::{Api, Error, ErrorKind, ListRequest};
use crate::workspace::{CallContext, Workspace};

/// Returns the prompts.
pub(super) fn list() -> ListPromptsResult {
    let argument = |name: &str, title: &str, description: &str, required: bool| {
        PromptArgument::new(name).with_title(title).with_description(description).with_required(required)
    };
    ListPromptsResult::with_all_items(vec![
        Prompt::new(
            "compare",
            Some("Put two iterations of any sessions side by side and say what made the difference"),
            Some(vec![
                argument("first", "First iteration", "A reference, such as session-2025-12-11-001#3 or latest.", true),
                argument("second", "Second iteration", "The one to hold against it; without it: latest.", false),
            ]),
        )
        .with_title("Compare iterations"),
        Prompt::new(
            "resume",
            Some("Continue earlier image work where it stopped, with its whole recipe and how it got there"),
            Some(vec![argument(
                "reference",
                "From where",
                "A session or an iteration, such as session-2025-12-11-001; without it: the most recent active session.",
                false,
            )]),
        )
        .with_title("Resume a session"),
    ])
    .with_ttl_ms(FRESH_FOR_MS)
    .with_cache_scope(CacheScope::Public)
}

/// Returns a prompt with its arguments filled in. May block.
///
/// Only exact references are inserted, never recorded text, since the prompt speaks in the user's name.
pub(super) fn get(workspace: &Workspace, name: &str, arguments: &JsonObject) -> Result<GetPromptResult, ErrorData> {
    let known: &[&str] = match name {
        "compare" => &["first", "second"],
        "resume" => &["reference"],
        _ => {
            let why = format!("no prompt is called {:?}: there are compare and resume", one_line(name, 80));
            return Err(ErrorData::invalid_params(why, None));
        }
    };
    if let Some(unknown) = arguments.keys().find(|argument| !known.contains(&argument.as_str())) {
        let why = format!("{name} has no argument `{}`: it takes {}", one_line(unknown, 80), known.join(", "));
        return Err(ErrorData::invalid_params(why, None));
    }
    let resolve = |argument: &str| -> Result<Option<IterationId>, ErrorData> {
        let text = match arguments.get(argument) {
            None | Some(Value::Null) => return Ok(None),
            Some(Value::String(text)) => text.trim(),
            Some(_) => return Err(ErrorData::invalid_params(format!("`{argument}` is not a text"), None)),
        };
        if text.is_empty() {
            return Ok(None);
        }
        Api::new(workspace).resolve(text).map(Some).map_err(|error| resources::refused(&error))
    };
    if name == "compare" {
        let first = resolve("first")?
            .ok_or_else(|| ErrorData::invalid_params("compare needs `first`: a reference to an iteration", None))?;
        let second = match resolve("second")? {
            Some(second) => second,
            None => Api::new(workspace).resolve("latest").map_err(|error| resources::refused(&error))?,
        };
        return Ok(compare(first, second));
    }
    Ok(resume(resolve("reference")?))
}

/// Completes an argument. May block.
pub(super) fn complete(
    workspace: &Workspace,
    request: &CompleteRequestParams,
    context: &CallContext,
) -> Result<CompleteResult, ErrorData> {
    let ArgumentInfo { name, value, .. } = &request.argument;
    let found = match (&request.r#ref, name.as_str()) {
        (Reference::Prompt(prompt), "reference") if prompt.name == "resume" => references(workspace, value, context),
        (Reference::Prompt(prompt), "first" | "second") if prompt.name == "compare" => {
            references(workspace, value, context)
        }
        (Reference::Resource(resource), "id") if resource.uri.contains("{id}") => ids(workspace, value, context),
        (Reference::Resource(resource), "index") if resource.uri.contains("{index}") => {
            let given = request.context.as_ref().and_then(|context| context.arguments.as_ref());
            match given.and_then(|arguments| arguments.get("id")) {
                Some(id) => indexes(workspace, id, value).map(|found| found.map(|index| index.to_string())),
                None => Ok(CompletionMatches::default()),
            }
        }
        _ => Ok(CompletionMatches::default()),
    };
    // An incomplete session id has no iterations, which is not an error while it is being typed.
    let found = match found {
        Ok(found) => found,
        Err(error) if matches!(error.kind, ErrorKind::NotFound | ErrorKind::Invalid) => CompletionMatches::default(),
        Err(error) => return Err(resources::refused(&error)),
    };
    let has_more = found.total > found.values.len() as u64;
    let total = u32::try_from(found.total).ok();
    CompletionInfo::with_pagination(found.values, total, has_more)
        .map(CompleteResult::new)
        .map_err(|why| ErrorData::internal_error(why, None))
}

fn resume(from: Option<IterationId>) -> GetPromptResult {
    let call = match from {
        Some(from) => format!("resume-session with {{\"reference\": \"{from}\"}}"),
        None => "resume-session without arguments".to_owned(),
    };
    let text = format!(
        "Resume this image work. Call {call}. Tell me in a few lines where it stands: what the last picture was to \
         show, what changed on the way, which attempts were rated best, and which branches are open. Then ask what to \
         try next. When you generate, start from that recipe and call record-iteration after each attempt, with the \
         session's id as sessionId and the iteration you started from as parent."
    );
    let mut messages = vec![PromptMessage::new_text(Role::User, text)];
    messages.extend(from.map(link));
    GetPromptResult::new(messages).with_description("Continue earlier image work where it stopped")
}

fn compare(first: IterationId, second: IterationId) -> GetPromptResult {
    let text = format!(
        "Compare two attempts. Call compare-iterations with {{\"references\": [\"{first}\", \"{second}\"]}}. Say what \
         differs in the prompts and the parameters, what differs in the pictures, and which change most likely led to \
         which difference. Do not judge by taste: ask me which one is nearer to what I want, and record my answer with \
         annotate-iteration."
    );
    let messages = vec![PromptMessage::new_text(Role::User, text), link(first), link(second)];
    GetPromptResult::new(messages).with_description("Put two iterations side by side")
}

fn link(id: IterationId) -> PromptMessage {
    let resource = Resource::new(Address::Iteration(id).to_string(), id.to_string())
        .with_title(id.to_string())
        .with_mime_type("application/json");
    PromptMessage::new_resource_link(Role::User, resource)
}

/// The first hundred matching values, and the number of all matches.
struct CompletionMatches<T> {
    values: Vec<T>,
    total: u64,
}

impl<T> Default for CompletionMatches<T> {
    fn default() -> CompletionMatches<T> {
        CompletionMatches { values: Vec::new(), total: 0 }
    }
}

impl<T> CompletionMatches<T> {
    fn map<U>(self, show: impl FnMut(T) -> U) -> CompletionMatches<U> {
        CompletionMatches { values: self.values.into_iter().map(show).collect(), total: self.total }
    }
}

fn references(workspace: &Workspace, typed: &str, context: &CallContext) -> Result<CompletionMatches<String>, Error> {
    let typed = typed.trim();
    if let Some((session, index)) = typed.split_once('#') {
        let found = indexes(workspace, session, index)?;
        return Ok(found.map(|index| format!("{session}#{index}")));
    }
    let mut found = ids(workspace, typed, context)?;
    if "latest".starts_with(typed) && Api::new(workspace).resolve("latest").is_ok() {
        found.values.truncate(CompletionInfo::MAX_VALUES - 1);
        found.values.insert(0, "latest".to_owned());
        found.total += 1;
    }
    Ok(found)
}

/// Returns the sessions whose id, title or project contains the text, most recent first.
fn ids(workspace: &Workspace, typed: &str, context: &CallContext) -> Result<CompletionMatches<String>, Error> {
    let limit = u32::try_from(CompletionInfo::MAX_VALUES).ok();
    let query = Some(typed.trim().to_owned()).filter(|typed| !typed.is_empty());
    let list =
        Api::new(workspace).with_context(context).list(&ListRequest { limit, query, ..ListRequest::default() })?;
    let values = list.sessions.iter().map(|row| row.id().to_string()).collect();
    Ok(CompletionMatches { values, total: list.total_sessions })
}

/// Returns the indexes of a session that start with the text, newest first.
fn indexes(workspace: &Workspace, session: &str, typed: &str) -> Result<CompletionMatches<u32>, Error> {
    let row = Api::new(workspace).session(session)?;
    let fits = (0..=row.current_iteration_index()).rev().filter(|index| index.to_string().starts_with(typed.trim()));
    let total = fits.clone().count() as u64;
    Ok(CompletionMatches { values: fits.take(CompletionInfo::MAX_VALUES).collect(), total })
}
