//! The files that a client may ask us to read: `record-iteration` and `search-iterations` accept images by path.
//!
//! On stdio, the client started us and runs as the same user: it can read what we can, so by default any file is
//! accepted. That is still a way around restrictions on the *agent* behind the client, so it can be limited to
//! directories. Over HTTP, no path is accepted at all: the client may not be the user whose files we can read (another
//! user of the machine, a container, the far end of a tunnel), and recorded files can be read back.
//!
//! Below a directory, a file is opened relative to the directory's handle, one component at a time and without
//! following links, and this open file is the one that is read, both for recording and for comparing (`similarTo`).
//! Replacing a path by a link after the check has no effect. Hard links are ordinary files: creating one below the
//! directory requires the right to read its target.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::platform;
use crate::wire::{Error, ErrorKind, ImageFile, ImageInput, OpenedImage};

/// The files that may be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Paths {
    /// Any file that this process can read.
    Any,
    /// Files below these directories, after resolving links.
    Below(Vec<Root>),
    /// No files.
    Never,
}

/// A directory below which files may be read.
#[derive(Clone, Debug)]
pub struct Root {
    path: PathBuf,
    handle: Option<Arc<File>>,
}

impl PartialEq for Root {
    fn eq(&self, other: &Root) -> bool {
        self.path == other.path
    }
}

impl Eq for Root {}

impl Root {
    fn open(directory: &Path) -> io::Result<Root> {
        let path = directory.canonicalize()?;
        if !path.is_dir() {
            return Err(io::Error::new(io::ErrorKind::NotADirectory, "it is a file"));
        }
        let handle = platform::open_dir(&path)?.map(Arc::new);
        Ok(Root { path, handle })
    }

    /// Opens a file by its canonical path, which contains no links unless it was changed after it was resolved.
    fn open_file(&self, path: &Path) -> io::Result<File> {
        let below = path.strip_prefix(&self.path).map_err(io::Error::other)?;
        platform::open_beneath(self.handle.as_deref(), &self.path, below)
    }
}

impl Paths {
    /// Allows files below these directories, which must exist; any file if there are none.
    pub fn below(directories: &[PathBuf]) -> Result<Paths, Error> {
        let roots = directories.iter().map(|directory| {
            Root::open(directory).map_err(|error| {
                Error::new(
                    ErrorKind::Invalid,
                    format!("--root cannot be used: {}", directory.display()),
                    "pass a directory that exists and that you may read",
                )
                .caused_by(error)
            })
        });
        let roots = roots.collect::<Result<Vec<Root>, Error>>()?;
        Ok(if roots.is_empty() { Paths::Any } else { Paths::Below(roots) })
    }

    /// Checks every path among these images, and opens the files if only some may be read.
    pub(super) fn open(&self, images: &mut [ImageInput]) -> Result<(), Error> {
        self.check(images)?;
        let Paths::Below(roots) = self else { return Ok(()) };
        for (number, image) in images.iter_mut().enumerate() {
            let (ImageInput::Path(path) | ImageInput::File(ImageFile { path })) = image else { continue };
            let file = roots.iter().find_map(|root| root.open_file(Path::new(&*path)).ok());
            let file = file.filter(|file| file.metadata().is_ok_and(|found| found.is_file()));
            let file = file.ok_or_else(|| outside(number, path, roots))?;
            *image = ImageInput::Opened(OpenedImage::new(file, PathBuf::from(&*path)));
        }
        Ok(())
    }

    /// Checks every path among these images by name. An accepted path is that of the file itself, not of a link.
    fn check(&self, images: &mut [ImageInput]) -> Result<(), Error> {
        for (number, image) in images.iter_mut().enumerate() {
            let (ImageInput::Path(path) | ImageInput::File(ImageFile { path })) = image else { continue };
            match self {
                Paths::Any => (),
                Paths::Never => {
                    return Err(Error::new(
                        ErrorKind::Invalid,
                        format!("images[{number}] is a path, and over HTTP no files are read"),
                        "give the image itself: {\"data\": base64, \"mimeType\": …}; `retake mcp` on stdio takes paths",
                    ));
                }
                Paths::Below(roots) => {
                    let inside = Path::new(&*path).canonicalize().ok();
                    let inside = inside.filter(|file| roots.iter().any(|root| file.starts_with(&root.path)));
                    let inside = inside.ok_or_else(|| outside(number, path, roots))?;
                    *path = inside.to_string_lossy().into_owned();
                }
            }
        }
        Ok(())
    }
}

/// Creates the error for a file outside the roots. It is the same for a file that does not exist, so as not to reveal
/// which files do.
fn outside(number: usize, path: &str, roots: &[Root]) -> Error {
    let shown: Vec<String> = roots.iter().map(|root| root.path.display().to_string()).collect();
    Error::new(
        ErrorKind::Invalid,
        format!("images[{number}] is not a file that images may be taken from: {path}"),
        format!("give a file below {}, or the image itself as base64", shown.join(" or ")),
    )
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::io::Read;

    use super::*;

    fn check(paths: &Paths, path: &Path) -> Result<String, String> {
        let mut images = [ImageInput::Path(path.to_string_lossy().into_owned())];
        paths.check(&mut images).map_err(|error| error.message)?;
        let [ImageInput::Path(path)] = images else { panic!() };
        Ok(path)
    }

    /// Creates the directories `in` and `out`, each with a file `a.png` that contains its directory's name.
    fn inside_and_outside() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap();
        let (inside, outside) = (path.join("in"), path.join("out"));
        for made in [&inside, &outside] {
            std::fs::create_dir(made).unwrap();
            std::fs::write(made.join("a.png"), made.file_name().unwrap().to_str().unwrap()).unwrap();
        }
        (dir, inside, outside)
    }

    #[test]
    fn links_and_dots_cannot_escape_the_root() {
        let (dir, inside, outside) = inside_and_outside();
        let dir = dir.path().canonicalize().unwrap();
        std::os::unix::fs::symlink(outside.join("a.png"), inside.join("link.png")).unwrap();
        std::os::unix::fs::symlink(inside.join("a.png"), outside.join("back.png")).unwrap();
        std::os::unix::fs::symlink(&outside, inside.join("door")).unwrap();
        let paths = Paths::below(std::slice::from_ref(&inside)).unwrap();
        let file = inside.join("a.png").to_string_lossy().into_owned();
        assert_eq!(check(&paths, &inside.join("a.png")), Ok(file.clone()));
        assert_eq!(check(&paths, &inside.join("../in/./a.png")), Ok(file.clone()));
        assert_eq!(check(&paths, &outside.join("back.png")), Ok(file), "a link into it, which is resolved");
        for path in [
            outside.join("a.png"),
            inside.join("link.png"),
            inside.join("../out/a.png"),
            inside.join("door/a.png"),
            inside.join("absent.png"),
            dir.join("in-between.png"),
            PathBuf::from(""),
        ] {
            let refused = check(&paths, &path).unwrap_err();
            assert_eq!(refused, format!("images[0] is not a file that images may be taken from: {}", path.display()));
        }
        assert!(check(&Paths::Never, &inside.join("a.png")).unwrap_err().contains("over HTTP"));
        assert!(Paths::below(&[dir.join("nowhere")]).is_err());
        assert_eq!(Paths::below(&[]).unwrap(), Paths::Any);
    }

    #[test]
    fn a_directory_replaced_by_a_link_after_the_check_is_refused() {
        let (_dir, inside, outside) = inside_and_outside();
        std::fs::create_dir(inside.join("sub")).unwrap();
        std::fs::write(inside.join("sub/a.png"), "in").unwrap();
        let root = Root::open(&inside).unwrap();
        let checked = inside.join("sub/a.png").canonicalize().unwrap();
        let read = || {
            let mut text = String::new();
            root.open_file(&checked)?.read_to_string(&mut text).map(|_| text)
        };
        assert_eq!(read().unwrap(), "in");
        std::fs::rename(inside.join("sub"), inside.join("moved")).unwrap();
        std::os::unix::fs::symlink(&outside, inside.join("sub")).unwrap();
        assert!(read().is_err(), "{:?}", read());
        std::fs::remove_file(inside.join("sub")).unwrap();
        std::fs::create_dir(inside.join("sub")).unwrap();
        std::os::unix::fs::symlink(outside.join("a.png"), inside.join("sub/a.png")).unwrap();
        assert!(read().is_err(), "{:?}", read());
    }

    #[test]
    fn the_open_file_is_what_is_read() {
        let (_dir, inside, outside) = inside_and_outside();
        let paths = Paths::below(std::slice::from_ref(&inside)).unwrap();
        let mut images = [ImageInput::Path(inside.join("a.png").to_string_lossy().into_owned())];
        paths.open(&mut images).unwrap();
        assert!(matches!(images, [ImageInput::Opened(_)]));
        let mut images = [ImageInput::Path(outside.join("a.png").to_string_lossy().into_owned())];
        paths.open(&mut images).unwrap_err();
    }
}
