//! `list-sessions`: which sessions there are.

use crate::mcp::tool::{Call, Effect, Reply, Tool};
use crate::tracker::{Error, ListRequest, SessionList};

pub(super) struct ListSessions;

impl Tool for ListSessions {
    const NAME: &'static str = "list-sessions";
    const TITLE: &'static str = "List sessions";
    const DESCRIPTION: &'static str = "\
List the image-generation sessions of this workspace, most recently modified first, each with its iteration count. \
Use it to find a session to go on with or to see what there is; for the attempts inside one session use list-iterations. \
Reads only. `totalSessions` counts all that match; a page stays below 60 kB, and `nextCursor` leads on. When `recovery` \
is present, data was damaged: tell the user.";
    const EFFECT: Effect = Effect::Reads;
    type Request = ListRequest;
    type View = SessionList;

    fn call(call: &Call<'_>, request: ListRequest) -> Result<Reply<SessionList>, Error> {
        Ok(call.tracker.list_for(&request, call.context)?.into())
    }
}
