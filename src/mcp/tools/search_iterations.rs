//! `search-iterations`: find an iteration again.

use crate::mcp::tool::{Call, Effect, Reply, Tool};
use crate::tracker::{Error, ImageInput, SearchRequest, SearchView};

pub(super) struct SearchIterations;

impl Tool for SearchIterations {
    const NAME: &'static str = "search-iterations";
    const TITLE: &'static str = "Search iterations";
    const DESCRIPTION: &'static str = "\
Search the iterations of all sessions, archived ones too, by words in prompts, notes and titles, by recipe, rating, tag, \
time or looks. Use it when you do not know the session, or look for the best or most similar pictures; for the attempts \
of one session use list-iterations. Reads only. Newest first, or most similar first with `similarTo`; `matches` marks \
the words found; `nextCursor` leads on.";
    const EFFECT: Effect = Effect::Reads;
    type Request = SearchRequest;
    type View = SearchView;

    fn call(call: &Call<'_>, mut request: SearchRequest) -> Result<Reply<SearchView>, Error> {
        if let Some(file) = request.similar_file() {
            let mut image = [ImageInput::Path(file.clone())];
            call.paths.check(&mut image).map_err(|error| Error {
                message: error.message.replace("images[0]", "similarTo"),
                hint: "give an iteration such as session-2025-12-11-001#3 instead".to_owned(),
                ..error
            })?;
            if let [ImageInput::Path(checked)] = image {
                *file = checked;
            }
        }
        Ok(call.tracker.search_for(&request, call.context)?.into())
    }
}
