//! The definition of a tool: a name, a description by which an agent chooses it, schemas, and a call of the [`Api`].
//! Converts arguments to requests and views to replies.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::limits::{MAX_REPLY_BYTES, MIN_REPLY_BYTES};
use super::{Api, Error, ErrorKind, ErrorView, ImageInput, schema};

/// A tool.
pub(crate) trait Tool {
    /// Its name.
    const NAME: &'static str;
    /// Its display title.
    const TITLE: &'static str;
    /// A description: what it does, when to use it or another tool, what it changes, and its limits.
    const DESCRIPTION: &'static str;
    /// Its effect on the workspace.
    const EFFECT: Effect;
    /// The page that displays its reply in clients that support it.
    const VIEW: Option<&'static str> = None;
    /// Its arguments.
    type Request: DeserializeOwned + JsonSchema;
    /// Its reply.
    type View: Serialize + JsonSchema;

    /// Runs the tool. May block.
    fn call(call: &Call<'_>, request: Self::Request) -> Result<Reply<Self::View>, Error>;
}

/// One call of a tool.
pub(crate) struct Call<'a> {
    /// The workspace, on behalf of the caller.
    pub(crate) api: Api<'a>,
    /// The policy for the files that the caller may name.
    pub(crate) files: &'a dyn FilePolicy,
}

/// A policy for the files that a caller may name.
pub(crate) trait FilePolicy: Sync {
    /// Opens every path among these images, so that the file that was checked is the file that is read.
    fn open_files(&self, images: &mut [ImageInput]) -> Result<(), Error>;
}

/// The effect of a tool on the workspace. No tool ever deletes or replaces anything.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Changes nothing.
    Reads,
    /// Adds something each time it is called.
    Adds,
    /// Adds something only if it changes the state, so that repeating the call does nothing.
    Settles,
}

/// The reply of a tool.
pub(crate) struct Reply<V> {
    /// The reply itself.
    pub(crate) view: V,
    /// Attachments of the reply.
    pub(crate) attachments: Vec<Attachment>,
}

/// An attachment of a reply.
pub(crate) enum Attachment {
    /// An image.
    Image {
        /// The bytes of the image file.
        bytes: Vec<u8>,
        /// Its media type.
        mime_type: String,
    },
    /// A remark, such as why an image is not attached.
    Text(String),
    /// A link to an image that can be read as a resource.
    ImageLink {
        /// Its URI.
        uri: String,
        /// Its media type.
        mime_type: String,
        /// Its reference, for display.
        title: String,
        /// Its size in bytes; `None` if it is sent reduced.
        bytes: Option<u64>,
    },
}

impl<V> Reply<V> {
    /// Attaches an image.
    #[must_use]
    pub(crate) fn with_image(mut self, bytes: Vec<u8>, mime_type: &str) -> Reply<V> {
        self.attachments.push(Attachment::Image { bytes, mime_type: mime_type.to_owned() });
        self
    }

    /// Attaches a remark.
    #[must_use]
    pub(crate) fn with_remark(mut self, text: impl Into<String>) -> Reply<V> {
        self.attachments.push(Attachment::Text(text.into()));
        self
    }
}

impl<V> From<V> for Reply<V> {
    fn from(view: V) -> Reply<V> {
        Reply { view, attachments: Vec::new() }
    }
}

/// Runs a tool of any type with arguments in JSON.
type RunTool = fn(&ToolEntry, Call<'_>, Map<String, Value>) -> Result<Reply<Value>, Error>;

/// A tool in the registry.
pub(crate) struct ToolEntry {
    /// Its name.
    pub(crate) name: &'static str,
    /// Its display title.
    pub(crate) title: &'static str,
    /// Its description for agents.
    pub(crate) description: &'static str,
    /// Its effect on the workspace.
    pub(crate) effect: Effect,
    /// The page that displays its reply in clients that support it.
    pub(crate) view: Option<&'static str>,
    /// The schema of its arguments.
    pub(crate) input: Arc<Map<String, Value>>,
    /// The schema of its reply.
    pub(crate) output: Arc<Map<String, Value>>,
    call: RunTool,
}

impl ToolEntry {
    /// Creates the entry of a tool.
    pub(super) fn of<T: Tool>() -> ToolEntry {
        ToolEntry {
            name: T::NAME,
            title: T::TITLE,
            description: T::DESCRIPTION,
            effect: T::EFFECT,
            view: T::VIEW,
            input: schema::input::<T::Request>(T::EFFECT),
            output: schema::output::<T::View>(),
            call: call::<T>,
        }
    }

    /// Returns whether it is read-only.
    pub(crate) fn reads(&self) -> bool {
        self.effect == Effect::Reads
    }

    /// Runs the tool. May block.
    pub(crate) fn call(&self, call: Call<'_>, arguments: Map<String, Value>) -> Result<Reply<Value>, Error> {
        (self.call)(self, call, arguments)
    }
}

/// Returns the view of an error with long quotations truncated, and logs its causes, for which the JSON has no field.
pub(crate) fn error_view(error: &Error) -> ErrorView {
    if !error.causes.is_empty() {
        tracing::warn!(causes = ?error.causes, "{}", error.message);
    }
    let mut view = error.view();
    clip(&mut view.error.message);
    clip(&mut view.error.hint);
    view
}

/// Truncates a text that quotes the caller, which may be of any length.
pub(crate) fn clip(text: &mut String) {
    if let Some((end, _)) = text.char_indices().nth(MAX_QUOTING_CHARS) {
        text.truncate(end);
        text.push('…');
    }
}

/// Reduces a text to one line of at most `most` characters.
pub(crate) fn one_line(text: &str, most: usize) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let line: String = words.join(" ").chars().filter(|c| !c.is_control()).take(most).collect();
    line.trim().to_owned()
}

/// The maximum number of characters in a text that quotes the caller.
const MAX_QUOTING_CHARS: usize = 2000;

fn call<T: Tool>(entry: &ToolEntry, call: Call<'_>, mut arguments: Map<String, Value>) -> Result<Reply<Value>, Error> {
    let Call { mut api, files } = call;
    if T::EFFECT == Effect::Reads
        && let Some(bytes) = arguments.remove("maxChars").filter(|value| !value.is_null())
    {
        api = api.with_reply_bytes(max_chars(&bytes)?);
    }
    let request = request(T::NAME, &entry.input, arguments)?;
    let reply = T::call(&Call { api, files }, request)?;
    match serde_json::to_value(&reply.view) {
        Ok(view) => Ok(Reply { view, attachments: reply.attachments }),
        Err(error) => Err(Error::new(
            ErrorKind::Internal,
            format!("the reply of {} cannot be written as JSON", T::NAME),
            "what was to be recorded is recorded; report this with the request that led to it",
        )
        .caused_by(error)),
    }
}

fn max_chars(value: &Value) -> Result<usize, Error> {
    let number = retake_recipe::fields::whole::<u64, _>(value).ok().filter(|number| *number > 0);
    number.and_then(|number| usize::try_from(number).ok()).ok_or_else(|| {
        Error::new(
            ErrorKind::Invalid,
            format!("`maxChars`: {value} is not a size"),
            format!("pass a whole number from {MIN_REPLY_BYTES} to {MAX_REPLY_BYTES}, or leave it out"),
        )
    })
}

/// Deserialises the arguments. An error names the invalid one.
fn request<R: DeserializeOwned>(
    tool: &str,
    schema: &Map<String, Value>,
    mut arguments: Map<String, Value>,
) -> Result<R, Error> {
    let no_properties = Map::new();
    let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&no_properties);
    // Many clients send null for arguments they leave out.
    arguments.retain(|name, value| !value.is_null() || properties.get(name).is_some_and(schema::allows_null));
    if let Some(unknown) = arguments.keys().find(|name| !properties.contains_key(*name)) {
        let hint = unknown_hint(tool, properties, unknown);
        return Err(Error::new(ErrorKind::Invalid, format!("{tool} has no argument `{unknown}`"), hint));
    }
    if let Some((within, unknown)) = unknown_within(properties, &arguments) {
        let kept = if properties.contains_key("parameters") { ", or put it into `parameters`" } else { "" };
        let hint = format!("leave it out{kept}; {}", meaning(properties, within));
        return Err(Error::new(ErrorKind::Invalid, format!("`{within}` has no field `{unknown}`"), hint));
    }
    let mut required = schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    if let Some(missing) = required.find(|name| !arguments.contains_key(*name)) {
        return Err(Error::new(ErrorKind::Invalid, format!("{tool} needs `{missing}`"), meaning(properties, missing)));
    }
    serde_path_to_error::deserialize(Value::Object(arguments)).map_err(|error| {
        let path = error.path().to_string();
        let name = path.split(['.', '[']).next().unwrap_or(&path);
        let problem = without_rust(&error.inner().to_string());
        Error::new(ErrorKind::Invalid, format!("`{path}`: {problem}"), meaning(properties, name))
    })
}

/// Returns a suggestion for an unknown argument.
fn unknown_hint(tool: &str, properties: &Map<String, Value>, unknown: &str) -> String {
    let like = |name: &&String| unknown.len() < 2 * name.len() && spelt_alike(name, unknown);
    let other_name = || {
        // A long name cannot match, and comparing it would be slow.
        let unknown = Some(unknown).filter(|unknown| unknown.len() <= 40)?;
        let meant = OTHER_NAMES.iter().find(|(others, _)| others.iter().any(|other| spelt_alike(other, unknown)));
        meant.and_then(|(_, names)| names.iter().find(|name| properties.contains_key(**name)).copied())
    };
    if let Some(meant) = properties.keys().find(like).map(String::as_str).or_else(other_name) {
        return format!("write `{meant}`");
    }
    if properties.contains_key("parameters") {
        if JUDGEMENTS.contains(&unknown) {
            return "record it first, then judge it with annotate-iteration".to_owned();
        }
        return "put it into `parameters`, which keeps anything".to_owned();
    }
    let names: Vec<&str> = properties.keys().map(String::as_str).collect();
    format!("leave it out; {tool} takes {}", names.join(", "))
}

/// Names for annotations, which are not part of a recording.
const JUDGEMENTS: [&str; 6] = ["rating", "stars", "score", "tags", "tag", "note"];

/// Names that other programs use for our arguments. The first meaning that the tool supports is suggested.
const OTHER_NAMES: &[(&[&str], &[&str])] = &[
    (&["cfg", "cfgScale", "guidance", "scale"], &["guidanceScale"]),
    (&["negative", "uc"], &["negativePrompt"]),
    (&["checkpoint", "ckpt", "modelName"], &["model"]),
    (&["samplerName"], &["sampler"]),
    (&["denoisingStrength", "strength"], &["denoise"]),
    (&["numInferenceSteps", "numSteps"], &["steps"]),
    (&["image", "imagePath", "path", "file", "files", "output"], &["images"]),
    (&["lora"], &["loras"]),
    (&["text"], &["prompt", "query"]),
    (&["session", "id"], &["sessionId", "reference"]),
    (&["iteration", "iterationId", "ref", "sessionId"], &["reference", "references"]),
    (&["stars", "score"], &["rating"]),
    (&["error", "reason"], &["message"]),
    (&["duration", "durationMs"], &["generationTimeMs"]),
    (&["price"], &["cost"]),
];

/// Returns the first unknown field in an object argument, and the argument. Without this check, such a field would be
/// dropped silently.
fn unknown_within<'a>(
    properties: &Map<String, Value>,
    arguments: &'a Map<String, Value>,
) -> Option<(&'a str, &'a str)> {
    arguments.iter().find_map(|(name, value)| {
        let known = properties.get(name)?.get("properties")?.as_object()?;
        let unknown = value.as_object()?.keys().find(|field| !known.contains_key(*field))?;
        Some((name.as_str(), unknown.as_str()))
    })
}

/// Rewords serde's messages, which use Rust's type names.
fn without_rust(problem: &str) -> String {
    let Some((found, expected)) = problem.rsplit_once(", expected ") else { return problem.to_owned() };
    let expected = match expected {
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number from 0",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        "a sequence" => "a list",
        "a map" => "an object",
        "a string" | "a borrowed string" => "text",
        "a boolean" => "true or false",
        name if name.starts_with("struct ") => "an object",
        name if name.starts_with("enum ") => "one of the names in the schema",
        other => other,
    };
    let found = found
        .replace("unknown variant", "unknown value")
        .replace("invalid type: sequence", "a list")
        .replace("invalid type: map", "an object")
        .replace("invalid type: null", "null")
        .replace("invalid type: string", "the text")
        .replace("invalid type: floating point", "the number")
        .replace("invalid type: integer", "the number")
        .replace("invalid type: boolean", "the value")
        .replace("invalid value: integer", "the number")
        .replace("invalid value: floating point", "the number")
        .replace("invalid value: string", "the text");
    format!("{found}, expected {expected}")
}

/// Returns the description of an argument in the schema.
fn meaning(properties: &Map<String, Value>, name: &str) -> String {
    let description = properties.get(name).and_then(|property| property.get("description")).and_then(Value::as_str);
    format!("`{name}`: {}", description.unwrap_or("see the input schema"))
}

/// Returns whether two names differ only in how their words are joined, such as `session_id` and `sessionId`.
fn spelt_alike(one: &str, other: &str) -> bool {
    let letters = |name: &str| name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_lowercase();
    letters(one) == letters(other)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::wire::{ListRequest, RecordRequest};

    fn refusal<R: DeserializeOwned + JsonSchema>(arguments: Value) -> (String, String) {
        let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
        let error = request::<R>("the-tool", &schema::input::<R>(Effect::Adds), arguments).map(drop).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Invalid);
        (error.message, error.hint)
    }

    #[test]
    fn a_wrong_argument_is_named() {
        let (message, hint) = refusal::<RecordRequest>(json!({ "prompt": "a cat", "session_id": "x" }));
        assert_eq!((message.as_str(), hint.as_str()), ("the-tool has no argument `session_id`", "write `sessionId`"));
        let (message, hint) = refusal::<ListRequest>(json!({ "filter": "x" }));
        assert_eq!(message, "the-tool has no argument `filter`");
        assert_eq!(hint, "leave it out; the-tool takes status, limit, cursor, sort, project, query, since, until");
        let (message, hint) = refusal::<crate::wire::GetRequest>(json!({ "reference": null }));
        assert_eq!(message, "the-tool needs `reference`");
        assert!(hint.starts_with("`reference`: The iteration"), "{hint}");
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
    fn names_used_by_other_programs_are_suggested() {
        for (name, meant) in
            [("cfg", "guidanceScale"), ("cfg_scale", "guidanceScale"), ("checkpoint", "model"), ("image", "images")]
        {
            let (_, hint) = refusal::<RecordRequest>(json!({ "prompt": "a cat", name: 7 }));
            assert_eq!(hint, format!("write `{meant}`"), "{name}");
        }
        let (_, hint) = refusal::<RecordRequest>(json!({ "prompt": "a cat", "rating": 5 }));
        assert_eq!(hint, "record it first, then judge it with annotate-iteration");
        let (_, hint) = refusal::<RecordRequest>(json!({ "prompt": "a cat", "clipSkip": 2 }));
        assert_eq!(hint, "put it into `parameters`, which keeps anything");
        let (_, hint) = refusal::<crate::wire::GetRequest>(json!({ "sessionId": "x" }));
        assert_eq!(hint, "write `reference`");
        let cost = json!({ "amount": 1, "currency": "USD", "tokens": 5 });
        let (message, hint) = refusal::<RecordRequest>(json!({ "prompt": "a cat", "cost": cost }));
        assert_eq!(message, "`cost` has no field `tokens`");
        assert!(hint.starts_with("leave it out, or put it into `parameters`; `cost`: "), "{hint}");
    }

    #[test]
    fn no_message_contains_rust_terms() {
        for (arguments, expected) in [
            (json!({ "prompt": "a cat", "cost": 5 }), "`cost`: the number `5`, expected an object"),
            (json!({ "prompt": "a cat", "loras": "x" }), "`loras`: the text \"x\", expected a list"),
            (json!({ "prompt": "a cat", "parameters": [] }), "`parameters`: a list, expected an object"),
            (json!({ "prompt": 7 }), "`prompt`: the number `7`, expected text"),
            (
                json!({ "prompt": "a cat", "outcome": "ok" }),
                "`outcome`: unknown value `ok`, expected one of `succeeded`, `failed`, `refused`",
            ),
        ] {
            assert_eq!(refusal::<RecordRequest>(arguments).0, expected);
        }
    }

    #[test]
    fn a_name_becomes_one_short_line() {
        assert_eq!(one_line("claude-code 2.1.317", 120), "claude-code 2.1.317");
        assert_eq!(one_line(" a\n\u{1b}[31mb ", 120), "a [31mb");
        assert_eq!(one_line("  ", 120), "");
        assert_eq!(one_line(&"猫".repeat(500), 120).chars().count(), 120);
    }

    #[test]
    fn null_is_absent() {
        let arguments = json!({ "status": null, "limit": 3 });
        let read: ListRequest = request(
            "list-sessions",
            &schema::input::<ListRequest>(Effect::Reads),
            arguments.as_object().unwrap().clone(),
        )
        .unwrap();
        assert_eq!(read, ListRequest { limit: Some(3), ..ListRequest::default() });
    }

    #[test]
    fn null_is_kept_where_it_means_something() {
        let read = |arguments: Value| -> crate::wire::AnnotateRequest {
            let schema = schema::input::<crate::wire::AnnotateRequest>(Effect::Settles);
            request("annotate-iteration", &schema, arguments.as_object().unwrap().clone()).unwrap()
        };
        assert_eq!(read(json!({ "reference": "latest", "note": null })).rating, None);
        assert_eq!(read(json!({ "reference": "latest", "rating": null, "note": null })).rating, Some(0));
        assert_eq!(read(json!({ "reference": "latest", "rating": 4.0 })).rating, Some(4));
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
            let view = error_view(&Error::new(kind, "what", "do").caused_by("for the log only"));
            let text = serde_json::to_string(&view).unwrap();
            assert_eq!(text, format!(r#"{{"error":{{"kind":"{name}","message":"what","hint":"do"}}}}"#));
        }
    }

    #[test]
    fn a_failure_quotes_little() {
        let (message, _) = refusal::<ListRequest>(json!({ "猫".repeat(100_000): 1 }));
        let view = error_view(&Error::new(ErrorKind::Invalid, message, "x".repeat(100_000)));
        assert!(serde_json::to_string(&view).unwrap().len() < 10_000);
    }

    #[test]
    fn a_reply_size_is_a_positive_number() {
        assert_eq!((max_chars(&json!(30_000)).unwrap(), max_chars(&json!(30_000.0)).unwrap()), (30_000, 30_000));
        for value in [json!(0), json!(-1), json!("all"), json!(1.5)] {
            assert!(max_chars(&value).unwrap_err().message.contains("maxChars"), "{value}");
        }
    }
}
