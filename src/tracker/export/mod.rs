//! `export`: sessions for elsewhere. Three forms, one request: JSON lines that [`import`](Tracker::import) gives back
//! exactly (`lines.rs`), a folder that a person can send (`folder.rs`, its page in `story.rs`), and an audit bundle that
//! proves itself (`../bundle/`). What is missing is reported, and the rest written.

mod folder;
mod lines;
mod story;

use std::collections::BTreeSet;
use std::fs::File;
use std::io;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::{Hash, ImageRef, SessionId};

use super::{Error, ErrorKind, Tracker, lookup};

pub(super) use lines::{EventLine, PROGRAM, VERSION};

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
    /// Of a bundle: the hash that stands for all of it. Whoever keeps it apart can tell later that nothing was replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seal: Option<Hash>,
    /// What could not be written, such as an image that is missing, each in one line.
    pub problems: Vec<String>,
}

impl Tracker {
    /// The sessions that were asked for, which must exist; none named means all of them.
    pub(super) fn chosen(&self, request: &ExportRequest) -> Result<BTreeSet<SessionId>, Error> {
        let chosen = request.session_ids.iter().map(|id| lookup::session_id(id)).collect::<Result<BTreeSet<_>, _>>()?;
        for id in &chosen {
            self.head(*id)?;
        }
        Ok(chosen)
    }

    /// Shows `each` the chosen sessions, by day and number.
    pub(super) fn each_chosen(
        &self,
        chosen: &BTreeSet<SessionId>,
        mut each: impl FnMut(SessionId) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let total = if chosen.is_empty() { self.log.totals()?.sessions } else { chosen.len() as u64 };
        let mut done = 0;
        let mut counted = |id| {
            each(id)?;
            done += 1;
            self.report("exporting", done, total.max(done));
            Ok(())
        };
        if chosen.is_empty() { self.each_session(counted) } else { chosen.iter().copied().try_for_each(&mut counted) }
    }

    /// An image, checked and opened for reading.
    pub(super) fn open_image(&self, image: &ImageRef) -> io::Result<File> {
        self.images.remember(image);
        self.images.check(image.hash)?;
        File::open(self.images.path(image.hash))
    }
}

/// The export could not be written.
pub(super) fn unwritten(error: &io::Error) -> Error {
    use io::ErrorKind as Io;
    let hint = match error.kind() {
        Io::StorageFull | Io::QuotaExceeded | Io::FileTooLarge => {
            "free some space or export to another disk, then try again"
        }
        _ => "look at the cause, then export again: the workspace is not affected",
    };
    Error::new(ErrorKind::Internal, "cannot write the export", hint).caused_by(error)
}

/// The ending of a file of that media type: for people and programs that go by names.
pub(super) fn ending(mime_type: &str) -> &'static str {
    match mime_type {
        "image/png" => "png",
        "image/jpeg" => "jpg",
        "image/webp" => "webp",
        "image/gif" => "gif",
        "image/avif" => "avif",
        "image/heic" => "heic",
        "image/jxl" => "jxl",
        "image/tiff" => "tif",
        "image/bmp" => "bmp",
        "image/x-exr" => "exr",
        _ => "bin",
    }
}
