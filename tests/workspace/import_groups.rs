//! An import records in groups: failures, interruptions and conflicts lose nothing that was acknowledged, and importing
//! again adds exactly what is missing.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread;

use retake::internals::disk::{Disk, Observer, Op};
use retake::internals::import::{FilesReport, FilesRequest};
use retake::internals::wire::{ArchiveRequest, GetRequest, ListRequest, RecordRequest};

use crate::support::*;
use retake_testutils::made::{png, write};

const NOON: u64 = 1_714_564_800; // 2024-05-01T12:00:00Z
const SESSION: &str = "session-2024-05-01-001";

fn request(dir: &Path) -> FilesRequest {
    FilesRequest { paths: vec![dir.to_owned()], ..FilesRequest::default() }
}

fn import(ws: &TestWorkspace, dir: &Path) -> FilesReport {
    ws.workspace.import_files(&actor(), &request(dir), &AtomicBool::new(false)).unwrap()
}

/// Writes an A1111 image.
fn image(dir: &Path, number: u64, prompt: &str) {
    let text = format!(
        "{prompt}\nSteps: 20, Sampler: Euler a, CFG scale: 7, Seed: {}, Size: 16x16, Model: sdxl, Version: v1.10.1",
        number * 10
    );
    write(&dir.join(format!("{number:05}.png")), &png(number, &[("parameters", &text)]), NOON + number * 60);
}

/// Writes a ComfyUI image whose workflow is too long for a record.
fn long_image(dir: &Path, number: u64) {
    let prompt = format!(
        r#"{{"3":{{"class_type":"KSampler","inputs":{{"seed":{number}00,"steps":20,"cfg":7.0,"sampler_name":"euler","scheduler":"normal","denoise":1.0,"positive":["6",0]}}}},"6":{{"class_type":"CLIPTextEncode","inputs":{{"text":"a tall ship","clip":["4",1]}}}}}}"#
    );
    let workflow =
        format!(r#"{{"nodes":[{{"id":{number},"type":"Note","widgets_values":["{}"]}}]}}"#, "n".repeat(9000));
    let file = png(number, &[("prompt", &prompt), ("workflow", &workflow)]);
    write(&dir.join(format!("ship_{number:05}_.png")), &file, NOON + number * 60);
}

/// Returns every iteration as a user sees it: its reference, files and parent, in order.
fn contents(ws: &TestWorkspace) -> Vec<String> {
    let list = ws.api().list(&ListRequest { limit: Some(1000), ..ListRequest::default() }).unwrap();
    let mut lines = Vec::new();
    for row in &list.sessions {
        for index in 0..row.iteration_count() {
            let reference = row.id().iteration(index).to_string();
            let view = ws.api().get(&GetRequest { reference, ..GetRequest::default() }).unwrap();
            let names: Vec<_> = view.images.iter().map(|image| image.name.clone().unwrap_or_default()).collect();
            lines.push(format!("{} {names:?} from {:?}", row.id().iteration(index), view.parent));
        }
    }
    lines.sort();
    lines
}

/// Fails one operation after it was armed, counting down.
struct FailsOnce {
    left: AtomicI64,
    errno: i32,
}

impl Observer for FailsOnce {
    fn before(&self, _: Op<'_>) -> io::Result<()> {
        if self.left.fetch_sub(1, Ordering::Relaxed) == 0 {
            Err(io::Error::from_raw_os_error(self.errno))
        } else {
            Ok(())
        }
    }
}

#[test]
fn every_operation_of_an_import_may_fail_once() {
    let dir = tempfile::tempdir().unwrap();
    (0..5).for_each(|number| image(dir.path(), number, "a fox in the snow"));
    (5..8).for_each(|number| long_image(dir.path(), number));
    // The next day: another session.
    (1500..1504).for_each(|number| image(dir.path(), number, "an old sailor, oil"));
    let whole = TestWorkspace::new();
    assert_eq!(import(&whole, dir.path()).iterations, 12);
    let expected = contents(&whole);
    let mut cases = 0;
    // EIO for each operation, ENOSPC for some.
    for (errno, step) in [(5, 1), (28, 5)] {
        for at in (0..).step_by(step) {
            let what = format!("operation {at} failed with {errno}");
            let fails = Arc::new(FailsOnce { left: AtomicI64::new(i64::MAX), errno });
            let ws = TestWorkspace::on(Disk::observed(Arc::clone(&fails) as Arc<dyn Observer>));
            fails.left.store(at, Ordering::Relaxed);
            let report = ws.workspace.import_files(&actor(), &request(dir.path()), &AtomicBool::new(false));
            let is_over = fails.left.load(Ordering::Relaxed) >= 0;
            fails.left.store(i64::MAX, Ordering::Relaxed);
            let recorded = report.map_or(0, |report| {
                let is_done = report.iterations == 12;
                assert!(is_done || report.stopped.is_some() || !report.problems.is_empty(), "{what}: {report:?}");
                report.iterations
            });
            let ws = ws.reopen();
            assert_eq!(contents(&ws).len() as u64, recorded, "{what}: what was reported is what is there");
            assert!(ws.workspace.verify().unwrap().is_whole(), "{what}");
            let rest = import(&ws, dir.path());
            assert!(rest.stopped.is_none(), "{what}: {rest:?}");
            assert_eq!(rest.iterations, 12 - recorded, "{what}");
            assert_eq!(contents(&ws), expected, "{what}");
            cases += 1;
            if is_over {
                break;
            }
        }
    }
    assert!(cases > 60, "{cases}");
}

/// Runs something when the first image is being stored.
struct Interrupts {
    begun: Mutex<Sender<()>>,
    done: Mutex<Option<Receiver<()>>>,
}

impl Observer for Interrupts {
    fn before(&self, op: Op<'_>) -> io::Result<()> {
        let is_image = matches!(op, Op::Create(path) if path.components().any(|part| part.as_os_str() == "images"));
        if is_image && self.begun.lock().unwrap().send(()).is_ok() {
            // Only the first one waits. The lock is not held meanwhile, since the callback also writes.
            let done = self.done.lock().unwrap().take();
            let _ = done.map(|done| done.recv());
        }
        Ok(())
    }
}

/// Imports three images next to two known ones, while something else happens to their session.
fn import_while(happens: impl FnOnce(&TestWorkspace) + Send) -> (TestWorkspace, FilesReport) {
    let ((begun, begins), (finish, done)) = (mpsc::channel(), mpsc::channel());
    let observer = Arc::new(Interrupts { begun: Mutex::new(begun), done: Mutex::new(None) });
    let ws = TestWorkspace::on(Disk::observed(Arc::clone(&observer) as Arc<dyn Observer>));
    let dir: PathBuf = ws.dir.path().join("pictures");
    (0..2).for_each(|number| image(&dir, number, "a fox in the snow"));
    import(&ws, &dir);
    while begins.try_recv().is_ok() {}
    (2..5).for_each(|number| image(&dir, number, "a fox in the snow"));
    *observer.done.lock().unwrap() = Some(done);
    let report = thread::scope(|scope| {
        let import = scope.spawn(|| import(&ws, &dir));
        begins.recv().unwrap();
        drop(begins);
        happens(&ws);
        finish.send(()).unwrap();
        import.join().unwrap()
    });
    (ws, report)
}

#[test]
fn a_session_that_grows_meanwhile_keeps_its_lineage() {
    let (ws, report) = import_while(|ws| {
        let by_hand = RecordRequest {
            session_id: Some(SESSION.to_owned()),
            prompt: "by hand".to_owned(),
            ..RecordRequest::default()
        };
        ws.record(&by_hand);
    });
    assert!(report.stopped.is_none() && report.problems.is_empty(), "{report:?}");
    assert_eq!((report.iterations, report.images, report.skipped), (3, 3, 2));
    let shown = contents(&ws);
    assert_eq!(shown.len(), 6, "{shown:#?}");
    assert!(shown[2].contains("[]"), "{shown:#?}");
    for (line, name, from) in [(3, "00002.png", 1), (4, "00003.png", 3), (5, "00004.png", 4)] {
        let view =
            ws.api().get(&GetRequest { reference: format!("{SESSION}#{line}"), ..GetRequest::default() }).unwrap();
        assert_eq!(view.images[0].name.as_deref(), Some(name), "{shown:#?}");
        assert_eq!(view.parent.unwrap().to_string(), format!("{SESSION}#{from}"), "{shown:#?}");
    }
}

#[test]
fn what_is_left_of_an_archived_session_starts_another() {
    let (ws, report) = import_while(|ws| {
        ws.api().archive(&ArchiveRequest { session_id: SESSION.into(), ..ArchiveRequest::default() }).unwrap();
    });
    assert!(report.stopped.is_none() && report.problems.is_empty(), "{report:?}");
    assert_eq!((report.iterations, report.skipped, report.sessions.len()), (3, 2, 1));
    let session = report.sessions[0].session_id.unwrap();
    assert_eq!(session.to_string(), "session-2024-05-01-002");
    let first = ws.api().get(&GetRequest { reference: format!("{session}#0"), ..GetRequest::default() }).unwrap();
    assert_eq!(first.parent.unwrap().to_string(), format!("{SESSION}#1"));
    assert_eq!(contents(&ws).len(), 5);
}

/// Counts the syncs of an import.
#[derive(Default)]
struct Syncs {
    journal: AtomicU64,
    dirs: AtomicU64,
}

impl Observer for Syncs {
    fn before(&self, op: Op<'_>) -> io::Result<()> {
        match op {
            Op::SyncFile(path) if path.extension().is_some_and(|extension| extension == "log") => {
                self.journal.fetch_add(1, Ordering::Relaxed);
            }
            Op::SyncDir(_) => {
                self.dirs.fetch_add(1, Ordering::Relaxed);
            }
            _ => {}
        }
        Ok(())
    }
}

#[test]
fn iterations_share_their_syncs() {
    let syncs = Arc::new(Syncs::default());
    let ws = TestWorkspace::on(Disk::observed(Arc::clone(&syncs) as Arc<dyn Observer>));
    let dir = ws.dir.path().join("pictures");
    (0..200).for_each(|number| image(&dir, number, "a fox in the snow"));
    let before = (syncs.journal.load(Ordering::Relaxed), syncs.dirs.load(Ordering::Relaxed));
    let report = import(&ws, &dir);
    assert_eq!((report.iterations, report.sessions.len()), (200, 1));
    let journal = syncs.journal.load(Ordering::Relaxed) - before.0;
    let dirs = syncs.dirs.load(Ordering::Relaxed) - before.1;
    assert!(journal < 20, "{journal} syncs of the journal for 200 iterations");
    assert!(dirs < 220, "{dirs} syncs of directories for 200 images");
    assert_eq!(
        fs::read_dir(ws.root().join("images"))
            .unwrap()
            .filter(|entry| entry.as_ref().unwrap().path().is_file())
            .count(),
        0
    );
}
