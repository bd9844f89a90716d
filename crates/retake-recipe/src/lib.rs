//! Image-generation recipes: what they hold, how two of them differ, and how to read them from the files that image
//! generators write.

pub mod diff;
pub mod hash;
pub mod metadata;
pub mod recipe;
mod schema;
pub mod time;

pub use diff::{RecipeDiff, StepLabel};
pub use hash::Hash;
pub use metadata::{Format, Generator, Reading, read, read_bytes, read_from, read_stream};
pub use recipe::{Invalid, Lora, Recipe, Seed};
pub use time::Timestamp;
