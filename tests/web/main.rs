//! The gallery over HTTP, from outside: the real binary and raw sockets. What is served, to whom, and the response to
//! malicious requests. The pages in a browser are tested in `tests/browser`.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a failed assertion is the report of a test"
)]

mod agents;
mod answering;
mod client;
mod crowd;
mod guarding;
mod pictures;
mod serving;
mod shelf;
mod videos;
