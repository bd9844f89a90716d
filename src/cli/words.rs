//! Formats values: times, sizes, counts, ratings, and untrusted texts.

use std::borrow::Cow;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

pub(super) use super::times::{minute, time};
pub(super) use crate::model::amounts::{duration, size};
use crate::model::{Cost, Timestamp};
use crate::workspace::{image_rating, rated_image};

/// Formats a time as `3 hours ago`.
pub(super) fn ago(at: Timestamp, now: Timestamp) -> String {
    const UNITS: [(u64, &str); 6] = [
        (365 * 24 * 60 * 60, "year"),
        (30 * 24 * 60 * 60, "month"),
        (24 * 60 * 60, "day"),
        (60 * 60, "hour"),
        (60, "minute"),
        (1, "second"),
    ];
    let seconds = now.millis().abs_diff(at.millis()) / 1000;
    let Some((unit, name)) = UNITS.iter().find(|(unit, _)| seconds >= *unit) else {
        return "just now".to_owned();
    };
    let span = count(seconds / unit, name);
    if at > now { format!("in {span}") } else { format!("{span} ago") }
}

/// Formats a count as `1 session` or `2 sessions`.
pub(super) fn count(number: u64, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

/// Formats a list as `3, 4, 7`; a long one ends with the number of omitted entries.
pub(super) fn numbers(numbers: &[u32]) -> String {
    const SHOWN: usize = 20;
    let text = numbers.iter().take(SHOWN).map(u32::to_string).collect::<Vec<_>>().join(", ");
    match numbers.len().saturating_sub(SHOWN) {
        0 => text,
        more => format!("{text} and {more} more"),
    }
}

/// Formats a rating as `★★★★☆`.
pub(super) fn stars(rating: u8) -> String {
    (1..=5).map(|star| if star <= rating { '★' } else { '☆' }).collect()
}

/// Formats costs as `cost 0.12 USD + 3 credits`; `None` if there are none.
pub(super) fn costs(costs: &[Cost]) -> Option<String> {
    (!costs.is_empty()).then(|| format!("cost {}", sum(costs)))
}

/// Formats amounts as `0.12 USD + 3 credits`.
pub(super) fn sum(costs: &[Cost]) -> String {
    costs.iter().map(cost).collect::<Vec<_>>().join(" + ")
}

/// Formats a cost as `0.04 USD`.
pub(super) fn cost(cost: &Cost) -> String {
    format!("{} {}", cost.amount, one_line(&cost.currency))
}

/// Returns the tags on one line each, apart from those that rate single images, and these ratings, such as `/1 ★★★★☆`.
pub(super) fn tags_and_ratings(tags: &[String]) -> (Vec<String>, Vec<String>) {
    let (mut plain, mut ratings) = (Vec::new(), Vec::new());
    for tag in tags {
        let number = rated_image(tag);
        let rating = number.and_then(|number| image_rating(None, std::slice::from_ref(tag), number));
        match number.zip(rating) {
            Some((number, rating)) => ratings.push(format!("/{number} {}", stars(rating))),
            None => plain.push(one_line(tag)),
        }
    }
    (plain, ratings)
}

/// Returns the name of a recipe field for people, given its JSON name.
pub(super) fn field(name: &str) -> String {
    retake_recipe::Field::by_key(name).map_or_else(|| one_line(name), |field| field.label.to_lowercase())
}

/// Removes control sequences from a text, since imported texts may contain any character.
pub(super) fn clean(text: &str) -> Cow<'_, str> {
    let harmless = |c: char| matches!(c, '\n' | '\t') || !(c.is_control() || turns(c));
    if text.chars().all(harmless) {
        return Cow::Borrowed(text);
    }
    // Normalise Windows line breaks.
    let text = text.replace("\r\n", "\n");
    Cow::Owned(text.chars().map(|c| if harmless(c) { c } else { shown(c) }).collect())
}

/// Reduces a text to one clean line with single spaces.
pub(super) fn one_line(text: &str) -> String {
    clean(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Sanitises a summary of changes part by part; its parts are separated by two spaces.
pub(super) fn parts(line: &str) -> String {
    line.split("  ").map(one_line).filter(|part| !part.is_empty()).collect::<Vec<_>>().join("  ")
}

/// Reduces a prompt to one line, with a placeholder for an empty one.
pub(super) fn prompt(text: &str) -> String {
    let line = one_line(text);
    if line.is_empty() { "(no prompt)".to_owned() } else { line }
}

/// Truncates a text to this many columns, with an ellipsis.
pub(super) fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut left = width.saturating_sub(1);
    let mut short: String = text
        .chars()
        .take_while(|c| {
            let columns = c.width().unwrap_or(0);
            let fits = columns <= left;
            left = left.saturating_sub(columns);
            fits
        })
        .collect();
    if width > 0 {
        short.push('…');
    }
    short
}

/// Returns whether the character changes the direction of text and could disguise it.
fn turns(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Returns the visible symbol of a control character.
fn shown(c: char) -> char {
    match u32::from(c) {
        code @ 0..0x20 => char::from_u32(0x2400 + code).unwrap_or('\u{fffd}'),
        0x7f => '\u{2421}',
        _ => '\u{fffd}',
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn times_are_near_or_far() {
        let then = at("2025-12-11T14:45:22.456Z");
        assert_eq!(time(then), "2025-12-11 14:45:22 UTC");
        assert_eq!(minute(then), "2025-12-11 14:45");
        for (now, words) in [
            ("2025-12-11T14:45:22.999Z", "just now"),
            ("2025-12-11T14:45:23.999Z", "1 second ago"),
            ("2025-12-11T17:50:00Z", "3 hours ago"),
            ("2025-12-13T14:45:22Z", "1 day ago"),
            ("2027-12-13T14:45:22Z", "2 years ago"),
            ("2025-12-11T14:35:22Z", "in 10 minutes"),
        ] {
            assert_eq!(ago(then, at(now)), words, "{now}");
        }
    }

    #[test]
    fn numbers_read_well() {
        assert_eq!((count(0, "event"), count(1, "event")), ("0 events".to_owned(), "1 event".to_owned()));
        let many: Vec<u32> = (0..30).collect();
        assert_eq!(numbers(&[3, 4]), "3, 4");
        assert!(numbers(&many).ends_with("18, 19 and 10 more"));
        assert_eq!((stars(4), stars(0)), ("★★★★☆".to_owned(), "☆☆☆☆☆".to_owned()));
        assert_eq!(cost(&Cost { amount: 0.04, currency: "USD".to_owned() }), "0.04 USD");
    }

    #[test]
    fn nothing_recorded_reaches_the_terminal_as_a_command() {
        assert_eq!(clean("two\nlines\tand зима 猫"), "two\nlines\tand зима 猫");
        assert_eq!(clean("\u{1b}[31mred\u{7}\u{9b}2J\u{7f}"), "␛[31mred␇\u{fffd}2J␡");
        assert_eq!(clean("a\r\nb\rc"), "a\nb␍c");
        assert_eq!(clean("abc\u{202e}fdp.exe"), "abc\u{fffd}fdp.exe");
        assert_eq!(one_line("  two\n\t lines "), "two lines");
    }

    #[test]
    fn cuts_by_columns() {
        assert_eq!(cut("a cat", 5), "a cat");
        assert_eq!(cut("a cats", 5), "a ca…");
        assert_eq!(cut("猫猫猫", 4), "猫…");
        assert_eq!((cut("abc", 1), cut("abc", 0)), ("…".to_owned(), String::new()));
    }
}
