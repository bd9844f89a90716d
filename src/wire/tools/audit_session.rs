//! `audit-session`: what happened to a session, and whether all of it is still there.

use crate::wire::tool::{Call, Effect, Reply, Tool};
use crate::wire::{AuditRequest, AuditView, Error};

pub(super) struct AuditSession;

impl Tool for AuditSession {
    const NAME: &'static str = "audit-session";
    const TITLE: &'static str = "Audit session";
    const DESCRIPTION: &'static str = "\
Audit one session, archived or not: every event with its time, who did it and why, and whether the hash chain and the \
images verify. Use it to show where work came from, or after damage; for prompts and recipes use list-iterations. \
Reads only, but reads every image of the session, which takes a while for a large one. `nextCursor` leads to later events.";
    const EFFECT: Effect = Effect::Reads;
    type Request = AuditRequest;
    type View = AuditView;

    fn call(call: &Call<'_>, request: AuditRequest) -> Result<Reply<AuditView>, Error> {
        Ok(call.api.audit(&request)?.into())
    }
}
