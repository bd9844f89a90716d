//! Importing next to other work: sessions recorded by hand are never changed, the plan matches the result, a recipe
//! that made no difference is recorded, and missing originals are restored.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use retake::internals::import::{FilesReport, FilesRequest};
use retake::internals::wire::{ArchiveRequest, GetRequest, IterationView, ListRequest, RecordRequest};
use retake_testutils::made::{self, png, sized_png, write};

use crate::support::*;

const NOON: u64 = 1_714_564_800; // 2024-05-01T12:00:00Z

fn request(dir: &Path) -> FilesRequest {
    FilesRequest { paths: vec![dir.to_owned()], ..FilesRequest::default() }
}

fn import(ws: &TestWorkspace, request: &FilesRequest) -> FilesReport {
    ws.workspace.import_files(&actor(), request, &AtomicBool::new(false)).unwrap()
}

fn folder(ws: &TestWorkspace) -> PathBuf {
    ws.dir.path().join("pictures")
}

fn get(ws: &TestWorkspace, reference: &str) -> IterationView {
    ws.api().get(&GetRequest { reference: reference.to_owned(), ..GetRequest::default() }).unwrap()
}

fn a1111(pattern: u64, prompt: &str, seed: u64) -> Vec<u8> {
    a1111_with(pattern, prompt, seed, "")
}

fn a1111_with(pattern: u64, prompt: &str, seed: u64, more: &str) -> Vec<u8> {
    let text = format!(
        "{prompt}\nSteps: 20, Sampler: Euler a, CFG scale: 7, Seed: {seed}, Size: 16x16, Model: sdxl{more}, Version: v1.10.1"
    );
    png(pattern, &[("parameters", &text)])
}

/// Writes three ideas with two images each, three minutes apart.
fn three_ideas(dir: &Path) {
    for (number, prompt) in
        (0..).zip(["a knight", "a knight, red", "a castle", "a castle, fog", "a ship", "a ship, storm"])
    {
        let name = format!("{number:05}-{}.png", number * 1001);
        write(&dir.join(name), &a1111(number, prompt, number * 1001), NOON + number * 180);
    }
}

fn by_hand(ws: &TestWorkspace, title: &str, file: &Path) -> String {
    let request = RecordRequest {
        images: vec![path(&file.to_string_lossy())],
        title: Some(title.into()),
        project: Some(title.into()),
        ..prompt(title)
    };
    ws.record(&request).session.id().to_string()
}

#[test]
fn an_import_never_adds_to_a_session_recorded_by_hand() {
    let ws = TestWorkspace::new();
    let dir = folder(&ws);
    three_ideas(&dir);
    let (knight, castle) =
        (by_hand(&ws, "Client A", &dir.join("00000-0.png")), by_hand(&ws, "Client B", &dir.join("00002-2002.png")));
    let rows = |ws: &TestWorkspace| {
        let rows = ws.list(&ListRequest::default()).sessions;
        rows.iter().map(|row| (row.id().to_string(), json(row))).collect::<BTreeMap<_, _>>()
    };
    let before = rows(&ws);
    let request = FilesRequest { project: Some("mine".into()), ..request(&dir) };
    let plan = import(&ws, &FilesRequest { dry_run: true, ..request.clone() });
    let done = import(&ws, &request);
    assert_eq!((done.iterations, done.skipped, done.sessions.len()), (4, 2, 1));
    assert_eq!(plan.sessions[0].plan.iter().map(|it| it.index).collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert_eq!(plan.sessions[0].new_number, Some(1));
    let after = rows(&ws);
    for id in [&knight, &castle] {
        assert_eq!(before[id], after[id], "a session that somebody made was changed");
    }
    let new = done.sessions[0].session_id.unwrap().to_string();
    assert!(!before.contains_key(&new));
    assert_eq!(ws.api().session(&new).unwrap().project(), Some("mine"));
}

#[test]
fn only_the_same_folder_and_project_are_continued() {
    let ws = TestWorkspace::new();
    let (one, other) = (ws.dir.path().join("one"), ws.dir.path().join("other"));
    let first = a1111(1, "a fox", 1);
    write(&one.join("a.png"), &first, NOON);
    write(&other.join("a.png"), &first, NOON);
    import(&ws, &request(&one));
    write(&other.join("b.png"), &a1111(2, "a fox", 200), NOON + 60);
    let elsewhere = import(&ws, &request(&other));
    assert_eq!(elsewhere.sessions[0].session_id.unwrap().to_string(), "session-2024-05-01-002", "another folder");
    write(&one.join("c.png"), &a1111(3, "a fox", 300), NOON + 60);
    let for_zoo = import(&ws, &FilesRequest { project: Some("zoo".into()), ..request(&one) });
    assert_eq!(for_zoo.sessions[0].session_id.unwrap().to_string(), "session-2024-05-01-003", "another project");
    write(&one.join("d.png"), &a1111(4, "a fox", 400), NOON + 90);
    // However the path of the folder is written.
    let same = import(&ws, &request(&one.join("../one")));
    let id = same.sessions[0].session_id.unwrap().to_string();
    assert!(["session-2024-05-01-001", "session-2024-05-01-003"].contains(&id.as_str()), "{id}");
}

/// Describes what an import did or would do, without the ids that only exist after recording.
fn planned(report: &FilesReport) -> Vec<String> {
    let mut lines = Vec::new();
    for session in &report.sessions {
        let new = || format!("new-{}", session.new_number.unwrap());
        let name = session.session_id.map_or_else(new, |id| id.to_string());
        lines.push(format!(
            "{} {} {} {} {:?}",
            session.iterations, session.images, session.from, session.to, session.title
        ));
        for step in &session.plan {
            let names: Vec<_> = step.files.iter().map(|file| file.rsplit('/').next().unwrap()).collect();
            lines.push(format!(
                "{name}#{} {} {:?} {:?} {:?} {:?} {:?} {names:?}",
                step.index,
                step.timestamp,
                step.label.map(|label| label.to_string()),
                step.parent,
                step.parent_reason,
                step.likely_parent,
                step.likely_reason
            ));
        }
    }
    lines
}

/// Describes what was recorded in the same way: `before` holds the previous iteration counts.
fn recorded(report: &FilesReport, ws: &TestWorkspace, before: &BTreeMap<String, u32>) -> Vec<String> {
    let mut names = BTreeMap::new();
    for session in &report.sessions {
        let id = session.session_id.unwrap().to_string();
        let name = if before.contains_key(&id) { id.clone() } else { format!("new-{}", names.len() + 1) };
        if !before.contains_key(&id) {
            names.insert(id, name);
        }
    }
    let named = |id: retake::internals::model::IterationId| {
        let session = id.session.to_string();
        format!("{}#{}", names.get(&session).unwrap_or(&session), id.index)
    };
    let mut lines = Vec::new();
    for session in &report.sessions {
        let id = session.session_id.unwrap();
        let row = ws.api().session(&id.to_string()).unwrap();
        let title = row.title().filter(|_| !before.contains_key(&id.to_string())).map(str::to_owned);
        lines.push(format!("{} {} {} {} {title:?}", session.iterations, session.images, session.from, session.to));
        let from = before.get(&id.to_string()).copied().unwrap_or_default();
        let ids = (from..ws.api().session(&id.to_string()).unwrap().iteration_count()).map(|index| id.iteration(index));
        for (id, step) in ids.clone().zip(ws.workspace.steps(ids).unwrap()) {
            let view = get(ws, &id.to_string());
            let files: Vec<_> = view.images.iter().map(|image| image.name.clone().unwrap()).collect();
            lines.push(format!(
                "{} {} {:?} {:?} {:?} {:?} {:?} {files:?}",
                named(id),
                view.timestamp,
                step.label.map(|label| label.to_string()),
                view.parent.map(named),
                view.parent_reason,
                view.likely_parent.as_ref().map(|likely| named(likely.reference)),
                view.likely_parent.as_ref().map(|likely| likely.reason.clone()),
            ));
        }
    }
    lines
}

#[test]
fn the_plan_is_what_happens() {
    let mut random = retake_testutils::Random::new(11);
    for round in 0..12 {
        let ws = TestWorkspace::new();
        let dir = folder(&ws);
        let prompts = ["a fox, snow, dusk", "a fox, snow, dawn", "an old sailor, oil", "a tea house, isometric", ""];
        let mut now = NOON;
        for number in 0..24_u64 {
            now += [5, 60, 400, 9000][usize::try_from(random.below(4)).unwrap()];
            let prompt = prompts[usize::try_from(random.below(5)).unwrap()];
            let seed = random.below(4);
            let (pattern, side) = (1 + random.below(30), [16, 16, 32][usize::try_from(random.below(3)).unwrap()]);
            let text = format!("{prompt}\nSteps: 20, Seed: {seed}, Size: 16x16, Model: sdxl, Version: v1.10.1");
            let bytes = match prompt {
                "" => sized_png(pattern, side, &[]),
                _ => sized_png(pattern, side, &[("parameters", &text)]),
            };
            let below = ["", "2024-05-01/", "cats/", "output/"][usize::try_from(random.below(4)).unwrap()];
            write(&dir.join(format!("{below}{number:05}-{seed}.png")), &bytes, now);
        }
        let files: Vec<PathBuf> = files_below(&dir).into_keys().collect();
        // Some of it is already here: by hand, by an agent, and by an import that was interrupted or is older.
        if round % 3 > 0 {
            by_hand(&ws, "mine", &files[usize::try_from(random.below(24)).unwrap()]);
        }
        if round % 2 > 0 {
            let some: Vec<PathBuf> = files.iter().step_by(3).cloned().collect();
            import(&ws, &FilesRequest { paths: some, ..FilesRequest::default() });
            let first = ws.list(&ListRequest::default()).sessions[0].id().to_string();
            if round % 4 == 1 {
                ws.api().archive(&ArchiveRequest { session_id: first, ..ArchiveRequest::default() }).unwrap();
            }
        }
        let rows = ws.list(&ListRequest { limit: Some(1000), ..ListRequest::default() }).sessions;
        let before = rows.iter().map(|row| (row.id().to_string(), row.iteration_count())).collect();
        let project = (round % 4 == 3).then(|| "zoo".to_owned());
        let request = FilesRequest { project, ..request(&dir) };
        let plan = import(&ws, &FilesRequest { dry_run: true, ..request.clone() });
        let done = import(&ws, &request);
        assert_eq!(planned(&plan), recorded(&done, &ws, &before), "round {round}");
        assert_eq!((plan.skipped, plan.images, plan.restored), (done.skipped, done.images, done.restored));
        assert_eq!((plan.warnings, plan.problems, plan.notes), (done.warnings, done.problems, done.notes));
    }
}

#[test]
fn a_recipe_that_made_no_difference_is_recorded() {
    let ws = TestWorkspace::new();
    let dir = folder(&ws);
    write(&dir.join("a.png"), &a1111(1, "a bridge", 1), NOON);
    write(&dir.join("lora.png"), &a1111(1, "a bridge <lora:xl_more_art:0>", 1), NOON + 60);
    write(&dir.join("model.png"), &a1111_with(1, "a bridge", 1, "-turbo"), NOON + 120);
    write(&dir.join("negative.png"), &a1111(1, "a bridge\nNegative prompt: fog", 1), NOON + 180);
    write(&dir.join("vae.png"), &a1111_with(1, "a bridge", 1, ", VAE: other"), NOON + 240);
    let report = import(&ws, &request(&dir));
    assert_eq!((report.iterations, report.skipped), (5, 0));
    // A copy of any of them is still a copy.
    write(
        &dir.join("copy.png"),
        &{
            let mut bytes = a1111_with(1, "a bridge", 1, "-turbo");
            let end = bytes.len();
            bytes.splice(end..end, *b"trailing");
            bytes
        },
        NOON + 300,
    );
    let again = import(&ws, &request(&dir));
    assert_eq!((again.iterations, again.skipped), (0, 6));
}

#[test]
fn a_copy_with_another_sidecar_does_not_change_the_recipe_of_the_first_file() {
    let ws = TestWorkspace::new();
    let dir = folder(&ws);
    for (minute, name) in (0..).zip(["bridge", "tunnel"]) {
        let sidecar =
            format!(r#"{{"prompt":"a {name}","use_stable_diffusion_model":"sdxl","use_vae_model":"{name}"}}"#);
        write(&dir.join(format!("{name}.png")), &png(1, &[]), NOON + minute * 60);
        write(&dir.join(format!("{name}.json")), sidecar.as_bytes(), NOON + minute * 60);
    }
    let report = import(&ws, &request(&dir));
    assert_eq!((report.iterations, report.skipped), (1, 1));
    let recipe = get(&ws, "session-2024-05-01-001#0").recipe.recipe;
    assert_eq!((recipe.prompt.as_str(), &recipe.parameters["use_vae_model"]), ("a bridge", &"bridge".into()));
}

#[test]
fn every_image_of_a_batch_keeps_its_seed() {
    let ws = TestWorkspace::new();
    let dir = folder(&ws);
    for number in 0..3 {
        write(&dir.join(format!("{number:05}.png")), &a1111(number + 1, "a fox", 4001 + number), NOON + number);
    }
    import(&ws, &request(&dir));
    let view = get(&ws, "session-2024-05-01-001#0");
    assert_eq!(view.images.len(), 3);
    assert_eq!(view.recipe.recipe.seed.map(|seed| seed.to_string()).as_deref(), Some("4001"));
    assert_eq!(view.recipe.recipe.parameters["seeds"], serde_json::json!(["4001", "4002", "4003"]));
    // A copy of the second one is recognised by its own seed.
    let mut copy = a1111(2, "a fox", 4002);
    copy.extend(b"trailing");
    write(&dir.join("saved/00001.png"), &copy, NOON + 900);
    assert_eq!(import(&ws, &request(&dir)).iterations, 0);
}

#[test]
fn a_missing_or_damaged_original_is_restored() {
    let ws = TestWorkspace::new();
    let dir = folder(&ws);
    made::folder(&dir, 40);
    let all = import(&ws, &request(&dir)).images;
    let stored: Vec<PathBuf> = files_below(&ws.root().join("images")).into_keys().collect();
    fs::remove_file(&stored[0]).unwrap();
    let mut bytes = fs::read(&stored[1]).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&stored[1], bytes).unwrap();
    assert_eq!(ws.workspace.verify().unwrap().problems.len(), 2);
    let plan = import(&ws, &FilesRequest { dry_run: true, ..request(&dir) });
    assert_eq!((plan.restored, ws.workspace.verify().unwrap().problems.len()), (2, 2));
    let report = import(&ws, &request(&dir));
    assert_eq!((report.iterations, report.restored, report.skipped), (0, 2, all));
    assert!(ws.workspace.verify().unwrap().is_whole());
    assert_eq!(import(&ws, &request(&dir)).restored, 0);
}

#[test]
fn a_linked_folder_that_moved_is_found_again() {
    for link in [true, false] {
        let ws = TestWorkspace::new();
        let dir = folder(&ws);
        made::folder(&dir, 20);
        let all = import(&ws, &FilesRequest { link: true, ..request(&dir) }).images;
        let moved = ws.dir.path().join("moved");
        fs::rename(&dir, &moved).unwrap();
        let ws = ws.reopen();
        assert_eq!(ws.workspace.verify().unwrap().problems.len() as u64, all);
        let report = import(&ws, &FilesRequest { link, ..request(&moved) });
        assert_eq!((report.iterations, report.restored), (0, all));
        let ws = ws.reopen();
        assert!(ws.workspace.verify().unwrap().is_whole());
        let copied = files_below(&ws.root().join("images")).into_keys().filter(|file| !file.is_symlink()).count();
        assert_eq!(copied as u64, if link && cfg!(unix) { 0 } else { all });
        // The same in another folder.
        let again = ws.dir.path().join("again");
        fs::rename(&moved, &again).unwrap();
        let report = import(&ws, &FilesRequest { link, ..request(&again) });
        assert_eq!(report.restored, if link { all } else { 0 });
        assert!(ws.workspace.verify().unwrap().is_whole());
    }
}

#[test]
fn a_broken_file_is_imported_with_a_warning() {
    let ws = TestWorkspace::new();
    let dir = folder(&ws);
    let whole = a1111(1, "a glass bridge", 1);
    write(&dir.join("cut.png"), &whole[..whole.len() - 90], NOON);
    let report = import(&ws, &request(&dir));
    assert_eq!((report.iterations, report.problems.len()), (1, 0));
    assert!(report.warnings[0].path.ends_with("cut.png"));
    assert_eq!(report.warnings[0].reason, "imported as it is, but the file is truncated");
}

#[test]
fn previews_and_contact_sheets_are_not_imported() {
    let ws = TestWorkspace::new();
    let dir = folder(&ws);
    write(&dir.join("ComfyUI/output/ComfyUI_00001_.png"), &a1111(1, "a fox", 1), NOON);
    write(&dir.join("ComfyUI/temp/ComfyUI_temp_abcde_00001_.png"), &a1111(2, "a fox", 2), NOON);
    let report = import(&ws, &request(&dir));
    assert_eq!((report.files, report.images), (1, 1));
}

#[test]
fn all_images_of_one_queued_prompt_are_one_iteration() {
    let ws = TestWorkspace::new();
    let dir = folder(&ws);
    let graph = r#"{"3":{"class_type":"KSampler","inputs":{"seed":7,"steps":20,"cfg":7.0,"sampler_name":"euler","scheduler":"normal","denoise":1.0,"model":["4",0],"positive":["6",0],"negative":["7",0],"latent_image":["5",0]}},"4":{"class_type":"CheckpointLoaderSimple","inputs":{"ckpt_name":"x.safetensors"}},"5":{"class_type":"EmptyLatentImage","inputs":{"width":16,"height":16,"batch_size":1}},"6":{"class_type":"CLIPTextEncode","inputs":{"text":"a fox","clip":["4",1]}},"7":{"class_type":"CLIPTextEncode","inputs":{"text":"blurry","clip":["4",1]}},"8":{"class_type":"VAEDecode","inputs":{"samples":["3",0],"vae":["4",2]}},"9":{"class_type":"SaveImage","inputs":{"filename_prefix":"a","images":["8",0]}}}"#;
    write(&dir.join("a_00001_.png"), &sized_png(1, 16, &[("prompt", graph)]), NOON);
    write(&dir.join("a_00002_.png"), &sized_png(1, 32, &[("prompt", graph)]), NOON + 2);
    let report = import(&ws, &request(&dir));
    assert_eq!((report.iterations, report.images), (1, 2));
}

#[test]
fn an_upscale_is_recognised() {
    let ws = TestWorkspace::new();
    let dir = folder(&ws);
    let text = "a fox\nSteps: 20, Seed: 7, Size: 16x16, Model: sdxl, Version: v1.10.1";
    write(&dir.join("a.png"), &sized_png(1, 16, &[("parameters", text)]), NOON);
    write(&dir.join("b.png"), &sized_png(1, 32, &[("parameters", text)]), NOON + 120);
    let plan = import(&ws, &FilesRequest { dry_run: true, ..request(&dir) });
    assert_eq!(plan.sessions[0].plan[1].label.unwrap().to_string(), "refine");
    import(&ws, &request(&dir));
    let id = ws.api().resolve("session-2024-05-01-001#1").unwrap();
    assert_eq!(ws.workspace.steps([id]).unwrap()[0].label.unwrap().to_string(), "refine");
}
