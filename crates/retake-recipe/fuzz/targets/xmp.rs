//! Fuzzes an XMP packet in a PNG.
#![no_main]

use libfuzzer_sys::fuzz_target;
use retake_recipe::read_bytes;

fuzz_target!(|bytes: &[u8]| {
    let chunk = [b"XML:com.adobe.xmp\0\0\0\0\0".as_slice(), bytes].concat();
    let length = u32::try_from(chunk.len()).unwrap_or(0).to_be_bytes();
    let file = [b"\x89PNG\r\n\x1a\n".as_slice(), &length, b"iTXt", &chunk, &[0; 4]].concat();
    let _ = read_bytes(&file);
});
