//! Pictures beside an answer: thumbnails, so that an agent sees what it reads about and still has room to think.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rmcp::model::ContentBlock;

use crate::tracker::{ImageView, ThumbSide, Tracker};

/// An iteration's first picture, large enough to judge it, or why it does not come along: a picture that is lost costs no
/// recipe. Nothing when there is none.
pub(super) fn picture(tracker: &Tracker, images: &[ImageView]) -> Vec<ContentBlock> {
    let Some(image) = images.first() else { return Vec::new() };
    let mut blocks = vec![thumbnail(tracker, image, ThumbSide::Large)];
    if image.missing && blocks.iter().all(|block| block.as_image().is_some()) {
        blocks.push(ContentBlock::text("The original of this picture is gone; only the thumbnail is left."));
    }
    blocks
}

/// The first pictures of several iterations, small, each under its name: as many of the last ones as stay below a bound,
/// and a word on those left out.
pub(super) fn pictures<'a>(
    tracker: &Tracker,
    named: impl DoubleEndedIterator<Item = (String, &'a ImageView)>,
) -> Vec<ContentBlock> {
    let mut blocks = Vec::new();
    let (mut bytes, mut left_out) = (0, 0);
    for (name, image) in named.rev() {
        if bytes >= MAX_PICTURES_BYTES {
            left_out += 1;
            continue;
        }
        let shown = thumbnail(tracker, image, ThumbSide::Small);
        bytes += shown.as_image().map_or(0, |image| image.data.len());
        blocks.push(shown);
        blocks.push(ContentBlock::text(format!("{name}:")));
    }
    if left_out > 0 {
        let hint = "ask for fewer iterations, or for one with get-iteration";
        blocks.push(ContentBlock::text(format!("The pictures of {left_out} older iterations are left out: {hint}.")));
    }
    blocks.reverse();
    blocks
}

/// Where pictures beside one answer stop, as base64: some two dozen of them.
const MAX_PICTURES_BYTES: usize = 500_000;

fn thumbnail(tracker: &Tracker, image: &ImageView, side: ThumbSide) -> ContentBlock {
    match tracker.thumbnail(image.hash, side) {
        Ok(file) => ContentBlock::image(STANDARD.encode(file), "image/jpeg"),
        Err(_) if image.missing => ContentBlock::text("The picture is not sent: its file is gone."),
        Err(error) => ContentBlock::text(format!("The picture is not sent: {}.", error.message)),
    }
}
