//! Fuzzes the texts of a tool: the first letter of each selects a keyword that readers know, and a NUL starts the next
//! text. The container is always valid, so that all of the fuzzing goes into the readers.
#![no_main]

use libfuzzer_sys::fuzz_target;
use retake_recipe::metadata::{a1111_text, embed};
use retake_recipe::read_bytes;

/// A PNG of one pixel.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\0\0\0\0\x3a\x7e\x9b\x55\0\0\0\nIDAT\x78\x9c\x63\x60\0\0\0\x02\0\x01\x48\xaf\xa4\x71\0\0\0\0IEND\xae\x42\x60\x82";
/// As much of a JPEG as the walker reads.
const JPEG: &[u8] = b"\xff\xd8\xff\xdb\x00\x04\0\0\xff\xd9";
const KEYWORDS: [&str; 16] = [
    "parameters", "prompt", "workflow", "Comment", "Dream", "sd-metadata", "invokeai_metadata", "invokeai_graph", "Description",
    "parameters-json", "generation_data", "fooocus_scheme", "Software", "Source", "XML:com.adobe.xmp", "use_stable_diffusion_model",
];

fuzz_target!(|bytes: &[u8]| {
    let words = String::from_utf8_lossy(bytes);
    let texts: Vec<(&str, &str)> = words
        .split('\0')
        .take(4)
        .filter_map(|text| {
            let first = text.chars().next()?;
            Some((KEYWORDS[first as usize % KEYWORDS.len()], &text[first.len_utf8()..]))
        })
        .collect();
    let Ok(image) = embed(if bytes.first().is_some_and(|first| first % 2 == 1) { JPEG } else { PNG }, &texts) else { return };
    let reading = read_bytes(&image);
    let _ = a1111_text(&reading.recipe);
});
