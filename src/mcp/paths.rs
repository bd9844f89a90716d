//! Which files a client may name for us to read: `record-iteration` takes pictures by path.
//!
//! On stdio the client started us and runs as the same user: it can read what we can, so by default any file goes. That
//! is still a way around the limits that someone may have set for the *agent* behind the client, so it can be narrowed
//! to directories. Over HTTP no path is taken at all. Whoever reaches the port need not be the user whose files we can
//! read (another user of the machine, a container, someone behind a tunnel), and what is recorded can be read back:
//! a path would be a way to read any file. There the picture itself comes along as base64.

use std::path::{Path, PathBuf};

use crate::tracker::{Error, ErrorKind, ImageFile, ImageInput};

/// The files that may be named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Paths {
    /// Any that this process can read.
    Any,
    /// Those below these directories, wherever links lead.
    Below(Vec<PathBuf>),
    /// None.
    Never,
}

impl Paths {
    /// Those below these directories, which must be there; any when there are none.
    pub fn below(directories: &[PathBuf]) -> Result<Paths, Error> {
        let found: Result<Vec<PathBuf>, Error> = directories
            .iter()
            .map(|directory| {
                let what = |error: &dyn std::fmt::Display| {
                    Error::new(
                        ErrorKind::Invalid,
                        format!("not a directory that pictures can be taken from: {}", directory.display()),
                        "give a directory that is there",
                    )
                    .caused_by(error)
                };
                let found = directory.canonicalize().map_err(|error| what(&error))?;
                if found.is_dir() { Ok(found) } else { Err(what(&"it is a file")) }
            })
            .collect();
        let found = found?;
        Ok(if found.is_empty() { Paths::Any } else { Paths::Below(found) })
    }

    /// Checks every path among these pictures. One that passes names the file itself from now on, not a link that
    /// could be turned elsewhere before it is read.
    pub(super) fn check(&self, images: &mut [ImageInput]) -> Result<(), Error> {
        for (number, image) in images.iter_mut().enumerate() {
            let (ImageInput::Path(path) | ImageInput::File(ImageFile { path })) = image else { continue };
            match self {
                Paths::Any => (),
                Paths::Never => {
                    return Err(Error::new(
                        ErrorKind::Invalid,
                        format!("images[{number}] is a path, and over HTTP no files are read"),
                        "give the picture itself: {\"data\": base64, \"mimeType\": …}; `retake mcp` on stdio takes paths",
                    ));
                }
                Paths::Below(directories) => {
                    // The same words whether it lies elsewhere or is not there: they tell nothing of what there is.
                    let inside = Path::new(&*path).canonicalize().ok();
                    let inside = inside.filter(|file| directories.iter().any(|directory| file.starts_with(directory)));
                    let Some(inside) = inside else {
                        let shown: Vec<String> = directories.iter().map(|it| it.display().to_string()).collect();
                        return Err(Error::new(
                            ErrorKind::Invalid,
                            format!("images[{number}] is no file that pictures may be taken from: {path}"),
                            format!("give a file below {}, or the picture itself as base64", shown.join(" or ")),
                        ));
                    };
                    *path = inside.to_string_lossy().into_owned();
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(paths: &Paths, path: &Path) -> Result<String, String> {
        let mut images = [ImageInput::Path(path.to_string_lossy().into_owned())];
        paths.check(&mut images).map_err(|error| error.message)?;
        let [ImageInput::Path(path)] = images else { panic!() };
        Ok(path)
    }

    #[test]
    #[cfg(unix)]
    fn links_and_dots_do_not_lead_out() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        let (inside, outside) = (dir.join("in"), dir.join("out"));
        for made in [&inside, &outside] {
            std::fs::create_dir(made).unwrap();
            std::fs::write(made.join("a.png"), "x").unwrap();
        }
        std::os::unix::fs::symlink(outside.join("a.png"), inside.join("link.png")).unwrap();
        std::os::unix::fs::symlink(inside.join("a.png"), outside.join("back.png")).unwrap();
        std::os::unix::fs::symlink(&outside, inside.join("door")).unwrap();
        let paths = Paths::below(std::slice::from_ref(&inside)).unwrap();
        let file = inside.join("a.png").to_string_lossy().into_owned();
        assert_eq!(check(&paths, &inside.join("a.png")), Ok(file.clone()));
        assert_eq!(check(&paths, &inside.join("../in/./a.png")), Ok(file.clone()));
        assert_eq!(check(&paths, &outside.join("back.png")), Ok(file), "a link into it, which it becomes");
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
            assert_eq!(refused, format!("images[0] is no file that pictures may be taken from: {}", path.display()));
        }
        assert!(check(&Paths::Never, &inside.join("a.png")).unwrap_err().contains("over HTTP"));
        assert!(Paths::below(&[dir.join("nowhere")]).is_err());
        assert_eq!(Paths::below(&[]).unwrap(), Paths::Any);
    }
}
