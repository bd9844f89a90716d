//! Tool schemas in a form that every client understands.
//!
//! schemars generates correct JSON Schema that some clients cannot handle: `"format": "uint32"` makes JavaScript
//! validators warn; clients that expect a single `type` drop `["string", "null"]` and `oneOf` of constants; others drop
//! `$ref`. Therefore everything is inlined, optional properties are simply absent, and Rust type names are removed.

use std::sync::Arc;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::limits::MIN_REPLY_BYTES;
use super::tool::Effect;
use super::{DEFAULT_REPLY_BYTES, ErrorView, MAX_REPLY_BYTES};

/// Returns the schema of a tool's arguments.
pub(crate) fn input<T: JsonSchema>(effect: Effect) -> Arc<Map<String, Value>> {
    let mut schema = plain::<T>(JsonWriter::Input);
    // The tool has its own description.
    schema.remove("description");
    let properties = schema.entry("properties").or_insert_with(|| json!({}));
    if let (Effect::Reads, Value::Object(properties)) = (effect, properties) {
        properties.insert(
            "maxChars".to_owned(),
            json!({
                "description": format!("Maximum size of the reply in bytes, from {MIN_REPLY_BYTES} to {MAX_REPLY_BYTES} (default {DEFAULT_REPLY_BYTES})."),
                "type": "integer",
                "minimum": 1,
            }),
        );
    }
    Arc::new(schema)
}

/// Returns the schema of a tool's reply: its view, or the error it failed with.
///
/// Some clients validate the structured content of failures too, and would show an agent their own validation error
/// instead of our hint.
pub(crate) fn output<T: JsonSchema>() -> Arc<Map<String, Value>> {
    let mut schema = plain::<T>(JsonWriter::Output);
    schema.remove("description");
    let required = schema.remove("required").unwrap_or_else(|| json!([]));
    let mut failure = plain::<ErrorView>(JsonWriter::Output);
    if let (Some(Value::Object(view)), Some(Value::Object(error))) =
        (schema.get_mut("properties"), failure.remove("properties"))
    {
        view.extend(error);
    }
    schema.insert("anyOf".to_owned(), json!([{ "required": required }, { "required": ["error"] }]));
    Arc::new(schema)
}

/// The side that writes the JSON.
#[derive(Clone, Copy, PartialEq, Eq)]
enum JsonWriter {
    Input,
    Output,
}

/// Returns the values of an enum without fields, as they appear in JSON.
pub(crate) fn names<T: JsonSchema>() -> Vec<String> {
    let schema = plain::<T>(JsonWriter::Input);
    let names = schema.get("enum").and_then(Value::as_array).into_iter().flatten();
    names.filter_map(Value::as_str).map(str::to_owned).collect()
}

fn plain<T: JsonSchema>(side: JsonWriter) -> Map<String, Value> {
    let mut settings = SchemaSettings::draft2020_12();
    settings.inline_subschemas = true;
    settings.meta_schema = None;
    if side == JsonWriter::Output {
        settings = settings.for_serialize();
    }
    let mut schema = Value::from(settings.into_generator().into_root_schema_for::<T>());
    simplify(&mut schema, side);
    match schema {
        Value::Object(schema) => schema,
        _ => Map::new(),
    }
}

fn simplify(schema: &mut Value, side: JsonWriter) {
    if say_anything(schema) {
        return;
    }
    let Value::Object(node) = schema else { return };
    // This only removes the schema's title: a property named `title` is a key of `properties`, which is not a schema.
    node.remove("title");
    if let Some(Value::String(description)) = node.get_mut("description") {
        *description = description.replace('\n', " ");
    }
    if node.get("format").is_some_and(|format| format != "date-time") {
        node.remove("format");
    }
    split_types(node, side);
    if side == JsonWriter::Output {
        // The bounds and defaults of Rust types are irrelevant in a reply.
        for noise in ["minimum", "maximum", "default"] {
            node.remove(noise);
        }
    }
    for choice in ["anyOf", "oneOf"] {
        drop_null(node, choice);
    }
    constants_to_enum(node);
    allow_null(node);

    for key in ["properties", "$defs"] {
        if let Some(Value::Object(schemas)) = node.get_mut(key) {
            schemas.values_mut().for_each(|schema| simplify(schema, side));
        }
    }
    for key in ["anyOf", "oneOf", "allOf"] {
        if let Some(Value::Array(schemas)) = node.get_mut(key) {
            schemas.iter_mut().for_each(|schema| simplify(schema, side));
        }
    }
    if let Some(schema) = node.get_mut("items") {
        simplify(schema, side);
    }
    // In this position, `true` is the usual way to allow anything.
    if let Some(schema) = node.get_mut("additionalProperties").filter(|schema| schema.is_object()) {
        simplify(schema, side);
    }
}

/// Replaces a schema that allows anything by a list of types, since clients take `true` for a mistake. Returns `false`
/// if it is another schema.
fn say_anything(schema: &mut Value) -> bool {
    let described = match schema {
        Value::Bool(true) => None,
        Value::Object(node) if node.keys().all(|key| key == "description") => node.remove("description"),
        _ => return false,
    };
    let mut node = Map::from_iter(described.map(|words| ("description".to_owned(), words)));
    let types = ["string", "number", "boolean", "object", "array", "null"];
    node.insert("anyOf".to_owned(), types.iter().map(|name| json!({ "type": name })).collect());
    *schema = Value::Object(node);
    true
}

/// Splits a schema with several types: null means that the property is absent, and each other type gets its own schema.
fn split_types(node: &mut Map<String, Value>, side: JsonWriter) {
    let Some(Value::Array(types)) = node.get("type") else { return };
    let mut types: Vec<Value> = types.iter().filter(|name| *name != "null").cloned().collect();
    // A value that may be read as a number or a string (a seed) is always written as a string, so that no digit is
    // lost.
    if side == JsonWriter::Output && types.iter().any(|name| name == "string") {
        types = vec![json!("string")];
    }
    if let [one] = types.as_slice() {
        node.insert("type".to_owned(), one.clone());
        return;
    }
    node.remove("type");
    let pattern = node.remove("pattern");
    let minimum = node.remove("minimum");
    let choices = types.into_iter().map(|name| {
        let (keyword, value) = if name == "string" { ("pattern", &pattern) } else { ("minimum", &minimum) };
        let mut choice = Map::from_iter([("type".to_owned(), name)]);
        choice.extend(value.clone().map(|value| (keyword.to_owned(), value)));
        Value::Object(choice)
    });
    node.insert("anyOf".to_owned(), choices.collect());
}

/// Removes null from a choice, and the choice itself if only one is left.
fn drop_null(node: &mut Map<String, Value>, choice: &str) {
    let Some(Value::Array(choices)) = node.get_mut(choice) else { return };
    choices.retain(|schema| schema.get("type").is_none_or(|name| name != "null"));
    if choices.len() != 1 {
        return;
    }
    if let Some(Value::Object(only)) = choices.pop() {
        node.remove(choice);
        for (key, value) in only {
            // The description of the property is more specific than that of its type.
            node.entry(key).or_insert(value);
        }
    }
}

/// Replaces `oneOf` of constants, which schemars generates for an enum with documented variants, by `enum`.
fn constants_to_enum(node: &mut Map<String, Value>) {
    let Some(Value::Array(choices)) = node.get("oneOf") else { return };
    let names: Option<Vec<Value>> = choices.iter().map(|choice| choice.get("const").cloned()).collect();
    if let Some(names) = names {
        node.remove("oneOf");
        node.insert("type".to_owned(), json!("string"));
        node.insert("enum".to_owned(), Value::Array(names));
    }
}

/// Allows null for properties in which it has a meaning. Only those are `nullable`; for the others, null means absent.
fn allow_null(node: &mut Map<String, Value>) {
    if node.remove("nullable") != Some(Value::Bool(true)) {
        return;
    }
    let description = node.remove("description");
    let value = Value::Object(std::mem::take(node));
    node.extend(description.map(|words| ("description".to_owned(), words)));
    node.insert("anyOf".to_owned(), json!([value, { "type": "null" }]));
}

/// Returns whether null has a meaning as the value of a property with this schema.
pub(crate) fn allows_null(schema: &Value) -> bool {
    let choices = schema.get("anyOf").and_then(Value::as_array);
    choices.is_some_and(|choices| choices.iter().any(|choice| choice.get("type").is_some_and(|name| name == "null")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{OutcomeStatus, Seed};
    use crate::wire::RecordRequest;

    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema is looked at")]
    struct Sample {
        /// How
        /// many.
        count: Option<u32>,
        /// The result.
        outcome: Option<OutcomeStatus>,
        seed: Option<Seed>,
        title: String,
    }

    #[test]
    fn schemas_avoid_what_clients_do_not_support() {
        let schema = Value::Object(plain::<Sample>(JsonWriter::Input));
        assert_eq!(
            schema,
            json!({
                "type": "object",
                "properties": {
                    "count": { "description": "How many.", "type": "integer", "minimum": 0 },
                    "outcome": {
                        "description": "The result.",
                        "type": "string",
                        "enum": ["succeeded", "failed", "refused"]
                    },
                    "seed": {
                        "anyOf": [{ "type": "string", "pattern": "^[0-9]+$" }, { "type": "integer", "minimum": 0 }]
                    },
                    "title": { "type": "string" }
                },
                "required": ["title"]
            })
        );
        let written = plain::<Sample>(JsonWriter::Output);
        assert_eq!(written["properties"]["seed"], json!({ "type": "string", "pattern": "^[0-9]+$" }));
    }

    #[test]
    fn a_failure_fits_the_output_schema_too() {
        let schema = output::<Sample>();
        assert_eq!(schema["type"], "object");
        assert!(schema["properties"]["error"]["properties"].get("hint").is_some());
        assert_eq!(schema["anyOf"][1], json!({ "required": ["error"] }));
    }

    #[test]
    fn inputs_refuse_unknown_fields() {
        assert_eq!(input::<RecordRequest>(Effect::Adds)["additionalProperties"], false);
    }
}
