//! `get-iteration`: one iteration with everything that is known of it, and its picture.

use super::{MAX_RESOURCE_BYTES, thumbnails};
use crate::wire::tool::{Attachment, Call, Effect, Reply, Tool};
use crate::wire::{Error, GetRequest, IterationView};

pub(super) struct GetIteration;

impl Tool for GetIteration {
    const NAME: &'static str = "get-iteration";
    const TITLE: &'static str = "Get iteration";
    const DESCRIPTION: &'static str = "\
Get one iteration whole: the recipe to make it again, its outcome, annotations, parent and children, and its images. Use it once you have the reference; to find one use list-iterations. Reads only. With `includeImage` the \
first image comes along as a thumbnail. What was truncated to keep the reply small is named in `truncated`; `maxChars` allows for more.";
    const EFFECT: Effect = Effect::Reads;
    type Request = GetRequest;
    type View = IterationView;

    fn call(call: &Call<'_>, request: GetRequest) -> Result<Reply<IterationView>, Error> {
        let view = call.api.get(&request)?;
        let readable = view.images.iter().find(|image| !image.missing && image.bytes <= MAX_RESOURCE_BYTES);
        let link = readable.map(|image| Attachment::ImageLink {
            uri: image.uri.clone(),
            mime_type: image.mime_type.clone(),
            bytes: image.bytes,
        });
        let image = if request.include_image { view.images.first().cloned() } else { None };
        let mut reply = Reply::from(view);
        reply.attachments.extend(link);
        Ok(thumbnails::with_image(reply, call.api.workspace(), image.as_ref()))
    }
}
