//! `import` as JSON: the report, with the error that ended it early.

use serde::Serialize;

use crate::import::FilesReport;

use super::{Error, ErrorBody};

/// The report of an import of files.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ImportView<'a> {
    /// The report.
    #[serde(flatten)]
    pub report: &'a FilesReport,
    /// The error that ended the import early. Importing again continues from there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped: Option<ErrorBody>,
}

impl<'a> ImportView<'a> {
    /// Creates the view of a report, with the error that ended the import early, if any.
    pub fn new(report: &'a FilesReport, stopped: Option<&Error>) -> ImportView<'a> {
        ImportView { report, stopped: stopped.map(|error| error.view().error) }
    }
}
