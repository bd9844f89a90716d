//! A workflow from the first iteration to an import elsewhere, as shown on the screen and as JSON for scripts.

use serde_json::Value;

use crate::support::{FIRST, PIXEL, TestWorkspace, Transcript};

#[test]
fn from_the_first_iteration_to_the_archive_and_back() {
    let workspace = TestWorkspace::new();
    workspace.file("cat.png", PIXEL);
    let mut story = Transcript::new(&workspace);
    story
        .run(&["list"])
        .run(&[
            "record",
            "a cat in the snow",
            "--title",
            "Winter cat",
            "--project",
            "cards",
            "--image",
            "cat.png",
            "--model",
            "sdxl",
            "--model-hash",
            "31e35c80fc",
            "--seed",
            "18446744073709551615",
            "--steps",
            "30",
            "--cfg",
            "7.5",
            "--sampler",
            "euler",
            "--scheduler",
            "karras",
            "--size",
            "1024x768",
            "--denoise",
            "0.6",
            "--lora",
            "detail:0.8",
            "--lora",
            "snow",
            "--provider",
            "comfyui",
            "--negative-prompt",
            "dogs",
            "--prompt-sent",
            "a cat in the snow, 8k",
            "--param",
            "clip=2",
            "--param",
            "vae=kl-f8",
            "--generation-time-ms",
            "12480",
            "--cost",
            "0.04 USD",
            "--created-at",
            "2024-12-11T10:15:30.123Z",
        ])
        .run(&["record", "the same cat\nat night", "--session", FIRST, "--created-at", "2024-12-11T10:17:00Z"])
        .run(&[
            "record",
            "a cat with a knife",
            "--session",
            FIRST,
            "--parent",
            "latest#0",
            "--outcome",
            "refused",
            "--message",
            "this is against the rules",
            "--created-at",
            "2024-12-11T10:18:00+00:00",
        ])
        .run(&["record", "a dog instead", "--parent", FIRST, "--created-at", "2024-12-11T11:00:00Z"])
        .run(&["list"])
        .run(&["show", FIRST])
        .run(&["show", &format!("{FIRST}#0")])
        .run(&["show", "latest"])
        .run(&["show", &format!("{FIRST}#2")])
        .run(&[
            "annotate",
            &format!("{FIRST}#1"),
            "--rating",
            "4",
            "--tag",
            "hero",
            "--tag",
            "print",
            "--note",
            "the light is right",
        ])
        .run(&["annotate", &format!("{FIRST}#1"), "--clear-tags"])
        .run(&["archive", FIRST, "--reason", "delivered"])
        .run(&["list", "--status", "archived"])
        .run(&["record", "one more", "--session", FIRST])
        .run(&["restore", FIRST, "--reason", "the client wants changes"])
        .run(&["show", FIRST])
        .run(&["audit", FIRST])
        .run(&["verify"])
        .run(&["repair"])
        .run(&["doctor"])
        .check("story");
}

#[test]
fn a_script_gets_one_line_of_json_for_every_verb() {
    let workspace = TestWorkspace::new();
    workspace.file("cat.png", PIXEL);
    let mut story = Transcript::new(&workspace);
    story
        .run(&[
            "--json",
            "record",
            "a cat",
            "--image",
            "cat.png",
            "--seed",
            "42",
            "--created-at",
            "2024-12-11T10:15:30.123Z",
        ])
        .run(&["list", "--json"])
        .run(&["show", FIRST, "--json"])
        .run(&["show", "latest", "--json"])
        .run(&["annotate", "latest", "--rating", "5", "--json"])
        .run(&["archive", FIRST, "--json"])
        .run(&["restore", FIRST, "--json"])
        .run(&["audit", FIRST, "--json"])
        .run(&["verify", "--json"])
        .run(&["repair", "--json"])
        .run(&["doctor", "--json"])
        .run(&["export", "--output", "out.jsonl", "--json"])
        .run(&["import", "out.jsonl", "--json"])
        .run(&["show", "session-2024-01-01-001", "--json"])
        .run(&["list", "--sideways", "--json"])
        .check("script");
}

#[test]
fn an_export_contains_everything() {
    let there = TestWorkspace::new();
    there.file("cat.png", PIXEL);
    there.record(0, &["a cat", "--title", "Cats", "--image", "cat.png", "--param", "workflow=[1,2,3]"]);
    there.record(1, &["a cat at night", "--session", FIRST]);
    there.record(2, &["a dog", "--parent", FIRST, "--image", "cat.png"]);
    there.json(&["annotate", &format!("{FIRST}#0"), "--rating", "3", "--tag", "first"]);
    there.json(&["archive", FIRST, "--reason", "done"]);

    let here = TestWorkspace::new();
    let exported = there.run(&["export"]);
    assert_eq!(exported.stderr(), "exported 2 sessions: 7 events, 1 image\n");
    let imported = here.run_with(&["import", "-"], &exported.output.stdout);
    assert_eq!(imported.stdout(), "imported 7 events into 2 sessions, and 1 image\n");
    assert_same(&there, &here);

    let file = here.file("again.jsonl", &exported.output.stdout);
    let again = here.run(&["import", file.to_str().unwrap()]);
    assert_eq!(again.stdout(), "nothing new; 7 events were already here\n");
    assert_same(&there, &here);

    let lean = there.run(&["export", FIRST, "--no-images", "--output", "lean.jsonl"]);
    assert_eq!(lean.stdout(), "exported 1 session: 5 events, 0 images, to lean.jsonl\n");
    let names: Vec<_> = std::fs::read_dir(there.dir()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 3, "nothing is left lying about: {names:?}");
}

fn assert_same(there: &TestWorkspace, here: &TestWorkspace) {
    assert_eq!(there.listed(), here.listed());
    let ids: Vec<String> = there.listed()["sessions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["id"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(ids.len(), 2);
    for id in ids {
        for verb in ["audit", "show"] {
            assert_eq!(there.json(&[verb, &id]), here.json(&[verb, &id]), "{verb} {id}");
        }
        let last = format!("{id}#latest");
        assert_eq!(there.json(&["show", &last]), here.json(&["show", &last]), "{last}");
    }
}

#[test]
fn pages_follow_each_other() {
    let workspace = TestWorkspace::new();
    let requests: String =
        (0..5).map(|n| format!("{{\"prompt\":\"{n}\",\"createdAt\":\"2024-12-11T10:0{n}:00Z\"}}\n")).collect();
    workspace.run_with(&["record", "--json", "-"], requests.as_bytes());
    let first = workspace.json(&["list", "--limit", "2"]);
    assert_eq!(first["totalSessions"], 5);
    let second = workspace.json(&["list", "--limit", "2", "--cursor", first["nextCursor"].as_str().unwrap()]);
    assert_eq!(second["sessions"][0]["id"], "session-2024-12-11-003");
    let mut pages = Transcript::new(&workspace);
    pages
        .run(&["list", "--limit", "2"])
        .run(&["list", "--limit", "2", "--all"])
        .run(&["list", "--limit", "2", "--all", "--sort", "oldest"])
        .run(&["list", "--query", "nothing like it"])
        .check("pages");
}

#[test]
fn omitted_values_can_be_requested() {
    let workspace = TestWorkspace::new();
    let prompt = "snow ".repeat(20_000);
    let request = serde_json::json!({ "prompt": prompt, "parameters": { "workflow": "x".repeat(100_000) } });
    workspace.run_with(&["record", "--json", "-"], request.to_string().as_bytes());
    let cut = workspace.json(&["show", "latest"]);
    assert_ne!(cut["recipe"]["prompt"], prompt.as_str());
    let shown = workspace.run(&["show", "latest"]).stdout();
    assert!(shown.ends_with("truncated: recipe.prompt; see --full\n"), "{}", &shown[shown.len() - 300..]);
    let full = workspace.json(&["show", "latest", "--full"]);
    assert_eq!(full["recipe"]["prompt"], prompt.as_str());
    assert_eq!(full["recipe"]["parameters"], request["parameters"]);
    assert_eq!((&full["truncated"], &full["recipe"]["parametersOmittedBytes"]), (&Value::Null, &Value::Null));
}

#[test]
fn latest_is_the_session_worked_on_last() {
    let workspace = TestWorkspace::new();
    assert_eq!(workspace.run(&["archive", "latest"]).status(), 1, "there is none yet");
    workspace.record(0, &["a cat"]);
    workspace.record(1, &["a dog"]);
    let second = "session-2024-12-11-002";
    let recorded = workspace.json(&["record", "a dog at night", "--session", "latest"]);
    assert_eq!(recorded["reference"], format!("{second}#1"));
    assert_eq!(workspace.json(&["archive", "latest"])["id"], second);
    assert_eq!(workspace.json(&["restore", "latest"])["id"], second);
    assert_eq!(workspace.json(&["audit", "latest"])["sessionId"], second);
    let exported = workspace.run(&["export", "latest"]).stdout();
    assert!(exported.contains("a dog at night") && !exported.contains("a cat"));
}
