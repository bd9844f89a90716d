//! The tokenizer of search: words are folded, so that case, accents and width do not matter, and scripts written
//! without spaces are split into characters, so that they can be searched too.
//!
//! Queries, the index and the highlighting of results all use this one, so they cannot disagree.

use std::borrow::Cow;
use std::ops::Range;

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// The maximum length of a word in bytes; longer ones are truncated.
pub const MAX_WORD_BYTES: usize = 64;

/// A word in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    /// The word, folded.
    pub text: String,
    /// Its byte range in the original text.
    pub at: Range<usize>,
}

/// Returns the words of a text, in order.
///
/// A word is a run of letters and digits. In scripts written without spaces (Chinese, Japanese, Thai and similar ones,
/// and Korean, where particles are attached to words) each character is a word, so that any part of a sentence is found
/// as a phrase. Pairs of characters would be rarer, but single-character words could not be found.
pub fn words(text: &str) -> Vec<Word> {
    let mut found = Vec::new();
    each_word(text, |word, at| found.push(Word { text: word.to_owned(), at }));
    found
}

/// Calls `take` for every word of a text, in order.
pub fn each_word(text: &str, mut take: impl FnMut(&str, Range<usize>)) {
    let mut word = String::new();
    let mut start = 0;
    let mut folded = String::new();
    for (at, character) in text.char_indices() {
        let end = at + character.len_utf8();
        if character.is_ascii() {
            if character.is_ascii_alphanumeric() {
                if word.is_empty() {
                    start = at;
                }
                push(&mut word, character.to_ascii_lowercase());
            } else if !word.is_empty() {
                take(&word, start..at);
                word.clear();
            }
            continue;
        }
        if is_dropped(character) {
            continue;
        }
        if !character.is_alphanumeric() && !is_combining_mark(character) {
            if !word.is_empty() {
                take(&word, start..at);
                word.clear();
            }
            continue;
        }
        folded.clear();
        fold_character(character, &mut folded);
        if folded.chars().any(stands_alone) {
            if !word.is_empty() {
                take(&word, start..at);
                word.clear();
            }
            take(&folded, at..end);
            continue;
        }
        if word.is_empty() {
            start = at;
        }
        folded.chars().filter(|c| c.is_alphanumeric() || is_combining_mark(*c)).for_each(|c| push(&mut word, c));
    }
    if !word.is_empty() {
        take(&word, start..text.len());
    }
}

/// Folds a name for comparison: case, accents, width and surrounding whitespace do not matter, everything else does.
pub fn fold_name(name: &str) -> String {
    let mut folded = String::with_capacity(name.len());
    name.trim().chars().filter(|c| !is_dropped(*c)).for_each(|c| fold_character(c, &mut folded));
    folded
}

/// The minimum length of a word that is also found inside others, in characters.
pub const MIN_PART_CHARS: usize = 3;

/// Returns whether a word is long enough to be found inside others.
pub fn is_part(word: &str) -> bool {
    word.chars().count() >= MIN_PART_CHARS
}

/// Returns whether a word of a text matches a search for another, both folded: it contains it, as `1girl` contains
/// `girl`, or is its singular or plural.
pub fn contains_or_inflects(word: &str, wanted: &str) -> bool {
    word.contains(wanted) || singular(word) == singular(wanted)
}

/// Returns the possible singular and plural forms of this word, including itself.
pub fn inflections(word: &str) -> Vec<String> {
    let one = singular(word);
    let mut forms = vec![word.to_owned(), one.to_string(), format!("{one}s"), format!("{one}es")];
    forms.extend(one.strip_suffix('y').map(|start| format!("{start}ies")));
    forms.retain(|form| singular(form) == one);
    forms
}

/// Returns the singular of an English noun, judging by its ending. It only needs to be the same for all forms of a
/// word, so verbs and other languages do no harm.
fn singular(word: &str) -> Cow<'_, str> {
    let long = |start: &&str| start.len() >= MIN_PART_CHARS;
    if let Some(start) = word.strip_suffix("ies").filter(long) {
        return Cow::Owned(format!("{start}y"));
    }
    let sibilant = |start: &&str| ["s", "x", "z", "ch", "sh"].iter().any(|end| start.ends_with(end));
    if let Some(start) = word.strip_suffix("es").filter(long).filter(sibilant) {
        return Cow::Borrowed(start);
    }
    let plural = |start: &&str| !["s", "u", "i"].iter().any(|end| start.ends_with(end));
    Cow::Borrowed(word.strip_suffix('s').filter(long).filter(plural).unwrap_or(word))
}

fn push(word: &mut String, character: char) {
    if word.len() + character.len_utf8() <= MAX_WORD_BYTES {
        word.push(character);
    }
}

fn fold_character(character: char, folded: &mut String) {
    if character.is_ascii() {
        folded.push(character.to_ascii_lowercase());
        return;
    }
    // Recompose at the end, so that Korean syllables and voiced kana stay single characters.
    for plain in character.to_lowercase().nfkd().filter(|c| !is_dropped(*c)).nfc() {
        match plain {
            'ß' => folded.push_str("ss"),
            'æ' => folded.push_str("ae"),
            'œ' => folded.push_str("oe"),
            'ø' => folded.push('o'),
            'ł' => folded.push('l'),
            'đ' | 'ð' => folded.push('d'),
            'ı' => folded.push('i'),
            'þ' => folded.push_str("th"),
            other => folded.extend(other.to_lowercase()),
        }
    }
}

/// Returns whether a character is a mark that only modifies a letter. Marks that are part of the spelling, as in Hindi,
/// are kept.
fn is_dropped(character: char) -> bool {
    matches!(u32::from(character),
        0x0300..=0x036F | 0x0591..=0x05BD | 0x05BF | 0x05C1..=0x05C2 | 0x05C4..=0x05C5 | 0x064B..=0x065F | 0x0670
        | 0x1AB0..=0x1AFF | 0x1DC0..=0x1DFF | 0x200C..=0x200D | 0x20D0..=0x20FF | 0xFE00..=0xFE0F | 0xFE20..=0xFE2F)
}

/// Returns whether a character belongs to a script without separators between words.
fn stands_alone(character: char) -> bool {
    matches!(u32::from(character),
        0x0E00..=0x0EFF | 0x1000..=0x109F | 0x1100..=0x11FF | 0x1780..=0x17FF | 0x2E80..=0x2FDF | 0x3005..=0x3007
        | 0x3040..=0x30FF | 0x3100..=0x318F | 0x31A0..=0x31BF | 0x31F0..=0x31FF | 0x3400..=0x4DBF | 0x4E00..=0x9FFF
        | 0xA960..=0xA97F | 0xAC00..=0xD7FF | 0xF900..=0xFAFF | 0x1B000..=0x1B16F | 0x20000..=0x3FFFF)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_and_plurals_are_found() {
        for (word, wanted) in [
            ("1girl", "girl"),
            ("boats", "boat"),
            ("boat", "boats"),
            ("city", "cities"),
            ("cities", "city"),
            ("boxes", "box"),
            ("dress", "dresses"),
            ("sailboat", "boat"),
        ] {
            assert!(contains_or_inflects(word, wanted), "{word} by {wanted}");
            assert!(word.contains(wanted) || inflections(wanted).iter().any(|form| form == word), "{word} by {wanted}");
        }
        for (word, wanted) in [("boat", "boathouse"), ("glas", "glass"), ("bus", "buses1"), ("gas", "gaseous")] {
            assert!(!contains_or_inflects(word, wanted), "{word} by {wanted}");
        }
        assert!(is_part("cat") && !is_part("ca") && is_part("été") && !is_part("玻璃"));
    }

    fn texts(text: &str) -> Vec<String> {
        words(text).into_iter().map(|word| word.text).collect()
    }

    #[test]
    fn case_accents_and_width_do_not_matter() {
        for (text, expected) in [
            ("A Glass-Bridge, (at:1.2) night", "a glass bridge at 1 2 night"),
            ("Café CAFÉ cafe\u{301} ＣＡＦＥ", "cafe cafe cafe cafe"),
            ("Straße Ærø Łódź İstanbul ısı", "strasse aero lodz istanbul isi"),
            ("ЁЛКА Ёлка", "елка елка"),
            ("1girl 4k", "1girl 4k"),
            ("don't", "don t"),
            ("", ""),
            ("…—!", ""),
        ] {
            assert_eq!(texts(text).join(" "), expected, "{text}");
        }
    }

    #[test]
    fn scripts_without_spaces_are_split_into_characters() {
        assert_eq!(texts("玻璃桥 in 2D風"), ["玻", "璃", "桥", "in", "2d", "風"]);
        assert_eq!(texts("ガラスの橋ｶﾞ"), ["ガ", "ラ", "ス", "の", "橋", "カ", "\u{3099}"]);
        assert_eq!(texts("유리 다리를"), ["유", "리", "다", "리", "를"]);
        assert_eq!(texts("पुल कांच"), ["पुल", "कांच"], "vowel signs stay");
    }

    #[test]
    fn a_word_has_its_range_in_the_text() {
        let text = "  Crème, 橋!";
        let found: Vec<&str> = words(text).into_iter().map(|word| &text[word.at]).collect();
        assert_eq!(found, ["Crème", "橋"]);
    }

    #[test]
    fn a_text_without_separators_is_one_bounded_word() {
        let found = words(&"é".repeat(100_000));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].text, "e".repeat(MAX_WORD_BYTES));
        assert_eq!(found[0].at, 0..200_000);
    }

    #[test]
    fn names_keep_punctuation() {
        assert_eq!(fold_name(" DPM++ 2M Karras "), "dpm++ 2m karras");
        assert_eq!(fold_name("Été/SDXL_v1.0.safetensors"), "ete/sdxl_v1.0.safetensors");
    }
}
