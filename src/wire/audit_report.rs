//! Audits of many sessions: of an archive, a project, a period or a person.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::{Actor, Cost, Status, Timestamp, amounts};
use crate::workspace::SessionFilter;

use super::audit::{self, AuditEvent, ChainView, ImagesCheck};
use super::search::{PeriodEdge, time_bound};
use super::{Api, Error, SessionRow};

/// Which sessions and events to audit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AuditReportRequest {
    /// Which sessions: `all` (the default), `active` or `archived`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    /// Only sessions whose project contains this text, in any case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Only what happened since then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Only what happened until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// Only what an actor did whose user or client contains this text, in any case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,
}

/// What happened in many sessions, and whether all of them verify.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuditReport {
    /// The sessions with something to report, by day and number.
    pub sessions: Vec<AuditedSession>,
    /// The number of sessions that were checked.
    pub total_sessions: u64,
    /// The number of events that match.
    pub total_events: u64,
    /// What all sessions in the report cost together, by currency.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cost: Vec<Cost>,
    /// Whether every chain holds and every image is there, unchanged.
    pub holds: bool,
}

/// One session of an audit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuditedSession {
    /// Its row.
    pub session: SessionRow,
    /// Its events that match, oldest first.
    pub events: Vec<AuditEvent>,
    /// Whether every event is there, unchanged, in both copies, and names its predecessor.
    pub chain: ChainView,
    /// Whether all images are there, unchanged.
    pub images: ImagesCheck,
}

impl AuditedSession {
    /// Returns whether its chain holds and its images are intact.
    pub fn holds(&self) -> bool {
        self.chain.holds && self.images.missing.is_empty() && self.images.damaged.is_empty()
    }
}

impl Api<'_> {
    /// Audits every matching session. Sessions without a matching event are checked too, but reported only if something
    /// is wrong with them.
    pub fn audit_report(&self, request: &AuditReportRequest) -> Result<AuditReport, Error> {
        let now = self.workspace.now();
        let matching = Matching {
            since: time_bound("since", request.since.as_deref(), now, PeriodEdge::Start)?,
            until: time_bound("until", request.until.as_deref(), now, PeriodEdge::End)?,
            actor: request.actor.as_deref().map(str::to_lowercase),
        };
        let filter = SessionFilter {
            status: request.status.unwrap_or_default(),
            project: request.project.clone(),
            ..SessionFilter::default()
        };
        let ids = self.workspace.sessions(&filter).map(|summary| Ok(summary?.id));
        let mut ids = ids.collect::<Result<Vec<_>, Error>>()?;
        ids.sort_unstable();
        let mut report = AuditReport {
            sessions: Vec::new(),
            total_sessions: ids.len() as u64,
            total_events: 0,
            cost: Vec::new(),
            holds: true,
        };
        let mut costs = Vec::new();
        for id in ids {
            let trail = self.workspace.audit(id)?;
            let images = self.workspace.check_images(&trail, &self.context)?.into();
            let events = trail.events.iter().filter(|event| matching.matches(event.at, &event.actor));
            let audited = AuditedSession {
                session: self.row(&self.workspace.summary(id)?)?,
                events: events.map(AuditEvent::from).collect(),
                chain: audit::chain(&trail.faults),
                images,
            };
            report.holds &= audited.holds();
            report.total_events += audited.events.len() as u64;
            if !audited.events.is_empty() || !audited.holds() {
                costs.extend(audited.session.cost().iter().cloned());
                report.sessions.push(audited);
            }
        }
        report.cost = amounts::total(&costs);
        Ok(report)
    }
}

/// The filter for the events in a report.
struct Matching {
    since: Option<Timestamp>,
    until: Option<Timestamp>,
    actor: Option<String>,
}

impl Matching {
    fn matches(&self, at: Timestamp, actor: &Actor) -> bool {
        let contains = |text: &str, part: &str| text.to_lowercase().contains(part);
        self.since.is_none_or(|since| at >= since)
            && self.until.is_none_or(|until| at <= until)
            && self.actor.as_deref().is_none_or(|part| contains(&actor.user, part) || contains(&actor.client, part))
    }
}
