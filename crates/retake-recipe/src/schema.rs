//! How the values that are written as text describe themselves in a JSON schema.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use super::{Hash, Seed, Timestamp};

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

schema!(Timestamp, "Timestamp", { "type": "string", "format": "date-time" });
schema!(Hash, "Hash", { "type": "string", "pattern": "^[0-9a-f]{64}$" });
// Read from either, because most callers have a number; written as a string, because JavaScript rounds above 2^53.
schema!(Seed, "Seed", { "type": ["string", "integer"], "pattern": "^[0-9]+$", "minimum": 0 });
