//! Sanitises recipes from servers, which may send anything: fills in missing fields from image metadata, and enforces
//! the limits of fields.

use retake_recipe::fields::{FIELDS, FieldValue, Kind};
use retake_recipe::for_each_recipe_field;
use serde_json::{Map, Value, json};

use crate::model::Recipe;
use crate::model::iteration::{MAX_NAME_BYTES, MAX_PARAMETERS_BYTES, MAX_PROMPT_BYTES};

use super::outcome::clip;

macro_rules! declare_repairs {
    ({} $($(#[$doc:meta])* $name:ident: $type:ty, $set:ty, $kind:ident $(($($bound:expr),*))?,
        $key:literal, $flag:literal, [$($alias:literal),*], $value:literal, $label:literal, $short:literal;)*) => {
        /// Fills in missing fields of a recipe from another, and returns their keys.
        pub(super) fn fill_gaps(recipe: &mut Recipe, other: Recipe) -> Vec<&'static str> {
            let mut filled = Vec::new();
            $(
                if recipe.$name.is_none() && other.$name.is_some() {
                    recipe.$name = other.$name;
                    filled.push($key);
                }
            )*
            if recipe.loras.is_empty() && !other.loras.is_empty() {
                recipe.loras = other.loras;
                filled.push("loras");
            }
            filled
        }

        /// Removes values that violate the limits of their fields.
        fn remove_invalid(recipe: &mut Recipe) {
            let mut fields = FIELDS.iter();
            $(
                if let (Some(field), Some(value)) = (fields.next(), &recipe.$name)
                    && value.check(field).is_err()
                {
                    recipe.$name = None;
                }
            )*
        }
    };
}

for_each_recipe_field!(declare_repairs {});

/// Returns the recipe with every text truncated and cleaned to the limits of its field, without values that still
/// violate them.
pub(super) fn within_limits(recipe: &Recipe) -> Recipe {
    let mut recipe = recipe.clone();
    recipe.prompt = clean(&recipe.prompt, MAX_PROMPT_BYTES);
    recipe.parameters = parameters_within_limit(recipe.parameters);
    for (field, text) in recipe.texts_mut() {
        *text = if field.kind == Kind::Prompt { clean(text, MAX_PROMPT_BYTES) } else { one_line(text) };
    }
    remove_invalid(&mut recipe);
    recipe
}

/// Removes control characters from a text and truncates it to this many bytes.
pub(super) fn clean(text: &str, max_bytes: usize) -> String {
    let clean: String =
        text.chars().map(|c| if c.is_control() && !matches!(c, '\n' | '\r' | '\t') { '\u{fffd}' } else { c }).collect();
    clip(&clean, max_bytes).to_owned()
}

/// Reduces a name to one line, truncated to the limit of names.
pub(super) fn one_line(name: &str) -> String {
    clean(&name.replace(['\n', '\r'], " "), MAX_NAME_BYTES)
}

/// Returns the parameters if they are small enough; otherwise their origin and the names of those left out.
fn parameters_within_limit(parameters: Map<String, Value>) -> Map<String, Value> {
    let fits =
        |map: &Map<String, Value>| serde_json::to_string(map).is_ok_and(|text| text.len() <= MAX_PARAMETERS_BYTES);
    if fits(&parameters) {
        return parameters;
    }
    let names = json!(parameters.keys().collect::<Vec<_>>());
    let mut kept: Map<String, Value> = parameters.into_iter().filter(|(key, _)| key == "mcp").collect();
    kept.insert("tooLargeToKeep".to_owned(), names);
    if fits(&kept) { kept } else { Map::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_keep_the_limits_of_their_fields() {
        let recipe = Recipe::new("a\u{1b}[31m fox\n")
            .model("flux\ndev")
            .sampler(" ")
            .guidance_scale(1e9)
            .denoise(0.5)
            .width(0)
            .height(512)
            .scheduler("x".repeat(MAX_NAME_BYTES + 1))
            .parameter("large", "x".repeat(MAX_PARAMETERS_BYTES))
            .parameter("mcp", json!({"tool": "draw"}));
        let kept = within_limits(&recipe);
        assert_eq!(kept.check(), Ok(()));
        assert_eq!((kept.prompt.as_str(), kept.model.as_deref()), ("a\u{fffd}[31m fox\n", Some("flux dev")));
        assert_eq!((kept.sampler, kept.guidance_scale, kept.denoise), (None, None, Some(0.5)));
        assert_eq!(
            (kept.width, kept.height, kept.scheduler.map(|it| it.len())),
            (None, Some(512), Some(MAX_NAME_BYTES))
        );
        assert_eq!(kept.parameters["mcp"]["tool"], "draw");
        assert_eq!(kept.parameters["tooLargeToKeep"], json!(["large", "mcp"]));
    }

    #[test]
    fn only_gaps_are_filled() {
        let mut recipe = Recipe::new("a fox").seed(7);
        let other = Recipe::new("ignored").seed(8).steps(20).lora("detail", 0.5);
        assert_eq!(fill_gaps(&mut recipe, other), ["steps", "loras"]);
        assert_eq!(recipe, Recipe::new("a fox").seed(7).steps(20).lora("detail", 0.5));
    }
}
