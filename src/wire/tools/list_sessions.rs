//! `list-sessions`: lists the sessions.

use crate::wire::tool::{Call, Effect, Reply, Tool};
use crate::wire::{Error, ListRequest, SessionList};

pub(super) struct ListSessions;

impl Tool for ListSessions {
    const NAME: &'static str = "list-sessions";
    const TITLE: &'static str = "List sessions";
    const DESCRIPTION: &'static str = "\
List the image-generation sessions of this workspace, most recently modified first, each with its iteration count, \
and with title, project and cost if it has them. Use it to find a session or to see what there is; for the attempts \
inside one use list-iterations, to find attempts by content use search-iterations. Archived sessions are included \
unless `status` excludes them. `totalSessions` counts all that match; a page stays below 24 kB unless `maxChars` raises \
it, and `nextCursor` leads on. If `recovery` is present, data was damaged: tell the user.";
    const EFFECT: Effect = Effect::Reads;
    type Request = ListRequest;
    type View = SessionList;

    fn call(call: &Call<'_>, request: ListRequest) -> Result<Reply<SessionList>, Error> {
        Ok(call.api.list(&request)?.into())
    }
}
