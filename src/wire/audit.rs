//! `audit-session`: everything that ever happened to a session, and whether all of it verifies.

use retake_recipe::fields::optional_whole;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::import::origin;
use crate::model::{
    Actor, AnnotationChange, Cost, Event, EventBody, Hash, IterationId, OutcomeStatus, SessionId, Timestamp,
};
use crate::store::{Fault, FaultKind};
use crate::workspace::ImageCheck;

use super::limits::{self, PageRows};
use super::{Api, Error, cursor, is_zero};

/// The session to audit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AuditRequest {
    /// The session's id, such as `session-2025-12-11-001`, or `latest`.
    pub session_id: String,
    /// Maximum number of events (default 200, at most 1000). A page may hold fewer; `nextCursor` tells whether there are
    /// more.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "optional_whole")]
    #[schemars(range(min = 1))]
    pub limit: Option<u32>,
    /// `nextCursor` of the previous page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// Everything that happened to a session, oldest first, a page at a time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuditView {
    /// The session.
    pub session_id: SessionId,
    /// Its events, oldest first.
    pub events: Vec<AuditEvent>,
    /// The number of all events.
    pub total_events: u64,
    /// What its iterations cost together, by currency, if that is known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cost: Vec<Cost>,
    /// Whether every event is there, unchanged, in both copies, and names its predecessor.
    pub chain: ChainView,
    /// Whether all images are there, unchanged. Only on the first page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub images: Option<ImagesCheck>,
    /// The sequence numbers of events that were lost to damage, at most 200.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<u32>,
    /// How many more events were lost.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lost_omitted: u64,
    /// Present if there are more events: pass it as `cursor`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// One event of a session's trail.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuditEvent {
    /// Its sequence number in the chain, from 0.
    pub seq: u32,
    /// What happened: `started`, `recorded`, `annotated`, `titled`, `archived`, `restored`, `lost`, or `unknown` for an
    /// event of a newer version.
    pub kind: String,
    /// When it was recorded (UTC).
    pub at: Timestamp,
    /// Who did it.
    pub actor: Actor,
    /// In a team workspace, the database role that wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// The given reason, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The iteration it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<u32>,
    /// When the image was made (UTC), which for imported work is before it was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made_at: Option<Timestamp>,
    /// The model it was made with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The hash of this event.
    pub hash: Hash,
    /// The hash of its predecessor; zeros for the first event.
    pub prev: Hash,
    /// What happened, in a few words.
    pub summary: String,
}

/// Whether a session's chain holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChainView {
    /// Whether nothing is wrong with it.
    pub holds: bool,
    /// What is wrong, at most 50 entries.
    pub faults: Vec<ChainFault>,
    /// How many more faults there are.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub faults_omitted: u64,
}

/// A fault at one place of the chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChainFault {
    /// The sequence number.
    pub seq: u32,
    /// What is wrong there.
    pub what: String,
}

/// Whether a session's images are there, unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImagesCheck {
    /// The number of images that were read and compared with their hash.
    pub checked: u64,
    /// Images whose file is gone, at most 50.
    pub missing: Vec<ImageFault>,
    /// Images whose file holds something else, at most 50.
    pub damaged: Vec<ImageFault>,
    /// How many more are missing or damaged.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub omitted: u64,
}

/// An image that is missing or damaged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImageFault {
    /// The iteration it belongs to.
    pub reference: IterationId,
    /// The hash of the bytes that should be there.
    pub hash: Hash,
}

impl Api<'_> {
    /// Returns everything that happened to a session, and whether the chain and the images verify.
    pub fn audit(&self, request: &AuditRequest) -> Result<AuditView, Error> {
        let id = self.session_id(&request.session_id)?;
        let limit = limits::limit(request.limit)?;
        let scope = format!("audit {id}");
        let from =
            request.cursor.as_deref().map(|at| cursor::decode(&scope, at, |seq| seq.parse().ok())).transpose()?;

        let trail = self.workspace.audit(id)?;
        let lost = trail.lost();
        let images = match from {
            None => Some(self.workspace.check_images(&trail, &self.context)?.into()),
            Some(_) => None,
        };
        let mut view = AuditView {
            session_id: id,
            events: Vec::new(),
            total_events: trail.events.len() as u64,
            cost: self.workspace.cost(id)?,
            chain: chain(&trail.faults),
            images,
            lost_omitted: lost.len().saturating_sub(MAX_LOST) as u64,
            lost: lost.into_iter().take(MAX_LOST).collect(),
            next_cursor: None,
        };
        let from: u32 = from.unwrap_or(0);
        let mut page = PageRows::new(limit, self.reply_bytes, &view);
        for event in trail.events.iter().filter(|event| event.seq >= from) {
            let role = trail.roles.get(&event.seq).cloned();
            if !page.push(AuditEvent { role, ..AuditEvent::from(event) }) {
                view.next_cursor = Some(cursor::encode(&scope, &event.seq.to_string()));
                break;
            }
        }
        view.events = page.rows;
        Ok(view)
    }
}

impl From<ImageCheck> for ImagesCheck {
    fn from(check: ImageCheck) -> ImagesCheck {
        let omitted = |faults: &Vec<_>| faults.len().saturating_sub(MAX_FAULTS) as u64;
        let omitted = omitted(&check.missing) + omitted(&check.damaged);
        let named = |faults: Vec<(IterationId, Hash)>| -> Vec<ImageFault> {
            faults.into_iter().take(MAX_FAULTS).map(|(reference, hash)| ImageFault { reference, hash }).collect()
        };
        ImagesCheck { checked: check.checked, missing: named(check.missing), damaged: named(check.damaged), omitted }
    }
}

/// The maximum number of faults of one kind in a reply.
const MAX_FAULTS: usize = 50;
/// The maximum number of lost events in a reply.
const MAX_LOST: usize = 200;

impl From<&Event> for AuditEvent {
    fn from(event: &Event) -> AuditEvent {
        let short = |text: &str, most| limits::clipped(text, most).unwrap_or_else(|| text.to_owned());
        let actor = &event.actor;
        let iteration = match &event.body {
            EventBody::Recorded { iteration, .. } => Some(iteration),
            _ => None,
        };
        AuditEvent {
            seq: event.seq,
            kind: event.body.kind().as_str().to_owned(),
            at: event.at,
            actor: Actor { client: short(&actor.client, 256), user: short(&actor.user, 256) },
            role: None,
            reason: event.body.reason().map(|reason| short(reason, 1000)),
            index: match event.body {
                EventBody::Recorded { index, .. } | EventBody::Annotated { index, .. } => Some(index),
                _ => None,
            },
            made_at: iteration.map(|iteration| iteration.created_at),
            model: iteration.and_then(|iteration| iteration.recipe.model.as_deref()).map(|model| short(model, 256)),
            hash: event.hash,
            prev: event.prev,
            summary: short(&summary(event), 300),
        }
    }
}

fn summary(event: &Event) -> String {
    let from = match (&event.body, origin(event)) {
        (EventBody::Started { .. }, Some(from)) => format!(", from {from} of another workspace"),
        _ => String::new(),
    };
    format!("{}{from}", body_summary(&event.body))
}

fn body_summary(body: &EventBody) -> String {
    let named = |title: &Option<String>, project: &Option<String>| {
        let change = |what: &str, name: &String| {
            if name.is_empty() { format!("{what} removed") } else { format!("{what} {name:?}") }
        };
        let title = title.as_ref().map(|title| change("title", title));
        let project = project.as_ref().map(|project| change("project", project));
        title.into_iter().chain(project).collect::<Vec<_>>().join(", ")
    };
    match body {
        EventBody::Started { title: None, project: None } => "session started".to_owned(),
        EventBody::Started { title, project } => format!("session started: {}", named(title, project)),
        EventBody::Recorded { iteration, .. } => {
            let prompt = &iteration.recipe.prompt;
            let prompt = limits::clipped(prompt, 200).unwrap_or_else(|| prompt.clone());
            let with = iteration.recipe.provider.as_ref().map(|provider| format!("; made with {provider}"));
            let outcome = &iteration.outcome;
            let cost = outcome.cost.as_ref().map(|cost| format!("; cost {} {}", cost.amount, cost.currency));
            let described = outcome.message.as_ref().map(|message| {
                let message = limits::clipped(message, 200).unwrap_or_else(|| message.clone());
                format!("; message {message:?}")
            });
            let with = [with, cost, described].into_iter().flatten().collect::<String>();
            match outcome.status {
                OutcomeStatus::Succeeded => format!("{prompt}{with}"),
                OutcomeStatus::Failed => format!("failed: {prompt}{with}"),
                OutcomeStatus::Refused => format!("refused: {prompt}{with}"),
            }
        }
        EventBody::Annotated { change, .. } => {
            let rating = change.rating.map(|rating| match rating {
                AnnotationChange::NO_RATING => "rating removed".to_owned(),
                rating => format!("rating {rating}"),
            });
            let tags = change.tags.as_ref().map(|tags| match tags.as_slice() {
                [] => "tags removed".to_owned(),
                tags => format!("tags [{}]", tags.join(", ")),
            });
            let note = change.note.as_ref().map(|note| match note.as_str() {
                "" => "note removed".to_owned(),
                note => format!("note {note:?}"),
            });
            rating.into_iter().chain(tags).chain(note).collect::<Vec<_>>().join(", ")
        }
        EventBody::Titled { title, project } => named(title, project),
        EventBody::Archived { .. } => "archived".to_owned(),
        EventBody::Restored { .. } => "restored".to_owned(),
        EventBody::Lost(loss) => {
            let places = loss.seqs.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
            let events = if loss.seqs.len() == 1 { "event" } else { "events" };
            format!("lost to damage: {events} {places}")
        }
        EventBody::Unknown { kind, version } => {
            format!("kind {kind}, version {version}, written by a newer Retake: kept as it is")
        }
    }
}

pub(super) fn chain(faults: &[Fault]) -> ChainView {
    let named = faults.iter().take(MAX_FAULTS).map(|fault| {
        let what = match fault.kind {
            FaultKind::Missing => "the event is missing from both copies",
            FaultKind::Unlinked => "the event names another predecessor",
            FaultKind::DatabaseCopy => "the database's copy is missing or damaged",
            FaultKind::JournalCopy => "the journal's copy is missing or damaged",
            FaultKind::Text => "a long text of the event is missing or damaged",
        };
        ChainFault { seq: fault.seq, what: what.to_owned() }
    });
    ChainView {
        holds: faults.is_empty(),
        faults: named.collect(),
        faults_omitted: faults.len().saturating_sub(MAX_FAULTS) as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Loss;

    #[test]
    fn an_event_is_summed_up() {
        let text = |text: &str| Some(text.to_owned());
        let change = AnnotationChange {
            rating: Some(4),
            tags: Some(["keeper", "blue"].map(str::to_owned).to_vec()),
            note: text("too \"dark\""),
        };
        for (body, words) in [
            (EventBody::Started { title: None, project: None }, "session started"),
            (EventBody::Started { title: text("Cats"), project: None }, r#"session started: title "Cats""#),
            (EventBody::Titled { title: text("Cats"), project: text("zoo") }, r#"title "Cats", project "zoo""#),
            (EventBody::Annotated { index: 0, change }, r#"rating 4, tags [keeper, blue], note "too \"dark\"""#),
            (
                EventBody::Lost(Loss { seqs: vec![3, 4], last_index: None, after: None, before: None }),
                "lost to damage: events 3, 4",
            ),
        ] {
            assert_eq!(body_summary(&body), words);
        }
    }

    #[test]
    fn faults_are_limited() {
        let faults = vec![Fault { seq: 7, kind: FaultKind::Missing }; 60];
        let chain = chain(&faults);
        assert!(!chain.holds);
        assert_eq!((chain.faults.len(), chain.faults_omitted), (50, 10));
        assert_eq!(chain.faults[0].what, "the event is missing from both copies");
    }

    #[test]
    fn an_intact_chain_is_brief() {
        assert_eq!(serde_json::to_string(&chain(&[])).unwrap(), r#"{"holds":true,"faults":[]}"#);
        let none = serde_json::to_string(&ImagesCheck::default()).unwrap();
        assert_eq!(none, r#"{"checked":0,"missing":[],"damaged":[]}"#);
    }
}
