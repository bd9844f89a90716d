//! `/export/{form}`: downloads. `sessions.zip` is the folder that `retake export` writes, `images.zip` the originals of
//! some iterations, `proof.tar` an audit bundle. Each is first written to a temporary file, which is unlinked before it
//! is sent, so that nothing is left behind if the client disconnects.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use axum::body::{Body, Bytes};
use axum::extract::{Path as UrlPath, Query, State};
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderValue, Response as HttpResponse};
use axum::response::Response;
use futures_util::stream;
use serde::Deserialize;

use super::reply::Failed;
use super::state::Gallery;
use super::zip::Zip;
use crate::export::{ExportRequest, ending};
use crate::model::SessionId;
use crate::wire::{Api, Error, ErrorKind};
use crate::workspace::Workspace;

/// The maximum number of sessions or images in one export.
const MAX_ITEMS: usize = 500;
/// The number of bytes read at once.
const CHUNK: usize = 256 * 1024;

/// The selection to export: session ids or image references, separated by commas.
#[derive(Deserialize)]
pub(super) struct ExportParams {
    #[serde(default)]
    of: String,
}

/// Handles `GET /export/{form}?of=…`.
pub(super) async fn export(
    State(gallery): State<Gallery>,
    UrlPath(form): UrlPath<String>,
    Query(chosen): Query<ExportParams>,
) -> Result<Response, Failed> {
    let (kind, name) = match form.as_str() {
        "sessions.zip" => ("application/zip", "retake-sessions.zip"),
        "images.zip" => ("application/zip", "retake-images.zip"),
        "proof.tar" => ("application/x-tar", "retake-proof.tar"),
        _ => {
            let hint = "export sessions.zip, images.zip or proof.tar";
            return Err(Error::new(ErrorKind::NotFound, "unknown export", hint).into());
        }
    };
    let file = gallery.ask(move |workspace, _| write(workspace, &form, &chosen.of)).await?;
    let size = file.metadata().map(|found| found.len()).ok();
    let body = Body::from_stream(stream::unfold(file, async |file| {
        let read = tokio::task::spawn_blocking(move || {
            let mut file = file;
            let mut chunk = vec![0; CHUNK];
            let read = file.read(&mut chunk)?;
            chunk.truncate(read);
            Ok::<_, io::Error>((file, chunk))
        });
        match read.await {
            Ok(Ok((_, chunk))) if chunk.is_empty() => None,
            Ok(Ok((file, chunk))) => Some((Ok::<_, io::Error>(Bytes::from(chunk)), file)),
            // The body ends before its announced length, so the client does not take a part for the whole.
            Ok(Err(error)) => {
                tracing::warn!(%error, "an export cannot be read back");
                None
            }
            Err(_) => None,
        }
    }));
    let mut response = HttpResponse::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    if let Ok(value) = HeaderValue::from_str(&format!("attachment; filename=\"{name}\"")) {
        headers.insert(CONTENT_DISPOSITION, value);
    }
    if let Some(size) = size {
        headers.insert(CONTENT_LENGTH, HeaderValue::from(size));
    }
    Ok(response)
}

/// Writes an export to an unlinked temporary file, ready to be read.
fn write(workspace: &Workspace, form: &str, of: &str) -> Result<File, Error> {
    let names: Vec<&str> = of.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
    if names.is_empty() || names.len() > MAX_ITEMS {
        let hint = format!("choose 1 to {MAX_ITEMS}");
        return Err(Error::new(ErrorKind::Invalid, format!("{} items cannot be exported at once", names.len()), hint));
    }
    let place = TemporaryDir::new(workspace.dir())?;
    let path = place.0.join("export");
    let mut file = File::options().read(true).write(true).create_new(true).open(&path).map_err(failed)?;
    match form {
        "images.zip" => images(workspace, &names, &mut file)?,
        "proof.tar" => drop(workspace.export_bundle(&request(workspace, &names)?, &mut file)?),
        _ => sessions(workspace, &request(workspace, &names)?, &place.0.join("folder"), &mut file)?,
    }
    file.seek(SeekFrom::Start(0)).map_err(failed)?;
    Ok(file)
}

fn request(workspace: &Workspace, names: &[&str]) -> Result<ExportRequest, Error> {
    let api = Api::new(workspace);
    // A reference selects its session.
    let id = |name: &&str| api.session_id(name.split('#').next().unwrap_or_default());
    let session_ids: Vec<SessionId> = names.iter().map(id).collect::<Result<_, _>>()?;
    Ok(ExportRequest { session_ids, omit_images: false })
}

fn sessions(workspace: &Workspace, request: &ExportRequest, folder: &Path, out: &mut File) -> Result<(), Error> {
    workspace.export_folder(request, folder)?;
    let mut zip = Zip::new(out);
    let mut files: Vec<PathBuf> = walkdir::WalkDir::new(folder)
        .into_iter()
        .filter_map(Result::ok)
        .filter(|entry| entry.file_type().is_file())
        .map(walkdir::DirEntry::into_path)
        .collect();
    files.sort();
    for file in files {
        let name = file.strip_prefix(folder).unwrap_or(&file).to_string_lossy().replace('\\', "/");
        zip.add_file(&name, &file).map_err(failed)?;
    }
    zip.finish().map(drop).map_err(failed)
}

fn images(workspace: &Workspace, names: &[&str], out: &mut File) -> Result<(), Error> {
    let api = Api::new(workspace);
    let mut zip = Zip::new(out);
    let mut left_out = Vec::new();
    for name in names {
        let named = api.resolve_exactly(name)?;
        let state = workspace.brief_state(named.iteration)?;
        for (number, image) in (0_u32..).zip(&state.iteration.images) {
            if named.image.is_some_and(|wanted| wanted != number) {
                continue;
            }
            let part = if state.iteration.images.len() > 1 { format!("-{}", number + 1) } else { String::new() };
            let id = named.iteration;
            let file = format!("{}-{:03}{part}.{}", id.session, id.index, ending(&image.mime_type));
            match workspace.original(image.hash) {
                Ok(original) => zip.add(&file, &original.data).map_err(failed)?,
                Err(_) => left_out.push(format!("{id}: the original of image {} is missing", number + 1)),
            }
        }
    }
    if !left_out.is_empty() {
        zip.add("left-out.txt", left_out.join("\n").as_bytes()).map_err(failed)?;
    }
    zip.finish().map(drop).map_err(failed)
}

fn failed(error: io::Error) -> Error {
    Error::new(ErrorKind::Internal, "the export could not be written", "look at the cause, then try again")
        .caused_by(error)
}

/// A directory that is removed with its contents on drop.
pub(super) struct TemporaryDir(pub(super) PathBuf);

impl TemporaryDir {
    /// Creates a directory in the temporary area of the workspace.
    pub(super) fn new(workspace: &Path) -> Result<TemporaryDir, Error> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = workspace.join("cache").join("scratch").join(format!("{}-{number}", std::process::id()));
        // A directory of the same process id is left over from a crash.
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).map_err(failed)?;
        Ok(TemporaryDir(path))
    }
}

impl Drop for TemporaryDir {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            tracing::warn!(%error, "cannot remove a temporary directory");
        }
    }
}
