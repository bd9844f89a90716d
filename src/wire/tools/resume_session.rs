//! `resume-session`: returns what is needed to continue earlier work.

use super::{APP_VIEW, thumbnails};
use crate::model::ExactReference;
use crate::wire::tool::{Call, Effect, Reply, Tool};
use crate::wire::{Error, ResumeRequest, ResumeView};

pub(super) struct ResumeSession;

impl Tool for ResumeSession {
    const NAME: &'static str = "resume-session";
    const TITLE: &'static str = "Resume session";
    const DESCRIPTION: &'static str = "\
Read what it takes to continue one session, or from any iteration: its whole recipe, a thumbnail, how it came about \
(what changed at each step, also through other sessions), what was rated best, which branches are open and the cost so far. Call it \
first when the user wants to continue earlier work; to choose among sessions use list-sessions, for one recipe alone \
get-iteration. Changes nothing: to continue, send `recipe` with your changes and `next` to record-iteration. A long \
story is shortened to its last steps; `maxChars` allows for more.";
    const EFFECT: Effect = Effect::Reads;
    const VIEW: Option<&'static str> = Some(APP_VIEW);
    type Request = ResumeRequest;
    type View = ResumeView;

    fn call(call: &Call<'_>, request: ResumeRequest) -> Result<Reply<ResumeView>, Error> {
        let view = call.api.resume(&request)?;
        let named = request.reference.as_deref().map(|reference| call.api.resolve_exactly(reference)).transpose()?;
        let number = named.map_or(0, ExactReference::image_number);
        let image = view.images.get(usize::try_from(number).unwrap_or(usize::MAX)).cloned();
        Ok(thumbnails::with_image(view.into(), call.api.workspace(), image.as_ref()))
    }
}
