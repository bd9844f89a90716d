//! JSON-RPC messages as the observer sees them: requests, responses and notifications, single or in a batch.
//!
//! Nothing here is ever written to the wire; a line that cannot be parsed yields no messages.

use std::fmt;

use serde_json::{Map, Value};

/// A direction through the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Direction {
    /// From the client to the server.
    ToServer,
    /// From the server to the client.
    ToClient,
}

impl Direction {
    /// Returns the direction of the response to a message of this direction.
    pub(crate) fn back(self) -> Direction {
        match self {
            Direction::ToServer => Direction::ToClient,
            Direction::ToClient => Direction::ToServer,
        }
    }
}

/// A request id: a number or a string, which are different ids even if they look alike.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Id(String);

impl Id {
    fn new(value: &Value) -> Option<Id> {
        matches!(value, Value::Number(_) | Value::String(_)).then(|| Id(value.to_string()))
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A JSON-RPC message.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum RpcMessage {
    /// A request, which expects a response.
    Request {
        /// Its id, unique per direction.
        id: Id,
        /// The method.
        method: String,
        /// The parameters; an empty object if there are none.
        params: Map<String, Value>,
    },
    /// A notification.
    Notification {
        /// The method.
        method: String,
        /// The parameters; an empty object if there are none.
        params: Map<String, Value>,
    },
    /// The response to a request.
    Response {
        /// The id of the request.
        id: Id,
        /// The result, or the error object.
        result: Result<Value, Value>,
    },
}

/// Parses a line into messages: none if it is not JSON-RPC, several if it is a batch.
pub(crate) fn parse(line: &[u8]) -> Vec<RpcMessage> {
    let line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line);
    match serde_json::from_slice(line) {
        Ok(Value::Array(batch)) => batch.into_iter().filter_map(message).collect(),
        Ok(value) => message(value).into_iter().collect(),
        Err(_) => Vec::new(),
    }
}

/// Parses one message from its JSON value.
pub(crate) fn message(value: Value) -> Option<RpcMessage> {
    let Value::Object(mut object) = value else { return None };
    let id = object.get("id").and_then(Id::new);
    if let Some(Value::String(method)) = object.remove("method") {
        let params = match object.remove("params") {
            Some(Value::Object(params)) => params,
            _ => Map::new(),
        };
        return Some(match id {
            Some(id) => RpcMessage::Request { id, method, params },
            None => RpcMessage::Notification { method, params },
        });
    }
    let id = id?;
    if let Some(error) = object.remove("error").filter(|error| !error.is_null()) {
        return Some(RpcMessage::Response { id, result: Err(error) });
    }
    object.remove("result").map(|result| RpcMessage::Response { id, result: Ok(result) })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ids_keep_their_type_and_zero_is_valid() {
        let ids: Vec<String> = parse(br#"[{"id":0,"result":{}},{"id":"0","result":{}},{"id":null,"result":{}}]"#)
            .into_iter()
            .map(|message| match message {
                RpcMessage::Response { id, .. } => id.to_string(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(ids, ["0", "\"0\""]);
    }

    #[test]
    fn messages_are_classified_by_their_members() {
        assert!(matches!(message(json!({"method": "a", "id": 1})), Some(RpcMessage::Request { .. })));
        assert!(matches!(message(json!({"method": "a"})), Some(RpcMessage::Notification { .. })));
        assert!(matches!(message(json!({"id": 1, "error": {}})), Some(RpcMessage::Response { result: Err(_), .. })));
        for line in ["Starting server", "", "7", "{}", "[1]", "{\"id\":1}"] {
            assert_eq!(parse(line.as_bytes()), [], "{line}");
        }
    }
}
