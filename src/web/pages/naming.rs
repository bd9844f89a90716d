//! Display names. Ids only appear in URLs: a session is named by its title, otherwise by the first words of a prompt,
//! otherwise by the file name of an image.

use crate::model::{Iteration, OutcomeStatus};

/// The maximum number of characters of a name taken from a prompt.
const MAX_CHARS: usize = 60;

/// Returns the name of a session, given its title and one of its iterations.
pub(super) fn session(title: Option<&str>, iteration: Option<&Iteration>) -> String {
    let title = title.map(str::trim).filter(|title| !title.is_empty()).map(str::to_owned);
    title.or_else(|| iteration.map(described)).unwrap_or_else(|| "Lost session".to_owned())
}

/// Returns a descriptive name of an iteration: the first words of its prompt, or its file name.
pub(super) fn described(iteration: &Iteration) -> String {
    let file = || iteration.images.iter().find_map(|image| image.name.clone());
    first_words(&iteration.recipe.prompt).or_else(file).unwrap_or_else(|| {
        match iteration.outcome.status {
            OutcomeStatus::Succeeded => "Untitled",
            OutcomeStatus::Failed => "Failed attempt",
            OutcomeStatus::Refused => "Refused attempt",
        }
        .to_owned()
    })
}

/// Returns the beginning of a text, cut between words; `None` if it contains no words.
pub(super) fn first_words(text: &str) -> Option<String> {
    let mut name = String::new();
    for word in text.split_whitespace() {
        if !name.is_empty() && name.chars().count() + word.chars().count() >= MAX_CHARS {
            name.push('…');
            break;
        }
        if !name.is_empty() {
            name.push(' ');
        }
        name.extend(word.chars().take(MAX_CHARS));
    }
    Some(name).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_few_words() {
        assert_eq!(first_words("  a fox\n in  snow "), Some("a fox in snow".to_owned()));
        assert_eq!(first_words(" \n"), None);
        let long = first_words(&"word ".repeat(40)).unwrap();
        assert!(long.ends_with("word…") && long.chars().count() <= MAX_CHARS + 1, "{long}");
        assert_eq!(first_words(&"x".repeat(500)).unwrap().chars().count(), MAX_CHARS);
    }
}
