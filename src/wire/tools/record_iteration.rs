//! `record-iteration`: records an attempt.

use crate::wire::tool::{Call, Effect, Reply, Tool};
use crate::wire::{Error, ImageInput, RecordRequest, Recorded};

pub(super) struct RecordIteration;

impl Tool for RecordIteration {
    const NAME: &'static str = "record-iteration";
    const TITLE: &'static str = "Record iteration";
    const DESCRIPTION: &'static str = "\
Record one image-generation attempt (prompt, recipe, outcome, images) as the next iteration of a session, or as the \
first of a new session if `sessionId` is left out. Call it after every generation, also a failed or refused one; to \
rate an attempt use annotate-iteration. Images are copied byte for byte; only image and video files are taken, by path over \
stdio and as base64 anywhere. Leave out what you do not know, such as a random seed: it is read from the metadata of \
the image if that has the same prompt (`readFromImage` names what was read), else taken from `like`. `title` and \
`project` rename an existing session. Only adds: nothing is replaced. Without `idempotencyKey` a repeated call records \
again. An archived session refuses it.";
    const EFFECT: Effect = Effect::Adds;
    type Request = RecordRequest;
    type View = Recorded;

    fn call(call: &Call<'_>, mut request: RecordRequest) -> Result<Reply<Recorded>, Error> {
        request.images.iter_mut().for_each(ImageInput::take_file_uri);
        call.files.open_files(&mut request.images)?;
        Ok(call.api.record(&request)?.into())
    }
}
