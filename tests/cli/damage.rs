//! A damaged workspace: readers report it and exit with status 3 if something is lost, writers warn, and `repair` shows
//! the reports once.

use std::fs;
use std::path::PathBuf;

use crate::support::{FIRST, PIXEL, TestWorkspace, Transcript};

fn workspace() -> TestWorkspace {
    let workspace = TestWorkspace::new();
    workspace.file("cat.png", PIXEL);
    workspace.record(0, &["a cat", "--image", "cat.png"]);
    workspace.record(1, &["the lost cat", "--session", FIRST]);
    workspace.record(2, &["a cat at night", "--session", FIRST]);
    workspace
}

fn journal(workspace: &TestWorkspace) -> PathBuf {
    workspace.workspace().join("journal/00000001.log")
}

#[test]
fn a_loss_is_shown_until_its_report_is_read() {
    let workspace = workspace();
    // Missing from both copies: the database is gone, and the journal's copy of one event has another prompt.
    let mut bytes = fs::read(journal(&workspace)).unwrap();
    let at = bytes.windows(12).position(|window| window == b"the lost cat").unwrap();
    bytes[at..at + 12].copy_from_slice(b"THE LOST CAT");
    fs::write(journal(&workspace), bytes).unwrap();
    fs::remove_dir_all(workspace.workspace().join("db")).unwrap();

    let mut transcript = Transcript::new(&workspace);
    transcript
        .run(&["list"])
        .run(&["show", FIRST])
        .run(&["show", &format!("{FIRST}#1")])
        .run(&["annotate", &format!("{FIRST}#2"), "--rating", "3"])
        .run(&["verify"])
        .run(&["export", "--output", "out.jsonl"])
        .run(&["doctor"])
        .run(&["repair"])
        .run(&["list"])
        .run(&["verify"])
        .run(&["audit", FIRST])
        .run(&["repair"])
        .check("loss");
}

/// The header of the event is intact, so that it is known to have been an iteration.
#[test]
fn the_number_of_a_lost_iteration_is_not_used_again() {
    let workspace = workspace();
    let mut bytes = fs::read(journal(&workspace)).unwrap();
    let at = bytes.windows(14).position(|window| window == b"a cat at night").unwrap();
    bytes[at..at + 14].copy_from_slice(b"A CAT AT NIGHT");
    fs::write(journal(&workspace), bytes).unwrap();
    fs::remove_dir_all(workspace.workspace().join("db")).unwrap();

    let shown = workspace.run(&["show", &format!("{FIRST}#2")]);
    assert_eq!(shown.status(), 3, "{shown}");
    assert!(shown.stderr().contains("lost event 3 (iteration 2)"), "{shown}");
    assert!(shown.stderr().contains("the journal is damaged at byte"), "{shown}");
    assert_eq!(workspace.record(3, &["a cat at dawn", "--session", FIRST]), format!("{FIRST}#3"));
    let report = workspace.run(&["repair"]).stdout();
    assert!(report.contains(&format!("of {FIRST}: event 3, iteration 2, after")), "{report}");
}

#[test]
fn damage_without_loss_is_only_mentioned() {
    let workspace = workspace();
    fs::remove_file(journal(&workspace)).unwrap();
    let mut transcript = Transcript::new(&workspace);
    transcript.run(&["show", FIRST]).run(&["repair"]).run(&["show", "latest"]).check("no_loss");
}

#[test]
fn a_missing_image_is_reported_and_restored_by_an_import() {
    let workspace = workspace();
    let exported = workspace.run(&["export"]).output.stdout;
    for dir in fs::read_dir(workspace.workspace().join("images")).unwrap() {
        fs::remove_dir_all(dir.unwrap().path()).unwrap();
    }
    let mut transcript = Transcript::new(&workspace);
    transcript
        .run(&["verify"])
        .run(&["audit", FIRST])
        .run(&["export", "--output", "out.jsonl"])
        .run(&["show", &format!("{FIRST}#0")])
        .run_with(&["import", "-"], &exported)
        .run(&["verify"])
        .check("image_gone");
}

#[test]
fn an_import_skips_bad_files() {
    let workspace = workspace();
    let exported = workspace.run(&["export"]).stdout();
    let mut lines: Vec<&str> = exported.lines().collect();
    lines.insert(1, "nonsense");
    let here = TestWorkspace::new();
    let mut transcript = Transcript::new(&here);
    transcript.run_with(&["import", "-"], lines.join("\n").as_bytes()).run(&["list"]).check("import_with_problems");
}
