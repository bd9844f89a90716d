//! `record-iteration`: remember an attempt.

use crate::mcp::tool::{Call, Effect, Reply, Tool};
use crate::tracker::{Error, RecordRequest, Recorded};

pub(super) struct RecordIteration;

impl Tool for RecordIteration {
    const NAME: &'static str = "record-iteration";
    const TITLE: &'static str = "Record iteration";
    const DESCRIPTION: &'static str = "\
Record one image-generation attempt (prompt, recipe, outcome, pictures) as the next iteration of a session, or as the \
first of a new session when `sessionId` is left out. Call it after every generation, failed and refused ones too; to \
rate or tag an attempt that is recorded use annotate-iteration. Only adds: pictures are copied and nothing is replaced. \
Without `idempotencyKey` a repeated call records again. An archived session refuses it.";
    const EFFECT: Effect = Effect::Adds;
    type Request = RecordRequest;
    type View = Recorded;

    fn call(call: &Call<'_>, mut request: RecordRequest) -> Result<Reply<Recorded>, Error> {
        call.paths.open(&mut request.images)?;
        Ok(call.tracker.record(call.actor, &request)?.into())
    }
}
