//! The network and the server fail while writers are active.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use retake_team::{Error, PgLog};
use retake_testutils::{record, start};

use super::carrier::{Carrier, contents};
use super::postgres_trial;
use super::proxy::{Mode, Proxy};
use super::servers::{Postgres, config, open, wait_until};

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        postgres_trial("faults::an_answer_that_is_lost_is_not_a_second_write", lost_answer),
        postgres_trial("faults::a_network_that_delays_cuts_and_swallows_loses_nothing", bad_network),
        postgres_trial("faults::an_unreachable_server_is_named_after_a_bounded_time", unreachable),
        postgres_trial("faults::a_killed_server_loses_nothing_acknowledged", killed_server),
        postgres_trial("faults::a_suspended_client_delays_others_only_briefly", suspended_client),
        postgres_trial("faults::a_connection_that_a_call_abandons_is_closed_at_once", abandoned_connection),
        postgres_trial("faults::connections_closed_while_idle_are_replaced", idle_connections_closed),
        postgres_trial("faults::a_closed_workspace_lets_go_of_its_connections", closing),
    ]
}

fn through(url: &str, from: u16, to: u16) -> String {
    url.replace(&format!(":{from}"), &format!(":{to}"))
}

/// The request arrives and is committed, but the response is lost.
fn lost_answer() {
    let server = Postgres::shared();
    let url = server.workspace();
    let proxy = Proxy::to(server.port);
    let mut config = config(&through(&url, server.port, proxy.port));
    config.attempt_timeout = Duration::from_secs(1);
    let log = Arc::new(PgLog::open(config).unwrap());
    let direct = open(&url);
    let id = log.append(start("a", 0, "a")).unwrap().head.id;
    log.append(record(id, "b", 1, "b")).unwrap();
    proxy.set(Mode::LoseAnswers);
    let writer = {
        let log = Arc::clone(&log);
        std::thread::spawn(move || log.append(record(id, "c", 2, "c")).unwrap())
    };
    wait_until("it is committed", || direct.head(id).unwrap().unwrap().last_index == Some(2));
    proxy.set(Mode::Pass);
    let ack = writer.join().unwrap();
    assert_eq!((ack.index, ack.head.last_index), (Some(2), Some(2)));
    assert_eq!(direct.records(id).unwrap().len(), 4);
}

fn bad_network() {
    let server = Postgres::shared();
    let url = server.workspace();
    let proxy = Arc::new(Proxy::to(server.port));
    let mut config = config(&through(&url, server.port, proxy.port));
    config.attempt_timeout = Duration::from_secs(1);
    config.call_timeout = Duration::from_secs(60);
    let log = Arc::new(PgLog::open(config).unwrap());
    let done = Arc::new(AtomicBool::new(false));
    let trouble = {
        let (proxy, done) = (Arc::clone(&proxy), Arc::clone(&done));
        std::thread::spawn(move || {
            let modes =
                [Mode::Cut, Mode::Blackhole, Mode::LoseAnswers, Mode::Delay(Duration::from_millis(30)), Mode::Pass];
            for mode in modes.into_iter().cycle() {
                if done.load(Ordering::Acquire) {
                    break;
                }
                // The fault must happen while requests are in flight: wait for traffic, not for time.
                let seen = proxy.sent();
                proxy.set(Mode::Pass);
                let deadline = Instant::now() + Duration::from_secs(5);
                while proxy.sent() < seen + 20_000 && Instant::now() < deadline && !done.load(Ordering::Acquire) {
                    std::thread::yield_now();
                    std::thread::sleep(Duration::from_millis(1));
                }
                proxy.set(mode);
                std::thread::sleep(Duration::from_millis(300));
                proxy.set(Mode::Pass);
                proxy.close_all();
            }
            proxy.set(Mode::Pass);
        })
    };
    let writers: Vec<_> = (0..6)
        .map(|thread| {
            let log = Arc::clone(&log);
            std::thread::spawn(move || {
                for n in 0..40 {
                    let id = log.append(start("a", n, &format!("{thread} {n}"))).unwrap().head.id;
                    log.append(record(id, "b", n, &format!("{thread} {n} b"))).unwrap();
                }
            })
        })
        .collect();
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    done.store(true, Ordering::Release);
    trouble.join().unwrap();
    let direct = open(&url);
    let found = contents(&direct);
    assert_eq!(found.sessions.len(), 240);
    for (n, (head, events)) in found.sessions.iter().enumerate() {
        assert_eq!((head.id.number().get() as usize, events.len()), (n + 1, 3), "gap-free, nothing doubled");
    }
    assert_eq!(Carrier::problems(&direct), Vec::<String>::new());
}

fn unreachable() {
    let server = Postgres::shared();
    let url = server.workspace();
    let proxy = Proxy::to(server.port);
    let mut config = config(&through(&url, server.port, proxy.port));
    config.attempt_timeout = Duration::from_millis(500);
    config.call_timeout = Duration::from_secs(3);
    let log = PgLog::open(config.clone()).unwrap();
    let id = log.append(start("a", 0, "a")).unwrap().head.id;
    for mode in [Mode::Cut, Mode::Blackhole] {
        proxy.set(mode);
        let started = Instant::now();
        let error = log.append(record(id, "b", 1, "b")).unwrap_err();
        assert!(matches!(&error, Error::Unreachable { .. }), "{error:?}");
        assert!(error.to_string().contains(&format!("127.0.0.1:{}", proxy.port)), "{error}");
        assert!(started.elapsed() < Duration::from_secs(20), "the wait is bounded");
        assert!(matches!(PgLog::open(config.clone()), Err(Error::Unreachable { .. })));
        proxy.set(Mode::Pass);
        proxy.close_all();
    }
    // The same request afterwards is stored once.
    log.append(record(id, "b", 1, "b")).unwrap();
    assert_eq!(log.records(id).unwrap().len(), 3);
}

fn killed_server() {
    let server = Arc::new(Postgres::start(&[]));
    let url = server.workspace();
    let log = Arc::new(open(&url));
    let done = Arc::new(AtomicBool::new(false));
    let acknowledged: Vec<_> = (0..6)
        .map(|thread| {
            let (log, done) = (Arc::clone(&log), Arc::clone(&done));
            std::thread::spawn(move || {
                let mut acknowledged = Vec::new();
                let mut n = 0;
                while !done.load(Ordering::Acquire) {
                    let id = log.append(start("a", n, &format!("{thread} {n}"))).unwrap().head.id;
                    acknowledged.push((id, 2));
                    let head = log.append(record(id, "b", n, &format!("{thread} {n} b"))).unwrap().head;
                    acknowledged.push((id, head.next_seq));
                    n += 1;
                }
                acknowledged
            })
        })
        .collect();
    let direct = open(&url);
    for round in 0..4 {
        let before = direct.totals().unwrap().events;
        wait_until("writers are at work", || direct.totals().unwrap().events > before + 100);
        if round % 2 == 0 {
            server.kill();
        } else {
            server.crash();
        }
        server.resume();
    }
    let before = direct.totals().unwrap().events;
    wait_until("writers have resumed", || direct.totals().unwrap().events > before + 50);
    done.store(true, Ordering::Release);
    let mut count = 0;
    for thread in acknowledged {
        for (id, next_seq) in thread.join().unwrap() {
            count += 1;
            assert!(direct.head(id).unwrap().is_some_and(|head| head.next_seq >= next_seq), "{id} was acknowledged");
        }
    }
    eprintln!("{count} acknowledged writes over 4 crashes, none lost");
    let found = contents(&direct);
    for (n, (head, _)) in found.sessions.iter().enumerate() {
        assert_eq!(head.id.number().get() as usize, n + 1, "ids are gap-free");
    }
    assert_eq!(Carrier::problems(&direct), Vec::<String>::new());
}

/// A client stops responding while it holds a day's lock; the server releases the lock.
fn suspended_client() {
    let server = Postgres::shared();
    let url = server.workspace();
    let schema = url.rsplit('=').next().unwrap().to_owned();
    let log = open(&url);
    log.append(start("a", 0, "a")).unwrap();
    let day = retake_testutils::at(0).day().signed_duration_since("0001-01-01".parse().unwrap()).num_days() + 1;
    let script = format!("SET idle_in_transaction_session_timeout = '2s'; BEGIN; SELECT {schema}.lock_day({day})");
    let _holder = server.hold(&script);
    let ack = log.append(start("b", 0, "b")).unwrap();
    assert_eq!(ack.head.id.number().get(), 2);
}

/// A lone append waits for a lock on a connection that only its own thread drives.
fn abandoned_connection() {
    let server = Postgres::start(&[]);
    let url = server.workspace();
    let schema = url.rsplit('=').next().unwrap().to_owned();
    let log = Arc::new(open(&url));
    let id = log.append(start("a", 0, "a")).unwrap().head.id;
    let connections = || {
        let pids = "SELECT string_agg(pid::text, ' ') FROM pg_stat_activity WHERE application_name = 'retake'";
        server.sql(pids).unwrap().split_whitespace().map(str::to_owned).collect::<HashSet<String>>()
    };
    let before = connections();
    let holder = server.hold(&format!("BEGIN; SELECT 1 FROM {schema}.heads FOR UPDATE"));
    let writer = {
        let log = Arc::clone(&log);
        std::thread::spawn(move || log.append(record(id, "b", 1, "b")).unwrap())
    };
    wait_until("the connection is closed while the append is repeated on another", || {
        !before.is_subset(&connections())
    });
    drop(holder);
    assert_eq!(writer.join().unwrap().index, Some(1));
}

/// While nothing is written, the server closes every connection, as a restart or a firewall does.
fn idle_connections_closed() {
    let server = Postgres::start(&[]);
    let log = open(&server.workspace());
    let id = log.append(start("a", 0, "a")).unwrap().head.id;
    let all = "FROM pg_stat_activity WHERE application_name = 'retake'";
    server.sql(&format!("SELECT pg_terminate_backend(pid) {all}")).unwrap();
    assert_eq!(log.append(record(id, "b", 1, "b")).unwrap().index, Some(1));
    assert_eq!(log.append(record(id, "c", 2, "c")).unwrap().index, Some(2));
}

fn closing() {
    let server = Postgres::start(&[]);
    let url = server.workspace();
    let log = open(&url);
    let follower = log.follow().unwrap();
    log.append(start("a", 0, "a")).unwrap();
    follower.recv_timeout(Duration::from_secs(20)).unwrap();
    drop(log);
    wait_until("all connections are closed", || {
        let count = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'retake'";
        server.sql(count).unwrap() == "0"
    });
}
