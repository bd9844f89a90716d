//! Invalid and malicious messages: each gets a response, nothing crashes, and nothing is half-written.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::client::{Client, Era, TestWorkspace};
use crate::process;

/// Returns an image that claims to have this many pixels, and has none.
fn picture_that_claims(width: u32, height: u32) -> Vec<u8> {
    let mut png = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR".to_vec();
    png.extend(width.to_be_bytes());
    png.extend(height.to_be_bytes());
    png.extend([8, 6, 0, 0, 0]);
    let sum = crc32fast::hash(&png[12..]);
    png.extend(sum.to_be_bytes());
    png
}

async fn sessions(client: &mut Client) -> Value {
    client.get("list-sessions", json!({})).await["totalSessions"].clone()
}

#[tokio::test]
async fn wrong_types_everywhere() {
    for era in Era::BOTH {
        let workspace = TestWorkspace::new();
        let mut client = workspace.client(era).await;
        for method in [
            "tools/list",
            "tools/call",
            "resources/list",
            "resources/read",
            "resources/templates/list",
            "prompts/list",
            "prompts/get",
            "completion/complete",
        ] {
            for params in
                [json!({ "cursor": 7, "name": 7, "uri": [], "ref": 1, "arguments": "x" }), json!({ "name": {} })]
            {
                let response = client.request(method, params.clone()).await;
                let code = response["error"]["code"].as_i64();
                // rmcp ignores parameters it cannot parse if all of them are optional.
                let ignores_them = method.ends_with("list");
                assert!(code == Some(-32602) || (ignores_them && code.is_none()), "{method} {params}: {response}");
            }
        }
        for tool in client.request("tools/list", json!({})).await["result"]["tools"].as_array().unwrap() {
            let name = tool["name"].as_str().unwrap();
            for (argument, schema) in tool["inputSchema"]["properties"].as_object().unwrap() {
                // No method accepts both.
                for wrong in [json!({ "no": { "such": "thing" } }), json!([[]])] {
                    if argument == "parameters" && wrong.is_object() {
                        continue;
                    }
                    let mut arguments = json!({
                        "prompt": "a", "reference": "latest", "references": ["latest", "latest"],
                        "sessionId": "session-2025-12-11-001"
                    });
                    let takes = tool["inputSchema"]["properties"].as_object().unwrap();
                    arguments.as_object_mut().unwrap().retain(|key, _| takes.contains_key(key));
                    arguments[argument] = wrong;
                    let error = client.fail(name, arguments).await;
                    assert_eq!(error["kind"], "invalid", "{name} {argument} {schema}: {error}");
                    assert!(error["message"].as_str().unwrap().contains(&format!("`{argument}")), "{name}: {error}");
                }
            }
        }
        assert_eq!(sessions(&mut client).await, 0);
    }
}

#[tokio::test]
async fn twenty_megabytes_of_arguments() {
    for era in Era::BOTH {
        let workspace = TestWorkspace::new();
        let mut client = workspace.client(era).await;
        let huge = "x".repeat(20_000_000);
        let error = client.fail("record-iteration", json!({ "prompt": huge })).await;
        assert_eq!(error["kind"], "invalid");
        let error = client.fail("record-iteration", json!({ "prompt": "a", huge.as_str(): 1 })).await;
        assert_eq!(error["kind"], "invalid");
        assert!(error.to_string().len() < 5000, "it quotes little");
        for tool in ["list-sessions", "get-iteration"] {
            client.fail(tool, json!({ "reference": huge, "cursor": huge })).await;
        }
        assert!(client.refused("resources/read", json!({ "uri": huge })).await < 0);
        assert!(client.refused(&huge, json!({})).await < 0);
        // Parameters are kept as they are, within a documented limit.
        let answer =
            client.call("record-iteration", json!({ "prompt": "a", "parameters": { "workflow": huge } })).await;
        let kept = u64::from(!answer.failed);
        assert_eq!(sessions(&mut client).await, kept);
    }
}

#[tokio::test]
async fn files_that_are_not_images_and_images_with_false_sizes() {
    for era in Era::BOTH {
        let workspace = TestWorkspace::new();
        let mut client = workspace.client(era).await;
        for data in ["not base64!", "data:image/png,abc", "", "A"] {
            let error = client.fail("record-iteration", json!({ "prompt": "a", "images": [{ "data": data }] })).await;
            assert_eq!(error["kind"], "invalid");
            assert!(error["message"].as_str().unwrap().contains("images[0]"), "{error}");
        }
        for path in ["/", "/dev/zero", "/no/such/file", "", "\u{0}", &"x".repeat(10_000)] {
            let error = client.fail("record-iteration", json!({ "prompt": "a", "images": [path] })).await;
            assert_eq!(error["kind"], "invalid", "{error}");
        }
        assert_eq!(sessions(&mut client).await, 0);

        // Small as a file and enormous as an image: it is stored and described, and never decoded into memory.
        let bomb = STANDARD.encode(picture_that_claims(u32::MAX / 2, u32::MAX / 2));
        client.record("2025-12-11T10:00:00Z", json!({ "images": [{ "data": bomb }] })).await;
        // Ten megabytes of one letter.
        let flood = "A".repeat(10_000_000);
        let answer = client.call("record-iteration", json!({ "prompt": "a", "images": [{ "data": flood }] })).await;
        let whole = client.call("get-iteration", json!({ "reference": "latest", "includeImage": true })).await;
        assert!(!whole.failed, "{}", whole.text);
        client.get("audit-session", json!({ "sessionId": "session-2025-12-11-001" })).await;
        assert_eq!(sessions(&mut client).await, 1 + u64::from(!answer.failed));
    }
}

#[tokio::test]
async fn overlong_and_deeply_nested_lines_affect_only_themselves() {
    let workspace = TestWorkspace::new();
    let mut client = workspace.client(Era::Stateless).await;
    client.send(&"[".repeat(1_000_000)).await;
    assert_eq!(client.next_answer().await.unwrap()["error"]["code"], -32700);
    let deep = format!("{}1{}", "{\"a\":".repeat(5000), "}".repeat(5000));
    client.send(&format!(r#"{{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{deep}}}"#)).await;
    let answer = client.next_answer().await.unwrap();
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(5), &json!(-32700)), "{answer}");
    let lone = r#"{"jsonrpc":"2.0","method":"tools/call","params":{"prompt":"\ud83d"},"id":"lone"}"#;
    client.send(lone).await;
    let answer = client.next_answer().await.unwrap();
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!("lone"), &json!(-32700)), "{answer}");
    let mut long = br#"{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"x":""#.to_vec();
    long.resize(65 * 1024 * 1024, b'x');
    client.send_bytes(&long).await;
    client.send("").await;
    let answer = client.next_answer().await.unwrap();
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(6), &json!(-32600)), "{answer}");
    client.send("\u{feff}").await;
    assert_eq!(client.next_answer().await.unwrap()["error"]["code"], -32700);
    assert_eq!(sessions(&mut client).await, 0);
}

#[cfg(unix)]
#[tokio::test]
async fn a_path_outside_the_roots_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (workspace, root) = (dir.path().join("ws"), dir.path().join("pictures"));
    std::fs::create_dir(&root).unwrap();
    std::fs::write(root.join("fox.png"), picture_that_claims(2, 2)).unwrap();
    std::fs::write(dir.path().join("secret"), "my key").unwrap();
    std::os::unix::fs::symlink(dir.path().join("secret"), root.join("link.png")).unwrap();
    for by_variable in [false, true] {
        let (child, mut client) = process::start_with(&workspace, Era::Stateless, |command| {
            if by_variable {
                command.env("RETAKE_ROOTS", &root);
            } else {
                command.arg("--root").arg(&root);
            }
        })
        .await;
        let outside = [dir.path().join("secret"), root.join("../secret"), root.join("link.png"), "/etc/passwd".into()];
        for path in outside {
            let error = client.fail("record-iteration", json!({ "prompt": "a", "images": [path] })).await;
            assert_eq!(error["kind"], "invalid");
            assert!(error["hint"].as_str().unwrap().contains("base64"), "{error}");
        }
        let before = sessions(&mut client).await.as_u64().unwrap();
        client.get("record-iteration", json!({ "prompt": "a", "images": [root.join("fox.png")] })).await;
        assert_eq!(sessions(&mut client).await, before + 1);
        process::end(child, client).await;
    }
}
