//! `resume-session`: go on with earlier work.

use super::thumbnails;
use crate::wire::tool::{Call, Effect, Reply, Tool};
use crate::wire::{Error, ResumeRequest, ResumeView};

pub(super) struct ResumeSession;

impl Tool for ResumeSession {
    const NAME: &'static str = "resume-session";
    const TITLE: &'static str = "Resume session";
    const DESCRIPTION: &'static str = "\
Resume one session, or continue from any iteration: the whole recipe of that iteration, a thumbnail, its history (what \
changed at each step, also through other sessions), what was rated best and why, and which branches are open. Call it \
first if the user wants to continue earlier work; to choose among sessions use list-sessions, for one recipe alone \
get-iteration. Reads only. To continue, send `recipe` with your changes and `next` to record-iteration.";
    const EFFECT: Effect = Effect::Reads;
    type Request = ResumeRequest;
    type View = ResumeView;

    fn call(call: &Call<'_>, request: ResumeRequest) -> Result<Reply<ResumeView>, Error> {
        let view = call.api.resume(&request)?;
        let image = view.images.first().cloned();
        Ok(thumbnails::with_image(view.into(), call.api.workspace(), image.as_ref()))
    }
}
