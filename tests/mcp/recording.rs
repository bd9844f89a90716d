//! `record-iteration`, and reading the result back.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use retake_testutils::images::patterned;
use serde_json::{Value, json};

use crate::client::{Era, TestWorkspace, answer, initialize, meta};

/// One blue pixel.
const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPj/HwADBwIAMCbHYQAAAABJRU5ErkJggg==";

#[tokio::test]
async fn the_contracts_shape() {
    for era in Era::BOTH {
        let workspace = TestWorkspace::new();
        let mut client = workspace.client(era).await;
        let first = client.call("record-iteration", json!({ "prompt": "a fox" })).await;
        assert_eq!(
            first.text,
            r#"{"reference":"session-2025-12-11-001#0","session":{"id":"session-2025-12-11-001","createdAt":"2025-12-11T10:15:30.123Z","lastModifiedAt":"2025-12-11T10:15:30.123Z","iterationCount":1,"currentIterationIndex":0}}"#
        );
        workspace.at("2025-12-11T10:16:00.000Z");
        let second = client
            .call(
                "record-iteration",
                json!({ "prompt": "a fox", "sessionId": "session-2025-12-11-001", "title": "Foxes" }),
            )
            .await;
        assert_eq!(
            second.text,
            r#"{"reference":"session-2025-12-11-001#1","session":{"id":"session-2025-12-11-001","createdAt":"2025-12-11T10:15:30.123Z","lastModifiedAt":"2025-12-11T10:16:00.000Z","iterationCount":2,"currentIterationIndex":1,"title":"Foxes"}}"#
        );
    }
}

#[tokio::test]
async fn recorded_values_are_read_back() {
    for era in Era::BOTH {
        let workspace = TestWorkspace::new();
        let path = workspace.dir.path().join("fox.png");
        std::fs::write(&path, STANDARD.decode(PNG).unwrap()).unwrap();
        let mut client = workspace.client(era).await;
        client.record("2025-12-11T10:00:00Z", json!({})).await;
        let parameters = json!({ "zeta": 1, "alpha": { "deep": [1.5, null, true] }, "cfg_rescale": 0.70 });
        let reference = client
            .record(
                "2025-12-11T11:00:00Z",
                json!({
                    "sessionId": "session-2025-12-11-001", "parent": "session-2025-12-11-001#0", "seed": u64::MAX,
                    "steps": 30, "guidanceScale": 7.5, "loras": [{ "name": "fur", "weight": 0.8 }],
                    "cost": { "amount": 0.04, "currency": "USD" }, "parameters": parameters, "outcome": "refused",
                    "message": "policy", "images": [path.to_str().unwrap(), { "data": PNG, "mimeType": "image/png" }]
                }),
            )
            .await;
        assert_eq!(reference, "session-2025-12-11-001#1");
        let whole = client.call("get-iteration", json!({ "reference": reference, "includeImage": true })).await;
        let recipe = &whole.view["recipe"];
        assert_eq!(recipe["seed"], "18446744073709551615");
        assert_eq!(recipe["parameters"].to_string(), parameters.to_string(), "in the order they came");
        assert_eq!(whole.view["outcome"]["status"], "refused");
        assert_eq!(whole.view["parent"], "session-2025-12-11-001#0");
        let uri = "retake://iterations/session-2025-12-11-001/1/image";
        let link = json!({
            "type": "resource_link", "uri": uri, "name": "image", "title": "fox.png", "mimeType": "image/png", "size": 70
        });
        let [picture, linked] = whole.also.as_slice() else { panic!("{:?}", whole.also) };
        assert_eq!(*linked, link);
        assert_eq!((&picture["type"], &picture["mimeType"]), (&json!("image"), &json!("image/jpeg")));
        let thumbnail = STANDARD.decode(picture["data"].as_str().unwrap()).unwrap();
        let thumbnail = image::load_from_memory(&thumbnail).unwrap().to_rgb8();
        assert_eq!(thumbnail.dimensions(), (1, 1));
        let plain = client.call("get-iteration", json!({ "reference": reference })).await;
        assert_eq!((plain.view, plain.also), (whole.view.clone(), vec![link]));

        let list = client.get("list-iterations", json!({ "sessionId": "session-2025-12-11-001" })).await;
        assert_eq!((&list["totalIterations"], &list["returnedCount"]), (&json!(2), &json!(2)));
        assert_eq!(list["iterations"][1]["metadata"]["seed"], "18446744073709551615");
        let arguments = json!({ "sessionId": "session-2025-12-11-001", "includeImages": true });
        let pictured = client.call("list-iterations", arguments).await;
        assert_eq!(pictured.also[0]["text"], "session-2025-12-11-001#1:", "{:?}", pictured.also);
        let kinds: Vec<&Value> = pictured.also.iter().map(|block| &block["type"]).collect();
        assert_eq!(kinds, ["text", "image", "resource_link"]);

        let annotate = json!({ "reference": reference, "rating": 4, "tags": ["keeper"], "note": "the one" });
        assert_eq!(
            client.call("annotate-iteration", annotate).await.text,
            r#"{"reference":"session-2025-12-11-001#1","annotations":{"rating":4,"tags":["keeper"],"note":"the one"}}"#
        );
    }
}

/// A file that contains its recipe saves the agent from repeating it; the agent's own values take precedence.
#[tokio::test]
async fn fields_left_out_are_read_from_the_image() {
    let text = "a red fox, snow\nNegative prompt: blurry\nSteps: 20, Sampler: Euler a, CFG scale: 7, Seed: 42, \
                Size: 16x16, Model: dreamshaper";
    let file = patterned(1, &[("parameters", text)]);
    for era in Era::BOTH {
        let workspace = TestWorkspace::new();
        let path = workspace.dir.path().join("fox.png");
        std::fs::write(&path, &file).unwrap();
        let mut client = workspace.client(era).await;
        let images = [json!(path.to_str().unwrap()), json!({ "data": STANDARD.encode(&file) })];
        for image in images {
            let request = json!({ "prompt": "a red fox, snow", "steps": 30.0, "images": [image] });
            let recorded = client.get("record-iteration", request).await;
            let read = recorded["readFromImage"].as_array().unwrap();
            assert!(read.contains(&json!("seed")) && !read.contains(&json!("steps")), "{recorded}");
            let whole = client.get("get-iteration", json!({ "reference": recorded["reference"] })).await;
            let recipe = &whole["recipe"];
            assert_eq!((&recipe["seed"], &recipe["steps"]), (&json!("42"), &json!(30)), "{recipe}");
            assert_eq!((&recipe["model"], &recipe["negativePrompt"]), (&json!("dreamshaper"), &json!("blurry")));
            let other = json!({ "prompt": "a blue whale", "images": [image] });
            let recorded = client.get("record-iteration", other).await;
            assert_eq!(recorded.get("readFromImage"), None, "{recorded}");
            let warnings = recorded["warnings"].to_string();
            assert!(warnings.contains("#0/0: its metadata has another prompt"), "{warnings}");
        }
    }
}

#[tokio::test]
async fn a_lost_image_does_not_affect_the_recipe() {
    let workspace = TestWorkspace::new();
    let mut client = workspace.client(Era::Stateless).await;
    let gif = b"GIF89a\xff\xff\xff\xff\0\0\0,\0\0\0\0\xff\xff\xff\xff\0\x02\0;".to_vec();
    let tiff = b"II*\0no pixels".to_vec();
    for image in [STANDARD.decode(PNG).unwrap(), gif, tiff] {
        client.record("2025-12-11T10:00:00Z", json!({ "images": [{ "data": STANDARD.encode(image) }] })).await;
    }
    let mut message = Vec::new();
    for number in ["001", "002", "003"] {
        let arguments = json!({ "reference": format!("session-2025-12-11-{number}#0"), "includeImage": true });
        message.push(client.call("get-iteration", arguments).await.also[0].clone());
    }
    assert_eq!(message[0]["type"], "image");
    assert!(message[1]["text"].as_str().unwrap().contains("it has 65535 x 65535 pixels"), "{message:?}");
    assert!(message[2]["text"].as_str().unwrap().contains("images of type image/tiff are stored"), "{message:?}");

    let arguments = json!({ "reference": "session-2025-12-11-001#0", "includeImage": true });
    std::fs::remove_dir_all(workspace.dir.path().join("ws/images")).unwrap();
    let left = client.call("get-iteration", arguments.clone()).await;
    assert_eq!(left.also[0], message[0]);
    assert_eq!(left.also[1]["text"], "The original of this image is gone; only the thumbnail is left.");
    std::fs::remove_dir_all(workspace.dir.path().join("ws/cache")).unwrap();
    let gone = client.call("get-iteration", arguments).await;
    assert_eq!(gone.also[0]["text"], "The image is not sent: its file is gone.");
    assert_eq!(gone.view["recipe"]["prompt"], "a fox");
}

#[tokio::test]
async fn the_audit_trail_names_the_client_and_the_user() {
    let workspace = TestWorkspace::new();
    let mut nameless = meta();
    nameless.as_object_mut().unwrap().remove("io.modelcontextprotocol/clientInfo");
    let arguments = json!({ "name": "record-iteration", "arguments": { "prompt": "a fox" } });

    let mut client = workspace.connect(Era::Initialize);
    let mut opening = initialize("2025-06-18");
    opening["clientInfo"] = json!({ "name": "studio\n", "version": "1.2" });
    client.request("initialize", opening).await;
    answer(&client.request("tools/call", arguments.clone()).await);

    let mut client = workspace.client(Era::Stateless).await;
    answer(&client.request("tools/call", arguments.clone()).await);
    let mut arguments = arguments;
    arguments["_meta"] = nameless;
    answer(&client.request("tools/call", arguments).await);

    let mut actors = Vec::new();
    for number in 1..=3 {
        let audit =
            client.get("audit-session", json!({ "sessionId": format!("session-2025-12-11-{number:03}") })).await;
        assert_eq!(audit["chain"], json!({ "holds": true, "faults": [] }));
        actors.push(audit["events"][0]["actor"].clone());
    }
    let actor = |client: &str| json!({ "client": client, "user": "ada" });
    assert_eq!(actors, [actor("studio 1.2"), actor("judge 9.9"), actor("unknown MCP client")]);
}

#[tokio::test]
async fn a_retry_records_nothing_twice() {
    let workspace = TestWorkspace::new();
    let mut client = workspace.client(Era::Stateless).await;
    let arguments = json!({ "prompt": "a fox", "idempotencyKey": "k1" });
    let first = client.call("record-iteration", arguments.clone()).await.text;
    assert_eq!(client.call("record-iteration", arguments).await.text, first);
    assert_eq!(client.get("list-sessions", json!({})).await["totalSessions"], 1);
}

#[tokio::test]
async fn many_calls_at_once_are_all_answered() {
    let workspace = TestWorkspace::new();
    let mut client = workspace.client(Era::Initialize).await;
    client.record("2025-12-11T10:00:00Z", json!({})).await;
    let mut lines = String::new();
    for _ in 0..60 {
        let arguments = json!({ "prompt": "a fox", "sessionId": "session-2025-12-11-001" });
        let (line, _) = client.line("tools/call", json!({ "name": "record-iteration", "arguments": arguments }));
        lines.push_str(&line);
        lines.push('\n');
    }
    client.send_bytes(lines.as_bytes()).await;
    let mut seen = Vec::new();
    for _ in 0..60 {
        let response: Value = client.next_answer().await.unwrap();
        seen.push(answer(&response).view["reference"].as_str().unwrap().to_owned());
    }
    seen.sort();
    let mut expected: Vec<String> = (1..=60).map(|index| format!("session-2025-12-11-001#{index}")).collect();
    expected.sort();
    assert_eq!(seen, expected);
}
