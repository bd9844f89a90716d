//! Queries that are still being typed, whose last word counts as a prefix.

use std::borrow::Cow;

use crate::model::tokenizer::{is_part, words};

/// The facets whose values can be prefixes and are not matched as substrings anyway.
const OPEN_FACETS: [&str; 7] = ["tag", "project", "prompt", "negative", "note", "title", "message"];
/// Those of them whose values are words.
const TEXT_FACETS: [&str; 5] = ["prompt:", "negative:", "note:", "title:", "message:"];

/// Turns the last word of a query into a prefix: `glass br` becomes `glass br*`. Words of three letters or more are
/// found inside others without that. A query that is unfinished in another way (an open quote, a facet without a value)
/// is unchanged, so that [`super::Query::parse`] reports it.
pub fn while_typing(text: &str) -> Cow<'_, str> {
    let in_quotes = !text.matches('"').count().is_multiple_of(2);
    let word = text.rsplit(|c: char| c.is_whitespace() || matches!(c, '(' | ')' | '"')).next().unwrap_or_default();
    let ends_in_a_word = word.chars().next_back().is_some_and(char::is_alphanumeric);
    let keyword = ["OR", "AND", "NOT"].contains(&word);
    // Seeds and times have no prefixes.
    let facet = word.trim_start_matches('-').split_once(':').map(|(name, _)| name.to_lowercase());
    let open = facet.is_none_or(|facet| OPEN_FACETS.contains(&facet.as_str()));
    // A word that is found inside others is found by its prefix anyway.
    let value = word.trim_start_matches('-').rsplit(':').next().unwrap_or_default();
    let named = word.contains(':') && !TEXT_FACETS.iter().any(|facet| word.to_lowercase().contains(facet));
    let is_found_inside = !named && matches!(words(value).as_slice(), [word] if is_part(&word.text));
    let open = open && !is_found_inside;
    if ends_in_a_word && open && !in_quotes && !keyword { Cow::Owned(format!("{text}*")) } else { Cow::Borrowed(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_word_at_the_end_becomes_a_prefix() {
        for (typed, meant) in [
            ("br", "br*"),
            ("glass br", "glass br*"),
            ("glass-bri", "glass-bri*"),
            ("-fo", "-fo*"),
            ("(a OR b", "(a OR b*"),
            ("tag:her", "tag:her*"),
            ("-Title:du", "-Title:du*"),
            ("猫", "猫*"),
        ] {
            assert_eq!(while_typing(typed), meant);
        }
        for finished in [
            "",
            "bridge ",
            "bri",
            "glass bri",
            "-title:dus",
            "bri*",
            "a OR",
            "a NOT",
            "model:",
            "model:sd",
            "seed:4",
            "rating:>=4",
            "\"at ni",
            "\"at night\"",
            "(a)",
            "-",
            "…",
        ] {
            assert_eq!(while_typing(finished), finished);
        }
    }
}
