//! Starting, finding, sharing and stopping a gallery.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::client::{Gallery, retake};

#[test]
fn a_second_gallery_points_to_the_first() {
    let dir = tempfile::tempdir().unwrap();
    let first = Gallery::serve(dir.path(), &[]);
    let second = retake(dir.path(), &["serve", "--json"]).output().unwrap();
    assert!(second.status.success());
    let printed: Value = serde_json::from_slice(&second.stdout).unwrap();
    assert_eq!(printed["url"], first.url.as_str());
    assert_eq!(printed["alreadyServed"], true);

    // A killed gallery could not clean up, and is not taken for alive.
    drop(first);
    let third = Gallery::serve(dir.path(), &[]);
    assert_eq!(third.get("/").status, 200);
}

#[test]
fn a_port_in_use_by_another_program_is_named() {
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap().to_string();
    let dir = tempfile::tempdir().unwrap();
    let refused = retake(dir.path(), &["serve", "--addr", &address]).output().unwrap();
    assert_eq!(refused.status.code(), Some(1));
    let printed = String::from_utf8(refused.stderr).unwrap();
    assert!(printed.contains(&format!("error: {address} is taken by another program")), "{printed}");
    assert!(printed.contains("hint: choose another port"), "{printed}");
}

#[test]
fn other_machines_need_a_token() {
    let dir = tempfile::tempdir().unwrap();
    let refused = retake(dir.path(), &["serve", "--addr", "0.0.0.0:0"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8(refused.stderr).unwrap().contains("needs a token"));

    let gallery = Gallery::serve(dir.path(), &["--token", "open sesame+ forty"]);
    assert!(gallery.url.ends_with("/?token=open%20sesame%2B%20forty"), "{}", gallery.url);
    assert_eq!(gallery.get("/").status, 401);
    assert_eq!(gallery.get("/api/list-sessions").header("www-authenticate"), Some("Bearer"));
    assert_eq!(gallery.request("GET", "/", &[("Authorization", "Bearer open sesame")], b"").status, 401);
    assert_eq!(gallery.request("GET", "/", &[("Authorization", "Bearer open sesame+ forty")], b"").status, 200);

    // The printed URL lets a browser in, and does not stay in its address bar.
    let entered = gallery.get("/?token=open%20sesame%2B%20forty&status=all");
    assert_eq!((entered.status, entered.header("location")), (303, Some("/?status=all")));
    let typed = gallery.get("/?token=open+sesame%2B+forty");
    assert_eq!((typed.status, typed.header("location")), (303, Some("/")), "as a form sends it");
    let cookie = entered.header("set-cookie").unwrap();
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
    assert!(!cookie.contains("sesame"));
    let cookie = cookie.split(';').next().unwrap();
    assert_eq!(gallery.request("GET", "/", &[("Cookie", cookie)], b"").status, 200);
    assert_eq!(
        gallery.get("//evil.example/?token=open%20sesame%2B%20forty").header("location"),
        Some("/evil.example/")
    );

    // A client with the token may come from anywhere; one with only the cookie may not.
    let json = ("Content-Type", "application/json");
    let foreign = ("Origin", "https://evil.example");
    let bearer = ("Authorization", "Bearer open sesame+ forty");
    let body = br#"{"prompt":"a cat"}"#;
    assert_eq!(gallery.request("POST", "/api/record-iteration", &[json, foreign, bearer], body).status, 200);
    assert_eq!(
        gallery.request("POST", "/api/record-iteration", &[json, foreign, ("Cookie", cookie)], body).status,
        403
    );
}

#[cfg(unix)]
#[test]
fn serving_other_machines_warns_that_nothing_is_encrypted() {
    for (address, warns) in [("0.0.0.0:0", true), ("127.0.0.1:0", false)] {
        let dir = tempfile::tempdir().unwrap();
        let args = ["serve", "--addr", address, "--token", "open sesame+ forty"];
        let mut child = retake(dir.path(), &args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        // The gallery is announced before the warning, and answers after it.
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let port = line.split(':').next_back().unwrap().split('/').next().unwrap();
        let mut stream = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
        write!(stream, "GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n").unwrap();
        stream.read_to_end(&mut Vec::new()).unwrap();

        assert!(Command::new("kill").arg(child.id().to_string()).status().unwrap().success());
        let mut printed = String::new();
        child.stderr.take().unwrap().read_to_string(&mut printed).unwrap();
        child.wait().unwrap();
        assert_eq!(printed.contains("hint: this is HTTP without encryption"), warns, "{address}: {printed}");
    }
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[test]
fn the_heap_is_bounded_unless_the_user_has_chosen_otherwise() {
    let heap_of = |pid: u32| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap();
        let names = environment.split(|byte| *byte == 0).map(|name| String::from_utf8_lossy(name).into_owned());
        let mut heap: Vec<String> = names.filter(|name| name.starts_with("MALLOC_")).collect();
        heap.sort();
        heap
    };
    let dir = tempfile::tempdir().unwrap();
    let gallery = Gallery::serve(dir.path(), &[]);
    assert_eq!(
        heap_of(gallery.pid()),
        ["MALLOC_ARENA_MAX=2", "MALLOC_MMAP_THRESHOLD_=1048576", "MALLOC_TRIM_THRESHOLD_=1048576"]
    );

    let dir = tempfile::tempdir().unwrap();
    let mut chosen = retake(dir.path(), &["serve", "--addr", "127.0.0.1:0"]);
    let mut chosen = chosen.env("MALLOC_ARENA_MAX", "7").stdout(Stdio::piped()).spawn().unwrap();
    BufReader::new(chosen.stdout.take().unwrap()).read_line(&mut String::new()).unwrap();
    assert_eq!(heap_of(chosen.id()), ["MALLOC_ARENA_MAX=7"]);
    chosen.kill().unwrap();
    chosen.wait().unwrap();
}

#[cfg(unix)]
#[test]
fn stops_on_request_while_a_client_listens_for_events() {
    let dir = tempfile::tempdir().unwrap();
    let mut gallery = Gallery::serve(dir.path(), &[]);
    let mut stream = gallery.connect();
    write!(stream, "GET /events HTTP/1.1\r\nHost: {}\r\n\r\n", gallery.host).unwrap();
    let mut lines = BufReader::new(stream).lines();
    assert!(lines.by_ref().any(|line| line.unwrap() == "event: ready"));

    assert!(Command::new("kill").arg(gallery.pid().to_string()).status().unwrap().success());
    assert_eq!(gallery.wait(), 0);
    // The stream ended properly.
    assert!(lines.all(|line| line.is_ok()));
    assert!(!dir.path().join("serve.url").exists());
}

#[test]
fn changes_by_other_processes_are_pushed() {
    let dir = tempfile::tempdir().unwrap();
    let gallery = Gallery::serve(dir.path(), &[]);
    let mut stream = gallery.connect();
    write!(stream, "GET /events HTTP/1.1\r\nHost: {}\r\n\r\n", gallery.host).unwrap();
    let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
    assert!(lines.by_ref().any(|line| line == "event: ready"));

    assert!(retake(dir.path(), &["record", "a cat", "--json"]).output().unwrap().status.success());
    let event = lines.find(|line| line.contains(r#""kind":"recorded""#)).unwrap();
    let event: Value = serde_json::from_str(event.strip_prefix("data: ").unwrap()).unwrap();
    assert_eq!(event["index"], 0);
    assert!(event["session"].as_str().unwrap().starts_with("session-"));
}

#[test]
fn a_second_gallery_with_other_options_fails() {
    let dir = tempfile::tempdir().unwrap();
    let _first = Gallery::serve(dir.path(), &["--token", "the first of two tokens"]);
    for (args, expected) in [
        (&["--token", "the other of two tokens"][..], "with another token"),
        (&["--addr", "127.0.0.1:1"], "is already served at"),
    ] {
        let second = retake(dir.path(), &[&["serve"], args].concat()).output().unwrap();
        let printed = String::from_utf8(second.stderr).unwrap();
        assert_eq!(second.status.code(), Some(1), "{printed}");
        assert!(printed.contains(expected), "{printed}");
    }
    let same = retake(dir.path(), &["serve", "--token", "the first of two tokens"]).output().unwrap();
    assert!(same.status.success());
}

#[test]
fn weak_tokens_are_refused_and_wrong_ones_rate_limited() {
    let dir = tempfile::tempdir().unwrap();
    for weak in ["a", "short secret", "aaaaaaaaaaaaaaaaaaaaaaaa", "                    "] {
        let refused = retake(dir.path(), &["serve", "--token", weak]).output().unwrap();
        assert_eq!(refused.status.code(), Some(2), "{weak:?}");
        assert!(String::from_utf8(refused.stderr).unwrap().contains("too easy to guess"), "{weak:?}");
    }
    let gallery = Gallery::serve(dir.path(), &["--token", "a token of some length"]);
    let guess = |token: &str| gallery.request("GET", "/", &[("Authorization", &format!("Bearer {token}"))], b"").status;
    let statuses: Vec<u16> = (0..25).map(|number| guess(&format!("guess {number}"))).collect();
    assert_eq!((statuses[0], statuses[24]), (401, 429), "{statuses:?}");
    assert_eq!(guess("a token of some length"), 429, "the right one cannot be found by guessing on");
}

#[test]
fn a_request_with_millions_of_values_is_refused_before_it_is_parsed() {
    let gallery = Gallery::new();
    let json = ("Content-Type", "application/json");
    let body = format!(r#"{{"prompt":"x","parameters":{{"a":[{}0]}}}}"#, "0,".repeat(2_000_000));
    let answer = gallery.request("POST", "/api/record-iteration", &[json], body.as_bytes());
    assert_eq!(answer.status, 400);
    assert!(String::from_utf8_lossy(&answer.body).contains("values"), "{:?}", String::from_utf8_lossy(&answer.body));
    assert_eq!(gallery.get("/").status, 200);
}

#[cfg(unix)]
#[test]
fn what_is_created_is_private_whatever_the_umask() {
    use std::os::unix::fs::PermissionsExt;
    let home = tempfile::tempdir().unwrap();
    let workspace = home.path().join("ws");
    let command =
        format!("umask 000; exec {} record fox --workspace {}", env!("CARGO_BIN_EXE_retake"), workspace.display());
    assert!(Command::new("sh").args(["-c", &command]).output().unwrap().status.success());
    let mut open_to_others = Vec::new();
    for path in
        [workspace.clone(), workspace.join("journal"), workspace.join("owner.lock"), workspace.join("retake.toml")]
    {
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        if mode & 0o077 != 0 {
            open_to_others.push((path, format!("{mode:o}")));
        }
    }
    assert!(open_to_others.is_empty(), "{open_to_others:?}");
}
