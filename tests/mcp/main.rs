//! The MCP server as clients see it: the wire format in both eras of the protocol, the exact responses of the contract,
//! and the real binary on stdio. The use cases themselves are tested in `tests/workspace`.
#![allow(
    clippy::allow_attributes,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may stop anywhere"
)]

mod bad_input;
mod client;
mod failing;
mod http;
mod listing;
mod process;
mod prompts;
mod protocol;
mod recording;
mod resources;
mod story;
mod subscriptions;
mod surface;
mod transcript;
mod waiting;
