//! `update-session`: sets the title or project of a session.

use crate::wire::tool::{Call, Effect, Reply, Tool};
use crate::wire::{Error, SessionRow, UpdateRequest};

pub(super) struct UpdateSession;

impl Tool for UpdateSession {
    const NAME: &'static str = "update-session";
    const TITLE: &'static str = "Update session";
    const DESCRIPTION: &'static str = "\
Set the title or the project of one session, archived or not. Use it to name work that was recorded or imported without \
a title, or to move a session to another project; to rate or tag single images use annotate-iteration. Pass at least one \
of `title` and `project`: what is left out stays, an empty text removes it, and the audit trail keeps the old name. Leaves \
`lastModifiedAt` as it is; a call that changes nothing writes nothing.";
    const EFFECT: Effect = Effect::Settles;
    type Request = UpdateRequest;
    type View = SessionRow;

    fn call(call: &Call<'_>, request: UpdateRequest) -> Result<Reply<SessionRow>, Error> {
        Ok(call.api.update_session(&request)?.into())
    }
}
