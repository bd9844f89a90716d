//! `verify` as JSON: the findings, and what to do about them.

use serde::Serialize;

use crate::workspace::VerifyReport;

/// The findings of a verification.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct VerifyView {
    /// Whether no problem was found.
    pub whole: bool,
    /// The findings.
    #[serde(flatten)]
    pub report: VerifyReport,
    /// What to do about them; absent if no problem was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl From<VerifyReport> for VerifyView {
    fn from(report: VerifyReport) -> VerifyView {
        let hints = [
            (report.log_is_gone, "restore journal/ or db/ of this workspace from a backup, or import an export of it"),
            (report.log_damaged, "run `retake repair` to rebuild events and texts, and to see what is lost"),
            (
                report.stored_images_damaged,
                "import or record the image files again, or import an export that holds them",
            ),
            (
                report.linked_images_damaged,
                "import the folder that linked originals are in now, with or without --link",
            ),
        ];
        let hints: Vec<&str> = hints.iter().filter(|(applies, _)| *applies).map(|(_, hint)| *hint).collect();
        let hint = Some(hints.join("; ")).filter(|hint| !hint.is_empty());
        VerifyView { whole: report.is_whole(), report, hint }
    }
}
