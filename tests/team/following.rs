//! Followers see every event once and in order, whatever happens in between.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use retake_log::model::{Event, SessionId};
use retake_team::Cursor;
use retake_testutils::{record, start};

use super::postgres_trial;
use super::proxy::{Mode, Proxy};
use super::servers::{Postgres, config, open};

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        postgres_trial("following::another_machine_is_heard_within_a_second", within_a_second),
        postgres_trial("following::concurrent_commits_are_neither_missed_nor_repeated", concurrent),
        postgres_trial("following::a_commit_that_comes_late_is_not_missed", late_commit),
        postgres_trial("following::a_cut_connection_catches_up_without_gaps_or_repeats", cut),
    ]
}

/// Receives this many events; fails if they do not arrive.
fn take(follower: &Receiver<Arc<Event>>, count: usize) -> Vec<(SessionId, u32)> {
    (0..count)
        .map(|n| {
            let event = follower.recv_timeout(Duration::from_secs(30)).unwrap_or_else(|_| panic!("{n} of {count}"));
            (event.session, event.seq)
        })
        .collect()
}

fn assert_in_order_once(events: &[(SessionId, u32)]) {
    let mut next: BTreeMap<SessionId, u32> = BTreeMap::new();
    for (session, seq) in events {
        let expected = next.entry(*session).or_insert(0);
        assert_eq!(seq, expected, "{session}");
        *expected += 1;
    }
}

fn within_a_second() {
    let url = Postgres::shared().workspace();
    let (here, there) = (open(&url), open(&url));
    there.append(start("before", 0, "before")).unwrap();
    let follower = here.follow().unwrap();
    let mut slowest = Duration::ZERO;
    for n in 0..10 {
        let ack = there.append(start("a", n, &format!("{n}"))).unwrap();
        let sent = Instant::now();
        assert_eq!(take(&follower, 2), [(ack.head.id, 0), (ack.head.id, 1)]);
        slowest = slowest.max(sent.elapsed());
    }
    eprintln!("heard after at most {slowest:?}");
    assert!(follower.try_recv().is_err());
}

fn concurrent() {
    let url = Postgres::shared().workspace();
    let log = Arc::new(open(&url));
    let follower = log.follow().unwrap();
    let shared = log.append(start("shared", 0, "shared")).unwrap().head.id;
    let threads: Vec<_> = (0..8)
        .map(|thread| {
            let log = Arc::clone(&log);
            std::thread::spawn(move || {
                for n in 0..40 {
                    let id = log.append(start("own", n, &format!("{thread} {n}"))).unwrap().head.id;
                    log.append(record(id, "more", n, &format!("{thread} {n} more"))).unwrap();
                    log.append(record(shared, "more", n, &format!("{thread} {n} shared"))).unwrap();
                }
            })
        })
        .collect();
    let expected = 2 + 8 * 40 * 4;
    let events = take(&follower, expected);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_in_order_once(&events);
    assert!(follower.recv_timeout(Duration::from_millis(1200)).is_err(), "nothing is delivered twice");
    // The same by cursor, from the beginning.
    let mut cursor = Cursor::START;
    let mut events = Vec::new();
    loop {
        let (more, next, complete) = log.since(cursor).unwrap();
        events.extend(more.iter().map(|event| (event.session, event.seq)));
        cursor = next;
        if complete {
            break;
        }
    }
    assert_in_order_once(&events);
    assert_eq!(events.len(), expected);
}

/// A transaction gets its position early and commits late, after others that got theirs later.
fn late_commit() {
    let server = Postgres::shared();
    let url = server.workspace();
    let schema = url.rsplit('=').next().unwrap().to_owned();
    let log = open(&url);
    let first = log.append(start("first", 0, "first")).unwrap().head;
    let follower = log.follow().unwrap();
    // Holds an early transaction id open while others commit, then appends with it.
    let sent = record(first.id, "late", 1, "late");
    let encoded = retake_log::store::carrier::encode_batch(first.clone(), &sent).unwrap();
    let bytes: String = encoded.records[0].bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let day = retake_testutils::at(0).day().signed_duration_since("0001-01-01".parse().unwrap()).num_days() + 1;
    let script = format!(
        "BEGIN; SELECT pg_current_xact_id(); SELECT pg_advisory_lock(4711); SELECT (r).outcome FROM {schema}.append({day}, \
         1, false, NULL, ARRAY['\\x{bytes}'::bytea], ARRAY[1], ARRAY[0::bigint], ARRAY[NULL::bytea], \
         ARRAY[NULL::bytea], '\\x00112233445566778899aabbccddeeff'::bytea, 2, 1, NULL, NULL, NULL) r; COMMIT"
    );
    let gate = std::process::Command::new("/usr/lib/postgresql/15/bin/psql")
        .args(["-X", "-q", "-h", "127.0.0.1", "-p", &server.port.to_string(), "-U", "postgres", "-d", "postgres"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::null())
        .spawn();
    let mut gate = gate.unwrap();
    use std::io::Write;
    gate.stdin.as_mut().unwrap().write_all(b"SELECT pg_advisory_lock(4711);\n").unwrap();
    super::servers::wait_until("the gate is closed", || {
        server.sql("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted").unwrap() != "0"
    });
    std::thread::scope(|scope| {
        let late = scope.spawn(|| server.sql(&script).unwrap());
        super::servers::wait_until("the early transaction waits", || {
            server.sql("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted").unwrap() == "1"
        });
        let second = log.append(start("second", 0, "second")).unwrap().head.id;
        // Later ones are received although an earlier transaction is still running.
        assert_eq!(take(&follower, 2), [(second, 0), (second, 1)]);
        gate.stdin.take();
        gate.wait().unwrap();
        assert!(late.join().unwrap().contains("appended"));
        assert_eq!(take(&follower, 1), [(first.id, 2)]);
        // A later append to the same session comes after it, and nothing comes twice.
        let again = open(&url).append(record(first.id, "after", 2, "after")).unwrap().head;
        assert_eq!(take(&follower, 1), [(first.id, again.next_seq - 1)]);
    });
    assert!(follower.recv_timeout(Duration::from_millis(1200)).is_err());
}

fn cut() {
    let server = Postgres::shared();
    let url = server.workspace();
    let proxy = Proxy::to(server.port);
    let through = url.replace(&format!(":{}", server.port), &format!(":{}", proxy.port));
    let mut config = config(&through);
    config.attempt_timeout = Duration::from_secs(1);
    let follower_log = retake_team::PgLog::open(config).unwrap();
    let writer = open(&url);
    let follower = follower_log.follow().unwrap();
    let mut sent = 0;
    for round in 0..6 {
        for n in 0..20 {
            let id = writer.append(start("a", n, &format!("{round} {n}"))).unwrap().head.id;
            writer.append(record(id, "b", n, &format!("{round} {n} b"))).unwrap();
            sent += 3;
            match (round, n) {
                (1 | 3, 5) => proxy.set(Mode::Cut),
                (2, 5) => proxy.set(Mode::Blackhole),
                (4, 5) => proxy.set(Mode::LoseAnswers),
                _ => {}
            }
        }
        proxy.set(Mode::Pass);
        proxy.close_all();
    }
    let events = take(&follower, sent);
    assert_in_order_once(&events);
    assert!(follower.recv_timeout(Duration::from_millis(1200)).is_err());
}
