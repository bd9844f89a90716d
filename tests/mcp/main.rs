//! The MCP server as clients meet it: the wire in both eras of the protocol, the contract's answers to the letter, and
//! the real binary on stdio. What a verb does is tested with the workspace.
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
