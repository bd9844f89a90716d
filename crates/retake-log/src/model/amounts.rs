//! Human-readable amounts: sizes, durations and costs, and sums of costs.

use std::str::FromStr;

use super::iteration::Cost;

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

/// The error for a text that is not a cost.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseCostError {
    /// It does not contain an amount.
    #[error("expected an amount such as 0.04, '0.04 USD' or €0,04")]
    NoAmount,
    /// The currency is unknown.
    #[error(
        "unknown currency {0:?}: expected an ISO 4217 code such as USD or EUR, or a unit such as credits or tokens"
    )]
    UnknownCurrency(String),
}

impl FromStr for Cost {
    type Err = ParseCostError;

    /// Parses an amount with its currency before or after it: `0.04 USD`, `0.04USD`, `$0.04`, `EUR 0,04`, `3 credits`.
    /// An amount without a currency is in US dollars, in which image services state their prices.
    fn from_str(text: &str) -> Result<Cost, ParseCostError> {
        let text = text.trim();
        let is_amount = |c: char| c.is_ascii_digit() || matches!(c, '.' | ',' | '-' | '+');
        let start =
            text.find(|c: char| c.is_ascii_digit() || matches!(c, '.' | '-')).ok_or(ParseCostError::NoAmount)?;
        let (before, rest) = text.split_at(start);
        let (number, after) = rest.split_at(rest.find(|c| !is_amount(c)).unwrap_or(rest.len()));
        let amount = amount(number).ok_or(ParseCostError::NoAmount)?;
        let currency = match (before.trim(), after.trim()) {
            ("", "") => "USD".to_owned(),
            (name, "") | ("", name) => currency(name)?,
            _ => return Err(ParseCostError::UnknownCurrency(format!("{}…{}", before.trim(), after.trim()))),
        };
        Ok(Cost { amount, currency })
    }
}

/// Adds up costs by currency, in the order of first appearance. Codes that differ only in case are the same currency.
pub fn total<'a>(costs: impl IntoIterator<Item = &'a Cost>) -> Vec<Cost> {
    let mut totals: Vec<Cost> = Vec::new();
    for cost in costs {
        match totals.iter_mut().find(|total| total.currency.eq_ignore_ascii_case(&cost.currency)) {
            Some(total) => total.amount += cost.amount,
            None => totals.push(cost.clone()),
        }
    }
    for total in &mut totals {
        // Remove floating-point errors: prices have no billionths.
        total.amount = (total.amount * 1e9).round() / 1e9;
    }
    totals
}

/// Parses a number with a decimal point or comma; the other sign may separate thousands.
fn amount(text: &str) -> Option<f64> {
    let plain = match (text.rfind('.'), text.rfind(',')) {
        (Some(point), Some(comma)) if comma > point => text.replace('.', "").replacen(',', ".", 1),
        (Some(_), Some(_)) => text.replace(',', ""),
        (None, Some(_)) if text.matches(',').count() == 1 => text.replacen(',', ".", 1),
        _ => text.to_owned(),
    };
    plain.parse().ok().filter(|amount: &f64| amount.is_finite() && *amount >= 0.0)
}

fn currency(name: &str) -> Result<String, ParseCostError> {
    const SIGNS: [(&str, &str); 8] = [
        ("$", "USD"),
        ("US$", "USD"),
        ("€", "EUR"),
        ("£", "GBP"),
        ("¥", "JPY"),
        ("₹", "INR"),
        ("₩", "KRW"),
        ("zł", "PLN"),
    ];
    const UNITS: [&str; 11] =
        ["credit", "credits", "token", "tokens", "point", "points", "coin", "coins", "units", "buzz", "anlas"];
    if let Some((_, code)) = SIGNS.iter().find(|(sign, _)| *sign == name) {
        return Ok((*code).to_owned());
    }
    let code = name.to_ascii_uppercase();
    if code.len() == 3 && CODES.split_whitespace().any(|known| known == code) {
        return Ok(code);
    }
    // A provider's own unit, such as `Stability credits`.
    let unit = name.split_whitespace().next_back().map(str::to_lowercase).unwrap_or_default();
    if UNITS.contains(&unit.as_str()) {
        return Ok(name.split_whitespace().collect::<Vec<_>>().join(" "));
    }
    Err(ParseCostError::UnknownCurrency(name.chars().take(40).collect()))
}

/// The ISO 4217 currencies in use.
const CODES: &str = "\
AED AFN ALL AMD ANG AOA ARS AUD AWG AZN BAM BBD BDT BGN BHD BIF BMD BND BOB BRL BSD BTN BWP BYN BZD CAD CDF CHF CLP CNY \
COP CRC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GNF GTQ GYD HKD HNL HTG HUF IDR ILS INR \
IQD IRR ISK JMD JOD JPY KES KGS KHR KMF KPW KRW KWD KYD KZT LAK LBP LKR LRD LSL LYD MAD MDL MGA MKD MMK MNT MOP MRU MUR \
MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD OMR PAB PEN PGK PHP PKR PLN PYG QAR RON RSD RUB RWF SAR SBD SCR SDG SEK SGD \
SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TND TOP TRY TTD TWD TZS UAH UGX USD UYU UZS VES VND VUV WST XAF XCD XOF \
XPF YER ZAR ZMW ZWG";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_one_decimal_and_a_unit() {
        assert_eq!([size(0), size(999), size(1000), size(12_345_678)], ["0 B", "999 B", "1.0 kB", "12.3 MB"]);
        assert_eq!([duration(850), duration(12_480), duration(200_000)], ["850 ms", "12.4 s", "3 min 20 s"]);
    }

    #[test]
    fn costs_are_parsed_in_every_notation() {
        let cost = |text: &str| text.parse::<Cost>().map(|cost| format!("{} {}", cost.amount, cost.currency));
        for (text, expected) in [
            ("0.04", "0.04 USD"),
            ("0.04USD", "0.04 USD"),
            ("$0.04", "0.04 USD"),
            ("0.04 usd", "0.04 USD"),
            ("USD 0.04", "0.04 USD"),
            ("€0,04", "0.04 EUR"),
            ("1.234,50 €", "1234.5 EUR"),
            ("1,234.50 USD", "1234.5 USD"),
            (".5", "0.5 USD"),
            ("3 Stability  credits", "3 Stability credits"),
            ("3 credits", "3 credits"),
        ] {
            assert_eq!(cost(text).as_deref(), Ok(expected), "{text}");
        }
        for text in ["", "USD", "free", "-1", "1.2.3", "0.04 dollars", "0.04 XYZ", "$0.04 EUR", "inf"] {
            assert!(cost(text).is_err(), "{text}");
        }
    }

    #[test]
    fn costs_add_up_per_currency() {
        let cost = |amount: f64, currency: &str| Cost { amount, currency: currency.to_owned() };
        let costs = [cost(0.1, "USD"), cost(3.0, "credits"), cost(0.2, "usd")];
        assert_eq!(total(&costs), [cost(0.3, "USD"), cost(3.0, "credits")]);
        assert!(total(&[]).is_empty());
    }
}
