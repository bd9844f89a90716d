//! `export`: sessions as JSON lines that people can read and [`import`](Tracker::import) gives back exactly.

use std::io::Write;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Error, Tracker};

/// What to export.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExportRequest {
    /// The sessions' ids; empty for all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub session_ids: Vec<String>,
    /// Leaves out the images' bytes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub omit_images: bool,
}

/// What was exported.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExportReport {
    /// Sessions written.
    pub sessions: u64,
    /// Events written.
    pub events: u64,
    /// Images written.
    pub images: u64,
    /// What could not be written, such as an image that is missing, each in one line.
    pub problems: Vec<String>,
}

impl Tracker {
    /// Writes sessions as JSON lines.
    pub fn export(&self, request: &ExportRequest, out: &mut dyn Write) -> Result<ExportReport, Error> {
        let _ = (request, out);
        todo!()
    }
}
