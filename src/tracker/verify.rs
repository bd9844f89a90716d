//! `verify` and `repair`: every byte of the workspace checked, and each copy rebuilt from the other.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::store::Recovery;

use super::{Error, Tracker};

/// What a check of the whole workspace found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VerifyView {
    /// Whether nothing is wrong.
    pub whole: bool,
    /// Sessions checked.
    pub sessions: u64,
    /// Events checked.
    pub events: u64,
    /// Bytes of journal read.
    pub journal_bytes: u64,
    /// Images checked.
    pub images: u64,
    /// What is wrong, each in one line that names what it concerns.
    pub problems: Vec<String>,
}

/// What a repair did.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RepairView {
    /// Whether anything was wrong and has been rebuilt.
    pub repaired: bool,
    /// What was found, what was done, and what is lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Value>")]
    pub recovery: Option<Recovery>,
}

impl Tracker {
    /// Checks every byte: both copies of every event, every long text, every image.
    pub fn verify(&self) -> Result<VerifyView, Error> {
        todo!()
    }

    /// Rebuilds what is wrong with the events, each copy from the other. Images are kept once and cannot be mended.
    pub fn repair(&self) -> Result<RepairView, Error> {
        todo!()
    }
}
