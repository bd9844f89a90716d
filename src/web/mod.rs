//! The gallery: the workspace in a browser, and the verbs of the tracker over HTTP, in one process.
//!
//! ```text
//! connection ── server.rs   limits, timeouts (patience.rs), an orderly end
//!      │
//!    guard.rs               who may ask: Host, Origin, the token; what every answer says of itself
//!      │
//!      ├─ pages/            what people see, rendered here; assets.rs: style and scripts, in the binary
//!      ├─ api.rs            the tools of `mcp` as plain JSON, and openapi.rs, which describes them
//!      ├─ /mcp              the MCP server itself, which is `mcp`'s
//!      ├─ pictures.rs       originals and thumbnails, by hash only
//!      └─ events.rs         what happens, as it happens
//! ```
//! `place.rs` keeps where the gallery of a workspace is, so that a second one points to the first. `demo/` makes a
//! history to look at. A page works without its scripts; they make it quick. Scripts ask for the same pages in parts, so
//! that there is one template for everything, and text that someone recorded is escaped in one place: maud.
//!
//! Never known here: how anything is stored or found; a path on the disk that came with a request.

mod api;
mod assets;
mod demo;
mod events;
mod gallery_lock;
mod guard;
mod guesses;
mod openapi;
mod pages;
mod patience;
mod pictures;
mod reply;
mod server;
mod state;
mod url;
mod words;

pub use demo::fill;
pub use gallery_lock::{GalleryLock, Held, Served};
pub use server::{Bound, Serving, bind, is_loopback};
pub(crate) use url::encode;
