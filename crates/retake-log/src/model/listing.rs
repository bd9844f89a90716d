//! The filter and order of session listings, used by every layer and face.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The sessions that a listing or a search covers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Status {
    /// Active and archived sessions.
    #[default]
    All,
    /// Sessions that are not archived.
    Active,
    /// Archived sessions.
    Archived,
}

/// The order of a listing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Order {
    /// Most recently modified first.
    #[default]
    Recent,
    /// Least recently modified first.
    Oldest,
}
