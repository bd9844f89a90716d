//! `compare-iterations`: what differs between attempts.

use crate::mcp::tool::{Call, Effect, Reply, Tool};
use crate::tracker::{CompareRequest, CompareView, Error};

pub(super) struct CompareIterations;

impl Tool for CompareIterations {
    const NAME: &'static str = "compare-iterations";
    const TITLE: &'static str = "Compare iterations";
    const DESCRIPTION: &'static str = "\
Compare 2 to 12 iterations of any sessions: prompt tags or words added, removed, reweighted and moved, the parameters, \
LoRAs and ComfyUI nodes that differ and no others, the nearest common ancestor, and how far the pictures are apart with \
the box of what changed; a drawing of them comes along unless `render` is `none`. Use it to find out which change made \
the difference; for the steps that led to one iteration use resume-session. Reads only. The others are compared with the \
first. What was cut to keep the answer below 60 kB is named in `truncated`.";
    const EFFECT: Effect = Effect::Reads;
    type Request = CompareRequest;
    type View = CompareView;

    fn call(call: &Call<'_>, request: CompareRequest) -> Result<Reply<CompareView>, Error> {
        let view = call.tracker.compare(&request)?;
        let drawn = call.tracker.render(&view, request.render);
        let reply = Reply::from(view);
        Ok(match drawn {
            Some(drawn) => {
                let (file, mime_type) = drawn.within(MAX_DRAWING_BYTES);
                reply.with_picture(&file, mime_type)
            }
            None => reply,
        })
    }
}

/// The most that a drawing takes, which as base64 is a third more: enough to read its labels, and little enough for clients
/// with small limits.
const MAX_DRAWING_BYTES: usize = 300_000;
