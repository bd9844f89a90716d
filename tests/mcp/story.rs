//! A workflow from its first attempt to the audit, as an agent does it: two processes in sequence, using only what the
//! tools return.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::client::{Client, Era};
use crate::process::{end, start};

/// Returns an image of 48 by 32 pixels in this grey, as base64.
fn picture(grey: u8) -> String {
    let mut bytes = std::io::Cursor::new(Vec::new());
    let pixels = image::GrayImage::from_pixel(48, 32, image::Luma([grey]));
    pixels.write_to(&mut bytes, image::ImageFormat::Png).unwrap();
    STANDARD.encode(bytes.into_inner())
}

async fn record(client: &mut Client, arguments: Value) -> String {
    let recorded = client.get("record-iteration", arguments).await;
    recorded["reference"].as_str().unwrap().to_owned()
}

/// Returns the kind and the hint of an error.
async fn refused(client: &mut Client, tool: &str, arguments: Value) -> (String, String) {
    let response = client.request("tools/call", json!({ "name": tool, "arguments": arguments })).await;
    assert_eq!(response["result"]["isError"], true, "{response}");
    let error = &response["result"]["structuredContent"]["error"];
    let text = |field: &str| error[field].as_str().unwrap().to_owned();
    (text("kind"), text("hint"))
}

#[tokio::test]
async fn from_the_first_attempt_to_the_auditor() {
    for (writer, reader) in [(Era::Initialize, Era::Stateless), (Era::Stateless, Era::Initialize)] {
        let dir = tempfile::tempdir().unwrap();
        let (child, mut client) = start(dir.path(), writer).await;
        client.get("list-sessions", json!({})).await;
        let nothing = refused(&mut client, "resume-session", json!({})).await;
        assert_eq!(nothing.0, "notFound");

        // Iterate: an attempt, a reroll, a change, a refusal.
        let first = json!({
            "prompt": "a fox, (red fur:1.2), snow", "model": "sdxl", "seed": "18446744073709551615", "steps": 20,
            "createdAt": "2025-12-11T10:00:00Z", "title": "Foxes", "parameters": { "clipSkip": 2 },
            "images": [{ "data": picture(40) }]
        });
        let first = record(&mut client, first).await;
        assert_eq!(first, "session-2025-12-11-001#0");
        let session = "session-2025-12-11-001";
        let with = |changes: Value| {
            let mut recipe = json!({
                "sessionId": session, "prompt": "a fox, (red fur:1.2), snow", "model": "sdxl", "seed": 2, "steps": 20,
                "parameters": { "clipSkip": 2 }
            });
            recipe.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
            recipe
        };
        record(&mut client, with(json!({ "createdAt": "2025-12-11T10:01:00Z" }))).await;
        let liked = json!({
            "prompt": "a fox, (red fur:1.35), snow, dawn", "steps": 30, "images": [{ "data": picture(200) }],
            "createdAt": "2025-12-11T10:02:00Z"
        });
        let liked = record(&mut client, with(liked)).await;
        let rating = json!({ "reference": liked, "rating": 5, "note": "the light is right", "tags": ["hero"] });
        client.get("annotate-iteration", rating).await;
        let refusal =
            json!({ "prompt": "a fox, (red fur:1.35), snow, dawn, blood", "outcome": "refused", "message": "policy" });
        record(&mut client, with(refusal)).await;

        // Go back to the earlier one that was liked.
        let back = record(&mut client, with(json!({ "prompt": "a fox, (red fur:1.35), dawn", "parent": liked }))).await;
        assert_eq!(back, format!("{session}#4"));
        end(child, client).await;

        // Another process, another day.
        let (child, mut client) = start(dir.path(), reader).await;
        let resumed = client.call("resume-session", json!({})).await;
        let view = &resumed.view;
        assert_eq!(view["reference"], back);
        let steps: Vec<(&str, &Value)> = view["story"]
            .as_array()
            .unwrap()
            .iter()
            .map(|step| (step["summary"].as_str().unwrap(), &step["rerolls"]))
            .collect();
        assert_eq!(
            steps,
            [
                ("a fox, (red fur:1.2), snow", &json!(1)),
                ("~red fur 1.2→1.35  +dawn  steps 20→30", &Value::Null),
                ("-snow  steps 30→20", &Value::Null),
            ]
        );
        assert_eq!(view["liked"][0]["reference"], liked);
        assert_eq!(view["liked"][0]["note"], "the light is right");
        assert_eq!(view["branches"][0]["reference"], format!("{session}#3"));
        assert_eq!(view["branches"][0]["fork"], liked);
        assert_eq!(view["recipe"]["parameters"], json!({ "clipSkip": 2 }));
        assert_eq!(resumed.also, Vec::<Value>::new(), "this one has no picture");
        let pictured = client.call("resume-session", json!({ "reference": liked })).await;
        let kinds: Vec<Option<&str>> = pictured.also.iter().map(|block| block["type"].as_str()).collect();
        assert_eq!(kinds, [Some("image"), Some("resource_link")]);

        // Send back the returned recipe, with one change, into a new session.
        let mut next = view["recipe"].clone();
        next["parent"] = view["next"]["parent"].clone();
        next["prompt"] = json!("a fox, (red fur:1.35), dawn, mist");
        next["createdAt"] = json!("2025-12-12T09:00:00Z");
        let elsewhere = record(&mut client, next).await;
        assert_eq!(elsewhere, "session-2025-12-12-001#0");
        let compared =
            client.get("compare-iterations", json!({ "references": [first, elsewhere], "render": "none" })).await;
        assert_eq!(
            compared["differences"][0]["summary"],
            "~red fur 1.2→1.35  -snow  +dawn  +mist  seed 18446744073709551615→2"
        );
        assert_eq!(compared["lineage"], json!({ "commonAncestor": first, "steps": [0, 4] }));
        assert_eq!(compared["parameters"], json!([{ "name": "seed", "values": ["18446744073709551615", "2"] }]));
        let there = client.get("resume-session", json!({ "reference": elsewhere })).await;
        assert_eq!(there["story"].as_array().unwrap().len(), 4, "through both sessions");

        // Archive it: it accepts no more, says what to do, and accepts more again after restoring.
        client.get("archive-session", json!({ "sessionId": session, "reason": "delivered" })).await;
        let (kind, hint) = refused(&mut client, "record-iteration", with(json!({}))).await;
        assert_eq!(kind, "archived");
        assert!(hint.contains("restore") && hint.contains("parent"), "{hint}");
        let archived = client.get("resume-session", json!({ "reference": session })).await;
        assert_eq!(archived["next"], json!({ "parent": back }), "no session to add to");
        assert_eq!(client.get("resume-session", json!({})).await["reference"], elsewhere, "the one that is active");
        client.get("restore-session", json!({ "sessionId": session, "reason": "changes" })).await;
        record(&mut client, with(json!({}))).await;

        let audit = client.get("audit-session", json!({ "sessionId": session })).await;
        assert_eq!(audit["chain"], json!({ "holds": true, "faults": [] }));
        let kinds: Vec<&str> =
            audit["events"].as_array().unwrap().iter().map(|event| event["kind"].as_str().unwrap()).collect();
        assert_eq!(
            kinds,
            [
                "started",
                "recorded",
                "recorded",
                "recorded",
                "annotated",
                "recorded",
                "recorded",
                "archived",
                "restored",
                "recorded"
            ]
        );
        assert_eq!(audit["events"][7]["reason"], "delivered");
        end(child, client).await;
    }
}
