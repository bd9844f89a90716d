//! An agent's day, with the sizes of what it reads: it finds a session among many, resumes one of 400 iterations,
//! compares, searches, rates and audits, and reads every original. Responses that a client would truncate or move to a
//! file are too large.

use std::io::Cursor;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use image::{ImageFormat, Rgb, RgbImage};
use serde_json::{Value, json};

use crate::client::{Client, Era, TestWorkspace};

/// The default maximum size of a response's text.
const MAX_DEFAULT: usize = 24_000;
/// The maximum size of the response for resuming a long session.
const MAX_RESUME: usize = 8_000;
const LONG: &str = "session-2025-12-11-001";

/// Returns an image of noise, which no format compresses.
fn noise(side: u32) -> Vec<u8> {
    let mut state = 12345_u32;
    let image = RgbImage::from_fn(side, side, |_, _| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let [a, b, c, _] = state.to_le_bytes();
        Rgb([a, b, c])
    });
    let mut file = Cursor::new(Vec::new());
    image.write_to(&mut file, ImageFormat::Png).unwrap();
    file.into_inner()
}

/// Records a session of 400 different iterations, and 120 further sessions.
async fn a_lot_of_work(client: &mut Client) {
    for number in 0..400_u32 {
        let words = ["harbour", "dusk", "fog", "gulls", "lighthouse", "boats", "storm", "calm"];
        let chosen: Vec<&str> = (0..8).filter(|bit| number >> bit & 1 == 1).map(|bit| words[bit]).collect();
        let prompt = format!("a painting of a harbour town, {}, oil on canvas, take {number}", chosen.join(", "));
        let mut more = json!({
            "prompt": prompt, "model": "sdxl-base-1.0", "seed": number, "steps": 20 + number % 5, "guidanceScale": 7.5,
            "sampler": "dpmpp_2m", "width": 1024, "height": 1024, "generationTimeMs": 8000 + number,
        });
        if number > 0 {
            more["sessionId"] = json!(LONG);
        }
        if number % 50 == 7 {
            more["outcome"] = json!("refused");
            more["message"] = json!("blocked by the safety system: please try another wording");
        }
        let reference = client.record("2025-12-11T10:00:00Z", more).await;
        if number % 40 == 3 {
            let note = "the light is right, the boats are not";
            client.get("annotate-iteration", json!({ "reference": reference, "rating": 4, "note": note })).await;
        }
    }
    for number in 0..120 {
        let more = json!({ "title": format!("Study {number} of the harbour at dusk"), "project": "Harbour" });
        client.record("2025-12-10T10:00:00Z", more).await;
    }
}

#[tokio::test]
async fn every_default_answer_is_small() {
    let workspace = TestWorkspace::new();
    let mut client = workspace.client(Era::Stateless).await;
    a_lot_of_work(&mut client).await;
    let twelve: Vec<String> = (0..12).map(|number| format!("{LONG}#{}", number * 30)).collect();
    for (tool, arguments, most) in [
        ("list-sessions", json!({}), MAX_DEFAULT),
        ("list-projects", json!({}), MAX_DEFAULT),
        ("list-iterations", json!({ "sessionId": LONG }), MAX_DEFAULT),
        ("search-iterations", json!({ "query": "harbour" }), MAX_DEFAULT),
        ("search-iterations", json!({ "query": "safety" }), MAX_DEFAULT),
        ("resume-session", json!({ "reference": LONG }), MAX_RESUME),
        ("get-iteration", json!({ "reference": LONG }), MAX_DEFAULT),
        ("compare-iterations", json!({ "references": twelve }), MAX_DEFAULT),
        ("compare-iterations", json!({ "references": [format!("{LONG}#1"), LONG] }), MAX_DEFAULT),
        ("audit-session", json!({ "sessionId": LONG }), MAX_DEFAULT),
    ] {
        let answer = client.call(tool, arguments).await;
        assert!(!answer.failed, "{tool}: {}", answer.text);
        assert!(answer.text.len() <= most, "{tool} takes {} bytes, and at most {most} are wanted", answer.text.len());
    }

    // All of it is still available, a page at a time, and in larger pages on request.
    let (mut seen, mut cursor) = (0, Value::Null);
    loop {
        let page = client.get("list-iterations", json!({ "sessionId": LONG, "cursor": cursor })).await;
        seen += page["iterations"].as_array().unwrap().len();
        cursor = page["nextCursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    assert_eq!(seen, 400);
    let small = client.call("list-iterations", json!({ "sessionId": LONG })).await.text.len();
    let large = client.call("list-iterations", json!({ "sessionId": LONG, "maxChars": 60_000.0 })).await.text.len();
    assert!(small * 2 < large && large <= 60_000, "{small}, {large}");
    let whole = client.get("resume-session", json!({ "reference": LONG, "maxChars": 60_000 })).await;
    assert_eq!(whole["story"].as_array().unwrap().len(), 40);

    // A refusal is shown where it happened, and its message can be searched.
    let found = client.get("search-iterations", json!({ "query": "safety" })).await;
    assert_eq!(found["totalMatches"], 8);
    assert_eq!(found["iterations"][0]["message"], "blocked by the safety system: please try another wording");
    let refused = client.get("resume-session", json!({ "reference": format!("{LONG}#357") })).await;
    let last = refused["story"].as_array().unwrap().last().unwrap().clone();
    assert_eq!((&last["outcome"], last["message"].is_string()), (&json!("refused"), true), "{last}");
}

#[tokio::test]
async fn an_agent_gets_every_original_back() {
    let workspace = TestWorkspace::new();
    let mut client = workspace.client(Era::Initialize).await;
    let (small, large) = (noise(40), noise(700));
    assert!(large.len() > 1_000_000);
    let file = workspace.dir.path().join("large image.png");
    std::fs::write(&file, &large).unwrap();
    let uri = format!("file://{}", file.to_str().unwrap().replace(' ', "%20"));
    client.record("2025-12-11T10:00:00Z", json!({ "images": [{ "data": STANDARD.encode(&small) }, uri] })).await;

    let whole = client.call("get-iteration", json!({ "reference": "latest", "image": 1 })).await;
    let images = whole.view["images"].as_array().unwrap();
    for (image, bytes) in images.iter().zip([&small, &large]) {
        assert_eq!(std::fs::read(image["path"].as_str().unwrap()).unwrap(), *bytes);
    }
    let kinds: Vec<&str> = whole.also.iter().map(|block| block["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["image", "resource_link"], "the thumbnail of the second image, and where the whole is");
    assert_eq!(whole.also[1]["uri"], images[1]["uri"]);
    assert_eq!(client.get("get-iteration", json!({ "reference": "#0/1" })).await["reference"], format!("{LONG}#0"));

    for (image, kind) in images.iter().zip(["image/png", "image/jpeg"]) {
        let read =
            client.request("resources/read", json!({ "uri": image["uri"] })).await["result"]["contents"][0].clone();
        assert_eq!(read["mimeType"], kind);
        let blob = read["blob"].as_str().unwrap();
        assert!(blob.len() < 700_000, "{}", blob.len());
        let decoded = image::load_from_memory(&STANDARD.decode(blob).unwrap()).unwrap();
        assert!(decoded.width() >= 40, "{}", decoded.width());
    }
    let resumed = client.call("resume-session", json!({})).await;
    assert!(resumed.view["images"][0]["path"].is_string());
    let kinds: Vec<&str> = resumed.also.iter().map(|block| block["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["image", "resource_link"], "a link with every thumbnail");
}

#[tokio::test]
async fn a_comparison_reports_progress() {
    for era in Era::BOTH {
        let workspace = TestWorkspace::new();
        let mut client = workspace.client(era).await;
        let image = json!([{ "data": STANDARD.encode(noise(32)) }]);
        client.record("2025-12-11T10:00:00Z", json!({ "images": image })).await;
        client.record("2025-12-11T10:00:00Z", json!({ "images": image, "sessionId": LONG })).await;
        let mut params =
            json!({ "name": "compare-iterations", "arguments": { "references": ["#0", "#1"] }, "_meta": {} });
        if era == Era::Stateless {
            params["_meta"] = crate::client::meta();
        }
        params["_meta"]["progressToken"] = json!("how far?");
        let (line, id) = client.line("tools/call", params);
        client.send(&line).await;
        assert_eq!(client.next_answer().await.unwrap()["id"], id);
        let progress = client.overheard("notifications/progress");
        assert!(!progress.is_empty());
        assert!(progress.iter().all(|message| message["params"]["message"].is_string()), "{progress:?}");
    }
}

#[tokio::test]
async fn clients_that_show_pages_get_one() {
    let workspace = TestWorkspace::new();
    let mut client = workspace.client(Era::Stateless).await;
    let about = client.request("server/discover", json!({})).await["result"].clone();
    let extension = &about["capabilities"]["extensions"]["io.modelcontextprotocol/ui"];
    assert_eq!(*extension, json!({ "mimeTypes": ["text/html;profile=mcp-app"] }), "{about}");
    let tools = client.request("tools/list", json!({})).await["result"]["tools"].clone();
    let mut paged = Vec::new();
    for tool in tools.as_array().unwrap() {
        if let Some(uri) = tool["_meta"]["ui"]["resourceUri"].as_str() {
            paged.push(tool["name"].as_str().unwrap().to_owned());
            let page = client.request("resources/read", json!({ "uri": uri })).await["result"].clone();
            assert_eq!(page["contents"][0]["mimeType"], "text/html;profile=mcp-app");
            assert!(page["contents"][0]["text"].as_str().unwrap().starts_with("<!doctype html>"));
            assert_eq!(page["contents"][0]["_meta"]["ui"]["csp"]["connectDomains"], json!([]));
        }
    }
    assert_eq!(paged, ["compare-iterations", "resume-session"]);
}
