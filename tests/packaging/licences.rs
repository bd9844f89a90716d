//! Checks that `deny.toml` allows the licences of everything in the binary.

use std::process::Command;

use serde_json::Value;

use super::succeed;

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
    names_only_what_exists(&deny, &allowed);
    assert!(holds("(MIT OR Apache-2.0) AND IJG", &["MIT".to_owned(), "IJG".to_owned()]));
    assert!(!holds("(MIT OR Apache-2.0) AND IJG", &["IJG".to_owned()]));
    assert!(!holds("GPL-3.0-only", &allowed));
}

/// Checks that no exception or licence is left over from a dependency that was removed. `cargo metadata` also lists the
/// crates of other platforms, which the bill of materials does not.
fn names_only_what_exists(deny: &toml::Table, allowed: &[String]) {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(env!("CARGO_MANIFEST_DIR")).args(["metadata", "--format-version", "1", "--locked"]);
    let metadata: Value = serde_json::from_slice(&succeed(&mut cargo).stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    for exception in deny["licenses"]["exceptions"].as_array().unwrap() {
        let name = exception["crate"].as_str().unwrap();
        assert!(
            packages.iter().any(|it| it["name"] == name),
            "deny.toml has an exception for {name}, which is not used"
        );
    }
    for licence in allowed {
        let others: Vec<String> = allowed.iter().filter(|it| *it != licence).cloned().collect();
        let expressions = packages.iter().filter_map(|it| it["license"].as_str()).map(|it| it.replace('/', " OR "));
        let needed = expressions.filter(|it| holds(it, allowed)).any(|it| !holds(&it, &others));
        assert!(needed, "deny.toml allows {licence}, which no crate needs");
    }
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
