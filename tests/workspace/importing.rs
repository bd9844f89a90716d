//! Imports of other tools' files: sessions as a person would group them, actual recipes and lineage, no duplicates, and
//! no bad files.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use retake::internals::disk::{Disk, Observer, Op};
use retake::internals::export::ExportRequest;
use retake::internals::import::{FilesReport, FilesRequest};
use retake::internals::wire::{
    ArchiveRequest, Error, ErrorKind, GetRequest, IterationView, IterationsRequest, ListRequest,
};

use crate::support::*;
use retake_testutils::made::{self, Drawn, png, sized_png, write};

const NOON: u64 = 1_714_564_800; // 2024-05-01T12:00:00Z

fn request(dir: &Path) -> FilesRequest {
    FilesRequest { paths: vec![dir.to_owned()], ..FilesRequest::default() }
}

fn import(ws: &TestWorkspace, request: &FilesRequest) -> FilesReport {
    let report = ws.workspace.import_files(&actor(), request, &AtomicBool::new(false)).unwrap();
    let text = json(&report);
    assert_eq!(json(&serde_json::from_str::<FilesReport>(&text).unwrap()), text);
    report
}

/// Creates a folder next to the workspace.
fn folder(ws: &TestWorkspace) -> PathBuf {
    ws.dir.path().join("pictures")
}

fn get(ws: &TestWorkspace, reference: &str) -> IterationView {
    ws.api().get(&GetRequest { reference: reference.to_owned(), ..GetRequest::default() }).unwrap()
}

/// Returns A1111's text.
fn parameters(prompt: &str, seed: u64) -> String {
    format!(
        "{prompt}\nSteps: 20, Sampler: Euler a, CFG scale: 7, Seed: {seed}, Size: 16x16, Model: sdxl, Version: v1.10.1"
    )
}

fn a1111(pattern: u64, prompt: &str, seed: u64) -> Vec<u8> {
    png(pattern, &[("parameters", &parameters(prompt, seed))])
}

/// Returns everything in the workspace, except for when and in which order it was recorded.
fn contents(ws: &TestWorkspace) -> BTreeMap<String, Vec<String>> {
    let list = ws.api().list(&ListRequest { limit: Some(1000), ..ListRequest::default() }).unwrap();
    let sessions = list.sessions.iter().map(|row| {
        let shown = |index: u32| {
            let view = get(ws, &row.id().iteration(index).to_string());
            let names: Vec<_> = view.images.iter().map(|image| image.name.clone().unwrap()).collect();
            format!("{} {names:?} {:?} {:?}", view.timestamp, view.parent, view.recipe.recipe.seed)
        };
        (row.id().to_string(), (0..row.iteration_count()).map(shown).collect())
    });
    sessions.collect()
}

#[test]
fn sessions_are_grouped_as_a_person_would() {
    let ws = TestWorkspace::new();
    let drawn = made::folder(&folder(&ws), 600);
    let report = import(&ws, &request(&folder(&ws)));
    assert_eq!(report.problems, []);
    let found: Vec<Drawn> = report
        .sessions
        .iter()
        .map(|session| Drawn {
            root: ["a1111/outputs", "comfy/output", "invoke/outputs"]
                .into_iter()
                .find(|root| Path::new(&session.folder).ends_with(root))
                .unwrap(),
            from: u64::try_from(session.from.millis()).unwrap() / 1000,
            runs: session.iterations,
            images: session.images,
        })
        .collect();
    assert_eq!(found, drawn);
    assert_eq!(report.images, drawn.iter().map(|session| session.images).sum::<u64>());

    let list = ws.list(&ListRequest { limit: Some(1000), ..ListRequest::default() });
    assert_eq!(list.total_sessions, drawn.len() as u64);
    let mut ids: Vec<String> = list.sessions.iter().map(|row| row.id().to_string()).collect();
    ids.sort();
    assert!(ids[0].starts_with("session-2024-05-01-001"), "the id has the day of the work: {}", ids[0]);
    let first = get(&ws, &format!("{}#0", ids[0]));
    assert_eq!(first.timestamp.millis() / 1000, i64::try_from(drawn[0].from).unwrap());
    assert!(first.recorded_at > first.timestamp, "it was made before it was recorded");
    assert_eq!(first.parent, None);
    assert!(!first.recipe.recipe.prompt.is_empty());
}

#[test]
fn importing_twice_changes_nothing() {
    let ws = TestWorkspace::new();
    made::folder(&folder(&ws), 60);
    let first = import(&ws, &request(&folder(&ws)));
    let (before, written) = (contents(&ws), ws.written());
    let again = import(&ws, &request(&folder(&ws)));
    assert_eq!((again.iterations, again.images, again.skipped), (0, 0, first.images));
    assert_eq!((contents(&ws), ws.written()), (before, written));

    // Moved elsewhere, with other times, they are still the same images.
    let moved = ws.dir.path().join("moved");
    fs::rename(folder(&ws), &moved).unwrap();
    let paths = files_below(&moved);
    paths.keys().for_each(|path| made::touch(path, NOON));
    let moved = import(&ws, &request(&moved));
    assert_eq!((moved.iterations, moved.skipped), (0, first.images));
}

#[test]
fn new_files_join_their_session() {
    let ws = TestWorkspace::new();
    let dir = folder(&ws);
    write(&dir.join("00001-1.png"), &a1111(1, "a fox, snow", 1), NOON);
    write(&dir.join("00003-3.png"), &a1111(3, "a fox, snow", 300), NOON + 120);
    import(&ws, &request(&dir));
    write(&dir.join("00004-4.png"), &a1111(4, "a fox, snow", 400), NOON + 300);
    write(&dir.join("00005-5.png"), &a1111(5, "a fox, snow", 500), NOON + 30_000);
    let report = import(&ws, &request(&dir));
    let sessions: Vec<_> = report.sessions.iter().map(|it| it.session_id.unwrap().to_string()).collect();
    assert_eq!(sessions, ["session-2024-05-01-001", "session-2024-05-01-002"]);
    let joined = get(&ws, "session-2024-05-01-001#2");
    assert_eq!(joined.parent.unwrap().to_string(), "session-2024-05-01-001#1");
    assert_eq!(joined.parent_reason.as_deref(), Some("it comes next in the session and has the same prompt"));
}

#[test]
fn a_copy_saved_again_is_the_same_picture() {
    let ws = TestWorkspace::new();
    let dir = folder(&ws);
    write(&dir.join("a.png"), &a1111(1, "a fox", 1), NOON);
    import(&ws, &request(&dir));
    write(&dir.join("stripped.png"), &png(1, &[]), NOON + 60);
    write(
        &dir.join("renamed.png"),
        &png(1, &[("Software", "editor"), ("parameters", &parameters("a fox", 1))]),
        NOON + 70,
    );
    let copies = import(&ws, &request(&dir));
    assert_eq!((copies.iterations, copies.skipped), (0, 3), "{copies:?}");
    // The same pixels with another recipe are another iteration, according to its own metadata.
    write(&dir.join("other.png"), &a1111(1, "a fox", 2), NOON + 80);
    assert_eq!(import(&ws, &request(&dir)).iterations, 1);
}

#[test]
fn an_image_without_metadata_is_an_iteration_without_a_prompt() {
    let ws = TestWorkspace::new();
    let dir = folder(&ws);
    write(&dir.join("photo.png"), &png(9, &[]), NOON);
    write(&dir.join("other.png"), &png(10, &[]), NOON + 10);
    import(&ws, &request(&dir));
    let view = get(&ws, "session-2024-05-01-001#1");
    assert_eq!((view.recipe.recipe.prompt.as_str(), view.parent), ("", None));
    assert_eq!(view.images[0].name.as_deref(), Some("other.png"));
    let rows = ws
        .api()
        .iterations(&IterationsRequest { session_id: "session-2024-05-01-001".into(), ..IterationsRequest::default() });
    let rows = rows.unwrap().iterations;
    assert!(rows[1].no_parent && !rows[0].no_parent, "the one before it is not taken for its parent");
}

#[test]
fn parents_have_reasons_and_likely_parents_are_kept_apart() {
    let ws = TestWorkspace::new();
    let dir = folder(&ws);
    write(&dir.join("00001-7.png"), &a1111(1, "a fox, snow, dusk", 7), NOON);
    write(&dir.join("00002-9.png"), &a1111(2, "an old sailor, oil painting", 9), NOON + 60);
    write(
        &dir.join("00003-7.png"),
        &sized_png(1, 32, &[("parameters", &parameters("a fox, snow, dusk", 7))]),
        NOON + 120,
    );
    write(&dir.join("00004.png"), &sized_png(2, 24, &[]), NOON + 180);
    import(&ws, &request(&dir));
    let origin = |index: u32| {
        let view = get(&ws, &format!("session-2024-05-01-001#{index}"));
        let likely = view.likely_parent.map(|likely| (likely.reference.index, likely.reason));
        (view.parent.map(|parent| parent.index), view.parent_reason, likely)
    };
    assert_eq!(origin(1), (None, None, None), "another idea came from nothing");
    let (parent, reason, likely) = origin(2);
    assert_eq!((parent, likely), (Some(0), None));
    assert!(reason.unwrap().contains("larger size"));
    let (parent, reason, likely) = origin(3);
    assert_eq!((parent, reason), (None, None));
    let (index, reason) = likely.unwrap();
    assert_eq!(index, 1);
    assert!(reason.starts_with("they look alike"), "{reason}");
}

#[test]
fn a_dry_run_prints_the_plan_and_changes_nothing() {
    let ws = TestWorkspace::new();
    let dir = folder(&ws);
    made::folder(&dir, 60);
    let before = ws.written();
    let plan = import(&ws, &FilesRequest { dry_run: true, ..request(&dir) });
    assert_eq!(ws.written(), before);
    assert!(plan.dry_run);
    let done = import(&ws, &request(&dir));
    assert_eq!(
        (plan.iterations, plan.images, plan.sessions.len()),
        (done.iterations, done.images, done.sessions.len())
    );
    for (number, (planned, session)) in (1..).zip(plan.sessions.iter().zip(&done.sessions)) {
        assert_eq!((planned.from, planned.to, planned.session_id), (session.from, session.to, None));
        let id = session.session_id.unwrap();
        for iteration in &planned.plan {
            let view = get(&ws, &id.iteration(iteration.index).to_string());
            let parent = view.parent.map(|parent| format!("new-{number}#{}", parent.index));
            assert_eq!((parent, &view.parent_reason), (iteration.parent.clone(), &iteration.parent_reason));
            assert_eq!(view.images.len(), iteration.files.len());
        }
    }
    let mut steps = plan.sessions.iter().flat_map(|session| &session.plan);
    assert!(steps.any(|step| step.label.is_some()), "steps have labels");
}

#[test]
fn files_with_one_shared_time_are_ordered_by_their_counters() {
    let ws = TestWorkspace::new();
    let dir = folder(&ws);
    for number in 1..=8 {
        write(&dir.join(format!("ComfyUI_{number:05}_.png")), &a1111(number, "a fox", number * 100), NOON);
    }
    let report = import(&ws, &request(&dir));
    assert!(report.notes[0].contains("share one time"), "{:?}", report.notes);
    let names =
        (0..8).map(|index| get(&ws, &format!("session-2024-05-01-001#{index}")).images[0].name.clone().unwrap());
    assert!(names.collect::<Vec<_>>().is_sorted());
}

#[test]
fn touched_files_and_dates_in_names_are_recognised() {
    let ws = TestWorkspace::new();
    let dir = folder(&ws);
    for number in 1..=10 {
        write(
            &dir.join(format!("ComfyUI_{number:05}_.png")),
            &a1111(number, "a fox", number * 100),
            NOON + number * 60,
        );
    }
    made::touch(&dir.join("ComfyUI_00004_.png"), NOON + 50 * 86_400);
    let report = import(&ws, &request(&dir));
    assert_eq!(report.sessions.len(), 1, "{:?}", report.notes);
    assert!(report.notes[0].contains("1 file is newer"), "{:?}", report.notes);

    let dated = ws.dir.path().join("dated");
    write(&dated.join("2024-05-20_10-00-00_0001.png"), &a1111(90, "a boat", 1), NOON + 90 * 86_400);
    let report = import(&ws, &request(&dated));
    assert_eq!(report.sessions[0].session_id.unwrap().to_string(), "session-2024-05-20-001");
    assert!(report.notes[0].contains("dated by name or metadata"), "{:?}", report.notes);
}

#[test]
fn linked_pictures_stay_where_they_are() {
    let ws = TestWorkspace::new();
    let dir = folder(&ws);
    let bytes = a1111(1, "a fox", 1);
    write(&dir.join("a.png"), &bytes, NOON);
    import(&ws, &FilesRequest { link: true, project: Some("zoo".into()), ..request(&dir) });
    assert_eq!(files_below(&ws.root().join("images")).len(), 0);
    assert_eq!(ws.api().session("session-2024-05-01-001").unwrap().project(), Some("zoo"));
    let ws = ws.reopen();
    let view = get(&ws, "session-2024-05-01-001#0");
    assert!(!view.images[0].missing);
    let mut bundle = Vec::new();
    let report = ws.workspace.export_bundle(&ExportRequest::default(), &mut bundle).unwrap();
    assert_eq!((report.images, report.problems.len()), (1, 0));
    assert!(ws.workspace.verify().unwrap().is_whole());
    assert_eq!(fs::read(dir.join("a.png")).unwrap(), bytes);
    fs::write(dir.join("a.png"), "something else").unwrap();
    assert!(!ws.workspace.verify().unwrap().is_whole(), "an altered original is found");
}

#[test]
fn bad_files_are_reported_and_the_rest_is_imported() {
    let ws = TestWorkspace::new();
    let dir = folder(&ws);
    write(&dir.join("good.png"), &a1111(1, "a fox", 1), NOON);
    write(&dir.join("empty.png"), b"", NOON);
    write(&dir.join("text.png"), b"not a picture at all", NOON);
    write(&dir.join("cut.png"), &a1111(2, "a fox", 2)[..60], NOON);
    write(&dir.join("page.html"), b"<html>", NOON);
    let report = import(&ws, &request(&dir));
    let named: Vec<_> = report
        .problems
        .iter()
        .map(|problem| (Path::new(&problem.path).file_name().unwrap().to_str().unwrap(), problem.reason.as_str()))
        .collect();
    assert_eq!(named, [("empty.png", "it is empty"), ("text.png", "not an image or video of a known type")]);
    assert_eq!(report.images, 2, "a picture that is cut is kept as it is");
    let refused = |request: &FilesRequest| ws.workspace.import_files(&actor(), request, &AtomicBool::new(false));
    fails(refused(&request(&dir.join("absent"))), ErrorKind::NotFound, "cannot read: ");
    fails(refused(&FilesRequest::default()), ErrorKind::Invalid, "no path was given");
}

#[cfg(unix)]
#[test]
fn files_with_names_that_are_not_utf_8_are_imported_and_cannot_be_linked() {
    use std::os::unix::ffi::OsStrExt;
    let ws = TestWorkspace::new();
    let dir = folder(&ws);
    write(&dir.join(std::ffi::OsStr::from_bytes(b"fox\xff.png")), &a1111(1, "a fox", 1), NOON);
    let linked = import(&ws, &FilesRequest { link: true, ..request(&dir) });
    assert_eq!(linked.iterations, 0);
    assert!(linked.problems[0].reason.contains("not UTF-8"), "{:?}", linked.problems);
    let copied = import(&ws, &request(&dir));
    assert_eq!((copied.iterations, copied.problems.len()), (1, 0));
    assert_eq!(get(&ws, "latest").images[0].name.as_deref(), Some("fox\u{fffd}.png"));
}

/// A disk that is full after this many operations.
struct Fills {
    left: AtomicU64,
}

impl Observer for Fills {
    fn before(&self, _: Op<'_>) -> std::io::Result<()> {
        let left = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        left.map(drop).map_err(|_| std::io::ErrorKind::StorageFull.into())
    }
}

#[test]
fn a_disk_that_fills_up_leaves_a_prefix_and_the_next_import_resumes() {
    let whole = TestWorkspace::new();
    made::folder(&folder(&whole), 60);
    import(&whole, &request(&folder(&whole)));
    for room in [5, 60, 150, 300] {
        let fills = Arc::new(Fills { left: AtomicU64::new(u64::MAX) });
        let ws = TestWorkspace::on(Disk::observed(fills.clone()));
        fills.left.store(room, Ordering::Relaxed);
        let report = import(&ws, &request(&folder(&whole)));
        let stopped = Error::from(report.stopped.unwrap());
        assert!(stopped.message.starts_with("the disk is full"), "{stopped:?}");
        fills.left.store(u64::MAX, Ordering::Relaxed);
        assert_eq!(contents(&ws).values().map(Vec::len).sum::<usize>() as u64, report.iterations, "room for {room}");
        let ws = ws.reopen();
        assert!(ws.workspace.verify().unwrap().is_whole(), "room for {room}");
        let rest = import(&ws, &request(&folder(&whole)));
        assert!(rest.stopped.is_none());
        assert_eq!(contents(&ws), contents(&whole), "room for {room}");
    }
}

#[test]
fn a_picture_that_is_named_by_its_hash_is_the_parent() {
    let ws = TestWorkspace::new();
    let dir = folder(&ws);
    write(&dir.join("00001-1.png"), &a1111(1, "a fox, snow", 1), NOON);
    write(&dir.join("00002-2.png"), &a1111(2, "an old sailor, oil", 2000), NOON + 60);
    // The MD5 of the pixels of the first image, as A1111 writes it.
    let pixels = image::load_from_memory(&a1111(1, "a fox, snow", 1)).unwrap().to_rgb8();
    assert_eq!(pixels.dimensions(), (16, 16));
    let text = format!(
        "boats in a harbour, watercolour\nSteps: 20, Sampler: Euler a, CFG scale: 7, Seed: 3, Size: 16x16, Model: sdxl, \
         Denoising strength: 0.6, Init image hash: {INIT_HASH}, Version: v1.10.1"
    );
    write(&dir.join("00003-3.png"), &png(3, &[("parameters", &text)]), NOON + 120);
    import(&ws, &request(&dir));
    let view = get(&ws, "session-2024-05-01-001#2");
    assert_eq!(view.parent.map(|parent| parent.index), Some(0));
    assert_eq!(view.parent_reason.as_deref(), Some("its metadata contains the hash of the image it was made from"));
}

/// The result of `hashlib.md5(image.convert("RGB").tobytes())` for pattern 1.
const INIT_HASH: &str = "2f832e0b29b68962f4a5d5c6bd9baa9b";

/// Deletes a file as soon as the first image is being stored.
struct Vanishes(PathBuf);

impl Observer for Vanishes {
    fn before(&self, op: Op<'_>) -> std::io::Result<()> {
        if matches!(op, Op::Create(path) if path.components().any(|part| part.as_os_str() == "images")) {
            let _ = fs::remove_file(&self.0);
        }
        Ok(())
    }
}

#[test]
fn a_file_that_vanishes_is_reported_and_the_rest_is_imported() {
    let dir = tempfile::tempdir().unwrap();
    for number in 0..300 {
        write(&dir.path().join(format!("{number:05}.png")), &a1111(number, "a fox", number * 10), NOON + number * 60);
    }
    let ws = TestWorkspace::on(Disk::observed(Arc::new(Vanishes(dir.path().join("00250.png")))));
    let report = import(&ws, &request(dir.path()));
    assert_eq!(report.iterations, 299);
    assert_eq!(report.problems.len(), 1);
    assert!(report.problems[0].path.ends_with("00250.png"));
    assert_eq!(report.problems[0].reason, "it is gone");
    assert!(ws.workspace.verify().unwrap().is_whole());
}

/// Sets the stop flag as soon as the first image is being stored.
struct Stops(Arc<AtomicBool>);

impl Observer for Stops {
    fn before(&self, op: Op<'_>) -> std::io::Result<()> {
        if matches!(op, Op::Create(path) if path.components().any(|part| part.as_os_str() == "images")) {
            self.0.store(true, Ordering::Relaxed);
        }
        Ok(())
    }
}

#[test]
fn a_stopped_import_leaves_a_prefix_and_the_next_one_resumes() {
    let dir = tempfile::tempdir().unwrap();
    for number in 0..150 {
        write(&dir.path().join(format!("{number:05}.png")), &a1111(number, "a fox", number * 10), NOON + number * 60);
    }
    let stop = Arc::new(AtomicBool::new(false));
    let ws = TestWorkspace::on(Disk::observed(Arc::new(Stops(stop.clone()))));
    let report = ws.workspace.import_files(&actor(), &request(dir.path()), &stop).unwrap();
    assert!(report.interrupted);
    assert!((1..150).contains(&report.iterations), "{}", report.iterations);
    let last = get(&ws, "session-2024-05-01-001");
    assert_eq!(last.images[0].name.clone().unwrap(), format!("{:05}.png", report.iterations - 1), "it is a beginning");
    // If it is stopped before it starts, it does nothing at all.
    let before = ws.written();
    let nothing = ws.workspace.import_files(&actor(), &request(dir.path()), &stop).unwrap();
    assert_eq!((nothing.interrupted, nothing.iterations, ws.written()), (true, 0, before));
    let rest = import(&ws, &request(dir.path()));
    assert_eq!((rest.interrupted, rest.iterations + report.iterations), (false, 150));
    assert!(ws.workspace.verify().unwrap().is_whole());
}

#[test]
fn an_archived_session_is_left_unchanged() {
    let ws = TestWorkspace::new();
    let dir = folder(&ws);
    write(&dir.join("a.png"), &a1111(1, "a fox", 1), NOON);
    import(&ws, &request(&dir));
    let away = ArchiveRequest { session_id: "session-2024-05-01-001".into(), ..ArchiveRequest::default() };
    ws.api().archive(&away).unwrap();
    write(&dir.join("b.png"), &a1111(2, "a fox", 20), NOON + 60);
    import(&ws, &request(&dir));
    write(&dir.join("c.png"), &a1111(3, "a fox", 30), NOON + 120);
    let report = import(&ws, &request(&dir));
    assert_eq!(
        report.sessions[0].session_id.unwrap().to_string(),
        "session-2024-05-01-002",
        "and the new one is continued"
    );
    let parent = get(&ws, "session-2024-05-01-002#0").parent.unwrap();
    assert_eq!(parent.to_string(), "session-2024-05-01-001#0");
}
