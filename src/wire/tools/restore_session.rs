//! `restore-session`: restores an archived session.

use crate::wire::tool::{Call, Effect, Reply, Tool};
use crate::wire::{ArchiveRequest, Error, SessionRow};

pub(super) struct RestoreSession;

impl Tool for RestoreSession {
    const NAME: &'static str = "restore-session";
    const TITLE: &'static str = "Restore session";
    const DESCRIPTION: &'static str = "\
Restore one archived session, so that it accepts iterations again. Use it to continue that very session; to branch off \
instead, leave it archived and call record-iteration without `sessionId` and with one of its iterations as `parent`. \
Leaves `lastModifiedAt` as it is. Restoring an active session changes nothing.";
    const EFFECT: Effect = Effect::Settles;
    type Request = ArchiveRequest;
    type View = SessionRow;

    fn call(call: &Call<'_>, request: ArchiveRequest) -> Result<Reply<SessionRow>, Error> {
        Ok(call.api.restore(&request)?.into())
    }
}
