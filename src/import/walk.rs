//! Walks the given paths for images. Unreadable entries are skipped; symlink cycles are detected.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use walkdir::{DirEntry, WalkDir};

use super::{FileProblem, Problems};

/// A file that may be an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    /// Where it is.
    pub(crate) path: PathBuf,
    /// The output folder of the tool that wrote it. Different roots never share a session.
    pub(crate) root: PathBuf,
}

/// The file extensions of images and videos. The actual type is read from the contents, since many files have the
/// extension of another type.
const ENDINGS: [&str; 22] = [
    "png", "jpg", "jpeg", "jfif", "webp", "gif", "avif", "apng", "heic", "heif", "hif", "jxl", "tif", "tiff", "bmp",
    "exr", "mp4", "m4v", "mov", "qt", "webm", "mkv",
];

/// Folders that operating systems and other programs create next to images.
const NOT_OURS: [&str; 6] =
    ["@eadir", "$recycle.bin", "system volume information", "__macosx", "thumbnails", "lost+found"];

/// Subfolders into which tools sort their output.
pub(super) const SORTED_INTO: [&str; 15] = [
    "txt2img-images",
    "img2img-images",
    "extras-images",
    "txt2img-grids",
    "img2img-grids",
    "init-images",
    "txt2img",
    "img2img",
    "extras",
    "grids",
    "text",
    "image",
    "control",
    "save",
    "raw",
];

/// Returns the images below these paths, sorted by name. The paths must exist; unreadable entries below them are
/// reported.
pub(super) fn walk(paths: &[PathBuf], problems: &mut Problems) -> Vec<Candidate> {
    let mut found = Vec::new();
    for path in paths {
        let given = path.as_path();
        // Follow links, since people use them to redirect output; walkdir detects cycles.
        let entries = WalkDir::new(given).follow_links(true).sort_by_file_name().into_iter();
        for entry in entries.filter_entry(|entry| entry.depth() == 0 || is_ours(entry)) {
            match entry {
                Ok(entry)
                    if entry.file_type().is_file()
                        && (entry.depth() == 0 || (may_be_picture(entry.path()) && !is_by_product(entry.path()))) =>
                {
                    found.push(Candidate { root: root(given, entry.path()), path: entry.into_path() });
                }
                Ok(_) => {}
                // Everything in a cycle has been found already.
                Err(error) if error.loop_ancestor().is_some() => {}
                Err(error) => {
                    let path = error.path().unwrap_or(given).to_owned();
                    let reason = error.io_error().map_or_else(|| error.to_string(), unreadable);
                    // A dangling link is not an image, so nothing is missing.
                    if !is_dangling(&path) {
                        problems.push(FileProblem::new(&path, reason));
                    }
                }
            }
        }
    }
    found.sort_by(|one, other| one.path.cmp(&other.path));
    found.dedup_by(|one, other| one.path == other.path);
    found
}

/// Describes the error for a file that cannot be read.
pub(super) fn unreadable(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "not allowed to read it".to_owned(),
        io::ErrorKind::NotFound => "it is gone".to_owned(),
        _ => format!("cannot read it: {error}"),
    }
}

/// Returns whether a file has the extension of an image or video.
pub(crate) fn may_be_picture(path: &Path) -> bool {
    let hidden = path.file_name().is_some_and(is_hidden);
    let ending = path.extension().and_then(OsStr::to_str).map(str::to_ascii_lowercase);
    !hidden && ending.is_some_and(|ending| ENDINGS.contains(&ending.as_str()))
}

/// Returns the output folder of the tool that wrote an image below the given path.
pub(crate) fn root(given: &Path, path: &Path) -> PathBuf {
    let folder = path.parent().unwrap_or(path);
    // The nearest `output` or `outputs` folder is the root, whatever the tool sorts files into below it.
    let named = |part: &Path, names: &[&str]| {
        part.file_name().and_then(OsStr::to_str).is_some_and(|name| names.contains(&name.to_ascii_lowercase().as_str()))
    };
    if let Some(output) = folder.ancestors().find(|part| named(part, &["output", "outputs"])) {
        return output.to_owned();
    }
    // A1111's Save button puts copies into `log/images`, next to the folder of the batch.
    if named(folder, &["images"])
        && let Some(log) = folder.parent().filter(|log| named(log, &["log"]))
        && let Some(above) = log.parent()
    {
        let outputs = ["outputs", "output"].map(|name| above.join(name));
        return outputs.into_iter().find(|outputs| outputs.is_dir()).unwrap_or_else(|| above.to_owned());
    }
    let mut root = folder;
    while root != given {
        let dated = root.file_name().and_then(OsStr::to_str).is_some_and(|name| super::times::date_in(name).is_some());
        match root.parent() {
            Some(above) if dated || named(root, &SORTED_INTO) => root = above,
            _ => break,
        }
    }
    root.to_owned()
}

fn is_ours(entry: &DirEntry) -> bool {
    let is_foreign_folder = entry.file_type().is_dir() && is_foreign(entry.path());
    !is_hidden(entry.file_name()) && !is_foreign_folder
}

/// Returns whether images in a folder are not imported: system folders, workspaces (their images are recorded already),
/// and the previews that ComfyUI deletes on startup.
fn is_foreign(folder: &Path) -> bool {
    let name = folder.file_name().and_then(OsStr::to_str).map(str::to_ascii_lowercase).unwrap_or_default();
    let previews = || {
        let above = folder.parent();
        let is_comfy = above.and_then(Path::file_name).is_some_and(|name| name.eq_ignore_ascii_case("comfyui"));
        name == "temp" && (is_comfy || above.is_some_and(|above| above.join("output").is_dir()))
    };
    NOT_OURS.contains(&name.as_str()) || previews() || folder.join("retake.toml").is_file()
}

/// Returns whether an image only represents others: a preview, or the contact sheet of an exported folder.
fn is_by_product(path: &Path) -> bool {
    let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
    name.starts_with("ComfyUI_temp_")
        || (name.starts_with("contact-sheet") && path.with_file_name("session.md").is_file())
}

/// Returns whether [`walk`] would skip a file below the given path.
pub(crate) fn is_passed_over(given: &Path, path: &Path) -> bool {
    let folders = path.ancestors().skip(1).take_while(|folder| *folder != given && folder.starts_with(given));
    let mut folders = folders.filter(|folder| folder.file_name().is_some_and(is_hidden) || is_foreign(folder));
    is_by_product(path) || folders.next().is_some()
}

fn is_hidden(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b".")
}

fn is_dangling(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink()) && !path.exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_is_where_a_tool_writes_to() {
        for (given, path, expected) in [
            ("/p", "/p/comfy/output/a_00001_.png", "/p/comfy/output"),
            ("/p", "/p/comfy/output/portraits/a_00001_.png", "/p/comfy/output"),
            ("/p/output", "/p/output/flux/x.png", "/p/output"),
            ("/p", "/p/sd/outputs/txt2img-images/2024-05-01/00001-7.png", "/p/sd/outputs"),
            ("/p", "/p/sd/txt2img-images/2024-05-01/00001-7.png", "/p/sd"),
            ("/p", "/p/2024-05-01/00001-7.png", "/p"),
            ("/p", "/p/cats/a.png", "/p/cats"),
            ("/p", "/p/a.png", "/p"),
        ] {
            assert_eq!(root(Path::new(given), Path::new(path)), Path::new(expected), "{path}");
        }
    }

    #[test]
    fn hidden_temporary_and_exported_files_are_skipped() {
        let dir = tempfile::tempdir().unwrap();
        let names = [
            "a.PNG",
            "b.webp",
            "c.MP4",
            "d.heic",
            ".hidden.png",
            "notes.txt",
            "sub/c.jpg",
            ".trash/d.png",
            "@eaDir/e.png",
            "ComfyUI/temp/ComfyUI_temp_abcde_00001_.png",
            "ComfyUI/temp/preview.png",
            "sent/session.md",
            "sent/contact-sheet.png",
            "sent/contact-sheet-2.png",
        ];
        for name in names {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "x").unwrap();
        }
        fs::create_dir_all(dir.path().join("ws/images")).unwrap();
        fs::write(dir.path().join("ws/retake.toml"), "").unwrap();
        fs::write(dir.path().join("ws/images/f.png"), "x").unwrap();
        let mut problems = Problems::default();
        let found = walk(&[dir.path().to_owned()], &mut problems);
        let names: Vec<_> = found.iter().map(|found| found.path.file_name().unwrap().to_str().unwrap()).collect();
        assert_eq!(names, ["a.PNG", "b.webp", "c.MP4", "d.heic", "c.jpg"]);
        for name in ["ComfyUI/temp/preview.png", "@eaDir/e.png", ".trash/d.png", "sent/contact-sheet.png"] {
            assert!(is_passed_over(dir.path(), &dir.path().join(name)), "{name}");
        }
        assert!(!is_passed_over(dir.path(), &dir.path().join("sub/c.jpg")));
        assert!(problems.named.is_empty());
    }

    #[cfg(unix)]
    #[test]
    fn symlink_cycles_end() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("sub")).unwrap();
        fs::write(dir.path().join("sub/a.png"), "x").unwrap();
        std::os::unix::fs::symlink(dir.path(), dir.path().join("sub/around")).unwrap();
        std::os::unix::fs::symlink(dir.path().join("nowhere"), dir.path().join("sub/b.png")).unwrap();
        let mut problems = Problems::default();
        let found = walk(&[dir.path().to_owned()], &mut problems);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(problems.named.is_empty(), "{:?}", problems.named);
    }
}
