//! Thumbnails attached to replies.

use super::MAX_RESOURCE_BYTES;
use crate::images::{ThumbSide, is_video};
use crate::wire::tool::{Attachment, Reply};
use crate::wire::{Error, ImageView};
use crate::workspace::Workspace;

/// Attaches an iteration's image, large enough to judge it, or a remark on why it is not attached.
pub(super) fn with_image<V>(reply: Reply<V>, workspace: &Workspace, image: Option<&ImageView>) -> Reply<V> {
    let Some(image) = image else { return reply };
    let reply = match thumbnail(workspace, image, ThumbSide::Large) {
        Ok(file) if image.missing => reply
            .with_image(file, THUMBNAIL_TYPE)
            .with_remark("The original of this image is gone; only the thumbnail is left."),
        Ok(file) if is_video(&image.mime_type) => reply
            .with_image(file, THUMBNAIL_TYPE)
            .with_remark(format!("This is the poster of a video ({}), not a frame of it.", image.mime_type)),
        Ok(file) => reply.with_image(file, THUMBNAIL_TYPE),
        Err(why) => reply.with_remark(why),
    };
    with_link(reply, image)
}

/// Attaches a link to the original of an image, or to its reduced version if it is large.
pub(super) fn with_link<V>(mut reply: Reply<V>, image: &ImageView) -> Reply<V> {
    if !image.uri.is_empty() {
        let whole = image.bytes <= MAX_RESOURCE_BYTES;
        reply.attachments.push(Attachment::ImageLink {
            uri: image.uri.clone(),
            mime_type: if whole { image.mime_type.clone() } else { THUMBNAIL_TYPE.to_owned() },
            title: image.name.clone().unwrap_or_else(|| "Image".to_owned()),
            bytes: whole.then_some(image.bytes),
        });
    }
    reply
}

/// Attaches a labelled thumbnail for each of several iterations: as many of the last ones as fit the size limit.
pub(super) fn with_images<V>(mut reply: Reply<V>, workspace: &Workspace, named: &[(String, ImageView)]) -> Reply<V> {
    let mut shown = Vec::new();
    let mut bytes = 0;
    for (name, image) in named.iter().rev() {
        if bytes >= MAX_IMAGES_BYTES {
            break;
        }
        let thumbnail = thumbnail(workspace, image, ThumbSide::Small);
        bytes += thumbnail.as_ref().map_or(0, Vec::len);
        shown.push((name, image, thumbnail));
    }
    match named.len() - shown.len() {
        0 => {}
        older => {
            reply = reply.with_remark(format!(
                "The images of {older} older iterations are left out: ask for fewer, or for one with get-iteration."
            ));
        }
    }
    shown.into_iter().rev().fold(reply, |reply, (name, image, thumbnail)| {
        let reply = reply.with_remark(format!("{name}:"));
        let reply = match thumbnail {
            Ok(file) => reply.with_image(file, THUMBNAIL_TYPE),
            Err(why) => reply.with_remark(why),
        };
        with_link(reply, image)
    })
}

const THUMBNAIL_TYPE: &str = "image/jpeg";
/// The total size at which no further image is attached: about two dozen images, half a megabyte as base64.
const MAX_IMAGES_BYTES: usize = 375_000;

fn thumbnail(workspace: &Workspace, image: &ImageView, side: ThumbSide) -> Result<Vec<u8>, String> {
    workspace.thumbnail(image.hash, side).map_err(|error| {
        let why = if image.missing { "its file is gone".to_owned() } else { Error::from(error).message };
        format!("The image is not sent: {why}.")
    })
}
