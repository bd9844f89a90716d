//! Naming sessions, annotating several iterations, and short references.

use crate::support::{FIRST, TestWorkspace, Transcript};

#[test]
fn a_session_gets_a_title_and_a_project() {
    let workspace = TestWorkspace::new();
    workspace.record(0, &["a cat"]);
    let mut screen = Transcript::new(&workspace);
    screen
        .run(&["rename", "latest", "Winter cats", "--project", "cards"])
        .run(&["list"])
        .run(&["rename", FIRST, ""])
        .run(&["rename", FIRST])
        .run(&["rename", "lates", "x"])
        .run(&["rename", "session-2024-12-12-001", "x"]);
    screen.check("rename");
    assert_eq!(workspace.json(&["rename", FIRST, "--title", "Cats"])["title"], "Cats");
}

#[test]
fn several_iterations_are_annotated_at_once() {
    let workspace = TestWorkspace::new();
    for minute in 0..3 {
        let session: &[&str] = if minute == 0 { &[] } else { &["--session", FIRST] };
        workspace.record(minute, &[session, &["a cat"]].concat());
    }
    let mut screen = Transcript::new(&workspace);
    screen
        .run(&["annotate", "#0", "#2", "latest", "--rating", "4", "--add-tag", "hero"])
        .run(&["annotate", "#0", "--clear-rating"])
        .run(&["annotate", "#2", "--rating", "0", "--clear-tags"])
        .run(&["annotate", "#1", "#9", "--rating", "1"]);
    screen.check("annotate_several");
    let untouched = workspace.json(&["show", "#1"]);
    assert!(untouched["annotations"].get("rating").is_none(), "a typo in the last reference changes nothing");
}

#[test]
fn references_are_abbreviated() {
    let workspace = TestWorkspace::new();
    workspace.record(0, &["a cat"]);
    workspace.record(1, &["a dog"]);
    workspace.json(&["record", "a fox", "--created-at", "2023-12-11T10:00:00Z"]);
    let today = workspace.json(&["record", "an owl"])["reference"].as_str().unwrap().to_owned();
    let shown = |text: &str| workspace.json(&["show", text])["reference"].as_str().unwrap().to_owned();
    assert_eq!(shown("2024-12-11-002#0"), "session-2024-12-11-002#0");
    assert_eq!(shown("12-11-002#0"), "session-2024-12-11-002#0");
    assert_eq!(shown("002#0"), "session-2024-12-11-002#0");
    assert_eq!(shown("session-2024-12-11-1#0"), "session-2024-12-11-001#0", "digits that were left out");
    assert_eq!(shown("001#0"), today, "that number of today");
    let refused = workspace.run(&["show", "12-11-001#0"]);
    assert_eq!(refused.status(), 1, "{refused}");
    assert!(refused.stderr().contains("2 sessions end with \"12-11-001\""), "{refused}");
    let missing = workspace.run(&["show", "777"]);
    assert_eq!(missing.status(), 1, "{missing}");
    assert!(missing.stderr().contains("no session ends with \"777\""), "{missing}");
}
