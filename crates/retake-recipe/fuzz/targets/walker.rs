//! Fuzzes a whole file: the walker must list what it can and return.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let reading = retake_recipe::read_bytes(bytes);
    let text: usize = reading.raw.iter().map(|raw| raw.text.len()).sum();
    assert!(text <= 16 * 1024 * 1024, "the cap on text was exceeded");
});
