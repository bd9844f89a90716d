//! Recording: new sessions, further iterations, stored images, and idempotent retries.

use retake::internals::model::{OutcomeStatus, Seed};
use retake::internals::wire::{
    ArchiveRequest, ErrorKind, GetRequest, ImageData, ImageInput, ImageRequest, ListRequest, RecordRequest,
};

use crate::support::*;

#[test]
fn the_first_recording_starts_a_session() {
    let ws = TestWorkspace::new();
    assert_eq!(
        json(&ws.record(&prompt("a cat"))),
        r#"{"reference":"session-2025-12-11-001#0","session":{"id":"session-2025-12-11-001","createdAt":"2025-12-11T10:15:30.123Z","lastModifiedAt":"2025-12-11T10:15:30.123Z","iterationCount":1,"currentIterationIndex":0}}"#
    );
    let named = RecordRequest { title: Some("Cats".into()), project: Some("zoo".into()), ..prompt("a cat") };
    let row = ws.record(&named).session;
    assert_eq!(row.id().to_string(), "session-2025-12-11-002");
    assert!(json(&row).ends_with(r#""currentIterationIndex":0,"title":"Cats","project":"zoo"}"#));
}

#[test]
fn the_default_parent_is_the_previous_iteration() {
    let ws = TestWorkspace::new();
    let id = ws.session(3);
    let other = ws.record(&RecordRequest { parent: Some(format!("{id}#1")), ..prompt("elsewhere") });
    let back =
        ws.record(&RecordRequest { session_id: Some(id.clone()), parent: Some("#first".into()), ..prompt("back") });
    assert_eq!(back.reference.to_string(), format!("{id}#3"), "#first is of the most recent session");

    let get =
        |reference: &str| ws.api().get(&GetRequest { reference: reference.into(), ..GetRequest::default() }).unwrap();
    assert_eq!(get(&format!("{id}#0")).parent, None);
    assert_eq!(get(&format!("{id}#2")).parent, Some(format!("{id}#1").parse().unwrap()));
    let children: Vec<String> = get(&format!("{id}#1")).children.iter().map(ToString::to_string).collect();
    assert_eq!(children, [format!("{id}#2"), other.reference.to_string()]);
}

#[test]
fn imported_work_keeps_its_own_times() {
    let ws = TestWorkspace::new();
    let old = ws.record(&RecordRequest { created_at: Some("2024-02-29T23:30:00+01:00".into()), ..prompt("old") });
    assert_eq!(old.reference.to_string(), "session-2024-02-29-001#0");
    let view = ws.api().get(&GetRequest { reference: old.reference.to_string(), ..GetRequest::default() }).unwrap();
    assert_eq!(view.timestamp, time("2024-02-29T22:30:00.000Z"));
    assert_eq!(view.recorded_at, time("2025-12-11T10:15:30.123Z"));
    assert_eq!(view.recorded_by, actor());
}

#[test]
fn everything_recorded_is_returned() {
    let ws = TestWorkspace::new();
    let request: RecordRequest = serde_json::from_value(serde_json::json!({
        "prompt": "línea uno\n\tзима, 猫", "promptSent": "a cat, 8k", "negativePrompt": "dog", "model": "flux",
        "modelHash": "abc", "seed": 18_446_744_073_709_551_615_u64, "steps": 20, "guidanceScale": 7.5,
        "sampler": "euler", "scheduler": "karras", "width": 512, "height": 768, "denoise": 0.5,
        "loras": [{"name": "detail", "weight": 0.8}], "provider": "comfyui",
        "parameters": {"z": 1, "a": [2.0, 0.1], "nested": {"k": null}},
        "outcome": "failed", "message": "out of memory", "generationTimeMs": 1234,
        "cost": {"amount": 0.04, "currency": "USD"},
    }))
    .unwrap();
    let reference = ws.record(&request).reference.to_string();
    let view = checked(ws.api().get(&GetRequest { reference, ..GetRequest::default() })).unwrap();
    assert_eq!(view.recipe.recipe.seed, Some(Seed(u64::MAX)));
    assert_eq!(view.outcome.status, OutcomeStatus::Failed);
    let shown = json(&view);
    for part in [
        r#""outcome":{"status":"failed","message":"out of memory","generationTimeMs":1234,"cost":{"amount":0.04,"currency":"USD"}}"#,
        r#""recipe":{"prompt":"línea uno\n\tзима, 猫","promptSent":"a cat, 8k","negativePrompt":"dog","model":"flux","modelHash":"abc","seed":"18446744073709551615","steps":20,"guidanceScale":7.5,"sampler":"euler","scheduler":"karras","width":512,"height":768,"denoise":0.5,"provider":"comfyui","loras":[{"name":"detail","weight":0.8}],"parameters":{"z":1,"a":[2.0,0.1],"nested":{"k":null}}}"#,
    ] {
        assert!(shown.contains(part), "{shown}");
    }
}

#[test]
fn pictures_are_kept_byte_for_byte() {
    let ws = TestWorkspace::new();
    let (first, second) = (png(31, 17, 9), b"II*\0an unsupported format".to_vec());
    let request = RecordRequest {
        images: vec![
            path(&ws.file("cat.png", &first)),
            ImageInput::Data(ImageData {
                data: "SUkqAGFuIHVuc3VwcG9ydGVkIGZvcm1hdA==".into(),
                mime_type: Some("image/png".into()),
            }),
        ],
        ..prompt("a cat")
    };
    let reference = ws.record(&request).reference.to_string();
    let view = checked(ws.api().get(&GetRequest { reference: reference.clone(), ..GetRequest::default() })).unwrap();
    assert_eq!(view.images[0].mime_type, "image/png");
    assert_eq!((view.images[0].width, view.images[0].height), (Some(31), Some(17)));
    assert_eq!(view.images[0].name.as_deref(), Some("cat.png"));
    assert_eq!(view.images[0].uri, "retake://iterations/session-2025-12-11-001/0/image");
    assert_eq!(view.images[1].mime_type, "image/tiff");
    assert_eq!(view.images[1].uri, "retake://iterations/session-2025-12-11-001/0/image/1");
    assert!(!view.images[0].missing);

    let image = |image| ws.api().image(&ImageRequest { reference: reference.clone(), image });
    assert_eq!(image(None).unwrap().data, first);
    let bytes = image(Some(1)).unwrap();
    assert_eq!(bytes.data, second);
    assert_eq!(serde_json::from_str::<retake::internals::wire::ImageBytes>(&json(&bytes)).unwrap(), bytes);
    fails(image(Some(2)), ErrorKind::NotFound, "#0 has no image 2");

    let hash = view.images[0].hash.to_string();
    let file = ws.root().join("images").join(&hash[..2]).join(&hash[2..]);
    std::fs::write(&file, "something else").unwrap();
    fails(image(None), ErrorKind::Damaged, "is damaged");
    std::fs::remove_file(&file).unwrap();
    fails(image(None), ErrorKind::Damaged, "is missing");
    let view = ws.api().get(&GetRequest { reference, ..GetRequest::default() }).unwrap();
    assert!(json(&view).contains(r#""name":"cat.png","missing":true}"#));
}

#[test]
fn a_title_on_an_existing_session_is_a_change_only_when_it_differs() {
    let ws = TestWorkspace::new();
    let id = ws.session(1);
    let again = |title: &str| {
        let request = RecordRequest { session_id: Some(id.clone()), title: Some(title.into()), ..prompt("more") };
        ws.record(&request).session.title().map(str::to_owned)
    };
    assert_eq!(again("Cats").as_deref(), Some("Cats"));
    let events = ws.workspace.status().unwrap().events;
    assert_eq!(again("Cats").as_deref(), Some("Cats"));
    assert_eq!(ws.workspace.status().unwrap().events, events + 1);
    assert_eq!(again("Dogs").as_deref(), Some("Dogs"));
}

#[test]
fn a_retry_is_one_write() {
    let ws = TestWorkspace::new();
    let picture = path(&ws.file("cat.png", &png(2, 2, 1)));
    let request = RecordRequest { idempotency_key: Some("k1".into()), images: vec![picture], ..prompt("a cat") };
    let first = ws.record(&request);
    ws.wait(1000);
    assert_eq!(ws.record(&request), first);
    assert_eq!(ws.list(&ListRequest::default()).total_sessions, 1);

    let id = first.session.id().to_string();
    let next = RecordRequest {
        session_id: Some(id.clone()),
        idempotency_key: Some("k2".into()),
        expected_iteration_count: Some(1),
        ..prompt("a dog")
    };
    let second = ws.record(&next);
    ws.record(&RecordRequest { session_id: Some(id.clone()), ..prompt("a third") });
    let archive = ArchiveRequest { session_id: id, ..ArchiveRequest::default() };
    ws.api().archive(&archive).unwrap();
    let again = ws.record(&next);
    assert_eq!(again.reference, second.reference, "though it is archived and has grown");
    assert_eq!(again.session.iteration_count(), 3, "the row is today's");
}

#[test]
fn a_key_used_for_something_else_is_a_conflict() {
    let ws = TestWorkspace::new();
    let request = RecordRequest { idempotency_key: Some("k1".into()), ..prompt("a cat") };
    let id = ws.record(&request).session.id().to_string();
    let before = ws.written();
    for other in [
        RecordRequest { prompt: "a dog".into(), ..request.clone() },
        RecordRequest { seed: Some(Seed(7)), ..request.clone() },
        RecordRequest { outcome: Some(OutcomeStatus::Failed), ..request.clone() },
        RecordRequest { session_id: Some(id.clone()), ..request.clone() },
        RecordRequest { parent: Some("latest".into()), ..request },
    ] {
        fails(ws.try_record(&other), ErrorKind::Conflict, r#"the idempotency key "k1" was already used"#);
    }
    let archive = ArchiveRequest { session_id: id, idempotency_key: Some("k1".into()), ..ArchiveRequest::default() };
    fails(ws.api().archive(&archive), ErrorKind::Conflict, "recording session-2025-12-11-001#0");
    assert_eq!(ws.written(), before);
}

#[test]
fn recordings_survive_reopening() {
    let ws = TestWorkspace::new();
    ws.session(12);
    let before = ws.list(&ListRequest::default());
    let ws = ws.reopen();
    assert_eq!(ws.list(&ListRequest::default()), before);
}

#[test]
fn many_at_once_are_each_one_write() {
    let ws = TestWorkspace::new();
    let id = ws.session(1);
    let keyed = RecordRequest { idempotency_key: Some("k".into()), ..prompt("retried by all") };
    std::thread::scope(|scope| {
        for n in 0..8 {
            let (ws, id, keyed) = (&ws, &id, &keyed);
            scope.spawn(move || {
                for m in 0..10 {
                    ws.record(&RecordRequest { session_id: Some(id.clone()), ..prompt(&format!("{n} {m}")) });
                }
                assert_eq!(ws.record(keyed).reference.index, 0);
            });
        }
    });
    let list = ws.list(&ListRequest::default());
    assert_eq!(list.total_sessions, 2);
    assert_eq!(ws.api().session(&id).unwrap().iteration_count(), 81);
}
