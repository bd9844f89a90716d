//! Originals that are kept elsewhere than in the workspace's directory: in a bucket, or on a server.

use std::io;
use std::path::{Path, PathBuf};

use crate::model::Hash;

/// A place for originals, by hash, that other machines share.
pub trait Originals: Send + Sync {
    /// Uploads a file with that hash and takes it over; when this returns the place has confirmed it.
    fn keep(&self, hash: Hash, path: &Path) -> io::Result<()>;

    /// Returns the path of a verified local copy, downloading it if need be: not found if the place does not have it,
    /// invalid data if what it has is something else.
    fn fetch(&self, hash: Hash) -> io::Result<PathBuf>;

    /// Returns whether the place has something of that name, without reading it.
    fn contains(&self, hash: Hash) -> io::Result<bool>;

    /// Reads what the place itself has and checks every byte; errors as [`fetch`](Originals::fetch).
    fn check(&self, hash: Hash) -> io::Result<()>;
}
