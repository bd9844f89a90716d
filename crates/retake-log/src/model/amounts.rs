//! Formats amounts for people: sizes and durations.

/// Formats a size, such as `12.3 kB`.
pub fn size(bytes: u64) -> String {
    const UNITS: [(u64, &str); 4] =
        [(1_000_000_000_000, "TB"), (1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB")];
    match UNITS.iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) => format!("{}.{} {name}", bytes / unit, bytes % unit * 10 / unit),
        None => format!("{bytes} B"),
    }
}

/// Formats a duration, such as `850 ms`, `12.4 s` or `3 min 20 s`.
pub fn duration(millis: u64) -> String {
    match millis {
        0..1000 => format!("{millis} ms"),
        1000..60_000 => format!("{}.{} s", millis / 1000, millis % 1000 / 100),
        _ => format!("{} min {} s", millis / 60_000, millis % 60_000 / 1000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_one_decimal_and_a_unit() {
        assert_eq!([size(0), size(999), size(1000), size(12_345_678)], ["0 B", "999 B", "1.0 kB", "12.3 MB"]);
        assert_eq!([duration(850), duration(12_480), duration(200_000)], ["850 ms", "12.4 s", "3 min 20 s"]);
    }
}
