//! `retake wrap --explain`: shows what would be recorded from a transcript, and why, for authors of profiles.

use std::io;
use std::path::Path;
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::images::Header;
use crate::model::Timestamp;

use super::assemble::{Assembler, Decision};
use super::files::Base;
use super::finding::{Finding, Note};
use super::message::{self, Direction};
use super::observe::{Connection, Moment, ObservedRequest, Observer, Scope};

/// What would be recorded from a transcript.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explained {
    /// The name under which the server introduced itself.
    pub server: Option<String>,
    /// The profile that was used.
    pub profile: Option<String>,
    /// The number of lines that are not messages; they are forwarded unchanged.
    pub other_lines: usize,
    /// Every call, in order.
    pub calls: Vec<ExplainedCall>,
}

/// The decision about one call.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplainedCall {
    /// The called tool, or the method and its target.
    pub call: String,
    /// `recorded`, `waiting` or `skipped`.
    pub decision: &'static str,
    /// The rule that applied.
    pub why: String,
    /// What would be recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iteration: Option<Value>,
    /// The source of each part.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub sources: Map<String, Value>,
}

/// Reads a transcript and returns what would be recorded from it.
///
/// A transcript is an object with a list `transcript`, or one entry per line, where an entry is
/// `{"t": seconds, "dir": "c->s" or "s->c", "msg": message or text}`.
pub fn explain(transcript: &Path, profile: Option<&str>, profiles: Option<&Path>) -> io::Result<Explained> {
    let text = std::fs::read_to_string(transcript)?;
    let entries = entries(&text).ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidData, "it is neither a transcript in JSON nor one in JSON lines")
    })?;
    let profiles = super::profiles(profile, profiles, &(Arc::new(|_: &str| ()) as super::Warn))?;
    let mut assembler = Assembler::new(profiles.clone(), Base::of_this_process(), "server".to_owned());
    let mut observer = Observer::default();
    let mut explained = Explained { server: None, profile: None, other_lines: 0, calls: Vec::new() };
    let mut recorded = 0;
    for entry in &entries {
        let direction = match entry.get("dir").and_then(Value::as_str) {
            Some(way) if way.starts_with("c->s") => Direction::ToServer,
            Some(way) if way.starts_with("s->c") => Direction::ToClient,
            _ => continue,
        };
        let message = match entry.get("msg") {
            Some(Value::String(line)) => line.clone().into_bytes(),
            Some(message) => message.to_string().into_bytes(),
            None => continue,
        };
        let messages = message::parse(&message);
        explained.other_lines += usize::from(messages.is_empty());
        for message in messages {
            let Some(exchange) = observer.message(Scope::default(), direction, message, moment(entry)) else {
                continue;
            };
            let connection = Arc::clone(observer.connection());
            for step in assembler.exchange(&connection, &exchange, "") {
                if let Decision::Record(finding) = &step {
                    assembler.recorded(finding, &format!("#{recorded}"));
                    recorded += 1;
                }
                explained.calls.push(call(&exchange.ask, step));
            }
        }
    }
    for finding in assembler.give_up(None) {
        let tool = ObservedRequest::Call { tool: finding.tool.clone(), arguments: Value::Null };
        let mut left = call(&tool, Decision::Record(Box::new(finding)));
        "at the end of the connection, since its image never passed".clone_into(&mut left.why);
        explained.calls.push(left);
    }
    let connection: &Connection = observer.connection();
    explained.server = connection.server.as_ref().map(|server| server.name.clone());
    explained.profile = profiles.choose(connection).map(|profile| profile.name.clone());
    Ok(explained)
}

fn entries(text: &str) -> Option<Vec<Value>> {
    if let Ok(Value::Object(mut whole)) = serde_json::from_str(text)
        && let Some(Value::Array(entries)) = whole.remove("transcript")
    {
        return Some(entries);
    }
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let entries: Option<Vec<Value>> = lines.map(|line| serde_json::from_str(line).ok()).collect();
    entries.filter(|entries| !entries.is_empty() && entries.iter().all(|entry| entry.get("dir").is_some()))
}

fn moment(entry: &Value) -> Moment {
    let millis = entry.get("t").and_then(Value::as_f64).unwrap_or(0.0) * 1000.0;
    // Transcripts have no date; the files they name are older than now, and reported as such.
    Moment { millis: format!("{millis:.0}").parse().unwrap_or(0), wall: Timestamp::now() }
}

fn call(ask: &ObservedRequest, step: Decision) -> ExplainedCall {
    let name = match ask {
        ObservedRequest::Call { tool, .. } => tool.clone(),
        ObservedRequest::Read(uri) => format!("resources/read {uri}"),
        ObservedRequest::Task(id) => format!("tasks/result {id}"),
    };
    match step {
        Decision::Skip(why) => {
            ExplainedCall { call: name, decision: "skipped", why, iteration: None, sources: Map::new() }
        }
        Decision::Wait { job, why } => ExplainedCall {
            call: name,
            decision: "waiting",
            why: format!("job {job}: {why}"),
            iteration: None,
            sources: Map::new(),
        },
        Decision::Record(finding) => {
            let why = finding.trace.iter().find(|note| note.field == "call").map(|note| note.why.clone());
            ExplainedCall {
                call: name,
                decision: "recorded",
                why: why.unwrap_or_default(),
                iteration: Some(iteration(&finding)),
                sources: sources(&finding.trace),
            }
        }
    }
}

fn sources(trace: &[Note]) -> Map<String, Value> {
    let mut sources = Map::new();
    for Note { field, why } in trace.iter().filter(|note| note.field != "call") {
        let text = match sources.get(*field).and_then(Value::as_str) {
            Some(before) => format!("{before}; {why}"),
            None => why.clone(),
        };
        sources.insert((*field).to_owned(), json!(text));
    }
    sources
}

/// Returns a finding with the field names of `record-iteration`.
fn iteration(finding: &Finding) -> Value {
    let images: Vec<Value> = finding
        .images
        .iter()
        .map(|image| {
            let header = Header::of(&image.bytes);
            json!({ "path": image.path, "mimeType": header.mime_type, "width": header.width, "height": header.height })
        })
        .collect();
    let mut value = json!(finding.recipe);
    let rest = json!({
        "outcome": finding.outcome, "message": finding.message, "generationTimeMs": finding.duration_ms,
        "cost": finding.cost, "parent": finding.parent, "images": images,
    });
    if let (Some(object), Value::Object(rest)) = (value.as_object_mut(), rest) {
        object.extend(rest);
        object.retain(|_, value| !value.is_null() && value.as_array().is_none_or(|list| !list.is_empty()));
    }
    value
}
