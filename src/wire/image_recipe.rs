//! Recipes from images: where a recording has an image but no prompt, the image's own metadata fills in what is left out.

use crate::model::Recipe;
use crate::workspace::{ImageSource, check_images};

use super::error::RequestError;
use super::{Error, RecordRequest};

/// Fills in a recipe without a prompt from the first image that holds one, and returns it with the names of the fields that
/// were read.
pub(super) fn complete(recipe: Recipe, images: &[ImageSource]) -> Result<(Recipe, Vec<String>), Error> {
    if !recipe.prompt.is_empty() || images.is_empty() {
        return Ok((recipe, Vec::new()));
    }
    check_images(images)?;
    let Some(found) = images.iter().find_map(ImageSource::recipe) else {
        return Err(RequestError::Field {
            field: "prompt",
            problem: "is left out, and no image has one in its metadata".to_owned(),
            hint: "pass the prompt as it was typed".to_owned(),
        }
        .into());
    };
    let whole = RecordRequest::from(recipe.clone()).recipe(Some(found));
    let read = names_of_new(&recipe, &whole);
    Ok((whole, read))
}

/// Returns the names of the fields that only the second recipe has.
fn names_of_new(before: &Recipe, after: &Recipe) -> Vec<String> {
    let mut names = vec!["prompt".to_owned()];
    let changed =
        before.values().zip(after.values()).filter(|((_, before), (_, after))| before.is_none() && after.is_some());
    names.extend(changed.map(|((field, _), _)| field.key.to_owned()));
    if before.loras.is_empty() && !after.loras.is_empty() {
        names.push("loras".to_owned());
    }
    if before.parameters.is_empty() && !after.parameters.is_empty() {
        names.push("parameters".to_owned());
    }
    names
}
