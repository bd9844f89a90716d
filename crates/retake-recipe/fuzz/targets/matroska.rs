//! Fuzzes the elements of a Matroska file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use retake_recipe::{read_bytes, read_stream};

fuzz_target!(|bytes: &[u8]| {
    let file = [b"\x1a\x45\xdf\xa3\x87\x42\x82\x84webm".as_slice(), bytes].concat();
    let _ = read_bytes(&file);
    let _ = read_stream(file.as_slice());
});
