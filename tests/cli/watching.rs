//! `watch`: a line for each new image as it appears, a clean exit on Ctrl-C, and nothing missed or duplicated across
//! restarts or with another watch.
#![cfg(unix)]

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::importing::picture;
use crate::support::{TestWorkspace, signal};
use retake_testutils::made;

/// Longer than any slow machine takes: what has not arrived by then never will.
const TIMEOUT: Duration = Duration::from_secs(60);

fn folder(workspace: &TestWorkspace) -> PathBuf {
    let folder = workspace.dir().join("output");
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// A running watch, with its output lines.
struct Watching {
    child: Child,
    printed: Receiver<String>,
    asides: Receiver<String>,
}

impl Watching {
    /// Starts a watch, and waits until it reports that it is watching.
    fn new(workspace: &TestWorkspace, args: &[&str]) -> Watching {
        let (sender, printed) = mpsc::channel();
        let mut command = workspace.command(&[&["watch", "output"], args].concat());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        lines(child.stdout.take().unwrap(), sender);
        let (sender, asides) = mpsc::channel();
        lines(child.stderr.take().unwrap(), sender);
        let watching = Watching { child, printed, asides };
        assert_eq!(watching.aside(), "watching 1 folder; press Ctrl-C to stop");
        watching
    }

    fn line(&self) -> Value {
        serde_json::from_str(&self.printed.recv_timeout(TIMEOUT).unwrap()).unwrap()
    }

    /// Returns the names of the images in the next line.
    fn names(&self) -> Vec<String> {
        serde_json::from_value(self.line()["images"].take()).unwrap()
    }

    fn aside(&self) -> String {
        self.asides.recv_timeout(TIMEOUT).unwrap()
    }

    /// Ends it as Ctrl-C does, and returns the rest of its output.
    fn end(mut self, how: &str) -> Vec<String> {
        signal(how, self.child.id());
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{how}: {status}");
        self.printed.iter().collect()
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        // A failed test must not leave the process running; a successful one has already ended it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn lines(from: impl Read + Send + 'static, to: Sender<String>) {
    thread::spawn(move || BufReader::new(from).lines().map_while(Result::ok).try_for_each(|line| to.send(line)));
}

/// Checks that there are this many iterations, each image once, and that the workspace verifies without leftovers.
fn is_whole(workspace: &TestWorkspace, pictures: u64) {
    let verified = workspace.json(&["verify"]);
    assert_eq!((&verified["whole"], &verified["images"]), (&true.into(), &pictures.into()), "{verified}");
    let rows = workspace.listed();
    let mut names = Vec::new();
    for row in rows["sessions"].as_array().unwrap() {
        for index in 0..row["iterationCount"].as_u64().unwrap() {
            let view = workspace.json(&["show", &format!("{}#{index}", row["id"].as_str().unwrap())]);
            names.extend(view["images"].as_array().unwrap().iter().map(|image| image["name"].to_string()));
        }
    }
    let once: BTreeSet<&String> = names.iter().collect();
    assert_eq!((names.len() as u64, once.len() as u64), (pictures, pictures), "{names:?}");
    for entry in walkdir::WalkDir::new(workspace.workspace().join("images")) {
        let name = entry.unwrap().file_name().to_string_lossy().into_owned();
        assert!(!name.contains(".tmp"), "{name} was left behind");
    }
}

#[test]
fn each_image_is_printed_once_it_is_complete() {
    let workspace = TestWorkspace::new();
    let dir = folder(&workspace);
    let watching = Watching::new(&workspace, &["--json", "--project", "foxes"]);
    fs::write(dir.join("00001.png"), picture(1)).unwrap();
    let first = watching.line();
    assert_eq!((&first["index"], &first["prompt"]), (&0.into(), &"a fox, snow".into()), "{first}");
    assert_eq!(first["reference"], format!("{}#0", first["sessionId"].as_str().unwrap()));

    let slow = picture(2);
    fs::write(dir.join("00002.png"), &slow[..slow.len() - 30]).unwrap();
    fs::write(dir.join("00003.png"), picture(3)).unwrap();
    assert_eq!(watching.names(), ["00003.png"], "the one that is half written waits");
    fs::write(dir.join("00002.png"), &slow).unwrap();
    let whole = watching.line();
    assert_eq!((&whole["images"][0], &whole["sessionId"]), (&"00002.png".into(), &first["sessionId"]));

    fs::write(dir.join("00004.png"), b"this is not a picture at all").unwrap();
    assert!(watching.aside().ends_with("output/00004.png: not an image or video of a known type"));
    assert_eq!(watching.end("INT"), Vec::<String>::new());
    fs::remove_file(dir.join("00004.png")).unwrap();
    is_whole(&workspace, 3);
    assert_eq!(workspace.listed()["sessions"][0]["project"], "foxes");
}

#[test]
fn images_added_between_two_watches_are_recorded_by_the_next() {
    let workspace = TestWorkspace::new();
    let dir = folder(&workspace);
    fs::write(dir.join("00001.png"), picture(1)).unwrap();
    let watching = Watching::new(&workspace, &["--json"]);
    assert_eq!(watching.names(), ["00001.png"], "what is there when it begins comes first");
    fs::write(dir.join("00002.png"), picture(2)).unwrap();
    assert_eq!(watching.names(), ["00002.png"]);
    assert_eq!(watching.end("TERM"), Vec::<String>::new());

    // As after a crash: half of an image is there too.
    fs::write(dir.join("00003.png"), picture(3)).unwrap();
    let half = picture(4);
    fs::write(dir.join("00004.png"), &half[..half.len() / 2]).unwrap();
    let mut watching = Watching::new(&workspace, &["--json"]);
    let missed = watching.line();
    assert_eq!((&missed["images"][0], &missed["index"]), (&"00003.png".into(), &2.into()), "in the same session");
    fs::write(dir.join("00004.png"), &half).unwrap();
    assert_eq!(watching.names(), ["00004.png"]);
    // Killing it loses nothing either.
    watching.child.kill().unwrap();
    watching.child.wait().unwrap();
    fs::write(dir.join("00005.png"), picture(5)).unwrap();
    let watching = Watching::new(&workspace, &["--json"]);
    assert_eq!(watching.names(), ["00005.png"]);
    assert_eq!(watching.end("INT"), Vec::<String>::new());
    is_whole(&workspace, 5);
}

#[test]
fn two_watches_of_a_folder_and_an_import_record_everything_once() {
    const BATCHES: u64 = 6;
    let workspace = TestWorkspace::new();
    let dir = folder(&workspace);
    let one = Watching::new(&workspace, &["--json"]);
    let two = Watching::new(&workspace, &["--json"]);
    for batch in 0..BATCHES {
        // The images of a batch, with consecutive seeds: an earlier scan sees a smaller run.
        for number in 0..4 {
            let text = format!(
                "a fox in the snow\nSteps: 20, Sampler: Euler a, CFG scale: 7, Seed: {}, Size: 16x16, Model: sdxl",
                batch * 1000 + number
            );
            let bytes = made::png(batch * 10 + number, &[("parameters", &text)]);
            fs::write(dir.join(format!("{batch:03}-{number}.png")), bytes).unwrap();
            if batch % 2 == 0 {
                // Scans happen at other moments too; in the end, everything is imported.
                assert_eq!(workspace.run(&["import", "output"]).status(), 0);
            }
        }
    }
    assert_eq!(workspace.run(&["import", "output"]).status(), 0);
    one.end("INT");
    two.end("INT");
    is_whole(&workspace, BATCHES * 4);
}
