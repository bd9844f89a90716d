//! JSON schemas of values that are serialised as text.

use super::{Hash, Seed, Timestamp};

/// Implements `JsonSchema` for a type, with a schema that is inlined wherever the type occurs. For Retake's own crates,
/// which depend on `schemars`.
#[doc(hidden)]
#[macro_export]
macro_rules! inline_schema {
    ($type:ty, $name:literal, $schema:tt) => {
        impl schemars::JsonSchema for $type {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                $name.into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!($schema)
            }
        }
    };
}

inline_schema!(Timestamp, "Timestamp", { "type": "string", "format": "date-time" });
inline_schema!(Hash, "Hash", { "type": "string", "pattern": "^[0-9a-f]{64}$" });
// Deserialised from either, because most callers have a number; serialised as a string, because JavaScript rounds above
// 2^53.
inline_schema!(Seed, "Seed", { "type": ["string", "integer"], "pattern": "^[0-9]+$", "minimum": 0 });
