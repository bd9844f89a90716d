//! Fuzzes the boxes of a file whose brand is chosen by the first byte: AVIF, HEIC, JPEG XL, MP4 or QuickTime.
#![no_main]

use libfuzzer_sys::fuzz_target;
use retake_recipe::{read_bytes, read_stream};

const BEGINNINGS: [&[u8]; 5] = [
    b"\0\0\0\x10ftypavif\0\0\0\0",
    b"\0\0\0\x10ftypheic\0\0\0\0",
    b"\0\0\0\x0cJXL \r\n\x87\n",
    b"\0\0\0\x10ftypisom\0\0\0\0",
    b"\0\0\0\x10ftypqt  \0\0\0\0",
];

fuzz_target!(|bytes: &[u8]| {
    let Some((first, rest)) = bytes.split_first() else { return };
    let file = [BEGINNINGS[usize::from(*first) % BEGINNINGS.len()], rest].concat();
    let _ = read_bytes(&file);
    let _ = read_stream(file.as_slice());
});
