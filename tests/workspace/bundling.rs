//! Audit bundles: they prove on another machine that nothing is missing or altered, or report what is.

use std::fs;
use std::path::PathBuf;

use retake::internals::export::{BundleView, ExportReport, ExportRequest, verify_bundle};
use retake::internals::wire::{AnnotateRequest, ErrorKind, RecordRequest};

use crate::support::*;

/// Creates a workspace with two sessions, a long text, and an image that they share.
fn full() -> TestWorkspace {
    let ws = TestWorkspace::new();
    let picture = path(&ws.file("cat.png", &png(40, 30, 7)));
    let mut parameters = serde_json::Map::new();
    parameters.insert("workflow".into(), "w".repeat(100_000).into());
    let request = RecordRequest {
        images: vec![picture.clone()],
        parameters,
        title: Some("Cats".into()),
        ..prompt(&"long ".repeat(2_000))
    };
    let id = ws.record(&request).session.id().to_string();
    ws.wait(1000);
    ws.record(&RecordRequest { session_id: Some(id.clone()), images: vec![picture], ..prompt("more") });
    let annotate = AnnotateRequest { reference: id, rating: Some(5), ..AnnotateRequest::default() };
    ws.api().annotate(&annotate).unwrap();
    ws.session(3);
    ws
}

fn bundled(ws: &TestWorkspace, request: &ExportRequest) -> (Vec<u8>, ExportReport) {
    let mut out = Vec::new();
    let report = ws.workspace.export_bundle(request, &mut out).unwrap();
    (out, report)
}

/// Verifies these bytes as a file, without a workspace.
fn verified(bytes: &[u8]) -> BundleView {
    let dir = tempfile::tempdir().unwrap();
    let path = written(&dir, bytes);
    verify_bundle(&path, None).unwrap()
}

fn written(dir: &tempfile::TempDir, bytes: &[u8]) -> PathBuf {
    let path = dir.path().join("bundle.tar");
    fs::write(&path, bytes).unwrap();
    path
}

/// Returns the bundle with all occurrences of some bytes replaced by others of the same length.
fn replaced(bundle: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let mut bytes = bundle.to_vec();
    let places: Vec<usize> = (0..bytes.len() - from.len()).filter(|at| bytes[*at..].starts_with(from)).collect();
    assert!(!places.is_empty());
    places.iter().for_each(|at| bytes[*at..*at + to.len()].copy_from_slice(to));
    bytes
}

#[test]
fn a_bundle_proves_itself_without_a_workspace() {
    let ws = full();
    let (bundle, report) = bundled(&ws, &ExportRequest::default());
    assert_eq!((report.sessions, report.events, report.images), (2, 4 + 4, 1));
    assert_eq!(report.problems, Vec::<String>::new());
    let view = verified(&bundle);
    assert_eq!((view.whole, view.sessions, view.events, view.images), (true, 2, 8, 1), "{:?}", view.problems);
    assert_eq!(view.seal, report.seal);
    assert_eq!(view.created_at, Some(time("2025-12-11T10:15:33.123Z")));

    let dir = tempfile::tempdir().unwrap();
    let path = written(&dir, &bundle);
    let seal = report.seal.unwrap().to_string();
    assert!(verify_bundle(&path, Some(&seal)).unwrap().whole);
    let other = verify_bundle(&path, Some(&"0".repeat(64))).unwrap();
    assert_eq!((other.whole, other.problems.len()), (false, 1));
    fails(verify_bundle(&path, Some("short")), ErrorKind::Invalid, "invalid seal");
}

#[test]
fn every_flipped_bit_of_a_bundle_is_found() {
    let ws = full();
    let (bundle, _) = bundled(&ws, &ExportRequest::default());
    // Checking every byte would take minutes; a stride that is coprime to the structure hits every part. The text of
    // the first file is for people, and zeros between files have no meaning.
    for at in (2048..bundle.len() - 1024).step_by(1021).filter(|at| bundle[*at] != 0) {
        let mut altered = bundle.clone();
        altered[at] ^= 0x10;
        assert!(!verified(&altered).whole, "a flipped bit at {at} was not noticed");
    }
}

#[test]
fn what_was_altered_is_named() {
    let ws = full();
    let (bundle, _) = bundled(&ws, &ExportRequest::default());
    let altered = |from: &[u8], to: &[u8]| verified(&replaced(&bundle, from, to)).problems;
    let words = altered(br#""prompt":"more""#, br#""prompt":"less""#);
    assert_eq!(words, ["session-2025-12-11-001: line 3 does not match its record"]);
    let rating = altered(br#""rating":5"#, br#""rating":1"#);
    assert_eq!(rating, ["session-2025-12-11-001: line 4 does not match its record"]);
    let picture = altered(b"IHDR\0\0\0\x28", b"IHDR\0\0\0\x29");
    assert!(picture[0].starts_with("image ") && picture[0].ends_with(" is altered"), "{picture:?}");
    let text = altered(b"wwwwwwwwwwwwwwww", b"wwwwwwwwvwwwwwww");
    assert!(text[0].starts_with("text ") && text[0].ends_with(" is altered"), "{text:?}");
}

/// Returns the ranges of the first session's lines.
fn first_lines(bundle: &[u8]) -> Vec<std::ops::Range<usize>> {
    let begins = |at: &usize| {
        bundle[*at..].starts_with(b"{\"type\":\"event\"") && (*at == 0 || b"\n\0".contains(&bundle[at - 1]))
    };
    let lines = (0..bundle.len()).filter(begins).map(|at| {
        let length = bundle[at..].iter().position(|byte| *byte == b'\n').unwrap() + 1;
        at..at + length
    });
    let lines: Vec<_> = lines.collect();
    let joined = lines.windows(2).take_while(|pair| pair[0].end == pair[1].start).count();
    lines[..=joined].to_vec()
}

#[test]
fn events_that_changed_places_are_found() {
    let ws = full();
    let (bundle, _) = bundled(&ws, &ExportRequest::default());
    let lines = first_lines(&bundle);
    assert_eq!(lines.len(), 4);
    // The first line, the last line and their number stay the same.
    let (second, third) = (&bundle[lines[1].clone()], &bundle[lines[2].clone()]);
    let swapped = [&bundle[..lines[1].start], third, second, &bundle[lines[2].end..]].concat();
    let problems = verified(&swapped).problems;
    assert!(problems.iter().any(|problem| problem.ends_with("does not follow the one before it")), "{problems:?}");
}

#[test]
fn a_record_that_was_altered_does_not_prove_itself() {
    let ws = full();
    let (bundle, _) = bundled(&ws, &ExportRequest::default());
    let line = first_lines(&bundle)[1].clone();
    let record = line.start + bundle[line].windows(10).position(|part| part == br#""record":""#).unwrap() + 10;
    let mut altered = bundle;
    altered[record + 40] = if altered[record + 40] == b'A' { b'B' } else { b'A' };
    let problems = verified(&altered).problems;
    assert!(problems[0].ends_with("line 2 is altered: its record does not match its own hash"), "{problems:?}");
}

#[test]
fn what_does_not_belong_to_a_bundle_and_what_it_does_not_name_is_found() {
    let ws = full();
    let (bundle, _) = bundled(&ws, &ExportRequest::default());
    // The header of an empty tar file, before the zeros at the end.
    let mut header = [0; 512];
    header[..9].copy_from_slice(b"added.txt");
    header[100..107].copy_from_slice(b"0000644");
    header[124..135].copy_from_slice(b"00000000000");
    header[148..156].fill(b' ');
    header[156] = b'0';
    header[257..263].copy_from_slice(b"ustar\0");
    header[263..265].copy_from_slice(b"00");
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    let end = bundle.len() - 1024;
    let added = [&bundle[..end], &header, &bundle[end..]].concat();
    assert_eq!(verified(&added).problems, ["\"added.txt\" does not belong to the bundle"]);

    // The manifest lists another image than the session does.
    let manifest = bundle.windows(10).rposition(|part| part == br#""images":["#).unwrap();
    let hash = manifest + bundle[manifest..].windows(8).position(|part| part == br#""hash":""#).unwrap() + 8;
    let mut other = bundle;
    other[hash] = if other[hash] == b'0' { b'1' } else { b'0' };
    let problems = verified(&other).problems;
    let unnamed = |problem: &&String| {
        problem.starts_with("session-2025-12-11-001#") && problem.ends_with("is not named by the manifest")
    };
    assert_eq!(problems.iter().filter(unnamed).count(), 2, "{problems:?}");
}

#[test]
fn dropping_the_last_event_is_found() {
    let ws = full();
    let (bundle, _) = bundled(&ws, &ExportRequest::default());
    // The line is replaced by spaces: the chain before it holds.
    let text = bundle.windows(2).position(|pair| pair == b"{\"").unwrap();
    let line = bundle.windows(18).rposition(|part| part == br#""kind":"annotated""#).unwrap();
    let start = line - bundle[text..line].iter().rev().position(|byte| *byte == b'\n').unwrap();
    let end = line + bundle[line..].iter().position(|byte| *byte == b'\n').unwrap();
    let mut dropped = bundle;
    dropped[start..end].fill(b' ');
    let problems = verified(&dropped).problems;
    assert!(problems.iter().any(|problem| problem.contains("or ends with a different one")), "{problems:?}");
}

#[test]
fn a_truncated_bundle_is_reported_and_checked_as_far_as_it_goes() {
    let ws = full();
    let (bundle, _) = bundled(&ws, &ExportRequest::default());
    for end in (2000..bundle.len() - 1024).step_by(4099) {
        let view = verified(&bundle[..end]);
        assert!(!view.whole, "cut at {end}");
        assert!(view.problems[0].contains("cut short"), "{:?}", view.problems);
    }
}

#[test]
fn images_missing_from_the_workspace_are_listed_and_not_a_fault_of_the_bundle() {
    let ws = full();
    let (bare, report) = bundled(&ws, &ExportRequest { omit_images: true, ..ExportRequest::default() });
    assert_eq!((report.images, report.problems.len()), (0, 0));
    let view = verified(&bare);
    assert!(view.whole, "{:?}", view.problems);
    assert!(view.left_out[0].contains("left out as asked"), "{:?}", view.left_out);

    fs::remove_dir_all(ws.root().join("images")).unwrap();
    let (_, report) = bundled(&ws, &ExportRequest::default());
    assert!(report.problems[0].starts_with("session-2025-12-11-001#0: image "), "{:?}", report.problems);
}

#[test]
fn other_files_are_refused_as_bundles() {
    let dir = tempfile::tempdir().unwrap();
    for bytes in [&b""[..], b"hello", &png(64, 64, 3), &[0; 4096], br#"{"type":"retake-export","version":1}"#] {
        fails(verify_bundle(&written(&dir, bytes), None), ErrorKind::Invalid, "this is not a bundle");
    }
    fails(verify_bundle(&dir.path().join("absent"), None), ErrorKind::NotFound, "cannot read the bundle");
    fails(verify_bundle(dir.path(), None), ErrorKind::Invalid, "cannot read the bundle");
}
