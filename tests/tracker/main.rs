//! The use cases through the library, as a face would call them: what a user would notice of every verb, with a clock
//! that stands still. Crashes, damage to the store's own files and several processes have their own test binaries.

mod annotating;
mod auditing;
mod bad_input;
mod listing;
mod moving;
mod recording;
mod showing;
mod support;
