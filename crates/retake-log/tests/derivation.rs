//! Derivation: live appends, catching up and rebuilding have the same result, for batches of any shape.
#![expect(clippy::indexing_slicing, clippy::unwrap_used, reason = "a test may stop anywhere")]

use std::fs;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use retake_log::model::{AnnotationChange, Draft, SessionId};
use retake_log::store::{Batch, Store, Target};
use retake_testutils::*;

/// Generates a batch of any shape: several recordings, annotations between them, links to other sessions, empty keys.
fn any_batch(rng: &mut StdRng, number: i64, sessions: &[SessionId]) -> Batch {
    let key = if rng.random_bool(0.15) { String::new() } else { format!("key {number}") };
    let mut drafts = Vec::new();
    let target = if sessions.is_empty() || rng.random_bool(0.3) {
        drafts.push(Draft::Start { title: rng.random_bool(0.5).then(|| format!("t{number}")), project: None });
        drafts.push(Draft::Record(Box::new(iteration("first", number))));
        Target::New(at(number).day())
    } else {
        Target::Existing(sessions[rng.random_range(0..sessions.len())])
    };
    for n in 0..rng.random_range(u32::from(drafts.is_empty())..4) {
        drafts.push(match rng.random_range(0..5) {
            0 => Draft::Annotate {
                index: 0,
                change: AnnotationChange { rating: Some(3), ..AnnotationChange::default() },
            },
            1 => Draft::Title { title: Some(format!("title {number} {n}")), project: None },
            2 if !sessions.is_empty() => {
                let mut linked = iteration("linked", number);
                linked.parent = Some(sessions[rng.random_range(0..sessions.len())].iteration(0));
                Draft::BringIn(Box::new(linked))
            }
            _ => Draft::Record(Box::new(iteration(&format!("take {n}"), number + i64::from(n)))),
        });
    }
    batch(target, number, &key, drafts)
}

/// Returns everything that can be queried of the derived data.
fn derived(store: &Store, batches: &[Batch]) -> (Contents, Vec<String>) {
    let mut answers = Vec::new();
    for batch in batches.iter().filter(|batch| !batch.key.is_empty()) {
        let ack = store.append(batch.clone()).unwrap();
        assert!(ack.repeated, "{:?} is known", batch.key);
        answers.push(format!("{} {} {:?}", batch.key, ack.head.id, ack.index));
    }
    for id in store.ids(None, 1000).unwrap() {
        answers.push(format!("{id}: {:?}", store.children(id.iteration(0)).unwrap()));
    }
    assert_eq!(store.verify(None).unwrap().problems, Vec::<String>::new());
    (contents(store), answers)
}

#[test]
fn live_appends_catching_up_and_rebuilding_agree() {
    for seed in 0..24 {
        let home = tempfile::tempdir().unwrap();
        let live = home.path().join("live");
        let mut rng = StdRng::seed_from_u64(seed);
        let store = open(&live);
        let (mut batches, mut sessions) = (Vec::new(), Vec::new());
        for number in 0..40 {
            let batch = any_batch(&mut rng, number, &sessions);
            let ack = store.append(batch.clone()).unwrap();
            if !sessions.contains(&ack.head.id) {
                sessions.push(ack.head.id);
            }
            batches.push(batch);
            if number == 20 {
                // A database that has half of the events must catch up with the rest.
                store.ids(None, 1).unwrap();
                copy(&live, &home.path().join("half"));
            }
        }
        let expected = derived(&store, &batches);
        store.close().unwrap();
        let caught_up = home.path().join("caught-up");
        copy(&live, &caught_up);
        fs::remove_dir_all(caught_up.join("db")).unwrap();
        copy(&home.path().join("half/db"), &caught_up.join("db"));
        fs::remove_file(caught_up.join("journal/mark")).unwrap();
        let rebuilt = home.path().join("rebuilt");
        copy(&live, &rebuilt);
        fs::remove_dir_all(rebuilt.join("db")).unwrap();
        for dir in [live, caught_up, rebuilt] {
            let store = open(&dir);
            assert_eq!(derived(&store, &batches), expected, "seed {seed}, {}", dir.display());
        }
    }
}
