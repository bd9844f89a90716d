//! The facets of the query language: their names, and how the values after the colon are parsed.

use crate::model::tokenizer::fold_name;

use super::{Condition, Facet, Field, MatchKind, Quantity, millionths, time};

/// The type of the value of a facet.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Text(Field),
    Name(Facet),
    Number(Quantity),
    Seed,
    Size,
    Rating,
    Outcome,
    Status,
    Session,
    Has,
    Time(Side),
}

/// The relation to a time.
#[derive(Clone, Copy)]
pub(super) enum Side {
    Since,
    After,
    Before,
    Until,
    On,
}

/// The facets with their names, of which the first is the canonical one.
pub(super) const FACETS: &[(&[&str], Kind)] = &[
    (&["model"], Kind::Name(Facet::Model)),
    (&["lora"], Kind::Name(Facet::Lora)),
    (&["sampler"], Kind::Name(Facet::Sampler)),
    (&["scheduler"], Kind::Name(Facet::Scheduler)),
    (&["provider", "generator", "tool", "server"], Kind::Name(Facet::Generator)),
    (&["actor", "user", "client"], Kind::Name(Facet::Actor)),
    (&["tag"], Kind::Name(Facet::Tag)),
    (&["project"], Kind::Name(Facet::Project)),
    (&["seed"], Kind::Seed),
    (&["steps"], Kind::Number(Quantity::Steps)),
    (&["cfg", "guidance"], Kind::Number(Quantity::GuidanceScale)),
    (&["cost"], Kind::Number(Quantity::Cost)),
    (&["size"], Kind::Size),
    (&["rating"], Kind::Rating),
    (&["outcome"], Kind::Outcome),
    (&["status"], Kind::Status),
    (&["session"], Kind::Session),
    (&["has"], Kind::Has),
    (&["since"], Kind::Time(Side::Since)),
    (&["after"], Kind::Time(Side::After)),
    (&["before"], Kind::Time(Side::Before)),
    (&["until"], Kind::Time(Side::Until)),
    (&["on", "date"], Kind::Time(Side::On)),
    (&["prompt"], Kind::Text(Field::Prompt)),
    (&["negative"], Kind::Text(Field::Negative)),
    (&["note"], Kind::Text(Field::Note)),
    (&["title"], Kind::Text(Field::Title)),
    (&["message"], Kind::Text(Field::Message)),
];

/// Returns the hint for an invalid value.
pub(super) fn example(kind: Kind) -> &'static str {
    match kind {
        Kind::Text(_) => "write a word, or a phrase in quotes",
        Kind::Name(_) => "write a name, in quotes if it contains spaces: model:\"SD XL\"",
        Kind::Number(_) => "write a number or a range: steps:30, cfg:>=7.5, cost:>0.01, steps:20..30",
        Kind::Seed => "write a whole number from 0 to 18446744073709551615",
        Kind::Size => "write width and height in pixels: size:1024x768",
        Kind::Rating => "write rating:5, rating:>=4, rating:2..4 or rating:none",
        Kind::Outcome => "write succeeded, failed or refused",
        Kind::Status => "write active, archived or all",
        Kind::Session => "write the session's id: session:session-2026-03-14-001",
        Kind::Has => "write has:image, has:note, has:tag, has:rating, has:lora or has:negative",
        Kind::Time(_) => time::EXAMPLES,
    }
}

/// Returns the condition for a name: exact in quotes, a prefix with `*`. Otherwise, names that usually include versions
/// and file extensions need only contain the value, while names chosen by people must equal it.
pub(super) fn name_condition(facet: Facet, value: &str, whole: bool) -> Condition {
    let (by, value) = match (whole, value.strip_suffix('*')) {
        (true, _) => (MatchKind::Whole, value),
        (false, Some(start)) => (MatchKind::Start, start),
        (false, None) if matches!(facet, Facet::Tag | Facet::Project) => (MatchKind::Whole, value),
        (false, None) => (MatchKind::Part, value),
    };
    Condition::Name { facet, by, value: fold_name(value) }
}

impl Condition {
    /// Returns the condition of `facet:value`.
    pub fn named(facet: Facet, value: &str) -> Condition {
        name_condition(facet, value, false)
    }
}

/// Parses `5`, `>=4`, `2..4` or `none`.
pub(super) fn rating(value: &str) -> Option<Condition> {
    if value.eq_ignore_ascii_case("none") {
        return Some(Condition::Rating(0, 0));
    }
    let stars = |text: &str| digits(text).and_then(|stars| u8::try_from(stars).ok()).filter(|stars| *stars <= 5);
    let (low, high) = if let Some(text) = value.strip_prefix(">=") {
        (stars(text)?, 5)
    } else if let Some(text) = value.strip_prefix('>') {
        (stars(text)? + 1, 5)
    } else if let Some(text) = value.strip_prefix("<=") {
        (1, stars(text)?)
    } else if let Some(text) = value.strip_prefix('<') {
        (1, stars(text)?.checked_sub(1)?)
    } else if let Some((low, high)) = value.split_once("..") {
        (stars(low)?, stars(high)?)
    } else {
        let stars = stars(value.strip_prefix('=').unwrap_or(value))?;
        (stars, stars)
    };
    Some(Condition::Rating(low, high))
}

/// Parses `30`, `>=7.5`, `<0.01` or `20..30`.
pub(super) fn number(quantity: Quantity, value: &str) -> Option<Condition> {
    let exact = |text: &str| {
        let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        is_plain.then(|| text.parse::<f64>().ok()).flatten().map(millionths)
    };
    let (low, high) = if let Some(text) = value.strip_prefix(">=") {
        (exact(text)?, i64::MAX)
    } else if let Some(text) = value.strip_prefix('>') {
        (exact(text)?.saturating_add(1), i64::MAX)
    } else if let Some(text) = value.strip_prefix("<=") {
        (LEAST, exact(text)?)
    } else if let Some(text) = value.strip_prefix('<') {
        (LEAST, exact(text)?.saturating_sub(1))
    } else if let Some((low, high)) = value.split_once("..") {
        (exact(low)?, exact(high)?)
    } else {
        let exact = exact(value.strip_prefix('=').unwrap_or(value))?;
        (exact, exact)
    };
    Some(Condition::Number { quantity, low, high })
}

/// The lowest value of a quantity; the one below it marks an unknown quantity in the index.
const LEAST: i64 = i64::MIN + 1;

/// Returns the canonical names of the facets.
pub fn facet_names() -> impl Iterator<Item = &'static str> {
    FACETS.iter().filter_map(|(names, _)| names.first().copied())
}

/// Returns the term for exactly this value of a facet: `tag:"hero"`. A quote in the value is doubled.
pub fn facet_term(name: &str, value: &str) -> String {
    format!("{name}:\"{}\"", value.replace('"', "\"\""))
}

/// Parses a whole number without a sign.
pub(super) fn digits(text: &str) -> Option<u64> {
    (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok())?
}
