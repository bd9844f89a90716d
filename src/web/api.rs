//! `/api/{tool}`: the tools of the registry as plain JSON. The request body is the tool's arguments and the response
//! its result; a failure is `{"error": …}` with a matching HTTP status.
//!
//! Read-only tools accept GET with a query string; all tools accept POST with JSON. Images are sent as bytes and never
//! as a path: no request can name a file on this machine.

use axum::Json;
use axum::body::{Bytes, to_bytes};
use axum::extract::{Path, Query, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value};

use super::guard::{MAX_REQUEST_BYTES, RequestMemory};
use super::reply::{Failed, refused, status};
use super::state::Gallery;
use crate::mcp::json;
use crate::wire::tool::{Call, FilePolicy, ToolEntry, error_view};
use crate::wire::{Api, Error, ErrorKind, ImageInput, tools};

/// Handles `GET /api/{tool}?…`.
pub(super) async fn get(
    State(gallery): State<Gallery>,
    Path(name): Path<String>,
    Query(query): Query<Vec<(String, String)>>,
) -> Result<Response, Failed> {
    let entry = find(&name)?;
    if !entry.reads() {
        return Ok(refused(
            StatusCode::METHOD_NOT_ALLOWED,
            &format!("{name} writes"),
            "send its arguments as JSON with POST",
        ));
    }
    call(&gallery, entry, Arguments::Parsed(from_query(entry, query))).await
}

/// Handles `POST /api/{tool}` with the arguments as JSON.
pub(super) async fn post(
    State(gallery): State<Gallery>,
    Path(name): Path<String>,
    request: Request,
) -> Result<Response, Failed> {
    let entry = find(&name)?;
    // Held until the response is ready, so that the memory of all requests together is bounded.
    let _memory = request.extensions().get::<RequestMemory>().cloned();
    let most = usize::try_from(MAX_REQUEST_BYTES).unwrap_or(usize::MAX);
    let body = match to_bytes(request.into_body(), most).await {
        Ok(body) => body,
        Err(error) => {
            return Ok(refused(
                StatusCode::PAYLOAD_TOO_LARGE,
                &format!("the request could not be read: {error}"),
                "send it again, smaller and at once",
            ));
        }
    };
    call(&gallery, entry, Arguments::Body(body)).await
}

/// The arguments of a call. They are parsed on the thread that executes it: a large body takes seconds, and the threads
/// that serve connections must not block.
enum Arguments {
    Parsed(Map<String, Value>),
    Body(Bytes),
}

impl Arguments {
    fn parse(self) -> Result<Map<String, Value>, Error> {
        let hint = "send the arguments as one JSON object; /api/openapi.json describes them";
        match self {
            Arguments::Parsed(arguments) => Ok(arguments),
            Arguments::Body(body) if body.is_empty() => Ok(Map::new()),
            Arguments::Body(body) if !json::has_bounded_values(&body) => {
                let message = format!("the request has more than {} values", json::MAX_VALUES);
                Err(Error::new(ErrorKind::Invalid, message, "send large parameters as text"))
            }
            Arguments::Body(body) => serde_json::from_slice(&body).map_err(|error| {
                Error::new(ErrorKind::Invalid, format!("the request is not a JSON object: {error}"), hint)
            }),
        }
    }
}

/// Returns the error for an unknown tool.
pub(super) fn no_such_verb() -> Failed {
    let names = tools::all().iter().map(|entry| entry.name).collect::<Vec<_>>().join(", ");
    Failed(Error::new(
        ErrorKind::NotFound,
        "unknown tool",
        format!("ask /api/NAME with one of {names}; /api/openapi.json describes them"),
    ))
}

async fn call(gallery: &Gallery, entry: &'static ToolEntry, arguments: Arguments) -> Result<Response, Failed> {
    let overview = gallery.overview();
    let replied = gallery.ask(move |workspace, actor| {
        let arguments = arguments.parse()?;
        let session = arguments.get("sessionId").and_then(Value::as_str).and_then(|id| id.parse().ok());
        let api = Api::new(workspace).by(actor);
        let reply = entry.call(Call { api, files: &NoFiles }, arguments);
        // The change notification may be delayed, and the next page should already show it.
        if let Some(session) = session.filter(|_| !entry.reads()) {
            overview.note_change(session);
        }
        Ok(reply)
    });
    Ok(match replied.await? {
        Ok(reply) => Json(reply.view).into_response(),
        Err(error) => (status(error.kind), Json(error_view(&error))).into_response(),
    })
}

/// Rejects file paths: a client that can reach the port is not necessarily the user whose files we can read.
struct NoFiles;

impl FilePolicy for NoFiles {
    fn open_files(&self, images: &mut [ImageInput]) -> Result<(), Error> {
        match images.iter().position(|image| !matches!(image, ImageInput::Data(_))) {
            None => Ok(()),
            Some(number) => Err(Error::new(
                ErrorKind::Invalid,
                format!("images[{number}] is a path, and no files are read over HTTP"),
                "send {\"data\": base64, \"mimeType\": …}, or record by path with `retake record` or `retake mcp`",
            )),
        }
    }
}

fn find(name: &str) -> Result<&'static ToolEntry, Failed> {
    tools::find(name).ok_or_else(no_such_verb)
}

/// Converts query parameters to arguments, with the types from the tool's schema.
fn from_query(entry: &ToolEntry, query: Vec<(String, String)>) -> Map<String, Value> {
    let mut arguments = Map::new();
    for (name, text) in query {
        let schema = entry.input.get("properties").and_then(|it| it.get(&name));
        let kind = schema.and_then(|schema| schema.get("type")).and_then(Value::as_str).unwrap_or_default();
        let value = match kind {
            "integer" | "number" | "boolean" => serde_json::from_str(&text).unwrap_or(Value::String(text)),
            "array" => {
                let mut all = arguments.get(&name).and_then(Value::as_array).cloned().unwrap_or_default();
                all.extend(text.split(',').map(|it| Value::String(it.to_owned())));
                Value::Array(all)
            }
            _ => Value::String(text),
        };
        arguments.insert(name, value);
    }
    arguments
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_query_becomes_typed_arguments() {
        let query = [("limit", "3"), ("status", "active"), ("project", "7")];
        let query = query.map(|(name, text)| (name.to_owned(), text.to_owned())).to_vec();
        let arguments = from_query(tools::find("list-sessions").unwrap(), query);
        assert_eq!(Value::Object(arguments), json!({ "limit": 3, "status": "active", "project": "7" }));
    }

    #[test]
    fn no_request_names_a_file() {
        let refused = |images: Value| {
            let mut images: Vec<ImageInput> = serde_json::from_value(images).unwrap();
            NoFiles.open_files(&mut images).is_err()
        };
        assert!(refused(json!(["/etc/passwd"])));
        assert!(refused(json!([{ "data": "aGk=" }, { "path": "/etc/passwd" }])));
        assert!(!refused(json!([{ "data": "aGk=", "mimeType": "image/png" }])));
    }
}
