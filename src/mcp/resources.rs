//! Resources: the results of the read-only tools and the images, at URIs that a client can keep, show and subscribe to.
//!
//! The list contains the sessions, a page at a time; iterations and images are reached through templates, since there
//! may be millions. A session's recorded title becomes the title of its resource, as one short line, so that people can
//! find it in a picker. Names and descriptions contain nothing recorded.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rmcp::model::{
    Annotations, CacheScope, ErrorData, ListResourceTemplatesResult, ListResourcesResult, ReadResourceResult, Resource,
    ResourceContents, ResourceTemplate,
};
use serde::Serialize;
use serde_json::json;

use super::address::Address;
use super::app;
use crate::wire::tool::one_line;
use crate::wire::tools::MAX_RESOURCE_BYTES;
use crate::wire::{Api, Error, ErrorKind, GetRequest, ImageRequest, IterationsRequest, ListRequest, SessionRow};
use crate::workspace::{CallContext, Workspace};

/// Returns a page of the resources.
pub(super) fn list(
    workspace: &Workspace,
    cursor: Option<String>,
    context: &CallContext,
) -> Result<ListResourcesResult, ErrorData> {
    let first_page = cursor.is_none();
    let request = ListRequest { limit: Some(SESSIONS_ON_A_PAGE), cursor, ..ListRequest::default() };
    let page = Api::new(workspace).with_context(context).list(&request).map_err(|error| refused(&error))?;
    let mut resources: Vec<Resource> = first_page.then(sessions).into_iter().collect();
    resources.extend(page.sessions.iter().map(session));
    let mut list = ListResourcesResult::with_all_items(resources);
    list.next_cursor = page.next_cursor;
    // Any process may record at any moment.
    Ok(list.with_ttl_ms(0).with_cache_scope(CacheScope::Private))
}

/// Returns the templates of resources that are not in the list.
pub(super) fn templates() -> ListResourceTemplatesResult {
    let template = |uri: &str, name: &str, title: &str, description: &str| {
        ResourceTemplate::new(uri, name).with_title(title).with_description(description)
    };
    ListResourceTemplatesResult::with_all_items(vec![
        template(
            "retake://sessions{?cursor}",
            "sessions",
            "Sessions",
            "All sessions, most recently modified first; `cursor` is `nextCursor` of the page before.",
        )
        .with_mime_type(JSON),
        template(
            "retake://sessions/{id}{?cursor}",
            "session",
            "Session",
            "One session: its newest iterations in ascending order; `cursor` leads to older ones.",
        )
        .with_mime_type(JSON),
        template(
            "retake://iterations/{id}/{index}",
            "iteration",
            "Iteration",
            "One iteration whole: recipe, outcome, annotations, parent and children. Indexes count from 0.",
        )
        .with_mime_type(JSON),
        template(
            "retake://iterations/{id}/{index}/image",
            "image",
            "Image",
            "The image of an iteration as it was recorded; above 520,000 bytes reduced, as JPEG.",
        ),
        template(
            "retake://iterations/{id}/{index}/image/{number}",
            "further-image",
            "Further image",
            "Another image of the same iteration, from 1 for the second.",
        ),
    ])
    .with_ttl_ms(super::server::FRESH_FOR_MS)
    .with_cache_scope(CacheScope::Public)
}

/// Reads a resource. For a missing one, returns the error code that the client's protocol revision defines.
pub(super) fn read(
    workspace: &Workspace,
    uri: &str,
    shows_paths: bool,
    context: &CallContext,
) -> Result<ReadResourceResult, ErrorData> {
    let address: Address = uri.parse().map_err(|_| unknown(uri))?;
    let api = Api::new(workspace).with_context(context);
    let api = if shows_paths { api.showing_paths() } else { api };
    let read = match address {
        Address::Sessions(cursor) => {
            let request = ListRequest { cursor, ..ListRequest::default() };
            text(uri, api.list(&request))
        }
        Address::Session(id, cursor) => {
            let request = IterationsRequest { session_id: id.to_string(), cursor, ..IterationsRequest::default() };
            text(uri, api.iterations(&request))
        }
        Address::Iteration(id) => {
            let request = GetRequest { reference: id.to_string(), ..GetRequest::default() };
            text(uri, api.get(&request))
        }
        Address::Image(id, number) => {
            image(uri, workspace, &ImageRequest { reference: id.to_string(), image: Some(number) })
        }
        Address::App => Ok(app::page()),
    };
    let fresh_for = match uri.parse() {
        Ok(Address::Image(..)) => A_DAY_MS,
        Ok(Address::App) => super::server::FRESH_FOR_MS,
        _ => 0,
    };
    let read = read.map_err(|error| if error.kind == ErrorKind::NotFound { unknown(uri) } else { refused(&error) })?;
    Ok(ReadResourceResult::new(vec![read]).with_ttl_ms(fresh_for).with_cache_scope(CacheScope::Private))
}

/// Returns the error for an unknown URI.
pub(super) fn unknown(uri: &str) -> ErrorData {
    let uri = one_line(uri, 200);
    ErrorData::resource_not_found(format!("there is no resource {uri}"), Some(json!({ "uri": uri })))
}

/// Returns a link to an image that clients can read. Images never change, so it carries no timestamp.
pub(super) fn image_link(uri: &str, mime_type: &str, title: &str, bytes: Option<u64>) -> Resource {
    let link = Resource::new(uri, "image").with_title(one_line(title, 80)).with_mime_type(mime_type);
    match bytes {
        Some(bytes) => link.with_size(bytes),
        None => link,
    }
}

const JSON: &str = "application/json";
const SESSIONS_ON_A_PAGE: u32 = 100;
/// How long clients may cache an image, which never changes.
const A_DAY_MS: u64 = 24 * 60 * 60 * 1000;

fn sessions() -> Resource {
    Resource::new(Address::Sessions(None).to_string(), "sessions")
        .with_title("Sessions")
        .with_description("The sessions of this workspace, most recently modified first.")
        .with_mime_type(JSON)
}

fn session(row: &SessionRow) -> Resource {
    let (count, archived) = (row.iteration_count(), if row.archived() { ", archived" } else { "" });
    let plural = if count == 1 { "" } else { "s" };
    let description = format!("{count} iteration{plural}, last modified {}{archived}.", row.last_modified_at());
    let mut modified = Annotations::default();
    modified.last_modified = Some(row.last_modified_at().to_string());
    let title = row.title().map(|title| one_line(title, 80)).filter(|title| !title.is_empty());
    Resource::new(Address::Session(row.id(), None).to_string(), row.id().to_string())
        .with_title(title.unwrap_or_else(|| row.id().to_string()))
        .with_description(description)
        .with_mime_type(JSON)
        .with_annotations(modified)
}

fn text(uri: &str, view: Result<impl Serialize, Error>) -> Result<ResourceContents, Error> {
    let json = serde_json::to_string(&view?).map_err(|error| {
        Error::new(ErrorKind::Internal, "the answer cannot be written as JSON", "please report this").caused_by(error)
    })?;
    Ok(ResourceContents::text(json, uri).with_mime_type(JSON))
}

fn image(uri: &str, workspace: &Workspace, request: &ImageRequest) -> Result<ResourceContents, Error> {
    let read = Api::new(workspace).image(request)?;
    if read.image.bytes > MAX_RESOURCE_BYTES {
        let most = usize::try_from(MAX_RESOURCE_BYTES).unwrap_or(usize::MAX);
        let reduced = workspace.reduced(read.image.hash, most)?;
        return Ok(ResourceContents::blob(STANDARD.encode(reduced), uri).with_mime_type("image/jpeg"));
    }
    Ok(ResourceContents::blob(STANDARD.encode(read.data), uri).with_mime_type(read.image.mime_type))
}

/// Converts an error to the protocol's format, where the hint must be part of the message.
pub(super) fn refused(error: &Error) -> ErrorData {
    let message = one_line(&format!("{}: {}", error.message, error.hint), 2000);
    match error.kind {
        ErrorKind::Invalid | ErrorKind::NotFound => ErrorData::invalid_params(message, None),
        _ => {
            tracing::warn!(causes = ?error.causes, "{}", error.message);
            ErrorData::internal_error(message, serde_json::to_value(error.view()).ok())
        }
    }
}
