//! Several users of one workspace within a process: handles that own it and handles that use it through the owner make
//! the same calls and get the same answers. Real processes are in `processes.rs`.
#![expect(clippy::unwrap_used, reason = "a test may stop anywhere")]

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::Duration;

use retake_log::model::{Draft, EventKind, Refusal};
use retake_log::sharing::{Change, Lifetime, OnWait, Participation, SharedLog};
use retake_log::store::{Detail, Error, Order, Status};
use retake_testutils::*;

fn join(dir: &Path, stay: Lifetime) -> SharedLog {
    SharedLog::open(dir, options(), stay).unwrap()
}

/// Listens at a socket that only this user can access, as an owner does.
fn listen(path: &Path) -> UnixListener {
    let listener = UnixListener::bind(path).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
    listener
}

#[test]
fn a_client_makes_the_same_calls_and_gets_the_same_answers() {
    let dir = tempfile::tempdir().unwrap();
    let owner = join(dir.path(), Lifetime::OneShot);
    let client = join(dir.path(), Lifetime::OneShot);
    assert!(owner.is_owner() && !client.is_owner());
    assert_eq!(client.page(Status::All, Order::Recent, None, 10).unwrap(), []);

    let mut batch = start("a fox", 0, "k1");
    let Draft::Record(iteration) = &mut batch.drafts[1] else { panic!() };
    iteration.recipe.parameters.insert("workflow".to_owned(), "w".repeat(500_000).into());
    iteration.recipe.parameters.insert("cfg".to_owned(), serde_json::json!(7.1));
    iteration.recipe.seed = Some(retake_log::model::Seed(u64::MAX));
    let ack = client.append(batch.clone()).unwrap();
    let id = ack.head.id;
    assert!(owner.append(batch).unwrap().repeated, "the same key from another process is the same request");
    client.append(record(id, "a red fox", 1, "k2")).unwrap();
    client.append(rate(id, 1, 5, 2, "k3")).unwrap();

    for detail in [Detail::Full, Detail::Brief] {
        assert_eq!(client.events(id, detail).unwrap(), owner.events(id, detail).unwrap());
        assert_eq!(client.event(id, 1, detail).unwrap(), owner.event(id, 1, detail).unwrap());
    }
    assert_eq!(client.event(id, 99, Detail::Full).unwrap(), None);
    assert_eq!(client.head(id).unwrap(), owner.head(id).unwrap());
    assert_eq!(client.records(id).unwrap(), owner.records(id).unwrap());
    assert_eq!(client.totals().unwrap(), owner.totals().unwrap());
    assert_eq!(client.children(id.iteration(0)).unwrap(), [id.iteration(1)]);
    for (index, rating) in [(0, None), (1, Some(5))] {
        let alone = client.iteration(id.iteration(index), Detail::Full).unwrap().unwrap();
        assert_eq!(alone.annotation.rating, rating);
        assert_eq!(owner.iteration(id.iteration(index), Detail::Full).unwrap(), Some(alone));
    }
    assert_eq!(client.iteration(id.iteration(2), Detail::Full).unwrap(), None);
    assert_eq!(client.ids(None, 10).unwrap(), [id]);
    assert_eq!(
        client.page(Status::All, Order::Recent, None, 10).unwrap(),
        owner.page(Status::All, Order::Recent, None, 10).unwrap()
    );
    let trail = client.trail(id).unwrap();
    assert_eq!((trail.events.len(), trail.faults.len()), (4, 0));
    assert_eq!(client.verify(None).unwrap().problems, Vec::<String>::new());
    assert!(client.repair(None).unwrap().is_none());

    let unknown = "session-2025-12-11-009".parse().unwrap();
    for workspace in [&owner, &client] {
        match workspace.append(record(unknown, "x", 3, "k4")) {
            Err(Error::Refused(refusal)) => assert_eq!(refusal, Refusal::NoSession(unknown)),
            other => panic!("{other:?}"),
        }
    }
    let info = client.owner().unwrap();
    assert_eq!((info.pid, info.clients), (std::process::id(), 1));
}

#[test]
fn when_the_owner_exits_a_client_takes_over_and_the_others_reconnect() {
    let dir = tempfile::tempdir().unwrap();
    let mut workspaces: Vec<SharedLog> = (0..4).map(|_| join(dir.path(), Lifetime::OneShot)).collect();
    let mut expected = 0;
    while !workspaces.is_empty() {
        for (at, workspace) in workspaces.iter().enumerate() {
            let key = format!("{} left, {at}", workspaces.len());
            assert!(!workspace.append(start("a", expected, &key)).unwrap().repeated);
            expected += 1;
            assert_eq!(workspace.totals().unwrap().sessions, u64::try_from(expected).unwrap());
        }
        assert_eq!(workspaces.iter().filter(|workspace| workspace.is_owner()).count(), 1, "one owner");
        let owner = workspaces.iter().position(SharedLog::is_owner).unwrap();
        workspaces.remove(owner).close().unwrap();
    }
    assert_eq!(open(dir.path()).totals().unwrap().sessions, 10);
}

#[test]
fn changes_reach_every_long_running_process_across_owners() {
    let dir = tempfile::tempdir().unwrap();
    let owner = join(dir.path(), Lifetime::LongRunning);
    let client = join(dir.path(), Lifetime::LongRunning);
    let other = join(dir.path(), Lifetime::OneShot);
    let (at_owner, at_client) = (owner.follow(), client.follow());
    let patience = Duration::from_secs(20);
    let id = other.append(start("a", 0, "k0")).unwrap().head.id;
    for news in [&at_owner, &at_client] {
        for expected in [(0, EventKind::Started, None), (1, EventKind::Recorded, Some(0))] {
            let Change::Event(heard) = news.recv_timeout(patience).unwrap() else { panic!() };
            assert_eq!((heard.seq, heard.kind, heard.index), expected);
        }
    }

    owner.close().unwrap();
    loop {
        if at_client.recv_timeout(patience).unwrap() == Change::Lagged {
            break;
        }
    }
    assert!(client.is_owner(), "it takes over without being asked anything");
    other.append(record(id, "c", 500, "last")).unwrap();
    loop {
        if let Change::Event(notice) = at_client.recv_timeout(patience).unwrap()
            && notice.at == at(500)
        {
            break;
        }
    }
}

#[test]
fn there_is_never_more_than_one_owner() {
    let dir = tempfile::tempdir().unwrap();
    for round in 0..200 {
        let barrier = Arc::new(Barrier::new(4));
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let (barrier, dir) = (Arc::clone(&barrier), dir.path().to_owned());
                thread::spawn(move || {
                    barrier.wait();
                    let workspace = join(&dir, Lifetime::OneShot);
                    let owner = workspace.is_owner();
                    barrier.wait();
                    (workspace, owner)
                })
            })
            .collect();
        let started: Vec<(SharedLog, bool)> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        assert_eq!(started.iter().filter(|(_, owner)| *owner).count(), 1, "round {round}");
    }
}

#[test]
fn files_of_a_dead_owner_do_not_block_the_next_one() {
    let dir = tempfile::tempdir().unwrap();
    drop(listen(&dir.path().join("owner.sock")));
    std::fs::write(dir.path().join("owner.json"), "{not json").unwrap();
    std::fs::write(dir.path().join("owner.lock"), "left over").unwrap();
    let workspace = join(dir.path(), Lifetime::OneShot);
    assert!(workspace.is_owner());
    assert!(!join(dir.path(), Lifetime::OneShot).is_owner());
    workspace.close().unwrap();
    assert!(!dir.path().join("owner.sock").exists(), "an owner that ends cleanly leaves no socket");
}

#[test]
fn a_path_too_long_for_a_socket_works() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("a".repeat(100)).join("b".repeat(100));
    let owner = join(&dir, Lifetime::OneShot);
    let client = join(&dir, Lifetime::OneShot);
    assert!(owner.is_owner() && !client.is_owner());
    client.append(start("a", 0, "k")).unwrap();
    assert_eq!(owner.totals().unwrap().sessions, 1);
    let socket = owner.owner().unwrap().socket.unwrap();
    assert!(!socket.starts_with(&dir) && socket.exists());
    owner.close().unwrap();
    assert!(!socket.exists());
}

#[test]
fn misbehaving_clients_affect_only_themselves() {
    let dir = tempfile::tempdir().unwrap();
    let owner = join(dir.path(), Lifetime::OneShot);
    let rude = || UnixStream::connect(dir.path().join("owner.sock")).unwrap();
    let hello = |protocol: u32| {
        let json = format!(r#"{{"protocol":{protocol},"version":"9.9.9","pid":1}}"#);
        [&u32::try_from(json.len()).unwrap().to_le_bytes()[..], &[0; 4], json.as_bytes()].concat()
    };
    // A partial greeting followed by silence; a frame that claims four gigabytes; no frame at all; garbage after a
    // greeting.
    let mut silent = rude();
    silent.write_all(&hello(2)[..5]).unwrap();
    let mut greedy = rude();
    greedy.write_all(&[0xff; 8]).unwrap();
    let mut garbled = rude();
    garbled.write_all(&hello(2)).unwrap();
    garbled.write_all(&[7, 0, 0, 0, 0, 0, 0, 0]).unwrap();
    garbled.write_all(b"garbage").unwrap();
    let mut unread = String::new();
    let _ = garbled.read_to_string(&mut unread);
    let crowd: Vec<UnixStream> = (0..100).map(|_| rude()).collect();
    // Another version is greeted, so that it can identify us, but not served.
    let mut stranger = rude();
    stranger.write_all(&hello(99)).unwrap();
    let mut answer = Vec::new();
    stranger.read_to_end(&mut answer).unwrap();
    assert!(String::from_utf8_lossy(&answer).contains(r#""protocol":2"#), "{answer:?}");

    let client = join(dir.path(), Lifetime::OneShot);
    let id = client.append(start("a", 0, "k")).unwrap().head.id;
    assert_eq!(owner.events(id, Detail::Full).unwrap().len(), 2);
    drop((silent, greedy, crowd));
    owner.close().unwrap();
}

#[test]
fn an_owner_with_another_protocol_version_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let stranger = listen(&dir.path().join("owner.sock"));
    let greeting = thread::spawn(move || {
        let (mut client, _) = stranger.accept().unwrap();
        let json = br#"{"protocol":7,"version":"3.0.0","pid":4242}"#;
        client.write_all(&u32::try_from(json.len()).unwrap().to_le_bytes()).unwrap();
        client.write_all(&[0; 4]).unwrap();
        client.write_all(json).unwrap();
        // It stays until the client closes: closing with unread bytes would discard the greeting.
        let _ = client.read_to_end(&mut Vec::new());
    });
    let Err(Error::Incompatible(message)) = SharedLog::open(dir.path(), options(), Lifetime::OneShot) else { panic!() };
    for part in ["3.0.0", "4242", "protocol 7"] {
        assert!(message.contains(part), "{message}");
    }
    greeting.join().unwrap();
    assert!(!dir.path().join("journal").exists(), "nothing was touched");
}

#[test]
fn the_socket_is_for_this_user_only() {
    let dir = tempfile::tempdir().unwrap();
    let _owner = join(dir.path(), Lifetime::OneShot);
    let mode = std::fs::metadata(dir.path().join("owner.sock")).unwrap().permissions().mode();
    assert_eq!(mode & 0o077, 0, "{mode:o}");
}

#[test]
fn deeply_nested_parameters_reach_the_owner() {
    let dir = tempfile::tempdir().unwrap();
    let owner = join(dir.path(), Lifetime::OneShot);
    let client = join(dir.path(), Lifetime::OneShot);
    for depth in [100, 121, 127, 250] {
        let mut nested = serde_json::Value::from("core");
        for _ in 0..depth {
            nested = serde_json::Value::Array(vec![nested]);
        }
        let mut batch = start("deep", 0, &format!("k{depth}"));
        let Draft::Record(iteration) = &mut batch.drafts[1] else { panic!() };
        iteration.recipe.parameters.insert("nested".to_owned(), nested);
        let id = client.append(batch).unwrap().head.id;
        assert_eq!(owner.head(id).unwrap().unwrap().next_seq, 2, "{depth} deep");
    }
}

#[test]
fn a_socket_that_owner_json_names_elsewhere_is_not_used() {
    let (dir, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let socket = elsewhere.path().join("stranger.sock");
    let stranger = listen(&socket);
    stranger.set_nonblocking(true).unwrap();
    let claim = serde_json::json!({
        "pid": 1, "version": "0.1.0", "protocol": 2, "since": "2025-12-11T10:00:00.000Z", "socket": socket,
    });
    std::fs::write(dir.path().join("owner.json"), claim.to_string()).unwrap();
    let log = join(dir.path(), Lifetime::OneShot);
    assert!(log.is_owner());
    log.append(start("private", 0, "k")).unwrap();
    assert_eq!(stranger.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock, "the stranger was contacted");
}

#[test]
fn an_unresponsive_owner_is_reported_and_the_call_fails() {
    let dir = tempfile::tempdir().unwrap();
    let _mute = listen(&dir.path().join("owner.sock"));
    let claim = serde_json::json!({
        "pid": 4242, "version": "0.1.0", "protocol": 2, "since": "2025-12-11T10:00:00.000Z",
        "socket": dir.path().canonicalize().unwrap().join("owner.sock"),
    });
    std::fs::write(dir.path().join("owner.json"), claim.to_string()).unwrap();
    let notices = Arc::new(Mutex::new(Vec::new()));
    let noting = Arc::clone(&notices);
    let on_wait: OnWait = Arc::new(move |notice| noting.lock().unwrap().push(notice.pid));
    let how = Participation { on_wait: Some(on_wait), ..Lifetime::OneShot.into() };
    match SharedLog::open(dir.path(), options(), how).map(drop) {
        Err(Error::Unresponsive { pid: Some(4242) }) => {}
        other => panic!("{other:?}"),
    }
    let notices = notices.lock().unwrap();
    assert!(!notices.is_empty() && notices.iter().all(|pid| *pid == Some(4242)), "{notices:?}");
}
