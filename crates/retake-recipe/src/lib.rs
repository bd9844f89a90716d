//! Image-generation recipes: their contents, the differences between them, and reading them from the files that image
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
//! # Reading
//! [`read`] takes a path, [`read_bytes`] memory, [`read_from`] anything that can seek and [`read_stream`] a stream.
//! They recognise 13 file formats by their first bytes and 34 generators by what they write, and never guess: a
//! [`Reading`] states the text and the rule that every field came from, keeps every text of the file verbatim, and
//! notes what could not be read. Only a file that cannot be opened is an error; damaged ones yield what is left of
//! them.
//!
//! # Comparing
//! ```
//! use retake_recipe::{Recipe, RecipeDiff};
//!
//! let old = Recipe::new("a cat, (red scarf:1.2)").steps(20).seed(1);
//! let new = Recipe::new("a cat, (red scarf:1.4), snow").steps(30).seed(1);
//! let diff = RecipeDiff::between(&old, &new);
//! assert_eq!(diff.summary, "~red scarf 1.2→1.4  +snow  steps 20→30");
//! ```
//! Prompts are compared tag by tag with their weights, or word by word if they are prose; ComfyUI graphs node by node. The
//! time is bounded for any input.
//!
//! # Writing
//! [`metadata::a1111_text`] writes a recipe as A1111 does, and [`metadata::embed`] embeds texts into PNG, JPEG and WebP
//! files without changing their pixels.
//!
//! # Fields
//! A recipe field is declared once, in the table of [`fields`]: its JSON key, flag, limits and labels follow from there.

pub mod diff;
pub mod fields;
pub mod hash;
pub mod metadata;
pub mod recipe;
mod schema;
pub mod time;

pub use diff::{RecipeDiff, StepLabel};
pub use fields::{FIELDS, Field};
pub use hash::Hash;
pub use metadata::{Format, Generator, Reading, read, read_bytes, read_from, read_stream};
pub use recipe::{Invalid, Lora, ParseSeedError, Recipe, Seed};
pub use time::Timestamp;
