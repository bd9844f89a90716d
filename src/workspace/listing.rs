//! Lists sessions, filtered and ordered.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use crate::model::{Order, SessionId, Status, Summary, Timestamp};
use crate::store::{RecencyKey, Recovery};

use super::{CallContext, Error, Workspace};

/// The filter and order of a listing. By default all sessions, most recently modified first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionFilter {
    /// Active, archived or all sessions.
    pub status: Status,
    /// The order.
    pub order: Order,
    /// A substring of the project's name, case-insensitive.
    pub project: Option<String>,
    /// A substring of the title, the project or the id, case-insensitive.
    pub query: Option<String>,
    /// The earliest time of the last modification.
    pub since: Option<Timestamp>,
    /// The latest time of the last modification.
    pub until: Option<Timestamp>,
}

/// An iterator over the sessions of a listing, read in chunks.
///
/// Sessions may change meanwhile: each session that is not modified appears exactly once; a modified one moves to the
/// recent end, as it would in a new listing.
pub struct Sessions<'a> {
    workspace: &'a Workspace,
    filter: Prepared,
    context: CallContext,
    after: Option<RecencyKey>,
    ahead: VecDeque<Arc<Summary>>,
    chunk: usize,
    examined: u64,
    exhausted: bool,
}

impl Workspace {
    /// Returns the matching sessions.
    pub fn sessions(&self, filter: &SessionFilter) -> Sessions<'_> {
        self.sessions_after(filter, None, CHUNK, CallContext::default())
    }

    /// Returns the matching sessions after a position in the order, reading `chunk` at a time.
    pub(crate) fn sessions_after(
        &self,
        filter: &SessionFilter,
        after: Option<RecencyKey>,
        chunk: usize,
        context: CallContext,
    ) -> Sessions<'_> {
        let filter = Prepared::new(filter);
        let chunk = if filter.is_selective() { chunk.max(CHUNK) } else { chunk.max(1) };
        let ahead = VecDeque::new();
        Sessions { workspace: self, filter, context, after, ahead, chunk, examined: 0, exhausted: false }
    }

    /// Counts the sessions with this status.
    pub fn count_sessions(&self, status: Status) -> Result<u64, Error> {
        let totals = self.log.totals()?;
        Ok(match status {
            Status::All => totals.sessions,
            Status::Active => totals.sessions.saturating_sub(totals.archived),
            Status::Archived => totals.archived,
        })
    }

    /// Returns the recoveries whose reports have not been acknowledged yet, oldest first.
    pub fn unread_recoveries(&self) -> Result<Vec<Recovery>, Error> {
        Ok(self.log.unread_recoveries()?)
    }

    /// Returns how many events of each session are lost, also after the report was acknowledged.
    pub fn losses(&self) -> Result<HashMap<SessionId, u64>, Error> {
        let losses = self.log.recoveries()?.into_iter().flat_map(|recovery| recovery.losses);
        let events: HashSet<(SessionId, u32)> = losses
            .filter_map(|loss| loss.session.map(|session| (session, loss.seqs)))
            .flat_map(|(session, seqs)| seqs.into_iter().map(move |seq| (session, seq)))
            .collect();
        let mut lost: HashMap<SessionId, u64> = HashMap::new();
        for (session, _) in events {
            *lost.entry(session).or_default() += 1;
        }
        Ok(lost)
    }
}

/// The number of summaries read at once if most of them may not match.
const CHUNK: usize = 512;

impl SessionFilter {
    /// Returns whether sessions must be examined one by one, rather than only by status.
    pub fn is_selective(&self) -> bool {
        Prepared::new(self).is_selective()
    }
}

impl Iterator for Sessions<'_> {
    type Item = Result<Arc<Summary>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            while let Some(summary) = self.ahead.pop_front() {
                if self.filter.matches(&summary) {
                    return Some(Ok(summary));
                }
            }
            if self.exhausted {
                return None;
            }
            if let Err(error) = self.read() {
                self.exhausted = true;
                return Some(Err(error));
            }
        }
    }
}

impl Sessions<'_> {
    fn read(&mut self) -> Result<(), Error> {
        if self.examined > 0 {
            self.context.step("searching sessions", self.examined, 0)?;
        }
        let page = self.workspace.log.page(self.filter.status, self.filter.order, self.after, self.chunk)?;
        self.examined += page.len() as u64;
        self.exhausted = page.len() < self.chunk;
        self.after = page.last().map(|last| place(last));
        self.ahead.extend(page);
        Ok(())
    }
}

/// Returns the position of a session in the order of recency.
pub(crate) fn place(summary: &Summary) -> RecencyKey {
    RecencyKey { modified: summary.last_modified_at, id: summary.id }
}

/// A filter whose texts are case-folded in advance.
struct Prepared {
    status: Status,
    order: Order,
    project: Option<String>,
    query: Option<String>,
    since: Option<Timestamp>,
    until: Option<Timestamp>,
}

impl Prepared {
    fn new(filter: &SessionFilter) -> Prepared {
        let fold = |text: &Option<String>| {
            text.as_deref().map(|text| text.trim().to_lowercase()).filter(|text| !text.is_empty())
        };
        let SessionFilter { status, order, project, query, since, until } = filter;
        Prepared {
            status: *status,
            order: *order,
            project: fold(project),
            query: fold(query),
            since: *since,
            until: *until,
        }
    }

    fn is_selective(&self) -> bool {
        self.project.is_some() || self.query.is_some() || self.since.is_some() || self.until.is_some()
    }

    fn matches(&self, summary: &Summary) -> bool {
        let contains = |text: Option<&str>, part: &str| text.is_some_and(|text| text.to_lowercase().contains(part));
        let project = summary.project.as_deref();
        let in_project = self.project.as_deref().is_none_or(|wanted| contains(project, wanted));
        let in_texts = self.query.as_deref().is_none_or(|query| {
            contains(summary.title.as_deref(), query) || contains(project, query) || id_text(summary.id).contains(query)
        });
        let modified = summary.last_modified_at;
        in_project
            && in_texts
            && self.since.is_none_or(|since| modified >= since)
            && self.until.is_none_or(|until| modified <= until)
    }
}

fn id_text(id: SessionId) -> String {
    id.to_string()
}
