//! Reads the files of a bundle for `import`.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use crate::model::{Hash, SessionId};

use super::check::Section;
use super::tar::{self, TarEntry};
use super::{MANIFEST, READ_ME};

/// The files of a bundle, with images and texts before the sessions that refer to them.
pub(crate) struct BundleFiles {
    file: File,
    parts: Vec<(BundlePart, TarEntry)>,
    /// Whether the bundle is complete.
    pub(crate) is_whole: bool,
}

/// A file of a bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum BundlePart {
    /// A long text.
    Text(Hash),
    /// An image.
    Image(Hash),
    /// The events of a session.
    Session(SessionId),
}

impl BundleFiles {
    /// Opens a bundle; `None` if the file is not a bundle.
    pub(crate) fn open(path: &Path) -> io::Result<Option<BundleFiles>> {
        let mut file = File::open(path)?;
        // Check the tar signature first, so that other files are not read to the end for nothing.
        let mut first = [0; 512];
        let read = file.read(&mut first)?;
        if first.get(257..262).filter(|_| read == first.len()) != Some(b"ustar") {
            return Ok(None);
        }
        let (entries, is_whole) = tar::list(&mut file)?;
        if !entries.iter().any(|entry| [MANIFEST, READ_ME].contains(&entry.name.as_str())) {
            return Ok(None);
        }
        let parts = entries.into_iter().filter_map(|entry| Some((BundlePart::named(&entry.name)?, entry)));
        let mut parts: Vec<(BundlePart, TarEntry)> = parts.collect();
        parts.sort_by_key(|(part, _)| *part);
        Ok(Some(BundleFiles { file, parts, is_whole }))
    }

    /// Returns the files, each with a reader for its contents.
    pub(crate) fn parts(&self) -> impl Iterator<Item = io::Result<(BundlePart, u64, impl Read + use<>)>> {
        self.parts.iter().map(|(part, entry)| Ok((*part, entry.size, Section::new(self.file.try_clone()?, entry))))
    }
}

impl BundlePart {
    fn named(name: &str) -> Option<BundlePart> {
        let hash = |name: &str| name.split_once('.')?.0.parse().ok();
        match name.split_once('/')? {
            ("texts", name) => hash(name).map(BundlePart::Text),
            ("images", name) => hash(name).map(BundlePart::Image),
            ("sessions", name) => name.strip_suffix(".jsonl")?.parse().ok().map(BundlePart::Session),
            _ => None,
        }
    }
}
