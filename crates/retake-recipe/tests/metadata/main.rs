//! Generation metadata: generated files for every format, generator and edge case, and a bounded run of damaged ones.
//! Real files are checked by `tests/corpus`.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a failed assertion is the report of a test")]

mod beside;
mod build;
mod cones;
mod damage;
mod editor;
mod formats;
mod graphs;
mod listed;
mod makers;
mod nodes;
mod samplers;
mod subgraphs;
mod texts;
mod tools;
mod values;
mod writing;
