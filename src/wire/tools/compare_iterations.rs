//! `compare-iterations`: returns the differences between iterations.

use super::APP_VIEW;
use crate::wire::tool::{Call, Effect, Reply, Tool};
use crate::wire::{CompareRequest, CompareView, Error};

pub(super) struct CompareIterations;

impl Tool for CompareIterations {
    const NAME: &'static str = "compare-iterations";
    const TITLE: &'static str = "Compare iterations";
    const DESCRIPTION: &'static str = "\
Compare 2 to 12 iterations of any sessions with the first of them: which prompt tags, parameters, LoRAs and ComfyUI \
nodes differ, their nearest common ancestor, and how the images differ in composition, colour and area. Use it to \
find out which change made the difference; for the steps that led to one iteration use resume-session. A drawing \
comes along unless `render` is `none`, and an interactive view where the client has one. Large images take seconds; \
the call reports progress and can be cancelled. What was cut to keep the reply small is named in `truncated`.";
    const EFFECT: Effect = Effect::Reads;
    const VIEW: Option<&'static str> = Some(APP_VIEW);
    type Request = CompareRequest;
    type View = CompareView;

    fn call(call: &Call<'_>, request: CompareRequest) -> Result<Reply<CompareView>, Error> {
        let view = call.api.compare(&request)?;
        let drawn = call.api.render(&view, request.render)?;
        let reply = Reply::from(view);
        Ok(match drawn {
            Some(drawn) => {
                let (file, mime_type) = drawn.fitting(MAX_DRAWING_SIDE).within(MAX_DRAWING_BYTES);
                reply.with_image(file, mime_type)
            }
            None => reply,
        })
    }
}

/// The longest side of a drawing: larger images are scaled down for models anyway.
const MAX_DRAWING_SIDE: u32 = 1568;
/// The maximum size of a drawing (a third more as base64): large enough to read its labels, and small enough for
/// clients with low limits.
const MAX_DRAWING_BYTES: usize = 300_000;
