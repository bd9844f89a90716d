//! Edits the facet values in a query, as the filters next to search results do. `(model:"a" OR model:"b") -model:"c"`
//! means any of a and b, and not c. The rest of the query stays as it was typed.

use crate::model::query::facet_term;

/// Facets with values that are compared.
const COMPARED: [&str; 5] = ["rating", "steps", "cfg", "since", "until"];

/// The values of one facet in a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Terms {
    name: String,
    /// The query without them.
    pub(super) rest: String,
    /// Values of which one must match.
    pub(super) any: Vec<String>,
    /// Values that must not match.
    pub(super) not: Vec<String>,
}

impl Terms {
    /// Extracts the values of a facet from a query.
    pub(super) fn of(query: &str, name: &str) -> Terms {
        let mut terms = Terms { name: name.to_owned(), rest: String::new(), any: Vec::new(), not: Vec::new() };
        let mut left = query.trim();
        while !left.is_empty() {
            let (token, after) = token(left);
            left = after.trim_start();
            if let Some(values) = group(token, name) {
                terms.any.extend(values);
            } else if let Some(value) = token.strip_prefix('-').and_then(|term| value(term, name)) {
                terms.not.push(value);
            } else if let Some(value) = value(token, name) {
                terms.any.push(value);
            } else {
                if !terms.rest.is_empty() {
                    terms.rest.push(' ');
                }
                terms.rest.push_str(token);
            }
        }
        terms
    }

    /// Returns whether the values are times.
    pub(super) fn is_time(&self) -> bool {
        matches!(self.name.as_str(), "since" | "until")
    }

    /// Returns the query with exactly these values to choose from.
    pub(super) fn with_any(&self, any: &[&str]) -> String {
        Terms { any: any.iter().map(|value| (*value).to_owned()).collect(), ..self.clone() }.query()
    }

    /// Returns the query with a value toggled: selected, excluded, or neither.
    pub(super) fn toggled(&self, value: &str, exclude: bool) -> String {
        let mut next = self.clone();
        let was = |values: &[String]| values.iter().any(|known| known == value);
        let (in_any, in_not) = (was(&next.any), was(&next.not));
        next.any.retain(|known| known != value);
        next.not.retain(|known| known != value);
        match exclude {
            true if !in_not => next.not.push(value.to_owned()),
            false if !in_any => next.any.push(value.to_owned()),
            _ => {}
        }
        next.query()
    }

    fn query(&self) -> String {
        let term = |value: &String| {
            // Names may start with any character and are quoted; numbers, days and ranges of them are not.
            let is_plain = |c: char| c.is_ascii_digit() || matches!(c, '<' | '>' | '=' | '.' | '-');
            if COMPARED.contains(&self.name.as_str()) && value.chars().all(is_plain) {
                format!("{}:{value}", self.name)
            } else {
                facet_term(&self.name, value)
            }
        };
        let any: Vec<String> = self.any.iter().map(term).collect();
        let chosen = match any.as_slice() {
            [] => None,
            [only] => Some(only.clone()),
            several => Some(format!("({})", several.join(" OR "))),
        };
        let not = self.not.iter().map(|value| format!("-{}", term(value)));
        let rest = Some(self.rest.clone()).filter(|rest| !rest.is_empty());
        rest.into_iter().chain(chosen).chain(not).collect::<Vec<_>>().join(" ")
    }
}

/// Splits off the first token: up to a space outside quotes and parentheses.
fn token(text: &str) -> (&str, &str) {
    let (mut quoted, mut depth) = (false, 0_i32);
    for (at, c) in text.char_indices() {
        match c {
            '"' => quoted = !quoted,
            '(' if !quoted => depth += 1,
            ')' if !quoted => depth -= 1,
            c if c.is_whitespace() && !quoted && depth <= 0 => return text.split_at(at),
            _ => {}
        }
    }
    (text, "")
}

/// Returns the value of `name:"value"` or `name:value`. Quotes in a quoted value are doubled.
fn value(term: &str, name: &str) -> Option<String> {
    let (facet, value) = term.split_once(':')?;
    if !facet.eq_ignore_ascii_case(name) || value.is_empty() {
        return None;
    }
    let Some(quoted) = value.strip_prefix('"') else {
        return (!value.contains('"')).then(|| value.to_owned());
    };
    let quoted = quoted.strip_suffix('"')?;
    let plain = quoted.replace("\"\"", "");
    (!quoted.is_empty() && !plain.contains('"')).then(|| quoted.replace("\"\"", "\""))
}

/// Returns the values of `(name:"a" OR name:"b")`.
fn group(group: &str, name: &str) -> Option<Vec<String>> {
    let mut left = group.strip_prefix('(')?.strip_suffix(')')?.trim();
    let mut values = Vec::new();
    loop {
        let (term, after) = token(left);
        values.push(value(term, name)?);
        let after = after.trim_start();
        if after.is_empty() {
            return Some(values);
        }
        left = after.strip_prefix("OR ")?.trim_start();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_chosen_and_excluded_one_by_one() {
        let start = "fox \"at dusk\"";
        let one = Terms::of(start, "model").toggled("xl 1.2", false);
        assert_eq!(one, "fox \"at dusk\" model:\"xl 1.2\"");
        let two = Terms::of(&one, "model").toggled("sd", false);
        assert_eq!(two, "fox \"at dusk\" (model:\"xl 1.2\" OR model:\"sd\")");
        assert_eq!(Terms::of(&two, "model").any, ["xl 1.2", "sd"]);
        let less = Terms::of(&two, "model").toggled("sd", true);
        assert_eq!(less, "fox \"at dusk\" model:\"xl 1.2\" -model:\"sd\"");
        assert_eq!(Terms::of(&less, "model").toggled("sd", true), one);
        assert_eq!(Terms::of(&one, "model").toggled("xl 1.2", false), start);
        assert_eq!(Terms::of("(a OR b) tag:x", "model").rest, "(a OR b) tag:x", "what others wrote stays");
        assert_eq!(Terms::of("fox", "rating").with_any(&[">=4"]), "fox rating:>=4");
        assert_eq!(Terms::of("fox rating:>=4", "rating").any, [">=4"]);
    }

    #[test]
    fn values_keep_their_quotes() {
        let odd = ["6\" by 4\"", "\"quoted\"", "a OR b", "(half", "<b>"];
        let mut query = "fox".to_owned();
        for (at, value) in odd.iter().enumerate() {
            query = Terms::of(&query, "tag").toggled(value, false);
            assert_eq!(Terms::of(&query, "tag").any, odd[..=at], "{query}");
        }
        for value in odd {
            query = Terms::of(&query, "tag").toggled(value, false);
        }
        assert_eq!(query, "fox");
    }
}
