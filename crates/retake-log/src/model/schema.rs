//! JSON schemas of the values that are written as text.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use super::{ExactReference, IterationId, SessionId};

macro_rules! schema {
    ($type:ty, $name:literal, $schema:tt) => {
        impl JsonSchema for $type {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                $name.into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        }
    };
}

schema!(SessionId, "SessionId", {
    "type": "string",
    "pattern": "^session-[0-9]{4}-[0-9]{2}-[0-9]{2}-[0-9]{3,}$"
});
schema!(IterationId, "IterationId", {
    "type": "string",
    "pattern": "^session-[0-9]{4}-[0-9]{2}-[0-9]{2}-[0-9]{3,}#[0-9]+$"
});
schema!(ExactReference, "ExactReference", {
    "type": "string",
    "pattern": "^session-[0-9]{4}-[0-9]{2}-[0-9]{2}-[0-9]{3,}#[0-9]+(/[0-9]+)?$"
});
