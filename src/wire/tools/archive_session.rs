//! `archive-session`: archives a session.

use crate::wire::tool::{Call, Effect, Reply, Tool};
use crate::wire::{ArchiveRequest, Error, SessionRow};

pub(super) struct ArchiveSession;

impl Tool for ArchiveSession {
    const NAME: &'static str = "archive-session";
    const TITLE: &'static str = "Archive session";
    const DESCRIPTION: &'static str = "\
Archive one finished or abandoned session: it refuses further iterations, and stays listed, searchable and readable. \
Use it when a workflow is done; restore-session undoes it. Deletes nothing and leaves `lastModifiedAt` as it is. Its \
iterations can still be rated, annotated and branched from. Archiving an archived session changes nothing.";
    const EFFECT: Effect = Effect::Settles;
    type Request = ArchiveRequest;
    type View = SessionRow;

    fn call(call: &Call<'_>, request: ArchiveRequest) -> Result<Reply<SessionRow>, Error> {
        Ok(call.api.archive(&request)?.into())
    }
}
