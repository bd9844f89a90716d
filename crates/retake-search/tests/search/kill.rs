//! Processes that are killed at a random moment while they record, annotate and maintain their index in the background.
//! The next one must find what a scan finds, whatever state segments, manifest and merges were left in.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use retake_log::model::{AnnotationChange, Draft, Query};
use retake_log::store::Target;
use retake_search::{Index, Question};
use retake_testutils::{at, batch, iteration, open};

use super::{SIZES, Subject, words};

#[test]
fn a_kill_at_any_time_leaves_a_correct_index() {
    const KEEPS: &str = "RETAKE_TEST_KEEPS_INDEX_OF";
    if let Some(dir) = std::env::var_os(KEEPS) {
        keep_until_killed(Path::new(&dir));
    }
    let home = tempfile::tempdir().unwrap();
    let everything = Query::everything();
    let now = at(0);
    let queries = ["glass", "\"glass bridge\"", "bri*", "-fog rating:>=3", "has:note OR has:tag"];
    for round in 0..40 {
        let mut keeper = Command::new(std::env::current_exe().unwrap());
        keeper.args(["--exact", "kill::a_kill_at_any_time_leaves_a_correct_index", "--nocapture"]);
        let mut keeper = keeper.env(KEEPS, home.path()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(keeper.stdout.take().unwrap()).lines();
        let steps = lines.map_while(Result::ok).filter(|line| line == "kept").take(3 + round % 17).count();
        keeper.kill().unwrap();
        keeper.wait().unwrap();
        assert_eq!(steps, 3 + round % 17, "the process ended before it was killed");
        let subject = Subject::open(home.path());
        subject.ask(&everything, 0xF4);
        for query in queries {
            subject.ask(&Query::parse(query, now).unwrap(), 0xF4);
        }
    }
    let kept = fs::read_dir(home.path().join("cache/search")).unwrap().count();
    assert!(kept > 1, "no segments were written");
}

/// Records and annotates while a second thread maintains the index and a third one searches.
#[expect(clippy::print_stdout, reason = "the parent process counts its lines")]
fn keep_until_killed(dir: &Path) -> ! {
    let store = open(dir);
    let index = Index::new(dir, SIZES);
    let run = std::process::id();
    let append = |millis: i64, target, key: String, drafts| {
        let ack = store.append(batch(target, millis, &key, drafts)).unwrap();
        index.note();
        ack.head.id
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            loop {
                index.tend(&store);
            }
        });
        scope.spawn(|| {
            let question = Question { facets: true, ..Question::new(Query::everything(), 5) };
            loop {
                index.search(&store, &question, None).unwrap();
            }
        });
        for count in 0i64.. {
            let which = |shift: i64| u8::try_from((count + shift) % 12).unwrap();
            let first = Draft::Record(Box::new(iteration(&words(&[which(0), which(2), which(5)]), count)));
            let started = Draft::Start { title: Some(words(&[which(3)])), project: None };
            let id = append(count, Target::New(at(0).day()), format!("{run} {count} a"), vec![started, first]);
            let next = Draft::Record(Box::new(iteration(&words(&[which(7), which(8)]), count)));
            append(count, Target::Existing(id), format!("{run} {count} b"), vec![next]);
            for index in [0, 1] {
                let change = AnnotationChange {
                    rating: Some(which(0) % 5 + 1),
                    tags: None,
                    note: (count % 2 == 0).then(|| words(&[which(4)])),
                };
                let drafts = vec![Draft::Annotate { index, change }];
                append(count, Target::Existing(id), format!("{run} {count} {index}"), drafts);
            }
            println!("\nkept");
        }
    });
    unreachable!("it runs until it is killed")
}
