//! A recipe as flags of `retake record`, and its conversion to a request.

use std::path::{Path, PathBuf};

use clap::Args;
use retake_recipe::for_each_recipe_field;
use serde_json::{Map, Value};

use crate::model::amounts::ParseCostError;
use crate::model::iteration::MAX_SIDE;
use crate::model::{Cost, Lora, OutcomeStatus, Recipe, Seed, Timestamp};
use crate::wire::{Error, ImageInput, RecordRequest};

use super::args::whole_number;
use super::choice::choice;
use super::exit::{Failure, invalid};
use super::times;

macro_rules! declare_args {
    ({} $($(#[$doc:meta])* $name:ident: $type:ty, $set:ty, $kind:ident $(($($bound:expr),*))?,
        $key:literal, $flag:literal, [$($alias:literal),*], $value:literal, $label:literal, $short:literal;)*) => {
        /// An iteration in flags.
        #[derive(Clone, Debug, Default, PartialEq, Args)]
        pub(super) struct RecipeArgs {
            /// The prompt exactly as typed; without it, the image's own is used
            #[arg(value_name = "PROMPT")]
            prompt: Option<String>,
            /// The prompt, as a flag
            #[arg(long = "prompt", value_name = "TEXT", conflicts_with = "prompt")]
            prompt_flag: Option<String>,
            /// The session to add to, by id or as latest; by default a new one
            #[arg(long, value_name = "ID")]
            session: Option<String>,
            /// The iteration it was derived from [default: the previous one]
            #[arg(long, value_name = "REFERENCE")]
            parent: Option<String>,
            /// An iteration whose recipe fills in what is left out here
            #[arg(long, value_name = "REFERENCE")]
            like: Option<String>,
            /// Image produced by this iteration; may be repeated
            #[arg(long = "image", value_name = "PATH")]
            images: Vec<PathBuf>,
            /// A title for the session
            #[arg(long)]
            title: Option<String>,
            /// The project that the session belongs to
            #[arg(long)]
            project: Option<String>,

            $(
                $(#[$doc])*
                #[arg(long = $flag, $(visible_alias = $alias,)* value_name = $value, allow_negative_numbers = true,
                    value_parser = <$type as FlagValue>::parse_flag, help_heading = "Recipe")]
                $name: Option<$type>,
            )*
            /// The requested size, such as 1024x768
            #[arg(long, value_name = "WxH", conflicts_with_all = ["width", "height"], allow_hyphen_values = true,
                value_parser = size, help_heading = "Recipe")]
            size: Option<(u32, u32)>,
            /// A LoRA and its weight (1 by default); may be repeated
            #[arg(long = "lora", value_name = "NAME[:WEIGHT]", value_parser = lora, help_heading = "Recipe")]
            loras: Vec<Lora>,
            /// Any other parameter; VALUE is JSON, or else text
            #[arg(long = "param", value_name = "KEY=VALUE", value_parser = parameter, help_heading = "Recipe")]
            params: Vec<String>,
            /// All other parameters at once, as a JSON object
            #[arg(long, value_name = "JSON", help_heading = "Recipe")]
            parameters: Option<String>,

            /// The outcome [default: succeeded]
            #[arg(long, value_parser = choice::<OutcomeStatus>(), help_heading = "Outcome")]
            outcome: Option<OutcomeStatus>,
            /// The provider's message, mostly if it failed or refused
            #[arg(long, value_name = "TEXT", help_heading = "Outcome")]
            message: Option<String>,
            /// The duration in milliseconds
            #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole_number::<u64>,
                help_heading = "Outcome")]
            generation_time_ms: Option<u64>,
            /// The cost, such as 0.04 (US dollars), '0.04 EUR', €0,04 or '3 credits'
            #[arg(long, value_name = "AMOUNT", allow_negative_numbers = true, value_parser = cost,
                help_heading = "Outcome")]
            cost: Option<Cost>,
            /// When the image was made, such as '2025-12-11 14:45' [default: now]
            #[arg(long, value_name = "TIME", value_parser = times::parse, help_heading = "Outcome")]
            created_at: Option<Timestamp>,

            /// Fail unless the session has this many iterations
            #[arg(long, value_name = "COUNT", allow_negative_numbers = true, value_parser = whole_number::<u32>,
                help_heading = "Safety")]
            expect: Option<u32>,
            /// Idempotency key: a retry with the same key is recorded only once
            #[arg(long, value_name = "TEXT", help_heading = "Safety")]
            key: Option<String>,
        }

        impl RecipeArgs {
            fn recipe(&self, prompt: String) -> Result<Recipe, Failure> {
                let mut recipe = Recipe {
                    prompt,
                    $($name: self.$name.clone(),)*
                    loras: self.loras.clone(),
                    parameters: parameters(self.parameters.as_deref(), &self.params)?,
                };
                if let Some((width, height)) = self.size {
                    (recipe.width, recipe.height) = (Some(width), Some(height));
                }
                Ok(recipe)
            }
        }
    };
}

for_each_recipe_field!(declare_args {});

impl RecipeArgs {
    /// Returns whether no flag was given.
    pub(super) fn is_empty(&self) -> bool {
        *self == RecipeArgs::default()
    }

    /// Converts the flags to a request.
    pub(super) fn request(self) -> Result<RecordRequest, Failure> {
        let prompt = match self.prompt.as_ref().or(self.prompt_flag.as_ref()) {
            Some(prompt) => prompt.clone(),
            None if self.like.is_some() || !self.images.is_empty() => String::new(),
            None => {
                return Err(Failure::flags(
                    "there is no prompt",
                    "pass it in quotes: retake record \"a cat in the snow\"; or pass --image, from whose metadata it is read",
                ));
            }
        };
        if prompt == "-" {
            return Err(Failure::flags(
                "the prompt is only a dash",
                "pass the prompt in quotes, or read whole requests from standard input with --json -",
            ));
        }
        let recipe = self.recipe(prompt)?;
        Ok(RecordRequest {
            session_id: self.session,
            parent: self.parent,
            like: self.like,
            outcome: self.outcome,
            message: self.message,
            generation_time_ms: self.generation_time_ms,
            cost: self.cost,
            created_at: self.created_at.map(|at| at.to_string()),
            images: self.images.iter().map(|path| image(path)).collect::<Result<_, _>>()?,
            title: self.title,
            project: self.project,
            expected_iteration_count: self.expect,
            idempotency_key: self.key,
            ..RecordRequest::from(recipe)
        })
    }
}

fn size(text: &str) -> Result<(u32, u32), String> {
    let side = |text: &str| text.trim().parse().ok().filter(|side| (1..=MAX_SIDE).contains(side));
    let sides = text.split_once(['x', 'X', '×']).and_then(|(width, height)| Some((side(width)?, side(height)?)));
    sides.ok_or_else(|| format!("expected width and height in pixels, such as 1024x768, each from 1 to {MAX_SIDE}"))
}

fn lora(text: &str) -> Result<Lora, String> {
    let Some((name, weight)) = text.rsplit_once(':') else { return Ok(Lora::new(text, 1.0)) };
    let weight = weight.parse().map_err(|_| {
        format!("the weight of {name:?} is {weight:?}; expected a name and a number, such as detail:0.8")
    })?;
    Ok(Lora::new(name, weight))
}

fn cost(text: &str) -> Result<Cost, String> {
    text.parse().map_err(|error: ParseCostError| error.to_string())
}

/// The value of a recipe field on the command line. Its error states what was expected rather than quoting Rust's
/// parser.
trait FlagValue: Sized {
    fn parse_flag(text: &str) -> Result<Self, String>;
}

impl FlagValue for String {
    fn parse_flag(text: &str) -> Result<String, String> {
        Ok(text.to_owned())
    }
}

impl FlagValue for Seed {
    fn parse_flag(text: &str) -> Result<Seed, String> {
        text.parse().map_err(|_| format!("expected a whole number from 0 to {}", u64::MAX))
    }
}

impl FlagValue for u32 {
    fn parse_flag(text: &str) -> Result<u32, String> {
        whole_number(text)
    }
}

impl FlagValue for f64 {
    fn parse_flag(text: &str) -> Result<f64, String> {
        text.parse().map_err(|_| "expected a number such as 7.5".to_owned())
    }
}

/// Checks that a parameter has a name and a value.
fn parameter(text: &str) -> Result<String, String> {
    match text.split_once('=') {
        Some((name, _)) if !name.trim().is_empty() => Ok(text.to_owned()),
        _ => Err("expected KEY=VALUE".to_owned()),
    }
}

fn parameters(all: Option<&str>, each: &[String]) -> Result<Map<String, Value>, Failure> {
    let mut parameters = match all.map(serde_json::from_str) {
        None => Map::new(),
        Some(Ok(Value::Object(parameters))) => parameters,
        Some(Ok(_)) => {
            return Err(Failure::flags("--parameters is not a JSON object", "write it as '{\"name\": value, …}'"));
        }
        Some(Err(error)) => {
            let hint = "write it as '{\"name\": value, …}', in single quotes so that the shell leaves it alone";
            return Err(Failure::Flags(invalid("--parameters is not JSON", hint).caused_by(error)));
        }
    };
    for text in each {
        let (name, value) = text
            .split_once('=')
            .ok_or_else(|| Failure::flags(format!("--param {text:?} has no value"), "write it as KEY=VALUE"))?;
        let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
        if parameters.insert(name.to_owned(), value).is_some() {
            let message = format!("--param {name:?} is given twice");
            return Err(Failure::flags(message, "give each parameter once, with --param or in --parameters"));
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
    fn an_invalid_value_is_explained() {
        for text in ["1024", "x", "10x", "axb", "-1x5", "0x5", "5x1000001"] {
            assert!(size(text).unwrap_err().contains("1024x768"), "{text:?}");
        }
        assert_eq!((size("1024x768").unwrap(), size("8 × 9").unwrap()), ((1024, 768), (8, 9)));
        for text in ["USD", "", "cheap", "0.04 dollars"] {
            assert!(cost(text).unwrap_err().contains("USD"), "{text:?}");
        }
        assert!(lora("detail:high").unwrap_err().contains("detail"));
        assert_eq!(lora("a:b:-0.5").unwrap(), Lora::new("a:b", -0.5));
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
        for text in ["", "=", "=1", " =1", "a"] {
            assert!(parameter(text).is_err(), "{text:?}");
        }
    }
}
