//! Recording: every field, from every form of result, in the right session, with the right parent.

use serde_json::json;

use crate::Test;
use crate::client::{Desk, mark};
use crate::fake::png;
use crate::upstream::{Reply, serve};

pub(crate) const TESTS: &[Test] = &[
    ("every_field_of_a_file", every_field_of_a_file),
    ("outcomes_are_read_from_the_text", outcomes_are_read_from_the_text),
    ("a_job_is_one_iteration", a_job_is_one_iteration),
    ("a_job_that_is_never_asked_about_is_kept", a_job_that_is_never_asked_about_is_kept),
    ("a_resource_link_is_completed_when_it_is_read", a_resource_link_is_completed_when_it_is_read),
    ("an_address_is_recorded_and_not_fetched", an_address_is_recorded_and_not_fetched),
    ("an_image_of_an_allowed_host_is_fetched", an_image_of_an_allowed_host_is_fetched),
    ("an_input_that_was_an_output_is_the_parent", an_input_that_was_an_output_is_the_parent),
    ("sessions_are_chosen", sessions_are_chosen),
    ("the_reference_is_announced_as_text", the_reference_is_announced_as_text),
    ("the_server_and_the_tool_can_be_found", the_server_and_the_tool_can_be_found),
    ("an_image_of_an_earlier_session_is_the_parent", an_image_of_an_earlier_session_is_the_parent),
    ("explain_names_the_source_of_every_field", explain_names_the_source_of_every_field),
];

fn every_field_of_a_file() {
    let desk = Desk::new();
    let mut client = desk.wrap_images(&["--project", "zoo"]);
    client.initialize();
    let arguments = json!({
        "prompt": "file of a fox", "negative_prompt": "blur", "model": "flux", "steps": 4, "cfg_scale": 3.5, "width": 96,
        "height": 96, "sampler_name": "euler", "style": {"deep": [1.0, 18_446_744_073_709_551_615_u64]}, "apiKey": "k-123",
        "n": 1,
    });
    let answer = client.call("generate_image", arguments);
    let reference = mark(&answer).unwrap();
    client.finish();
    let shown = desk.json(&["show", &reference]);
    let recipe = &shown["recipe"];
    for (field, expected) in [
        ("prompt", json!("file of a fox")),
        ("negativePrompt", json!("blur")),
        ("model", json!("flux")),
        ("seed", json!("1234")),
        ("steps", json!(4)),
        ("guidanceScale", json!(3.5)),
        ("sampler", json!("euler")),
        ("width", json!(96)),
        ("height", json!(96)),
        ("provider", json!("fake-images/generate_image")),
    ] {
        assert_eq!(recipe[field], expected, "{field}: {shown}");
    }
    let parameters = &recipe["parameters"];
    assert_eq!(parameters["style"], json!({"deep": [1.0, 18_446_744_073_709_551_615_u64]}));
    assert_eq!(parameters["apiKey"], "[redacted]");
    let origin = json!({"server": "fake-images", "serverVersion": "1.2.3", "tool": "generate_image", "count": 1, "requestedModel": "flux"});
    assert_eq!(parameters["mcp"], origin);
    assert_eq!(shown["outcome"]["cost"], json!({"amount": 0.04, "currency": "USD"}));
    assert!(shown["outcome"]["generationTimeMs"].as_u64().is_some());
    assert_eq!(shown["recordedBy"]["user"], "ada");
    let by = shown["recordedBy"]["client"].as_str().unwrap();
    assert!(by.starts_with("test-client 9 via retake-wrap ") && by.ends_with(", fake-images/generate_image"), "{by}");
    assert_eq!(shown["session"]["project"], "zoo");
    let images = shown["images"].as_array().unwrap();
    assert_eq!(images.len(), 1, "the preview is not an image of its own");
    assert_eq!((&images[0]["width"], &images[0]["height"]), (&json!(96), &json!(96)));
    assert!(images[0]["name"].as_str().unwrap().starts_with("out "), "{shown}");
}

fn outcomes_are_read_from_the_text() {
    let desk = Desk::new();
    let mut client = desk.wrap_images(&[]);
    client.initialize();
    for (prompt, status, message) in [
        ("refuse this", "refused", "Error: Your request was rejected by the safety system."),
        ("fail this", "failed", "quota exceeded"),
        ("error this", "failed", "no"),
    ] {
        let reference = mark(&client.call("generate_image", json!({"prompt": prompt}))).unwrap();
        let shown = desk.json(&["show", &reference]);
        assert_eq!(shown["outcome"]["status"], status, "{prompt}");
        assert_eq!(shown["outcome"]["message"], message, "{prompt}");
    }
    client.finish();
}

fn a_job_is_one_iteration() {
    let desk = Desk::new();
    let mut client = desk.wrap_images(&[]);
    client.initialize();
    let started = client.call("generate_image", json!({"prompt": "job of a fox", "seed": 5}));
    assert_eq!(mark(&started), None);
    let text: serde_json::Value =
        serde_json::from_str(started["result"]["content"][0]["text"].as_str().unwrap()).unwrap();
    let running = client.call("check_job", json!({"job_id": text["job_id"]}));
    assert_eq!(mark(&running), None);
    let done = client.call("check_job", json!({"job_id": text["job_id"]}));
    assert!(mark(&done).is_some(), "{done}");
    client.finish();
    let recorded = desk.recorded();
    assert_eq!(recorded.len(), 1);
    assert_eq!(recorded[0]["recipe"]["prompt"], "job of a fox");
    assert_eq!(recorded[0]["recipe"]["seed"], "5");
    assert_eq!(recorded[0]["recipe"]["provider"], "fake-images/generate_image");
    assert_eq!(recorded[0]["recipe"]["parameters"]["mcp"]["job"], text["job_id"]);
    assert_eq!(recorded[0]["images"].as_array().unwrap().len(), 1);
}

fn a_job_that_is_never_asked_about_is_kept() {
    let desk = Desk::new();
    let mut client = desk.wrap_images(&[]);
    client.initialize();
    client.call("generate_image", json!({"prompt": "job of a hare"}));
    client.finish();
    let recorded = desk.recorded();
    assert_eq!(recorded.len(), 1);
    assert_eq!(recorded[0]["outcome"]["status"], "failed");
    assert!(recorded[0]["outcome"]["message"].as_str().unwrap().contains("no result of job job-1-abcdef"));
}

fn a_resource_link_is_completed_when_it_is_read() {
    let desk = Desk::new();
    let mut client = desk.wrap_images(&[]);
    client.initialize();
    let linked = client.call("generate_image", json!({"prompt": "link to a fox"}));
    let uri = linked["result"]["content"][0]["uri"].clone();
    let read = client.ask("resources/read", json!({"uri": uri}));
    assert!(read["result"]["contents"][0]["blob"].is_string());
    client.finish();
    let recorded = desk.recorded();
    assert_eq!(recorded.len(), 1);
    assert_eq!(recorded[0]["recipe"]["prompt"], "link to a fox");
    assert_eq!(recorded[0]["images"].as_array().unwrap().len(), 1);
}

fn an_address_is_recorded_and_not_fetched() {
    let desk = Desk::new();
    let mut client = desk.wrap_images(&[]);
    client.initialize();
    client.call("generate_image", json!({"prompt": "url of a fox"}));
    client.finish();
    let recorded = desk.recorded();
    assert_eq!(recorded[0]["outcome"]["status"], "succeeded");
    assert_eq!(recorded[0]["recipe"]["parameters"]["mcp"]["urls"], json!(["https://cdn.example/a.png"]));
    assert_eq!(recorded[0]["images"], json!([]));
}

fn an_image_of_an_allowed_host_is_fetched() {
    let port = serve(|request| match request.path.as_str() {
        "/a.png" => Reply::Whole(200, Vec::new(), png(5)),
        "/moved.png" => Reply::Whole(302, vec![("location", "/a.png".to_owned())], Vec::new()),
        _ => Reply::Whole(200, Vec::new(), b"not an image".to_vec()),
    });
    let desk = Desk::new();
    let host = format!("127.0.0.1:{port}");
    let mut client = desk.wrap_images(&["--fetch", &host]);
    client.initialize();
    for (path, count) in [("a.png", 1), ("moved.png", 0), ("b.png", 0)] {
        let answer = client.call("generate_image", json!({"prompt": format!("at http://{host}/{path}")}));
        let shown = desk.json(&["show", &mark(&answer).unwrap()]);
        assert_eq!(shown["images"].as_array().unwrap().len(), count, "{path}: {shown}");
    }
    client.finish();
}

fn an_input_that_was_an_output_is_the_parent() {
    let desk = Desk::new();
    let mut client = desk.wrap_images(&[]);
    client.initialize();
    let first = client.call("generate_image", json!({"prompt": "file one"}));
    let second = client.call("generate_image", json!({"prompt": "inline two"}));
    let text = first["result"]["content"][0]["text"].as_str().unwrap();
    let path = text.lines().find_map(|line| line.strip_prefix("- ")).unwrap();
    // By path, by a copy elsewhere, and by content.
    let copy = desk.out().join("copy.png");
    std::fs::copy(path, &copy).unwrap();
    for (input, parent) in [
        (json!(path), mark(&first)),
        (json!(copy), mark(&first)),
        (second["result"]["content"][0]["data"].clone(), mark(&second)),
    ] {
        let edited = client.call("edit_image", json!({"prompt": "edit it", "image": input}));
        let shown = desk.json(&["show", &mark(&edited).unwrap()]);
        assert_eq!(shown["parent"].as_str().map(str::to_owned), parent, "{shown}");
    }
    client.finish();
}

fn sessions_are_chosen() {
    let desk = Desk::new();
    let one = |flags: &[&str]| {
        let mut client = desk.wrap_images(flags);
        client.initialize();
        let references: Vec<String> = ["a", "b"]
            .iter()
            .map(|prompt| mark(&client.call("generate_image", json!({"prompt": prompt}))).unwrap())
            .collect();
        client.finish();
        let session = |reference: &String| reference.split('#').next().unwrap().to_owned();
        assert_eq!(session(&references[0]), session(&references[1]), "one session per connection");
        references
    };
    let first = one(&[]);
    let second = one(&[]);
    let session = |references: &[String]| references[0].split('#').next().unwrap().to_owned();
    assert_ne!(session(&first), session(&second));
    let latest = one(&["--session", "latest"]);
    assert_eq!(latest, [format!("{}#2", session(&second)), format!("{}#3", session(&second))]);
    let named = one(&["--session", &session(&first)]);
    assert_eq!(named[0], format!("{}#2", session(&first)));
    assert_ne!(session(&one(&["--session", "new"])), session(&first));
}

fn the_reference_is_announced_as_text() {
    let desk = Desk::new();
    let mut client = desk.wrap_images(&["--announce", "text"]);
    client.initialize();
    let answer = client.call("generate_image", json!({"prompt": "a fox"}));
    client.finish();
    let blocks = answer["result"]["content"].as_array().unwrap();
    assert_eq!(blocks.len(), 2);
    assert!(blocks[1]["text"].as_str().unwrap().starts_with("Recorded by Retake as session-"), "{answer}");
    assert_eq!(answer["result"].get("_meta"), None);
}

fn the_server_and_the_tool_can_be_found() {
    let desk = Desk::new();
    let mut client = desk.wrap_images(&[]);
    client.initialize();
    let reference = mark(&client.call("generate_image", json!({"prompt": "a fox"}))).unwrap();
    client.finish();
    desk.json(&["record", "something else", "--provider", "other"]);
    for query in ["provider:fake-images", "tool:generate_image", "server:fake-images tool:generate_image"] {
        let found = desk.json(&["search", query]);
        assert_eq!(found["totalMatches"], 1, "{query}: {found}");
        assert_eq!(found["iterations"][0]["reference"], json!(reference));
    }
    let audit = desk.json(&["audit", reference.split('#').next().unwrap()]);
    let summary = audit["events"]
        .as_array()
        .unwrap()
        .iter()
        .find_map(|event| event["summary"].as_str().filter(|summary| summary.starts_with("a fox")));
    assert_eq!(summary, Some("a fox; made with fake-images/generate_image"), "{audit}");
    let shown = desk.retake(&["show", &reference]).output().unwrap();
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("fake-images/generate_image"), "{shown}");
}

fn an_image_of_an_earlier_session_is_the_parent() {
    let desk = Desk::new();
    let mut client = desk.wrap_images(&[]);
    client.initialize();
    let references: Vec<String> = ["file one", "file two"]
        .iter()
        .map(|prompt| mark(&client.call("generate_image", json!({"prompt": prompt}))).unwrap())
        .collect();
    client.finish();
    // Another name and another connection: only the bytes are the same.
    let copy = desk.root.path().join("copy.png");
    std::fs::copy(desk.out().join("out 1.png"), &copy).unwrap();
    let mut client = desk.wrap_images(&[]);
    client.initialize();
    let edited = mark(&client.call("edit_image", json!({"prompt": "at night", "image": copy}))).unwrap();
    std::fs::write(&copy, png(123_456)).unwrap();
    let other = mark(&client.call("edit_image", json!({"prompt": "of another", "image": copy}))).unwrap();
    client.finish();
    assert_eq!(desk.json(&["show", &edited])["parent"], json!(references[0]));
    assert_eq!(desk.json(&["show", &other])["parent"], json!(edited), "the previous one of its session");
}

fn explain_names_the_source_of_every_field() {
    let desk = Desk::new();
    let transcript = format!("{}/data/wrap/transcripts/comfy-mcp-server.json", env!("CARGO_MANIFEST_DIR"));
    let explained = desk.json(&["wrap", "--explain", &transcript]);
    let first = &explained["calls"][0];
    assert_eq!((&first["call"], &first["decision"]), (&json!("generate_image"), &json!("recorded")));
    assert_eq!(first["iteration"]["seed"], "42");
    assert_eq!(first["sources"]["seed"], "the image, written by ComfyUI");
    assert_eq!(first["sources"]["prompt"], "argument `prompt`");
    assert_eq!(explained["calls"][1]["iteration"]["outcome"], "failed");
    assert!(!desk.workspace().exists());
    let shown = desk.retake(&["wrap", "--explain", &transcript]).output().unwrap();
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("generate_image recorded") && shown.contains("argument `prompt`"), "{shown}");
    let missing = desk.retake(&["wrap", "--explain", "nowhere.json"]).output().unwrap();
    assert_eq!(missing.status.code(), Some(1));
}
