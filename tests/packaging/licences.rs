//! Checks that `deny.toml` allows the licences of everything in the binary.

use serde_json::Value;

/// Checks a bill of materials. cargo-deny does the same and more, but takes minutes to install.
pub(crate) fn are_allowed(bill: &Value) {
    let deny = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/deny.toml")).unwrap();
    let deny: toml::Table = deny.parse().unwrap();
    let strings = |list: &toml::Value| -> Vec<String> {
        list.as_array().unwrap().iter().map(|it| it.as_str().unwrap().to_owned()).collect()
    };
    let allowed = strings(&deny["licenses"]["allow"]);
    let exceptions = deny["licenses"]["exceptions"].as_array().unwrap();
    for component in bill["components"].as_array().unwrap() {
        let name = component["name"].as_str().unwrap();
        let mut allowed = allowed.clone();
        for exception in exceptions.iter().filter(|it| it["crate"].as_str() == Some(name)) {
            allowed.extend(strings(&exception["allow"]));
        }
        let licence = &component["licenses"][0];
        match licence["expression"].as_str() {
            Some(expression) => {
                assert!(holds(expression, &allowed), "{name}: {expression} is not allowed by deny.toml");
            }
            // A custom licence, whose text is among the notices.
            None => assert!(licence["license"]["name"].is_string(), "{name} has no licence: {component}"),
        }
    }
    assert!(holds("(MIT OR Apache-2.0) AND IJG", &["MIT".to_owned(), "IJG".to_owned()]));
    assert!(!holds("(MIT OR Apache-2.0) AND IJG", &["IJG".to_owned()]));
    assert!(!holds("GPL-3.0-only", &allowed));
}

/// Returns whether the allowed licences satisfy an SPDX expression. `AND` binds more tightly than `OR`.
fn holds(expression: &str, allowed: &[String]) -> bool {
    let expression = expression.trim();
    let parts = |separator: &str| {
        let mut parts = vec![String::new()];
        let mut depth = 0;
        for word in expression.replace('(', "( ").replace(')', " )").split_whitespace() {
            depth += i32::from(word == "(") - i32::from(word == ")");
            if depth == 0 && word == separator {
                parts.push(String::new());
            } else {
                let part = parts.last_mut().unwrap();
                *part += if part.is_empty() { "" } else { " " };
                *part += word;
            }
        }
        parts
    };
    let (either, both) = (parts("OR"), parts("AND"));
    if either.len() > 1 {
        either.iter().any(|part| holds(part, allowed))
    } else if both.len() > 1 {
        both.iter().all(|part| holds(part, allowed))
    } else if let Some(inner) = either[0].strip_prefix("( ").and_then(|inner| inner.strip_suffix(" )")) {
        holds(inner, allowed)
    } else {
        allowed.contains(&either[0])
    }
}
