//! `get-iteration`: one iteration with everything that is known of it, and its picture where it is small enough.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rmcp::model::ContentBlock;

use crate::mcp::tool::{Effect, Reply, Tool};
use crate::model::Actor;
use crate::tracker::{Error, GetRequest, ImageRequest, IterationView, Tracker};

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

    fn call(tracker: &Tracker, _: &Actor, request: GetRequest) -> Result<Reply<IterationView>, Error> {
        let view = tracker.get(&request)?;
        let also = if request.include_image { picture(tracker, &view).into_iter().collect() } else { Vec::new() };
        Ok(Reply { view, also })
    }
}

/// The largest picture sent: below 700 kB as base64, which clients with small limits still take.
const MAX_PICTURE_BYTES: u64 = 520_000;

/// The iteration's first picture, or why it does not come along: a picture that is lost costs no recipe. None when it has
/// none.
fn picture(tracker: &Tracker, view: &IterationView) -> Option<ContentBlock> {
    let image = view.images.first()?;
    let left_out = if image.missing {
        "its file is gone".to_owned()
    } else if !image.mime_type.starts_with("image/") {
        "it is of no known image type".to_owned()
    } else if image.bytes > MAX_PICTURE_BYTES {
        format!("it takes {} bytes, and at most {MAX_PICTURE_BYTES} are sent", image.bytes)
    } else {
        let request = ImageRequest { reference: view.reference.to_string(), image: None };
        match tracker.image(&request) {
            Ok(read) => return Some(ContentBlock::image(STANDARD.encode(read.data), image.mime_type.clone())),
            Err(error) => error.message,
        }
    };
    Some(ContentBlock::text(format!("The picture is not sent: {left_out}.")))
}
