//! `compare-iterations`: what differs between attempts.

use crate::mcp::tool::{Call, Effect, Reply, Tool};
use crate::tracker::{CompareRequest, CompareView, Error};

pub(super) struct CompareIterations;

impl Tool for CompareIterations {
    const NAME: &'static str = "compare-iterations";
    const TITLE: &'static str = "Compare iterations";
    const DESCRIPTION: &'static str = "\
Compare 2 to 12 iterations of any sessions: prompt tags or words added, removed, reweighted and moved, the parameters, \
LoRAs and ComfyUI nodes that differ and no others, and the nearest common ancestor. Use it to find out which change made \
the difference; for the steps that led to one iteration use resume-session. Reads only. The others are compared with the \
first. What was cut to keep the answer below 60 kB is named in `truncated`.";
    const EFFECT: Effect = Effect::Reads;
    type Request = CompareRequest;
    type View = CompareView;

    fn call(call: &Call<'_>, request: CompareRequest) -> Result<Reply<CompareView>, Error> {
        Ok(call.tracker.compare(&request)?.into())
    }
}
