//! `export`: writes sessions for use elsewhere, in three forms: JSON lines that [`import`](Workspace::import) restores
//! exactly (`lines.rs`), a folder to share with people (`folder.rs`, its page in `story.rs`), and an audit bundle that
//! proves its own integrity (`bundle/`). `import` reads all three. Missing images are reported; everything else is
//! written.

mod bundle;
mod folder;
mod lines;
mod patch;
mod story;

use std::collections::BTreeSet;
use std::fs::File;
use std::io;

use serde::{Deserialize, Serialize};

use crate::model::{Hash, ImageRef, SessionId};

use crate::workspace::{Error, Workspace};

pub use bundle::{BundleView, verify_bundle};

pub(crate) use bundle::{BundleFiles, BundlePart};
pub(crate) use folder::SESSION_LINES;
pub(crate) use lines::{EventLine, PROGRAM, VERSION};
pub(crate) use patch::{Piece, apply};

/// What to export.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExportRequest {
    /// The sessions' ids; empty for all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub session_ids: Vec<SessionId>,
    /// Leaves out the images' bytes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub omit_images: bool,
}

/// What was exported.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExportReport {
    /// Sessions written.
    pub sessions: u64,
    /// Events written.
    pub events: u64,
    /// Images written.
    pub images: u64,
    /// Of a bundle: the hash that stands for all of it. Kept apart from the bundle, it proves later that nothing was replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seal: Option<Hash>,
    /// What could not be written, such as an image that is missing, each in one line.
    pub problems: Vec<String>,
}

impl Workspace {
    /// Returns the requested sessions, or all sessions if the request lists none. Fails if one does not exist.
    pub(crate) fn chosen(&self, request: &ExportRequest) -> Result<BTreeSet<SessionId>, Error> {
        let chosen: BTreeSet<SessionId> = request.session_ids.iter().copied().collect();
        for id in &chosen {
            self.head(*id)?;
        }
        Ok(chosen)
    }

    /// Calls `each` for every chosen session, ordered by day and number.
    pub(crate) fn each_chosen(
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

    /// Verifies an image and opens it for reading.
    pub(crate) fn open_image(&self, image: &ImageRef) -> io::Result<File> {
        self.images.remember(image);
        self.images.check(image.hash)?;
        File::open(self.images.path(image.hash))
    }
}

/// Returns the file extension for a media type, for people and for programs that rely on extensions.
pub(crate) fn ending(mime_type: &str) -> &'static str {
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
        "video/mp4" => "mp4",
        "video/quicktime" => "mov",
        "video/webm" => "webm",
        "video/x-matroska" => "mkv",
        _ => "bin",
    }
}
