//! Every input that is refused, with its error message, and that nothing is written.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use retake::internals::disk::{Disk, Observer, Op};
use retake::internals::model::iteration::{MAX_NAME_BYTES, MAX_NOTE_BYTES, MAX_PARAMETERS_BYTES, MAX_PROMPT_BYTES};
use retake::internals::model::{Cost, Lora};
use retake::internals::wire::{
    AnnotateRequest, Api, ArchiveRequest, AuditRequest, ErrorKind, GetRequest, ImageData, ImageInput,
    IterationsRequest, ListRequest, RecordRequest,
};
use retake::internals::workspace::{Options, Workspace};

use crate::support::*;

#[test]
fn a_recording_that_is_wrong_writes_nothing() {
    let ws = TestWorkspace::new();
    let id = ws.session(2);
    let good = path(&ws.file("good.png", &png(2, 2, 1)));
    let empty = ws.file("empty.png", b"");
    let dir = ws.dir.path().to_string_lossy().into_owned();
    let absent = ws.dir.path().join("absent.png").to_string_lossy().into_owned();
    let before = ws.written();
    let base = || RecordRequest { images: vec![good.clone()], ..prompt("a cat") };
    let data = |data: &str| ImageInput::Data(ImageData { data: data.into(), mime_type: None });
    let images = |bad: ImageInput| RecordRequest { images: vec![good.clone(), bad], ..prompt("a cat") };
    let mut parameters = serde_json::Map::new();
    parameters.insert("workflow".into(), "x".repeat(MAX_PARAMETERS_BYTES).into());

    use ErrorKind::{Conflict, Invalid, NotFound};
    for (request, kind, message) in [
        (RecordRequest { prompt: String::new(), ..base() }, Invalid, "no image has one in its metadata"),
        (RecordRequest { prompt: " \n\t".into(), ..base() }, Invalid, "prompt is empty"),
        (RecordRequest { prompt: "a\0b".into(), ..base() }, Invalid, "prompt has the control character U+0000"),
        (RecordRequest { prompt: "x".repeat(MAX_PROMPT_BYTES + 1), ..base() }, Invalid, "prompt is 262145 bytes long"),
        (RecordRequest { model: Some(" ".into()), ..base() }, Invalid, "model is empty"),
        (RecordRequest { sampler: Some("a\nb".into()), ..base() }, Invalid, "sampler has a line break"),
        (RecordRequest { title: Some(String::new()), ..base() }, Invalid, "title is empty"),
        (RecordRequest { title: Some("x".repeat(MAX_NAME_BYTES + 1)), ..base() }, Invalid, "title is 513 bytes long"),
        (RecordRequest { project: Some("a\u{1b}[31m".into()), ..base() }, Invalid, "project has the control character"),
        (RecordRequest { width: Some(0), ..base() }, Invalid, "width is 0"),
        (RecordRequest { denoise: Some(1.5), ..base() }, Invalid, "denoise is 1.5"),
        (RecordRequest { guidance_scale: Some(f64::NAN), ..base() }, Invalid, "guidanceScale is NaN"),
        (RecordRequest { loras: vec![Lora::new("", 1.0)], ..base() }, Invalid, "loras.name is empty"),
        (
            RecordRequest { cost: Some(Cost { amount: -1.0, currency: "USD".into() }), ..base() },
            Invalid,
            "cost.amount is -1",
        ),
        (RecordRequest { message: Some("x".repeat(MAX_NOTE_BYTES + 1)), ..base() }, Invalid, "message is 65537 bytes"),
        (RecordRequest { parameters, ..base() }, Invalid, "parameters is"),
        (RecordRequest { idempotency_key: Some(String::new()), ..base() }, Invalid, "idempotencyKey is empty"),
        (RecordRequest { idempotency_key: Some("x".repeat(1000)), ..base() }, Invalid, "idempotencyKey is 1000 bytes"),
        (RecordRequest { created_at: Some("yesterday".into()), ..base() }, Invalid, "\"yesterday\" is not a time"),
        (RecordRequest { created_at: Some("2025-12-13T00:00:00Z".into()), ..base() }, Invalid, "a day ahead of now"),
        (RecordRequest { session_id: Some("cats".into()), ..base() }, Invalid, "\"cats\" is not a session id"),
        (RecordRequest { session_id: Some(format!("{id}#1")), ..base() }, Invalid, "is not a session id"),
        (RecordRequest { session_id: Some("lates".into()), ..base() }, Invalid, "is not a session id"),
        (
            RecordRequest { session_id: Some("session-2025-12-11-099".into()), ..base() },
            NotFound,
            "there is no session session-2025-12-11-099",
        ),
        (RecordRequest { parent: Some("the blue one".into()), ..base() }, Invalid, "is not a reference"),
        (RecordRequest { parent: Some(format!("{id}#2")), ..base() }, NotFound, "has no iteration 2: its last is 1"),
        (RecordRequest { expected_iteration_count: Some(1), ..base() }, Invalid, "without sessionId"),
        (
            RecordRequest { session_id: Some(id), expected_iteration_count: Some(1), ..base() },
            Conflict,
            "session-2025-12-11-001 has 2 iterations, not 1",
        ),
        (images(path(&absent)), Invalid, &format!("images[1] does not exist: {absent}")),
        (images(path(&dir)), Invalid, &format!("images[1] is a directory: {dir}")),
        (images(path(&empty)), Invalid, &format!("images[1] is empty: {empty}")),
        (images(path("")), Invalid, "images[1] does not exist"),
        (images(data("not base64!")), Invalid, "images[1].data is not base64"),
        (images(data("")), Invalid, "images[1] is empty"),
        (RecordRequest { images: vec![good.clone(); 65], ..base() }, Invalid, "images has 65 entries"),
    ] {
        fails(ws.try_record(&request), kind, message);
        assert_eq!(ws.written(), before, "{message}");
    }
}

#[test]
fn an_archived_session_is_refused_with_a_hint() {
    let ws = TestWorkspace::new();
    let id = ws.session(1);
    let picture = path(&ws.file("good.png", &png(2, 2, 1)));
    ws.api().archive(&ArchiveRequest { session_id: id.clone(), ..ArchiveRequest::default() }).unwrap();
    let before = ws.written();
    for key in [None, Some("new".to_owned())] {
        let request = RecordRequest {
            session_id: Some(id.clone()),
            idempotency_key: key,
            images: vec![picture.clone()],
            ..prompt("more")
        };
        let error = ws.try_record(&request).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Archived);
        assert_eq!(error.message, "session-2025-12-11-001 is archived and accepts no more iterations");
        assert!(error.hint.contains("call restore-session for session-2025-12-11-001"), "{}", error.hint);
        assert!(error.hint.contains("parent session-2025-12-11-001"), "{}", error.hint);
    }
    assert_eq!(ws.written(), before);
    ws.record(&RecordRequest { parent: Some(id), ..prompt("goes on elsewhere") });
}

#[test]
fn the_other_verbs_refuse_what_is_not_there() {
    let ws = TestWorkspace::new();
    let get = |reference: &str| ws.api().get(&GetRequest { reference: reference.into(), ..GetRequest::default() });
    fails(get("latest"), ErrorKind::NotFound, "the workspace has no sessions yet");
    let id = ws.session(2);
    let before = ws.written();
    fails(get("session-2025-12-11-001#9"), ErrorKind::NotFound, "has no iteration 9: its last is 1");
    fails(get("session-2024-12-11-001"), ErrorKind::NotFound, "there is no session session-2024-12-11-001");
    fails(get("newest"), ErrorKind::Invalid, "\"newest\" is not a reference");

    let annotate = |request: AnnotateRequest| ws.api().annotate(&request);
    let base = || AnnotateRequest { reference: id.clone(), rating: Some(3), ..AnnotateRequest::default() };
    fails(annotate(AnnotateRequest { rating: Some(6), ..base() }), ErrorKind::Invalid, "rating is 6");
    fails(annotate(AnnotateRequest { rating: None, ..base() }), ErrorKind::Invalid, "nothing to annotate");
    fails(annotate(AnnotateRequest { reference: format!("{id}#7"), ..base() }), ErrorKind::NotFound, "iteration 7");
    let long = Some("x".repeat(MAX_NOTE_BYTES + 1));
    fails(annotate(AnnotateRequest { note: long.clone(), ..base() }), ErrorKind::Invalid, "note is 65537 bytes long");

    let archive = |session_id: &str, reason: Option<String>| {
        let request = ArchiveRequest { session_id: session_id.into(), reason, ..ArchiveRequest::default() };
        ws.api().archive(&request)
    };
    fails(archive("nothing", None), ErrorKind::Invalid, "is not a session id");
    fails(archive("session-2024-12-11-001", None), ErrorKind::NotFound, "there is no session");
    fails(archive(&id, long), ErrorKind::Invalid, "reason is 65537 bytes long");

    let absent = "session-2024-12-11-001".to_owned();
    let iterations = IterationsRequest { session_id: absent.clone(), ..IterationsRequest::default() };
    fails(ws.api().iterations(&iterations), ErrorKind::NotFound, "there is no session");
    let audit = AuditRequest { session_id: absent, ..AuditRequest::default() };
    fails(ws.api().audit(&audit), ErrorKind::NotFound, "there is no session");
    fails(ws.api().list(&ListRequest { limit: Some(0), ..ListRequest::default() }), ErrorKind::Invalid, "limit is 0");
    assert_eq!(ws.written(), before);
}

#[test]
fn a_second_process_refuses_the_same_things_in_the_same_words() {
    let ws = TestWorkspace::new();
    let id = ws.session(1);
    let second = Workspace::open_with(ws.root(), Options::default()).unwrap();
    for request in [
        RecordRequest { prompt: String::new(), ..RecordRequest::default() },
        RecordRequest {
            prompt: "a".to_owned(),
            session_id: Some("session-2020-01-01-001".to_owned()),
            ..RecordRequest::default()
        },
        RecordRequest {
            prompt: "a".to_owned(),
            session_id: Some(id),
            expected_iteration_count: Some(7),
            ..RecordRequest::default()
        },
    ] {
        let before = ws.written();
        let first = ws.api().record(&request).unwrap_err();
        let other = Api::new(&second).by(&actor()).record(&request).unwrap_err();
        assert_eq!((other.view(), other.causes), (first.view(), first.causes));
        assert_eq!(ws.written(), before);
    }
}

/// Refuses every write once it is set, like a full disk.
struct Full(AtomicBool);

impl Observer for Full {
    fn before(&self, op: Op<'_>) -> io::Result<()> {
        let refused = matches!(op, Op::Write(..)) && self.0.load(Ordering::Relaxed);
        if refused { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }
}

#[test]
fn a_full_disk_is_reported_and_loses_nothing_acknowledged() {
    let full = Arc::new(Full(AtomicBool::new(false)));
    let ws = TestWorkspace::on(Disk::observed(full.clone()));
    let id = ws.session(2);
    let picture = path(&ws.file("good.png", &png(2, 2, 1)));
    let before = ws.written();

    full.0.store(true, Ordering::Relaxed);
    let with_picture = RecordRequest { images: vec![picture], ..prompt("a cat") };
    for request in [with_picture.clone(), prompt("a cat")] {
        let error = ws.try_record(&request).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Internal);
        assert!(error.message.starts_with("the disk is full: cannot "), "{error}");
        assert!(error.hint.starts_with("free some space"), "{}", error.hint);
    }
    assert_eq!(ws.written(), before);
    let iterations = IterationsRequest { session_id: id, ..IterationsRequest::default() };
    assert_eq!(ws.api().iterations(&iterations).unwrap().returned_count, 2);

    full.0.store(false, Ordering::Relaxed);
    ws.record(&with_picture);
}
