//! What every tool is made of: words, a schema for each side, and a call of the tracker; and how arguments become a
//! request and what comes of it an answer.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rmcp::model::{self, CallToolResult, ContentBlock, JsonObject, ToolAnnotations};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::paths::Paths;
use super::schema;
use crate::model::Actor;
use crate::tracker::{CallContext, Error, ErrorKind, MAX_ANSWER_BYTES, Tracker};

/// A verb of the tracker, in the words an agent chooses it by.
pub(super) trait Tool {
    /// What it is called by.
    const NAME: &'static str;
    /// What people see.
    const TITLE: &'static str;
    /// What it does, when to use it and when another, what it changes, and its limits.
    const DESCRIPTION: &'static str;
    /// What it does to the workspace.
    const EFFECT: Effect;
    /// Its arguments.
    type Request: DeserializeOwned + JsonSchema;
    /// Its answer.
    type View: Serialize + JsonSchema;

    /// Does it. May block.
    fn call(call: &Call<'_>, request: Self::Request) -> Result<Reply<Self::View>, Error>;
}

/// One call of a tool: what it works with.
pub(crate) struct Call<'a> {
    /// The workspace.
    pub(crate) tracker: &'a Tracker,
    /// Who asks.
    pub(crate) actor: &'a Actor,
    /// Which files may be read for it.
    pub(crate) paths: &'a Paths,
    /// Who waits: told of progress when the client asked for that, and gone when it cancelled the call or went away.
    pub(crate) context: &'a CallContext,
}

/// What a tool does to the workspace. None ever deletes or replaces anything.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// Nothing.
    Reads,
    /// Adds something each time it is called.
    Adds,
    /// Adds something only when it is not so already.
    Settles,
}

/// What a tool answers.
pub(super) struct Reply<V> {
    /// The answer, as structured content and as text.
    pub(super) view: V,
    /// What goes beside it: pictures.
    pub(super) also: Vec<ContentBlock>,
}

impl<V> Reply<V> {
    /// The same answer with a picture beside it.
    #[must_use]
    pub(super) fn with_picture(mut self, bytes: &[u8], mime_type: &str) -> Reply<V> {
        self.also.push(ContentBlock::image(STANDARD.encode(bytes), mime_type));
        self
    }

    /// The same answer with a remark beside it: why a picture does not come along.
    #[must_use]
    pub(super) fn with_remark(mut self, text: impl Into<String>) -> Reply<V> {
        self.also.push(ContentBlock::text(text));
        self
    }
}

impl<V> From<V> for Reply<V> {
    fn from(view: V) -> Reply<V> {
        Reply { view, also: Vec::new() }
    }
}

/// A tool as the server keeps it.
pub(crate) struct Entry {
    /// What clients are told of it.
    pub(crate) definition: model::Tool,
    call: fn(&Entry, &Call<'_>, JsonObject) -> CallToolResult,
}

impl Entry {
    /// The entry of a tool.
    pub(super) fn of<T: Tool>() -> Entry {
        let annotations = ToolAnnotations::new()
            .read_only(T::EFFECT == Effect::Reads)
            .destructive(false)
            .idempotent(T::EFFECT != Effect::Adds)
            .open_world(false);
        let definition = model::Tool::new(T::NAME, T::DESCRIPTION, schema::input::<T::Request>())
            .with_title(T::TITLE)
            .with_raw_output_schema(schema::output::<T::View>())
            .with_annotations(annotations);
        Entry { definition, call: call::<T> }
    }

    /// Whether it only reads.
    pub(crate) fn reads(&self) -> bool {
        self.definition.annotations.as_ref().and_then(|it| it.read_only_hint).unwrap_or(false)
    }

    /// Does it. May block.
    pub(crate) fn call(&self, call: &Call<'_>, arguments: JsonObject) -> CallToolResult {
        (self.call)(self, call, arguments)
    }
}

/// The result of a call that failed, in a way that an agent can act on.
pub(super) fn failed(error: &Error) -> CallToolResult {
    if !error.causes.is_empty() {
        // The contract's error has no place for them, and they are for whoever looks after the machine.
        tracing::warn!(causes = ?error.causes, "{}", error.message);
    }
    let mut view = error.view();
    clip(&mut view.error.message);
    clip(&mut view.error.hint);
    CallToolResult::structured_error(serde_json::to_value(view).unwrap_or_default())
}

/// Cuts a text that quotes what we were given, which may be of any length.
pub(super) fn clip(text: &mut String) {
    if let Some((end, _)) = text.char_indices().nth(MAX_QUOTING_CHARS) {
        text.truncate(end);
        text.push('…');
    }
}

/// A text that someone else chose, as one line of at most that many characters.
pub(super) fn one_line(text: &str, most: usize) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let line: String = words.join(" ").chars().filter(|c| !c.is_control()).take(most).collect();
    line.trim().to_owned()
}

/// The most characters of a text that quotes the caller.
const MAX_QUOTING_CHARS: usize = 2000;

fn call<T: Tool>(entry: &Entry, call: &Call<'_>, arguments: JsonObject) -> CallToolResult {
    let reply = request(T::NAME, &entry.definition.input_schema, arguments)
        .and_then(|request| T::call(call, request))
        .and_then(|reply| match serde_json::to_value(&reply.view) {
            Ok(view) => Ok(Reply { view, also: reply.also }),
            Err(error) => Err(Error::new(
                ErrorKind::Internal,
                format!("the answer of {} cannot be written as JSON", T::NAME),
                "whatever was to be recorded is recorded; please report this with the request that led to it",
            )
            .caused_by(error)),
        });
    match reply {
        Ok(reply) => {
            let mut result = CallToolResult::structured(reply.view);
            let bytes = result.content.first().and_then(ContentBlock::as_text).map_or(0, |text| text.text.len());
            if bytes > MAX_ANSWER_BYTES {
                tracing::error!(tool = T::NAME, bytes, "an answer is longer than any may be");
                debug_assert!(bytes <= MAX_ANSWER_BYTES, "{} answers {bytes} bytes", T::NAME);
            }
            result.content.extend(reply.also);
            result
        }
        Err(error) => failed(&error),
    }
}

/// Reads the arguments, and names the one that is wrong.
fn request<R: DeserializeOwned>(tool: &str, schema: &JsonObject, mut arguments: JsonObject) -> Result<R, Error> {
    // Many clients write null for what they leave out.
    arguments.retain(|_, value| !value.is_null());
    let no_properties = JsonObject::new();
    let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&no_properties);
    if let Some(unknown) = arguments.keys().find(|name| !properties.contains_key(*name)) {
        let like = |name: &&String| unknown.len() < 2 * name.len() && spelt_alike(name, unknown);
        let hint = match properties.keys().find(like) {
            Some(meant) => format!("write `{meant}`"),
            None => {
                let names: Vec<&str> = properties.keys().map(String::as_str).collect();
                format!("leave it out; {tool} takes {}", names.join(", "))
            }
        };
        return Err(Error::new(ErrorKind::Invalid, format!("{tool} has no argument `{unknown}`"), hint));
    }
    let mut required = schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    if let Some(missing) = required.find(|name| !arguments.contains_key(*name)) {
        return Err(Error::new(ErrorKind::Invalid, format!("{tool} needs `{missing}`"), meaning(properties, missing)));
    }
    serde_path_to_error::deserialize(Value::Object(arguments)).map_err(|error| {
        let path = error.path().to_string();
        let name = path.split(['.', '[']).next().unwrap_or(&path);
        Error::new(ErrorKind::Invalid, format!("`{path}`: {}", error.inner()), meaning(properties, name))
    })
}

/// What an argument is for, in the words of the schema.
fn meaning(properties: &JsonObject, name: &str) -> String {
    let said = properties.get(name).and_then(|property| property.get("description")).and_then(Value::as_str);
    format!("`{name}`: {}", said.unwrap_or("see the input schema"))
}

/// Whether two names differ only in how their words are put together: `session_id` and `sessionId`.
fn spelt_alike(one: &str, other: &str) -> bool {
    let letters = |name: &str| name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_lowercase();
    letters(one) == letters(other)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tracker::{ListRequest, RecordRequest};

    fn refusal<R: DeserializeOwned + JsonSchema>(arguments: Value) -> (String, String) {
        let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
        let error = request::<R>("the-tool", &schema::input::<R>(), arguments).map(drop).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Invalid);
        (error.message, error.hint)
    }

    #[test]
    fn a_wrong_argument_is_named() {
        let (message, hint) = refusal::<RecordRequest>(json!({ "prompt": "a cat", "session_id": "x" }));
        assert_eq!((message.as_str(), hint.as_str()), ("the-tool has no argument `session_id`", "write `sessionId`"));
        let (message, hint) = refusal::<ListRequest>(json!({ "filter": "x" }));
        assert_eq!(message, "the-tool has no argument `filter`");
        assert_eq!(hint, "leave it out; the-tool takes status, limit, cursor, sort, project, query");
        let (message, hint) = refusal::<RecordRequest>(json!({ "prompt": null }));
        assert_eq!(message, "the-tool needs `prompt`");
        assert_eq!(hint, "`prompt`: The prompt exactly as it was typed.");
        for (arguments, path) in [
            (json!({ "prompt": "a cat", "steps": "thirty" }), "`steps`: "),
            (json!({ "prompt": "a cat", "seed": -1 }), "`seed`: "),
            (json!({ "prompt": "a cat", "loras": [{ "name": "a", "weight": 1 }, { "name": "b" }] }), "`loras[1]"),
            (json!({ "prompt": "a cat", "cost": { "amount": "free", "currency": "USD" } }), "`cost.amount`: "),
            (json!({ "prompt": "a cat", "images": [{ "file": "cat.png" }] }), "`images[0]`: an image is a path"),
            (json!({ "prompt": "a cat", "outcome": "done" }), "`outcome`: "),
            (json!({ "prompt": 7 }), "`prompt`: "),
        ] {
            let (message, hint) = refusal::<RecordRequest>(arguments);
            assert!(message.starts_with(path), "{message}");
            assert!(hint.starts_with(&path[..3]), "{hint}");
        }
    }

    #[test]
    fn what_others_chose_takes_one_short_line() {
        assert_eq!(one_line("claude-code 2.1.317", 120), "claude-code 2.1.317");
        assert_eq!(one_line(" a\n\u{1b}[31mb ", 120), "a [31mb");
        assert_eq!(one_line("  ", 120), "");
        assert_eq!(one_line(&"猫".repeat(500), 120).chars().count(), 120);
    }

    #[test]
    fn null_is_absent() {
        let arguments = json!({ "status": null, "limit": 3 });
        let read: ListRequest =
            request("list-sessions", &schema::input::<ListRequest>(), arguments.as_object().unwrap().clone()).unwrap();
        assert_eq!(read, ListRequest { limit: Some(3), ..ListRequest::default() });
    }

    #[test]
    fn every_kind_of_failure_has_the_contracts_shape() {
        for (kind, name) in [
            (ErrorKind::NotFound, "notFound"),
            (ErrorKind::Invalid, "invalid"),
            (ErrorKind::Conflict, "conflict"),
            (ErrorKind::Archived, "archived"),
            (ErrorKind::Busy, "busy"),
            (ErrorKind::Damaged, "damaged"),
            (ErrorKind::Internal, "internal"),
        ] {
            let result = failed(&Error::new(kind, "what", "do").caused_by("for the log only"));
            let text = &result.content.first().unwrap().as_text().unwrap().text;
            assert_eq!(*text, format!(r#"{{"error":{{"kind":"{name}","message":"what","hint":"do"}}}}"#));
            assert_eq!(result.structured_content.unwrap().to_string(), *text);
            assert_eq!(result.is_error, Some(true));
        }
    }

    #[test]
    fn a_failure_quotes_little() {
        let (message, _) = refusal::<ListRequest>(json!({ "猫".repeat(100_000): 1 }));
        let result = failed(&Error::new(ErrorKind::Invalid, message, "x".repeat(100_000)));
        assert!(result.content.first().unwrap().as_text().unwrap().text.len() < 10_000);
        assert_eq!(result.is_error, Some(true));
    }
}
