//! Formats values for pages.

use maud::{Markup, html};

use super::url;
use crate::model::Timestamp;
pub(super) use crate::model::amounts::{duration, size};

/// Formats a time as minutes in UTC, which scripts turn into a relative time.
pub(super) fn time(at: Timestamp) -> Markup {
    html! { time datetime=(at) { (minute(at)) } }
}

/// Returns a time to the minute: `2026-11-16 09:30 UTC`.
pub(super) fn minute(at: Timestamp) -> String {
    let text = at.to_string();
    format!("{} UTC", text.get(..16).unwrap_or(&text).replacen('T', " ", 1))
}

/// Formats a count as `1 session` or `2 sessions`.
pub(super) fn count(number: u64, thing: &str) -> String {
    format!("{} {thing}{}", grouped(number), if number == 1 { "" } else { "s" })
}

/// Formats a number as `1 234 567`, with narrow spaces.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + 8);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

/// Returns a URL with these query parameters; those without a value are left out.
pub(super) fn address<'a>(path: &str, parts: impl IntoIterator<Item = (&'a str, Option<&'a str>)>) -> String {
    let parts = parts.into_iter().filter_map(|(name, value)| Some((name, value.filter(|value| !value.is_empty())?)));
    let query = parts.map(|(name, value)| format!("{name}={}", url::encode(value))).collect::<Vec<_>>().join("&");
    if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_in_groups() {
        let shown: Vec<String> = [0, 999, 1000, 1_234_567].map(grouped).map(|it| it.replace('\u{202f}', " ")).to_vec();
        assert_eq!(shown, ["0", "999", "1 000", "1 234 567"]);
        assert_eq!(count(1, "session"), "1 session");
        assert_eq!(count(0, "session"), "0 sessions");
    }

    #[test]
    fn a_url_holds_what_was_chosen() {
        assert_eq!(address("/", [("status", None), ("project", Some(""))]), "/");
        assert_eq!(
            address("/search", [("q", Some("a fox & co")), ("by", Some("session"))]),
            "/search?q=a%20fox%20%26%20co&by=session"
        );
    }
}
