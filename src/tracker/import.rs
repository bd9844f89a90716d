//! `import`: takes in what [`export`](Tracker::export) wrote: the same ids, times and hashes. Goes on past what is bad.

use std::io::BufRead;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Error, Tracker};

/// What an import came to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImportReport {
    /// Sessions that got something new.
    pub sessions: u64,
    /// Events that are new here.
    pub events: u64,
    /// Images that are new here.
    pub images: u64,
    /// Events that were here already.
    pub skipped: u64,
    /// What could not be taken in, at most 1000 of it.
    pub problems: Vec<ImportProblem>,
    /// How many more problems there were.
    pub problems_omitted: u64,
}

/// Something that could not be taken in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImportProblem {
    /// The line of the file, from 1.
    pub line: u64,
    /// Why.
    pub reason: String,
}

impl Tracker {
    /// Takes in an export, a session at a time. Importing twice changes nothing.
    pub fn import(&self, input: &mut dyn BufRead) -> Result<ImportReport, Error> {
        let _ = input;
        todo!()
    }
}
