//! Originals in a bucket or a shared directory, named by their hash, with a bounded local cache.
//!
//! An image is uploaded and confirmed before the event that refers to it is appended. Uploads are conditional, so
//! repeating one changes nothing; downloads are verified against the hash before they are used.

use std::fs::{self, File};
use std::future::Future;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use object_store::aws::AmazonS3;
use object_store::path::Path as Key;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload, WriteMultipart};
use retake_log::disk::{ContentDir, Disk};
use retake_log::model::Hash;

use super::Error;
use super::cache::Cache;
use super::location::{ImageLocation, s3_client};

/// The maximum size of a file that is uploaded in one conditional request; larger ones are uploaded in parts.
const MAX_SINGLE_PUT: u64 = 16 << 20;
/// The size of a part of a large upload.
const PART_BYTES: usize = 8 << 20;
/// The maximum number of concurrent parts of an upload.
const MAX_PARTS_UNDER_WAY: usize = 4;
/// The timeout of an upload or download, including retries.
const S3_TIMEOUT: Duration = Duration::from_secs(60);
/// The default size of the cache.
pub const DEFAULT_CACHE_BYTES: u64 = 10 << 30;

/// The originals of a team workspace.
pub struct RemoteImages {
    location: ImageLocation,
    backend: Backend,
    cache: Cache,
}

enum Backend {
    S3 {
        client: std::sync::Arc<AmazonS3>,
        prefix: String,
        runtime: Option<tokio::runtime::Runtime>,
    },
    /// Not through `object_store`, which does not sync directories.
    Directory(ContentDir),
}

impl RemoteImages {
    /// Opens a location with a cache of at most `cache_bytes` in `cache_dir`, without reading or writing anything.
    pub fn open(location: ImageLocation, cache_dir: &Path, cache_bytes: u64) -> Result<RemoteImages, Error> {
        let backend = match &location {
            ImageLocation::Directory(path) => Backend::Directory(ContentDir::new(Disk::default(), path.clone())),
            ImageLocation::S3 { bucket, prefix } => {
                let runtime = tokio::runtime::Builder::new_multi_thread()
                    .worker_threads(2)
                    .thread_name("retake-s3")
                    .enable_all()
                    .build()
                    .map_err(Error::Runtime)?;
                let client = std::sync::Arc::new(s3_client(bucket, S3_TIMEOUT)?);
                Backend::S3 { client, prefix: prefix.clone(), runtime: Some(runtime) }
            }
        };
        Ok(RemoteImages { location, backend, cache: Cache::new(cache_dir.to_owned(), cache_bytes) })
    }

    /// Returns the location of the images.
    pub fn location(&self) -> &ImageLocation {
        &self.location
    }

    /// Checks that the location exists and is writable, by writing a small object.
    pub fn check_access(&self) -> io::Result<()> {
        let probe = b"Retake writes this object to check that it can.\n";
        self.put(probe).map(drop)
    }

    /// Uploads bytes and returns their hash. The location has confirmed them when this returns.
    pub fn put(&self, bytes: &[u8]) -> io::Result<Hash> {
        let hash = Hash::of(bytes);
        match &self.backend {
            Backend::Directory(dir) => drop(dir.put(bytes)?),
            Backend::S3 { client, .. } => {
                let (client, key, bytes) = (client.clone(), self.key(hash), Bytes::copy_from_slice(bytes));
                self.run(async move { put_whole(&client, &key, bytes).await })?;
            }
        }
        Ok(hash)
    }

    /// Uploads a file as a stream. The location has confirmed it when this returns. The caller knows its hash, and the
    /// file must not change meanwhile: the upload is checked against the hash.
    pub fn put_file(&self, hash: Hash, path: &Path) -> io::Result<()> {
        let changed = || io::Error::new(io::ErrorKind::InvalidData, "the image changed while it was read");
        match &self.backend {
            Backend::Directory(dir) => {
                let stored = dir.put_reader(&mut File::open(path)?)?;
                if Hash(stored.hash) == hash { Ok(()) } else { Err(changed()) }
            }
            Backend::S3 { client, .. } => {
                let (client, key) = (client.clone(), self.key(hash));
                if fs::metadata(path)?.len() <= MAX_SINGLE_PUT {
                    let bytes = fs::read(path)?;
                    if Hash::of(&bytes) != hash {
                        return Err(changed());
                    }
                    return self.run(async move { put_whole(&client, &key, bytes.into()).await });
                }
                let path = path.to_owned();
                self.run(async move { put_parts(&client, &key, &path, hash).await })
            }
        }
    }

    /// Returns the path of a verified local copy, downloading it if the cache has none. The error is `NotFound` if the
    /// location does not have it either, and `InvalidData` if it has other contents.
    pub fn fetch(&self, hash: Hash) -> io::Result<PathBuf> {
        if let Some(path) = self.cache.get(hash) {
            return Ok(path);
        }
        match &self.backend {
            // The shared directory is as close as the cache would be.
            Backend::Directory(dir) => {
                dir.check(hash.0)?;
                Ok(dir.path(hash.0))
            }
            Backend::S3 { client, .. } => {
                let incoming = self.cache.incoming()?;
                let (client, key) = (client.clone(), self.key(hash));
                let file = incoming.reopen()?;
                let found = self.run(async move { download(&client, &key, file).await })?;
                if found != hash {
                    return Err(io::Error::new(io::ErrorKind::InvalidData, "the stored object is not the image"));
                }
                self.cache.keep(hash, incoming)
            }
        }
    }

    /// Uploads a file and takes ownership of it: afterwards it is in the cache, or removed if the location is a
    /// directory. If another process has taken it meanwhile, that is fine if the location has it.
    pub fn take_over(&self, hash: Hash, path: &Path) -> io::Result<()> {
        match self.put_file(hash, path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && !path.exists() => {
                return if self.contains(hash)? { Ok(()) } else { Err(error) };
            }
            uploaded => uploaded?,
        }
        let kept = match &self.backend {
            Backend::Directory(_) => fs::remove_file(path),
            Backend::S3 { .. } => self.cache.adopt(hash, path),
        };
        if let Err(error) = kept {
            tracing::debug!(%error, "an uploaded image is not cached");
        }
        Ok(())
    }

    /// Returns whether the location has an object with this name, without reading it.
    pub fn contains(&self, hash: Hash) -> io::Result<bool> {
        match &self.backend {
            Backend::Directory(dir) => fs::exists(dir.path(hash.0)),
            Backend::S3 { client, .. } => {
                let (client, key) = (client.clone(), self.key(hash));
                self.run(async move {
                    match client.head(&key).await {
                        Ok(_) => Ok(true),
                        Err(object_store::Error::NotFound { source, .. }) if !names_bucket(&*source) => Ok(false),
                        Err(error) => Err(error),
                    }
                })
            }
        }
    }

    /// Reads the object with this hash from the location, not the cache, and verifies every byte; errors are those of
    /// [`fetch`](RemoteImages::fetch).
    pub fn check(&self, hash: Hash) -> io::Result<()> {
        match &self.backend {
            Backend::Directory(dir) => dir.check(hash.0),
            Backend::S3 { client, .. } => {
                let (client, key) = (client.clone(), self.key(hash));
                let found = self.run(async move { hash_object(&client, &key).await })?;
                let wrong = || io::Error::new(io::ErrorKind::InvalidData, "the stored object is not the image");
                if found == hash { Ok(()) } else { Err(wrong()) }
            }
        }
    }

    fn key(&self, hash: Hash) -> Key {
        let name = hash.to_string();
        let (first, rest) = name.split_at(2);
        let prefix = match &self.backend {
            Backend::S3 { prefix, .. } => prefix.as_str(),
            Backend::Directory(_) => "",
        };
        Key::from_iter(prefix.split('/').filter(|part| !part.is_empty()).chain([first, rest]))
    }

    /// Runs a request and blocks until it completes, on any thread.
    fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, object_store::Error>> + Send + 'static,
    ) -> io::Result<T> {
        let Backend::S3 { runtime: Some(runtime), .. } = &self.backend else {
            return Err(io::Error::other("the image store was closed"));
        };
        let (sender, receiver) = mpsc::sync_channel(1);
        runtime.spawn(async move {
            let _ = sender.send(work.await);
        });
        let answer = receiver.recv().map_err(|_| io::Error::other("the image store was closed"))?;
        answer.map_err(|error| explain(&self.location, &error))
    }
}

impl Drop for RemoteImages {
    fn drop(&mut self) {
        if let Backend::S3 { runtime, .. } = &mut self.backend
            && let Some(runtime) = runtime.take()
        {
            runtime.shutdown_background();
        }
    }
}

/// Uploads in one request that fails if the object exists. An object of the same name and length is the same, since
/// names are hashes.
async fn put_whole(client: &AmazonS3, key: &Key, bytes: Bytes) -> Result<(), object_store::Error> {
    let length = bytes.len() as u64;
    let create = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
    match client.put_opts(key, PutPayload::from_bytes(bytes.clone()), create).await {
        Ok(_) => Ok(()),
        Err(object_store::Error::AlreadyExists { .. } | object_store::Error::Precondition { .. }) => {
            if client.head(key).await?.size != length {
                // Truncated by another program: the name is a content hash, so replacing it is safe.
                client.put(key, PutPayload::from_bytes(bytes)).await?;
            }
            Ok(())
        }
        Err(error) => Err(error),
    }
}

/// Uploads a large file in parts; the object appears only once it is complete.
async fn put_parts(client: &AmazonS3, key: &Key, path: &Path, hash: Hash) -> Result<(), object_store::Error> {
    let local = |source: io::Error| object_store::Error::Generic { store: "local file", source: source.into() };
    let length = fs::metadata(path).map_err(local)?.len();
    if client.head(key).await.is_ok_and(|there| there.size == length) {
        return Ok(());
    }
    let mut upload = WriteMultipart::new_with_chunk_size(client.put_multipart(key).await?, PART_BYTES);
    let mut hasher = blake3::Hasher::new();
    let mut file = File::open(path).map_err(local)?;
    let mut buffer = vec![0; 1 << 20];
    loop {
        // A local read of a megabyte is short enough for the async thread.
        let read = file.read(&mut buffer).map_err(local)?;
        let Some(piece) = buffer.get(..read).filter(|piece| !piece.is_empty()) else { break };
        hasher.update(piece);
        upload.write(piece);
        upload.wait_for_capacity(MAX_PARTS_UNDER_WAY).await?;
    }
    if *hasher.finalize().as_bytes() != hash.0 {
        upload.abort().await?;
        return Err(local(io::Error::new(io::ErrorKind::InvalidData, "the image changed while it was read")));
    }
    upload.finish().await.map(drop)
}

/// Downloads into a file and returns the hash of the received bytes.
async fn download(client: &AmazonS3, key: &Key, mut file: File) -> Result<Hash, object_store::Error> {
    use std::io::Write;
    let mut stream = client.get(key).await?.into_stream();
    let mut hasher = blake3::Hasher::new();
    while let Some(piece) = stream.next().await {
        let piece = piece?;
        hasher.update(&piece);
        file.write_all(&piece)
            .map_err(|source| object_store::Error::Generic { store: "local file", source: source.into() })?;
    }
    Ok(Hash(*hasher.finalize().as_bytes()))
}

async fn hash_object(client: &AmazonS3, key: &Key) -> Result<Hash, object_store::Error> {
    let mut stream = client.get(key).await?.into_stream();
    let mut hasher = blake3::Hasher::new();
    while let Some(piece) = stream.next().await {
        hasher.update(&piece?);
    }
    Ok(Hash(*hasher.finalize().as_bytes()))
}

/// The S3 error codes that have their own message.
const KNOWN_ANSWERS: [(&[&str], io::ErrorKind, &str); 4] = [
    (&["NoSuchBucket"], io::ErrorKind::NotFound, "the bucket does not exist: create it, or correct the location"),
    (
        &["RequestTimeTooSkewed", "RequestExpired"],
        io::ErrorKind::PermissionDenied,
        "the server rejects this machine's clock: set it with NTP",
    ),
    (
        &["InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken", "ExpiredToken"],
        io::ErrorKind::PermissionDenied,
        "the server rejects the credentials: check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE",
    ),
    (
        &["AccessDenied"],
        io::ErrorKind::PermissionDenied,
        "the credentials do not allow this: grant s3:GetObject, s3:PutObject and s3:ListBucket on the bucket",
    ),
];

/// Converts an error. The server's own text is left out, since it can repeat parts of the credentials.
fn explain(location: &ImageLocation, error: &object_store::Error) -> io::Error {
    let text = with_sources(error);
    if let object_store::Error::Generic { store: "local file", source } = error
        && let Some(local) = source.downcast_ref::<io::Error>()
    {
        return io::Error::new(local.kind(), local.to_string());
    }
    let known = KNOWN_ANSWERS.iter().find(|(codes, _, _)| codes.iter().any(|code| text.contains(code)));
    if let Some((_, kind, advice)) = known {
        return io::Error::new(*kind, format!("{location}: {advice}"));
    }
    let (kind, problem) = match error {
        object_store::Error::NotFound { .. } => (io::ErrorKind::NotFound, "object not found"),
        object_store::Error::PermissionDenied { .. } | object_store::Error::Unauthenticated { .. } => {
            (io::ErrorKind::PermissionDenied, "the server rejects the credentials, or they do not allow this")
        }
        _ if text.contains("credentials") || text.contains("metadata endpoint") => (
            io::ErrorKind::PermissionDenied,
            "no credentials were found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE",
        ),
        _ => (io::ErrorKind::TimedOut, "the server cannot be reached or does not answer"),
    };
    tracing::debug!(%location, problem, "the image store failed");
    io::Error::new(kind, format!("{location}: {problem}"))
}

fn names_bucket(error: &(dyn std::error::Error + Send + Sync)) -> bool {
    with_sources(error).contains("NoSuchBucket")
}

fn with_sources(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
