//! A finding: everything known about one iteration from a call, ready to be recorded, with the source of each part.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::images::metadata;
use crate::model::{Cost, Hash, IterationId, OutcomeStatus, Recipe, Seed, Timestamp};

use super::answer::ToolAnswer;
use super::arguments::CallArguments;
use super::locate::{FoundImage, Located};
use super::observe::{Connection, Exchange, Scope};
use super::outcome::{self, CallOutcome};
use super::profile::{Profile, ToolProfile, follow};
use super::{recipe, redact, values};

/// An iteration to record.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Finding {
    /// The conversation.
    pub(crate) scope: Scope,
    /// The tool that was called.
    pub(crate) tool: String,
    /// The recipe: the prompt as typed, the reported model or else the requested one, `server/tool` as the provider,
    /// and as parameters all other arguments unchanged, with their origin under `mcp`.
    pub(crate) recipe: Recipe,
    /// The outcome.
    pub(crate) outcome: OutcomeStatus,
    /// The server's message, if it failed or was refused.
    pub(crate) message: Option<String>,
    /// The time from the request to the final result.
    pub(crate) duration_ms: u64,
    /// What it cost.
    pub(crate) cost: Option<Cost>,
    /// When the final result arrived.
    pub(crate) created_at: Option<Timestamp>,
    /// The images.
    pub(crate) images: Vec<FoundImage>,
    /// URLs in the result.
    pub(crate) urls: Vec<String>,
    /// The parent iteration.
    pub(crate) parent: Option<String>,
    /// The content hashes of input images that were not made on this connection.
    pub(crate) inputs: Vec<Hash>,
    /// The idempotency key if it was chosen earlier: a job keeps the one it was started with.
    pub(crate) key: Option<String>,
    /// Names by which a later call may refer to this iteration.
    pub(crate) names: Vec<String>,
    /// The source of each part.
    #[serde(skip)]
    pub(crate) trace: Vec<Note>,
}

/// The source of a part of a finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Note {
    /// The part.
    pub(crate) field: &'static str,
    /// The source.
    pub(crate) why: String,
}

/// The inputs of a finding.
pub(crate) struct Sources<'a> {
    /// The two ends of the connection.
    pub(crate) connection: &'a Connection,
    /// The name to use for a server that does not introduce itself.
    pub(crate) fallback_name: &'a str,
    /// The profile of the server.
    pub(crate) profile: Option<&'a Profile>,
    /// The profile of the tool.
    pub(crate) tool_profile: Option<&'a ToolProfile>,
    /// The tool.
    pub(crate) tool: &'a str,
    /// The parsed arguments.
    pub(crate) asked: &'a CallArguments,
}

impl Finding {
    /// Starts a finding from the arguments.
    pub(crate) fn asked(sources: &Sources<'_>, exchange: &Exchange) -> Finding {
        let Sources { connection, fallback_name, profile, tool_profile, tool, asked } = sources;
        let server = connection.server.as_ref();
        let server_name = server.map_or(*fallback_name, |server| server.name.as_str());
        let hidden = profile.map(|profile| profile.redact.arguments.as_slice()).unwrap_or_default();
        let recipe = Recipe {
            prompt: redact::text(&asked.prompt().unwrap_or_default()),
            provider: Some(format!("{server_name}/{tool}")),
            parameters: redact::object(&asked.recipe.parameters, hidden),
            ..asked.recipe.clone()
        };
        let mut finding = Finding { scope: exchange.scope, tool: (*tool).to_owned(), recipe, ..Finding::default() };
        for (field, argument) in &asked.sources {
            finding.note(field, format!("argument `{argument}`"));
        }
        if let Some(model) = tool_profile.and_then(|profile| profile.model.as_deref())
            && finding.recipe.model.is_none()
        {
            finding.recipe.model = Some(if model == "tool" { (*tool).to_owned() } else { model.to_owned() });
            finding.note("model", "the profile".to_owned());
        }
        if finding.recipe.prompt.trim().is_empty() {
            // Background removal has no prompt; the name of the tool says what was requested.
            finding.recipe.prompt = super::recognise::words(tool).join(" ");
            finding.note("prompt", "the name of the tool, since no argument is a prompt".to_owned());
        }
        let mut origin = Map::new();
        origin.insert("server".to_owned(), json!(server_name));
        if let Some(version) = server.map(|server| &server.version).filter(|version| !version.is_empty()) {
            origin.insert("serverVersion".to_owned(), json!(version));
        }
        origin.insert("tool".to_owned(), json!(tool));
        if let Some(profile) = profile {
            origin.insert("profile".to_owned(), json!(profile.name));
        }
        if let Some(count) = asked.count {
            origin.insert("count".to_owned(), json!(count));
        }
        if let Some(model) = &asked.recipe.model {
            origin.insert("requestedModel".to_owned(), json!(model));
        }
        finding.recipe.parameters.insert("mcp".to_owned(), Value::Object(origin));
        finding
    }

    /// Adds information from a result.
    pub(crate) fn answered(&mut self, answer: &ToolAnswer, tool_profile: Option<&ToolProfile>) {
        let chosen = |field: &str| {
            let path = tool_profile.and_then(|profile| profile.result.get(field))?;
            answer.values.iter().find_map(|value| follow(value, path))
        };
        let reported = chosen("model").or_else(|| answer.find(&["modelused", "modelid", "model", "modelname"]));
        let reported = reported.and_then(Value::as_str).map(str::to_owned);
        let reported = reported.or_else(|| labelled(answer, &["model", "modelused", "modelid", "modelname"]));
        if let Some(model) = reported.as_deref().filter(|model| is_name(model)) {
            self.origin("reportedModel", json!(model));
            if self.recipe.model.as_deref() != Some(model) {
                self.note("model", "reported in the result".to_owned());
            }
            self.recipe.model = Some(model.to_owned());
        }
        let seed = chosen("seed").or_else(|| answer.find(&["seed", "noiseseed", "seeds"]));
        let seed = seed.map(|seed| seed.as_array().and_then(|seeds| seeds.first()).unwrap_or(seed));
        let seed = seed.and_then(values::seed).or_else(|| outcome::seed_in_text(answer).map(Seed));
        if let Some(seed) = seed.filter(|seed| seed.0 > 0 || self.recipe.seed == Some(*seed))
            && self.recipe.seed != Some(seed)
        {
            self.recipe.seed = Some(seed);
            self.note("seed", "reported in the result".to_owned());
        }
        self.sent(chosen("promptSent").and_then(Value::as_str), answer);
        if let Some(cost) = outcome::cost(answer) {
            self.cost = Some(cost);
            self.note("cost", "reported in the result".to_owned());
        }
        if let Some(usage) = answer.find(&["usage"]).filter(|usage| usage.is_object()) {
            self.origin("usage", usage.clone());
        }
        for (key, list) in [("urls", &answer.urls), ("links", &answer.links)] {
            if !list.is_empty() {
                self.origin(key, json!(list.iter().take(64).map(|text| redact::text(text)).collect::<Vec<_>>()));
            }
        }
        self.names.extend(answer.urls.iter().cloned());
        self.urls.extend(answer.urls.iter().cloned());
        self.names.extend(outcome::ids(answer));
    }

    fn sent(&mut self, chosen: Option<&str>, answer: &ToolAnswer) {
        const KEYS: &[&str] = &[
            "revisedprompt",
            "enhancedprompt",
            "promptsent",
            "finalprompt",
            "expandedprompt",
            "optimizedprompt",
            "magicprompt",
            "actualprompt",
            "generationprompt",
            "improvedprompt",
        ];
        let named = chosen.or_else(|| answer.find(KEYS).and_then(Value::as_str)).map(str::to_owned);
        let named = named.or_else(|| labelled_line(answer, KEYS));
        let echoed = || {
            let echo = answer.find(&["prompt"]).and_then(Value::as_str)?;
            let shortened = echo.trim_end_matches(['.', '…']);
            (!self.recipe.prompt.starts_with(shortened)).then(|| echo.to_owned())
        };
        let sent = named.or_else(echoed).filter(|sent| !sent.trim().is_empty() && *sent != self.recipe.prompt);
        if let Some(sent) = sent {
            self.recipe.prompt_sent = Some(sent);
            self.note("promptSent", "reported in the result".to_owned());
        }
    }

    /// Adds the images, and missing information from their metadata.
    pub(crate) fn located(&mut self, located: Located) {
        let Located { images, missing, pre_existing, previews } = located;
        if !missing.is_empty() && images.is_empty() {
            self.origin("missingFiles", json!(missing));
        }
        if pre_existing {
            self.origin("preExisting", json!(true));
            self.note("images", "the file is older than the call".to_owned());
        }
        if previews > 0 {
            self.note("images", format!("{previews} in the result left out as previews of the files"));
        }
        for image in &images {
            self.note(
                "images",
                image.path.as_ref().map_or_else(|| "in the result".to_owned(), |path| format!("the file {path}")),
            );
            self.names.extend(image.path.clone());
            self.names.push(super::lineage::content_name(&image.bytes));
        }
        if let Some(first) = images.first() {
            self.fill(&first.bytes);
        }
        self.images = images;
    }

    /// Fills in missing fields from the image's metadata.
    fn fill(&mut self, bytes: &[u8]) {
        let reading = metadata::read(bytes);
        let Some(generator) = reading.generator else { return };
        let mut found = reading.recipe;
        // The prompt in the image is the prompt as it was sent.
        let sent = Some(found.prompt.trim()).filter(|sent| !sent.is_empty() && *sent != self.recipe.prompt.trim());
        found.prompt_sent = sent.map(str::to_owned);
        for field in recipe::fill_gaps(&mut self.recipe, found) {
            self.note(field, format!("the image, written by {}", generator.name()));
        }
    }

    /// Sets the outcome.
    pub(crate) fn ended(&mut self, ending: CallOutcome, why: &str, exchange: &Exchange, stderr: &str) {
        (self.outcome, self.message) = match ending {
            CallOutcome::Succeeded | CallOutcome::Pending(_) => (OutcomeStatus::Succeeded, None),
            CallOutcome::Failed(message) => (OutcomeStatus::Failed, Some(message)),
            CallOutcome::Refused(message) => (OutcomeStatus::Refused, Some(message)),
        };
        self.note("outcome", why.to_owned());
        self.duration_ms = exchange.ended.millis.saturating_sub(exchange.started.millis);
        self.created_at = Some(exchange.ended.wall);
        if exchange.cancelled {
            self.origin("cancelledByClient", json!(true));
        }
        if self.outcome != OutcomeStatus::Succeeded && !stderr.trim().is_empty() {
            self.origin("stderr", json!(redact::text(stderr)));
        }
    }

    /// Returns the id of the parent; `None` if there is none, or if it was not recorded.
    pub(crate) fn parent(&self) -> Option<IterationId> {
        self.parent.as_deref().and_then(|parent| parent.parse().ok())
    }

    /// Adds a fact about the origin of the iteration.
    pub(crate) fn origin(&mut self, key: &str, value: Value) {
        if let Some(Value::Object(origin)) = self.recipe.parameters.get_mut("mcp") {
            origin.insert(key.to_owned(), value);
        }
    }

    /// Records the source of a part.
    pub(crate) fn note(&mut self, field: &'static str, why: String) {
        self.trace.push(Note { field, why });
    }
}

/// Returns the rest of the line after one of these labels in prose: `**Revised prompt:** …`.
fn labelled_line(answer: &ToolAnswer, labels: &[&str]) -> Option<String> {
    let label = |line: &str| after_label(line, labels);
    answer.texts.iter().flat_map(|text| text.lines()).find_map(label)
}

/// Returns the name after one of these labels in prose, even among others on a line: `Model: flux-dev | Seed: 7`. JSON
/// is read by its keys instead.
fn labelled(answer: &ToolAnswer, labels: &[&str]) -> Option<String> {
    let prose = answer.texts.iter().filter(|text| !text.trim_start().starts_with(['{', '[']));
    let parts = prose.flat_map(|text| text.lines()).flat_map(|line| line.split(['|', '•', '·', ';']));
    let found = parts.into_iter().find_map(|part| after_label(part, labels))?;
    let end = found.find([',', '(']).unwrap_or(found.len());
    let name = found.get(..end)?.trim_matches([' ', '*', '"', '`', '\'', '.']);
    // A sentence after the label is not a name.
    (!name.is_empty() && name.split(' ').count() <= 6).then(|| name.to_owned())
}

fn after_label(line: &str, labels: &[&str]) -> Option<String> {
    let (label, rest) = line.split_once([':', '：'])?;
    let rest = rest.trim_matches([' ', '*', '"', '`']);
    (labels.contains(&redact::normalized(label).as_str()) && !rest.is_empty()).then(|| rest.to_owned())
}

fn is_name(text: &str) -> bool {
    !text.trim().is_empty() && text.len() <= 200 && !text.contains('\n')
}
