//! The gallery: the workspace in a browser, and its tools over HTTP, in one process.
//!
//! ```text
//! connection ── server.rs   limits, timeouts (write_timeout.rs), an orderly end
//!      │
//!    guard.rs               access: Host, Origin, the token; security headers
//!      │
//!      ├─ pages/            what people see, rendered here; assets.rs: style and scripts, in the binary
//!      ├─ api.rs            the tools of `mcp` as plain JSON, and openapi.rs, which describes them
//!      ├─ /mcp              the MCP server itself, which is `mcp`'s
//!      ├─ pictures.rs       originals and thumbnails, by hash only
//!      ├─ exports.rs        sessions and images to take along (zip.rs), and audit bundles
//!      ├─ imports.rs        files that were dropped on a page; checking.rs: every byte read, on demand
//!      └─ events.rs         what happens, as it happens
//! ```
//! `gallery_lock.rs` stores the URL of a workspace's gallery, so that a second one can point to the first. Pages work
//! without scripts, which only make them faster. Scripts request parts of the same pages, so that there is one template
//! for everything and recorded text is escaped in one place: maud.
//!
//! This module does not know how anything is stored or found, and never uses a path from a request.

mod api;
mod assets;
mod checking;
mod compression;
mod events;
mod exports;
mod gallery_lock;
mod guard;
mod imports;
mod openapi;
mod pages;
mod pictures;
mod ranges;
mod readers;
mod reply;
mod server;
mod state;
mod token_page;
mod url;
mod words;
mod write_timeout;
mod wrong_tokens;
mod zip;

pub use crate::demo::fill;
pub use gallery_lock::{GalleryLock, Held, Served};
pub use server::{Bound, Serving, bind, is_loopback};
pub(crate) use url::encode;
