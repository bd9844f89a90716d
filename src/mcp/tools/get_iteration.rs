//! `get-iteration`: one iteration with everything that is known of it, and its picture where it is small enough.

use rmcp::model::ContentBlock;

use crate::mcp::resources::{self, MAX_PICTURE_BYTES};
use crate::mcp::tool::{Call, Effect, Reply, Tool};
use crate::tracker::{Error, GetRequest, ImageBytes, ImageRequest, IterationView, Tracker};

pub(super) struct GetIteration;

impl Tool for GetIteration {
    const NAME: &'static str = "get-iteration";
    const TITLE: &'static str = "Get iteration";
    const DESCRIPTION: &'static str = "\
Get one iteration whole: the recipe to make it again, its outcome, annotations, parent and children, and what is known \
of its images. Use it once you have the reference; to find one use list-iterations. Reads only. With `includeImage` the \
first picture comes along unless it is large. What was cut to keep the answer below 60 kB is named in `truncated`.";
    const EFFECT: Effect = Effect::Reads;
    type Request = GetRequest;
    type View = IterationView;

    fn call(call: &Call<'_>, request: GetRequest) -> Result<Reply<IterationView>, Error> {
        let view = call.tracker.get(&request)?;
        let readable = view.images.iter().find(|image| !image.missing && image.bytes <= MAX_PICTURE_BYTES);
        let link = readable.map(|image| resources::image_link(&image.uri, &image.mime_type, image.bytes));
        let picture = if request.include_image { picture(call.tracker, &view) } else { None };
        let mut reply = Reply::from(view);
        reply.also.extend(link.map(ContentBlock::resource_link));
        Ok(match picture {
            None => reply,
            Some(Ok(picture)) => reply.with_picture(&picture.data, &picture.image.mime_type),
            Some(Err(why)) => reply.with_remark(format!("The picture is not sent: {why}.")),
        })
    }
}

/// The iteration's first picture, or why it does not come along: a picture that is lost costs no recipe. None when it has
/// none.
fn picture(tracker: &Tracker, view: &IterationView) -> Option<Result<ImageBytes, String>> {
    let image = view.images.first()?;
    Some(if image.missing {
        Err("its file is gone".to_owned())
    } else if !image.mime_type.starts_with("image/") {
        Err("it is of no known image type".to_owned())
    } else if image.bytes > MAX_PICTURE_BYTES {
        Err(format!("it takes {} bytes, and at most {MAX_PICTURE_BYTES} are sent", image.bytes))
    } else {
        let request = ImageRequest { reference: view.reference.to_string(), image: None };
        tracker.image(&request).map_err(|error| error.message)
    })
}
