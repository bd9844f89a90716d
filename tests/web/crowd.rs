//! Many clients at once: 200, some of them slow, some of them misbehaving. Well-behaved ones are served, and nothing
//! breaks.

use std::io::Write;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use serde_json::json;

use crate::client::Gallery;

#[test]
fn two_hundred_at_once_are_served() {
    let gallery = Gallery::new();
    gallery.record("the first");
    // Some send half of a request and wait: each occupies one connection and no more.
    let idle: Vec<_> = (0..20)
        .map(|_| {
            let mut stream = gallery.connect();
            write!(stream, "GET / HTTP/1.1\r\nHost: {}\r\nX-Slow: ", gallery.host).unwrap();
            stream
        })
        .collect();
    let served = AtomicU32::new(0);
    thread::scope(|scope| {
        for client in 0..200 {
            let (gallery, served) = (&gallery, &served);
            scope.spawn(move || {
                for round in 0..3 {
                    let answer = match (client + round) % 4 {
                        0 => gallery.get("/"),
                        1 => gallery.get("/api/list-sessions?limit=5"),
                        2 => gallery.post("/api/record-iteration", &json!({ "prompt": format!("{client} {round}") })),
                        _ => gallery.get("/sessions/part"),
                    };
                    assert_eq!(answer.status, 200, "{answer}");
                    served.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(served.into_inner(), 600);
    assert_eq!(gallery.sessions(), 151, "each recording once");
    drop(idle);
    assert_eq!(gallery.get("/").status, 200);
}
