//! The JSON surface: requests, views, schemas, cursors, size limits and the tool registry. Used by the MCP server, the
//! HTTP API and `--json`.
//!
//! [`Api`] has a method for each request: it parses ids and cursors, calls the [`Workspace`], and builds a view that
//! fits the maximum reply size. Each file holds one request with its view. `error.rs` words errors in the vocabulary of
//! a face, `limits.rs` truncates replies, and `tool.rs`, `tools/` and `schema.rs` define what agents see.

mod annotate;
mod archive;
mod audit;
mod audit_report;
mod compare;
mod cursor;
mod error;
mod excerpt;
mod get;
mod image;
mod image_input;
mod image_recipe;
mod import;
mod iterations;
mod limits;
mod list;
mod projects;
mod raw;
mod record;
mod resume;
mod row;
pub(crate) mod schema;
pub(crate) mod search;
mod spelling;
mod storage_words;
mod story;
pub(crate) mod tool;
pub(crate) mod tools;
mod update;
mod verify;
mod visual;
mod vocabulary;

pub use annotate::{AnnotateRequest, AnnotationView, AnnotationsView};
pub use archive::ArchiveRequest;
pub use audit::{AuditEvent, AuditRequest, AuditView, ChainFault, ChainView, ImageFault, ImagesCheck};
pub use audit_report::{AuditReport, AuditReportRequest, AuditedSession};
pub use compare::{CompareRequest, CompareView, ComparedIteration, DifferenceView, LineageView};
pub use error::{Error, ErrorBody, ErrorKind, ErrorView};
pub use excerpt::{Excerpt, ExcerptField, ExcerptPart};
pub use get::{GetRequest, IterationView, OutcomeView, RecipeView};
pub use image::{ImageBytes, ImageRequest, ImageView};
pub use image_input::{ImageData, ImageFile, ImageInput};
pub use import::ImportView;
pub use iterations::{IterationList, IterationRow, IterationsRequest, Metadata};
pub use limits::{DEFAULT_REPLY_BYTES, MAX_REPLY_BYTES};
pub use list::{ListRequest, RecoveryNotice, SessionList};
pub use projects::{ProjectList, ProjectRow};
pub use raw::{RawEntry, RawImage, RawPass, RawSource, RawView, raw_file};
pub use record::{RecordRequest, Recorded};
pub use resume::{EarlierSteps, LikedIteration, NextStep, OpenBranch, ResumeRequest, ResumeView};
pub use row::SessionRow;
pub use search::{FacetCount, FacetsView, FoundIteration, FoundSession, SearchRequest, SearchView};
pub use story::StoryStep;
pub use update::UpdateRequest;
pub use verify::VerifyView;

pub use crate::workspace::OpenedImage;
pub use visual::{BoxView, VisualView};
pub use vocabulary::{JsonVocabulary, Vocabulary};

use crate::model::{Actor, ExactReference, IterationId, Reference, SessionId, Summary};
use crate::workspace::{self, Author, CallContext, Workspace};

/// The JSON surface of a workspace.
///
/// By default, replies take at most [`DEFAULT_REPLY_BYTES`].
#[derive(Clone)]
pub struct Api<'a> {
    workspace: &'a Workspace,
    actor: Option<Actor>,
    context: CallContext,
    reply_bytes: usize,
    shows_paths: bool,
    marks_prompts: bool,
}

impl<'a> Api<'a> {
    /// Creates an API for a workspace.
    pub fn new(workspace: &'a Workspace) -> Api<'a> {
        Api {
            workspace,
            actor: None,
            context: workspace.context(),
            reply_bytes: DEFAULT_REPLY_BYTES,
            shows_paths: false,
            marks_prompts: false,
        }
    }

    /// Sets the actor of writes.
    #[must_use]
    pub fn by(self, actor: &Actor) -> Api<'a> {
        Api { actor: Some(actor.clone()), ..self }
    }

    /// Sets the context of long calls.
    #[must_use]
    pub fn with_context(self, context: &CallContext) -> Api<'a> {
        Api { context: context.clone(), ..self }
    }

    /// Sets the maximum size of a reply, at most [`MAX_REPLY_BYTES`].
    #[must_use]
    pub fn with_reply_bytes(self, bytes: usize) -> Api<'a> {
        Api { reply_bytes: bytes.clamp(limits::MIN_REPLY_BYTES, MAX_REPLY_BYTES), ..self }
    }

    /// Removes the size limit, for a face that lays out replies itself.
    #[must_use]
    pub fn unbounded(self) -> Api<'a> {
        Api { reply_bytes: usize::MAX, ..self }
    }

    /// Includes the paths of originals in replies, for a caller on this machine.
    #[must_use]
    pub fn showing_paths(self) -> Api<'a> {
        Api { shows_paths: true, ..self }
    }

    /// Marks matches also in prompts that are shown in full, for a face that prints them in colour.
    #[must_use]
    pub fn marking_prompts(self) -> Api<'a> {
        Api { marks_prompts: true, ..self }
    }

    /// Returns the workspace.
    pub fn workspace(&self) -> &'a Workspace {
        self.workspace
    }

    /// Returns the iteration that a reference identifies, or that contains the image it identifies.
    pub fn resolve(&self, reference: &str) -> Result<IterationId, Error> {
        Ok(self.workspace.resolve(parse_reference(reference)?)?)
    }

    /// Returns the iteration that a reference identifies, and the number of the image if it names one.
    pub fn resolve_exactly(&self, reference: &str) -> Result<ExactReference, Error> {
        Ok(self.workspace.resolve_exactly(parse_reference(reference)?)?)
    }

    /// Returns the row of one session.
    pub fn session(&self, id: &str) -> Result<SessionRow, Error> {
        self.row(&self.workspace.summary(self.session_id(id)?)?)
    }

    /// Returns the session that an id or `latest` identifies.
    pub fn session_id(&self, text: &str) -> Result<SessionId, Error> {
        match text {
            "latest" => Ok(self.workspace.resolve(Reference::LATEST)?.session),
            id => parse_session_id(id),
        }
    }

    /// Returns the row of a session with its cost.
    fn row(&self, summary: &Summary) -> Result<SessionRow, Error> {
        Ok(SessionRow::new(summary)?.with_cost(self.workspace.cost(summary.id)?))
    }

    fn author(&self, key: Option<&String>) -> Author {
        Author { actor: self.actor.clone(), key: key.cloned() }
    }
}

fn parse_reference(text: &str) -> Result<Reference, Error> {
    Ok(text.parse::<Reference>().map_err(workspace::Error::from)?)
}

fn parse_session_id(text: &str) -> Result<SessionId, Error> {
    Ok(text.parse::<SessionId>().map_err(workspace::Error::from)?)
}

fn is_zero<T: PartialEq + Default>(number: &T) -> bool {
    *number == T::default()
}
