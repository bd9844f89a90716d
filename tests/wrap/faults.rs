//! Whatever happens to the workspace, the server or the client, the traffic is unaffected, and everything that passed
//! completely is recorded once.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::Test;
use crate::client::{Client, Desk, eventually, fake, mark, signal};

#[cfg(unix)]
pub(crate) const TESTS: &[Test] = &[
    ("a_workspace_that_cannot_be_written", a_workspace_that_cannot_be_written),
    ("a_full_disk", a_full_disk),
    ("a_disk_that_has_room_again", a_disk_that_has_room_again),
    ("an_owner_that_is_killed", an_owner_that_is_killed),
    ("a_damaged_store", a_damaged_store),
    ("a_server_that_is_killed", a_server_that_is_killed),
    ("a_server_that_crashes_in_a_call", a_server_that_crashes_in_a_call),
    ("a_client_that_leaves_in_a_call", a_client_that_leaves_in_a_call),
    ("an_answer_after_a_cancel", an_answer_after_a_cancel),
    ("an_archived_session", an_archived_session),
    ("a_job_outlives_the_process", a_job_outlives_the_process),
    ("an_owner_that_is_stopped", an_owner_that_is_stopped),
    ("what_waits_outlives_the_process", what_waits_outlives_the_process),
];
#[cfg(not(unix))]
pub(crate) const TESTS: &[Test] = &[];

/// Generates images, and returns the responses, all of which must arrive.
fn generate(client: &mut Client, prompts: &[&str]) -> Vec<Value> {
    prompts
        .iter()
        .map(|prompt| {
            let answer = client.call("generate_image", json!({"prompt": prompt}));
            assert_eq!(answer["result"]["content"][0]["type"], "image", "{answer}");
            answer
        })
        .collect()
}

/// Returns the recorded prompts, in order.
fn prompts(desk: &Desk) -> Vec<String> {
    desk.recorded().iter().map(|it| it["recipe"]["prompt"].as_str().unwrap().to_owned()).collect()
}

fn a_workspace_that_cannot_be_written() {
    let desk = Desk::new();
    // Not even root can create directories below a file.
    std::fs::write(desk.workspace(), "a file").unwrap();
    let mut client = desk.wrap_images(&[]);
    client.initialize();
    let answers = generate(&mut client, &["one", "two", "three"]);
    assert!(answers.iter().all(|answer| mark(answer).is_none()));
    let stderr = client.finish();
    assert!(stderr.contains("retake wrap: cannot record") && stderr.contains("3 of 3 generations"), "{stderr}");
    assert!(stderr.lines().count() <= 2, "{stderr}");
    assert_eq!(std::fs::read_to_string(desk.workspace()).unwrap(), "a file");
}

/// Runs `wrap` in a shell that limits the size of files: the closest to a full disk that needs no privileges.
fn limited(desk: &Desk, blocks: u32) -> Client {
    let mut shell = Command::new("sh");
    desk.settle(&mut shell);
    let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\"");
    shell.args(["-c", &script]).arg(env!("CARGO_BIN_EXE_retake")).arg("--workspace").arg(desk.workspace());
    shell.args(["wrap", "--announce-timeout", "600000", "--"]).args(fake(&["images", desk.out().to_str().unwrap()]));
    Client::start(shell)
}

fn a_full_disk() {
    let desk = Desk::new();
    let mut client = limited(&desk, 0);
    client.initialize();
    let answers = generate(&mut client, &["one", "two"]);
    assert!(answers.iter().all(|answer| mark(answer).is_none()));
    let stderr = client.finish();
    assert!(stderr.contains("cannot record") && stderr.contains("2 of 2 generations"), "{stderr}");
}

fn a_disk_that_has_room_again() {
    let desk = Desk::new();
    // A file at the path of the workspace, removed later: what could not be recorded is recorded then.
    std::fs::write(desk.workspace(), "a file").unwrap();
    let mut client = desk.wrap_images(&[]);
    client.initialize();
    generate(&mut client, &["one", "two"]);
    std::fs::remove_file(desk.workspace()).unwrap();
    let answers = generate(&mut client, &["three"]);
    assert!(mark(&answers[0]).is_some());
    client.finish();
    assert_eq!(prompts(&desk), ["one", "two", "three"]);
}

fn an_owner_that_is_killed() {
    let desk = Desk::new();
    let mut owner = desk.retake(&["mcp"]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    eventually("the owner is there", || {
        desk.workspace().join("retake.toml").exists() && desk.json(&["doctor"])["owner"]["pid"] == owner.id()
    });
    let mut client = desk.wrap_images(&[]);
    client.initialize();
    generate(&mut client, &["one", "two"]);
    signal("KILL", owner.id());
    owner.wait().unwrap();
    let answers = generate(&mut client, &["three", "four"]);
    assert!(answers.iter().all(|answer| mark(answer).is_some()), "{answers:?}");
    client.finish();
    assert_eq!(prompts(&desk), ["one", "two", "three", "four"]);
}

fn a_damaged_store() {
    let desk = Desk::new();
    let mut client = desk.wrap_images(&[]);
    client.initialize();
    generate(&mut client, &["one", "two"]);
    client.finish();
    for folder in ["db", "journal"] {
        damage(&desk.workspace().join(folder));
    }
    let mut client = desk.wrap_images(&[]);
    client.initialize();
    let answers = generate(&mut client, &["three"]);
    assert!(mark(&answers[0]).is_some(), "{answers:?}");
    client.finish();
    // Damage is reported by every command until it is acknowledged, and what was recorded since exists.
    desk.retake(&["repair"]).output().unwrap();
    assert!(prompts(&desk).contains(&"three".to_owned()));
}

/// Overwrites the middle of every file.
fn damage(dir: &Path) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            damage(&path);
        } else if let Ok(mut bytes) = std::fs::read(&path) {
            let middle = bytes.len() / 2;
            bytes.iter_mut().skip(middle).take(64).for_each(|byte| *byte ^= 0xff);
            std::fs::write(&path, bytes).unwrap();
        }
    }
}

fn a_job_outlives_the_process() {
    let desk = Desk::new();
    let mut client = desk.wrap_images(&[]);
    client.initialize();
    client.call("generate_image", json!({"prompt": "job one"}));
    let spool = desk.workspace().join("cache/wrap");
    let is_spooled = || {
        let names = std::fs::read_dir(&spool).into_iter().flatten().flatten();
        names.filter_map(|it| it.file_name().into_string().ok()).any(|name| name.ends_with(".jobs"))
    };
    eventually("the job is spooled", is_spooled);
    signal("KILL", client.process.id());
    client.wait();
    assert_eq!(desk.json(&["list"])["totalSessions"], 0);

    // Another server's wrapper leaves it alone; the next one of the same server completes it.
    let mut client = desk.wrap_images(&[]);
    client.initialize();
    let answer = client.call("check_job", json!({"job_id": "job-1-abcdef"}));
    assert!(mark(&answer).is_some(), "{answer}");
    client.finish();
    let recorded = desk.recorded();
    assert_eq!(recorded.len(), 1);
    assert_eq!(recorded[0]["recipe"]["prompt"], "job one");
    assert_eq!(recorded[0]["outcome"]["status"], "succeeded");
    assert_eq!(recorded[0]["recipe"]["parameters"]["mcp"]["job"], "job-1-abcdef");
    assert!(!spool.exists(), "nothing is left in the spool");
}

fn an_owner_that_is_stopped() {
    let desk = Desk::new();
    let mut owner = desk.retake(&["mcp"]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    eventually("the owner is there", || {
        desk.workspace().join("retake.toml").exists() && desk.json(&["doctor"])["owner"]["pid"] == owner.id()
    });
    signal("STOP", owner.id());
    let mut wrap = desk.retake(&["wrap", "--announce-timeout", "200", "--"]);
    wrap.args(fake(&["images", desk.out().to_str().unwrap()]));
    let mut client = Client::start(wrap);
    client.initialize();
    let answers = generate(&mut client, &["late one", "late two"]);
    assert!(answers.iter().all(|answer| mark(answer).is_none()), "{answers:?}");
    signal("CONT", owner.id());
    client.finish();
    assert_eq!(prompts(&desk), ["late one", "late two"]);
    drop(owner.stdin.take());
    owner.wait().unwrap();
}

/// Checks that the next run records, once, what the workspace refused and the spool contains.
fn what_waits_outlives_the_process() {
    let desk = Desk::new();
    // A workspace of a newer format: it is writable, but not opened.
    std::fs::create_dir_all(desk.workspace()).unwrap();
    let settings = desk.workspace().join("retake.toml");
    std::fs::write(&settings, "format = 999\nid = \"x\"\n").unwrap();
    let mut client = desk.wrap_images(&[]);
    client.initialize();
    generate(&mut client, &["one", "two"]);
    let stderr = client.finish();
    assert!(stderr.contains("2 generations wait on this machine"), "{stderr}");
    std::fs::remove_file(&settings).unwrap();
    let mut client = desk.wrap_images(&[]);
    client.initialize();
    generate(&mut client, &["three"]);
    client.finish();
    assert_eq!(prompts(&desk), ["one", "two", "three"]);
    assert!(!desk.workspace().join("cache/wrap").exists(), "nothing is left in the spool");
}

fn a_server_that_is_killed() {
    let desk = Desk::new();
    let mut client = desk.wrap(
        &[],
        &[
            "sh".into(),
            "-c".into(),
            format!("echo $$; exec \"{}\" fake images .", std::env::current_exe().unwrap().display()).into(),
        ],
    );
    let pid: u32 = String::from_utf8(client.line()).unwrap().trim().parse().unwrap();
    client.initialize();
    generate(&mut client, &["one"]);
    client.request("tools/call", json!({"name": "generate_image", "arguments": {"prompt": "silent"}}));
    signal("KILL", pid);
    let (status, ..) = client.wait();
    assert_eq!(status.code(), Some(137));
    assert_eq!(prompts(&desk), ["one"]);
}

fn a_server_that_crashes_in_a_call() {
    let desk = Desk::new();
    let mut client = desk.wrap_images(&[]);
    client.initialize();
    generate(&mut client, &["one"]);
    client.request("tools/call", json!({"name": "generate_image", "arguments": {"prompt": "crash"}}));
    let (status, ..) = client.wait();
    assert_eq!(status.code(), Some(3));
    assert_eq!(prompts(&desk), ["one"]);
}

fn a_client_that_leaves_in_a_call() {
    let desk = Desk::new();
    let mut client = desk.wrap_images(&[]);
    client.initialize();
    generate(&mut client, &["one"]);
    client.request("tools/call", json!({"name": "generate_image", "arguments": {"prompt": "late but paid for"}}));
    let (status, rest, _) = client.wait();
    assert_eq!(status.code(), Some(0));
    assert!(rest.ends_with(b"\n"), "the answer still came");
    assert_eq!(prompts(&desk), ["one", "late but paid for"]);
}

fn an_answer_after_a_cancel() {
    let desk = Desk::new();
    let mut client = desk.wrap_images(&[]);
    client.initialize();
    let id = client.request("tools/call", json!({"name": "generate_image", "arguments": {"prompt": "late"}}));
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
    client.send(format!("{cancel}\n").as_bytes());
    client.answer(id);
    client.finish();
    let recorded = desk.recorded();
    assert_eq!(recorded.len(), 1);
    assert_eq!(recorded[0]["outcome"]["status"], "succeeded");
    assert_eq!(recorded[0]["recipe"]["parameters"]["mcp"]["cancelledByClient"], true);
}

fn an_archived_session() {
    let desk = Desk::new();
    let mut client = desk.wrap_images(&[]);
    client.initialize();
    let first = mark(&generate(&mut client, &["one"])[0]).unwrap();
    let session = first.split('#').next().unwrap().to_owned();
    desk.json(&["archive", &session]);
    let second = mark(&generate(&mut client, &["two"])[0]).unwrap();
    assert_ne!(second.split('#').next(), Some(session.as_str()));
    client.finish();
    assert_eq!(prompts(&desk), ["one", "two"]);
}
