//! `audit-session`: returns the history of a session, and whether it verifies.

use crate::wire::tool::{Call, Effect, Reply, Tool};
use crate::wire::{AuditRequest, AuditView, Error};

pub(super) struct AuditSession;

impl Tool for AuditSession {
    const NAME: &'static str = "audit-session";
    const TITLE: &'static str = "Audit session";
    const DESCRIPTION: &'static str = "\
Audit one session, archived or not: every event with time, actor and reason, oldest first, and whether the hash chain \
and the images verify. Use it to show where work came from and who did it, or after damage; for prompts and recipes \
use list-iterations. The first page reads every image of the session, which takes a while for a large one, and \
reports on them in `images`; later pages (`nextCursor`) have events only.";
    const EFFECT: Effect = Effect::Reads;
    type Request = AuditRequest;
    type View = AuditView;

    fn call(call: &Call<'_>, request: AuditRequest) -> Result<Reply<AuditView>, Error> {
        Ok(call.api.audit(&request)?.into())
    }
}
