//! Invalid input: errors name the problem and the expected input, with the right exit status, and nothing is written.

use crate::support::{FIRST, TestWorkspace, Transcript};

fn workspace() -> TestWorkspace {
    let workspace = TestWorkspace::new();
    workspace.record(0, &["a cat"]);
    std::fs::create_dir(workspace.dir().join("pictures")).unwrap();
    workspace.file("empty.png", "");
    workspace.file("notes.txt", "not an image");
    workspace
}

#[test]
fn bad_flags_are_explained() {
    let workspace = workspace();
    let before = workspace.listed();
    let ninth = format!("{FIRST}#9");
    let first = format!("{FIRST}#0");
    let mut printed = Transcript::new(&workspace);
    for args in [
        &["record", ""] as &[&str],
        &["record", " \n "],
        &["record"],
        &["record", "-"],
        &["record", "red \u{1b}[31m alert"],
        &["record", "a", "--seed", "-1"],
        &["record", "a", "--seed", "18446744073709551616"],
        &["record", "a", "--steps", "many"],
        &["record", "a", "--steps", "-3"],
        &["record", "a", "--cfg", "nan"],
        &["record", "a", "--denoise", "1.5"],
        &["record", "a", "--size", "large"],
        &["record", "a", "--width", "0"],
        &["record", "a", "--size", "8x8", "--width", "8"],
        &["record", "a", "--lora", "detail:high"],
        &["record", "a", "--cost", "free"],
        &["record", "a", "--param", "clip"],
        &["record", "a", "--parameters", "[]"],
        &["record", "a", "--parameters", "{"],
        &["record", "a", "--param", "=1"],
        &["record", "a", "--param", "a=1", "--param", "a=2"],
        &["record", "a", "--size", "0x8"],
        &["record", "a", "--size", "-8x8"],
        &["record", "a", "--lora", "detail:inf"],
        &["record", "a", "--generation-time-ms", "-1"],
        &["record", "a", "--expect", "1.5"],
        &["record", "a", "--parent", "nonsense"],
        &["record", "a", "--parent", "session-2024-99-11-001"],
        &["record", "--like", ""],
        &["record", "a", "--outcome", "sideways"],
        &["record", "a", "--created-at", "yesterday"],
        &["record", "a", "--created-at", "9999-01-01T00:00:00Z"],
        &["record", "a", "--image", "absent.png"],
        &["record", "a", "--image", "pictures"],
        &["record", "a", "--image", "empty.png"],
        &["record", "a", "--session", "session-2024-12-11-999"],
        &["record", "a", "--session", "last"],
        &["record", "a", "--session", FIRST, "--expect", "7"],
        &["record", "a", "--expect", "7"],
        &["record", "a", "--parent", &ninth],
        &["record", "a", "--model", "two\nlines"],
        &["record", "--json", "a cat"],
        &["record", "a", "--json", "-"],
        &["annotate", "latest", "--rating", "3.5"],
        &["annotate", "latest", "--rating", "6"],
        &["annotate", "latest", "--rating", "-1"],
        &["annotate", "latest", "--rating", "good"],
        &["annotate", "latest"],
        &["annotate", "latest", "--tag", ""],
        &["annotate", "latest", "--tag", "a", "--clear-tags"],
        &["annotate", "latest", "--add-tag", ""],
        &["annotate", "latest", "--remove-tag", ""],
        &["annotate", &ninth, "--rating", "3"],
        &["show", "nonsense"],
        &["show", "session-2024-12-11-999"],
        &["show", &ninth],
        &["show", &format!("{FIRST}#x")],
        &["show", "latest", "--limit", "3"],
        &["show", FIRST, "--full"],
        &["archive", "last"],
        &["archive", "session-2024-12-11-999"],
        &["restore", &first],
        &["audit", &first],
        &["list", "--limit", "0"],
        &["list", "--cursor", "made-up"],
        &["list", "--since", "2024-03", "--until", "2024-02"],
        &["list", "--workspace", "empty.png"],
        &["list", "--workspace", "mysql://host/db"],
        &["audit", "--since", "2024-03", "--until", "2024-02"],
        &["audit", FIRST, "--limit", "-1"],
        &["search", "--limit", "-1"],
        &["search", "--similar-to", "notes.txt"],
        &["serve", "--port", "many"],
        &["verify", "absent.tar", "--seal", "abc"],
        &["wrap", "--url", "example.com/mcp"],
        &["wrap", "--profile", "nonsense", "--", "true"],
        &["mcp", "--root", "absent"],
        &["mcp", "install", "cursor", "--root", "absent"],
        &["list", "--all", "--json"],
        &["export", "session-2024-12-11-999"],
        &["export", "--output", "absent/out.jsonl"],
        &["export", "--output", "pictures"],
        &["import", "absent.jsonl"],
        &["import", "pictures"],
        &["import", "empty.png"],
        &["completions", "telnet"],
        &["lst"],
        &[],
    ] {
        printed.run(args);
    }
    printed.check("bad_flags");
    assert_eq!(workspace.listed(), before, "nothing was written");
    assert!(!workspace.dir().join("absent").exists());
}

#[test]
fn bad_json_is_explained() {
    let workspace = workspace();
    let before = workspace.listed();
    let mut printed = Transcript::new(&workspace);
    for input in [
        b"" as &[u8],
        b"\n \n",
        b"a cat",
        b"[{\"prompt\":\"a cat\"}]",
        b"{\"prompt\":\"a cat\"",
        b"{\"prompt\": a cat}",
        b"{\"prompt\":\"a\xff cat\"}",
        b"{\n  \"prompt\": \"a\",\n  \"promptt\": \"b\"\n}",
        b"{\"seed\":1}",
        b"{\"prompt\":7}",
        b"{\"prompt\":\"\"}",
        b"{\"prompt\":\"a\\u0000b\"}",
        b"{\"prompt\":\"a\",\"seed\":-1}",
        b"{\"prompt\":\"a\",\"seed\":18446744073709551616}",
        b"{\"prompt\":\"a\",\"seed\":\"1e3\"}",
        b"{\"prompt\":\"a\",\"outcome\":\"maybe\"}",
        b"{\"prompt\":\"a\",\"images\":[\"absent.png\"]}",
        b"{\"prompt\":\"a\",\"images\":[{\"path\":\"pictures\"}]}",
        b"{\"prompt\":\"a\",\"images\":[{\"data\":\"?\"}]}",
        b"{\"prompt\":\"a\",\"images\":[7]}",
    ] {
        printed.run_with(&["record", "--json", "-"], input);
    }
    printed.check("bad_json");
    assert_eq!(workspace.listed(), before, "nothing was written");
}

#[test]
fn a_prompt_of_10_mb_is_refused() {
    let workspace = workspace();
    let before = workspace.listed();
    let request = serde_json::json!({ "prompt": "x".repeat(10_000_000) }).to_string();
    let ran = workspace.run_with(&["record", "--json", "-"], request.as_bytes());
    assert_eq!(ran.status(), 1);
    assert!(ran.stdout().contains("prompt is 10000000 bytes long, and at most 262144 are allowed"), "{ran}");
    assert_eq!(workspace.listed(), before);
}

#[cfg(unix)]
#[test]
fn arguments_that_are_not_utf_8_are_refused() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    let workspace = workspace();
    let before = workspace.listed();
    let bad = OsStr::from_bytes(b"a\xff");
    let args = |args: &[&'static str]| args.iter().copied().map(OsStr::new).chain([bad]).collect::<Vec<_>>();
    for (args, status) in [
        (args(&["record"]), 2),
        (args(&["record", "a", "--image"]), 1),
        (args(&["record", "a", "--model"]), 2),
        (args(&["show"]), 2),
        (args(&["import"]), 1),
        (args(&["record", "--json"]), 1),
        (args(&[]), 2),
    ] {
        let ran = workspace.run(&args);
        assert_eq!(ran.status(), status, "{ran}");
        assert!(!ran.stderr().contains("panicked"), "{ran}");
    }
    assert_eq!(workspace.listed(), before);
}
