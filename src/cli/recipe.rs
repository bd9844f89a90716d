//! A recipe as flags: what `retake record` takes, and the request it comes to.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use serde_json::{Map, Value};

use crate::model::{Cost, Lora, OutcomeStatus, Seed};
use crate::tracker::{Error, ImageInput, RecordRequest};

use super::ending::{Failure, invalid};

/// All that can be said of an iteration in flags.
#[derive(Clone, Debug, Default, PartialEq, Args)]
pub(super) struct RecipeArgs {
    /// The prompt exactly as it was typed
    #[arg(value_name = "PROMPT")]
    prompt: Option<String>,
    /// The prompt, as a flag
    #[arg(long = "prompt", value_name = "TEXT", conflicts_with = "prompt")]
    prompt_flag: Option<String>,
    /// The session to add to, by its id or as latest; without it a new session is started
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// The iteration it came from, in any session [default: the one before it in the session]
    #[arg(long, value_name = "REFERENCE")]
    parent: Option<String>,
    /// A picture that came of it; once for each. The bytes are copied into the workspace
    #[arg(long = "image", value_name = "PATH")]
    images: Vec<PathBuf>,
    /// A title for the session
    #[arg(long)]
    title: Option<String>,
    /// The project the session belongs to
    #[arg(long)]
    project: Option<String>,

    /// The model's name
    #[arg(long, help_heading = "Recipe")]
    model: Option<String>,
    /// The model file's hash
    #[arg(long, value_name = "HASH", help_heading = "Recipe")]
    model_hash: Option<String>,
    /// The seed, from 0 to 18446744073709551615
    #[arg(long, allow_hyphen_values = true, help_heading = "Recipe")]
    seed: Option<String>,
    /// The number of sampling steps
    #[arg(long, value_name = "N", allow_negative_numbers = true, help_heading = "Recipe")]
    steps: Option<u32>,
    /// CFG or guidance scale
    #[arg(long, visible_alias = "cfg", value_name = "X", allow_negative_numbers = true, help_heading = "Recipe")]
    guidance_scale: Option<f64>,
    /// The sampler
    #[arg(long, help_heading = "Recipe")]
    sampler: Option<String>,
    /// The scheduler
    #[arg(long, help_heading = "Recipe")]
    scheduler: Option<String>,
    /// The size asked for, such as 1024x768
    #[arg(long, value_name = "WxH", conflicts_with_all = ["width", "height"], help_heading = "Recipe")]
    size: Option<String>,
    /// The width asked for, in pixels
    #[arg(long, value_name = "PIXELS", allow_negative_numbers = true, help_heading = "Recipe")]
    width: Option<u32>,
    /// The height asked for, in pixels
    #[arg(long, value_name = "PIXELS", allow_negative_numbers = true, help_heading = "Recipe")]
    height: Option<u32>,
    /// Denoising strength, from 0 to 1
    #[arg(long, value_name = "X", allow_negative_numbers = true, help_heading = "Recipe")]
    denoise: Option<f64>,
    /// A LoRA and its weight, 1 unless given; once for each, in the order they were applied
    #[arg(long = "lora", value_name = "NAME[:WEIGHT]", help_heading = "Recipe")]
    loras: Vec<String>,
    /// What the picture should not show
    #[arg(long, value_name = "TEXT", help_heading = "Recipe")]
    negative_prompt: Option<String>,
    /// The prompt as sent, when it was expanded or rewritten on the way
    #[arg(long, value_name = "TEXT", help_heading = "Recipe")]
    prompt_sent: Option<String>,
    /// The provider or tool that made it
    #[arg(long, help_heading = "Recipe")]
    provider: Option<String>,
    /// Any other parameter; VALUE is JSON, or else text
    #[arg(long = "param", value_name = "KEY=VALUE", help_heading = "Recipe")]
    params: Vec<String>,
    /// All other parameters at once, as a JSON object
    #[arg(long, value_name = "JSON", help_heading = "Recipe")]
    parameters: Option<String>,

    /// What came of it [default: succeeded]
    #[arg(long, value_enum, help_heading = "Outcome")]
    outcome: Option<Outcome>,
    /// What the provider said, mostly when it failed or refused
    #[arg(long, value_name = "TEXT", help_heading = "Outcome")]
    message: Option<String>,
    /// How long it took, in milliseconds
    #[arg(long, value_name = "N", allow_negative_numbers = true, help_heading = "Outcome")]
    generation_time_ms: Option<u64>,
    /// What it cost, such as '0.04 USD'
    #[arg(long, value_name = "AMOUNT CURRENCY", allow_negative_numbers = true, help_heading = "Outcome")]
    cost: Option<String>,
    /// When the picture was made, such as 2025-12-11T14:45:22Z [default: now]
    #[arg(long, value_name = "TIME", help_heading = "Outcome")]
    created_at: Option<String>,

    /// How many iterations the session should have; refused when someone else has added to it
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true, help_heading = "Safety")]
    expect: Option<u32>,
    /// A text unique to this recording: asking again with it records nothing twice
    #[arg(long, value_name = "TEXT", help_heading = "Safety")]
    key: Option<String>,
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum Outcome {
    /// It gave what was asked for
    Succeeded,
    /// It broke
    Failed,
    /// The provider would not do it
    Refused,
}

impl RecipeArgs {
    /// Whether nothing was said.
    pub(super) fn is_empty(&self) -> bool {
        *self == RecipeArgs::default()
    }

    /// The request that the flags come to.
    pub(super) fn request(self) -> Result<RecordRequest, Failure> {
        let prompt = self.prompt.or(self.prompt_flag).ok_or_else(|| {
            Failure::flags("there is no prompt", "give it in quotes: retake record \"a cat in the snow\"")
        })?;
        if prompt == "-" {
            return Err(Failure::flags(
                "the prompt is only a dash",
                "give the prompt in quotes, or read whole requests from standard input with --json -",
            ));
        }
        let (width, height) = match self.size.as_deref().map(size).transpose()? {
            Some((width, height)) => (Some(width), Some(height)),
            None => (self.width, self.height),
        };
        Ok(RecordRequest {
            prompt,
            session_id: self.session,
            parent: self.parent,
            prompt_sent: self.prompt_sent,
            negative_prompt: self.negative_prompt,
            model: self.model,
            model_hash: self.model_hash,
            seed: self.seed.as_deref().map(seed).transpose()?,
            steps: self.steps,
            guidance_scale: self.guidance_scale,
            sampler: self.sampler,
            scheduler: self.scheduler,
            width,
            height,
            denoise: self.denoise,
            loras: self.loras.iter().map(|text| lora(text)).collect::<Result<_, _>>()?,
            provider: self.provider,
            parameters: parameters(self.parameters.as_deref(), &self.params)?,
            outcome: self.outcome.map(|outcome| match outcome {
                Outcome::Succeeded => OutcomeStatus::Succeeded,
                Outcome::Failed => OutcomeStatus::Failed,
                Outcome::Refused => OutcomeStatus::Refused,
            }),
            message: self.message,
            generation_time_ms: self.generation_time_ms,
            cost: self.cost.as_deref().map(cost).transpose()?,
            created_at: self.created_at,
            images: self.images.iter().map(|path| image(path)).collect::<Result<_, _>>()?,
            title: self.title,
            project: self.project,
            expected_iteration_count: self.expect,
            idempotency_key: self.key,
        })
    }
}

fn seed(text: &str) -> Result<Seed, Error> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| digits).map(Seed).ok_or_else(|| {
        invalid(format!("seed is {text:?}"), "give a whole number from 0 to 18446744073709551615, or leave it out")
    })
}

fn size(text: &str) -> Result<(u32, u32), Error> {
    let sides = text.split_once(['x', 'X', '×']);
    sides
        .and_then(|(width, height)| Some((width.trim().parse().ok()?, height.trim().parse().ok()?)))
        .ok_or_else(|| invalid(format!("size is {text:?}"), "give width and height in pixels, such as 1024x768"))
}

fn lora(text: &str) -> Result<Lora, Error> {
    let Some((name, weight)) = text.rsplit_once(':') else {
        return Ok(Lora { name: text.to_owned(), weight: 1.0 });
    };
    let weight = weight.parse().map_err(|_| {
        invalid(format!("the weight of LoRA {name:?} is {weight:?}"), "give the name and a number, such as detail:0.8")
    })?;
    Ok(Lora { name: name.to_owned(), weight })
}

fn cost(text: &str) -> Result<Cost, Error> {
    let parts = text.trim().split_once(char::is_whitespace);
    parts
        .and_then(|(amount, currency)| {
            Some(Cost { amount: amount.parse().ok()?, currency: currency.trim().to_owned() })
        })
        .ok_or_else(|| invalid(format!("cost is {text:?}"), "give an amount and its currency, such as '0.04 USD'"))
}

fn parameters(all: Option<&str>, each: &[String]) -> Result<Map<String, Value>, Error> {
    let mut parameters = match all.map(serde_json::from_str) {
        None => Map::new(),
        Some(Ok(Value::Object(parameters))) => parameters,
        Some(Ok(_)) => {
            return Err(invalid("--parameters is not a JSON object", "write it as '{\"name\": value, …}'"));
        }
        Some(Err(error)) => {
            let hint = "write it as '{\"name\": value, …}', in single quotes so that the shell leaves it alone";
            return Err(invalid("--parameters is not JSON", hint).caused_by(error));
        }
    };
    for text in each {
        let (name, value) = text
            .split_once('=')
            .ok_or_else(|| invalid(format!("--param {text:?} has no value"), "write it as KEY=VALUE"))?;
        let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
        if parameters.insert(name.to_owned(), value).is_some() {
            return Err(invalid(format!("parameter {name:?} is given twice"), "give each parameter once"));
        }
    }
    Ok(parameters)
}

fn image(path: &Path) -> Result<ImageInput, Error> {
    path.to_str().map(|path| ImageInput::Path(path.to_owned())).ok_or_else(|| {
        invalid(format!("the path of an image is not UTF-8: {}", path.display()), "rename the file, then record it")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_says_what_would_be_right() {
        for seed_text in ["-1", "", "1.5", "+3", "18446744073709551616", "many"] {
            assert!(seed(seed_text).unwrap_err().hint.contains("18446744073709551615"), "{seed_text:?}");
        }
        assert_eq!(seed("18446744073709551615").unwrap(), Seed(u64::MAX));
        for text in ["1024", "x", "10x", "axb", "-1x5"] {
            assert!(size(text).unwrap_err().hint.contains("1024x768"), "{text:?}");
        }
        assert_eq!((size("1024x768").unwrap(), size("8 × 9").unwrap()), ((1024, 768), (8, 9)));
        for text in ["0.04", "USD", "USD 0.04", ""] {
            assert!(cost(text).unwrap_err().hint.contains("0.04 USD"), "{text:?}");
        }
        assert_eq!(cost("3 Stability credits").unwrap().currency, "Stability credits");
        assert!(lora("detail:high").unwrap_err().message.contains("detail"));
        assert_eq!(lora("a:b:-0.5").unwrap(), Lora { name: "a:b".to_owned(), weight: -0.5 });
        assert!((lora("plain").unwrap().weight - 1.0).abs() < f64::EPSILON);
    }

    #[test]
    fn parameters_are_json_or_else_text() {
        let params = ["clip=2", "vae=kl-f8", "hires={\"scale\":1.5}", "id=007", "empty="].map(str::to_owned);
        let got = Value::Object(parameters(Some(r#"{"z":1,"a":2}"#), &params).unwrap());
        assert_eq!(
            got.to_string(),
            r#"{"z":1,"a":2,"clip":2,"vae":"kl-f8","hires":{"scale":1.5},"id":"007","empty":""}"#
        );
        for (all, each) in
            [(Some("[1]"), None), (Some("{"), None), (None, Some("x")), (Some(r#"{"a":1}"#), Some("a=2"))]
        {
            let each: Vec<String> = each.into_iter().map(str::to_owned).collect();
            assert!(parameters(all, &each).is_err(), "{all:?} {each:?}");
        }
    }
}
