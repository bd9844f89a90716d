//! Fuzzes a C2PA manifest store in a PNG.
#![no_main]

use libfuzzer_sys::fuzz_target;
use retake_recipe::read_bytes;

fuzz_target!(|bytes: &[u8]| {
    let length = u32::try_from(bytes.len()).unwrap_or(0).to_be_bytes();
    let file = [b"\x89PNG\r\n\x1a\n".as_slice(), &length, b"caBX", bytes, &[0; 4]].concat();
    let _ = read_bytes(&file);
});
