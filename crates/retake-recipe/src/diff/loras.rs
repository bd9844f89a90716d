//! What differs between the LoRAs of two recipes. Those that are written into a prompt are tags, and told there.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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

/// What differs between two recipes.
pub fn changes(old: &Recipe, new: &Recipe) -> Vec<LoraChange> {
    let rows = table(&[old, new]).into_iter().map(|row| {
        let mut weights = row.weights.into_iter();
        LoraChange { name: row.name, old_weight: weights.next().flatten(), new_weight: weights.next().flatten() }
    });
    rows.collect()
}

/// What is not the same in all recipes, in the order in which they were applied.
pub fn table(recipes: &[&Recipe]) -> Vec<LoraRow> {
    let mut rows: Vec<(&str, usize)> = Vec::new();
    for recipe in recipes {
        for (at, lora) in recipe.loras.iter().enumerate() {
            // One that is applied twice is two.
            let before = recipe.loras.iter().take(at).filter(|earlier| earlier.name == lora.name).count();
            if !rows.contains(&(&lora.name, before)) {
                rows.push((&lora.name, before));
            }
        }
    }
    let rows = rows.into_iter().map(|(name, number)| {
        let named = |recipe: &&Recipe| {
            recipe.loras.iter().filter(|lora| lora.name == name).nth(number).map(|lora: &Lora| lora.weight)
        };
        LoraRow { name: name.to_owned(), weights: recipes.iter().map(named).collect() }
    });
    let differs = |row: &LoraRow| row.weights.iter().any(|weight| Some(weight) != row.weights.first());
    rows.filter(differs).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recipe(loras: &[(&str, f64)]) -> Recipe {
        let loras = loras.iter().map(|(name, weight)| Lora { name: (*name).to_owned(), weight: *weight }).collect();
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
}
