//! Everyday use: names in listings, local times, costs, originals, recipes from images, audits of many sessions.

use std::fs;

use retake_testutils::images::patterned;

use crate::support::{FIRST, PIXEL, TestWorkspace, Transcript};

#[test]
fn a_listing_names_every_session() {
    let workspace = TestWorkspace::new();
    workspace
        .record(0, &["a lighthouse in a storm, waves breaking over the rocks, long exposure, dusk", "--cost", "$0.04"]);
    workspace.record(1, &["a cat", "--title", "Winter cat", "--project", "cards", "--cost", "0,5 EUR"]);
    workspace.record(2, &["a cat at night", "--session", "session-2024-12-11-002", "--cost", "€0.25"]);
    let mut screen = Transcript::new(&workspace);
    screen.run(&["list"]).run(&["list", "--projects"]).run(&["show", "session-2024-12-11-002"]);
    screen.check("names_and_costs");
    let rows = workspace.listed();
    assert_eq!(rows["sessions"][0]["cost"], serde_json::json!([{ "amount": 0.75, "currency": "EUR" }]));
    assert!(rows["sessions"][1].get("title").is_none(), "JSON says what was recorded");
}

#[test]
fn costs_are_written_in_many_ways_and_checked() {
    let workspace = TestWorkspace::new();
    for cost in ["0.04", "0.04USD", "$0.04", "0.04 USD", "USD 0.04"] {
        workspace.json(&["record", "a cat", "--cost", cost]);
        let view = workspace.json(&["show", "latest"]);
        assert_eq!(view["outcome"]["cost"], serde_json::json!({ "amount": 0.04, "currency": "USD" }), "{cost}");
    }
    for cost in ["0.04 dollars", "0.04 XYZ", "cheap"] {
        let ran = workspace.run(&["record", "a cat", "--cost", cost]);
        assert_eq!(ran.status(), 2, "{ran}");
        assert!(ran.stderr().contains("--cost") && ran.stderr().contains("USD"), "{ran}");
    }
}

#[test]
fn times_are_local_and_json_is_not() {
    let workspace = TestWorkspace::new();
    let run = |zone: &str, args: &[&str]| {
        let mut command = workspace.command(args);
        command.env("TZ", zone);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    // Late in the evening of the 10th in Los Angeles, and the morning of the 11th in UTC.
    run("America/Los_Angeles", &["record", "a cat", "--created-at", "2024-12-10 22:30"]);
    let shown = run("America/Los_Angeles", &["show", "latest"]);
    assert!(shown.contains("made         2024-12-10 22:30:00 -08:00"), "{shown}");
    assert!(run("America/Los_Angeles", &["list"]).contains("LAST MODIFIED (America/Los_Angeles)"));
    assert!(run("America/Los_Angeles", &["show", "latest", "--utc"]).contains("2024-12-11 06:30:00 UTC"));
    assert_eq!(workspace.json(&["show", "latest"])["timestamp"], "2024-12-11T06:30:00.000Z");
    for (zone, query, found) in [
        ("America/Los_Angeles", "on:2024-12-10", true),
        ("America/Los_Angeles", "cat -on:2024-12-11", true),
        ("UTC", "on:2024-12-10", false),
        ("UTC", "on:2024-12-11", true),
    ] {
        assert_eq!(run(zone, &["search", query]).contains("1 match"), found, "{zone} {query}");
    }
    assert!(run("America/Los_Angeles", &["list", "--until", "2024-12-10"]).contains(FIRST));
    assert!(!run("UTC", &["list", "--until", "2024-12-10"]).contains(FIRST));
    for (flag, value) in [("--created-at", "yesterday"), ("--created-at", "2024-13-01")] {
        let ran = workspace.run(&["record", "a cat", flag, value]);
        assert_eq!(ran.status(), 2, "{ran}");
        assert!(ran.stderr().contains(flag), "{ran}");
    }
    assert_eq!(workspace.run(&["list", "--since", "soon"]).status(), 2);
}

#[test]
fn the_original_is_reachable() {
    let workspace = TestWorkspace::new();
    let cat = workspace.file("cat.png", PIXEL);
    workspace.record(0, &["a cat", "--image", cat.to_str().unwrap()]);
    let shown = workspace.run(&["show", "latest"]).stdout();
    let path = shown.lines().find_map(|line| line.strip_prefix("original")).unwrap().trim().to_owned();
    assert_eq!(fs::read(path).unwrap(), PIXEL);
    assert_eq!(workspace.run(&["show", "latest", "--output", "copy.png"]).status(), 0);
    assert_eq!(fs::read(workspace.dir().join("copy.png")).unwrap(), PIXEL);
    fs::write(workspace.dir().join("copy.png"), "mine").unwrap();
    let refused = workspace.run(&["show", "latest", "-o", "copy.png"]);
    assert_eq!(refused.status(), 1, "{refused}");
    assert_eq!(fs::read(workspace.dir().join("copy.png")).unwrap(), b"mine");
    assert_eq!(workspace.run(&["show", "latest", "-o", "copy.png", "--force"]).status(), 0);
    assert_eq!(fs::read(workspace.dir().join("copy.png")).unwrap(), PIXEL);
    assert_eq!(workspace.run(&["show", "latest#0/1", "-o", "other.png"]).status(), 1, "there is only one");
    let file = workspace.run(&["show", "cat.png"]);
    assert_eq!(file.status(), 2, "{file}");
    assert!(file.stderr().contains("--raw"), "{file}");
}

#[test]
fn a_recipe_is_read_from_the_image() {
    let workspace = TestWorkspace::new();
    let text = "a red fox, snow\nNegative prompt: blurry\nSteps: 20, Sampler: Euler a, CFG scale: 7, Seed: 42, Size: 16x16, Model: dreamshaper";
    let fox = workspace.file("fox.png", patterned(1, &[("parameters", text)]));
    let recorded = workspace.json(&["record", "--image", fox.to_str().unwrap(), "--seed", "7"]);
    let read: Vec<&str> = recorded["readFromImage"].as_array().unwrap().iter().map(|it| it.as_str().unwrap()).collect();
    assert!(read.contains(&"prompt") && read.contains(&"steps") && !read.contains(&"seed"), "{read:?}");
    let view = workspace.json(&["show", "latest"]);
    assert_eq!(view["recipe"]["prompt"], "a red fox, snow");
    assert_eq!((&view["recipe"]["seed"], &view["recipe"]["steps"]), (&"7".into(), &20.into()), "flags win");
    let said = workspace.run(&["record", "--image", fox.to_str().unwrap()]).stdout();
    assert!(said.contains("read from the image: prompt, negative prompt, model, seed, steps, cfg, "), "{said}");
    workspace.file("plain.png", PIXEL);
    let refused = workspace.run(&["record", "--image", "plain.png"]);
    assert_eq!(refused.status(), 2, "{refused}");
    assert!(refused.stderr().contains("no image has one in its metadata"), "{refused}");
}

#[test]
fn fields_beside_a_prompt_are_read_from_the_image() {
    let workspace = TestWorkspace::new();
    let text = "a red fox, snow\nNegative prompt: blurry\nSteps: 20, Sampler: Euler a, CFG scale: 7, Seed: 42, Size: 16x16, Model: dreamshaper";
    workspace.file("fox.png", patterned(1, &[("parameters", text)]));
    let record = |args: &[&str]| workspace.json(&[&["record", "--image", "fox.png"], args].concat());
    let recipe = || workspace.json(&["show", "latest"])["recipe"].clone();

    let recorded = record(&["A red  fox, snow", "--seed", "7", "--model", "sdxl"]);
    let read = recorded["readFromImage"].to_string();
    assert!(read.contains("\"steps\"") && read.contains("\"negativePrompt\""), "{read}");
    assert!(!read.contains("\"prompt\"") && !read.contains("\"seed\"") && !read.contains("\"model\""), "{read}");
    let found = recipe();
    assert_eq!((&found["prompt"], &found["seed"]), (&"A red  fox, snow".into(), &"7".into()), "what is given wins");
    assert_eq!((&found["model"], &found["steps"]), (&"sdxl".into(), &20.into()));

    record(&["red fox"]);
    let found = recipe();
    assert_eq!((&found["prompt"], &found["promptSent"]), (&"red fox".into(), &"a red fox, snow".into()));
    assert_eq!(found["seed"], "42");

    for other in ["a blue whale", "a red fox, snow, now at night", "fox"] {
        let recorded = record(&[other]);
        assert_eq!(recorded.get("readFromImage"), None, "{recorded}");
        assert!(recorded["warnings"].to_string().contains("its metadata has another prompt"), "{recorded}");
        assert_eq!(recipe().get("seed"), None, "it may be about the image that this one was edited from");
    }

    // The image contains the seed it was made with; `--like` fills in what neither the flags nor the image contain.
    let like = workspace.record(0, &["a red fox, snow", "--seed", "1", "--scheduler", "karras"]);
    let recorded = record(&["--like", &like]);
    assert!(recorded["readFromImage"].to_string().contains("\"seed\""), "{recorded}");
    let found = recipe();
    assert_eq!((&found["seed"], &found["scheduler"]), (&"42".into(), &"karras".into()));
}

#[test]
fn a_part_of_the_sessions_is_exported() {
    let workspace = TestWorkspace::new();
    workspace.record(0, &["a cat", "--project", "Cards"]);
    workspace.record(1, &["a dog", "--project", "cards"]);
    workspace.record(2, &["a fox", "--project", "zoo"]);
    workspace.json(&["archive", FIRST]);
    let exported = |args: &[&str]| {
        let ran = workspace.run(&[&["export", "--no-images"], args].concat());
        assert_eq!(ran.status(), 0, "{ran}");
        ran.stderr()
    };
    assert!(exported(&["--project", "cards"]).contains("exported 2 sessions"));
    assert!(exported(&["--project", "cards", "--status", "archived"]).contains("exported 1 session:"));
    assert!(exported(&["--status", "active"]).contains("exported 2 sessions"));
    let none = workspace.run(&["export", "--project", "nothing"]);
    assert_eq!((none.status(), none.stdout().as_str()), (1, ""), "not everything: {none}");
    assert_eq!(workspace.run(&["export", FIRST, "--project", "cards"]).status(), 2);
}

#[test]
fn many_sessions_are_audited_at_once() {
    let workspace = TestWorkspace::new();
    workspace.record(0, &["a cat", "--project", "cards", "--title", "Cats", "--model", "sdxl", "--cost", "0.04"]);
    workspace.record(1, &["a dog", "--project", "Cards"]);
    workspace.record(2, &["a fox", "--project", "zoo"]);
    workspace.json(&["archive", FIRST, "--reason", "delivered"]);
    let mut screen = Transcript::new(&workspace);
    screen
        .run(&["audit", "--status", "archived"])
        .run(&["archive", FIRST, "--reason", "again"])
        .run(&["audit", "--project", "nothing"])
        .run(&["audit", FIRST, "--status", "archived"]);
    screen.check("audit_many");
    let count = |args: &[&str]| workspace.json(&[&["audit"], args].concat())["totalEvents"].as_u64().unwrap();
    assert_eq!(count(&["--project", "cards"]), 5);
    assert_eq!(count(&["--actor", "ADA"]), 7);
    assert_eq!(count(&["--actor", "bob"]), 0);
    assert!(workspace.run(&["audit", "--actor", "bob"]).stdout().contains("No event matches."));
    assert_eq!(count(&["--until", "2024-12-31"]), 0, "what counts is when it was recorded");
    let report = workspace.json(&["audit", "--project", "cards"]);
    assert_eq!((&report["totalSessions"], &report["holds"]), (&2.into(), &true.into()));
}

#[test]
fn who_it_was_is_known_without_a_variable() {
    let workspace = TestWorkspace::new();
    let mut command = workspace.command(&["record", "a cat"]);
    command.env_remove("USER");
    assert!(command.output().unwrap().status.success());
    let by = workspace.json(&["show", "latest"])["recordedBy"]["user"].as_str().unwrap().to_owned();
    assert_ne!(by, "unknown");
    assert!(!by.is_empty());
}

#[test]
fn what_was_not_given_was_not_removed() {
    let workspace = TestWorkspace::new();
    workspace.record(0, &["a cat in the snow", "--model", "sdxl", "--seed", "42", "--negative-prompt", "blurry"]);
    workspace.record(1, &["the same cat in the snow at night", "--session", FIRST]);
    let shown = workspace.run(&["show", FIRST]).stdout();
    assert!(!shown.contains("-model") && !shown.contains("-seed") && !shown.contains("-blurry"), "{shown}");
    assert!(shown.contains("reprompt"), "{shown}");
    workspace.record(2, &["a cat at dawn", "--like", &format!("{FIRST}#0"), "--session", FIRST]);
    assert_eq!(workspace.json(&["show", &format!("{FIRST}#2")])["recipe"]["model"], "sdxl");
    let resumed = workspace.run(&["resume"]).stdout();
    assert!(resumed.contains(&format!("retake record \"…\" --like '{FIRST}#2' --session {FIRST}")), "{resumed}");
}

#[test]
fn shells_are_offered_sessions() {
    let workspace = TestWorkspace::new();
    workspace.record(0, &["a cat", "--title", "Cats"]);
    assert_eq!(workspace.run(&["complete-references"]).stdout(), format!("latest\n{FIRST}\n"));
    assert_eq!(workspace.run(&["complete-references", "--titles"]).stdout(), format!("latest\n{FIRST}\tCats\n"));
    for shell in ["bash", "zsh", "fish"] {
        assert!(workspace.run(&["completions", shell]).stdout().contains("complete-references"), "{shell}");
    }
    let bash = "source <(\"$0\" completions bash); COMP_WORDS=(\"$0\" show ses); COMP_CWORD=2; _retake_references; echo \"${COMPREPLY[@]}\"";
    let mut command = std::process::Command::new("bash");
    command.args(["-c", bash, env!("CARGO_BIN_EXE_retake")]).env("PATH", "/usr/bin:/bin");
    let ran = workspace.ended(command, &["bash"]);
    assert_eq!(ran.stdout().trim(), FIRST, "{ran}");
}

#[test]
fn shells_offer_files_only_where_a_file_is_expected() {
    let workspace = TestWorkspace::new();
    workspace.record(0, &["a cat"]);
    workspace.file("cat.png", PIXEL);
    let offered = |words: &str| {
        let script = format!(
            "source <(\"$0\" completions bash); COMP_WORDS=(\"$0\" {words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); \
             _retake_references \"$0\" \"${{COMP_WORDS[COMP_CWORD]}}\" \"${{COMP_WORDS[COMP_CWORD-1]}}\"; echo \"${{COMPREPLY[@]}}\""
        );
        let mut command = std::process::Command::new("bash");
        command.args(["-c", &script, env!("CARGO_BIN_EXE_retake")]).env("PATH", "/usr/bin:/bin");
        workspace.ended(command, &[words]).stdout().trim().to_owned()
    };
    for words in ["annotate latest --rating", "annotate latest --note", "list --limit", "serve --token", "list --since"]
    {
        assert_eq!(offered(&format!("{words} ''")), "", "{words}");
    }
    assert_eq!(offered("record x --image c"), "cat.png");
    assert_eq!(offered("search --similar-to ses"), FIRST);
    // The verb may come after flags, and the workspace may be named there.
    assert_eq!(offered("--utc show ses"), FIRST);
    assert_eq!(offered("--workspace .retake show ses"), FIRST);
    assert_eq!(offered("--workspace elsewhere show ses"), "");
}

#[test]
fn a_refusal_is_told_in_the_story() {
    let workspace = TestWorkspace::new();
    workspace.record(0, &["a cat"]);
    let message = "blocked by the safety system";
    workspace.record(1, &["a cat on fire", "--session", FIRST, "--outcome", "refused", "--message", message]);
    for verb in ["show", "resume"] {
        let ran = workspace.run(&[verb, FIRST]);
        assert!(ran.stdout().contains(&format!("message: {message}")), "{ran}");
    }
}

#[test]
fn an_image_of_a_batch_is_shown_alone() {
    let workspace = TestWorkspace::new();
    for number in 1..=2 {
        workspace.file(&format!("{number}.png"), patterned(number, &[]));
    }
    workspace.record(0, &["a cat", "--image", "1.png", "--image", "2.png"]);
    let shown = workspace.run(&["show", "latest#0/1"]).stdout();
    assert!(shown.starts_with(&format!("{FIRST}#0/1\n")), "{shown}");
    assert!(shown.contains("2.png") && !shown.contains("1.png"), "{shown}");
    let rated = workspace.run(&["annotate", "latest#0/1", "--rating", "4"]).stdout();
    assert_eq!(rated, format!("{FIRST}#0  ★★★★☆\nimages /1 ★★★★☆\n"));
    let whole = workspace.run(&["show", "latest#0"]).stdout();
    assert!(whole.contains("images       /1 ★★★★☆") && !whole.contains("image/1"), "{whole}");
    assert!(whole.contains("2.png") && whole.contains("1.png"), "{whole}");
}

#[test]
fn hints_can_be_pasted() {
    let workspace = TestWorkspace::new();
    workspace.record(0, &["a cat"]);
    let without = workspace.run(&["show", "latest", "--output", "cat.png"]);
    assert!(without.stderr().contains(&format!("run `retake show '{FIRST}#0'`")), "{without}");
    workspace.json(&["archive", FIRST]);
    let refused = workspace.run(&["record", "a dog", "--session", FIRST]);
    assert!(refused.stderr().contains(&format!("run `retake restore {FIRST}` first")), "{refused}");
    let version = workspace.run(&["version"]);
    assert_eq!((version.status(), version.stdout()), (0, workspace.run(&["--version"]).stdout()));
}

#[test]
fn doctor_does_not_call_a_lost_log_healthy() {
    let workspace = TestWorkspace::new();
    workspace.file("cat.png", PIXEL);
    workspace.record(0, &["a cat", "--image", "cat.png"]);
    for part in ["db", "journal"] {
        fs::remove_dir_all(workspace.workspace().join(part)).unwrap();
    }
    let ran = workspace.run(&["doctor"]);
    assert_eq!(ran.status(), 3, "{ran}");
    assert!(ran.stdout().contains("the log is gone") && !ran.stdout().contains("nothing needs attention"), "{ran}");
}

#[test]
fn doctor_says_what_to_do() {
    let workspace = TestWorkspace::new();
    let cat = workspace.file("cat.png", PIXEL);
    workspace.record(0, &["a cat", "--image", cat.to_str().unwrap()]);
    let well = workspace.run(&["doctor"]).stdout();
    assert!(well.contains("nothing needs attention") && well.contains("1 image reference, all there"), "{well}");
    fs::remove_dir_all(workspace.workspace().join("images")).unwrap();
    let ill = workspace.json(&["doctor"]);
    assert_eq!(ill["images"]["missing"], 1);
    assert!(ill["advice"][0].as_str().unwrap().contains("retake verify"), "{ill}");
}
