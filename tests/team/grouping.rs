//! Appends that wait at the same time are committed together, without affecting each other.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use libtest_mimic::Trial;
use retake_log::model::{Refusal, SessionId};
use retake_log::store::Batch;
use retake_team::{Error, PgLog};
use retake_testutils::{record, start};

use super::carrier::{Carrier, contents};
use super::postgres_trial;
use super::servers::{Postgres, open, wait_until};

const WRITERS: usize = 20;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        postgres_trial("grouping::creates_that_wait_together_share_a_commit", creates_share_commits),
        postgres_trial("grouping::iterations_that_wait_together_share_a_commit", iterations_share_commits),
        postgres_trial("grouping::one_key_in_one_group_is_one_write", one_key),
        postgres_trial("grouping::a_locked_session_holds_up_its_own_writers_only", locked_session),
        postgres_trial("grouping::a_refused_batch_costs_no_other", refused_batches),
        postgres_trial("grouping::batches_for_one_session_build_on_each_other", one_session),
    ]
}

fn schema_of(url: &str) -> String {
    url.rsplit('=').next().unwrap().to_owned()
}

/// Appends each batch on its own thread while the day's counter is locked, and returns the results.
fn append_behind_a_lock(server: &Postgres, url: &str, log: &Arc<PgLog>, batches: Vec<Batch>) -> Vec<(SessionId, bool)> {
    let day = retake_testutils::at(0).day().signed_duration_since("0001-01-01".parse().unwrap()).num_days() + 1;
    let holder = server.hold(&format!("BEGIN; SELECT {}.lock_day({day})", schema_of(url)));
    let (begun, count) = (Arc::new(AtomicUsize::new(0)), batches.len());
    let threads: Vec<_> = batches
        .into_iter()
        .map(|batch| {
            let (log, begun) = (Arc::clone(log), Arc::clone(&begun));
            std::thread::spawn(move || {
                begun.fetch_add(1, Ordering::AcqRel);
                let ack = log.append(batch).unwrap();
                (ack.head.id, ack.repeated)
            })
        })
        .collect();
    wait_until("all writers have begun", || begun.load(Ordering::Acquire) == count);
    drop(holder);
    threads.into_iter().map(|thread| thread.join().unwrap()).collect()
}

fn creates_share_commits() {
    let server = Postgres::shared();
    let url = server.workspace();
    let log = Arc::new(open(&url));
    log.append(start("first", 0, "first")).unwrap();
    let batches = (0..WRITERS).map(|n| start("a", 0, &format!("{n}"))).collect();
    let answers = append_behind_a_lock(server, &url, &log, batches);
    let ids: BTreeSet<u32> = answers.iter().map(|(id, _)| id.number().get()).collect();
    assert_eq!(ids, (2..=u32::try_from(WRITERS).unwrap() + 1).collect(), "gap-free, one for each");
    let commits = format!("SELECT count(DISTINCT xmin::text) FROM {}.heads WHERE number > 1", schema_of(&url));
    let commits: usize = server.sql(&commits).unwrap().parse().unwrap();
    assert!(commits <= WRITERS / 2, "{commits} commits for {WRITERS} new sessions");
    assert_eq!(Carrier::problems(&*log), Vec::<String>::new());
}

fn iterations_share_commits() {
    let server = Postgres::shared();
    let url = server.workspace();
    let log = Arc::new(open(&url));
    let ids: Vec<SessionId> =
        (0..=WRITERS).map(|n| log.append(start("a", 0, &format!("{n}"))).unwrap().head.id).collect();
    let schema = schema_of(&url);
    let holder = server.hold(&format!("BEGIN; SELECT 1 FROM {schema}.heads WHERE number = 1 FOR UPDATE"));
    let write = |id: SessionId| {
        let log = Arc::clone(&log);
        std::thread::spawn(move || {
            log.append(record(id, "b", 1, &format!("{id} b"))).unwrap();
        })
    };
    let blocked = write(ids[0]);
    let waits =
        format!("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%{schema}.%'");
    wait_until("the first writer waits for its session", || server.sql(&waits).unwrap() != "0");
    let others: Vec<_> = ids[1..].iter().map(|id| write(*id)).collect();
    others.into_iter().for_each(|thread| thread.join().unwrap());
    let commits = format!("SELECT count(DISTINCT xmin::text) FROM {schema}.heads WHERE number > 1");
    let commits: usize = server.sql(&commits).unwrap().parse().unwrap();
    assert!(commits <= WRITERS / 2, "{commits} commits for {WRITERS} iterations");
    drop(holder);
    blocked.join().unwrap();
    assert!(ids.iter().all(|id| log.head(*id).unwrap().unwrap().last_index == Some(1)));
    assert_eq!(Carrier::problems(&*log), Vec::<String>::new());
}

fn one_key() {
    let server = Postgres::shared();
    let url = server.workspace();
    let log = Arc::new(open(&url));
    let batches = (0..WRITERS).map(|_| start("a", 0, "the same")).collect();
    let answers = append_behind_a_lock(server, &url, &log, batches);
    assert_eq!(answers.iter().filter(|(_, repeated)| !repeated).count(), 1);
    assert!(answers.iter().all(|(id, _)| *id == answers[0].0));
    assert_eq!(log.totals().unwrap().sessions, 1);
}

fn locked_session() {
    let server = Postgres::shared();
    let url = server.workspace();
    let log = Arc::new(open(&url));
    let ids: Vec<SessionId> = (0..6).map(|n| log.append(start("a", 0, &format!("{n}"))).unwrap().head.id).collect();
    let holder = server.hold(&format!("BEGIN; SELECT 1 FROM {}.heads WHERE number = 1 FOR UPDATE", schema_of(&url)));
    let write = |id: SessionId| {
        let log = Arc::clone(&log);
        std::thread::spawn(move || {
            for n in 0..20 {
                log.append(record(id, "b", n, &format!("{id} {n}"))).unwrap();
            }
        })
    };
    let mut threads: Vec<_> = ids.iter().map(|id| write(*id)).collect();
    let blocked = threads.remove(0);
    // They finish while the first session is still locked.
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(log.head(ids[0]).unwrap().unwrap().last_index, Some(0));
    drop(holder);
    blocked.join().unwrap();
    assert!(ids.iter().all(|id| log.head(*id).unwrap().unwrap().last_index == Some(20)));
}

fn refused_batches() {
    let log = Arc::new(open(&Postgres::shared().workspace()));
    let shared = log.append(start("shared", 0, "shared")).unwrap().head.id;
    let threads: Vec<_> = (0..8)
        .map(|thread| {
            let log = Arc::clone(&log);
            std::thread::spawn(move || {
                let id = log.append(start("a", 0, &format!("{thread}"))).unwrap().head.id;
                for n in 0..30u32 {
                    let own = record(id, "b", 1, &format!("{thread} {n}"));
                    log.append(Batch { expected_iterations: Some(n + 1), ..own }).unwrap();
                    let wrong = record(shared, "c", 1, &format!("{thread} {n} wrong"));
                    let refused = log.append(Batch { expected_iterations: Some(9999), ..wrong }).unwrap_err();
                    assert!(matches!(refused, Error::Refused(Refusal::Count { .. })), "{refused:?}");
                    let again = log.append(record(id, "b", 1, &format!("{thread} {n}"))).unwrap();
                    assert!(again.repeated);
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(log.head(shared).unwrap().unwrap().last_index, Some(0));
    assert_eq!(log.totals().unwrap().events, 2 + 8 * (2 + 30));
    assert_eq!(Carrier::problems(&*log), Vec::<String>::new());
}

fn one_session() {
    let log = Arc::new(open(&Postgres::shared().workspace()));
    let id = log.append(start("a", 0, "a")).unwrap().head.id;
    let threads: Vec<_> = (0..WRITERS)
        .map(|thread| {
            let log = Arc::clone(&log);
            std::thread::spawn(move || {
                let append = |n| log.append(record(id, "b", 1, &format!("{thread} {n}"))).unwrap().index.unwrap();
                (0..10).map(append).collect::<Vec<u32>>()
            })
        })
        .collect();
    let indexes: Vec<Vec<u32>> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    assert!(indexes.iter().all(|own| own.is_sorted()), "each writer's batches keep their order");
    let all: BTreeSet<u32> = indexes.into_iter().flatten().collect();
    assert_eq!(all, (1..=u32::try_from(WRITERS).unwrap() * 10).collect());
    let events = contents(&*log).sessions[0].1.len();
    assert_eq!(events, 2 + WRITERS * 10);
    assert_eq!(Carrier::problems(&*log), Vec::<String>::new());
}
