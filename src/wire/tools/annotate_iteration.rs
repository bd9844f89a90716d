//! `annotate-iteration`: rates, tags or notes an iteration.

use crate::wire::tool::{Call, Effect, Reply, Tool};
use crate::wire::{AnnotateRequest, AnnotationsView, Error};

pub(super) struct AnnotateIteration;

impl Tool for AnnotateIteration {
    const NAME: &'static str = "annotate-iteration";
    const TITLE: &'static str = "Annotate iteration";
    const DESCRIPTION: &'static str = "\
Annotate one recorded iteration with a rating, tags or a note. Use it when the user judges an image; to record a new \
attempt use record-iteration. What is left out stays; `rating` null removes the rating, `tags` and `note` replace the \
present ones, `addTags` and `removeTags` change single tags, and the audit trail keeps what was replaced. A change moves the \
session's `lastModifiedAt`, so that `latest` means this session; a call that changes nothing writes nothing. Works on \
archived sessions, too.";
    const EFFECT: Effect = Effect::Settles;
    type Request = AnnotateRequest;
    type View = AnnotationsView;

    fn call(call: &Call<'_>, request: AnnotateRequest) -> Result<Reply<AnnotationsView>, Error> {
        Ok(call.api.annotate(&request)?.into())
    }
}
