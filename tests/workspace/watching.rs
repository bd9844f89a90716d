//! Watching folders: each new image once, when it is complete, in the session in progress, across restarts.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, SystemTime};

use retake::internals::import::{FilesRequest, WatchEvent, WatchedIteration};
use retake::internals::wire::ListRequest;

use crate::support::*;
use retake_testutils::made::{self, png};

fn a1111(pattern: u64, prompt: &str) -> Vec<u8> {
    let text = format!(
        "{prompt}\nSteps: 20, Sampler: Euler a, CFG scale: 7, Seed: {}, Size: 16x16, Model: sdxl",
        pattern * 100
    );
    png(pattern, &[("parameters", &text)])
}

/// Watches a folder while `body` runs, which receives every iteration.
fn watching(ws: &TestWorkspace, dir: &Path, body: impl FnOnce(&Heard)) {
    let stop = AtomicBool::new(false);
    let (sender, receiver) = mpsc::channel();
    let request = FilesRequest { paths: vec![dir.to_owned()], ..FilesRequest::default() };
    std::thread::scope(|scope| {
        let watch = scope.spawn(|| {
            ws.workspace.watch(&actor(), &request, &stop, |sighting| {
                let _ = sender.send(sighting);
            })
        });
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| body(&Heard(receiver))));
        stop.store(true, Ordering::Relaxed);
        watch.join().unwrap().unwrap();
        if let Err(panic) = ended {
            std::panic::resume_unwind(panic);
        }
    });
}

struct Heard(Receiver<WatchEvent>);

impl Heard {
    fn next(&self) -> WatchEvent {
        self.0.recv_timeout(Duration::from_secs(30)).unwrap()
    }

    fn ready(&self) -> Vec<WatchedIteration> {
        let mut before = Vec::new();
        loop {
            match self.next() {
                WatchEvent::Recorded(iteration) => before.push(iteration),
                WatchEvent::Ready(report) => {
                    assert!(report.stopped.is_none());
                    return before;
                }
                other => unreachable!("{other:?}"),
            }
        }
    }

    fn recorded(&self) -> WatchedIteration {
        match self.next() {
            WatchEvent::Recorded(iteration) => iteration,
            other => unreachable!("{other:?}"),
        }
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs()
}

/// Creates a workspace with the real clock, since the watched files are made now.
fn workspace() -> (TestWorkspace, PathBuf) {
    let ws = TestWorkspace::new();
    ws.at(&retake::internals::model::Timestamp::from_millis(i64::try_from(now() * 1000).unwrap()).unwrap().to_string());
    let dir = ws.dir.path().join("output");
    fs::create_dir(&dir).unwrap();
    (ws, dir)
}

#[test]
fn new_images_join_the_session_in_progress() {
    let (ws, dir) = workspace();
    watching(&ws, &dir, |heard| {
        assert_eq!(heard.ready().len(), 0);
        fs::write(dir.join("00001.png"), a1111(1, "a fox, snow")).unwrap();
        let first = heard.recorded();
        assert_eq!((first.index, first.prompt.as_str()), (0, "a fox, snow"));
        fs::write(dir.join("00002.png"), a1111(2, "a fox, snow")).unwrap();
        let second = heard.recorded();
        assert_eq!((second.session_id, second.index), (first.session_id, 1));
        assert_eq!(second.parent, Some(first.reference));

        // In a folder that is created meanwhile, and moved into place, as many tools do.
        fs::create_dir(dir.join("later")).unwrap();
        fs::write(dir.join("later/.00003.tmp"), a1111(3, "a fox, snow")).unwrap();
        fs::rename(dir.join("later/.00003.tmp"), dir.join("later/00003.png")).unwrap();
        assert_eq!(heard.recorded().images, ["00003.png"]);
    });
}

#[test]
fn a_half_written_file_waits() {
    let (ws, dir) = workspace();
    watching(&ws, &dir, |heard| {
        heard.ready();
        let bytes = a1111(1, "a fox");
        fs::write(dir.join("slow.png"), &bytes[..bytes.len() - 20]).unwrap();
        fs::write(dir.join("quick.png"), a1111(2, "a boat")).unwrap();
        assert_eq!(heard.recorded().images, ["quick.png"], "the other one is not whole");
        fs::write(dir.join("slow.png"), &bytes).unwrap();
        assert_eq!(heard.recorded().images, ["slow.png"]);
    });
    assert_eq!(ws.list(&ListRequest::default()).sessions[0].iteration_count(), 2);
}

#[test]
fn restarts_neither_miss_nor_duplicate_images() {
    let (ws, dir) = workspace();
    fs::write(dir.join("a.png"), a1111(1, "a fox")).unwrap();
    watching(&ws, &dir, |heard| {
        let before = heard.ready();
        assert_eq!(before.len(), 1, "what is there when it begins comes in first");
        fs::write(dir.join("b.png"), a1111(2, "a fox")).unwrap();
        heard.recorded();
    });
    fs::write(dir.join("c.png"), a1111(3, "a fox")).unwrap();
    watching(&ws, &dir, |heard| {
        let missed = heard.ready();
        assert_eq!(missed.iter().flat_map(|it| &it.images).collect::<Vec<_>>(), ["c.png"]);
        assert_eq!(missed[0].index, 2, "in the same session");
        // A touched file is still the same image.
        made::touch(&dir.join("a.png"), now());
        fs::write(dir.join("d.png"), a1111(4, "a fox")).unwrap();
        assert_eq!(heard.recorded().images, ["d.png"]);
    });
    assert_eq!(ws.list(&ListRequest::default()).sessions[0].iteration_count(), 4);
}
