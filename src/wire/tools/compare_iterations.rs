//! `compare-iterations`: what differs between attempts.

use crate::wire::tool::{Call, Effect, Reply, Tool};
use crate::wire::{CompareRequest, CompareView, Error};

pub(super) struct CompareIterations;

impl Tool for CompareIterations {
    const NAME: &'static str = "compare-iterations";
    const TITLE: &'static str = "Compare iterations";
    const DESCRIPTION: &'static str = "\
Compare 2 to 12 iterations of any sessions: prompt tags or words added, removed, reweighted and moved, the parameters, \
LoRAs and ComfyUI nodes that differ and no others, the nearest common ancestor, and how far the images are apart with \
the box of what changed; a drawing of them comes along unless `render` is `none`. Use it to find out which change made \
the difference; for the steps that led to one iteration use resume-session. Reads only. The others are compared with the \
first. What was truncated to keep the reply small is named in `truncated`; `maxChars` allows for more.";
    const EFFECT: Effect = Effect::Reads;
    type Request = CompareRequest;
    type View = CompareView;

    fn call(call: &Call<'_>, request: CompareRequest) -> Result<Reply<CompareView>, Error> {
        let view = call.api.compare(&request)?;
        let drawn = call.api.render(&view, request.render);
        let reply = Reply::from(view);
        Ok(match drawn {
            Some(drawn) => {
                let (file, mime_type) = drawn.within(MAX_DRAWING_BYTES);
                reply.with_image(file, mime_type)
            }
            None => reply,
        })
    }
}

/// The maximum size of a drawing (a third more as base64): enough to read its labels, and little enough for clients with
/// small limits.
const MAX_DRAWING_BYTES: usize = 300_000;
