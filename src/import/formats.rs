//! Notes about file types for the import report: which files are videos, and which are stored without a preview because
//! Retake cannot decode them.

use std::collections::BTreeMap;

use super::inspect::InspectedImage;
use crate::images::{is_decoded, is_video};

/// Returns a note for the videos and one for the images without a preview, if there are any.
pub(super) fn notes(found: &[InspectedImage]) -> Vec<String> {
    let count = |wanted: fn(&str) -> bool| {
        let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
        for file in found.iter().filter(|file| wanted(file.mime_type)) {
            *counts.entry(name(file.mime_type)).or_default() += 1;
        }
        counts
    };
    let mut notes = Vec::new();
    if let Some((files, list)) = summed(&count(is_video)) {
        notes.push(match files {
            1 => format!("1 file is a video ({list}): it is kept and played, and its frames are not compared"),
            _ => format!(
                "{files} files are videos ({list}): they are kept and played, and their frames are not compared"
            ),
        });
    }
    if let Some((files, list)) = summed(&count(|mime_type| !is_decoded(mime_type) && !is_video(mime_type))) {
        notes.push(match files {
            1 => format!("1 file ({list}) is of a type that cannot be decoded: it is kept without a preview"),
            _ => format!("{files} files ({list}) are of types that cannot be decoded: they are kept without a preview"),
        });
    }
    notes
}

/// Returns the total and the number of each type; `None` if the total is zero.
fn summed(counts: &BTreeMap<&str, u64>) -> Option<(u64, String)> {
    let list: Vec<String> = match counts.len() {
        1 => counts.keys().map(|name| (*name).to_owned()).collect(),
        _ => counts.iter().map(|(name, count)| format!("{count} {name}")).collect(),
    };
    (!list.is_empty()).then(|| (counts.values().sum(), list.join(", ")))
}

fn name(mime_type: &'static str) -> &'static str {
    let known = crate::images::metadata::Format::ALL.into_iter().find(|format| format.mime_type() == mime_type);
    known.map_or_else(|| if mime_type == "image/x-exr" { "EXR" } else { mime_type }, |format| format.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_listed_by_format() {
        let counts = |pairs: &[(&'static str, u64)]| summed(&pairs.iter().copied().collect());
        assert_eq!(counts(&[("MP4", 3)]), Some((3, "MP4".to_owned())));
        assert_eq!(counts(&[("WebM", 1), ("MP4", 2)]), Some((3, "2 MP4, 1 WebM".to_owned())));
        assert_eq!(counts(&[]), None);
        assert_eq!((name("image/x-exr"), name("video/quicktime"), name("image/jxl")), ("EXR", "QuickTime", "JPEG XL"));
    }
}
