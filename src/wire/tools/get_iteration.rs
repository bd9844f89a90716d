//! `get-iteration`: returns one iteration with everything known about it, and its image.

use super::thumbnails;
use crate::wire::tool::{Call, Effect, Reply, Tool};
use crate::wire::{Error, GetRequest, IterationView};

pub(super) struct GetIteration;

impl Tool for GetIteration {
    const NAME: &'static str = "get-iteration";
    const TITLE: &'static str = "Get iteration";
    const DESCRIPTION: &'static str = "\
Get one iteration whole: the recipe to make it again, outcome, annotations, parent, children and images. Use it once \
you have a reference; to find one use search-iterations, or list-iterations within a session; to continue from it use \
resume-session, which also tells how it came about. With `includeImage` or `image` a thumbnail of at most 512 pixels \
comes along; the original is at `path` (over stdio), or at `uri` as a resource. What was cut to keep the reply small \
is named in `truncated`; `maxChars` allows for more.";
    const EFFECT: Effect = Effect::Reads;
    type Request = GetRequest;
    type View = IterationView;

    fn call(call: &Call<'_>, request: GetRequest) -> Result<Reply<IterationView>, Error> {
        let view = call.api.get(&request)?;
        let first = view.images.first().cloned();
        let reply = Reply::from(view);
        Ok(match (call.api.image_to_send(&request)?, first) {
            (Some(image), _) => thumbnails::with_image(reply, call.api.workspace(), Some(&image)),
            (None, Some(first)) => thumbnails::with_link(reply, &first),
            (None, None) => reply,
        })
    }
}
