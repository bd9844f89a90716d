//! How values read on a page.

use maud::{Markup, html};

use crate::model::Timestamp;

/// A time: the minute in UTC, which the scripts turn into how long ago it is where the reader is.
pub(super) fn time(at: Timestamp) -> Markup {
    let text = at.to_string();
    let minute = text.get(..16).unwrap_or(&text).replacen('T', " ", 1);
    html! { time datetime=(text) { (minute) " UTC" } }
}

/// `1 session`, `2 sessions`.
pub(super) fn count(number: u64, thing: &str) -> String {
    format!("{} {thing}{}", grouped(number), if number == 1 { "" } else { "s" })
}

/// `1 234 567`, with narrow spaces.
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

/// `12.3 kB`.
pub(super) fn size(bytes: u64) -> String {
    const UNITS: [(u64, &str); 4] =
        [(1_000_000_000_000, "TB"), (1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB")];
    match UNITS.iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) => format!("{}.{} {name}", bytes / unit, bytes % unit * 10 / unit),
        None => format!("{bytes} B"),
    }
}

/// `850 ms`, `12.4 s`, `3 min 20 s`.
pub(super) fn duration(millis: u64) -> String {
    match millis {
        0..1000 => format!("{millis} ms"),
        1000..60_000 => format!("{}.{} s", millis / 1000, millis % 1000 / 100),
        _ => format!("{} min {} s", millis / 60_000, millis % 60_000 / 1000),
    }
}

/// The text as a part of an address holds it.
pub(super) fn escaped(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
            _ => format!("%{byte:02X}"),
        })
        .collect()
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
}
