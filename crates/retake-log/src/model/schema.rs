//! JSON schemas of values that are serialised as text.

use retake_recipe::inline_schema;

use super::{ExactReference, IterationId, SessionId};

inline_schema!(SessionId, "SessionId", {
    "type": "string",
    "pattern": "^session-[0-9]{4}-[0-9]{2}-[0-9]{2}-[0-9]{3,}$"
});
inline_schema!(IterationId, "IterationId", {
    "type": "string",
    "pattern": "^session-[0-9]{4}-[0-9]{2}-[0-9]{2}-[0-9]{3,}#[0-9]+$"
});
inline_schema!(ExactReference, "ExactReference", {
    "type": "string",
    "pattern": "^session-[0-9]{4}-[0-9]{2}-[0-9]{2}-[0-9]{3,}#[0-9]+(/[0-9]+)?$"
});
