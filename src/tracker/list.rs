//! `list`: the sessions, most recently modified first.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::{Summary, Timestamp};
use crate::store::{self, RecencyKey};

use super::fit::{self, Page};
use super::{CallContext, Error, SessionRow, Tracker, cursor};

/// Which sessions to list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ListRequest {
    /// Which sessions: `all` (the default), `active` or `archived`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<StatusFilter>,
    /// At most this many rows (default 200, at most 1000). A page may hold fewer; `nextCursor` says whether there are more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub limit: Option<u32>,
    /// `nextCursor` of the page before, with all other arguments unchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// `recent` (the default): last modified first. `oldest`: last modified last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sort: Option<Sort>,
    /// Only sessions of exactly this project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Only sessions whose title, project or id contains this text; upper and lower case are the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
}

/// Which sessions to show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum StatusFilter {
    /// All of them.
    #[default]
    All,
    /// Those not archived.
    Active,
    /// Those archived.
    Archived,
}

/// In which order to show them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Sort {
    /// Last modified first.
    #[default]
    Recent,
    /// Last modified last.
    Oldest,
}

/// A page of sessions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionList {
    /// The sessions, in the order asked for.
    pub sessions: Vec<SessionRow>,
    /// How many sessions match, on all pages together.
    pub total_sessions: u64,
    /// When this answer was given (UTC).
    pub timestamp: Timestamp,
    /// Present when there are more: give it back as `cursor`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
    /// Present when the workspace was damaged and nobody has read the report yet: tell the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery: Option<RecoveryNotice>,
}

/// What recoveries nobody has read about yet found and did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecoveryNotice {
    /// How many events are gone from every copy.
    pub lost_events: u64,
    /// What was set aside, as paths below the workspace.
    pub quarantined: Vec<String>,
    /// What happened, in a sentence or two.
    pub message: String,
}

impl Tracker {
    /// The sessions that match, a page at a time.
    ///
    /// A cursor keeps its place while sessions change: every session that is not modified in the meantime comes exactly
    /// once. One that is modified moves to the recent end, as it would in a listing begun afresh.
    pub fn list(&self, request: &ListRequest) -> Result<SessionList, Error> {
        self.list_for(request, &CallContext::default())
    }

    /// The same, for someone who may stop waiting: a query looks at every session.
    pub fn list_for(&self, request: &ListRequest, context: &CallContext) -> Result<SessionList, Error> {
        let listing = Listing::new(request);
        let limit = fit::limit(request.limit)?;
        let scope = listing.scope();
        let after = request.cursor.as_deref().map(|cursor| cursor::decode(&scope, cursor, parse_place)).transpose()?;

        let mut list = SessionList {
            sessions: Vec::new(),
            total_sessions: self.count(&listing, context)?,
            timestamp: self.now(),
            next_cursor: None,
            recovery: self.recovery_notice()?,
        };
        let mut page = Page::new(limit, &list);
        let mut last = None;
        self.walk(&listing, after, limit, context, |summary| {
            let place = RecencyKey { modified: summary.last_modified_at, id: summary.id };
            if page.push(SessionRow::new(summary)?) {
                last = Some(place);
                return Ok(true);
            }
            list.next_cursor = last.map(|place| cursor::encode(&scope, &show_place(place)));
            Ok(false)
        })?;
        list.sessions = page.rows;
        Ok(list)
    }

    /// Where every `every`th row of a listing begins, as cursors: for a scroll bar that can be dragged anywhere, when only
    /// cursors lead into a listing. Cursors of the request are not looked at.
    pub fn marks(&self, request: &ListRequest, every: usize) -> Result<Vec<String>, Error> {
        let listing = Listing::new(request);
        let scope = listing.scope();
        let every = every.max(1);
        let (mut rows, mut marks) = (0_usize, Vec::new());
        self.walk(&listing, None, MARK_CHUNK, &CallContext::default(), |summary| {
            rows += 1;
            if rows.is_multiple_of(every) {
                let place = RecencyKey { modified: summary.last_modified_at, id: summary.id };
                marks.push(cursor::encode(&scope, &show_place(place)));
            }
            Ok(true)
        })?;
        Ok(marks)
    }

    /// Shows `each` the sessions that match, until it says to stop. Reads a little more than `likely` at once.
    fn walk(
        &self,
        listing: &Listing,
        mut after: Option<RecencyKey>,
        likely: usize,
        context: &CallContext,
        mut each: impl FnMut(&Summary) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        let chunk = if listing.picks() { WALK_CHUNK } else { likely.saturating_add(1) };
        let mut looked_at = 0;
        loop {
            if looked_at > 0 {
                context.step("looking at sessions", looked_at, 0)?;
            }
            let summaries = self.log.page(listing.status.into(), listing.sort.into(), after, chunk)?;
            for summary in &summaries {
                if listing.matches(summary) && !each(summary)? {
                    return Ok(());
                }
            }
            looked_at += summaries.len() as u64;
            match summaries.last() {
                Some(last) if summaries.len() == chunk => {
                    after = Some(RecencyKey { modified: last.last_modified_at, id: last.id });
                }
                _ => return Ok(()),
            }
        }
    }

    fn count(&self, listing: &Listing, context: &CallContext) -> Result<u64, Error> {
        if listing.picks() {
            let mut matching = 0;
            self.walk(listing, None, WALK_CHUNK, context, |_| {
                matching += 1;
                Ok(true)
            })?;
            return Ok(matching);
        }
        let totals = self.log.totals()?;
        Ok(match listing.status {
            StatusFilter::All => totals.sessions,
            StatusFilter::Active => totals.sessions.saturating_sub(totals.archived),
            StatusFilter::Archived => totals.archived,
        })
    }

    fn recovery_notice(&self) -> Result<Option<RecoveryNotice>, Error> {
        Ok(notice(&self.log.unread_recoveries()?))
    }
}

/// What chooses and orders the rows of a listing.
struct Listing {
    status: StatusFilter,
    sort: Sort,
    project: Option<String>,
    query: Option<String>,
}

impl Listing {
    fn new(request: &ListRequest) -> Listing {
        Listing {
            status: request.status.unwrap_or_default(),
            sort: request.sort.unwrap_or_default(),
            project: request.project.clone(),
            query: request.query.as_deref().map(|query| query.trim().to_lowercase()).filter(|query| !query.is_empty()),
        }
    }

    fn scope(&self) -> String {
        format!("list {:?} {:?} {:?} {:?}", self.status, self.sort, self.project, self.query)
    }

    /// Whether rows must be looked at to know if they match.
    fn picks(&self) -> bool {
        self.project.is_some() || self.query.is_some()
    }

    fn matches(&self, summary: &Summary) -> bool {
        let project = summary.project.as_deref();
        self.project.as_deref().is_none_or(|wanted| project == Some(wanted))
            && self.query.as_deref().is_none_or(|query| {
                let has = |text: &str| text.to_lowercase().contains(query);
                summary.title.as_deref().is_some_and(has) || project.is_some_and(has) || has(&summary.id.to_string())
            })
    }
}

impl From<StatusFilter> for store::Status {
    fn from(status: StatusFilter) -> store::Status {
        match status {
            StatusFilter::All => store::Status::All,
            StatusFilter::Active => store::Status::Active,
            StatusFilter::Archived => store::Status::Archived,
        }
    }
}

impl From<Sort> for store::Order {
    fn from(sort: Sort) -> store::Order {
        match sort {
            Sort::Recent => store::Order::Recent,
            Sort::Oldest => store::Order::Oldest,
        }
    }
}

/// Summaries read at once where most of them may not match.
const WALK_CHUNK: usize = 512;
/// Summaries read at once where all of them are looked at.
const MARK_CHUNK: usize = 8192;
/// The most paths a notice names; the reports in quarantine/ name them all.
const NOTICE_PATHS: usize = 20;

fn notice(recoveries: &[store::Recovery]) -> Option<RecoveryNotice> {
    if recoveries.is_empty() {
        return None;
    }
    let mut paths = recoveries.iter().flat_map(|recovery| &recovery.quarantined);
    let mut quarantined: Vec<String> = paths.by_ref().take(NOTICE_PATHS).cloned().collect();
    quarantined.iter_mut().for_each(|path| {
        fit::clip(path, 300);
    });
    let more = paths.count();
    if more > 0 {
        quarantined.push(format!("and {more} more"));
    }
    let mut message = recoveries.iter().map(|recovery| recovery.message.as_str()).collect::<Vec<_>>().join(" ");
    fit::clip(&mut message, 4000);
    let lost_events = recoveries.iter().map(|recovery| recovery.lost_events).sum();
    Some(RecoveryNotice { lost_events, quarantined, message })
}

fn show_place(place: RecencyKey) -> String {
    format!("{} {}", place.modified.millis(), place.id)
}

fn parse_place(text: &str) -> Option<RecencyKey> {
    let (modified, id) = text.split_once(' ')?;
    Some(RecencyKey { modified: Timestamp::from_millis(modified.parse().ok()?)?, id: id.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recovery(lost_events: u64, paths: usize) -> store::Recovery {
        store::Recovery {
            name: "2025-12-11T14-51-30Z".to_owned(),
            at: Timestamp::from_millis(0).unwrap(),
            causes: Vec::new(),
            lost_events,
            losses: Vec::new(),
            restored_to_journal: 0,
            quarantined: (0..paths).map(|n| format!("quarantine/a/{n}.log")).collect(),
            message: format!("{lost_events} events were lost."),
        }
    }

    #[test]
    fn a_notice_sums_up_and_stays_small() {
        assert_eq!(notice(&[]), None);
        let two = notice(&[recovery(2, 1), recovery(3, 0)]).unwrap();
        assert_eq!(two.lost_events, 5);
        assert_eq!(two.message, "2 events were lost. 3 events were lost.");
        let many = notice(&vec![recovery(1, 100); 500]).unwrap();
        assert_eq!(many.quarantined.last().unwrap(), "and 49980 more");
        assert!(fit::json_bytes(&many) < 12_000);
    }

    #[test]
    fn a_place_survives_its_cursor() {
        let id = "session-2025-12-11-1000".parse().unwrap();
        let place = RecencyKey { modified: Timestamp::from_millis(-5).unwrap(), id };
        assert_eq!(parse_place(&show_place(place)), Some(place));
        assert_eq!(parse_place("x y"), None);
    }

    #[test]
    fn every_choice_makes_another_listing() {
        let scope = |request: ListRequest| Listing::new(&request).scope();
        let plain = ListRequest::default();
        let scopes = [
            scope(plain.clone()),
            scope(ListRequest { status: Some(StatusFilter::Active), ..plain.clone() }),
            scope(ListRequest { sort: Some(Sort::Oldest), ..plain.clone() }),
            scope(ListRequest { project: Some("cats".to_owned()), ..plain.clone() }),
            scope(ListRequest { query: Some("cats".to_owned()), ..plain.clone() }),
        ];
        let distinct: std::collections::BTreeSet<_> = scopes.iter().collect();
        assert_eq!(distinct.len(), scopes.len());
        assert_eq!(
            scope(ListRequest { limit: Some(3), status: Some(StatusFilter::All), ..plain.clone() }),
            scope(plain)
        );
    }
}
