//! Resources: the list, reading, and errors.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use retake_testutils::videos::MP4;
use serde_json::{Value, json};

use crate::client::{Client, Era, TestWorkspace};

/// Returns the error code for an unknown address.
fn not_found(era: Era) -> i64 {
    if era == Era::Initialize { -32002 } else { -32602 }
}

async fn read(client: &mut Client, uri: &str) -> Value {
    let response = client.request("resources/read", json!({ "uri": uri })).await;
    let contents = response["result"]["contents"].as_array().unwrap_or_else(|| panic!("{response}"));
    assert_eq!(contents.len(), 1);
    assert_eq!(contents[0]["uri"], uri);
    contents[0].clone()
}

#[tokio::test]
async fn resources_named_by_tools_can_be_read() {
    for era in Era::BOTH {
        let workspace = TestWorkspace::new();
        let mut client = workspace.client(era).await;
        let image = b"\x89PNG\r\n\x1a\nnot much of one";
        let images = json!([{ "data": STANDARD.encode(image) }, { "data": STANDARD.encode("II*\0another") }]);
        client.record("2025-12-11T10:00:00Z", json!({ "title": "Foxes", "images": images })).await;
        for (uri, tool, arguments) in [
            ("retake://sessions", "list-sessions", json!({})),
            (
                "retake://sessions/session-2025-12-11-001",
                "list-iterations",
                json!({ "sessionId": "session-2025-12-11-001" }),
            ),
            (
                "retake://iterations/session-2025-12-11-001/0",
                "get-iteration",
                json!({ "reference": "session-2025-12-11-001#0" }),
            ),
        ] {
            let contents = read(&mut client, uri).await;
            assert_eq!(contents["mimeType"], "application/json");
            assert_eq!(contents["text"], client.call(tool, arguments).await.text, "{uri}");
        }
        let picture = read(&mut client, "retake://iterations/session-2025-12-11-001/0/image").await;
        assert_eq!(STANDARD.decode(picture["blob"].as_str().unwrap()).unwrap(), image);
        assert_eq!(picture["mimeType"], "image/png");
        let further = read(&mut client, "retake://iterations/session-2025-12-11-001/0/image/1").await;
        assert_eq!(STANDARD.decode(further["blob"].as_str().unwrap()).unwrap(), b"II*\0another");
        // Images can be read at the URIs that the tool returns.
        let whole = client.get("get-iteration", json!({ "reference": "latest" })).await;
        for image in whole["images"].as_array().unwrap() {
            read(&mut client, image["uri"].as_str().unwrap()).await;
        }
    }
}

#[tokio::test]
async fn missing_resources_are_refused_as_each_protocol_era_requires() {
    for era in Era::BOTH {
        let workspace = TestWorkspace::new();
        let mut client = workspace.client(era).await;
        client.record("2025-12-11T10:00:00Z", json!({})).await;
        for uri in [
            "retake://sessions/session-2025-12-11-002",
            "retake://iterations/session-2025-12-11-001/1",
            "retake://iterations/session-2025-12-11-001/0/image",
            "retake://sessions/nonsense",
            "retake://workspaces",
            "file:///etc/passwd",
            "",
            &format!("retake://{}", "x".repeat(100_000)),
        ] {
            let response = client.request("resources/read", json!({ "uri": uri })).await;
            assert_eq!(response["error"]["code"], not_found(era), "{response}");
            assert!(response.to_string().len() < 2000);
        }
    }
}

#[tokio::test]
async fn large_values_that_are_not_images_have_no_address() {
    let workspace = TestWorkspace::new();
    let mut client = workspace.client(Era::Stateless).await;
    client
        .record(
            "2025-12-11T10:00:00Z",
            json!({ "images": [{ "data": STANDARD.encode([b"II*\0".to_vec(), vec![7; 519_997]].concat()) }] }),
        )
        .await;
    let uri = "retake://iterations/session-2025-12-11-001/0/image";
    let response = client.request("resources/read", json!({ "uri": uri })).await;
    assert!(response["error"]["message"].as_str().unwrap().contains("cannot be shown"), "{response}");
    let whole = client.call("get-iteration", json!({ "reference": "latest" })).await;
    assert!(whole.view["images"][0].get("uri").is_none(), "{}", whole.text);
    assert_eq!(whole.also, Vec::<Value>::new(), "no link that leads nowhere");
}

/// A video is linked, and sent completely only if it is small; otherwise the poster is sent instead.
#[tokio::test]
async fn a_video_is_linked_and_a_large_one_is_sent_as_its_poster() {
    let workspace = TestWorkspace::new();
    let mut client = workspace.client(Era::Stateless).await;
    let padding = [&600_008_u32.to_be_bytes()[..], b"free", &vec![0; 600_000]].concat();
    let large = [MP4, &padding].concat();
    let images = json!([{ "data": STANDARD.encode(MP4) }, { "data": STANDARD.encode(&large) }]);
    client.record("2025-12-11T10:00:00Z", json!({ "images": images })).await;
    for (number, uri, sent) in [
        (0, "retake://iterations/session-2025-12-11-001/0/image", "video/mp4"),
        (1, "retake://iterations/session-2025-12-11-001/0/image/1", "image/jpeg"),
    ] {
        let reply = client.call("get-iteration", json!({ "reference": "latest", "image": number })).await;
        assert_eq!(reply.view["images"][number]["mimeType"], "video/mp4");
        assert_eq!(reply.view["images"][number]["uri"], uri);
        let also = json!(reply.also).to_string();
        assert!(also.contains("poster of a video (video/mp4)"), "{also}");
        let link = reply.also.iter().find(|block| block["type"] == "resource_link").unwrap();
        assert_eq!((&link["uri"], &link["mimeType"]), (&uri.into(), &sent.into()));
        assert!(also.len() < 110_000, "{} bytes", also.len());
        let contents = read(&mut client, uri).await;
        assert_eq!(contents["mimeType"], sent);
        assert!(contents["blob"].as_str().unwrap().len() <= 700_000);
    }
}

#[tokio::test]
async fn the_list_contains_every_session_once() {
    for era in Era::BOTH {
        let workspace = TestWorkspace::new();
        let mut client = workspace.client(era).await;
        for _ in 0..230 {
            client.record("2025-12-11T10:00:00Z", json!({})).await;
        }
        let (mut uris, mut pages, mut cursor) = (Vec::new(), 0, None);
        loop {
            let page = client.request("resources/list", json!({ "cursor": cursor })).await["result"].clone();
            for resource in page["resources"].as_array().unwrap() {
                assert_eq!(resource["mimeType"], "application/json");
                assert!(resource["title"].is_string() && resource["description"].is_string(), "{resource}");
                uris.push(resource["uri"].as_str().unwrap().to_owned());
            }
            if era == Era::Stateless {
                assert_eq!((&page["ttlMs"], &page["cacheScope"]), (&json!(0), &json!("private")));
            }
            pages += 1;
            cursor = page["nextCursor"].as_str().map(str::to_owned);
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(pages, 3);
        assert_eq!(uris.first().map(String::as_str), Some("retake://sessions"));
        assert_eq!(uris.len(), 231);
        uris.sort();
        uris.dedup();
        assert_eq!(uris.len(), 231);

        // A cursor is only valid for its own list.
        let iterations = json!({ "sessionId": "session-2025-12-11-001", "limit": 1 });
        client.record("2025-12-11T11:00:00Z", json!({ "sessionId": "session-2025-12-11-001" })).await;
        let elsewhere = client.get("list-iterations", iterations).await["nextCursor"].clone();
        assert!(elsewhere.is_string());
        for cursor in [elsewhere, json!("made up")] {
            assert_eq!(client.refused("resources/list", json!({ "cursor": cursor })).await, -32602);
            let uri = format!("retake://sessions?cursor={}", cursor.as_str().unwrap());
            assert!(client.refused("resources/read", json!({ "uri": uri })).await < 0);
            for method in ["resources/templates/list", "prompts/list"] {
                assert_eq!(client.refused(method, json!({ "cursor": cursor })).await, -32602);
            }
        }
        let listed = client.get("list-sessions", json!({})).await;
        let uri = format!("retake://sessions?cursor={}", listed["nextCursor"].as_str().unwrap());
        let rest = 230 - listed["sessions"].as_array().unwrap().len();
        assert_eq!(read(&mut client, &uri).await["text"].as_str().unwrap().matches("createdAt").count(), rest);
    }
}

#[tokio::test]
async fn a_title_takes_one_short_line() {
    let workspace = TestWorkspace::new();
    let mut client = workspace.client(Era::Initialize).await;
    client.record("2025-12-11T10:00:00Z", json!({ "title": format!("Foxes and{}", " more".repeat(30)) })).await;
    client.get("archive-session", json!({ "sessionId": "session-2025-12-11-001" })).await;
    let list = client.request("resources/list", json!({})).await["result"]["resources"].clone();
    let title = list[1]["title"].as_str().unwrap();
    assert!(title.starts_with("Foxes and more") && title.len() <= 80, "{title}");
    assert_eq!(list[1]["name"], "session-2025-12-11-001");
    assert_eq!(list[1]["description"], "1 iteration, last modified 2025-12-11T10:00:00.000Z, archived.");
}

#[tokio::test]
async fn images_are_cached_and_lists_are_not() {
    let workspace = TestWorkspace::new();
    let mut client = workspace.client(Era::Stateless).await;
    client.record("2025-12-11T10:00:00Z", json!({ "images": [{ "data": STANDARD.encode("II*\0picture") }] })).await;
    for (uri, at_least, at_most) in [
        ("retake://sessions", 0, 0),
        ("retake://iterations/session-2025-12-11-001/0", 0, 0),
        ("retake://iterations/session-2025-12-11-001/0/image", 3_600_000, u64::MAX),
    ] {
        let result = client.request("resources/read", json!({ "uri": uri })).await["result"].clone();
        let ttl = result["ttlMs"].as_u64().unwrap();
        assert!((at_least..=at_most).contains(&ttl), "{uri}: {ttl}");
        assert_eq!(result["cacheScope"], "private");
    }
}
