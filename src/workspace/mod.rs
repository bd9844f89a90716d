//! The use cases of a workspace, with typed values in and out.
//!
//! Reading: [`Workspace::resolve`] and its neighbours in `read.rs` (one iteration or a whole session), `listing.rs`,
//! `search.rs`, `compare.rs`, `resume.rs`, `story.rs` and `lineage.rs`, `audit.rs`, `projects.rs`, `image.rs`, and for
//! the gallery `overview.rs`, `cover.rs` and `strip.rs`. Writing: `record.rs`, `annotate.rs` with `image_rating.rs`,
//! `naming.rs` and `archive.rs`, which share `writing.rs`. Maintenance: `status.rs`, `verify.rs`, `thumbnails.rs`. All
//! failures are one [`Error`].
//!
//! Absent here: JSON, size limits of replies, cursors, URIs, tool names, flags, printing, sockets and async. The time
//! of day is injected as a [`Clock`].

mod annotate;
mod archive;
mod audit;
mod call_context;
mod compare;
mod costs;
mod cover;
mod error;
mod image;
mod image_rating;
mod image_source;
pub(crate) mod lineage;
mod listing;
mod naming;
mod overview;
mod projects;
mod read;
mod record;
mod resume;
mod search;
mod session;
mod status;
mod story;
mod strip;
mod thumbnails;
pub(crate) mod user;
mod verify;
mod writing;

pub use annotate::Annotating;
pub use audit::{ImageCheck, SessionTrail};
pub use call_context::CallContext;
pub use compare::{Comparison, Difference};
pub use cover::{COVER_TAG, Cover, Take};
pub use error::{Error, ImageProblem};
pub use image::{ImageWarning, OpenVideo, Original};
pub use image_rating::{image_rating, is_image_rating, rated_image};
pub use image_source::{ImageSource, OpenedImage};
pub use listing::{SessionFilter, Sessions};
pub use naming::Naming;
pub use overview::{Overview, ProjectTally, Selection};
pub use projects::Project;
pub use record::Recording;
pub use resume::{Branch, Earlier, Liked, Resumption};
pub use search::{Search, SearchHit, SearchPage, SearchResults, SimilarTo};
pub use session::{IterationHandle, NewSession, SessionHandle};
#[cfg(feature = "cli")]
pub(crate) use status::format_version;
pub use status::{Sizes, WorkspaceStatus};
pub use story::Step;
pub use strip::{Mark, REJECTED_TAG, Strip, StripImage, StripStep};
pub use thumbnails::{Thumbnails, ThumbnailsReport, UnavailableImage};
pub use verify::{RepairReport, VerifyReport};

pub use crate::sharing::{Change, EventSummary, Lifetime, OnWait, OwnerInfo, WaitNotice, claimed_owner};
pub use crate::store::{Clock, Progress, Recovery};

pub(crate) use audit::ImageState;
#[cfg(feature = "mcp")]
pub(crate) use image_source::check_all as check_images;
pub(crate) use listing::place;
pub(crate) use story::step_label;
#[cfg(feature = "web")]
pub(crate) use strip::subject;
pub(crate) use verify::lost_of;
pub(crate) use writing::{Author, truncate};

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use crate::disk::Disk;
use crate::images::Images;
use crate::model::{Actor, Timestamp};
use crate::scrub::{Pace, Scrub};
use crate::search::extension as search_index;
use crate::sharing::{Extension, Participation, SharedLog};
use crate::store;

/// The options for opening a workspace.
#[derive(Clone)]
pub struct Options {
    /// The clock; by default the system's.
    pub clock: Clock,
    /// The default actor of writes; by default this library and the user of the process.
    pub actor: Actor,
    /// The callback for the progress of long work: recovery, verify, repair, export, import.
    pub progress: Option<Progress>,
    /// Whether this process opens the workspace for one request or keeps it open.
    pub lifetime: Lifetime,
    /// The callback while the owner of the workspace does not respond.
    pub on_wait: Option<OnWait>,
    /// How long the process that owns the workspace may be silent before a call fails; half a minute by default.
    pub owner_timeout: Option<Duration>,
    /// The file system, which tests replace.
    #[doc(hidden)]
    pub disk: Disk,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            clock: Arc::new(Timestamp::now),
            actor: Actor { client: concat!("retake ", env!("CARGO_PKG_VERSION")).to_owned(), user: user::current() },
            progress: None,
            lifetime: Lifetime::OneShot,
            on_wait: None,
            owner_timeout: None,
            disk: Disk::default(),
        }
    }
}

/// An open workspace: one log and one image store.
///
/// Calls may come from any thread. Acknowledged writes are durable.
pub struct Workspace {
    pub(crate) log: SharedLog,
    pub(crate) images: Images,
    dir: PathBuf,
    clock: Clock,
    actor: Actor,
    progress: Option<Progress>,
    costs: costs::Costs,
    #[cfg(feature = "team")]
    pub(crate) team: Option<crate::team::TeamWorkspace>,
}

impl Workspace {
    /// Opens the workspace in `dir`, creating it if it does not exist and recovering it if it is damaged.
    pub fn open(dir: impl AsRef<Path>) -> Result<Workspace, Error> {
        Workspace::open_with(dir, Options::default())
    }

    /// Opens the workspace in `dir` with options. If another process has it open, that process serves the log.
    pub fn open_with(dir: impl AsRef<Path>, options: Options) -> Result<Workspace, Error> {
        let dir = dir.as_ref();
        let images = Images::new(options.disk.clone(), dir);
        let mut extensions = vec![search_index(dir)];
        if options.lifetime == Lifetime::LongRunning {
            extensions.push(Arc::new(Scrub::new(dir, images.clone(), options.clock.clone(), Pace::default())));
        }
        Workspace::assemble(dir, options, images, extensions, None)
    }

    /// Opens a team workspace: the log in PostgreSQL, originals where its settings say.
    #[cfg(feature = "team")]
    pub fn open_team(team: &crate::team::TeamWorkspace, options: Options) -> Result<Workspace, Error> {
        let dir = team.dir();
        team.prepare().map_err(|source| store::Error::Io {
            action: "create the directory".into(),
            path: dir.to_owned(),
            source,
        })?;
        let images = Images::new(options.disk.clone(), dir).kept_in(team.originals()?);
        let carrier = Some(team.open_log(options.clock.clone()));
        let workspace = Workspace::assemble(dir, options, images, vec![search_index(dir)], carrier)?;
        Ok(Workspace { team: Some(team.clone()), ..workspace })
    }

    fn assemble(
        dir: &Path,
        options: Options,
        images: Images,
        extensions: Vec<Arc<dyn Extension>>,
        carrier: Option<retake_log::OpenLog>,
    ) -> Result<Workspace, Error> {
        let Options { clock, actor, progress, lifetime, on_wait, owner_timeout, disk } = options;
        let usual = store::Options::new(clock.clone());
        let participation = Participation { lifetime, extensions, on_wait, owner_timeout, carrier };
        let log = SharedLog::open(dir, store::Options { progress: progress.clone(), disk, ..usual }, participation)?;
        Ok(Workspace {
            log,
            images,
            dir: dir.to_owned(),
            clock,
            actor,
            progress,
            costs: costs::Costs::default(),
            #[cfg(feature = "team")]
            team: None,
        })
    }

    /// Returns the directory of the workspace.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns a channel of future changes, made by any process. Requires a [long-running](Lifetime::LongRunning)
    /// workspace.
    pub fn follow(&self) -> Receiver<Change> {
        self.log.follow()
    }

    /// Returns the process that currently owns the workspace.
    pub fn owner(&self) -> Result<OwnerInfo, Error> {
        Ok(self.log.owner()?)
    }

    /// Closes the workspace and returns any error. Dropping it closes it too.
    pub fn close(self) -> Result<(), Error> {
        Ok(self.log.close()?)
    }

    pub(crate) fn report(&self, what: &str, done: u64, total: u64) {
        if let Some(progress) = &self.progress {
            progress(what, done, total);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_may_come_from_any_thread() {
        fn shared<T: Send + Sync>() {}
        shared::<Workspace>();
        shared::<Error>();
    }
}
