//! `show --raw`: any image, recorded or not, and files that are not images.

#[cfg(target_os = "linux")]
use std::process::Command;

use retake::internals::images::metadata::embed;

use crate::support::{FIRST, PIXEL, TestWorkspace, Transcript};

const TEXT: &str = "a glass bridge, <lora:glass:0.8>\nNegative prompt: fog\u{1b}[31m\nSteps: 20, Sampler: Euler a, CFG scale: 7, Seed: 42, Size: 64x32, Model hash: 1f, Model: bridges, Clip skip: 2, Version: v1.10.1";

fn picture() -> Vec<u8> {
    embed(PIXEL, &[("parameters", TEXT), ("Software", "unknown")]).unwrap()
}

#[test]
fn shows_the_metadata_of_a_file() {
    let workspace = TestWorkspace::new();
    workspace.file("bridge.png", picture());
    workspace.file("plain.png", PIXEL);
    workspace.file("note.txt", "no picture");
    workspace.file("long.png", embed(PIXEL, &[("Comment", &"words on a line\n".repeat(30))]).unwrap());
    workspace.record(1, &["a glass bridge", "--image", "bridge.png"]);
    let first = format!("{FIRST}#0");
    let mut transcript = Transcript::new(&workspace);
    transcript.run(&["show", "--raw", "bridge.png"]);
    transcript.run(&["show", "--raw", &first]);
    transcript.run(&["show", "--raw", "plain.png"]);
    transcript.run(&["show", "--raw", "note.txt"]);
    transcript.run(&["show", "--raw", "long.png"]);
    transcript.run(&["show", "--raw", "gone.png"]);
    transcript.run(&["show", "--raw", "."]);
    transcript.run(&["show", "--raw", "latest", "--json"]);
    transcript.check("raw");
}

/// The message for each format: "no text" only if it was searched, and that it cannot be decoded if it cannot.
#[test]
fn each_format_is_named_with_its_limitations() {
    let workspace = TestWorkspace::new();
    let bmp = [b"BM\x3a\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0\x03\0\0\0\x02\0\0\0".as_slice(), &[0; 32]].concat();
    workspace.file("a.bmp", bmp);
    workspace.file("a.exr", b"v/1\x01 not much of one");
    workspace.file("a.tif", b"II*\0\x08\0\0\0\0\0\0\0\0\0");
    workspace.file("a.heic", b"\0\0\0\x18ftypheic\0\0\0\0mif1heic");
    workspace.file("a.avif", b"\0\0\0\x18ftypavif\0\0\0\0mif1avif");
    workspace.file("a.jxl", b"\0\0\0\x0cJXL \r\n\x87\n");
    workspace.file("a.mp4", retake_testutils::videos::MP4);
    let no_text = "there is no text in this file";
    for (file, printed) in [
        ("a.bmp", &["image/bmp 3x2", "BMP files have no place for texts", "BMP images are not decoded"][..]),
        ("a.exr", &["EXR files are not searched for texts", "EXR images are not decoded"]),
        ("a.tif", &[no_text, "TIFF images are not decoded"]),
        ("a.heic", &[no_text, "HEIC images are not decoded"]),
        ("a.avif", &[no_text, "AVIF images are not decoded"]),
        ("a.jxl", &[no_text, "JPEG XL images are not decoded"]),
        ("a.mp4", &["video/mp4 64x48", "a fox runs through snow"]),
    ] {
        let shown = workspace.run(&["show", "--raw", file]).stdout();
        for printed in printed {
            assert!(shown.contains(printed), "{file}: {shown}");
        }
        assert_eq!(shown.contains(no_text), printed.contains(&no_text), "{file}: {shown}");
    }
    let report = workspace.run(&["import", "--dry-run", "."]);
    let (out, notes) = (report.stdout(), report.stderr());
    assert!(out.contains("would import") && out.contains("7 images"), "{report}");
    assert!(notes.contains("1 file is a video (MP4)"), "{report}");
    assert!(
        notes.contains("6 files (1 AVIF, 1 BMP, 1 EXR, 1 HEIC, 1 JPEG XL, 1 TIFF) are of types that cannot"),
        "{report}"
    );
    for file in ["a.bmp", "a.heic", "a.avif", "a.jxl", "a.tif", "a.exr", "a.mp4"] {
        let recorded = workspace.run(&["record", "a prompt", "--image", file]);
        assert!(recorded.output.status.success(), "{recorded}");
    }
    let shown = workspace.run(&["show", "latest"]).stdout();
    assert!(shown.contains("video ") && shown.contains("a.mp4 (video/mp4, 64x48, 2"), "{shown}");
}

#[test]
fn reads_a_file_without_a_workspace() {
    let workspace = TestWorkspace::new();
    std::fs::remove_dir(workspace.workspace()).unwrap();
    workspace.file("bridge.png", picture());
    let view = workspace.json(&["show", "--raw", "bridge.png"]);
    assert_eq!((&view["file"], &view["generator"]), (&"bridge.png".into(), &"A1111".into()));
    assert_eq!((&view["recipe"]["seed"], &view["recipe"]["steps"]), (&"42".into(), &20.into()));
    assert_eq!(view["raw"][0]["text"], TEXT);
    assert_eq!(view["raw"][0]["where"], "PNG iTXt at byte 33");
    workspace.file("plain.png", PIXEL);
    let nothing = workspace.json(&["show", "--raw", "plain.png"]);
    assert_eq!((&nothing["generator"], nothing["recipe"].to_string().as_str()), (&serde_json::Value::Null, "{}"));
    assert!(!workspace.workspace().exists() && !workspace.root().join("home").exists());
}

/// The texts of a recorded video are read from its file: the memory that is allowed is a fraction of its size.
#[cfg(target_os = "linux")]
#[test]
fn a_recorded_video_is_not_loaded_into_memory() {
    const FILLER: usize = 160 << 20;
    let workspace = TestWorkspace::new();
    let mut video = retake_testutils::videos::MP4.to_vec();
    let length = video.len() + 8 + FILLER;
    video.extend(u32::try_from(8 + FILLER).unwrap().to_be_bytes());
    video.extend(b"free");
    video.resize(length, 0);
    workspace.file("long.mp4", video);
    workspace.record(1, &["a fox", "--image", "long.mp4"]);
    let command = workspace.command(&["show", "--raw", &format!("{FIRST}#0")]);
    let mut limited = Command::new("/bin/sh");
    limited.args(["-c", "ulimit -d 131072 && exec \"$@\"", "sh"]).arg(command.get_program()).args(command.get_args());
    limited.env_clear().envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    limited.current_dir(command.get_current_dir().unwrap());
    let output = limited.output().unwrap();
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(shown.contains("video/mp4 64x48") && shown.contains("a fox runs through snow"), "{shown}");
}
