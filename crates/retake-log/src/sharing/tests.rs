//! Messages and connections: versions, partial frames, frames that are too long, garbage, and answers to other
//! requests.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::client::{CallError, Client};
use super::connection::{Connection, Listener, MAX_FRAME_BYTES, decode, encode, is_trusted};
use super::owner_wait::OwnerWait;
use super::protocol::{Hello, PROTOCOL, Request, Response};
use crate::store::Error;

const SECOND: Duration = Duration::from_secs(1);

/// Creates a connection whose other end is a plain socket, on which a test can send anything.
fn connection_and_raw_end() -> (Connection, UnixStream) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let listener = Listener::bind(&path).unwrap();
    let raw = UnixStream::connect(&path).unwrap();
    (listener.accept().unwrap(), raw)
}

fn frame(bytes: &[u8]) -> Vec<u8> {
    [&u32::try_from(bytes.len()).unwrap().to_le_bytes()[..], &[0; 4], bytes].concat()
}

#[test]
fn messages_arrive_as_they_were_sent() {
    let (connection, raw) = connection_and_raw_end();
    let sent = Request::Call { id: 7, name: "append".to_owned(), body: vec![0, 255, 1] };
    let mut bytes = vec![0; frame(&encode(&sent).unwrap()).len()];
    let echo = thread::spawn(move || {
        let mut raw = raw;
        raw.read_exact(&mut bytes).unwrap();
        raw.write_all(&bytes).unwrap();
        raw
    });
    connection.send(&sent).unwrap();
    assert_eq!(connection.receive::<Request>(Some(SECOND * 5)).unwrap(), sent);
    drop(echo.join().unwrap());
    assert_eq!(connection.receive::<Request>(Some(SECOND)).unwrap_err().kind(), ErrorKind::UnexpectedEof);
}

#[test]
fn a_partial_frame_is_an_error_and_silence_is_a_timeout() {
    let whole = frame(&encode(&Request::Follow).unwrap());
    for end in 1..whole.len() {
        let (connection, mut raw) = connection_and_raw_end();
        raw.write_all(&whole[..end]).unwrap();
        drop(raw);
        assert_eq!(connection.receive_bytes(Some(SECOND)).unwrap_err().kind(), ErrorKind::UnexpectedEof, "{end}");
    }
    let (connection, mut raw) = connection_and_raw_end();
    assert_eq!(connection.receive_bytes(Some(SECOND / 100)).unwrap_err().kind(), ErrorKind::TimedOut);
    raw.write_all(&whole).unwrap();
    assert_eq!(connection.receive::<Request>(Some(SECOND)).unwrap(), Request::Follow, "it can still be used");
}

#[test]
fn a_frame_that_is_too_long_is_neither_sent_nor_read() {
    let (connection, mut raw) = connection_and_raw_end();
    let error = connection.send_bytes(&vec![0; MAX_FRAME_BYTES + 1]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    raw.write_all(&[0xff, 0xff, 0xff, 0x7f, 0, 0, 0, 0]).unwrap();
    assert_eq!(connection.receive_bytes(Some(SECOND)).unwrap_err().kind(), ErrorKind::InvalidData);
}

#[test]
fn garbage_is_an_error() {
    for garbage in [&b"garbage"[..], &[], &[0xc1], &[0xdf, 0xff, 0xff, 0xff, 0xff]] {
        assert_eq!(decode::<Request>(garbage).unwrap_err().kind(), ErrorKind::InvalidData, "{garbage:?}");
        assert!(decode::<Response>(garbage).is_err(), "{garbage:?}");
    }
    // Nesting far beyond any parser's limit is an error as well, not a stack overflow.
    let deep = vec![0x91; 1_000_000];
    assert!(decode::<serde_json::Value>(&deep).is_err());
    let (connection, mut raw) = connection_and_raw_end();
    raw.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    assert_eq!(connection.receive_bytes(Some(SECOND)).unwrap_err().kind(), ErrorKind::InvalidData);
}

/// Starts an owner that greets with this protocol version and then handles the first request as the test says.
fn fake_owner(
    dir: &Path,
    protocol: u32,
    then: impl FnOnce(&Connection, u64) + Send + 'static,
) -> (PathBuf, JoinHandle<()>) {
    let path = dir.join("owner.sock");
    let listener = Listener::bind(&path).unwrap();
    let serving = thread::spawn(move || {
        let connection = listener.accept().unwrap();
        connection.receive_bytes(Some(SECOND * 5)).unwrap();
        let hello = Hello { protocol, version: "9.9.9".to_owned(), pid: 4242 };
        connection.send_bytes(&serde_json::to_vec(&hello).unwrap()).unwrap();
        if let Ok(Request::Call { id, .. }) = connection.receive(Some(SECOND * 5)) {
            then(&connection, id);
        }
    });
    (path, serving)
}

fn call(dir: &Path) -> Result<Vec<u8>, CallError> {
    let waiting = OwnerWait::default();
    Client::connect(dir, &waiting).unwrap().unwrap().call("totals", &[], None, &waiting)
}

#[test]
fn a_different_version_is_reported() {
    for protocol in [0, PROTOCOL - 1, PROTOCOL + 1, u32::MAX] {
        let dir = tempfile::tempdir().unwrap();
        let (_, serving) = fake_owner(dir.path(), protocol, |_, _| {});
        let Err(Error::Incompatible(message)) = Client::connect(dir.path(), &OwnerWait::default()) else {
            panic!("protocol {protocol} was accepted")
        };
        assert!(message.contains("9.9.9") && message.contains("4242"), "{message}");
        serving.join().unwrap();
    }
}

#[test]
fn an_answer_to_another_request_is_rejected() {
    let dir = tempfile::tempdir().unwrap();
    let (_, serving) = fake_owner(dir.path(), PROTOCOL, |connection, id| {
        connection.send(&Response::Answer { id: id + 1, body: b"of another request".to_vec() }).unwrap();
    });
    assert!(matches!(call(dir.path()), Err(CallError::Gone)));
    serving.join().unwrap();
}

#[test]
fn heartbeats_are_skipped_and_errors_arrive() {
    let dir = tempfile::tempdir().unwrap();
    let (_, serving) = fake_owner(dir.path(), PROTOCOL, |connection, id| {
        connection.send(&Response::Working { id: id - 1 }).unwrap();
        connection.send(&Response::Working { id }).unwrap();
        let source = std::io::Error::from_raw_os_error(28);
        let error = Error::Io { action: "append to".into(), path: "journal".into(), source };
        connection.send(&Response::Failed { id, error }).unwrap();
    });
    match call(dir.path()) {
        Err(CallError::Failed(Error::Io { action, source, .. })) => {
            assert_eq!((action.as_ref(), source.kind()), ("append to", ErrorKind::StorageFull));
        }
        other => panic!("{other:?}"),
    }
    serving.join().unwrap();
}

#[test]
fn only_private_sockets_in_expected_places_are_trusted() {
    let dir = tempfile::tempdir().unwrap();
    let (inside, outside) = (dir.path().join("owner.sock"), dir.path().join("other.sock"));
    let _listeners = [Listener::bind(&inside).unwrap(), Listener::bind(&outside).unwrap()];
    assert!(is_trusted(&inside, dir.path()));
    assert!(!is_trusted(&outside, dir.path()), "not the name of this workspace's socket");
    std::fs::set_permissions(&inside, std::fs::Permissions::from_mode(0o666)).unwrap();
    assert!(!is_trusted(&inside, dir.path()), "others can write to it");
    std::fs::remove_file(&inside).unwrap();
    std::fs::write(&inside, "").unwrap();
    assert!(!is_trusted(&inside, dir.path()), "not a socket");
    std::fs::remove_file(&inside).unwrap();
    std::os::unix::fs::symlink(&outside, &inside).unwrap();
    assert!(!is_trusted(&inside, dir.path()), "a link to elsewhere");
}
