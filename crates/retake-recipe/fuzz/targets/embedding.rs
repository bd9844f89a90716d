//! Any bytes as a picture that shall take a text: refused, or the text is in it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use retake_recipe::metadata::{embed, read};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(embedded) = embed(bytes, &[("parameters", "a cat\nSteps: 1, Seed: 2, Size: 3x4"), ("id", "x")]) {
        let _ = read(&embedded);
    }
});
