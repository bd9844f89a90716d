//! The protocol itself: initialisation, versions, and invalid messages.

use serde_json::{Value, json};

use crate::client::{Era, TestWorkspace, initialize, meta};

#[tokio::test]
async fn every_version_with_initialize_is_answered_with_itself() {
    let workspace = TestWorkspace::new();
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let mut client = workspace.connect(Era::Initialize);
        let opened = client.request("initialize", initialize(version)).await;
        assert_eq!(opened["result"]["protocolVersion"], version);
        let capabilities = json!({
            "tools": {}, "prompts": {}, "completions": {}, "resources": { "subscribe": true, "listChanged": true },
            "extensions": { "io.modelcontextprotocol/ui": { "mimeTypes": ["text/html;profile=mcp-app"] } }
        });
        assert_eq!(opened["result"]["capabilities"], capabilities);
        assert_eq!(opened["result"]["serverInfo"]["name"], "retake");
        let listed = client.request("tools/list", json!({})).await;
        assert_eq!(listed["result"].get("resultType"), None, "older clients do not know it");
        assert_eq!(client.request("ping", json!({})).await["result"], json!({}));
        assert_eq!(client.call("list-sessions", json!({})).await.view["totalSessions"], 0);
    }
    let mut client = workspace.connect(Era::Initialize);
    let opened = client.request("initialize", initialize("1999-01-01")).await;
    assert_eq!(opened["result"]["protocolVersion"], "2025-11-25");
}

#[tokio::test]
async fn since_2026_every_request_carries_its_version() {
    let workspace = TestWorkspace::new();
    let mut client = workspace.connect(Era::Stateless);
    let discovered = client.request("server/discover", json!({})).await;
    let result = &discovered["result"];
    let versions: Vec<&str> =
        result["supportedVersions"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(versions.contains(&"2026-07-28") && versions.contains(&"2025-06-18"), "{versions:?}");
    assert_eq!(result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "retake");
    assert!(result["instructions"].as_str().unwrap().contains("record-iteration"));
    let listed = client.request("tools/list", json!({})).await;
    assert_eq!(listed["result"]["resultType"], "complete");
    assert!(listed["result"]["ttlMs"].as_u64().unwrap() > 0);
    assert_eq!(listed["result"]["cacheScope"], "public");

    let mut client = workspace.connect(Era::Stateless);
    assert_eq!(client.call("list-sessions", json!({})).await.view["totalSessions"], 0, "without discovering first");
    assert_eq!(client.refused("tools/list", json!({ "_meta": {} })).await, -32602);
    let mut unknown = meta();
    unknown["io.modelcontextprotocol/protocolVersion"] = json!("2099-01-01");
    assert_eq!(client.refused("tools/list", json!({ "_meta": unknown })).await, -32022);
    assert_eq!(client.refused("ping", json!({})).await, -32601);
}

#[tokio::test]
async fn invalid_requests_are_refused_with_their_error_code() {
    for era in Era::BOTH {
        let workspace = TestWorkspace::new();
        let mut client = workspace.client(era).await;
        assert_eq!(client.refused("tools/list", json!({ "cursor": "made up" })).await, -32602);
        assert_eq!(client.refused("tools/call", json!({ "name": "delete-session", "arguments": {} })).await, -32602);
        assert_eq!(client.refused("tools/call", json!({ "name": "list-sessions", "arguments": [1] })).await, -32602);
        assert_eq!(client.refused("tools/call", json!({})).await, -32602);
        assert_eq!(client.refused("sessions/delete", json!({})).await, -32601);
        assert_eq!(client.refused("prompts/get", json!({ "name": "no-such" })).await, -32602);
        assert_eq!(client.refused("resources/read", json!({ "uri": 7 })).await, -32602);
        let subscribing = client.refused("resources/subscribe", json!({})).await;
        assert_eq!(subscribing, if era == Era::Initialize { -32602 } else { -32601 }, "there is none of it since 2026");
        assert_eq!(client.refused("completion/complete", json!({ "ref": "resume" })).await, -32602);
        let without_arguments = client.request("tools/call", json!({ "name": "list-sessions" })).await;
        assert_eq!(without_arguments["result"]["isError"], false);
    }
}

#[tokio::test]
async fn a_bad_line_gets_an_error_and_affects_nothing_else() {
    for era in Era::BOTH {
        let workspace = TestWorkspace::new();
        let mut client = workspace.client(era).await;
        for (line, code, id) in [
            ("{\"jsonrpc\":\"2.0\",", -32700, Value::Null),
            ("garbage", -32700, Value::Null),
            ("[]", -32600, Value::Null),
            (r#"[{"jsonrpc":"2.0","id":1,"method":"tools/list"}]"#, -32600, Value::Null),
            (r#"{"jsonrpc":"2.0","id":77}"#, -32600, json!(77)),
            (r#"{"jsonrpc":"1.0","id":"x","method":"tools/list"}"#, -32600, json!("x")),
        ] {
            client.send(line).await;
            let answer = client.next().await.unwrap();
            assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(code), &id), "{line}: {answer}");
        }
        for line in ["", "  ", "\r", r#"{"jsonrpc":"2.0","method":"notifications/unheard-of"}"#, r#"{"method":"$/x"}"#]
        {
            client.send(line).await;
        }
        assert_eq!(client.call("list-sessions", json!({})).await.view["totalSessions"], 0);
    }
}

#[tokio::test]
async fn notifications_before_the_first_request_are_ignored() {
    for era in Era::BOTH {
        let workspace = TestWorkspace::new();
        let mut client = workspace.connect(era);
        client.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
        client.send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#).await;
        client.send(r#"{"jsonrpc":"2.0","id":9,"result":{}}"#).await;
        client.send(r#"{"jsonrpc":"2.0","id":10,"method":"tools/list"}"#).await;
        assert_eq!(client.next().await.unwrap()["error"]["code"], -32602, "neither era asks like this");
        client.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
        client.open().await;
        assert_eq!(client.call("list-sessions", json!({})).await.view["totalSessions"], 0);
    }
}

#[tokio::test]
async fn requests_before_the_end_of_input_are_answered() {
    for era in Era::BOTH {
        let workspace = TestWorkspace::new();
        let mut client = workspace.client(era).await;
        let record = json!({ "name": "record-iteration", "arguments": { "prompt": "a fox" } });
        let (line, id) = client.line("tools/call", record);
        // Without a line feed at its end.
        client.send_bytes(line.as_bytes()).await;
        client.hang_up();
        assert_eq!(client.next_answer().await.unwrap()["id"], id);
        assert_eq!(client.next_answer().await, None);
        let again = workspace.client(era).await.get("list-sessions", json!({})).await;
        assert_eq!(again["totalSessions"], 1);
    }
}
