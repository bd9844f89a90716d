//! What pictures say of how they were made: real files of other people where they are at hand, files of our own for every
//! format and trap, and a bounded run of damaged ones.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test says what is wrong by failing"
)]

mod beside;
mod build;
mod damage;
mod graphs;
mod samples;
mod tools;
mod writing;
