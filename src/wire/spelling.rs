//! Which words of a query occur nowhere, and what was probably meant.

use crate::model::Query;
use crate::model::query::{Condition, Field, MatchKind};
use crate::model::tokenizer;
use crate::workspace;

use super::{Api, Error};

/// The maximum number of words for which an empty result is explained.
const MAX_EXPLAINED: usize = 8;

impl Api<'_> {
    /// Returns a hint on which words make a query match nothing, if they are the reason.
    pub(super) fn hint(&self, query: &Query) -> Result<Option<String>, Error> {
        let occurs = |field, words: &[String], by| self.occurs(field, words.to_vec(), by);
        let (mut unknown, mut parts, mut meant): (Vec<String>, Vec<String>, Vec<String>) = Default::default();
        let wanted = query.wanted_words();
        for (field, words, by) in wanted.iter().take(MAX_EXPLAINED) {
            if occurs(*field, words, *by)? {
                continue;
            }
            let is_part = *by == MatchKind::Whole && words.len() == 1 && occurs(*field, words, MatchKind::Part)?;
            let names = if is_part { &mut parts } else { &mut unknown };
            names.push(format!("{:?}", words.join(" ")));
            if let Some(near) = self.near_word(*field, words)?.filter(|_| !is_part) {
                meant.push(format!("{near:?}"));
            }
        }
        Ok(match (unknown.as_slice(), wanted.len()) {
            (_, 0) => None,
            ([], _) if !parts.is_empty() => {
                Some(format!("{} only occurs inside other words: leave out the quotes", parts.join(" or ")))
            }
            ([], 1) => Some("the words match, but not with the other conditions: leave some of them out".to_owned()),
            ([], _) => Some("each word matches something, but not all together: leave one out, or write OR".to_owned()),
            (unknown, _) => {
                let advice = match meant.as_slice() {
                    [] => "check the spelling".to_owned(),
                    meant => format!("did you mean {}?", meant.join(" and ")),
                };
                Some(format!("nothing recorded contains {}: {advice}", unknown.join(" or ")))
            }
        })
    }

    /// Returns whether anything recorded contains these words.
    fn occurs(&self, field: Option<Field>, words: Vec<String>, by: MatchKind) -> Result<bool, Error> {
        let alone = Condition::Text { field, words, by };
        Ok(self.workspace.search_page(&Query::from(alone).into(), None, 0, 1, &self.context)?.total > 0)
    }

    /// Returns a word that is similar to the only one of `words` and that something recorded contains.
    fn near_word(&self, field: Option<Field>, words: &[String]) -> Result<Option<String>, Error> {
        let [word] = words else { return Ok(None) };
        for near in self.workspace.near_words(word)? {
            if self.occurs(field, vec![near.clone()], MatchKind::Whole)? {
                return Ok(Some(near));
            }
        }
        Ok(None)
    }

    /// Returns a query with the words that occur nowhere replaced by similar ones that do; `None` if there are none.
    pub(crate) fn corrected(&self, text: &str) -> Result<Option<String>, Error> {
        let query = Query::parse(text, self.workspace.now()).map_err(workspace::Error::from)?;
        let mut corrected = text.to_owned();
        for (field, words, by) in query.wanted_words().into_iter().take(MAX_EXPLAINED) {
            if self.occurs(field, words.to_vec(), by)? {
                continue;
            }
            let (Some(near), Some(word)) = (self.near_word(field, words)?, words.first()) else { continue };
            // From the last to the first, so that the places of the others stay.
            for found in tokenizer::words(&corrected.clone()).into_iter().rev().filter(|found| found.text == *word) {
                corrected.replace_range(found.at, &near);
            }
        }
        Ok(Some(corrected).filter(|corrected| corrected != text))
    }
}
