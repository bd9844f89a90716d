//! `search-iterations`: finds iterations.

use crate::wire::tool::{Call, Effect, Reply, Tool};
use crate::wire::{Error, ImageInput, SearchRequest, SearchView};

pub(super) struct SearchIterations;

impl Tool for SearchIterations {
    const NAME: &'static str = "search-iterations";
    const TITLE: &'static str = "Search iterations";
    const DESCRIPTION: &'static str = "\
Search the iterations of all sessions, archived ones too, by words in prompts, notes, titles and messages, by recipe, \
rating, tag, time or appearance; all that is given must match. Use it if you do not know the session, or look for the best or most similar images; \
for the attempts of one session use list-iterations, to find a session by its title use list-sessions. Newest first, \
best rated first with `sort`, most similar first with `similarTo`. `totalMatches` counts all; if there are none, \
`hint` says why; `nextCursor` leads on.";
    const EFFECT: Effect = Effect::Reads;
    type Request = SearchRequest;
    type View = SearchView;

    fn call(call: &Call<'_>, mut request: SearchRequest) -> Result<Reply<SearchView>, Error> {
        if let Some(file) = request.similar_file() {
            let mut image = [ImageInput::Path(file.clone())];
            image.iter_mut().for_each(ImageInput::take_file_uri);
            call.files.open_files(&mut image).map_err(|error| {
                let message = error.message.replace("images[0]", "similarTo");
                Error::new(error.kind, message, "pass an iteration such as session-2025-12-11-001#3 instead")
            })?;
            match image {
                [ImageInput::Opened(opened)] => request.similar_opened = Some(opened),
                [ImageInput::Path(path)] => request.similar_to = Some(path),
                _ => {}
            }
        }
        Ok(call.api.search(&request)?.into())
    }
}
