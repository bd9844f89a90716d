//! How fast is a folder of other tools' images imported, and with how much memory? Runs in a separate process, on
//! images so small that decoding them costs next to nothing: this measures reading, grouping, storing and recording.
//! The [floor] is measured too: the same files and records, written and synced in groups.

mod floor;

use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use retake::internals::import::FilesRequest;
use retake::internals::model::Actor;
use retake::internals::workspace::{Options, Workspace};
use retake_testutils::made;
use serde::{Deserialize, Serialize};

use crate::report::{Report, Table, median, ratio, times};
use crate::{Settings, data};

/// The number of rounds in which the import and its floor alternate.
const ROUNDS: usize = 3;

pub(crate) fn run(settings: &Settings, report: &mut Report) {
    let pictures = if settings.full { 100_000 } else { 20_000 };
    let dir = settings.data.join(format!("pictures-{pictures}"));
    let count = dir.join("count");
    if !count.exists() {
        let _ = std::fs::remove_dir_all(&dir);
        report.say(&format!("making {pictures} pictures in three tools' layouts"));
        let drawn = made::folder(&dir, pictures);
        std::fs::write(&count, drawn.len().to_string()).unwrap();
    }
    let drawn: u64 = std::fs::read_to_string(&count).unwrap().parse().unwrap();
    // Every run writes to a directory of its own, and all are removed at the end: for some minutes after a file was
    // deleted, ext4 without a journal does not reuse its inode, and searches for another one at every creation.
    let scratch = settings.scratch("import");
    let title = format!("Importing {pictures} pictures, drawn as {drawn} sessions");
    let mut table = Table::new(title, &["what", "seconds", "pictures /s", "iterations", "sessions", "peak MB"]);
    let (mut copied, mut floors, mut last) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let workspace = scratch.join(format!("copied-{round}"));
        let imported = import(&dir, &workspace, "copy");
        let floor = import(&workspace, &scratch.join(format!("floor-{round}")), "floor");
        copied.push(imported.seconds);
        floors.push(floor.seconds);
        last = vec![("floor", floor), ("copied", imported)];
    }
    for ((_, outcome), seconds) in last.iter_mut().zip([&floors, &copied]) {
        outcome.seconds = median(seconds);
    }
    last.push(("again, all known", import(&dir, &scratch.join("copied-0"), "copy")));
    last.push(("linked", import(&dir, &scratch.join("linked"), "link")));
    last.push(("dry run", import(&dir, &scratch.join("dry"), "dry")));
    if settings.full {
        // Nothing is written, so that the data set stays unchanged.
        let (large, _) = data::retake(settings, report, settings.large());
        let one = scratch.join("one");
        made::write(&one.join("00001.png"), &made::png(1, &[]), 1_714_564_800);
        last.push(("one, dry run, large workspace", import(&one, &large, "dry")));
    }
    for (what, Outcome { seconds, files, iterations, sessions, peak_mb }) in last {
        table.row(vec![
            what.to_owned(),
            format!("{seconds:.2}"),
            format!("{:.0}", files as f64 / seconds),
            iterations.to_string(),
            sessions.to_string(),
            format!("{peak_mb:.0}"),
        ]);
    }
    let _ = std::fs::remove_dir_all(&scratch);
    report.show("import", &table);
    report.say(&format!("copied / floor: {}, median of {ROUNDS} rounds in turn", times(ratio(&copied, &floors))));
}

/// The result of an import or of its floor.
#[derive(Default, Serialize, Deserialize)]
struct Outcome {
    seconds: f64,
    files: u64,
    iterations: u64,
    sessions: u64,
    peak_mb: f64,
}

/// Runs one kind of import in a separate process.
fn import(dir: &Path, workspace: &Path, how: &str) -> Outcome {
    let exe = std::env::current_exe().unwrap();
    let output = Command::new(exe).arg("import").arg(dir).arg(workspace).arg(how).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Imports in this process, and prints the measurements.
pub(crate) fn child(dir: &str, workspace: &str, how: &str) {
    let outcome = if how == "floor" {
        let (seconds, files) = floor::write(Path::new(dir), Path::new(workspace));
        Outcome { seconds, files, ..Outcome::default() }
    } else {
        import_here(dir, workspace, how)
    };
    println!("{}", serde_json::to_string(&Outcome { peak_mb: peak_mb(), ..outcome }).unwrap());
}

fn import_here(dir: &str, workspace: &str, how: &str) -> Outcome {
    let begun = Instant::now();
    let workspace = Workspace::open_with(Path::new(workspace), Options::default()).unwrap();
    let actor = Actor { client: "bench".to_owned(), user: "bench".to_owned() };
    let request =
        FilesRequest { paths: vec![dir.into()], link: how == "link", dry_run: how == "dry", ..FilesRequest::default() };
    let report = workspace.import_files(&actor, &request, &AtomicBool::new(false)).unwrap();
    workspace.close().unwrap();
    assert!(report.problems.is_empty() && report.stopped.is_none(), "{:?} {:?}", report.problems, report.stopped);
    Outcome {
        seconds: begun.elapsed().as_secs_f64(),
        files: report.files,
        iterations: report.iterations,
        sessions: report.sessions.len() as u64,
        peak_mb: 0.0,
    }
}

/// Returns the peak memory of this process.
fn peak_mb() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    peak.trim().trim_end_matches(" kB").trim().parse::<f64>().unwrap() / 1e3
}
