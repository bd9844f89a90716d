//! Words similar to one that occurs nowhere: what a misspelt search probably means.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::bytes::Damage;
use super::evaluate::SegmentView;
use super::terms::keys_of;

/// The maximum number of words returned.
const MAX_WORDS: usize = 3;
/// The maximum number of similar words whose documents are counted.
const MAX_COUNTED: usize = 16;

/// Returns the words of the dictionaries that are similar to a folded word, most similar first; of equally similar ones,
/// the most frequent.
pub(super) fn near(word: &str, parts: &[SegmentView]) -> Result<Vec<String>, Damage> {
    let wanted: Vec<char> = word.chars().collect();
    let Some(most) = max_distance(&wanted) else { return Ok(Vec::new()) };
    let letters = letter_set(word);
    let mut found: BTreeMap<&str, usize> = BTreeMap::new();
    for part in parts {
        for other in part.segment.words()? {
            // An edit adds at most one letter and removes at most one. Hardly any other word passes this test.
            if other.len().abs_diff(word.len()) > 4 * most
                || (letter_set(other) ^ letters).count_ones() as usize > 2 * most
            {
                continue;
            }
            if let Some(distance) = distance(&wanted, other, most) {
                found.insert(other, distance);
            }
        }
    }
    let mut nearest: Vec<(usize, &str)> = found.into_iter().map(|(other, distance)| (distance, other)).collect();
    // People rarely misspell the first letter.
    let starts_alike = |other: &str| other.chars().next() == wanted.first().copied();
    nearest.sort_by_key(|(distance, other)| (*distance, !starts_alike(other)));
    nearest.truncate(MAX_COUNTED);
    let mut ranked = Vec::with_capacity(nearest.len());
    for (distance, other) in nearest {
        let mut docs = 0_u64;
        for part in parts {
            docs += part.segment.terms(&keys_of(other))?.iter().map(|term| u64::from(term.count)).sum::<u64>();
        }
        ranked.push((distance, !starts_alike(other), Reverse(docs), other));
    }
    ranked.sort_unstable();
    Ok(ranked.into_iter().take(MAX_WORDS).map(|(.., other)| other.to_owned()).collect())
}

/// Returns how many edits a word may differ by; `None` if nothing can be said, as of short words and numbers.
fn max_distance(word: &[char]) -> Option<usize> {
    match word.len() {
        _ if !word.iter().any(|c| c.is_alphabetic()) => None,
        0..4 => None,
        4..7 => Some(1),
        _ => Some(2),
    }
}

/// Returns the set of letters of a word as bits, of which rare ones share some.
fn letter_set(word: &str) -> u64 {
    word.chars().fold(0, |set, c| set | 1 << (u32::from(c) % 61))
}

/// Returns the number of letters to insert, remove, replace or swap with their neighbour that make one word of the
/// other; `None` if more than `most`.
fn distance(wanted: &[char], other: &str, most: usize) -> Option<usize> {
    let other: Vec<char> = other.chars().collect();
    if other.len().abs_diff(wanted.len()) > most {
        return None;
    }
    let (mut before, mut above): (Vec<usize>, Vec<usize>) = (Vec::new(), (0..=wanted.len()).collect());
    for (row, letter) in other.iter().enumerate() {
        let mut line = Vec::with_capacity(above.len());
        line.push(row + 1);
        for (at, of) in wanted.iter().enumerate() {
            let cell = |line: &[usize], at: usize| line.get(at).copied().unwrap_or(usize::MAX - 1);
            let replaced = cell(&above, at) + usize::from(of != letter);
            let mut least = replaced.min(cell(&above, at + 1) + 1).min(cell(&line, at) + 1);
            let is_swap = at > 0 && row > 0 && wanted.get(at - 1) == Some(letter) && other.get(row - 1) == Some(of);
            if is_swap {
                least = least.min(cell(&before, at - 1) + 1);
            }
            line.push(least);
        }
        before = std::mem::replace(&mut above, line);
        if above.iter().min().is_some_and(|least| *least > most)
            && before.iter().min().is_some_and(|least| *least > most)
        {
            return None;
        }
    }
    above.last().copied().filter(|distance| *distance <= most)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apart(one: &str, other: &str) -> Option<usize> {
        distance(&one.chars().collect::<Vec<_>>(), other, 2)
    }

    #[test]
    fn edits_are_counted_up_to_a_limit() {
        assert_eq!(apart("lighthouse", "lighthouse"), Some(0));
        assert_eq!(apart("lihgthouse", "lighthouse"), Some(1), "two letters swapped");
        assert_eq!(apart("lighthous", "lighthouse"), Some(1));
        assert_eq!(apart("lightthouse", "lighthouse"), Some(1));
        assert_eq!(apart("kighthoude", "lighthouse"), Some(2));
        assert_eq!(apart("kighthoudr", "lighthouse"), None);
        assert_eq!(apart("brücke", "brucke"), Some(1));
        assert_eq!(apart("sea", ""), None);
    }

    #[test]
    fn the_letters_of_similar_words_differ_little() {
        for (one, other) in [("lihgthouse", "lighthouse"), ("kighthoude", "lighthouse"), ("brücke", "bruck")] {
            let (Some(distance), letters) = (apart(one, other), letter_set(one) ^ letter_set(other)) else {
                panic!("{one}")
            };
            assert!(letters.count_ones() as usize <= 2 * distance, "{one}");
        }
    }

    #[test]
    fn numbers_and_short_words_are_left_alone() {
        let most = |word: &str| max_distance(&word.chars().collect::<Vec<_>>());
        assert_eq!((most("1024"), most("sea"), most("boat"), most("harbour")), (None, None, Some(1), Some(2)));
    }
}
