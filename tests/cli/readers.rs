//! Reading never creates a workspace; missing things are reported; no loss is hidden; and recording immediately reports
//! anything unusual.

use std::fs;

use retake_testutils::made::{png, write};
use serde_json::json;

use crate::importing::picture;
use crate::support::TestWorkspace;

#[test]
fn reading_never_creates_a_workspace() {
    let workspace = TestWorkspace::new();
    write(&workspace.dir().join("pictures/a.png"), &picture(1), 1_714_564_800);
    let empty = workspace.json(&["list", "--workspace", "typo"]);
    assert_eq!((&empty["sessions"], &empty["totalSessions"]), (&json!([]), &json!(0)));
    assert!(workspace.run(&["list", "--workspace", "typo"]).stdout().starts_with("No sessions yet in "));
    assert_eq!(workspace.json(&["search", "fox", "--workspace", "typo"])["totalMatches"], 0);
    assert_eq!(workspace.json(&["doctor", "--workspace", "typo"])["exists"], false);
    assert_eq!(workspace.json(&["import", "pictures", "--dry-run", "--workspace", "typo"])["iterations"], 1);
    for verb in [
        &["verify"][..],
        &["repair"],
        &["audit", "session-2024-12-11-001"],
        &["export"],
        &["export", "--folder", "sent"],
        &["show", "latest"],
        &["resume"],
        &["annotate", "latest", "--rating", "3"],
        &["archive", "session-2024-12-11-001"],
    ] {
        let ran = workspace.run(&[verb, &["--workspace", "typo"]].concat());
        assert_eq!(ran.status(), 1, "{ran}");
        assert!(ran.stderr().contains("there is no workspace in "), "{ran}");
    }
    assert!(!workspace.dir().join("typo").exists());
    assert!(!workspace.dir().join("sent").exists());
    let left = fs::read_dir(std::env::temp_dir()).unwrap().flatten();
    let ours = |name: &str| name.starts_with("retake-empty-");
    // Others may run at the same time: their directories contain the ids of live processes.
    for entry in left.filter(|entry| ours(&entry.file_name().to_string_lossy())) {
        let name = entry.file_name().to_string_lossy().into_owned();
        let pid = name.rsplit('-').next().unwrap();
        assert!(fs::exists(format!("/proc/{pid}")).unwrap_or(true) || !entry.path().exists(), "{name} is left");
    }
    // A folder full of other things stays unchanged.
    let before = fs::read_dir(workspace.dir().join("pictures")).unwrap().count();
    workspace.run(&["list", "--workspace", "pictures"]);
    assert_eq!(fs::read_dir(workspace.dir().join("pictures")).unwrap().count(), before);
}

#[cfg(unix)]
#[test]
fn a_directory_that_cannot_be_read_is_named() {
    use std::os::unix::fs::PermissionsExt;
    for (part, lock_mode, expected) in [
        ("db", 0o600, "error: not allowed to read the database: "),
        ("journal", 0o600, "error: not allowed to read the journal: "),
        // Without write access to its lock, the workspace is read in a copy.
        ("journal", 0o400, "error: not allowed to read the workspace: "),
    ] {
        let workspace = TestWorkspace::new();
        workspace.record(0, &["a cat"]);
        let set_mode = |name: &str, mode| {
            fs::set_permissions(workspace.workspace().join(name), fs::Permissions::from_mode(mode)).unwrap();
        };
        set_mode("owner.lock", lock_mode);
        set_mode(part, 0o000);
        let listed = workspace.run_bound(&["list"]);
        // The directory of the test must be removable by any user.
        set_mode(part, 0o700);
        assert_eq!(listed.status(), 1, "{listed}");
        assert!(listed.stderr().starts_with(expected), "{listed}");
        assert!(listed.stderr().contains("hint: grant yourself the right to read and write there"), "{listed}");
    }
}

#[test]
fn a_missing_log_is_not_an_empty_workspace() {
    let workspace = TestWorkspace::new();
    workspace.file("cat.png", png(1, &[]));
    workspace.record(0, &["a cat", "--image", "cat.png"]);
    for part in ["db", "journal"] {
        fs::remove_dir_all(workspace.workspace().join(part)).unwrap();
    }
    let list = workspace.run(&["list"]);
    assert_eq!(list.status(), 3, "{list}");
    assert!(list.stderr().contains("the log is gone") || list.stderr().contains("The log is gone"), "{list}");
    let json: serde_json::Value = serde_json::from_slice(&workspace.run(&["list", "--json"]).output.stdout).unwrap();
    assert_eq!(json["totalSessions"], 0);
    assert!(json["recovery"]["message"].as_str().unwrap().contains("1 image is in images/"), "{json}");
    let verify = workspace.run(&["verify"]);
    assert_eq!(verify.status(), 3, "{verify}");
    assert!(verify.stdout().contains("the log is gone"), "{verify}");
    assert!(verify.stderr().contains("no event names images/"), "{verify}");
}

#[test]
fn an_unreferenced_image_is_listed_and_is_not_damage() {
    let workspace = TestWorkspace::new();
    workspace.file("cat.png", png(1, &[]));
    workspace.record(0, &["a cat", "--image", "cat.png"]);
    let bytes = png(2, &[]);
    let hash = blake3::hash(&bytes).to_hex().to_string();
    write(&workspace.workspace().join("images").join(&hash[..2]).join(&hash[2..]), &bytes, 1_714_564_800);
    let verify = workspace.run(&["verify"]);
    assert_eq!(verify.status(), 0, "{verify}");
    assert!(verify.stderr().contains(&format!("no event names images/{}/{}", &hash[..2], &hash[2..])), "{verify}");
    assert_eq!(workspace.json(&["verify"])["unreferencedImages"].as_array().unwrap().len(), 1);
}

#[test]
fn only_images_are_recorded_and_unusual_ones_are_reported() {
    let workspace = TestWorkspace::new();
    workspace.file("secret.env", "API_KEY=sk-secret-123\n");
    for path in ["secret.env", "/etc/passwd"] {
        let ran = workspace.run(&["record", "evil", "--image", path]);
        assert_eq!(ran.status(), 2, "{ran}");
        assert!(ran.stderr().contains("is not an image or video of a known type"), "{ran}");
    }
    let request = json!({ "prompt": "evil", "images": [{ "data": "QVBJX0tFWT1zay1zZWNyZXQtMTIz" }] }).to_string();
    let ran = workspace.run_with(&["record", "--json", "-"], request.as_bytes());
    assert_eq!(ran.status(), 1, "{ran}");
    assert!(ran.stdout().contains(r#""kind":"invalid""#), "{ran}");

    let whole = png(1, &[]);
    workspace.file("cat.png", &whole);
    workspace.file("cut.png", &whole[..whole.len() - 60]);
    let first = workspace.record(0, &["a cat", "--image", "cat.png"]);
    let twice = workspace.run(&["record", "a cat", "--image", "cat.png"]);
    assert_eq!(twice.status(), 0, "{twice}");
    assert!(twice.stderr().contains(&format!("/0: the same bytes as {first}")), "{twice}");
    let cut = workspace.json(&["record", "a cat", "--image", "cut.png"]);
    let warning = cut["warnings"][0].as_str().unwrap();
    assert!(warning.ends_with("/0: the file is truncated"), "{cut}");
    assert_eq!(workspace.json(&["record", "a dog"]).get("warnings"), None);
}

#[test]
fn recording_an_image_that_watch_imported_is_reported() {
    let workspace = TestWorkspace::new();
    write(&workspace.dir().join("live/00001.png"), &picture(1), 1_714_564_800);
    let report = workspace.json(&["import", "live", "--link"]);
    let session = report["sessions"][0]["sessionId"].as_str().unwrap().to_owned();
    let recorded = workspace.json(&["record", "a fox", "--image", "live/00001.png"]);
    assert!(
        recorded["warnings"][0].as_str().unwrap().ends_with(&format!("the same bytes as {session}#0")),
        "{recorded}"
    );
}

#[test]
fn a_bundle_is_never_overwritten() {
    let workspace = TestWorkspace::new();
    workspace.record(0, &["a cat"]);
    assert_eq!(workspace.run(&["export", "--bundle", "evidence.tar"]).status(), 0);
    let before = fs::read(workspace.dir().join("evidence.tar")).unwrap();
    let again = workspace.run(&["export", "--bundle", "evidence.tar"]);
    assert_eq!(again.status(), 2, "{again}");
    assert!(again.stderr().contains("--bundle evidence.tar"), "{again}");
    assert_eq!(fs::read(workspace.dir().join("evidence.tar")).unwrap(), before);
    let left: Vec<_> = fs::read_dir(workspace.dir()).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().contains(".part")), "{left:?}");
    let imported = workspace.run(&["import", "evidence.tar"]);
    assert!(imported.stdout().starts_with("nothing new; 2 events were already here"), "{imported}");
}

#[test]
fn an_import_that_finds_nothing_new_says_so_and_a_plan_names_files() {
    let workspace = TestWorkspace::new();
    for number in 1..=3 {
        write(
            &workspace.dir().join(format!("pictures/{number:05}.png")),
            &picture(number),
            1_714_564_800 + number * 60,
        );
    }
    let plan = workspace.run(&["import", "pictures", "--dry-run"]);
    assert!(plan.stdout().contains("00002.png"), "{plan}");
    assert_eq!(workspace.run(&["import", "pictures"]).status(), 0);
    let again = workspace.run(&["import", "pictures"]);
    assert_eq!(again.stdout().trim(), "nothing new; 3 images were already here");
    fs::remove_dir_all(workspace.workspace().join("images")).unwrap();
    let healed = workspace.run(&["import", "pictures"]);
    assert_eq!(healed.stdout().trim(), "restored 3 originals; 3 images were already here");
}

#[cfg(unix)]
#[test]
fn a_demo_that_is_interrupted_leaves_nothing() {
    use std::process::Stdio;
    let workspace = TestWorkspace::new();
    let tmp = workspace.root().join("tmp");
    fs::create_dir(&tmp).unwrap();
    let mut command = workspace.command(&["demo", "--addr", "127.0.0.1:0"]);
    let child = command.env("TMPDIR", &tmp).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    // Once its directory exists, it is painting.
    while fs::read_dir(&tmp).unwrap().count() == 0 {
        std::thread::yield_now();
    }
    crate::support::signal("INT", child.id());
    workspace.waited(child, &["demo"]);
    assert_eq!(fs::read_dir(&tmp).unwrap().count(), 0);
}
