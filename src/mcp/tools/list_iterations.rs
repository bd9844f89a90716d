//! `list-iterations`: how a session went.

use crate::mcp::pictures;
use crate::mcp::tool::{Effect, Reply, Tool};
use crate::model::Actor;
use crate::tracker::{Error, ImageView, IterationList, IterationsRequest, Tracker};

pub(super) struct ListIterations;

impl Tool for ListIterations {
    const NAME: &'static str = "list-iterations";
    const TITLE: &'static str = "List iterations";
    const DESCRIPTION: &'static str = "\
List the iterations of one session: the newest ones, in ascending order, with prompt, outcome, rating and the main \
parameters. Use it to see how a session went or to choose an iteration; for one whole recipe use get-iteration, to find \
the session use list-sessions. Reads only. With `includeImages` \
small thumbnails come along. Long prompts are cut; `nextCursor` leads to older iterations.";
    const EFFECT: Effect = Effect::Reads;
    type Request = IterationsRequest;
    type View = IterationList;

    fn call(tracker: &Tracker, _: &Actor, request: IterationsRequest) -> Result<Reply<IterationList>, Error> {
        let view = tracker.iterations(&request)?;
        let named: Vec<(String, &ImageView)> = view
            .iterations
            .iter()
            .filter_map(|row| Some((view.session_id.iteration(row.index).to_string(), row.images.as_ref()?.first()?)))
            .collect();
        let also = pictures::pictures(tracker, named.into_iter());
        Ok(Reply { view, also })
    }
}
