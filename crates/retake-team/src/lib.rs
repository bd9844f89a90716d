//! A Retake workspace for a team: the log in PostgreSQL, images in S3 or a shared directory.
//!
//! [`PgLog`] implements the log with the operations of [`retake_log::store::Store`]. The records are the same bytes as
//! in the embedded store, so a session can be copied between the two and its hash chain still verifies.
//! [`RemoteImages`] stores originals by their hash, with a bounded local cache. `docs/team.md` describes set-up,
//! guarantees and operations.
//!
//! # How an append works
//! A record contains the hash of its predecessor and its session's number, so encoding it requires knowing the state of
//! the session. PostgreSQL has no BLAKE3, so the client encodes:
//! 1. It encodes against the head (or the day's last number) that it believes to be current and calls the SQL function
//!    `append`: one round trip, one transaction. The function locks the session or the day, checks the idempotency key,
//!    the expectation, the chain, the archived flag and the index, and stores everything.
//! 2. If the head was stale, the function stores nothing. The client then takes the lock first, encodes, appends and
//!    commits, so that writers to one session (or one day) queue instead of retrying against each other.
//!
//! Batches that wait at the same time share a transaction (`append.rs`), so that sixteen writers of one process do not
//! wait for sixteen disk flushes.
//!
//! # Order
//! Followers need an order in which no record can appear before one that they have already seen. Taking a number under
//! one lock held until the commit would make every commit of the workspace wait for every other one's disk flush; so
//! would `NOTIFY` inside the transaction, which takes a cluster-wide lock. Instead, every record carries its
//! transaction id, and readers only remember positions below the oldest transaction still running (see `follow.rs`).
//! Notifications are sent after the commit.
//!
//! # Absent here
//! No replication, consensus or failover: PostgreSQL provides them. No deletion: the application role has no right to it.
//! No async in the interface: the runtime is inside.

mod append;
mod cache;
mod carrier;
mod config;
mod connect;
mod direct;
mod error;
mod follow;
mod health;
mod images;
mod import;
mod known;
mod location;
mod log;
mod notifier;
mod passwords;
mod platform;
mod read;
mod rows;
mod schema;
mod statements;
mod tls;
mod verify;

pub use carrier::{CheckSettings, open_log};
pub use config::{Config, TlsMode};
pub use error::Error;
pub use follow::Cursor;
pub use health::Health;
pub use images::{DEFAULT_CACHE_BYTES, RemoteImages};
pub use location::ImageLocation;
pub use log::PgLog;
pub use schema::{SCHEMA_VERSION, Settings};
