//! `audit`: everything that ever happened to a session, and whether all of it checks out.

use std::collections::{BTreeSet, HashMap};
use std::io;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::images::Images;
use crate::model::{Actor, Event, EventBody, Hash, IterationId, OutcomeStatus, SessionId, Timestamp};
use crate::store::{Fault, FaultKind, Trail};

use super::fit::{self, Page};
use super::{CallContext, Error, Tracker, cursor, lookup};

/// Which session to audit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AuditRequest {
    /// The session's id, such as `session-2025-12-11-001`.
    pub session_id: String,
    /// At most this many events (default 200, at most 1000). A page may hold fewer; `nextCursor` says whether there are more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub limit: Option<u32>,
    /// `nextCursor` of the page before.
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
    /// How many events there are in all.
    pub total_events: u64,
    /// Whether every event of the session is there, unchanged, in both copies, and names the one before it.
    pub chain: ChainView,
    /// Whether the images of all its iterations are there, unchanged. Only on the first page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub images: Option<ImagesCheck>,
    /// The places in the chain whose events were lost to damage, at most 200 of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<u32>,
    /// How many more places were lost.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lost_omitted: u64,
    /// Present when there are more events: give it back as `cursor`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// One event of a session's trail.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuditEvent {
    /// Its place in the chain, from 0.
    pub seq: u32,
    /// What happened: `started`, `recorded`, `annotated`, `titled`, `archived`, `restored`, `lost`, or `unknown` for an
    /// event of a newer version.
    pub kind: String,
    /// When it was recorded (UTC).
    pub at: Timestamp,
    /// Who did it.
    pub actor: Actor,
    /// Why, where someone said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The iteration it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<u32>,
    /// The hash of this event.
    pub hash: Hash,
    /// The hash of the event before it; zeros for the first.
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
    /// What is wrong, at most 50 of it.
    pub faults: Vec<ChainFault>,
    /// How many more faults there are.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub faults_omitted: u64,
}

/// Something wrong at one place of the chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChainFault {
    /// The place.
    pub seq: u32,
    /// What is wrong there.
    pub what: String,
}

/// Whether a session's images are there, unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImagesCheck {
    /// How many were read and compared with their hash.
    pub checked: u64,
    /// Those whose file is gone, at most 50.
    pub missing: Vec<ImageFault>,
    /// Those whose file holds something else, at most 50.
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

impl Tracker {
    /// Everything that happened to a session, and whether the chain and the images check out.
    pub fn audit(&self, request: &AuditRequest) -> Result<AuditView, Error> {
        self.audit_for(request, &self.context())
    }

    /// The same, for someone who wants to know how far it has come: it reads every image of the session.
    pub fn audit_for(&self, request: &AuditRequest, context: &CallContext) -> Result<AuditView, Error> {
        let id = lookup::session_id(&request.session_id)?;
        let limit = fit::limit(request.limit)?;
        let scope = format!("audit {id}");
        let from =
            request.cursor.as_deref().map(|at| cursor::decode(&scope, at, |seq| seq.parse().ok())).transpose()?;

        self.head(id)?;
        let Trail { events, faults, .. } = self.log.trail(id)?;
        let lost: Vec<u32> = lost_places(&events).into_iter().collect();
        let mut view = AuditView {
            session_id: id,
            events: Vec::new(),
            total_events: events.len() as u64,
            chain: chain(&faults),
            images: if from.is_none() { Some(self.check_images(&events, context)?) } else { None },
            lost_omitted: lost.len().saturating_sub(MAX_LOST) as u64,
            lost: lost.into_iter().take(MAX_LOST).collect(),
            next_cursor: None,
        };
        let from: u32 = from.unwrap_or(0);
        let mut page = Page::new(limit, &view);
        for event in events.iter().filter(|event| event.seq >= from) {
            if !page.push(AuditEvent::from(event)) {
                view.next_cursor = Some(cursor::encode(&scope, &event.seq.to_string()));
                break;
            }
        }
        view.events = page.rows;
        Ok(view)
    }

    fn check_images(&self, events: &[Event], context: &CallContext) -> Result<ImagesCheck, Error> {
        let mut check = ImagesCheck::default();
        let mut seen = HashMap::new();
        let images = |event: &Event| match &event.body {
            EventBody::Recorded { iteration, .. } => iteration.images.len() as u64,
            _ => 0,
        };
        let (total, mut done) = (events.iter().map(images).sum(), 0);
        for event in events {
            let EventBody::Recorded { index, iteration } = &event.body else { continue };
            for image in &iteration.images {
                context.step("checking images", done, total)?;
                done += 1;
                self.images.remember(image);
                let state = *seen.entry(image.hash).or_insert_with(|| ImageState::of(&self.images, image.hash));
                let faults = match state {
                    ImageState::Whole => continue,
                    ImageState::Missing => &mut check.missing,
                    ImageState::Damaged => &mut check.damaged,
                };
                if faults.len() < MAX_FAULTS {
                    faults.push(ImageFault { reference: event.session.iteration(*index), hash: image.hash });
                } else {
                    check.omitted += 1;
                }
            }
        }
        check.checked = seen.len() as u64;
        Ok(check)
    }
}

/// Whether an image is there, unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ImageState {
    /// It is.
    Whole,
    /// Its file is gone.
    Missing,
    /// Its file holds something else, or cannot be read.
    Damaged,
}

impl ImageState {
    /// Reads the whole file to tell.
    pub(super) fn of(images: &Images, hash: Hash) -> ImageState {
        match images.check(hash) {
            Ok(()) => ImageState::Whole,
            Err(error) if error.kind() == io::ErrorKind::NotFound => ImageState::Missing,
            Err(_) => ImageState::Damaged,
        }
    }
}

/// The most faults of one sort that an answer names.
const MAX_FAULTS: usize = 50;
/// The most lost places that an answer names.
const MAX_LOST: usize = 200;

impl From<&Event> for AuditEvent {
    fn from(event: &Event) -> AuditEvent {
        let short = |text: &str, most| fit::clipped(text, most).unwrap_or_else(|| text.to_owned());
        let actor = &event.actor;
        AuditEvent {
            seq: event.seq,
            kind: event.body.kind().as_str().to_owned(),
            at: event.at,
            actor: Actor { client: short(&actor.client, 256), user: short(&actor.user, 256) },
            reason: event.body.reason().map(|reason| short(reason, 1000)),
            index: match event.body {
                EventBody::Recorded { index, .. } | EventBody::Annotated { index, .. } => Some(index),
                _ => None,
            },
            hash: event.hash,
            prev: event.prev,
            summary: short(&summary(&event.body), 300),
        }
    }
}

fn summary(body: &EventBody) -> String {
    let named = |title: &Option<String>, project: &Option<String>| {
        let title = title.as_ref().map(|title| format!("title {title:?}"));
        let project = project.as_ref().map(|project| format!("project {project:?}"));
        title.into_iter().chain(project).collect::<Vec<_>>().join(", ")
    };
    match body {
        EventBody::Started { title: None, project: None } => "the session began".to_owned(),
        EventBody::Started { title, project } => format!("the session began: {}", named(title, project)),
        EventBody::Recorded { iteration, .. } => {
            let prompt = &iteration.recipe.prompt;
            let prompt = fit::clipped(prompt, 200).unwrap_or_else(|| prompt.clone());
            match iteration.outcome.status {
                OutcomeStatus::Succeeded => prompt,
                OutcomeStatus::Failed => format!("failed: {prompt}"),
                OutcomeStatus::Refused => format!("refused: {prompt}"),
            }
        }
        EventBody::Annotated { change, .. } => {
            let rating = change.rating.map(|rating| format!("rating {rating}"));
            let tags = change.tags.as_ref().map(|tags| format!("tags [{}]", tags.join(", ")));
            let note = change.note.as_ref().map(|note| format!("note {note:?}"));
            rating.into_iter().chain(tags).chain(note).collect::<Vec<_>>().join(", ")
        }
        EventBody::Titled { title, project } => named(title, project),
        EventBody::Archived { .. } => "put into the archive".to_owned(),
        EventBody::Restored { .. } => "taken out of the archive".to_owned(),
        EventBody::Lost(loss) => {
            let places = loss.seqs.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
            format!("lost to damage: the events at {places}")
        }
        EventBody::Unknown { kind, version } => {
            format!("kind {kind}, version {version}, of a newer version of Retake: kept as it is")
        }
    }
}

fn chain(faults: &[Fault]) -> ChainView {
    let named = faults.iter().take(MAX_FAULTS).map(|fault| {
        let what = match fault.kind {
            FaultKind::Missing => "the event is gone from both copies",
            FaultKind::Unlinked => "the event names another predecessor than the one there is",
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

fn lost_places(events: &[Event]) -> BTreeSet<u32> {
    let losses = events.iter().filter_map(|event| match &event.body {
        EventBody::Lost(loss) => Some(&loss.seqs),
        _ => None,
    });
    losses.flatten().copied().collect()
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{AnnotationChange, Loss};

    #[test]
    fn an_event_is_said_in_a_few_words() {
        let text = |text: &str| Some(text.to_owned());
        let change = AnnotationChange {
            rating: Some(4),
            tags: Some(["keeper", "blue"].map(str::to_owned).to_vec()),
            note: text("too \"dark\""),
        };
        for (body, words) in [
            (EventBody::Started { title: None, project: None }, "the session began"),
            (EventBody::Started { title: text("Cats"), project: None }, r#"the session began: title "Cats""#),
            (EventBody::Titled { title: text("Cats"), project: text("zoo") }, r#"title "Cats", project "zoo""#),
            (EventBody::Annotated { index: 0, change }, r#"rating 4, tags [keeper, blue], note "too \"dark\"""#),
            (
                EventBody::Lost(Loss { seqs: vec![3, 4], last_index: None, after: None, before: None }),
                "lost to damage: the events at 3, 4",
            ),
        ] {
            assert_eq!(summary(&body), words);
        }
    }

    #[test]
    fn faults_are_named_up_to_a_number() {
        let faults = vec![Fault { seq: 7, kind: FaultKind::Missing }; 60];
        let chain = chain(&faults);
        assert!(!chain.holds);
        assert_eq!((chain.faults.len(), chain.faults_omitted), (50, 10));
        assert_eq!(chain.faults[0].what, "the event is gone from both copies");
    }

    #[test]
    fn whole_is_said_shortly() {
        assert_eq!(serde_json::to_string(&chain(&[])).unwrap(), r#"{"holds":true,"faults":[]}"#);
        let none = serde_json::to_string(&ImagesCheck::default()).unwrap();
        assert_eq!(none, r#"{"checked":0,"missing":[],"damaged":[]}"#);
    }
}
