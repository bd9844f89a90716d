//! The bytes on disk: every released format opens and reads the same as ever. `data/README.md` explains how the frozen
//! files were created.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may stop anywhere")]

use std::fs;
use std::path::{Path, PathBuf};

use retake_log::model::{
    AnnotationChange, Cost, Draft, EventBody, Hash, ImageRef, Iteration, LikelyParent, Lora, Outcome, OutcomeStatus,
    PerceptualHash, Recipe, Seed, Session,
};
use retake_log::store::{Detail, Order, Status, Store, Target};
use retake_testutils::*;
use serde_json::{Value, json};

fn frozen(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data").join(name)
}

/// Creates a history with every kind of event and every field.
fn history(store: &Store) {
    let full = Iteration {
        created_at: at(-1),
        recipe: Recipe {
            prompt: "a glass bridge, 夜, \u{1f309}\nsecond line".to_owned(),
            prompt_sent: Some("a glass bridge at night".to_owned()),
            negative_prompt: Some("fog".to_owned()),
            model: Some("sdxl".to_owned()),
            model_hash: Some("31e35c80fc".to_owned()),
            seed: Some(Seed(u64::MAX)),
            steps: Some(30),
            guidance_scale: Some(7.1),
            sampler: Some("euler".to_owned()),
            scheduler: Some("karras".to_owned()),
            width: Some(1024),
            height: Some(768),
            denoise: Some(0.6),
            loras: vec![Lora::new("detail", -0.25)],
            provider: Some("comfyui".to_owned()),
            parameters: serde_json::from_str(r#"{"b":1,"a":[2.0,null,"x"],"workflow":"W"}"#).unwrap(),
        },
        outcome: Outcome {
            status: OutcomeStatus::Refused,
            message: Some("no".to_owned()),
            generation_time_ms: Some(12_480),
            cost: Some(Cost { amount: 0.04, currency: "USD".to_owned() }),
        },
        images: vec![ImageRef {
            hash: Hash::of(b"picture"),
            bytes: 7,
            mime_type: "image/png".to_owned(),
            width: Some(1),
            height: None,
            name: Some("a.png".to_owned()),
            pixels: None,
            perceptual_hash: None,
            linked: None,
        }],
        parent: None,
        parent_reason: None,
        likely_parent: None,
    };
    let (title, project) = (Some("Bridges".to_owned()), Some("cards".to_owned()));
    let drafts = vec![Draft::Start { title, project }, Draft::Record(Box::new(full.clone()))];
    let id = store.append(batch(Target::New(at(0).day()), 0, "key 1", drafts)).unwrap().head.id;
    let mut long = full;
    long.recipe.parameters.insert("workflow".to_owned(), "W".repeat(5000).into());
    (long.parent, long.images) = (Some(id.iteration(0)), Vec::new());
    store.append(batch(Target::Existing(id), 1, "key 2", vec![Draft::Record(Box::new(long))])).unwrap();
    let change =
        AnnotationChange { rating: Some(4), tags: Some(vec!["hero".to_owned()]), note: Some("good".to_owned()) };
    store.append(batch(Target::Existing(id), 2, "key 3", vec![Draft::Annotate { index: 0, change }])).unwrap();
    let drafts = vec![Draft::Title { title: Some("Glass bridges".to_owned()), project: None }];
    store.append(batch(Target::Existing(id), 3, "key 4", drafts)).unwrap();
    store.append(archive(id, 4, "key 5")).unwrap();
    store.append(restore(id, 5, "key 6")).unwrap();
    store.append(start("another", 6, "key 7")).unwrap();
    let mut records = store.records(id).unwrap();
    records.push(from_the_future(records.last().unwrap()));
    assert_eq!(store.import(&records).unwrap(), 1);
}

/// Creates a history with everything that version 2 of a recorded event added.
fn history_with_looks(store: &Store) {
    let image = ImageRef {
        hash: Hash::of(b"picture"),
        bytes: 7,
        mime_type: "image/png".to_owned(),
        width: Some(640),
        height: Some(480),
        name: None,
        pixels: Some(Hash::of(b"pixels")),
        perceptual_hash: Some(PerceptualHash(0x0123_4567_89ab_cdef_0011_2233_4455_6677)),
        linked: None,
    };
    let unseen =
        ImageRef { pixels: None, perceptual_hash: None, linked: Some("/pictures/a b.png".to_owned()), ..image.clone() };
    let first = Iteration { images: vec![image, unseen], ..iteration("a fox", 0) };
    let drafts = vec![Draft::Start { title: None, project: None }, Draft::Record(Box::new(first))];
    let id = store.append(batch(Target::New(at(0).day()), 0, "key 1", drafts)).unwrap().head.id;
    let found = Iteration { parent_reason: Some("its init image".to_owned()), ..iteration("a red fox", 1) };
    let reason = "nearly the same picture".to_owned();
    let likely = LikelyParent { reference: id.iteration(0), reason };
    let perhaps = Iteration { likely_parent: Some(likely), ..iteration("a blue fox", 2) };
    for (millis, next) in [(1, found), (2, perhaps)] {
        let drafts = vec![Draft::Record(Box::new(next))];
        store.append(batch(Target::Existing(id), millis, &format!("key {}", millis + 1), drafts)).unwrap();
    }
}

/// Creates a history with everything that version 3 of a recorded event added.
fn history_with_lora_keys(store: &Store) {
    let fur = Lora::new("fur", 0.8).with("clipWeight", 0.5).with("hash", "1f2e");
    let mut first = iteration("a fox", 0);
    first.recipe.loras = vec![fur, Lora::new("plain", 1.0)];
    let mut long = first.clone();
    long.recipe.loras = vec![Lora::new("noted", 1.0).with("note", "n".repeat(5000))];
    long.parent_reason = Some("its init image".to_owned());
    let drafts = vec![Draft::Start { title: None, project: None }, Draft::Record(Box::new(first))];
    let id = store.append(batch(Target::New(at(0).day()), 0, "key 1", drafts)).unwrap().head.id;
    store.append(batch(Target::Existing(id), 1, "key 2", vec![Draft::Record(Box::new(long))])).unwrap();
}

/// Creates a history with what version 2 of an annotated event added: a removed rating.
fn history_with_a_removed_rating(store: &Store) {
    let drafts = vec![Draft::Start { title: None, project: None }, Draft::Record(Box::new(iteration("a fox", 0)))];
    let id = store.append(batch(Target::New(at(0).day()), 0, "key 1", drafts)).unwrap().head.id;
    for (millis, rating) in [(1, 4), (2, AnnotationChange::NO_RATING)] {
        let change = AnnotationChange { rating: Some(rating), ..AnnotationChange::default() };
        let drafts = vec![Draft::Annotate { index: 0, change }];
        store.append(batch(Target::Existing(id), millis, &format!("key {}", millis + 1), drafts)).unwrap();
    }
}

/// Returns a record of a kind that does not exist yet, following `last`.
fn from_the_future(last: &[u8]) -> Vec<u8> {
    let mut record = last[..72].to_vec();
    record[6..8].copy_from_slice(&999u16.to_le_bytes());
    record[8..10].copy_from_slice(&3u16.to_le_bytes());
    record[12..16].copy_from_slice(&6u32.to_le_bytes());
    let seq = u32::from_le_bytes(last[24..28].try_into().unwrap()) + 1;
    record[24..28].copy_from_slice(&seq.to_le_bytes());
    record[36..68].copy_from_slice(&last[last.len() - 32..]);
    let crc = crc32fast::hash(&record[..68]);
    record[68..72].copy_from_slice(&crc.to_le_bytes());
    record.extend_from_slice(b"future");
    let hash = Hash::of(&record);
    record.extend_from_slice(&hash.0);
    record
}

/// Describes everything in the store independently of its types: this must never read differently.
fn reported(store: &Store) -> Value {
    let mut sessions = Vec::new();
    for id in store.ids(None, 100).unwrap() {
        let events = store.events(id, Detail::Full).unwrap();
        let events: Vec<Value> = events
            .iter()
            .map(|event| {
                let data = match &event.body {
                    EventBody::Recorded { index, iteration } => {
                        let mut reported = serde_json::to_value(iteration).unwrap();
                        reported["index"] = json!(index);
                        reported
                    }
                    body => json!(format!("{body:?}")),
                };
                json!({
                    "seq": event.seq, "kind": event.body.kind(), "at": event.at, "actor": event.actor,
                    "key": event.key, "data": data, "prev": event.prev, "hash": event.hash,
                })
            })
            .collect();
        let row = store.head(id).unwrap().unwrap().summary().unwrap();
        let row =
            format!("{} {} {} {:?} {:?}", row.id, row.iteration_count(), row.last_modified_at, row.title, row.project);
        sessions.push(json!({"row": row, "events": events}));
    }
    json!(sessions)
}

#[test]
fn format_1_is_still_read() {
    reads_as_it_always_did("format-1", history);
}

#[test]
fn recorded_2_is_still_read() {
    reads_as_it_always_did("recorded-2", history_with_looks);
}

#[test]
fn recorded_3_is_still_read() {
    reads_as_it_always_did("recorded-3", history_with_lora_keys);
}

#[test]
fn annotated_2_is_still_read() {
    reads_as_it_always_did("annotated-2", history_with_a_removed_rating);
}

fn reads_as_it_always_did(name: &str, history: fn(&Store)) {
    let home = tempfile::tempdir().unwrap();
    let frozen = frozen(name);
    let expected = frozen.join("contents.json");
    if std::env::var("RETAKE_BLESS").is_ok_and(|blessed| blessed == name) {
        let store = open(home.path());
        history(&store);
        let text = serde_json::to_string_pretty(&reported(&store)).unwrap();
        store.close().unwrap();
        let segment = fs::read(home.path().join("journal/00000001.log")).unwrap();
        let end = segment.iter().rposition(|byte| *byte != 0).unwrap() + 1;
        fs::create_dir_all(frozen.join("journal")).unwrap();
        fs::write(frozen.join("journal/00000001.log"), &segment[..end]).unwrap();
        fs::write(&expected, text + "\n").unwrap();
    }
    let expected: Value = serde_json::from_str(&fs::read_to_string(expected).unwrap()).unwrap();
    let workspace = home.path().join("frozen");
    copy(&frozen.join("journal"), &workspace.join("journal"));
    let store = open(&workspace);
    assert_eq!(reported(&store), expected);
    assert_eq!(store.verify(None).unwrap().problems, Vec::<String>::new());
    store.close().unwrap();

    // Data written today is byte for byte the same.
    let today = open(&home.path().join("today"));
    history(&today);
    assert_eq!(reported(&today), expected);
}

#[test]
fn an_event_of_a_newer_version_is_kept_and_skipped() {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path());
    history(&store);
    let id = store.ids(None, 1).unwrap()[0];
    let events = store.events(id, Detail::Full).unwrap();
    assert_eq!(events.last().unwrap().body, EventBody::Unknown { kind: 999, version: 3 });
    assert_eq!(store.trail(id).unwrap().faults, []);
    let before = store.head(id).unwrap().unwrap().summary();
    let ack = store.append(record(id, "afterwards", 9, "key 8")).unwrap();
    assert_eq!(ack.index, Some(2), "the session continues after it");
    let bytes = store.records(id).unwrap();
    assert!(bytes[bytes.len() - 2].windows(6).any(|window| window == b"future"), "its bytes are kept");
    store.close().unwrap();
    fs::remove_dir_all(home.path().join("db")).unwrap();
    let store = open(home.path());
    assert_eq!(store.records(id).unwrap(), bytes, "also through a rebuild");
    assert_eq!(store.head(id).unwrap().unwrap().summary().unwrap().created_at, before.unwrap().created_at);
}

#[test]
fn a_newer_format_is_refused_and_left_unchanged() {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path());
    history(&store);
    store.close().unwrap();
    let toml = home.path().join("retake.toml");
    let whole = fs::read_to_string(&toml).unwrap().replace("format = 1", "format = 2");
    for newer in [whole.as_str(), "format = 2\n"] {
        fs::write(&toml, newer).unwrap();
        let Err(error) = Store::open(home.path(), options()) else { panic!("a newer format was opened") };
        assert!(error.to_string().contains("format 2"), "{error}");
        assert_eq!(fs::read_to_string(&toml).unwrap(), newer);
    }
    assert!(!home.path().join("quarantine").exists());
}

/// A whole workspace as version 0.1 left it, sled and all, is upgraded on open without loss and without a report.
#[test]
fn a_workspace_of_version_0_1_is_upgraded() {
    let home = tempfile::tempdir().unwrap();
    for part in ["journal", "db", "texts"] {
        copy(&frozen("workspace-0.1").join(part), &home.path().join(part));
    }
    fs::copy(frozen("workspace-0.1/retake.toml"), home.path().join("retake.toml")).unwrap();
    let listing: Value = serde_json::from_slice(&fs::read(frozen("workspace-0.1/listing.json")).unwrap()).unwrap();
    for _ in 0..2 {
        let store = open(home.path());
        assert_eq!(store.recoveries().unwrap().len(), 0, "an upgrade is not a recovery");
        assert_eq!(store.verify(None).unwrap().problems, Vec::<String>::new());
        let rows = store.page(Status::All, Order::Recent, None, 100).unwrap();
        assert_eq!(rows.len(), 24);
        for (row, expected) in rows.iter().zip(listing["sessions"].as_array().unwrap()) {
            assert_eq!(json!(row.id), expected["id"]);
            assert_eq!(json!(row.last_modified_at), expected["lastModifiedAt"]);
            assert_eq!(json!(row.iteration_count()), expected["iterationCount"]);
            assert_eq!(json!(row.title), expected["title"]);
            assert_eq!(json!(row.archived), *expected.get("archived").unwrap_or(&json!(false)));
        }
        assert_eq!(store.totals().unwrap().events, 92);
        let id = "session-2025-12-10-001".parse().unwrap();
        let session = Session::fold(store.events(id, Detail::Full).unwrap()).unwrap();
        assert_eq!(session.iterations.len(), 41);
        store.close().unwrap();
    }
    assert!(!home.path().join("quarantine").read_dir().is_ok_and(|mut dir| dir.next().is_some()));
    // Work continues: the keys used then are known.
    let store = open(home.path());
    let id = "session-2025-12-10-001".parse().unwrap();
    let key = store.events(id, Detail::Full).unwrap().last().unwrap().key.clone();
    assert!(store.append(record(id, "again", 0, &key)).unwrap().repeated);
    assert_eq!(store.append(record(id, "new", 0, "a new key")).unwrap().index, Some(41));
}
