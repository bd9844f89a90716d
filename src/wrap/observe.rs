//! The observer: pairs requests with their responses in both directions, and passes on tool calls that may have made an
//! image. A pure state machine without clock, files or threads.

use std::collections::HashMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::model::Timestamp;

use super::message::{Direction, Id, RpcMessage};

/// The time at which something passed the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    /// Milliseconds on a monotonic clock.
    pub(crate) millis: u64,
    /// The wall-clock time.
    pub(crate) wall: Timestamp,
}

/// The conversation that a message belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Scope {
    /// The client: a single one on stdio; over HTTP one per session, and one for all requests without a session.
    pub(crate) group: u64,
    /// The request of a client without a session: over HTTP, ids are only unique within it.
    pub(crate) exchange: u64,
}

/// A program at one end of the connection, as it introduced itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Implementation {
    /// Its name.
    pub(crate) name: String,
    /// Its version; empty if it has none.
    pub(crate) version: String,
}

/// A tool from the server's list.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ListedTool {
    /// Its name.
    pub(crate) name: String,
    /// The server's description of it.
    pub(crate) description: String,
    /// Its arguments: the `properties` of the input schema.
    pub(crate) properties: Map<String, Value>,
}

/// What is known about the connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Connection {
    /// The server, once it introduced itself.
    pub(crate) server: Option<Implementation>,
    /// The client, once it introduced itself.
    pub(crate) client: Option<Implementation>,
    /// The tools listed so far, by name.
    pub(crate) tools: HashMap<String, ListedTool>,
}

/// A request with its response.
#[derive(Clone, Debug)]
pub(crate) struct Exchange {
    /// The conversation.
    pub(crate) scope: Scope,
    /// The request.
    pub(crate) ask: ObservedRequest,
    /// The result, or the JSON-RPC error.
    pub(crate) result: Result<Value, Value>,
    /// When the request passed; for a call in several rounds, the first one.
    pub(crate) started: Moment,
    /// When the response passed.
    pub(crate) ended: Moment,
    /// Whether the client cancelled the request before the response.
    pub(crate) cancelled: bool,
}

/// A request that may lead to an image.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ObservedRequest {
    /// `tools/call`.
    Call {
        /// The tool.
        tool: String,
        /// Its arguments.
        arguments: Value,
    },
    /// `resources/read` of this URI.
    Read(String),
    /// `tasks/get` or `tasks/result` of this task.
    Task(String),
}

/// Pairs requests with responses.
#[derive(Debug, Default)]
pub(crate) struct Observer {
    connection: Arc<Connection>,
    pending: HashMap<(Scope, Direction, Id), Pending>,
    /// Calls whose response asked for more input, waiting for the client to repeat them.
    rounds: Vec<Round>,
}

#[derive(Debug)]
struct Pending {
    kind: PendingKind,
    started: Moment,
    cancelled: bool,
}

#[derive(Debug)]
enum PendingKind {
    Ask(ObservedRequest),
    /// `initialize` or `server/discover`.
    Introduction,
    ToolList,
    Other,
}

#[derive(Debug)]
struct Round {
    scope: Scope,
    ask: ObservedRequest,
    state: Option<Value>,
    started: Moment,
}

/// The maximum number of requests remembered while they wait for a response; the oldest are dropped first.
const MAX_PENDING: usize = 10_000;
/// The maximum number of calls remembered between two rounds.
const MAX_ROUNDS: usize = 256;
/// The prefix of the `_meta` keys of the stateless protocol.
const META_PREFIX: &str = "io.modelcontextprotocol/";

impl Observer {
    /// Returns what is known about the connection.
    pub(crate) fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }

    /// Returns the number of pending requests whose response may complete an iteration.
    pub(crate) fn calls_in_flight(&self) -> usize {
        self.pending.values().filter(|pending| matches!(pending.kind, PendingKind::Ask(_))).count()
    }

    /// Processes a message, and returns the exchange that it completes, if that may concern an image.
    pub(crate) fn message(
        &mut self,
        scope: Scope,
        direction: Direction,
        message: RpcMessage,
        at: Moment,
    ) -> Option<Exchange> {
        match message {
            RpcMessage::Request { id, method, params } => {
                self.introduce_client(direction, &params);
                let (kind, started) = self.kind(scope, direction, &method, params, at);
                if self.pending.len() >= MAX_PENDING {
                    self.forget_oldest();
                }
                self.pending.insert((scope, direction, id), Pending { kind, started, cancelled: false });
                None
            }
            RpcMessage::Notification { method, params } => {
                if method == "notifications/cancelled"
                    && let Some(RpcMessage::Response { id, .. }) =
                        params.get("requestId").and_then(|id| super::message::message(answer_with(id)))
                    && let Some(pending) = self.pending.get_mut(&(scope, direction, id))
                {
                    // The response may still arrive: the image exists and was paid for.
                    pending.cancelled = true;
                }
                None
            }
            RpcMessage::Response { id, result } => {
                let pending = self.pending.remove(&(scope, direction.back(), id))?;
                if let Ok(Value::Object(result)) = &result {
                    self.introduce_server(result.get("_meta").and_then(Value::as_object), META_PREFIX);
                }
                self.answered(scope, pending, result, at)
            }
        }
    }

    fn kind(
        &mut self,
        scope: Scope,
        direction: Direction,
        method: &str,
        mut params: Map<String, Value>,
        at: Moment,
    ) -> (PendingKind, Moment) {
        if direction == Direction::ToClient {
            return (PendingKind::Other, at);
        }
        let text = |value: Option<Value>| match value {
            Some(Value::String(text)) => Some(text),
            _ => None,
        };
        let ask = match method {
            "initialize" => {
                if let Some(client) = params.get("clientInfo").and_then(peer) {
                    Arc::make_mut(&mut self.connection).client = Some(client);
                }
                return (PendingKind::Introduction, at);
            }
            "server/discover" => return (PendingKind::Introduction, at),
            "tools/list" => return (PendingKind::ToolList, at),
            "tools/call" => text(params.remove("name"))
                .map(|tool| ObservedRequest::Call { tool, arguments: params.remove("arguments").unwrap_or_default() }),
            "resources/read" => text(params.remove("uri")).map(ObservedRequest::Read),
            "tasks/result" | "tasks/get" => text(params.remove("taskId")).map(ObservedRequest::Task),
            _ => None,
        };
        let Some(ask) = ask else { return (PendingKind::Other, at) };
        let started = self.continued(scope, &ask, params.get("requestState")).unwrap_or(at);
        (PendingKind::Ask(ask), started)
    }

    /// Returns when the first round of a call passed, if this is a later round of it: the same request state or, if the
    /// server provided none, the only waiting call of the same tool.
    fn continued(&mut self, scope: Scope, ask: &ObservedRequest, state: Option<&Value>) -> Option<Moment> {
        let same_tool = |round: &Round| match (&round.ask, ask) {
            (ObservedRequest::Call { tool: one, .. }, ObservedRequest::Call { tool: other, .. }) => one == other,
            (one, other) => one == other,
        };
        let matching: Vec<usize> = self
            .rounds
            .iter()
            .enumerate()
            .filter(|(_, round)| round.scope == scope && same_tool(round) && round.state.as_ref() == state)
            .map(|(place, _)| place)
            .collect();
        match matching.as_slice() {
            [only] => Some(self.rounds.remove(*only).started),
            _ => None,
        }
    }

    fn answered(
        &mut self,
        scope: Scope,
        pending: Pending,
        result: Result<Value, Value>,
        ended: Moment,
    ) -> Option<Exchange> {
        let Pending { kind, started, cancelled } = pending;
        match kind {
            PendingKind::Other => None,
            PendingKind::Introduction => {
                if let Ok(Value::Object(result)) = &result {
                    self.introduce_server(Some(result), "");
                }
                None
            }
            PendingKind::ToolList => {
                let tools = result.ok().and_then(|mut result| result.get_mut("tools").map(Value::take));
                if let Some(Value::Array(tools)) = tools {
                    let named = tools.iter().filter_map(tool).map(|tool| (tool.name.clone(), tool));
                    Arc::make_mut(&mut self.connection).tools.extend(named);
                }
                None
            }
            PendingKind::Ask(ask) => {
                if let Ok(value) = &result
                    && value.get("resultType").and_then(Value::as_str) == Some("input_required")
                {
                    if self.rounds.len() >= MAX_ROUNDS {
                        self.rounds.remove(0);
                    }
                    self.rounds.push(Round { scope, ask, state: value.get("requestState").cloned(), started });
                    return None;
                }
                Some(Exchange { scope, ask, result, started, ended, cancelled })
            }
        }
    }

    fn introduce_client(&mut self, direction: Direction, params: &Map<String, Value>) {
        let info = params.get("_meta").and_then(|meta| meta.get(format!("{META_PREFIX}clientInfo")));
        if direction == Direction::ToServer
            && let Some(client) = info.and_then(peer)
            && self.connection.client.as_ref() != Some(&client)
        {
            Arc::make_mut(&mut self.connection).client = Some(client);
        }
    }

    fn introduce_server(&mut self, object: Option<&Map<String, Value>>, prefix: &str) {
        let info = object.and_then(|object| object.get(&format!("{prefix}serverInfo")));
        if let Some(server) = info.and_then(peer)
            && self.connection.server.as_ref() != Some(&server)
        {
            Arc::make_mut(&mut self.connection).server = Some(server);
        }
    }

    fn forget_oldest(&mut self) {
        let oldest = self.pending.iter().min_by_key(|(_, pending)| pending.started.millis).map(|(key, _)| key.clone());
        if let Some(oldest) = oldest {
            self.pending.remove(&oldest);
        }
    }
}

fn answer_with(id: &Value) -> Value {
    serde_json::json!({ "id": id, "result": null })
}

fn peer(info: &Value) -> Option<Implementation> {
    let text = |key: &str| info.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (name, version) = (text("name"), text("version"));
    (!name.is_empty()).then_some(Implementation { name, version })
}

fn tool(value: &Value) -> Option<ListedTool> {
    let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let properties = value.pointer("/inputSchema/properties").and_then(Value::as_object).cloned().unwrap_or_default();
    let name = text("name");
    (!name.is_empty()).then(|| ListedTool { name, description: text("description"), properties })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::message;
    use super::*;

    fn at(millis: u64) -> Moment {
        Moment { millis, wall: Timestamp::from_millis(1_765_000_000_000).unwrap() }
    }

    fn feed(observer: &mut Observer, direction: Direction, value: Value, millis: u64) -> Option<Exchange> {
        let mut last = None;
        for message in message::parse(value.to_string().as_bytes()) {
            last = observer.message(Scope::default(), direction, message, at(millis)).or(last);
        }
        last
    }

    use Direction::{ToClient, ToServer};

    fn call(id: Value) -> Value {
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "draw", "arguments": {"prompt": "a"}}})
    }

    #[test]
    fn ids_are_paired_by_direction_and_type() {
        let mut observer = Observer::default();
        assert!(feed(&mut observer, ToServer, call(json!(0)), 5).is_none());
        assert!(feed(&mut observer, ToServer, call(json!("0")), 6).is_none());
        // A server request with the same id, and the client's response to it.
        let elicit = json!({"id": 0, "method": "elicitation/create", "params": {}});
        assert!(feed(&mut observer, ToClient, elicit, 7).is_none());
        assert!(feed(&mut observer, ToServer, json!({"id": 0, "result": {"action": "accept"}}), 8).is_none());
        assert_eq!(observer.calls_in_flight(), 2);
        let done = feed(&mut observer, ToClient, json!({"id": "0", "result": {"content": []}}), 16).unwrap();
        assert_eq!((done.started.millis, done.ended.millis), (6, 16));
        let done = feed(&mut observer, ToClient, json!({"id": 0, "error": {"code": 1}}), 25).unwrap();
        assert_eq!((done.started.millis, done.result.is_err()), (5, true));
        assert!(feed(&mut observer, ToClient, json!({"id": 0, "result": {}}), 30).is_none(), "an answer to nothing");
    }

    #[test]
    fn batches_late_responses_and_several_rounds() {
        let mut observer = Observer::default();
        feed(&mut observer, ToServer, json!([call(json!(1)), call(json!(2))]), 0);
        let cancel = json!({"method": "notifications/cancelled", "params": {"requestId": 1}});
        feed(&mut observer, ToServer, cancel, 1);
        let late = feed(&mut observer, ToClient, json!({"id": 1, "result": {}}), 9).unwrap();
        assert!(late.cancelled);
        let more = json!({"id": 2, "result": {"resultType": "input_required", "requestState": "s"}});
        assert!(feed(&mut observer, ToClient, more, 10).is_none());
        let mut again = call(json!(3));
        again["params"]["requestState"] = json!("s");
        feed(&mut observer, ToServer, again, 50);
        let done = feed(&mut observer, ToClient, json!({"id": 3, "result": {"content": []}}), 60).unwrap();
        assert_eq!(done.started.millis, 0, "the first round counts");
    }

    #[test]
    fn clients_of_both_eras_are_identified() {
        let mut observer = Observer::default();
        let hello = json!({"id": 0, "method": "initialize", "params": {"clientInfo": {"name": "c", "version": "1"}}});
        feed(&mut observer, ToServer, hello, 0);
        feed(&mut observer, ToClient, json!({"id": 0, "result": {"serverInfo": {"name": "s", "version": "2"}}}), 0);
        assert_eq!(observer.connection().client.as_ref().unwrap().name, "c");
        assert_eq!(observer.connection().server.as_ref().unwrap().version, "2");

        let mut observer = Observer::default();
        let mut stateless = call(json!(0));
        stateless["params"]["_meta"] = json!({"io.modelcontextprotocol/clientInfo": {"name": "new"}});
        feed(&mut observer, ToServer, stateless, 0);
        let answer = json!({"id": 0, "result": {"_meta": {"io.modelcontextprotocol/serverInfo": {"name": "x"}}}});
        assert!(feed(&mut observer, ToClient, answer, 0).is_some());
        assert_eq!(observer.connection().client.as_ref().unwrap().name, "new");
        assert_eq!(observer.connection().server.as_ref().unwrap().name, "x");
    }
}
