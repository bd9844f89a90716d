//! Fuzzes the directories of a TIFF file, in either byte order.
#![no_main]

use libfuzzer_sys::fuzz_target;
use retake_recipe::{read_bytes, read_stream};

fuzz_target!(|bytes: &[u8]| {
    for beginning in [b"II*\0\x08\0\0\0", b"MM\0*\0\0\0\x08"] {
        let file = [beginning.as_slice(), bytes].concat();
        let _ = read_bytes(&file);
        let _ = read_stream(file.as_slice());
    }
});
