//! Fuzzes an image into which a text is embedded: it must be refused, or readable afterwards.
#![no_main]

use libfuzzer_sys::fuzz_target;
use retake_recipe::metadata::embed;
use retake_recipe::read_bytes;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(embedded) = embed(bytes, &[("parameters", "a cat\nSteps: 1, Seed: 2, Size: 3x4"), ("id", "x")]) {
        let _ = read_bytes(&embedded);
    }
});
