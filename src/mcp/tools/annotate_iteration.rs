//! `annotate-iteration`: say what an iteration is worth.

use crate::mcp::tool::{Call, Effect, Reply, Tool};
use crate::tracker::{AnnotateRequest, AnnotationsView, Error};

pub(super) struct AnnotateIteration;

impl Tool for AnnotateIteration {
    const NAME: &'static str = "annotate-iteration";
    const TITLE: &'static str = "Annotate iteration";
    const DESCRIPTION: &'static str = "\
Annotate one recorded iteration: give it a rating, tags or a note. Use it when the user judges a picture; to record a \
new attempt use record-iteration. What is left out stays; `tags` and `note` take the place of those it had, which the \
audit trail keeps. Each call adds an event, unless it repeats an `idempotencyKey`.";
    const EFFECT: Effect = Effect::Adds;
    type Request = AnnotateRequest;
    type View = AnnotationsView;

    fn call(call: &Call<'_>, request: AnnotateRequest) -> Result<Reply<AnnotationsView>, Error> {
        Ok(call.tracker.annotate(call.actor, &request)?.into())
    }
}
