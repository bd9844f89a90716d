//! `resume-session`: go on with earlier work.

use crate::mcp::pictures;
use crate::mcp::tool::{Call, Effect, Reply, Tool};
use crate::tracker::{Error, ResumeRequest, ResumeView};

pub(super) struct ResumeSession;

impl Tool for ResumeSession {
    const NAME: &'static str = "resume-session";
    const TITLE: &'static str = "Resume session";
    const DESCRIPTION: &'static str = "\
Resume one session, or go on from any iteration: the whole recipe of the iteration to go on from, a thumbnail, how it came \
to be (what changed at each step, also through other sessions), what was rated best and why, and which branches are open. \
Call it first when the user wants to go on with earlier work; to choose among sessions use list-sessions, for one recipe \
alone get-iteration. Reads only. To go on, send `recipe` with your changes and `next` to record-iteration.";
    const EFFECT: Effect = Effect::Reads;
    type Request = ResumeRequest;
    type View = ResumeView;

    fn call(call: &Call<'_>, request: ResumeRequest) -> Result<Reply<ResumeView>, Error> {
        let view = call.tracker.resume(&request)?;
        let picture = view.images.first().cloned();
        Ok(pictures::with_picture(view.into(), call.tracker, picture.as_ref()))
    }
}
