//! The workload: the same iterations for every engine, derived from two numbers, so that runs are reproducible.

use retake::internals::model::{
    Actor, Cost, Draft, Hash, ImageRef, Iteration, Lora, Outcome, OutcomeStatus, Recipe, Seed, SessionId, Timestamp,
};
use retake::internals::store::{Batch, Target};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The number of sessions per day.
pub(crate) const SESSIONS_PER_DAY: u64 = 1000;
pub(crate) const DAY: i64 = 86_400_000;
/// The time of the first session: 2022-01-01T00:00:00Z.
const FIRST_DAY: i64 = 18_993 * DAY;

/// Returns when an iteration is made; sessions follow each other in time.
pub(crate) fn at(session: u64, index: u32) -> Timestamp {
    let (day, within) = (session / SESSIONS_PER_DAY, session % SESSIONS_PER_DAY);
    let millis = FIRST_DAY + day.cast_signed() * DAY + within.cast_signed() * 80_000 + i64::from(index) * 10;
    Timestamp::from_millis(millis).unwrap()
}

pub(crate) fn actor() -> Actor {
    Actor { client: "retake-benches 0.1.0".to_owned(), user: "ada".to_owned() }
}

/// Returns an idempotency key as clients generate them: 32 random digits.
pub(crate) fn key(session: u64, index: u32) -> String {
    let hash = blake3::hash(&[session.to_le_bytes(), u64::from(index).to_le_bytes()].concat());
    hash.to_hex().chars().take(32).collect()
}

/// Returns a typical iteration: a one-line prompt, a negative prompt, one LoRA, one image.
pub(crate) fn iteration(session: u64, index: u32) -> Iteration {
    let seed = session * 7_919 + u64::from(index) * 104_729;
    let mut parameters = Map::new();
    parameters.insert("clip_skip".to_owned(), Value::from(2));
    Iteration {
        created_at: at(session, index),
        recipe: Recipe {
            prompt: format!("a lighthouse at dusk, oil on canvas, study {session}, take {index}, wide brush strokes"),
            negative_prompt: Some("blurry, low contrast, watermark".to_owned()),
            model: Some("sd_xl_base_1.0".to_owned()),
            model_hash: Some("31e35c80fc".to_owned()),
            seed: Some(Seed(seed)),
            steps: Some(28),
            guidance_scale: Some(6.5),
            sampler: Some("DPM++ 2M Karras".to_owned()),
            width: Some(1024),
            height: Some(1024),
            loras: vec![Lora::new("oil_v2", 0.7)],
            provider: Some("local".to_owned()),
            parameters,
            ..Recipe::default()
        },
        outcome: Outcome {
            status: OutcomeStatus::Succeeded,
            message: None,
            generation_time_ms: Some(4_200),
            cost: Some(Cost { amount: 0.004, currency: "USD".to_owned() }),
        },
        images: vec![ImageRef {
            hash: Hash::of(&seed.to_le_bytes()),
            bytes: 1_482_113,
            mime_type: "image/png".to_owned(),
            width: Some(1024),
            height: Some(1024),
            name: Some(format!("{session:06}-{index:03}.png")),
            pixels: None,
            perceptual_hash: None,
            linked: None,
        }],
        parent: None,
        parent_reason: None,
        likely_parent: None,
    }
}

pub(crate) fn title(session: u64) -> String {
    format!("Lighthouse study {session}")
}

/// Returns the batch that records it in our store: to the session `id`, or as the first of a new one.
pub(crate) fn batch(id: Option<SessionId>, session: u64, index: u32) -> Batch {
    let record = Draft::Record(Box::new(iteration(session, index)));
    let (target, drafts) = match id {
        Some(id) => (Target::Existing(id), vec![record]),
        None => {
            let start = Draft::Start { title: Some(title(session)), project: Some("lighthouse".to_owned()) };
            (Target::New(at(session, 0).day()), vec![start, record])
        }
    };
    let (at, key) = (at(session, index), key(session, index));
    Batch { target, expected_iterations: Some(index), at, actor: actor(), key, drafts }
}

/// An iteration as the peers store it: the fields of our payload, through the same encoder.
#[derive(Serialize, Deserialize)]
pub(crate) struct Stored {
    client: String,
    user: String,
    key: String,
    index: u32,
    created_at: i64,
    prompt: String,
    prompt_sent: Option<String>,
    negative_prompt: Option<String>,
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
    parameters: String,
    status: u8,
    message: Option<String>,
    generation_time_ms: Option<u64>,
    cost: Option<(f64, String)>,
    images: Vec<StoredImage>,
    parent: Option<(u32, u32, u32)>,
}

#[derive(Serialize, Deserialize)]
struct StoredImage {
    hash: [u8; 32],
    bytes: u64,
    mime_type: String,
    width: Option<u32>,
    height: Option<u32>,
    name: Option<String>,
}

impl Stored {
    pub(crate) fn new(session: u64, index: u32) -> Stored {
        let Iteration { created_at, recipe, outcome, images, .. } = iteration(session, index);
        let actor = actor();
        let image = |image: ImageRef| StoredImage {
            hash: image.hash.0,
            bytes: image.bytes,
            mime_type: image.mime_type,
            width: image.width,
            height: image.height,
            name: image.name,
        };
        Stored {
            client: actor.client,
            user: actor.user,
            key: key(session, index),
            index,
            created_at: created_at.millis(),
            prompt: recipe.prompt,
            prompt_sent: recipe.prompt_sent,
            negative_prompt: recipe.negative_prompt,
            model: recipe.model,
            model_hash: recipe.model_hash,
            seed: recipe.seed.map(|seed| seed.0),
            steps: recipe.steps,
            guidance_scale: recipe.guidance_scale,
            sampler: recipe.sampler,
            scheduler: recipe.scheduler,
            width: recipe.width,
            height: recipe.height,
            denoise: recipe.denoise,
            loras: recipe.loras.into_iter().map(|lora| (lora.name, lora.weight)).collect(),
            provider: recipe.provider,
            parameters: serde_json::to_string(&recipe.parameters).unwrap(),
            status: 0,
            message: outcome.message,
            generation_time_ms: outcome.generation_time_ms,
            cost: outcome.cost.map(|cost| (cost.amount, cost.currency)),
            images: images.into_iter().map(image).collect(),
            parent: index.checked_sub(1).map(|parent| (0, 0, parent)),
        }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        bincode::serialize(self).unwrap()
    }

    /// Decodes an iteration.
    pub(crate) fn decode(bytes: &[u8]) -> (String, Iteration) {
        let stored: Stored = bincode::deserialize(bytes).unwrap();
        let image = |image: StoredImage| ImageRef {
            hash: Hash(image.hash),
            bytes: image.bytes,
            mime_type: image.mime_type,
            width: image.width,
            height: image.height,
            name: image.name,
            pixels: None,
            perceptual_hash: None,
            linked: None,
        };
        let iteration = Iteration {
            created_at: Timestamp::from_millis(stored.created_at).unwrap(),
            recipe: Recipe {
                prompt: stored.prompt,
                prompt_sent: stored.prompt_sent,
                negative_prompt: stored.negative_prompt,
                model: stored.model,
                model_hash: stored.model_hash,
                seed: stored.seed.map(Seed),
                steps: stored.steps,
                guidance_scale: stored.guidance_scale,
                sampler: stored.sampler,
                scheduler: stored.scheduler,
                width: stored.width,
                height: stored.height,
                denoise: stored.denoise,
                loras: stored.loras.into_iter().map(|(name, weight)| Lora::new(name, weight)).collect(),
                provider: stored.provider,
                parameters: serde_json::from_str(&stored.parameters).unwrap(),
            },
            outcome: Outcome {
                status: OutcomeStatus::Succeeded,
                message: stored.message,
                generation_time_ms: stored.generation_time_ms,
                cost: stored.cost.map(|(amount, currency)| Cost { amount, currency }),
            },
            images: stored.images.into_iter().map(image).collect(),
            parent: None,
            parent_reason: None,
            likely_parent: None,
        };
        (stored.key, iteration)
    }
}
