//! `import` with problems or interruptions: there is a report and an exit status, the workspace verifies, and the next
//! import continues from there.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::{Ran, TestWorkspace};
use retake_testutils::made::{self, write};

const NOON: u64 = 1_714_564_800; // 2024-05-01T12:00:00Z

/// Returns an image as A1111 writes it; each number is a different one.
pub(crate) fn picture(number: u64) -> Vec<u8> {
    let text = format!(
        "a fox, snow\nSteps: 20, Sampler: Euler a, CFG scale: 7, Seed: {}, Size: 16x16, Model: sdxl, Version: v1.10.1",
        number * 100
    );
    made::png(number, &[("parameters", &text)])
}

fn folder(workspace: &TestWorkspace) -> PathBuf {
    workspace.dir().join("pictures")
}

/// Writes images with these numbers, a minute apart.
fn fill(folder: &Path, numbers: std::ops::Range<u64>) {
    for number in numbers {
        write(&folder.join(format!("{number:05}.png")), &picture(number), NOON + number * 60);
    }
}

fn report(ran: &Ran) -> Value {
    serde_json::from_slice(&ran.output.stdout).unwrap_or_else(|error| unreachable!("{error}: {ran}"))
}

/// Returns the reported files, by the ends of their paths, with the reasons.
fn problems(report: &Value) -> Vec<(String, String)> {
    let named = report["problems"].as_array().unwrap().iter().map(|problem| {
        let name = Path::new(problem["path"].as_str().unwrap()).file_name().unwrap();
        (name.to_str().unwrap().to_owned(), problem["reason"].as_str().unwrap().to_owned())
    });
    named.collect()
}

/// Checks that the workspace verifies, and that it contains this many images, each once.
fn is_whole(workspace: &TestWorkspace, images: u64) {
    let verified = workspace.json(&["verify"]);
    assert_eq!((&verified["whole"], &verified["images"]), (&true.into(), &images.into()), "{verified}");
    let rows = workspace.listed();
    let count = |row: &Value| row["iterationCount"].as_u64().unwrap();
    assert_eq!(rows["sessions"].as_array().unwrap().iter().map(count).sum::<u64>(), images, "{rows}");
}

#[cfg(unix)]
fn allow(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[cfg(unix)]
#[test]
fn unreadable_files_are_reported_and_imported_once_readable() {
    let workspace = TestWorkspace::new();
    let dir = folder(&workspace);
    fill(&dir, 1..4);
    fill(&dir.join("locked"), 4..6);
    allow(&dir.join("00002.png"), 0);
    allow(&dir.join("locked"), 0);
    let ran = workspace.run_bound(&["import", "pictures", "--json"]);
    assert_eq!((ran.status(), ran.stderr().as_str()), (1, ""), "{ran}");
    let printed = report(&ran);
    let reason = "not allowed to read it".to_owned();
    assert_eq!(problems(&printed), [("locked".to_owned(), reason.clone()), ("00002.png".to_owned(), reason)]);
    assert_eq!((&printed["iterations"], printed.get("stopped")), (&2.into(), None));
    // Given by itself, it is reported in the same way, and nothing is made up.
    let alone = workspace.run_bound(&["import", "pictures/locked"]);
    assert_eq!(alone.status(), 1, "{alone}");
    assert!(alone.stderr().contains("pictures/locked: not allowed to read it"), "{alone}");
    let file = workspace.run_bound(&["import", "pictures/00002.png"]);
    assert_eq!(file.status(), 1, "{file}");
    assert!(file.stderr().contains("error: cannot read the file: pictures/00002.png"), "{file}");

    allow(&dir.join("00002.png"), 0o644);
    allow(&dir.join("locked"), 0o755);
    let rest = workspace.run_bound(&["import", "pictures", "--json"]);
    assert_eq!((rest.status(), &report(&rest)["iterations"]), (0, &3.into()), "{rest}");
    is_whole(&workspace, 5);
}

#[cfg(unix)]
#[test]
fn a_read_only_workspace_is_reported_and_the_import_resumes_once_it_is_writable() {
    let workspace = TestWorkspace::new();
    let dir = folder(&workspace);
    fill(&dir, 1..3);
    assert_eq!(workspace.run_bound(&["import", "pictures"]).status(), 0);
    fill(&dir, 3..6);

    // Only where images are stored.
    let images = workspace.workspace().join("images");
    let shelves: Vec<PathBuf> = fs::read_dir(&images).unwrap().map(|entry| entry.unwrap().path()).collect();
    shelves.iter().chain([&images]).for_each(|dir| allow(dir, 0o555));
    let ran = workspace.run_bound(&["import", "pictures"]);
    assert_eq!(ran.status(), 1, "{ran}");
    assert!(ran.stdout().contains("nothing imported"), "{ran}");
    assert!(ran.stderr().contains("error: not allowed to") && ran.stderr().contains("hint: "), "{ran}");
    shelves.iter().chain([&images]).for_each(|dir| allow(dir, 0o755));
    is_whole(&workspace, 2);

    // All of it.
    let all = || walkdir::WalkDir::new(workspace.workspace()).into_iter().map(|entry| entry.unwrap().into_path());
    all().for_each(|path| allow(&path, if path.is_dir() { 0o555 } else { 0o444 }));
    let ran = workspace.run_bound(&["import", "pictures"]);
    assert_eq!(ran.status(), 1, "{ran}");
    assert!(ran.stderr().contains("error: ") && ran.stderr().contains("hint: "), "{ran}");
    all().for_each(|path| allow(&path, if path.is_dir() { 0o755 } else { 0o644 }));
    is_whole(&workspace, 2);

    let rest = workspace.run_bound(&["import", "pictures", "--json"]);
    assert_eq!((rest.status(), &report(&rest)["iterations"]), (0, &3.into()), "{rest}");
    is_whole(&workspace, 5);
}

#[cfg(unix)]
#[test]
fn symlink_cycles_end_and_every_image_is_found_once() {
    use std::os::unix::fs::symlink;
    let workspace = TestWorkspace::new();
    let dir = folder(&workspace);
    fill(&dir.join("one"), 1..3);
    fill(&workspace.dir().join("elsewhere"), 3..5);
    symlink(&dir, dir.join("one/back")).unwrap();
    symlink(dir.join("one"), dir.join("two")).unwrap();
    symlink("../two", dir.join("one/two")).unwrap();
    symlink(workspace.dir().join("elsewhere"), dir.join("linked")).unwrap();
    symlink("itself.png", dir.join("itself.png")).unwrap();
    symlink("b.png", dir.join("a.png")).unwrap();
    symlink("a.png", dir.join("b.png")).unwrap();
    symlink("nowhere.png", dir.join("gone.png")).unwrap();
    let ran = workspace.run(&["import", "pictures", "--json"]);
    assert_eq!((ran.status(), ran.stderr().as_str()), (0, ""), "{ran}");
    assert_eq!((&report(&ran)["iterations"], &report(&ran)["images"]), (&4.into(), &4.into()), "{ran}");
    is_whole(&workspace, 4);
}

#[cfg(unix)]
#[test]
fn file_names_that_are_not_utf_8_are_imported_and_printed() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let workspace = TestWorkspace::new();
    let dir = folder(&workspace);
    let odd = dir.join(OsStr::from_bytes(b"caf\xe9"));
    write(&odd.join(OsStr::from_bytes(b"fox\xff\x1b[31m.png")), &picture(1), NOON);
    write(&odd.join(OsStr::from_bytes(b"empty\xff.png")), b"", NOON);
    let linked = workspace.run(&["import", "pictures", "--link"]);
    assert_eq!(linked.status(), 1, "{linked}");
    assert!(linked.stderr().contains("its path is not UTF-8"), "{linked}");
    assert!(!linked.stderr().contains('\u{1b}'), "{linked}");
    let ran = workspace.run(&["import", "pictures", "--json"]);
    assert_eq!(ran.status(), 1, "{ran}");
    assert_eq!(problems(&report(&ran)), [("empty\u{fffd}.png".to_owned(), "it is empty".to_owned())]);
    let image = &workspace.json(&["show", "latest"])["images"][0];
    assert!(image["name"].as_str().unwrap().starts_with("fox\u{fffd}"), "{image}");
    // A folder with such a name can be given as well, and the files are the same.
    let again = workspace.run(&[OsStr::new("import"), odd.as_os_str()]);
    assert!(again.stdout().contains("1 image was already here"), "{again}");
    is_whole(&workspace, 1);
}

#[cfg(unix)]
#[test]
fn a_disk_that_fills_up_leaves_a_prefix() {
    let workspace = TestWorkspace::new();
    let dir = folder(&workspace);
    workspace.record(0, &["what was there before"]);
    fill(&dir, 1..4);
    // The shell's limit on file sizes is the closest to a full disk that needs no privileges: 16 MB or 32 MB, depending
    // on the shell. The journal stays below it, and the fourth image does not.
    let large = dir.join("00004.png");
    write(&large, &picture(4), NOON + 240);
    let file = fs::File::options().write(true).open(&large).unwrap();
    file.set_len(40 << 20).unwrap();
    made::touch(&large, NOON + 240);
    fill(&dir, 5..7);
    let limited = "trap '' XFSZ; ulimit -f 32768; exec \"$0\" import pictures";
    let mut command = std::process::Command::new("sh");
    command.args(["-c", limited, env!("CARGO_BIN_EXE_retake")]);
    let ran = workspace.ended(command, &["import", "pictures"]);
    assert_eq!(ran.status(), 1, "{ran}");
    assert!(ran.stdout().contains("imported 3 iterations with 3 images"), "{ran}");
    assert!(ran.stderr().contains("error: the disk is full"), "{ran}");
    assert!(ran.stderr().contains("import again to continue"), "{ran}");
    let verified = workspace.json(&["verify"]);
    assert_eq!((&verified["whole"], &verified["images"]), (&true.into(), &3.into()), "{verified}");
    let rest = workspace.json(&["import", "pictures"]);
    assert_eq!((&rest["images"], &rest["skipped"]), (&3.into(), &3.into()), "{rest}");
    assert_eq!(workspace.json(&["import", "pictures"])["iterations"], 0);
    let verified = workspace.json(&["verify"]);
    assert_eq!((&verified["whole"], &verified["images"]), (&true.into(), &6.into()), "{verified}");
}

/// Waits until the running import has stored its first image.
fn wait_for_the_first(workspace: &TestWorkspace, child: &mut std::process::Child) {
    let images = workspace.workspace().join("images");
    while fs::read_dir(&images).map_or(0, Iterator::count) == 0 && child.try_wait().unwrap().is_none() {
        std::thread::yield_now();
    }
}

#[test]
fn files_that_vanish_during_an_import_affect_only_themselves() {
    const FILES: u64 = 200;
    let workspace = TestWorkspace::new();
    let dir = folder(&workspace);
    fill(&dir, 0..FILES);
    let mut command = workspace.command(&["import", "pictures", "--json"]);
    let mut child = command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    wait_for_the_first(&workspace, &mut child);
    (FILES / 2..FILES).for_each(|number| fs::remove_file(dir.join(format!("{number:05}.png"))).unwrap());
    let ran = workspace.waited(child, &["import", "pictures", "--json"]);
    let printed = report(&ran);
    // How many were stored before they were deleted is random, but each is counted.
    let gone = problems(&printed);
    assert!(gone.iter().all(|(_, reason)| reason == "it is gone"), "{gone:?}");
    assert_eq!(printed["images"].as_u64().unwrap() + gone.len() as u64, FILES, "{printed}");
    assert_eq!(ran.status(), i32::from(!gone.is_empty()), "{ran}");
    is_whole(&workspace, FILES - gone.len() as u64);
    fill(&dir, 0..FILES);
    assert_eq!(workspace.json(&["import", "pictures"])["images"], gone.len());
    is_whole(&workspace, FILES);
}

#[cfg(unix)]
#[test]
fn an_interrupted_import_reports_its_progress_and_can_be_resumed() {
    const FILES: u64 = 300;
    let (workspace, other) = (TestWorkspace::new(), TestWorkspace::new());
    fill(&folder(&workspace), 0..FILES);
    fill(&folder(&other), 0..FILES);
    let mut command = workspace.command(&["import", "pictures", "--json"]);
    let mut child = command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    wait_for_the_first(&workspace, &mut child);
    crate::support::signal("INT", child.id());
    let ran = workspace.waited(child, &["import", "pictures", "--json"]);
    let printed = report(&ran);
    let done = printed["images"].as_u64().unwrap();
    assert!(done > 0, "{ran}");
    // A fast machine has finished by then.
    let interrupted = printed.get("interrupted").is_some();
    assert_eq!((ran.status(), interrupted), (i32::from(done < FILES), done < FILES), "{ran}");
    is_whole(&workspace, done);
    let rest = workspace.json(&["import", "pictures"]);
    assert_eq!((&rest["images"], &rest["skipped"]), (&(FILES - done).into(), &done.into()));
    other.json(&["import", "pictures"]);
    assert_eq!(workspace.listed()["sessions"], other.listed()["sessions"]);
}

#[test]
fn sessions_whose_ids_are_taken_are_refused_with_a_hint() {
    let (laptop, desktop) = (TestWorkspace::new(), TestWorkspace::new());
    laptop.record(0, &["a fox"]);
    desktop.record(0, &["a sailor"]);
    let exported = laptop.run(&["export"]).output.stdout;
    let refused = desktop.run_with(&["import", "-"], &exported);
    assert_eq!(refused.status(), 1, "{refused}");
    assert!(refused.stderr().contains("hint: import with --renumber"), "{refused}");
    let renumbered = desktop.run_with(&["import", "-", "--renumber"], &exported);
    assert_eq!((renumbered.status(), renumbered.stderr()), (0, String::new()), "{renumbered}");
    assert_eq!(desktop.listed()["totalSessions"], 2);
}
