//! Pictures beside an answer: thumbnails, so that an agent sees what it reads about and still has room to think.

use super::tool::Reply;
use crate::tracker::{ImageView, ThumbSide, Tracker};

/// The answer with an iteration's first picture, large enough to judge it, or with why it does not come along: a picture
/// that is lost costs no recipe.
pub(super) fn with_picture<V>(reply: Reply<V>, tracker: &Tracker, image: Option<&ImageView>) -> Reply<V> {
    let Some(image) = image else { return reply };
    match thumbnail(tracker, image, ThumbSide::Large) {
        Ok(file) if image.missing => reply
            .with_picture(&file, THUMBNAIL_TYPE)
            .with_remark("The original of this picture is gone; only the thumbnail is left."),
        Ok(file) => reply.with_picture(&file, THUMBNAIL_TYPE),
        Err(why) => reply.with_remark(why),
    }
}

/// The answer with a picture of each of several iterations, small, under its name: as many of the last ones as stay below
/// a bound, and a word on those left out.
pub(super) fn with_pictures<V>(mut reply: Reply<V>, tracker: &Tracker, named: &[(String, ImageView)]) -> Reply<V> {
    let mut shown = Vec::new();
    let mut bytes = 0;
    for (name, image) in named.iter().rev() {
        if bytes >= MAX_PICTURES_BYTES {
            break;
        }
        let thumbnail = thumbnail(tracker, image, ThumbSide::Small);
        bytes += thumbnail.as_ref().map_or(0, Vec::len);
        shown.push((name, thumbnail));
    }
    match named.len() - shown.len() {
        0 => {}
        older => {
            reply = reply.with_remark(format!(
                "The pictures of {older} older iterations are left out: ask for fewer, or for one with get-iteration."
            ));
        }
    }
    shown.into_iter().rev().fold(reply, |reply, (name, thumbnail)| {
        let reply = reply.with_remark(format!("{name}:"));
        match thumbnail {
            Ok(file) => reply.with_picture(&file, THUMBNAIL_TYPE),
            Err(why) => reply.with_remark(why),
        }
    })
}

const THUMBNAIL_TYPE: &str = "image/jpeg";
/// Where pictures beside one answer stop: some two dozen of them, half a megabyte as base64.
const MAX_PICTURES_BYTES: usize = 375_000;

fn thumbnail(tracker: &Tracker, image: &ImageView, side: ThumbSide) -> Result<Vec<u8>, String> {
    tracker.thumbnail(image.hash, side).map_err(|error| {
        let why = if image.missing { "its file is gone" } else { &error.message };
        format!("The picture is not sent: {why}.")
    })
}
