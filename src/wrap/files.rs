//! Reads files that a server names: only regular files that are images, and never through a symbolic link.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::images::{Header, MAX_IMAGE_BYTES, UNKNOWN_TYPE};

/// An image file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServerFile {
    /// Where it is.
    pub(crate) path: PathBuf,
    /// When it was last changed.
    pub(crate) modified: Option<SystemTime>,
    /// Its bytes.
    pub(crate) bytes: Vec<u8>,
}

/// The base for relative paths and `~`: the working directory and the home directory of the server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Base {
    /// The working directory.
    pub(crate) dir: PathBuf,
    /// The home directory.
    pub(crate) home: Option<PathBuf>,
}

impl Base {
    /// Returns those of this process, which the server inherits.
    pub(crate) fn of_this_process() -> Base {
        let home = directories::BaseDirs::new().map(|dirs| dirs.home_dir().to_owned());
        Base { dir: std::env::current_dir().unwrap_or_default(), home }
    }

    /// Makes a path absolute.
    pub(crate) fn resolve(&self, name: &str) -> PathBuf {
        let rest = name.strip_prefix("~/").or_else(|| name.strip_prefix("~\\"));
        match (rest, &self.home) {
            (Some(rest), Some(home)) => home.join(rest),
            _ => self.dir.join(name),
        }
    }

    /// Reads the image at this path, if there is one.
    pub(crate) fn image(&self, name: &str) -> Option<ServerFile> {
        read(&self.resolve(name))
    }
}

fn read(path: &Path) -> Option<ServerFile> {
    // The server may name any path: do not follow links, and do not read devices or pipes.
    let found = fs::symlink_metadata(path).ok().filter(fs::Metadata::is_file)?;
    if found.len() == 0 || found.len() > MAX_IMAGE_BYTES {
        return None;
    }
    let mut file = File::open(path).ok()?;
    let mut bytes = Vec::new();
    (&mut file).take(16).read_to_end(&mut bytes).ok()?;
    if Header::of(&bytes).mime_type == UNKNOWN_TYPE {
        return None;
    }
    file.take(MAX_IMAGE_BYTES).read_to_end(&mut bytes).ok()?;
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    Some(ServerFile { path, modified: found.modified().ok(), bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_images_that_are_files_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let base = Base { dir: dir.path().to_owned(), home: Some(dir.path().join("home")) };
        let png = b"\x89PNG\r\n\x1a\nrest";
        fs::write(dir.path().join("a.jpg"), png).unwrap();
        fs::write(dir.path().join("id_rsa.png"), "-----BEGIN").unwrap();
        fs::create_dir(dir.path().join("home")).unwrap();
        fs::write(dir.path().join("home/b.png"), png).unwrap();
        assert_eq!(base.image("a.jpg").unwrap().bytes, png, "the extension may lie");
        assert!(base.image("~/b.png").is_some());
        assert!(base.image("id_rsa.png").is_none());
        assert!(base.image("absent.png").is_none());
        assert!(base.image("home").is_none());
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(dir.path().join("a.jpg"), dir.path().join("link.png")).unwrap();
            assert!(base.image("link.png").is_none());
        }
    }
}
