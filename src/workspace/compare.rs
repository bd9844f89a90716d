//! Compares 2 to 12 iterations of any sessions: recipes, images and lineage.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

use serde_json::Value;

use crate::images;
use crate::model::diff::{LoraRow, ParameterRow, loras, parameters};
use crate::model::{ExactReference, Hash, IterationId, IterationState, Recipe, RecipeDiff};

use super::lineage::Lineage;
use super::{CallContext, Error, Workspace};

/// The differences between iterations.
#[derive(Debug)]
#[non_exhaustive]
pub struct Comparison {
    /// The iterations in the given order, each with the image that was named, if any.
    pub iterations: Vec<(ExactReference, IterationState)>,
    /// The differences of the other iterations from the first.
    pub differences: Vec<Difference>,
    /// The parameters that are not the same in all recipes.
    pub parameters: Vec<ParameterRow>,
    /// The LoRAs that are not the same in all recipes.
    pub loras: Vec<LoraRow>,
    /// The parameters that are known and the same in all recipes.
    pub same: Vec<(&'static str, Value)>,
    /// The nearest iteration that all of them were derived from, or are.
    pub common_ancestor: Option<IterationId>,
    /// How many steps each of them is away from the common ancestor; empty if there is none.
    pub steps: Vec<u32>,
}

/// The differences of an iteration from the first.
#[derive(Debug)]
#[non_exhaustive]
pub struct Difference {
    /// The iteration, with the image that was named, if any.
    pub reference: ExactReference,
    /// The differences between the recipes.
    pub recipe: RecipeDiff,
    /// The differences between the named images, or the first ones; `None` if either iteration has no image.
    pub visual: Option<Result<images::ImageComparison, Error>>,
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, difference) in self.differences.iter().enumerate() {
            if number > 0 {
                writeln!(f)?;
            }
            write!(f, "{}: {}", difference.reference, difference.recipe.summary)?;
        }
        Ok(())
    }
}

/// The number of iterations that can be compared.
const COUNT: std::ops::RangeInclusive<usize> = 2..=12;

impl Workspace {
    /// Compares iterations, or single images of them, with the first one.
    pub fn compare(&self, references: &[impl Copy + Into<ExactReference>]) -> Result<Comparison, Error> {
        self.compare_in(references, &CallContext::default())
    }

    /// Compares iterations, with progress and cancellation.
    pub fn compare_in(
        &self,
        references: &[impl Copy + Into<ExactReference>],
        context: &CallContext,
    ) -> Result<Comparison, Error> {
        if !COUNT.contains(&references.len()) {
            return Err(Error::CompareCount(references.len()));
        }
        let references: Vec<ExactReference> = references.iter().copied().map(Into::into).collect();
        let ids: Vec<IterationId> = references.iter().map(|reference| reference.iteration).collect();
        let iterations: Vec<(ExactReference, IterationState)> = references
            .into_iter()
            .map(|reference| Ok((reference, self.state(reference.iteration)?)))
            .collect::<Result<_, Error>>()?;
        let recipes: Vec<Cow<'_, Recipe>> = iterations.iter().map(recipe).collect();
        let recipes: Vec<&Recipe> = recipes.iter().map(AsRef::as_ref).collect();
        let mut differences = Vec::new();
        if let (Some((first, others)), Some((first_recipe, other_recipes))) =
            (iterations.split_first(), recipes.split_first())
        {
            let of = u64::try_from(others.len()).unwrap_or(u64::MAX);
            for (done, (other, recipe)) in (0..).zip(others.iter().zip(other_recipes)) {
                context.step("comparing images", done, of)?;
                let visual = image(first).zip(image(other)).map(|(one, other)| self.compare_images(one, other));
                let recipe = RecipeDiff::between(first_recipe, recipe);
                differences.push(Difference { reference: other.0, recipe, visual });
            }
            context.step("comparing images", of, of)?;
        }
        let (common_ancestor, steps) = common_ancestor(&mut Lineage::new(self), &ids)?;
        Ok(Comparison {
            differences,
            parameters: parameters::table(&recipes),
            loras: loras::table(&recipes),
            same: parameters::shared(&recipes),
            common_ancestor,
            steps,
            iterations,
        })
    }

    /// Returns the nearest iteration that all of these descend from (possibly one of them), and the number of steps
    /// from it to each; no steps if there is none.
    pub fn common_ancestor(&self, ids: &[IterationId]) -> Result<(Option<IterationId>, Vec<u32>), Error> {
        common_ancestor(&mut Lineage::new(self), ids)
    }

    /// Compares two images of the store.
    pub fn compare_images(&self, one: Hash, other: Hash) -> Result<images::ImageComparison, Error> {
        self.images.compare(one, other).map_err(|error| self.incomparable(error))
    }

    /// Draws a map of where the second image differs from the first, to be overlaid on either.
    pub fn heat_map(&self, one: Hash, other: Hash) -> Result<images::Rendering, Error> {
        self.images.heat_map(one, other, MAP_SIDE).map_err(|error| self.incomparable(error))
    }

    /// Draws panels side by side, as a heat map or as a sheet; `None` if no panel has an image.
    pub fn render(
        &self,
        how: images::Render,
        panels: &[images::Panel],
        context: &CallContext,
    ) -> Result<Option<images::Rendering>, Error> {
        if how == images::Render::None || panels.iter().all(|panel| panel.image.is_none()) {
            return Ok(None);
        }
        self.images.render_until(how, panels, |done, of| context.step("drawing", done, of)).map(Some)
    }

    fn incomparable(&self, error: images::Incomparable) -> Error {
        let images::Incomparable { hash, source } = error;
        Error::unavailable(hash, &self.images.path(hash), source)
    }
}

/// The maximum side of a standalone heat map, about the size of a window.
const MAP_SIDE: u32 = 1600;

/// Returns the recipe that is compared: that of the image, if one was named.
fn recipe((reference, state): &(ExactReference, IterationState)) -> Cow<'_, Recipe> {
    match reference.image {
        Some(image) => Cow::Owned(state.iteration.recipe_of(image)),
        None => Cow::Borrowed(&state.iteration.recipe),
    }
}

/// Returns the image that is compared: the one that was named, or the first.
fn image((reference, state): &(ExactReference, IterationState)) -> Option<Hash> {
    let number = usize::try_from(reference.image_number()).unwrap_or(usize::MAX);
    state.iteration.images.get(number).map(|image| image.hash)
}

/// Finds the nearest common ancestor and the distance of each iteration from it.
fn common_ancestor(lineage: &mut Lineage<'_>, ids: &[IterationId]) -> Result<(Option<IterationId>, Vec<u32>), Error> {
    let mut lines: Vec<HashMap<IterationId, u32>> = Vec::new();
    let mut first = Vec::new();
    for id in ids {
        let line = lineage.line(*id)?;
        lines.push(line.iter().copied().zip(0..).collect());
        if first.is_empty() {
            first = line;
        }
    }
    let steps =
        |ancestor: &IterationId| -> Option<Vec<u32>> { lines.iter().map(|line| line.get(ancestor).copied()).collect() };
    let nearest = first.iter().find_map(|ancestor| Some((*ancestor, steps(ancestor)?)));
    let (common_ancestor, steps) = nearest.unzip();
    Ok((common_ancestor, steps.unwrap_or_default()))
}
