//! Random commands against both carriers at once: every result and every stored byte must be the same.

use libtest_mimic::Trial;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use retake_log::model::{Draft, SessionId};
use retake_log::store::Batch;
use retake_testutils::{archive, rate, record, restore, start};

use super::carrier::{Carrier, all_ids, contents};
use super::postgres_trial;
use super::servers::{Postgres, open};

#[derive(Clone, Debug)]
enum Command {
    Start {
        at: i64,
    },
    Record {
        session: usize,
        at: i64,
        long: bool,
    },
    Branch {
        session: usize,
        from: usize,
        at: i64,
    },
    Rate {
        session: usize,
        index: u32,
        at: i64,
    },
    Archive {
        session: usize,
    },
    Restore {
        session: usize,
    },
    Expect {
        session: usize,
        count: u32,
    },
    Repeat {
        command: usize,
    },
    /// Clears what the client remembers about sessions.
    Reopen,
    /// Another machine writes with its own connection and remembered state.
    Elsewhere {
        session: usize,
    },
}

fn command() -> impl Strategy<Value = Command> {
    let at = -100_000_000i64..100_000_000;
    let some = 0usize..1000;
    prop_oneof![
        4 => at.clone().prop_map(|at| Command::Start { at }),
        8 => (some.clone(), at.clone(), prop::bool::weighted(0.1))
            .prop_map(|(session, at, long)| Command::Record { session, at, long }),
        2 => (some.clone(), some.clone(), at.clone())
            .prop_map(|(session, from, at)| Command::Branch { session, from, at }),
        4 => (some.clone(), 0u32..4, at).prop_map(|(session, index, at)| Command::Rate { session, index, at }),
        2 => some.clone().prop_map(|session| Command::Archive { session }),
        2 => some.clone().prop_map(|session| Command::Restore { session }),
        2 => (some.clone(), 0u32..4).prop_map(|(session, count)| Command::Expect { session, count }),
        2 => some.clone().prop_map(|command| Command::Repeat { command }),
        1 => Just(Command::Reopen),
        3 => some.prop_map(|session| Command::Elsewhere { session }),
    ]
}

pub(crate) fn trials() -> Vec<Trial> {
    vec![postgres_trial("model::both_carriers_answer_and_store_the_same", || {
        let config = Config { cases: 24, max_shrink_iters: 100, failure_persistence: None, ..Config::default() };
        TestRunner::new(config)
            .run(&prop::collection::vec(command(), 1..100), |commands| {
                compare(&commands);
                Ok(())
            })
            .unwrap();
    })]
}

fn compare(commands: &[Command]) {
    let dir = tempfile::tempdir().unwrap();
    let local = retake_testutils::open(dir.path());
    let url = Postgres::shared().workspace();
    let mut team = open(&url);
    let other_machine = open(&url);
    let mut sent: Vec<Batch> = Vec::new();
    for (step, command) in commands.iter().enumerate() {
        let ids = all_ids(&local);
        let pick = |session: usize| -> Option<SessionId> { ids.get(session.checked_rem(ids.len())?).copied() };
        let key = format!("step {step}");
        let mut elsewhere = false;
        let batch = match command {
            Command::Start { at } => Some(start(&format!("start {step}"), *at, &key)),
            Command::Record { session, at, long } => pick(*session).map(|id| {
                let prompt = if *long { format!("{step} ").repeat(3000) } else { format!("record {step}") };
                record(id, &prompt, *at, &key)
            }),
            Command::Branch { session, from, at } => pick(*session).zip(pick(*from)).map(|(id, from)| {
                let mut batch = record(id, "branch", *at, &key);
                let Draft::Record(iteration) = &mut batch.drafts[0] else { unreachable!() };
                iteration.parent = Some(from.iteration(0));
                batch
            }),
            Command::Rate { session, index, at } => pick(*session).map(|id| rate(id, *index, 4, *at, &key)),
            Command::Archive { session } => pick(*session).map(|id| archive(id, 0, &key)),
            Command::Restore { session } => pick(*session).map(|id| restore(id, 0, &key)),
            Command::Expect { session, count } => pick(*session).map(|id| {
                let mut batch = record(id, "expected", 0, &key);
                batch.expected_iterations = Some(*count);
                batch
            }),
            Command::Repeat { command } => sent.get(command.checked_rem(sent.len()).unwrap_or(0)).cloned(),
            Command::Reopen => {
                team = open(&url);
                None
            }
            Command::Elsewhere { session } => {
                elsewhere = true;
                Some(pick(*session).map_or_else(|| start("elsewhere", 0, &key), |id| record(id, "elsewhere", 0, &key)))
            }
        };
        let Some(batch) = batch else { continue };
        let answer = Carrier::append(&local, batch.clone());
        let carrier = if elsewhere { &other_machine } else { &team };
        let team_answer = Carrier::append(carrier, batch.clone());
        assert_eq!(format!("{answer:?}"), format!("{team_answer:?}"), "{command:?}");
        sent.push(batch);
    }
    assert_eq!(contents(&local), contents(&team));
    for id in all_ids(&local) {
        assert_eq!(Carrier::records(&local, id).unwrap(), Carrier::records(&team, id).unwrap());
        for index in 0..=local.head(id).unwrap().unwrap().last_index.unwrap() {
            let children = |log: &dyn Carrier| log.children(id.iteration(index)).unwrap();
            assert_eq!(children(&local), children(&team));
        }
    }
    assert_eq!(Carrier::problems(&team), Vec::<String>::new());
}
