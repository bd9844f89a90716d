//! Compares the numbers and names of recipes: a row for each one that is not the same in all of them.
//!
//! Nested parameters are walked side by side and equal parts are skipped, so the time depends on how much differs
//! rather than on the size of the parameters. ComfyUI graphs have their own rules, in `nodes.rs`.

use std::collections::HashSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::loras;
use crate::Recipe;
use crate::metadata::comfyui::listing;

/// A parameter that differs between two recipes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ParameterChange {
    /// The field of the recipe, such as `steps`; what is inside `parameters` begins with that: `parameters.clipSkip`.
    pub name: String,
    /// What it was; absent if the old recipe does not state it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old: Option<Value>,
    /// What it is; absent if the new recipe does not state it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new: Option<Value>,
    /// By how much a number changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delta: Option<f64>,
}

/// A parameter that is not the same in all of several recipes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ParameterRow {
    /// The field of the recipe, such as `steps`; what is inside `parameters` begins with that: `parameters.clipSkip`.
    pub name: String,
    /// Its value in each recipe, in their order; null where a recipe does not state it.
    #[schemars(with = "Vec<Value>")]
    pub values: Vec<Option<Value>>,
    /// By how much a number changed, where there are two recipes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delta: Option<f64>,
}

/// Returns whether a parameter is a seed.
pub(super) fn is_seed(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or(name);
    let letters: String = last.chars().filter(|c| c.is_ascii_alphabetic()).collect::<String>().to_ascii_lowercase();
    letters.ends_with("seed") || letters.ends_with("seeds")
}

/// Returns whether a parameter names the output file, which does not affect the image.
pub(super) fn is_file_name(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or(name);
    ["filename_prefix", "filename", "file_name", "outputPath", "output_path"].contains(&last)
}

/// Returns the parameters that differ between two recipes.
pub fn changes(old: &Recipe, new: &Recipe) -> Vec<ParameterChange> {
    let rows = table(&[old, new]).into_iter().map(|row| {
        let ParameterRow { name, values, delta } = row;
        let mut values = values.into_iter();
        ParameterChange { name, old: values.next().flatten(), new: values.next().flatten(), delta }
    });
    rows.collect()
}

/// Returns a row for each parameter that is not the same in all recipes, in the order of their fields.
pub fn table(recipes: &[&Recipe]) -> Vec<ParameterRow> {
    let columns: Vec<Vec<(&str, Option<Value>)>> = recipes.iter().map(|recipe| fields(recipe)).collect();
    let mut rows = Vec::new();
    for (number, (name, _)) in columns.first().into_iter().flatten().enumerate() {
        let values = columns.iter().map(|column| column.get(number)?.1.as_ref()).collect();
        walk(name, values, &mut rows);
    }
    for (name, values) in loras::extras(recipes) {
        walk(&name, values, &mut rows);
    }
    for name in keys(recipes.iter().map(|recipe| &recipe.parameters)) {
        let values: Vec<Option<&Value>> = recipes.iter().map(|recipe| recipe.parameters.get(name)).collect();
        let graphs: Vec<Option<usize>> = values.iter().map(|value| value.and_then(listing::count_nodes)).collect();
        if graphs.iter().all(Option::is_some) {
            continue;
        }
        // If only some of the values are graphs, their sizes are more useful than their contents.
        let sizes: Vec<Option<Value>> =
            graphs.iter().map(|nodes| nodes.map(|nodes| Value::from(format!("a graph of {nodes} nodes")))).collect();
        let values = values.into_iter().zip(&sizes).map(|(value, size)| size.as_ref().or(value)).collect();
        walk(&format!("parameters.{name}"), values, &mut rows);
    }
    rows
}

/// Returns the names and numbers that are known and the same in all recipes, without `parameters`.
pub fn shared(recipes: &[&Recipe]) -> Vec<(&'static str, Value)> {
    let columns: Vec<Vec<(&'static str, Option<Value>)>> = recipes.iter().map(|recipe| fields(recipe)).collect();
    let Some((first, others)) = columns.split_first() else { return Vec::new() };
    let same = first.iter().enumerate().filter_map(|(number, (name, value))| {
        let value = value.as_ref()?;
        let everywhere =
            others.iter().all(|column| column.get(number).is_some_and(|(_, other)| other.as_ref() == Some(value)));
        everywhere.then(|| (*name, value.clone()))
    });
    same.collect()
}

/// Returns the names and numbers among the fields of a recipe.
fn fields(recipe: &Recipe) -> Vec<(&'static str, Option<Value>)> {
    recipe.values().filter(|(field, _)| field.is_parameter()).map(|(field, value)| (field.key, value)).collect()
}

/// Adds a row for every leaf that differs. Lists are compared as a whole, unless they are lists of objects of the same
/// length.
fn walk(name: &str, values: Vec<Option<&Value>>, rows: &mut Vec<ParameterRow>) {
    let values: Vec<Option<&Value>> = values.into_iter().map(|value| value.filter(|value| !value.is_null())).collect();
    let Some((first, others)) = values.split_first() else { return };
    if rows.len() >= MAX_ROWS || others.iter().all(|value| same(*first, *value)) {
        return;
    }
    if let Some(objects) = values.iter().map(|value| value.and_then(Value::as_object)).collect::<Option<Vec<_>>>() {
        for key in keys(objects.iter().copied()) {
            walk(&format!("{name}.{key}"), objects.iter().map(|object| object.get(key)).collect(), rows);
        }
        return;
    }
    if let Some(lists) = values.iter().map(|value| value.and_then(Value::as_array)).collect::<Option<Vec<_>>>() {
        let length = lists.first().map_or(0, |list| list.len());
        let alike = lists.iter().all(|list| list.len() == length && list.iter().all(Value::is_object));
        if alike {
            for at in 0..length {
                walk(&format!("{name}[{at}]"), lists.iter().map(|list| list.get(at)).collect(), rows);
            }
            return;
        }
    }
    let delta = match values.as_slice() {
        [Some(old), Some(new)] if !is_seed(name) => delta(old, new),
        _ => None,
    };
    rows.push(ParameterRow {
        name: name.to_owned(),
        values: values.into_iter().map(Option::<&Value>::cloned).collect(),
        delta,
    });
}

/// Returns all keys, each once, in the order in which they first occur.
fn keys<'a>(objects: impl Iterator<Item = &'a Map<String, Value>>) -> Vec<&'a String> {
    let mut known = HashSet::new();
    objects.flat_map(Map::keys).filter(|key| known.insert(*key)).collect()
}

/// The maximum number of rows; further differences are left out.
const MAX_ROWS: usize = 1000;

/// Returns whether two values are the same; 7 and 7.0 are.
pub(super) fn same(one: Option<&Value>, other: Option<&Value>) -> bool {
    match (one, other) {
        // Not by f64 alone: different 64-bit seeds can round to the same float.
        (Some(Value::Number(one)), Some(Value::Number(other))) => {
            one == other || ((one.is_f64() || other.is_f64()) && one.as_f64() == other.as_f64())
        }
        (one, other) => one == other,
    }
}

/// Returns the difference of two numbers, without floating-point noise.
pub(super) fn delta(old: &Value, new: &Value) -> Option<f64> {
    let delta = new.as_f64()? - old.as_f64()?;
    let digits = (delta * 1e6).round() / 1e6;
    Some(if digits == 0.0 { delta } else { digits }).filter(|delta| delta.is_finite())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Seed;

    fn recipe(fields: Value) -> Recipe {
        serde_json::from_value(fields).unwrap()
    }

    fn shown(old: Value, new: Value) -> Vec<String> {
        let json = |value: &Option<Value>| value.as_ref().map_or("-".to_owned(), Value::to_string);
        let row = |change: &ParameterChange| {
            let delta = change.delta.map(|delta| format!(" {delta:+}")).unwrap_or_default();
            format!("{} {} {}{delta}", change.name, json(&change.old), json(&change.new))
        };
        changes(&recipe(old), &recipe(new)).iter().map(row).collect()
    }

    #[test]
    fn only_what_differs_and_by_how_much() {
        let old = json!({ "prompt": "a", "model": "x", "seed": 1, "steps": 20, "guidanceScale": 7, "denoise": 0.8, "sampler": "euler" });
        let new = json!({ "prompt": "b", "model": "x", "seed": 2, "steps": 30, "guidanceScale": 7.0, "denoise": 0.6, "scheduler": "karras" });
        assert_eq!(
            shown(old, new),
            [
                "seed \"1\" \"2\"",
                "steps 20 30 +10",
                "sampler \"euler\" -",
                "scheduler - \"karras\"",
                "denoise 0.8 0.6 -0.2"
            ]
        );
    }

    #[test]
    fn nested_parameters_are_named_by_their_paths() {
        let old = json!({ "parameters": { "clipSkip": 1, "hires": { "scale": 2, "steps": 10 }, "units": [{ "w": 1 }], "list": [1, 2] } });
        let new = json!({ "parameters": { "clipSkip": 1.0, "hires": { "steps": 12, "on": true, "scale": 2 }, "units": [{ "w": 0.5 }], "list": [1, 3], "n": null } });
        assert_eq!(
            shown(old, new),
            [
                "parameters.hires.steps 10 12 +2",
                "parameters.hires.on - true",
                "parameters.units[0].w 1 0.5 -0.5",
                "parameters.list [1,2] [1,3]",
            ]
        );
    }

    #[test]
    fn a_table_has_a_column_for_each() {
        let recipes = [20, 30, 30].map(|steps| recipe(json!({ "steps": steps, "seed": u64::MAX, "model": "x" })));
        let recipes: Vec<&Recipe> = recipes.iter().collect();
        let table = table(&recipes);
        assert_eq!(serde_json::to_string(&table).unwrap(), r#"[{"name":"steps","values":[20,30,30]}]"#);
        assert_eq!(shared(&recipes), [("model", json!("x")), ("seed", json!(u64::MAX.to_string()))]);
    }

    #[test]
    fn seeds_are_distinguished_from_choices() {
        for name in ["seed", "parameters.noise_seed", "parameters.Variation seed", "parameters.all_seeds", "a.subseed"]
        {
            assert!(is_seed(name), "{name}");
        }
        assert!(!is_seed("parameters.seed_resize_from_w"));
        assert_eq!(Seed(7).to_string(), "7");
    }

    #[test]
    fn very_large_parameters_are_compared_at_once() {
        let many: Value = (0..20_000).map(|n| (format!("k{n}"), json!(n))).collect::<Map<_, _>>().into();
        let mut other = many.clone();
        other["k7"] = json!(8);
        let old = json!({ "parameters": { "x": many } });
        let new = json!({ "parameters": { "x": other } });
        assert_eq!(shown(old, new), ["parameters.x.k7 7 8 +1"]);
    }
}
