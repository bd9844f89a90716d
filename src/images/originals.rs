//! Originals kept outside of the workspace's directory, in a bucket or on a server.

use std::io;
use std::path::{Path, PathBuf};

use crate::model::Hash;

/// A place for originals, by hash, that several machines share.
pub trait OriginalStore: Send + Sync {
    /// Uploads a file with this hash and takes ownership of it. The place has confirmed it when this returns.
    fn keep(&self, hash: Hash, path: &Path) -> io::Result<()>;

    /// Returns the path of a verified local copy, downloading it if necessary. The error is `NotFound` if the place
    /// does not have it, and `InvalidData` if it has other contents.
    fn fetch(&self, hash: Hash) -> io::Result<PathBuf>;

    /// Returns whether the place has an object of this name, without reading it.
    fn contains(&self, hash: Hash) -> io::Result<bool>;

    /// Reads the object in the place itself and verifies every byte; errors are those of [`fetch`](OriginalStore::fetch).
    fn check(&self, hash: Hash) -> io::Result<()>;
}
