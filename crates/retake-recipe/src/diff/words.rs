//! Compares prose by words: insertions and deletions, as runs that a person would recognise.

use std::ops::Range;

use similar::DiffableStr;

use super::align::align;

/// A run of words in one or both of two texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run<'a> {
    /// The text or texts that contain it.
    pub side: Side,
    /// The text, with the spaces inside it.
    pub text: &'a str,
    /// The spaces before it; for a run in both texts, the longer ones.
    pub before: &'a str,
    /// Its words in the old text; for an inserted run, the empty range at its position.
    pub old: Range<usize>,
    /// Its words in the new text; for a deleted run, the empty range at its position.
    pub new: Range<usize>,
}

/// The texts that contain a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Both.
    Both,
    /// The old one only: it was removed.
    Old,
    /// The new one only: it was added.
    New,
}

/// Returns the words and punctuation marks of a text, in order, without spaces.
pub fn words(text: &str) -> Vec<&str> {
    Words::of(text).words
}

/// Splits two texts into runs, in order: the runs of both and of the old text make up the old text, the runs of both
/// and of the new text make up the new text. The spaces between runs are in [`Run::before`].
pub fn runs<'a>(old: &'a str, new: &'a str) -> Vec<Run<'a>> {
    let (old, new) = (Words::of(old), Words::of(new));
    let mut runs = Vec::new();
    let mut push = |side: Side, in_old: Range<usize>, in_new: Range<usize>| {
        let text = if side == Side::New { new.stretch(&in_new) } else { old.stretch(&in_old) };
        let (in_the_old, in_the_new) = (old.gap(in_old.start), new.gap(in_new.start));
        let before = match side {
            Side::Old => in_the_old,
            Side::New => in_the_new,
            // If a word was removed before it, only one of the texts has a space here.
            Side::Both if in_the_old.len() > in_the_new.len() => in_the_old,
            Side::Both => in_the_new,
        };
        if !text.is_empty() {
            runs.push(Run { side, text, before, old: in_old, new: in_new });
        }
    };
    let (mut from, mut to) = (0, 0);
    let end = (old.words.len()..old.words.len(), new.words.len()..new.words.len());
    for (in_old, in_new) in common(&old.words, &new.words).into_iter().chain([end]) {
        push(Side::Old, from..in_old.start, to..to);
        push(Side::New, in_old.start..in_old.start, to..in_new.start);
        (from, to) = (in_old.end, in_new.end);
        push(Side::Both, in_old, in_new);
    }
    runs
}

/// The words of a text, and their offsets.
struct Words<'a> {
    text: &'a str,
    words: Vec<&'a str>,
    starts: Vec<usize>,
}

impl<'a> Words<'a> {
    fn of(text: &'a str) -> Words<'a> {
        let (mut words, mut starts) = (Vec::new(), Vec::new());
        let mut at = 0;
        for token in text.tokenize_unicode_words() {
            if !token.trim().is_empty() {
                words.push(token);
                starts.push(at);
            }
            at += token.len();
        }
        Words { text, words, starts }
    }

    /// Returns the text from the first to the last of these words.
    fn stretch(&self, range: &Range<usize>) -> &'a str {
        let last = range.end.checked_sub(1).filter(|last| *last >= range.start);
        let bounds = last.and_then(|last| {
            let end = self.starts.get(last)? + self.words.get(last)?.len();
            Some(*self.starts.get(range.start)?..end)
        });
        bounds.and_then(|bounds| self.text.get(bounds)).unwrap_or_default()
    }
}

impl<'a> Words<'a> {
    /// Returns the spaces before a word.
    fn gap(&self, at: usize) -> &'a str {
        let end = self.starts.get(at).copied().unwrap_or(self.text.len());
        let before = self.text.get(..end).unwrap_or_default();
        before.get(before.trim_end().len()..).unwrap_or_default()
    }
}

/// Returns the runs of words that both texts have.
fn common(old: &[&str], new: &[&str]) -> Vec<(Range<usize>, Range<usize>)> {
    let mut stretches: Vec<(Range<usize>, Range<usize>)> = Vec::new();
    for (at_old, at_new) in align(old, new) {
        match stretches.last_mut() {
            Some((in_old, in_new)) if in_old.end == at_old && in_new.end == at_new => {
                in_old.end += 1;
                in_new.end += 1;
            }
            _ => stretches.push((at_old..at_old + 1, at_new..at_new + 1)),
        }
    }
    // An "a" or a comma in the middle of replaced text is only equal by coincidence.
    let mut kept: Vec<(Range<usize>, Range<usize>)> = Vec::with_capacity(stretches.len());
    let mut following = stretches.iter().skip(1);
    for (in_old, in_new) in &stretches {
        let (before_old, before_new) = kept.last().map_or((0, 0), |(in_old, in_new)| (in_old.end, in_new.end));
        let (after_old, after_new) =
            following.next().map_or((old.len(), new.len()), |(in_old, in_new)| (in_old.start, in_new.start));
        let replaced_before = in_old.start > before_old && in_new.start > before_new;
        let replaced_after = after_old > in_old.end && after_new > in_new.end;
        let slight = in_old.len() == 1 && old.get(in_old.start).is_some_and(|word| word.len() <= SLIGHT_BYTES);
        if !(slight && replaced_before && replaced_after) {
            kept.push((in_old.clone(), in_new.clone()));
        }
    }
    kept
}

/// The maximum length of a word that does not split a run.
const SLIGHT_BYTES: usize = 3;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(old: &str, new: &str) -> String {
        let sign = |run: &Run<'_>| match run.side {
            Side::Both => format!("={}", run.text),
            Side::Old => format!("-{}", run.text),
            Side::New => format!("+{}", run.text),
        };
        runs(old, new).iter().map(sign).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn runs_that_a_person_would_name() {
        assert_eq!(shown("a glass bridge", "a glass bridge at night"), "=a glass bridge +at night");
        assert_eq!(shown("a cat in the snow", "a cat in the rain"), "=a cat in the -snow +rain");
        assert_eq!(shown("one red car, old", "two blue cars, new"), "-one red car, old +two blue cars, new");
        assert_eq!(shown("cat dog", "the cat and dog"), "+the =cat +and =dog");
        assert_eq!(shown("一只猫", "一只狗"), "=一只 -猫 +狗");
        assert_eq!(shown("", "a  b"), "+a  b");
        assert_eq!(shown("a b", ""), "-a b");
        assert_eq!(shown("", ""), "");
    }

    #[test]
    fn runs_keep_the_spaces_between_them() {
        let joined = |old: &str, new: &str, side: Side| -> String {
            let wanted = runs(old, new).into_iter().filter(|run| run.side == Side::Both || run.side == side);
            wanted.map(|run| format!("{}{}", run.before, run.text)).collect()
        };
        let (old, new) =
            ("sail boats at dusk, morning light, very wide", "sail boats at dusk, golden light, very tall");
        assert_eq!(joined(old, new, Side::Old), old);
        assert_eq!(joined(old, new, Side::New), new);
        let all: String = runs(old, new).iter().map(|run| format!("{}{}", run.before, run.text)).collect();
        assert_eq!(all, "sail boats at dusk, morning golden light, very wide tall");
    }

    proptest! {
        #[test]
        fn applying_the_diff_yields_the_new_text(old in "[a-c é猫,.'\n]{0,40}", new in "[a-c é猫,.'\n]{0,40}") {
            let found = runs(&old, &new);
            let (mut at_old, mut at_new) = (0, 0);
            for run in &found {
                prop_assert_eq!((run.old.start, run.new.start), (at_old, at_new), "none is left out");
                (at_old, at_new) = (run.old.end, run.new.end);
                if run.side == Side::Both {
                    prop_assert_eq!(&words(&old)[run.old.clone()], &words(&new)[run.new.clone()]);
                }
            }
            prop_assert_eq!((at_old, at_new), (words(&old).len(), words(&new).len()));
            if words(&old) == words(&new) {
                prop_assert!(found.iter().all(|run| run.side == Side::Both));
            }
        }
    }
}
