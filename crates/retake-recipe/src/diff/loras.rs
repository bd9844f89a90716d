//! Compares the LoRAs of two recipes. LoRAs written into a prompt are tags, and compared there.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Lora, Recipe};

/// A LoRA that differs between two recipes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LoraChange {
    /// Its name.
    pub name: String,
    /// The weight it had; absent when it is new.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old_weight: Option<f64>,
    /// The weight it has; absent when it is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_weight: Option<f64>,
}

/// A LoRA that is not the same in all of several recipes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LoraRow {
    /// Its name.
    pub name: String,
    /// Its weight in each recipe, in their order; null where it was not used.
    #[schemars(with = "Vec<serde_json::Value>")]
    pub weights: Vec<Option<f64>>,
}

/// Returns the LoRAs that differ between two recipes.
pub fn changes(old: &Recipe, new: &Recipe) -> Vec<LoraChange> {
    let rows = table(&[old, new]).into_iter().map(|row| {
        let mut weights = row.weights.into_iter();
        LoraChange { name: row.name, old_weight: weights.next().flatten(), new_weight: weights.next().flatten() }
    });
    rows.collect()
}

/// Returns the LoRAs that are not the same in all recipes, in the order in which they were applied.
pub fn table(recipes: &[&Recipe]) -> Vec<LoraRow> {
    let mut rows: Vec<(&str, usize)> = Vec::new();
    for recipe in recipes {
        for (at, lora) in recipe.loras.iter().enumerate() {
            // A LoRA that is applied twice has two rows.
            let before = recipe.loras.iter().take(at).filter(|earlier| earlier.name == lora.name).count();
            if !rows.contains(&(&lora.name, before)) {
                rows.push((&lora.name, before));
            }
        }
    }
    let rows = rows.into_iter().map(|(name, number)| {
        let weight = |recipe: &&Recipe| nth(recipe, name, number).map(|lora| lora.weight);
        LoraRow { name: name.to_owned(), weights: recipes.iter().map(weight).collect() }
    });
    let differs = |row: &LoraRow| row.weights.iter().any(|weight| Some(weight) != row.weights.first());
    rows.filter(differs).collect()
}

/// Returns additional keys of the LoRAs that all recipes have, with their paths and values: `loras.fur.clipWeight`.
pub(super) fn extras<'a>(recipes: &[&'a Recipe]) -> Vec<(String, Vec<Option<&'a Value>>)> {
    let mut rows = Vec::new();
    for (at, lora) in recipes.first().iter().flat_map(|recipe| recipe.loras.iter().enumerate()) {
        let number = recipes
            .first()
            .map_or(0, |recipe| recipe.loras.iter().take(at).filter(|earlier| earlier.name == lora.name).count());
        let all: Option<Vec<&Lora>> = recipes.iter().map(|recipe| nth(recipe, &lora.name, number)).collect();
        let Some(all) = all else { continue };
        let mut keys: Vec<&String> = Vec::new();
        for key in all.iter().flat_map(|lora| lora.extra.keys()) {
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        let name: Cow<'_, str> =
            if number == 0 { lora.name.as_str().into() } else { format!("{}[{number}]", lora.name).into() };
        rows.extend(
            keys.into_iter()
                .map(|key| (format!("loras.{name}.{key}"), all.iter().map(|lora| lora.extra.get(key)).collect())),
        );
    }
    rows
}

/// Returns the LoRA of this name that follows `number` others of the same name.
fn nth<'a>(recipe: &'a Recipe, name: &str, number: usize) -> Option<&'a Lora> {
    recipe.loras.iter().filter(|lora| lora.name == name).nth(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recipe(loras: &[(&str, f64)]) -> Recipe {
        let loras = loras.iter().map(|(name, weight)| Lora::new(*name, *weight)).collect();
        Recipe { loras, ..Recipe::default() }
    }

    #[test]
    fn by_name_and_weight() {
        let old = recipe(&[("a", 0.8), ("b", 1.0), ("c", 0.5), ("c", 0.2)]);
        let new = recipe(&[("c", 0.5), ("d", 1.0), ("a", 0.6), ("c", 0.3)]);
        let change = |name: &str, old_weight, new_weight| LoraChange { name: name.to_owned(), old_weight, new_weight };
        assert_eq!(
            changes(&old, &new),
            [
                change("a", Some(0.8), Some(0.6)),
                change("b", Some(1.0), None),
                change("c", Some(0.2), Some(0.3)),
                change("d", None, Some(1.0)),
            ]
        );
        assert_eq!(changes(&old, &old), []);
    }

    #[test]
    fn further_keys_are_compared_by_their_paths() {
        let old = Recipe {
            loras: vec![Lora::new("a", 1.0).with("clipWeight", 0.5), Lora::new("b", 1.0)],
            ..Recipe::default()
        };
        let new =
            Recipe { loras: vec![Lora::new("a", 1.0).with("clipWeight", 0.8).with("hash", "1f")], ..Recipe::default() };
        let diff = crate::RecipeDiff::between(&old, &new);
        assert_eq!(diff.loras.len(), 1, "only `b` is gone");
        let names: Vec<(&str, Option<f64>)> = diff.parameters.iter().map(|it| (it.name.as_str(), it.delta)).collect();
        assert_eq!(names, [("loras.a.clipWeight", Some(0.3)), ("loras.a.hash", None)]);
    }
}
