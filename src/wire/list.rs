//! `list-sessions`: lists the sessions, most recently modified first.

use retake_recipe::fields::optional_whole;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::{Order, SessionId, Status, Timestamp};
use crate::store::{self, RecencyKey};
use crate::workspace::{SessionFilter, Workspace, place};

use super::limits::{self, PageRows};
use super::search::{PeriodEdge, time_bound};
use super::{Api, Error, SessionRow, cursor};

/// Which sessions to list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ListRequest {
    /// Which sessions: `all` (the default), `active` or `archived`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    /// Maximum number of rows (default 200, at most 1000). A page may hold fewer; `nextCursor` tells whether there are more.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "optional_whole")]
    #[schemars(range(min = 1))]
    pub limit: Option<u32>,
    /// `nextCursor` of the previous page, with all other arguments unchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// `recent` (the default): most recently modified first. `oldest`: least recently modified first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sort: Option<Order>,
    /// Only sessions whose project contains this text, in any case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Only sessions whose title, project or id contains this text, in any case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
    /// Only sessions last modified since: `2026`, `2026-03`, `2026-03-14`, `yesterday`, `7d`, or an RFC 3339 time (UTC).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Only sessions last modified until the end of that time, written as `since` is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
}

/// A page of sessions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionList {
    /// The sessions, in the requested order.
    pub sessions: Vec<SessionRow>,
    /// The number of sessions that match, on all pages together.
    pub total_sessions: u64,
    /// The time of this reply (UTC).
    pub timestamp: Timestamp,
    /// Present if there are more: pass it as `cursor`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
    /// Present if the workspace was damaged and the report has not been acknowledged yet: tell the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery: Option<RecoveryNotice>,
}

/// What unacknowledged recoveries found and did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecoveryNotice {
    /// The number of events that are gone from every copy.
    pub lost_events: u64,
    /// What was set aside, as paths below the workspace.
    pub quarantined: Vec<String>,
    /// What happened, in a sentence or two.
    pub message: String,
    /// Whether there are images but no event, so that nothing could be recovered.
    #[serde(skip)]
    pub log_is_gone: bool,
}

impl Api<'_> {
    /// Lists the sessions that match, a page at a time.
    ///
    /// A cursor keeps its position while sessions change: every session that is not modified meanwhile appears exactly
    /// once. A modified session moves to the recent end, as it would in a new listing.
    pub fn list(&self, request: &ListRequest) -> Result<SessionList, Error> {
        let filter = request.filter(self.workspace)?;
        let limit = limits::limit(request.limit)?;
        let scope = request.scope();
        let after = request.cursor.as_deref().map(|cursor| cursor::decode(&scope, cursor, parse_place)).transpose()?;
        let mut list = SessionList {
            sessions: Vec::new(),
            total_sessions: 0,
            timestamp: self.workspace.now(),
            next_cursor: None,
            recovery: self.recovery_notice()?,
        };
        // A filter is evaluated for every session, so one pass both counts and collects.
        let selective = filter.is_selective();
        if !selective {
            list.total_sessions = self.workspace.count_sessions(filter.status)?;
        }
        let start = if selective { None } else { after };
        let chunk = limit.saturating_add(1);
        // Read one more than fits, to know whether there are more.
        let mut candidates = Vec::new();
        for summary in self.workspace.sessions_after(&filter, start, chunk, self.context.clone()) {
            let summary = summary?;
            if selective {
                list.total_sessions += 1;
                if candidates.len() > limit || !is_after(place(&summary), after, filter.order) {
                    continue;
                }
            }
            candidates.push(summary);
            if !selective && candidates.len() > limit {
                break;
            }
        }
        let ids: Vec<SessionId> = candidates.iter().map(|summary| summary.id).collect();
        let losses = self.workspace.losses()?;
        let mut page = PageRows::new(limit, self.reply_bytes, &list);
        let mut last = None;
        for (summary, cost) in candidates.iter().zip(self.workspace.costs(&ids)?) {
            if !page.push(
                SessionRow::new(summary)?
                    .with_cost(cost)
                    .with_losses(losses.get(&summary.id).copied().unwrap_or_default()),
            ) {
                list.next_cursor = last.map(|place| cursor::encode(&scope, &show_place(place)));
                break;
            }
            last = Some(place(summary));
        }
        list.sessions = page.rows;
        Ok(list)
    }

    /// Summarises the recoveries whose reports have not been acknowledged yet.
    pub fn recovery_notice(&self) -> Result<Option<RecoveryNotice>, Error> {
        let notice = notice(&self.workspace.unread_recoveries()?);
        if notice.is_some() {
            return Ok(notice);
        }
        let images = self.workspace.images_without_a_log()?;
        Ok((images > 0).then(|| RecoveryNotice {
            lost_events: images,
            quarantined: Vec::new(),
            message: format!(
                "The log is gone: no event is left, but {images} {} in images/. Restore journal/ or db/ from a backup.",
                if images == 1 { "image is" } else { "images are" }
            ),
            log_is_gone: true,
        }))
    }
}

impl ListRequest {
    fn filter(&self, workspace: &Workspace) -> Result<SessionFilter, Error> {
        let now = workspace.now();
        Ok(SessionFilter {
            status: self.status.unwrap_or_default(),
            order: self.sort.unwrap_or_default(),
            project: self.project.clone(),
            query: self.query.clone(),
            since: time_bound("since", self.since.as_deref(), now, PeriodEdge::Start)?,
            until: time_bound("until", self.until.as_deref(), now, PeriodEdge::End)?,
        })
    }

    /// Returns a text that identifies the listing: all arguments except limit and cursor, with defaults filled in.
    fn scope(&self) -> String {
        let folded = |text: &Option<String>| text.as_deref().map(|text| text.trim().to_lowercase()).unwrap_or_default();
        let choices = (
            self.status.unwrap_or_default(),
            self.sort.unwrap_or_default(),
            folded(&self.project),
            folded(&self.query),
            &self.since,
            &self.until,
        );
        format!("list {}", serde_json::to_string(&choices).unwrap_or_default())
    }
}

/// Returns whether a session comes after a position in the order.
fn is_after(place: RecencyKey, after: Option<RecencyKey>, order: Order) -> bool {
    after.is_none_or(|after| match order {
        Order::Recent => place < after,
        Order::Oldest => place > after,
    })
}

/// The maximum number of paths in a notice; the reports in quarantine/ list all of them.
const NOTICE_PATHS: usize = 20;

fn notice(recoveries: &[store::Recovery]) -> Option<RecoveryNotice> {
    if recoveries.is_empty() {
        return None;
    }
    let mut paths = recoveries.iter().flat_map(|recovery| &recovery.quarantined);
    let mut quarantined: Vec<String> = paths.by_ref().take(NOTICE_PATHS).cloned().collect();
    quarantined.iter_mut().for_each(|path| {
        limits::clip(path, 300);
    });
    let more = paths.count();
    if more > 0 {
        quarantined.push(format!("and {more} more"));
    }
    let mut message = recoveries.iter().map(|recovery| recovery.message.as_str()).collect::<Vec<_>>().join(" ");
    limits::clip(&mut message, 4000);
    let lost_events = recoveries.iter().map(|recovery| recovery.lost_events).sum();
    Some(RecoveryNotice { lost_events, quarantined, message, log_is_gone: false })
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
    fn a_notice_adds_up_and_stays_small() {
        assert_eq!(notice(&[]), None);
        let two = notice(&[recovery(2, 1), recovery(3, 0)]).unwrap();
        assert_eq!(two.lost_events, 5);
        assert_eq!(two.message, "2 events were lost. 3 events were lost.");
        let many = notice(&vec![recovery(1, 100); 500]).unwrap();
        assert_eq!(many.quarantined.last().unwrap(), "and 49980 more");
        assert!(limits::json_bytes(&many) < 12_000);
    }

    #[test]
    fn a_position_round_trips_through_its_cursor() {
        let id = "session-2025-12-11-1000".parse().unwrap();
        let place = RecencyKey { modified: Timestamp::from_millis(-5).unwrap(), id };
        assert_eq!(parse_place(&show_place(place)), Some(place));
        assert_eq!(parse_place("x y"), None);
    }

    #[test]
    fn every_filter_makes_another_listing() {
        let scope = |request: ListRequest| request.scope();
        let plain = ListRequest::default();
        let scopes = [
            scope(plain.clone()),
            scope(ListRequest { status: Some(Status::Active), ..plain.clone() }),
            scope(ListRequest { sort: Some(Order::Oldest), ..plain.clone() }),
            scope(ListRequest { project: Some("cats".to_owned()), ..plain.clone() }),
            scope(ListRequest { query: Some("cats".to_owned()), ..plain.clone() }),
            scope(ListRequest { since: Some("2026".to_owned()), ..plain.clone() }),
        ];
        let distinct: std::collections::BTreeSet<_> = scopes.iter().collect();
        assert_eq!(distinct.len(), scopes.len());
        assert_eq!(
            scope(ListRequest { limit: Some(3), status: Some(Status::All), ..plain.clone() }),
            scope(plain.clone())
        );
        // Cursors in the wild depend on this text.
        assert_eq!(scope(plain), r#"list ["all","recent","","",null,null]"#);
    }
}
