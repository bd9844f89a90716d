//! How fast does a folder of other tools' pictures come in, and in how much memory? In a process of its own, on pictures so
//! small that decoding them costs next to nothing: what is measured is reading, grouping, keeping and recording.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use retake::internals::import::FilesRequest;
use retake::internals::model::Actor;
use retake::internals::workspace::{Options, Workspace};
use serde_json::{Value, json};

use crate::Settings;
use crate::report::{Report, Table};
use retake_testutils::made;

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
    let title = format!("Importing {pictures} pictures, drawn as {drawn} sessions");
    let mut table = Table::new(title, &["what", "seconds", "pictures /s", "iterations", "sessions", "peak MB"]);
    for (what, how, fresh) in
        [("copied", "copy", true), ("again", "copy", false), ("linked", "link", true), ("dry run", "dry", true)]
    {
        let workspace = settings.data.join("scratch-import");
        if fresh {
            let _ = std::fs::remove_dir_all(&workspace);
        }
        let exe = std::env::current_exe().unwrap();
        let output = Command::new(exe).arg("import").arg(&dir).arg(&workspace).arg(how).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let said: Value = serde_json::from_slice(&output.stdout).unwrap();
        let number = |name: &str| said[name].as_f64().unwrap();
        let seconds = number("seconds");
        table.row(vec![
            what.to_owned(),
            format!("{seconds:.1}"),
            format!("{:.0}", number("files") / seconds),
            said["iterations"].to_string(),
            said["sessions"].to_string(),
            format!("{:.0}", number("peakMb")),
        ]);
    }
    let _ = std::fs::remove_dir_all(settings.data.join("scratch-import"));
    report.show("import", &table);
}

/// Imports in this process, and prints the time and memory it took.
pub(crate) fn child(dir: &str, workspace: &str, how: &str) {
    let begun = Instant::now();
    let workspace = Workspace::open_with(Path::new(workspace), Options::default()).unwrap();
    let actor = Actor { client: "bench".to_owned(), user: "bench".to_owned() };
    let request =
        FilesRequest { paths: vec![dir.into()], link: how == "link", dry_run: how == "dry", ..FilesRequest::default() };
    let report = workspace.import_files(&actor, &request, &AtomicBool::new(false)).unwrap();
    workspace.close().unwrap();
    let seconds = begun.elapsed().as_secs_f64();
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak: f64 = peak.trim().trim_end_matches(" kB").trim().parse().unwrap();
    assert!(report.problems.is_empty() && report.stopped.is_none(), "{:?} {:?}", report.problems, report.stopped);
    let said = json!({
        "seconds": seconds, "files": report.files, "iterations": report.iterations,
        "sessions": report.sessions.len(), "peakMb": peak / 1e3,
    });
    println!("{said}");
}
