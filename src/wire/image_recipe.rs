//! Completes recipes from images: the metadata of a recorded image fills in the recipe fields that a request leaves
//! out.
//!
//! Metadata is only used if it agrees with the request. Without a prompt, the first image that has one provides the
//! whole recipe. With a prompt, the metadata must contain the same one, or one that extends it, since generators append
//! styles and quality tags. Any other metadata may be left over from the image that this one was edited from, so
//! nothing is read. This includes the case that the given prompt extends the one in the metadata: "a fox, now at night"
//! is an edit of "a fox".
//!
//! Fields of the request take precedence. Fields of the image take precedence over those of `like`: the image contains
//! the seed it was made with, while `like` only provides defaults.

use crate::model::Recipe;
use crate::workspace::{ImageSource, check_images};

use super::error::RequestError;
use super::{Error, RecordRequest};

/// The recipe of a request, completed.
#[derive(Debug, Default, PartialEq)]
pub(super) struct CompletedRecipe {
    /// The recipe to record.
    pub(super) recipe: Recipe,
    /// The names of the fields that were read from an image.
    pub(super) read: Vec<String>,
    /// The first image whose metadata has another prompt, if nothing was read for that reason.
    pub(super) other_prompt: Option<usize>,
}

/// Completes the recipe of a request from its images and from the recipe of `like`.
pub(super) fn complete(
    request: &RecordRequest,
    like: Option<Recipe>,
    images: &[ImageSource],
) -> Result<CompletedRecipe, Error> {
    let recipe = request.recipe(like.clone());
    let unread = |recipe| CompletedRecipe { recipe, ..CompletedRecipe::default() };
    if images.is_empty() {
        return Ok(unread(recipe));
    }
    // A prompt of blanks was given, and is rejected as empty.
    let needs_prompt = recipe.prompt.is_empty();
    match check_images(images) {
        Ok(()) => {}
        Err(error) if needs_prompt => return Err(error.into()),
        // Recording checks the images again, after the fields that are reported first.
        Err(_) => return Ok(unread(recipe)),
    }
    let mut other_prompt = None;
    for (number, found) in images.iter().enumerate().filter_map(|(number, image)| Some((number, image.recipe()?))) {
        if let Some(found) = agreeing(found, &recipe.prompt) {
            let stated = request.recipe(None);
            let read = names_of_new(&stated, &found);
            let stated_or_read = RecordRequest::from(stated).recipe(Some(found));
            let recipe = RecordRequest::from(stated_or_read).recipe(like);
            let read = if needs_prompt { std::iter::once("prompt".to_owned()).chain(read).collect() } else { read };
            return Ok(CompletedRecipe { recipe, read, other_prompt: None });
        }
        other_prompt = other_prompt.or(Some(number));
    }
    if needs_prompt {
        return Err(RequestError::Field {
            field: "prompt",
            problem: "is left out, and no image has one in its metadata".to_owned(),
            hint: "pass the prompt as it was typed".to_owned(),
        }
        .into());
    }
    Ok(CompletedRecipe { recipe, read: Vec::new(), other_prompt })
}

/// Returns the metadata that applies to an iteration with this prompt; `None` if it describes another one.
fn agreeing(mut found: Recipe, prompt: &str) -> Option<Recipe> {
    if prompt.is_empty() {
        return Some(found);
    }
    // Metadata may exceed the limits of a recording, which the caller could not correct.
    found.check().ok()?;
    let (given, read) = (spaced_words(prompt), spaced_words(&found.prompt));
    if given != read {
        // A single word is not enough evidence.
        let is_extended = given.split_whitespace().nth(1).is_some() && read.contains(&given);
        if !is_extended {
            return None;
        }
        found.prompt_sent.get_or_insert_with(|| found.prompt.clone());
    }
    prompt.clone_into(&mut found.prompt);
    Some(found)
}

/// Returns the words of a prompt in lower case, surrounded by spaces, without LoRA tags and punctuation. A prompt
/// without words is returned unchanged.
fn spaced_words(prompt: &str) -> String {
    let mut words = String::from(" ");
    let mut in_tag = false;
    for c in prompt.chars() {
        match c {
            '<' => in_tag = true,
            '>' => in_tag = false,
            _ if in_tag => continue,
            c if c.is_alphanumeric() => {
                words.extend(c.to_lowercase());
                continue;
            }
            _ => {}
        }
        if !words.ends_with(' ') {
            words.push(' ');
        }
    }
    if !words.ends_with(' ') {
        words.push(' ');
    }
    if words == " " { prompt.trim().to_owned() } else { words }
}

/// Returns the names of the fields, other than the prompt, that only the second recipe has.
fn names_of_new(before: &Recipe, after: &Recipe) -> Vec<String> {
    let new =
        before.values().zip(after.values()).filter(|((_, before), (_, after))| before.is_none() && after.is_some());
    let mut names: Vec<String> = new.map(|((field, _), _)| field.key.to_owned()).collect();
    if before.loras.is_empty() && !after.loras.is_empty() {
        names.push("loras".to_owned());
    }
    if before.parameters.is_empty() && !after.parameters.is_empty() {
        names.push("parameters".to_owned());
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_read_if_its_prompt_agrees() {
        let found = || Recipe::new("A red fox, (snow:1.2) <lora:fur:0.8>, masterpiece").seed(42);
        for given in ["", "a red fox, (snow:1.2), masterpiece", "A red  fox (snow:1.2) masterpiece <lora:x:1>"] {
            let agreed = agreeing(found(), given).unwrap();
            assert_eq!((agreed.seed, agreed.prompt_sent), (found().seed, None), "{given:?}");
        }
        let extended = agreeing(found(), "red fox").unwrap();
        assert_eq!((extended.prompt.as_str(), extended.prompt_sent), ("red fox", Some(found().prompt)));
        for given in ["fox", "a blue fox", "a red fox, snow:1.2, masterpiece, now at night", "red fo", "🦊"] {
            assert_eq!(agreeing(found(), given), None, "{given:?}");
        }
        assert!(agreeing(Recipe::new("🦊"), " 🦊").is_some());
        assert!(agreeing(Recipe::new("🦊"), "🐈").is_none());
    }

    #[test]
    fn values_that_cannot_be_recorded_are_not_read() {
        assert_eq!(agreeing(Recipe::new("a fox").model("two\nlines"), "a fox"), None);
    }
}
