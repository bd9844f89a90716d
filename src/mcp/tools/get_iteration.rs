//! `get-iteration`: one iteration with everything that is known of it, and its picture.

use rmcp::model::ContentBlock;

use crate::mcp::pictures;
use crate::mcp::resources::{self, MAX_PICTURE_BYTES};
use crate::mcp::tool::{Call, Effect, Reply, Tool};
use crate::tracker::{Error, GetRequest, IterationView};

pub(super) struct GetIteration;

impl Tool for GetIteration {
    const NAME: &'static str = "get-iteration";
    const TITLE: &'static str = "Get iteration";
    const DESCRIPTION: &'static str = "\
Get one iteration whole: the recipe to make it again, its outcome, annotations, parent and children, and what is known \
of its images. Use it once you have the reference; to find one use list-iterations. Reads only. With `includeImage` the \
first picture comes along as a thumbnail. What was cut to keep the answer below 60 kB is named in `truncated`.";
    const EFFECT: Effect = Effect::Reads;
    type Request = GetRequest;
    type View = IterationView;

    fn call(call: &Call<'_>, request: GetRequest) -> Result<Reply<IterationView>, Error> {
        let view = call.tracker.get(&request)?;
        let readable = view.images.iter().find(|image| !image.missing && image.bytes <= MAX_PICTURE_BYTES);
        let link = readable.map(|image| resources::image_link(&image.uri, &image.mime_type, image.bytes));
        let pictured = if request.include_image { view.images.first().cloned() } else { None };
        let mut reply = Reply::from(view);
        reply.also.extend(link.map(ContentBlock::resource_link));
        Ok(pictures::with_picture(reply, call.tracker, pictured.as_ref()))
    }
}
