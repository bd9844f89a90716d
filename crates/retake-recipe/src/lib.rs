//! Image-generation recipes: what they hold, how two of them differ, and how to read them from the files that image
//! generators write.
//!
//! ```no_run
//! let reading = retake_recipe::read("cat.png")?;
//! println!("{:?} made {:?}", reading.generator.map(|it| it.name()), reading.recipe.prompt);
//! for source in &reading.sources {
//!     println!("{:<14} {}", source.field, source.rule);
//! }
//! # Ok::<(), std::io::Error>(())
//! ```
//! [`metadata`] reads and writes files, [`recipe`] is the vocabulary, [`diff`] compares.

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
