//! The store against a model: random commands, reopening and crashing at any point must have the same result as a plain
//! list in memory.
#![expect(clippy::indexing_slicing, clippy::unwrap_used, reason = "a test may stop anywhere")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use retake_log::model::{AnnotationChange, Draft, EventBody, Refusal, Session, SessionId, Timestamp};
use retake_log::store::{Detail, Error, Options, Order, Status, Store, Target};
use retake_testutils::*;

#[derive(Clone, Debug)]
enum Command {
    Start { at: i64 },
    Record { session: usize, at: i64, long: bool },
    Branch { session: usize, from: usize, at: i64 },
    Annotate { session: usize, index: usize, rating: u8, at: i64 },
    Archive { session: usize },
    Restore { session: usize },
    Stale { session: usize },
    Repeat { command: usize },
    Reopen,
    Crash,
    LoseDatabase,
}

fn command() -> impl Strategy<Value = Command> {
    let at = -100_000_000i64..100_000_000;
    let some = 0usize..1000;
    prop_oneof![
        4 => at.clone().prop_map(|at| Command::Start { at }),
        8 => (some.clone(), at.clone(), prop::bool::weighted(0.1))
            .prop_map(|(session, at, long)| Command::Record { session, at, long }),
        2 => (some.clone(), some.clone(), at.clone()).prop_map(|(session, from, at)| Command::Branch { session, from, at }),
        4 => (some.clone(), some.clone(), 1u8..=5, at)
            .prop_map(|(session, index, rating, at)| Command::Annotate { session, index, rating, at }),
        2 => some.clone().prop_map(|session| Command::Archive { session }),
        2 => some.clone().prop_map(|session| Command::Restore { session }),
        1 => some.clone().prop_map(|session| Command::Stale { session }),
        2 => some.prop_map(|command| Command::Repeat { command }),
        1 => Just(Command::Reopen),
        1 => Just(Command::Crash),
        1 => Just(Command::LoseDatabase),
    ]
}

/// A session in the model.
#[derive(Clone, Debug, Default, PartialEq)]
struct Plain {
    prompts: Vec<String>,
    parents: Vec<Option<String>>,
    ratings: BTreeMap<u32, u8>,
    archived: bool,
    created: i64,
    modified: i64,
}

#[derive(Default)]
struct Model {
    sessions: Vec<(SessionId, Plain)>,
    per_day: BTreeMap<String, u32>,
    /// The batches sent, and the acknowledgements.
    sent: Vec<(retake_log::store::Batch, SessionId, Option<u32>)>,
}

impl Model {
    fn pick(&self, session: usize) -> Option<usize> {
        (!self.sessions.is_empty()).then(|| session % self.sessions.len())
    }

    fn listing(&self) -> Vec<String> {
        let mut rows: Vec<_> = self.sessions.iter().collect();
        rows.sort_by_key(|(id, plain)| std::cmp::Reverse((plain.modified, *id)));
        rows.iter().map(|(id, plain)| format!("{id} {} {}", plain.prompts.len(), at(plain.modified))).collect()
    }
}

/// A store in a directory that can crash.
struct Subject {
    home: PathBuf,
    lives: u32,
    store: Option<Store>,
}

impl Subject {
    fn open(home: &Path) -> Subject {
        let mut subject = Subject { home: home.to_owned(), lives: 0, store: None };
        subject.reopen();
        subject
    }

    fn dir(&self) -> PathBuf {
        self.home.join(self.lives.to_string())
    }

    fn store(&self) -> &Store {
        self.store.as_ref().unwrap()
    }

    fn close(&mut self) {
        if let Some(store) = self.store.take() {
            store.close().unwrap();
        }
    }

    fn reopen(&mut self) {
        self.close();
        let options = Options { segment_bytes: 16 << 10, ..options() };
        self.store = Some(Store::open(&self.dir(), options).unwrap());
    }

    /// Continues with the files as they are at this moment, as after a kill.
    fn crash(&mut self) {
        let from = self.dir();
        self.lives += 1;
        copy(&from, &self.dir());
        let abandoned = self.store.take();
        self.reopen();
        drop(abandoned);
        fs::remove_dir_all(from).unwrap();
    }
}

fn run(model: &mut Model, subject: &mut Subject, step: usize, command: &Command) {
    let key = format!("step {step}");
    let existing = |model: &Model, session: usize| model.pick(session).map(|at| model.sessions[at].0);
    match command {
        Command::Start { at: time } => {
            let prompt = format!("start {step}");
            let sent = start(&prompt, *time, &key);
            let ack = subject.store().append(sent.clone()).unwrap();
            let day = at(*time).day().to_string();
            let number = model.per_day.entry(day.clone()).or_default();
            *number += 1;
            assert_eq!(ack.head.id.to_string(), format!("session-{day}-{number:03}"));
            let plain = Plain {
                prompts: vec![prompt],
                parents: vec![None],
                created: *time,
                modified: *time,
                ..Plain::default()
            };
            model.sessions.push((ack.head.id, plain));
            model.sent.push((sent, ack.head.id, Some(0)));
        }
        Command::Record { session, at: time, long } => {
            let Some(id) = existing(model, *session) else { return };
            let prompt = if *long { format!("{step} ").repeat(3000) } else { format!("record {step}") };
            add(model, subject, *session, record(id, &prompt, *time, &key), &prompt, *time, None);
        }
        Command::Branch { session, from, at: time } => {
            let (Some(id), Some(parent)) = (existing(model, *session), model.pick(*from)) else { return };
            let (parent, plain) = &model.sessions[parent];
            let parent = parent.iteration(u32::try_from(from % plain.prompts.len()).unwrap());
            let prompt = format!("branch {step}");
            let mut sent = record(id, &prompt, *time, &key);
            let Draft::Record(iteration) = &mut sent.drafts[0] else { unreachable!() };
            iteration.parent = Some(parent);
            add(model, subject, *session, sent, &prompt, *time, Some(parent.to_string()));
        }
        Command::Annotate { session, index, rating, at: time } => {
            let Some(at) = model.pick(*session) else { return };
            let (id, plain) = &mut model.sessions[at];
            let index = u32::try_from(index % (plain.prompts.len() + 1)).unwrap();
            let change = AnnotationChange { rating: Some(*rating), ..AnnotationChange::default() };
            let sent = batch(Target::Existing(*id), *time, &key, vec![Draft::Annotate { index, change }]);
            let answer = subject.store().append(sent.clone());
            if index as usize >= plain.prompts.len() {
                assert!(matches!(answer, Err(Error::Refused(Refusal::NoIteration { .. }))), "{answer:?}");
                return;
            }
            answer.unwrap();
            plain.ratings.insert(index, *rating);
            plain.modified = plain.modified.max(*time);
            model.sent.push((sent, model.sessions[at].0, None));
        }
        Command::Archive { session } | Command::Restore { session } => {
            let Some(at) = model.pick(*session) else { return };
            let id = model.sessions[at].0;
            let archived = matches!(command, Command::Archive { .. });
            let sent = if archived { archive(id, 0, &key) } else { restore(id, 0, &key) };
            subject.store().append(sent.clone()).unwrap();
            model.sessions[at].1.archived = archived;
            model.sent.push((sent, id, None));
        }
        Command::Stale { session } => {
            let Some(at) = model.pick(*session) else { return };
            let (id, plain) = &model.sessions[at];
            let mut sent = record(*id, "stale", 0, &key);
            sent.expected_iterations = Some(u32::try_from(plain.prompts.len()).unwrap() + 1);
            let answer = subject.store().append(sent);
            assert!(matches!(answer, Err(Error::Refused(Refusal::Count { .. }))), "{answer:?}");
        }
        Command::Repeat { command } => {
            if model.sent.is_empty() {
                return;
            }
            let (sent, id, index) = &model.sent[command % model.sent.len()];
            let ack = subject.store().append(sent.clone()).unwrap();
            assert_eq!((ack.head.id, ack.index, ack.repeated), (*id, *index, true));
        }
        Command::Reopen => subject.reopen(),
        Command::Crash => subject.crash(),
        Command::LoseDatabase => {
            subject.close();
            fs::remove_dir_all(subject.dir().join("db")).unwrap();
            subject.reopen();
        }
    }
    if matches!(command, Command::Reopen | Command::Crash | Command::LoseDatabase) {
        compare(model, subject.store());
    }
}

fn add(
    model: &mut Model,
    subject: &mut Subject,
    session: usize,
    sent: retake_log::store::Batch,
    prompt: &str,
    time: i64,
    parent: Option<String>,
) {
    let Some(at) = model.pick(session) else { return };
    let (id, plain) = &mut model.sessions[at];
    let answer = subject.store().append(sent.clone());
    if plain.archived {
        assert!(matches!(answer, Err(Error::Refused(Refusal::Archived(_)))), "{answer:?}");
        return;
    }
    let ack = answer.unwrap();
    let index = u32::try_from(plain.prompts.len()).unwrap();
    assert_eq!(ack.index, Some(index));
    plain.parents.push(Some(parent.unwrap_or_else(|| id.iteration(index - 1).to_string())));
    plain.prompts.push(prompt.to_owned());
    plain.modified = plain.modified.max(time);
    model.sent.push((sent, *id, Some(index)));
}

fn compare(model: &Model, store: &Store) {
    assert_eq!(contents(store).listing, model.listing());
    for (status, archived) in [(Status::Active, false), (Status::Archived, true)] {
        let rows = store.page(status, Order::Oldest, None, 10_000).unwrap();
        let expected = model.sessions.iter().filter(|(_, plain)| plain.archived == archived).count();
        assert_eq!(rows.len(), expected);
    }
    for (id, plain) in &model.sessions {
        let events = store.events(*id, Detail::Full).unwrap();
        assert!(!matches!(events.last().unwrap().body, EventBody::Lost(_)));
        let session = Session::fold(events).unwrap();
        let millis = |time: Timestamp| time.millis() - at(0).millis();
        let span = session.head.span.unwrap();
        let found = Plain {
            prompts: session.iterations.values().map(|state| state.iteration.recipe.prompt.clone()).collect(),
            parents: session.iterations.values().map(|state| state.iteration.parent.map(|id| id.to_string())).collect(),
            ratings: session
                .iterations
                .iter()
                .filter_map(|(at, state)| Some((*at, state.annotation.rating?)))
                .collect(),
            archived: session.head.archived,
            created: millis(span.created_at),
            modified: millis(span.last_modified_at),
        };
        assert_eq!(found, *plain, "{id}");
    }
    assert_eq!(store.recoveries().unwrap().len(), 0, "nothing was damaged");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, max_shrink_iters: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_commands_match_the_model(commands in prop::collection::vec(command(), 1..150)) {
        let home = tempfile::tempdir().unwrap();
        let mut model = Model::default();
        let mut subject = Subject::open(home.path());
        for (step, command) in commands.iter().enumerate() {
            run(&mut model, &mut subject, step, command);
        }
        compare(&model, subject.store());
        let problems = subject.store().verify(None).unwrap().problems;
        prop_assert_eq!(problems, Vec::<String>::new());
        subject.close();
    }
}
