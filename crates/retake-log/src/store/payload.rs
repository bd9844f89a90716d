//! The frozen structures inside records, one per kind and version, and their conversion to and from the model.
//!
//! These types never change: a new version gets a new type and a new number, and the old one stays readable. bincode
//! does not store field names, so a field that is added, moved or retyped here would silently misread old data. Texts
//! are borrowed: an append does not copy them, and a history only copies those that it returns.

use std::borrow::Cow;

use bincode::Options as _;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::model::{
    Actor, AnnotationChange, Cost, Draft, EventBody, Hash, ImageRef, Iteration, IterationId, LikelyParent, Lora, Loss,
    Outcome, OutcomeStatus, PerceptualHash, Recipe, Seed, Timestamp,
};

use super::{Detail, keys};

/// The maximum size of a payload that is decoded: a guard against a corrupt length with a matching checksum.
pub(super) const MAX_PAYLOAD: u64 = 1 << 20;
/// The maximum size of text inside a payload; beyond it, the longest texts are moved to separate files.
const INLINE_TEXT: usize = 4 * 1024;

pub(super) const STARTED: u16 = 1;
pub(super) const RECORDED: u16 = 2;
pub(super) const ANNOTATED: u16 = 3;
pub(super) const TITLED: u16 = 4;
pub(super) const ARCHIVED: u16 = 5;
pub(super) const RESTORED: u16 = 6;
pub(super) const LOST: u16 = 7;

/// An encoded payload, and the texts that were moved out of it.
pub(super) struct Encoded {
    pub(super) kind: u16,
    pub(super) version: u16,
    pub(super) bytes: Vec<u8>,
    pub(super) texts: Vec<String>,
}

/// A decoded payload.
pub(super) struct Decoded {
    pub(super) actor: Actor,
    pub(super) key: String,
    pub(super) body: EventBody,
    /// The long texts it refers to that are unavailable.
    pub(super) missing_texts: Vec<Hash>,
}

/// The source of long texts when a payload is decoded. `None` leaves the text out.
pub(super) type TextSource<'a> = &'a dyn Fn(Hash) -> Option<String>;

/// A hash: 32 bytes, without a length. Encoded as four numbers of eight bytes, which are the same bytes, because
/// bincode decodes an array of bytes one by one, which took a tenth of the time to read a session.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct HashV1([u64; 4]);

impl From<Hash> for HashV1 {
    fn from(hash: Hash) -> HashV1 {
        let mut words = [0; 4];
        for (word, bytes) in words.iter_mut().zip(hash.0.as_chunks::<8>().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        HashV1(words)
    }
}

impl From<HashV1> for Hash {
    fn from(hash: HashV1) -> Hash {
        let mut bytes = [0; 32];
        for (bytes, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(hash.0) {
            *bytes = word.to_le_bytes();
        }
        Hash(bytes)
    }
}

#[derive(Serialize, Deserialize)]
struct WhoV1<'a> {
    #[serde(borrow)]
    client: Cow<'a, str>,
    #[serde(borrow)]
    user: Cow<'a, str>,
    #[serde(borrow)]
    key: Cow<'a, str>,
}

#[derive(Serialize, Deserialize)]
enum TextV1<'a> {
    #[serde(borrow)]
    Inline(Cow<'a, str>),
    File {
        hash: HashV1,
        bytes: u64,
    },
}

#[derive(Serialize, Deserialize)]
struct StartedV1<'a> {
    #[serde(borrow)]
    who: WhoV1<'a>,
    title: Option<String>,
    project: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct RecordedV1<'a> {
    #[serde(borrow)]
    who: WhoV1<'a>,
    index: u32,
    created_at: i64,
    #[serde(borrow)]
    prompt: TextV1<'a>,
    #[serde(borrow)]
    prompt_sent: Option<TextV1<'a>>,
    #[serde(borrow)]
    negative_prompt: Option<TextV1<'a>>,
    model: Option<String>,
    model_hash: Option<String>,
    seed: Option<u64>,
    steps: Option<u32>,
    guidance_scale: Option<f64>,
    sampler: Option<String>,
    scheduler: Option<String>,
    width: Option<u32>,
    height: Option<u32>,
    denoise: Option<f64>,
    loras: Vec<(String, f64)>,
    provider: Option<String>,
    /// A JSON object.
    #[serde(borrow)]
    parameters: Option<TextV1<'a>>,
    /// 0 succeeded, 1 failed, 2 refused.
    status: u8,
    #[serde(borrow)]
    message: Option<TextV1<'a>>,
    generation_time_ms: Option<u64>,
    cost: Option<(f64, String)>,
    images: Vec<ImageV1>,
    /// Day, number, index.
    parent: Option<(u32, u32, u32)>,
}

#[derive(Serialize, Deserialize)]
struct ImageV1 {
    hash: HashV1,
    bytes: u64,
    mime_type: String,
    width: Option<u32>,
    height: Option<u32>,
    name: Option<String>,
}

/// Version 1 with image fingerprints and the origin of the parent. Written only if there are any, so that all other
/// records keep the bytes of version 1.
#[derive(Serialize, Deserialize)]
struct RecordedV2<'a> {
    #[serde(borrow)]
    first: RecordedV1<'a>,
    /// One for each of `first.images`, in the same order.
    images: Vec<MoreOfImageV2>,
    parent_reason: Option<String>,
    /// Day, number, index, and the reason.
    likely_parent: Option<(u32, u32, u32, String)>,
}

/// Version 2 with additional keys of LoRAs. Written only if there are any.
#[derive(Serialize, Deserialize)]
struct RecordedV3<'a> {
    #[serde(borrow)]
    second: RecordedV2<'a>,
    /// A JSON array with an object for each of `second.first.loras`, in the same order.
    #[serde(borrow)]
    lora_extras: TextV1<'a>,
}

#[derive(Serialize, Deserialize)]
struct MoreOfImageV2 {
    pixels: Option<HashV1>,
    perceptual_hash: Option<u128>,
    linked: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct AnnotatedV1<'a> {
    #[serde(borrow)]
    who: WhoV1<'a>,
    index: u32,
    rating: Option<u8>,
    tags: Option<Vec<String>>,
    #[serde(borrow)]
    note: Option<TextV1<'a>>,
}

#[derive(Serialize, Deserialize)]
struct TitledV1<'a> {
    #[serde(borrow)]
    who: WhoV1<'a>,
    title: Option<String>,
    project: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct ArchivedV1<'a> {
    #[serde(borrow)]
    who: WhoV1<'a>,
    #[serde(borrow)]
    reason: Option<TextV1<'a>>,
}

#[derive(Serialize, Deserialize)]
struct LostV1<'a> {
    #[serde(borrow)]
    who: WhoV1<'a>,
    seqs: Vec<u32>,
    last_index: Option<u32>,
    after: Option<i64>,
    before: Option<i64>,
}

/// Encodes an event. The texts that are moved out do not depend on its index or parent, so they can be written before
/// its position is known.
pub(super) fn encode(actor: &Actor, key: &str, body: &EventBody) -> Encoded {
    let who = WhoV1 { client: (&actor.client).into(), user: (&actor.user).into(), key: key.into() };
    let mut texts = Vec::new();
    let mut version = 1;
    let (kind, bytes) = match body {
        EventBody::Started { title, project } => {
            (STARTED, write(&StartedV1 { who, title: title.clone(), project: project.clone() }))
        }
        EventBody::Recorded { index, iteration } => {
            let mut payload = recorded(who, *index, iteration);
            let mut lora_extras = lora_extras(&iteration.recipe).map(|text| TextV1::Inline(text.into()));
            let mut long = vec![&mut payload.prompt];
            long.extend(payload.prompt_sent.as_mut());
            long.extend(payload.negative_prompt.as_mut());
            long.extend(payload.parameters.as_mut());
            long.extend(payload.message.as_mut());
            long.extend(lora_extras.as_mut());
            texts = put_out(long);
            let bytes = match lora_extras {
                Some(lora_extras) => {
                    version = 3;
                    write(&RecordedV3 { second: second(payload, iteration), lora_extras })
                }
                None if needs_version_2(iteration) => {
                    version = 2;
                    write(&second(payload, iteration))
                }
                None => write(&payload),
            };
            (RECORDED, bytes)
        }
        EventBody::Annotated { index, change } => {
            let mut note = inline(&change.note);
            texts = put_out(note.as_mut().into_iter().collect());
            // Version 2 has the fields of version 1 and may remove the rating, which a reader of version 1 would take
            // for a rating of 0.
            version = if change.rating == Some(AnnotationChange::NO_RATING) { 2 } else { 1 };
            (
                ANNOTATED,
                write(&AnnotatedV1 { who, index: *index, rating: change.rating, tags: change.tags.clone(), note }),
            )
        }
        EventBody::Titled { title, project } => {
            (TITLED, write(&TitledV1 { who, title: title.clone(), project: project.clone() }))
        }
        EventBody::Archived { reason } | EventBody::Restored { reason } => {
            let mut reason = inline(reason);
            texts = put_out(reason.as_mut().into_iter().collect());
            let kind = if matches!(body, EventBody::Archived { .. }) { ARCHIVED } else { RESTORED };
            (kind, write(&ArchivedV1 { who, reason }))
        }
        EventBody::Lost(loss) => {
            let millis = |time: Option<Timestamp>| time.map(Timestamp::millis);
            let (after, before) = (millis(loss.after), millis(loss.before));
            (LOST, write(&LostV1 { who, seqs: loss.seqs.clone(), last_index: loss.last_index, after, before }))
        }
        // Only ever decoded; a draft cannot become one.
        EventBody::Unknown { kind, .. } => (*kind, Vec::new()),
    };
    Encoded { kind, version, bytes, texts }
}

/// Returns whether texts may be moved out of the event of this draft: false for nearly all, without encoding them.
pub(super) fn may_be_long(draft: &Draft) -> bool {
    let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    let bytes = match draft {
        Draft::Record(iteration) | Draft::BringIn(iteration) => {
            let recipe = &iteration.recipe;
            let texts = recipe.prompt.len() + length(&recipe.prompt_sent) + length(&recipe.negative_prompt);
            let extras = lora_extras(recipe).map_or(0, |text| text.len());
            texts + length(&iteration.outcome.message) + json_length(&recipe.parameters) + extras
        }
        Draft::Annotate { change, .. } => length(&change.note),
        Draft::Archive { reason } | Draft::Restore { reason } => length(reason),
        Draft::Start { .. } | Draft::Title { .. } | Draft::Lose(_) => 0,
    };
    bytes > INLINE_TEXT
}

fn json_length(object: &Map<String, Value>) -> usize {
    if object.is_empty() { 0 } else { serde_json::to_string(object).map_or(usize::MAX, |text| text.len()) }
}

/// Decodes a payload. An unknown kind or version becomes [`EventBody::Unknown`]; `None` if a known one does not decode,
/// which after a matching hash means that it was written incorrectly.
pub(super) fn decode(kind: u16, version: u16, bytes: &[u8], detail: Detail, texts: TextSource<'_>) -> Option<Decoded> {
    let mut reader = TextReader { detail, source: texts, missing: Vec::new() };
    let (who, body) = match (kind, version) {
        (STARTED, 1) => {
            let StartedV1 { who, title, project } = read(bytes)?;
            (who, EventBody::Started { title, project })
        }
        (RECORDED, 1) => {
            let payload: RecordedV1 = read(bytes)?;
            let index = payload.index;
            let (who, iteration) = iteration(payload, &mut reader)?;
            (who, EventBody::Recorded { index, iteration: Box::new(iteration) })
        }
        (RECORDED, 2) => {
            let payload: RecordedV2 = read(bytes)?;
            let index = payload.first.index;
            let (who, iteration) = iteration_v2(payload, &mut reader)?;
            (who, EventBody::Recorded { index, iteration: Box::new(iteration) })
        }
        (RECORDED, 3) => {
            let RecordedV3 { second, lora_extras } = read(bytes)?;
            let index = second.first.index;
            let (who, mut iteration) = iteration_v2(second, &mut reader)?;
            // If the text is missing, only the additional keys are lost, not the LoRAs.
            let extras: Vec<Map<String, Value>> = serde_json::from_str(&reader.read(lora_extras)).unwrap_or_default();
            for (lora, extra) in iteration.recipe.loras.iter_mut().zip(extras) {
                lora.extra = extra;
            }
            (who, EventBody::Recorded { index, iteration: Box::new(iteration) })
        }
        (ANNOTATED, 1 | 2) => {
            let AnnotatedV1 { who, index, rating, tags, note } = read(bytes)?;
            let change = AnnotationChange { rating, tags, note: note.map(|note| reader.text(note)) };
            (who, EventBody::Annotated { index, change })
        }
        (TITLED, 1) => {
            let TitledV1 { who, title, project } = read(bytes)?;
            (who, EventBody::Titled { title, project })
        }
        (ARCHIVED | RESTORED, 1) => {
            let ArchivedV1 { who, reason } = read(bytes)?;
            let reason = reason.map(|reason| reader.text(reason));
            (who, if kind == ARCHIVED { EventBody::Archived { reason } } else { EventBody::Restored { reason } })
        }
        (LOST, 1) => {
            let LostV1 { who, seqs, last_index, after, before } = read(bytes)?;
            let time = |millis: Option<i64>| millis.and_then(Timestamp::from_millis);
            (who, EventBody::Lost(Loss { seqs, last_index, after: time(after), before: time(before) }))
        }
        _ => {
            let who = WhoV1 { client: "".into(), user: "".into(), key: "".into() };
            (who, EventBody::Unknown { kind, version })
        }
    };
    let actor = Actor { client: who.client.into_owned(), user: who.user.into_owned() };
    Some(Decoded { actor, key: who.key.into_owned(), body, missing_texts: reader.missing })
}

/// Returns the long texts that a payload refers to.
pub(super) fn texts_named(kind: u16, version: u16, bytes: &[u8]) -> Vec<Hash> {
    decode(kind, version, bytes, Detail::Full, &|_| None).map(|decoded| decoded.missing_texts).unwrap_or_default()
}

/// Returns a text that stays in its payload unless it is too long.
fn inline(text: &Option<String>) -> Option<TextV1<'_>> {
    text.as_deref().map(|text| TextV1::Inline(text.into()))
}

fn options() -> impl bincode::Options {
    bincode::DefaultOptions::new().with_fixint_encoding().with_limit(MAX_PAYLOAD).reject_trailing_bytes()
}

fn write<T: Serialize>(payload: &T) -> Vec<u8> {
    // Only fails above MAX_PAYLOAD, which the limits on new events and the moving of texts prevent.
    options().serialize(payload).unwrap_or_default()
}

fn read<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Option<T> {
    options().deserialize(bytes).ok()
}

/// Moves out the longest texts until the rest is short enough.
fn put_out(mut texts: Vec<&mut TextV1<'_>>) -> Vec<String> {
    let inline = |text: &TextV1<'_>| if let TextV1::Inline(text) = text { text.len() } else { 0 };
    let mut out = Vec::new();
    while texts.iter().map(|text| inline(text)).sum::<usize>() > INLINE_TEXT {
        let Some(longest) = texts.iter_mut().max_by_key(|text| inline(text)) else { break };
        let TextV1::Inline(text) = &mut **longest else { break };
        let text = std::mem::take(text).into_owned();
        **longest = TextV1::File { hash: Hash::of(text.as_bytes()).into(), bytes: text.len() as u64 };
        out.push(text);
    }
    out
}

/// Returns whether an iteration has anything that requires version 2.
fn needs_version_2(iteration: &Iteration) -> bool {
    let seen = |image: &ImageRef| image.pixels.is_some() || image.perceptual_hash.is_some() || image.linked.is_some();
    iteration.images.iter().any(seen) || iteration.parent_reason.is_some() || iteration.likely_parent.is_some()
}

fn second<'a>(first: RecordedV1<'a>, iteration: &Iteration) -> RecordedV2<'a> {
    let images = iteration.images.iter().map(|image| MoreOfImageV2 {
        pixels: image.pixels.map(HashV1::from),
        perceptual_hash: image.perceptual_hash.map(|perceptual_hash| perceptual_hash.0),
        linked: image.linked.clone(),
    });
    let likely_parent = iteration.likely_parent.as_ref().map(|likely| {
        let (day, number) = keys::numbers(likely.reference.session);
        (day, number, likely.reference.index, likely.reason.clone())
    });
    RecordedV2 { first, images: images.collect(), parent_reason: iteration.parent_reason.clone(), likely_parent }
}

/// Returns the additional keys of LoRAs as a JSON array; `None` if there are none.
fn lora_extras(recipe: &Recipe) -> Option<String> {
    let extras: Vec<&Map<String, Value>> = recipe.loras.iter().map(|lora| &lora.extra).collect();
    if extras.iter().all(|extra| extra.is_empty()) {
        return None;
    }
    serde_json::to_string(&extras).ok()
}

fn recorded<'a>(who: WhoV1<'a>, index: u32, iteration: &'a Iteration) -> RecordedV1<'a> {
    let Iteration { created_at, recipe, outcome, images, parent, .. } = iteration;
    let parameters = (!recipe.parameters.is_empty())
        .then(|| TextV1::Inline(serde_json::to_string(&recipe.parameters).unwrap_or_default().into()));
    RecordedV1 {
        who,
        index,
        created_at: created_at.millis(),
        prompt: TextV1::Inline((&recipe.prompt).into()),
        prompt_sent: inline(&recipe.prompt_sent),
        negative_prompt: inline(&recipe.negative_prompt),
        model: recipe.model.clone(),
        model_hash: recipe.model_hash.clone(),
        seed: recipe.seed.map(|seed| seed.0),
        steps: recipe.steps,
        guidance_scale: recipe.guidance_scale,
        sampler: recipe.sampler.clone(),
        scheduler: recipe.scheduler.clone(),
        width: recipe.width,
        height: recipe.height,
        denoise: recipe.denoise,
        loras: recipe.loras.iter().map(|lora| (lora.name.clone(), lora.weight)).collect(),
        provider: recipe.provider.clone(),
        parameters,
        status: match outcome.status {
            OutcomeStatus::Succeeded => 0,
            OutcomeStatus::Failed => 1,
            OutcomeStatus::Refused => 2,
        },
        message: inline(&outcome.message),
        generation_time_ms: outcome.generation_time_ms,
        cost: outcome.cost.as_ref().map(|cost| (cost.amount, cost.currency.clone())),
        images: images
            .iter()
            .map(|image| ImageV1 {
                hash: image.hash.into(),
                bytes: image.bytes,
                mime_type: image.mime_type.clone(),
                width: image.width,
                height: image.height,
                name: image.name.clone(),
            })
            .collect(),
        parent: parent.map(|parent| {
            let (day, number) = keys::numbers(parent.session);
            (day, number, parent.index)
        }),
    }
}

fn iteration<'a>(payload: RecordedV1<'a>, reader: &mut TextReader<'_>) -> Option<(WhoV1<'a>, Iteration)> {
    let parent = match payload.parent {
        Some((day, number, index)) => Some(IterationId { session: keys::session_from(day, number)?, index }),
        None => None,
    };
    let parameters = match payload.parameters {
        Some(TextV1::File { .. }) if reader.detail == Detail::Brief => None,
        parameters => parameters.map(|text| reader.read(text)),
    };
    let parameters = parameters.unwrap_or_default();
    let recipe = Recipe {
        prompt: reader.text(payload.prompt),
        prompt_sent: payload.prompt_sent.map(|text| reader.text(text)),
        negative_prompt: payload.negative_prompt.map(|text| reader.text(text)),
        model: payload.model,
        model_hash: payload.model_hash,
        seed: payload.seed.map(Seed),
        steps: payload.steps,
        guidance_scale: payload.guidance_scale,
        sampler: payload.sampler,
        scheduler: payload.scheduler,
        width: payload.width,
        height: payload.height,
        denoise: payload.denoise,
        loras: payload.loras.into_iter().map(|(name, weight)| Lora::new(name, weight)).collect(),
        provider: payload.provider,
        parameters: serde_json::from_str::<Map<String, Value>>(&parameters).unwrap_or_default(),
    };
    let outcome = Outcome {
        status: match payload.status {
            0 => OutcomeStatus::Succeeded,
            2 => OutcomeStatus::Refused,
            _ => OutcomeStatus::Failed,
        },
        message: payload.message.map(|text| reader.text(text)),
        generation_time_ms: payload.generation_time_ms,
        cost: payload.cost.map(|(amount, currency)| Cost { amount, currency }),
    };
    let images = payload.images.into_iter().map(|image| ImageRef {
        hash: image.hash.into(),
        bytes: image.bytes,
        mime_type: image.mime_type,
        width: image.width,
        height: image.height,
        name: image.name,
        pixels: None,
        perceptual_hash: None,
        linked: None,
    });
    let created_at = Timestamp::from_millis(payload.created_at)?;
    let images = images.collect();
    let iteration = Iteration { created_at, recipe, outcome, images, parent, parent_reason: None, likely_parent: None };
    Some((payload.who, iteration))
}

fn iteration_v2<'a>(payload: RecordedV2<'a>, reader: &mut TextReader<'_>) -> Option<(WhoV1<'a>, Iteration)> {
    let RecordedV2 { first, images, parent_reason, likely_parent } = payload;
    let (who, mut iteration) = iteration(first, reader)?;
    for (image, more) in iteration.images.iter_mut().zip(images) {
        image.pixels = more.pixels.map(Hash::from);
        image.perceptual_hash = more.perceptual_hash.map(PerceptualHash);
        image.linked = more.linked;
    }
    iteration.parent_reason = parent_reason;
    if let Some((day, number, index, reason)) = likely_parent {
        let reference = IterationId { session: keys::session_from(day, number)?, index };
        iteration.likely_parent = Some(LikelyParent { reference, reason });
    }
    Some((who, iteration))
}

struct TextReader<'a> {
    detail: Detail,
    source: TextSource<'a>,
    missing: Vec<Hash>,
}

impl TextReader<'_> {
    fn text(&mut self, text: TextV1<'_>) -> String {
        self.read(text).into_owned()
    }

    fn read<'a>(&mut self, text: TextV1<'a>) -> Cow<'a, str> {
        match text {
            TextV1::Inline(text) => text,
            TextV1::File { hash, bytes } => match (self.source)(hash.into()) {
                Some(text) => text.into(),
                None => {
                    self.missing.push(hash.into());
                    format!("\u{fffd} (a text of {bytes} bytes is not here)").into()
                }
            },
        }
    }
}
