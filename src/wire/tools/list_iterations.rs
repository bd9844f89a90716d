//! `list-iterations`: lists the iterations of a session.

use super::thumbnails;
use crate::wire::tool::{Call, Effect, Reply, Tool};
use crate::wire::{Error, ImageView, IterationList, IterationRow, IterationsRequest};

pub(super) struct ListIterations;

impl Tool for ListIterations {
    const NAME: &'static str = "list-iterations";
    const TITLE: &'static str = "List iterations";
    const DESCRIPTION: &'static str = "\
List the iterations of one session: the newest, in ascending order, with prompt, outcome, rating and main parameters. \
Use it to see how a session went or to choose an iteration; for one whole recipe use get-iteration, to find the \
session use list-sessions. With `includeImages` small thumbnails of the newest come along, half a megabyte at most. A \
page stays below 24 kB unless `maxChars` raises it, long prompts are cut, and `nextCursor` leads to older iterations.";
    const EFFECT: Effect = Effect::Reads;
    type Request = IterationsRequest;
    type View = IterationList;

    fn call(call: &Call<'_>, request: IterationsRequest) -> Result<Reply<IterationList>, Error> {
        let view = call.api.iterations(&request)?;
        let name = |row: &IterationRow| view.session_id.iteration(row.index).to_string();
        let pictured: Vec<(String, ImageView)> =
            view.iterations.iter().filter_map(|row| Some((name(row), row.images.as_ref()?.first()?.clone()))).collect();
        Ok(thumbnails::with_images(view.into(), call.api.workspace(), &pictured))
    }
}
