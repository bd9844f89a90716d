//! Excerpts around the words that a search matched, as a list of parts, some of which are matches. Parts rather than
//! offsets, since languages count characters differently; and never markup.

use std::ops::Range;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::Query;
use crate::model::query::{Field, MatchKind};
use crate::model::tokenizer::{Word, words};

/// A part of a text around the words that matched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Excerpt {
    /// The text that it is taken from.
    pub field: ExcerptField,
    /// The excerpt, in order.
    pub parts: Vec<ExcerptPart>,
}

/// The text that an excerpt is taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ExcerptField {
    /// The prompt, as typed or as sent.
    Prompt,
    /// The negative prompt.
    NegativePrompt,
    /// The note.
    Note,
    /// The session's title.
    Title,
    /// The provider's message.
    Message,
}

/// A part of an excerpt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExcerptPart {
    /// The text, as it was recorded.
    pub text: String,
    /// Present and true if this part matched.
    #[serde(default, rename = "match", skip_serializing_if = "std::ops::Not::not")]
    pub is_match: bool,
}

/// The number of characters in an excerpt.
const LENGTH: usize = 200;
/// The number of characters before the first match.
const BEFORE: usize = 50;
/// The number of bytes of a text that are searched.
const SEARCHED: usize = 64 * 1024;

/// Returns the excerpt around the first match in a text; `None` if nothing matches.
pub(super) fn excerpt(query: &Query, field: Field, text: &str) -> Option<Excerpt> {
    let end = text.char_indices().map(|(at, _)| at).take_while(|at| *at <= SEARCHED).last().unwrap_or(0);
    let text = if text.len() > SEARCHED { text.get(..end).unwrap_or_default() } else { text };
    let wanted = query.wanted_words();
    if wanted.is_empty() {
        return None;
    }
    let has = words(text);
    let mut found: Vec<Range<usize>> = Vec::new();
    for (of, words, by) in wanted {
        if of.is_none_or(|of| of == field) {
            found.extend(matches(&has, words, by));
        }
    }
    found.sort_unstable_by_key(|range| range.start);
    let first = found.first()?.start;
    let start = text.get(..first)?.char_indices().rev().nth(BEFORE - 1).map_or(0, |(at, _)| at);
    let end = text.get(start..)?.char_indices().nth(LENGTH).map_or(text.len(), |(at, _)| start + at);
    let mut parts = Vec::new();
    let mut push = |text: &str, is_match: bool| {
        if !text.is_empty() {
            parts.push(ExcerptPart { text: text.to_owned(), is_match });
        }
    };
    let mut at = start;
    if start > 0 {
        push("…", false);
    }
    for range in found {
        let (from, until) = (range.start.max(at), range.end.min(end));
        if from < until {
            push(text.get(at..from)?, false);
            push(text.get(from..until)?, true);
            at = until;
        }
    }
    push(text.get(at..end)?, false);
    if end < text.len() {
        push("…", false);
    }
    let field = match field {
        Field::Prompt => ExcerptField::Prompt,
        Field::Negative => ExcerptField::NegativePrompt,
        Field::Note => ExcerptField::Note,
        Field::Title => ExcerptField::Title,
        Field::Message => ExcerptField::Message,
    };
    Some(Excerpt { field, parts })
}

/// Returns the ranges where these words occur in sequence.
fn matches(has: &[Word], wanted: &[String], by: MatchKind) -> Vec<Range<usize>> {
    let Some((last, before)) = wanted.split_last() else { return Vec::new() };
    let fits = |window: &&[Word]| {
        window.split_last().is_some_and(|(end, start)| {
            start.iter().map(|word| &word.text).eq(before) && by.holds_word(&end.text, last)
        })
    };
    let range = |window: &[Word]| Some(window.first()?.at.start..window.last()?.at.end);
    has.windows(wanted.len()).filter(fits).filter_map(range).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Timestamp;

    fn marked(query: &str, text: &str) -> Option<String> {
        let query = Query::parse(query, Timestamp::from_millis(0).unwrap()).unwrap();
        let parts = excerpt(&query, Field::Prompt, text)?.parts;
        Some(
            parts
                .iter()
                .map(|part| if part.is_match { format!("[{}]", part.text) } else { part.text.clone() })
                .collect(),
        )
    }

    #[test]
    fn the_words_that_matched_are_marked_as_they_were_typed() {
        for (query, text, expected) in [
            ("bridge", "A Glass BRIDGE, bridge", Some("A Glass [BRIDGE], [bridge]")),
            ("\"glass bridge\"", "a glass  bridge of glass", Some("a [glass  bridge] of glass")),
            ("cafe", "le Café", Some("le [Café]")),
            ("girl", "1girl, girls, gir", Some("[1girl], [girls], gir")),
            ("\"girl\"", "1girl, girl", Some("1girl, [girl]")),
            ("brid* -fog", "bridges in fog", Some("[bridges] in fog")),
            ("璃桥", "玻璃桥梁", Some("玻[璃桥]梁")),
            ("title:bridge", "a bridge", None),
            ("bridge", "a river", None),
            ("model:sdxl", "a bridge", None),
            ("glass OR \"glass bridge\"", "glass bridge", Some("[glass][ bridge]")),
        ] {
            assert_eq!(marked(query, text).as_deref(), expected, "{query}: {text}");
        }
    }

    #[test]
    fn a_long_text_is_cut_around_the_first_match() {
        let text = format!("{}the bridge{}", "word ".repeat(100), " more".repeat(100));
        let shown = marked("bridge", &text).unwrap();
        assert!(shown.starts_with('…') && shown.ends_with('…') && shown.contains("the [bridge] more"), "{shown}");
        assert!(shown.chars().count() < LENGTH + 10);
    }
}
