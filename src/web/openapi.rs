//! `/api/openapi.json`: the description of `/api`, generated from the tools' schemas, so that it is always up to date.

use std::sync::LazyLock;

use axum::Json;
use serde_json::{Map, Value, json};

use crate::wire::tool::ToolEntry;
use crate::wire::tools;

/// Handles `GET /api/openapi.json`.
pub(super) async fn document() -> Json<&'static Value> {
    static DOCUMENT: LazyLock<Value> = LazyLock::new(describe);
    Json(&*DOCUMENT)
}

fn describe() -> Value {
    let mut paths = Map::new();
    for entry in tools::all() {
        paths.insert(format!("/api/{}", entry.name), verb(entry));
    }
    for (path, what, of) in [
        ("/images/{hash}", "An image, byte for byte as it was recorded.", "image/*"),
        ("/thumbs/{hash}", "An image, at most 512 pixels on its longer side.", "image/jpeg"),
    ] {
        paths.insert(path.to_owned(), picture(path, what, of));
    }
    paths.insert(
        "/events".to_owned(),
        json!({ "get": {
            "operationId": "events",
            "summary": "What happens, as it happens",
            "description": "Server-sent events. `change`: something was recorded, annotated, renamed, archived or restored; its data \
                is {session, seq, at, kind, index}. `missed`: something may have been missed; ask again for what you show.",
            "responses": { "200": { "description": "Events.", "content": { "text/event-stream": {} } } },
        }}),
    );
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Retake",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "The verbs of Retake as JSON: the same requests and answers as the MCP tools of the same names and \
                the command line's --json. What only reads may be asked with GET and a query; everything with POST and JSON. \
                Lists come in pages: give nextCursor back as cursor.",
            "license": { "name": env!("CARGO_PKG_LICENSE") },
        },
        "servers": [{ "url": "/" }],
        "paths": paths,
        "components": {
            "schemas": { "Error": error() },
            "securitySchemes": { "token": {
                "type": "http",
                "scheme": "bearer",
                "description": "Only where `retake serve --token` was given.",
            }},
        },
        "security": [{}, { "token": [] }],
    })
}

fn verb(entry: &ToolEntry) -> Value {
    let mut answer = (*entry.output).clone();
    // Over HTTP, errors have their own status.
    if let Some(Value::Array(choices)) = answer.remove("anyOf")
        && let Some(required) = choices.first().and_then(|choice| choice.get("required"))
    {
        answer.insert("required".to_owned(), required.clone());
        if let Some(Value::Object(properties)) = answer.get_mut("properties") {
            properties.remove("error");
        }
    }
    let describe = |suffix: &str| {
        json!({
            "operationId": format!("{}{suffix}", entry.name),
            "summary": entry.title,
            "description": entry.description,
            "responses": responses(&answer),
        })
    };
    let mut post = describe("");
    put(
        &mut post,
        "requestBody",
        json!({
            "required": true,
            "content": { "application/json": { "schema": &*entry.input } },
        }),
    );
    let mut operations = json!({ "post": post });
    if entry.reads() {
        let mut get = describe("-by-query");
        put(&mut get, "parameters", parameters(&entry.input));
        put(&mut operations, "get", get);
    }
    operations
}

/// Returns the arguments as query parameters.
fn parameters(schema: &Map<String, Value>) -> Value {
    let required = schema.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    properties
        .map(|(name, schema)| {
            let mut parameter = json!({
                "name": name,
                "in": "query",
                "required": required.iter().any(|it| it == name),
                "schema": schema,
            });
            if schema.get("type").is_some_and(|kind| kind == "array") {
                put(&mut parameter, "style", json!("form"));
                put(&mut parameter, "explode", json!(false));
            }
            parameter
        })
        .collect()
}

fn responses(answer: &Map<String, Value>) -> Value {
    let failure = |what: &str| {
        json!({
            "description": what,
            "content": { "application/json": { "schema": { "$ref": "#/components/schemas/Error" } } },
        })
    };
    json!({
        "200": { "description": "The answer.", "content": { "application/json": { "schema": answer } } },
        "400": failure("The request is invalid; the hint explains how to correct it."),
        "401": failure("The token is missing or wrong."),
        "403": failure("The request comes from another origin, or for another host."),
        "404": failure("The session, iteration or tool does not exist."),
        "409": failure("Another client wrote first, or the session is archived."),
        "410": failure("It was lost to damage."),
        "413": failure("The request is too large."),
        "415": failure("The request is not JSON."),
        "500": failure("The disk or the database failed."),
        "503": failure("Too many at once, or another process has the workspace."),
    })
}

fn picture(path: &str, what: &str, of: &str) -> Value {
    json!({ "get": {
        "operationId": path.split('/').nth(1).unwrap_or_default(),
        "summary": what,
        "parameters": [{
            "name": "hash",
            "in": "path",
            "required": true,
            "schema": { "type": "string", "pattern": "^[0-9a-f]{64}$" },
        }],
        "responses": {
            "200": { "description": what, "content": { of: {} } },
            "304": { "description": "You have it already." },
            "404": { "description": "There is none of that hash." },
            "410": { "description": "Its file is missing or damaged." },
        },
    }})
}

fn error() -> Value {
    let outputs = tools::all().iter().map(|entry| &entry.output);
    let body = outputs.filter_map(|schema| schema.get("properties")?.get("error")).next();
    json!({ "type": "object", "required": ["error"], "properties": { "error": body.cloned().unwrap_or_default() } })
}

fn put(object: &mut Value, name: &str, value: Value) {
    if let Value::Object(object) = object {
        object.insert(name.to_owned(), value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_is_described() {
        let document = describe();
        for entry in tools::all() {
            let path = &document["paths"][format!("/api/{}", entry.name)];
            assert!(path["post"]["requestBody"]["content"]["application/json"]["schema"].is_object());
            assert_eq!(path["get"].is_object(), entry.reads(), "{}", entry.name);
        }
        let list = &document["paths"]["/api/list-sessions"]["get"];
        let answer = &list["responses"]["200"]["content"]["application/json"]["schema"];
        assert!(answer["required"].as_array().unwrap().contains(&json!("sessions")));
        assert!(answer["properties"].get("error").is_none());
        assert_eq!(
            document["components"]["schemas"]["Error"]["properties"]["error"]["properties"]["kind"]["type"],
            "string"
        );
    }
}
