//! The gallery in a real browser: the binary serves, and scripts in this directory press keys and click in headless
//! Chromium. Screenshots of every page go to `target/screenshots`.
//!
//! Needs Chromium, Node.js, Playwright (without its own browser) and axe. If one is missing, the tests are reported as
//! ignored; `RETAKE_TEST_INSTALL=1` installs them (see `tools.rs`).
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a failed assertion is the report of a test"
)]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};

use retake_testutils::optional::{optional, run};
use serde_json::Value;

mod tools;

use tools::Tools;

fn main() -> ExitCode {
    let test = |name, test: fn()| optional(name, Tools::missing(), test);
    run(vec![
        test("people_find_their_way", people_find_their_way),
        test("decisions_reach_what_was_shown", decisions_reach_what_was_shown),
        test("nothing_is_lost_in_a_hurry", nothing_is_lost_in_a_hurry),
        test("the_loupe_is_usable_by_any_hand", the_loupe_is_usable_by_any_hand),
        test("unusual_states_have_a_design", unusual_states_have_a_design),
        test("hostile_text_stays_text", hostile_text_stays_text),
        test("images_are_compared", images_are_compared),
        test("the_shelf_is_worked_with", the_shelf_is_worked_with),
        test("provenance_is_read", provenance_is_read),
        test("details_are_right", details_are_right),
        test("the_token_is_asked_for", the_token_is_asked_for),
        test("videos_are_played", videos_are_played),
        test("dates_are_reached", dates_are_reached),
        test("every_image_of_a_batch_counts", every_image_of_a_batch_counts),
        test("settings_of_the_system_are_respected", settings_of_the_system_are_respected),
    ])
}

/// A gallery that ends with the test.
struct Served {
    child: Child,
    url: String,
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn people_find_their_way() {
    let tools = Tools::ready();
    let dir = tempfile::tempdir().unwrap();
    let demo = serve(&["demo", "--keep"], &dir.path().join("sample"));
    tools.run("paths.mjs", &demo.url);
    tools.run("typing.mjs", &demo.url);
    tools.run("looks.mjs", &demo.url);
}

fn images_are_compared() {
    on_the_sample("compare.mjs");
}

fn the_shelf_is_worked_with() {
    on_the_sample("shelf.mjs");
}

fn provenance_is_read() {
    on_the_sample("provenance.mjs");
}

fn details_are_right() {
    let tools = Tools::ready();
    let dir = tempfile::tempdir().unwrap();
    let served = serve(&["serve", "--workspace"], dir.path());
    tools.run("details.mjs", &served.url);
}

fn the_token_is_asked_for() {
    let tools = Tools::ready();
    let dir = tempfile::tempdir().unwrap();
    let served = serve(&["serve", "--token", "open sesame+ forty", "--workspace"], dir.path());
    tools.run("token.mjs", served.url.split("/?").next().unwrap());
}

fn videos_are_played() {
    let tools = Tools::ready();
    let dir = tempfile::tempdir().unwrap();
    let served = serve(&["serve", "--workspace"], dir.path());
    tools.run("videos.mjs", &served.url);
}

fn settings_of_the_system_are_respected() {
    on_the_sample("modes.mjs");
}

fn dates_are_reached() {
    let tools = Tools::ready();
    let dir = tempfile::tempdir().unwrap();
    let served = serve(&["serve", "--workspace"], dir.path());
    tools.run("scrubber.mjs", &served.url);
}

fn every_image_of_a_batch_counts() {
    let tools = Tools::ready();
    let dir = tempfile::tempdir().unwrap();
    let served = serve(&["serve", "--workspace"], dir.path());
    tools.converse("batch.mjs", &served.url, |request| beside(dir.path(), request));
}

/// Runs a script on a fresh sample history.
fn on_the_sample(script: &str) {
    let tools = Tools::ready();
    let dir = tempfile::tempdir().unwrap();
    let demo = serve(&["demo", "--keep"], &dir.path().join("sample"));
    tools.run(script, &demo.url);
}

fn decisions_reach_what_was_shown() {
    let tools = Tools::ready();
    let dir = tempfile::tempdir().unwrap();
    let served = serve(&["serve", "--workspace"], dir.path());
    tools.converse("writes.mjs", &served.url, |request| beside(dir.path(), request));
}

fn nothing_is_lost_in_a_hurry() {
    let tools = Tools::ready();
    let dir = tempfile::tempdir().unwrap();
    let served = serve(&["serve", "--workspace"], dir.path());
    tools.run("hurry.mjs", &served.url);
}

fn the_loupe_is_usable_by_any_hand() {
    let tools = Tools::ready();
    let dir = tempfile::tempdir().unwrap();
    let served = serve(&["serve", "--workspace"], dir.path());
    tools.converse("loupe.mjs", &served.url, |request| beside(dir.path(), request));
}

/// Runs `run ["record", …]`: a command in a separate process, next to the server.
fn beside(workspace: &Path, request: &str) {
    let args: Vec<String> = serde_json::from_str(request.strip_prefix("run ").unwrap()).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_retake")).args(&args).arg("--workspace").arg(workspace).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn unusual_states_have_a_design() {
    let tools = Tools::ready();
    let dir = tempfile::tempdir().unwrap();
    let workspace = dir.path();
    // The same address each time, as an open page expects.
    let address = lasting_address();
    let again = || Some(serve_at(&address, &["serve", "--workspace"], workspace));
    let mut served = again();
    let url = served.as_ref().unwrap().url.clone();
    let another = tempfile::tempdir().unwrap();
    tools.converse("states.mjs", &url, |request| {
        // Dropping it kills it.
        served = None;
        match request {
            "stop" => return,
            "start another" => {
                served = Some(serve_at(&address, &["serve", "--workspace"], another.path()));
                return;
            }
            "start with more" => {
                let mut record = Command::new(env!("CARGO_BIN_EXE_retake"));
                record.args(["record", "recorded meanwhile", "--workspace"]).arg(workspace);
                assert!(record.output().unwrap().status.success());
            }
            _ => match request.split_once(' ') {
                Some(("damage", hash)) => damage(workspace, hash),
                Some(("remove", hash)) => std::fs::remove_file(original(workspace, hash)).unwrap(),
                Some(("lose", text)) => lose(workspace, text),
                _ => assert_eq!(request, "start"),
            },
        }
        served = again();
    });
}

/// Returns an address that stays free while the server is stopped: its port is below those that the system gives to
/// connections, of which the tests next to this one open many.
fn lasting_address() -> String {
    let first = 20_000 + u16::try_from(std::process::id() % 10_000).unwrap();
    let free =
        (first..32_000).map(|port| format!("127.0.0.1:{port}")).find(|it| std::net::TcpListener::bind(it).is_ok());
    free.unwrap()
}

/// Overwrites the database, so that it is rebuilt from the journal, and removes an image and all thumbnails.
fn damage(workspace: &Path, image: &str) {
    for entry in std::fs::read_dir(workspace.join("db")).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            std::fs::write(path, [0xa5; 4096]).unwrap();
        }
    }
    std::fs::remove_file(original(workspace, image)).unwrap();
    std::fs::remove_dir_all(workspace.join("cache")).unwrap();
}

/// Returns the path of an original.
fn original(workspace: &Path, hash: &str) -> std::path::PathBuf {
    let (folder, name) = hash.split_at(2);
    workspace.join("images").join(folder).join(name)
}

/// Alters an event in the journal by a text in it, and removes the database, the second copy.
fn lose(workspace: &Path, text: &str) {
    let journal = workspace.join("journal/00000001.log");
    let mut bytes = std::fs::read(&journal).unwrap();
    let at = bytes.windows(text.len()).position(|window| window == text.as_bytes()).unwrap();
    bytes[at..at + text.len()].make_ascii_uppercase();
    std::fs::write(journal, bytes).unwrap();
    std::fs::remove_dir_all(workspace.join("db")).unwrap();
}

fn hostile_text_stays_text() {
    let tools = Tools::ready();
    let (dir, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = folder.path().join("<img src=x onerror=window.planted=1>.png");
    image::RgbImage::new(8, 8).save(&file).unwrap();
    let mut record = Command::new(env!("CARGO_BIN_EXE_retake"));
    record.args(["record", "a pixel", "--title", "named by its file", "--image"]).arg(&file);
    assert!(record.arg("--workspace").arg(dir.path()).output().unwrap().status.success());
    let served = serve(&["serve", "--workspace"], dir.path());
    tools.run("hostile.mjs", &served.url);
}

fn serve(args: &[&str], dir: &Path) -> Served {
    serve_at("127.0.0.1:0", args, dir)
}

fn serve_at(address: &str, args: &[&str], dir: &Path) -> Served {
    let mut command = Command::new(env!("CARGO_BIN_EXE_retake"));
    command.args(args).arg(dir).args(["--addr", address, "--json"]).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let served: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"));
    Served { child, url: served["url"].as_str().unwrap().trim_end_matches('/').to_owned() }
}
