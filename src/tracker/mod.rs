//! The use cases: what can be asked of a workspace, one verb a file, in the words of the contract.
//!
//! Every verb takes a request and gives a view; both are plain values that go through JSON unchanged, so the command
//! line, the MCP server and the gallery differ in words only, and a verb can be asked of another process. What goes
//! wrong is one [`Error`] that says what happened, to which thing, and what to do.
//!
//! Never known here: how anything is printed, any protocol, sockets, async, the time of day other than through [`Clock`].

mod annotate;
mod archive;
mod audit;
mod bundle;
mod call_context;
mod compare;
mod cover;
mod cursor;
mod error;
mod excerpt;
mod export;
mod fit;
mod found;
mod get;
mod image;
mod import;
mod incoming;
mod iterations;
mod lineage;
mod list;
mod lookup;
mod projects;
mod raw;
mod record;
mod resume;
mod row;
mod search;
mod sight;
mod status;
mod story;
mod strip;
mod thumbnails;
mod verify;
mod visual;
mod watch;
mod writing;

pub use annotate::{AnnotateRequest, AnnotationView, AnnotationsView};
pub use archive::ArchiveRequest;
pub use audit::{AuditEvent, AuditRequest, AuditView, ChainFault, ChainView, ImageFault, ImagesCheck};
pub use bundle::{BundleView, verify_bundle};
pub use call_context::CallContext;
pub use compare::{CompareRequest, CompareView, ComparedIteration, Difference, LineageView, Render};
pub use cover::Cover;
pub use error::{Error, ErrorBody, ErrorKind, ErrorView};
pub use excerpt::{Excerpt, ExcerptField, ExcerptPart};
pub use export::{ExportReport, ExportRequest};
pub use fit::MAX_ANSWER_BYTES;
pub use found::{FoundPart, FoundSession};
pub use get::{GetRequest, IterationView, OutcomeView, RecipeView};
pub use image::{ImageBytes, ImageRequest, ImageView};
pub use import::{
    BroughtSession, FileProblem, FilesReport, FilesRequest, ImportProblem, ImportReport, PlannedIteration,
};
pub use incoming::{ImageData, ImageFile, ImageInput, OpenedImage};
pub use iterations::{IterationList, IterationRow, IterationsRequest, Metadata};
pub use list::{ListRequest, RecoveryNotice, SessionList, Sort, StatusFilter};
pub use projects::{ProjectList, ProjectRow};
pub use raw::{RawEntry, RawImage, RawPass, RawSource, RawView, raw_file};
pub use record::{RecordRequest, Recorded};
pub use resume::{EarlierSteps, LikedIteration, NextStep, OpenBranch, ResumeRequest, ResumeView};
pub use row::SessionRow;
pub use search::{FacetCount, FacetsView, FoundIteration, SearchRequest, SearchSort, SearchView};
pub use sight::Original;
pub use status::{Sizes, StatusView};
pub use story::{StoryRequest, StoryStep, StoryView};
pub use strip::{Step, StripView};
pub use thumbnails::{Thumbnails, ThumbnailsView, UnavailableImage};
pub use verify::{RepairView, VerifyView};
pub use visual::{BoxView, VisualView};
pub use watch::{Sighting, WatchedIteration};

pub use crate::images::metadata::a1111_text;
pub use crate::images::{MAX_THUMB_BYTES, Rendering, ThumbSide};
pub use crate::sharing::{Change, EventSummary, Lifetime, OnWait, OwnerInfo, WaitNotice, claimed_owner};
pub use crate::store::{Clock, Progress, Recovery};

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use crate::disk::Disk;
use crate::images::Images;
use crate::model::Timestamp;
use crate::scrub::{Pace, Scrub};
use crate::search::extension as search_index;
use crate::sharing::{Participation, SharedLog};
use crate::store;

/// How to open a workspace.
#[derive(Clone)]
pub struct Options {
    /// The time of everything that is recorded.
    pub clock: Clock,
    /// Told how far long work has come: opening after damage, verify, repair, export, import.
    pub progress: Option<Progress>,
    /// The file system.
    pub disk: Disk,
    /// For how long this process takes part in the workspace.
    pub stay: Lifetime,
    /// Called while the process that owns the workspace does not answer.
    pub on_wait: Option<OnWait>,
}

impl Default for Options {
    /// The system's clock and disk, nobody told of progress, and gone after a request.
    fn default() -> Options {
        Options {
            clock: Arc::new(|| Timestamp::from(chrono::Utc::now())),
            progress: None,
            disk: Disk::default(),
            stay: Lifetime::OneShot,
            on_wait: None,
        }
    }
}

/// An open workspace. Every call may come from any thread; what a writing verb acknowledged is on the disk.
pub struct Tracker {
    log: SharedLog,
    images: Images,
    workspace: PathBuf,
    clock: Clock,
    progress: Option<Progress>,
}

impl Tracker {
    /// Opens the workspace in `dir`: makes it when there is none, and recovers what is damaged. When another process has
    /// it open, that one carries out what is asked of the log.
    pub fn open(dir: &Path, options: Options) -> Result<Tracker, Error> {
        let Options { clock, progress, disk, stay, on_wait } = options;
        let images = Images::new(disk.clone(), dir);
        let usual = store::Options::new(clock.clone());
        let mut extensions = vec![search_index(dir)];
        if stay == Lifetime::LongRunning {
            extensions.push(Arc::new(Scrub::new(dir, images.clone(), clock.clone(), Pace::default())));
        }
        let participation = Participation { lifetime: stay, extensions, on_wait, carrier: None };
        let log = SharedLog::open(dir, store::Options { progress: progress.clone(), disk, ..usual }, participation)?;
        Ok(Tracker { log, images, workspace: dir.to_owned(), clock, progress })
    }

    /// Opens a team workspace: the log in PostgreSQL, originals where its settings say.
    pub fn open_team(team: &crate::team::TeamWorkspace, options: Options) -> Result<Tracker, Error> {
        let Options { clock, progress, disk, stay, on_wait } = options;
        let dir = team.dir();
        team.prepare().map_err(|error| error::disk_error("create the directory", dir, &error))?;
        let images = Images::new(disk.clone(), dir).kept_in(team.originals()?);
        let usual = store::Options::new(clock.clone());
        let carrier = Some(team.open_log(clock.clone()));
        let participation = Participation { lifetime: stay, extensions: vec![search_index(dir)], on_wait, carrier };
        let log = SharedLog::open(dir, store::Options { progress: progress.clone(), disk, ..usual }, participation)?;
        Ok(Tracker { log, images, workspace: dir.to_owned(), clock, progress })
    }

    /// The directory it is in.
    pub fn workspace(&self) -> &Path {
        &self.workspace
    }

    /// What happens from now on, whoever does it. Only heard by those who [stay](Lifetime::LongRunning).
    pub fn follow(&self) -> Receiver<Change> {
        self.log.follow()
    }

    /// The process that owns the workspace now.
    pub fn owner(&self) -> Result<OwnerInfo, Error> {
        Ok(self.log.owner()?)
    }

    /// Ends cleanly. Dropping does the same, silently.
    pub fn close(self) -> Result<(), Error> {
        Ok(self.log.close()?)
    }

    fn now(&self) -> Timestamp {
        (self.clock)()
    }

    fn report(&self, what: &str, done: u64, total: u64) {
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
        shared::<Tracker>();
        shared::<Error>();
    }
}
