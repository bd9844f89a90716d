//! The filters next to search results: values of each facet with their counts, and ranges of numbers and days. They
//! edit the query, so that a link contains them.

use maud::{Markup, html};
use serde::Deserialize;

use super::search::SearchParams;
use super::terms::Terms;
use crate::web::words;
use crate::wire::{Api, Error, FacetCount, FacetsView, SearchRequest};

/// The maximum number of values shown per facet.
const MAX_VALUES: usize = 8;

/// Counts each facet that has selected values as if none were selected, so that others can be added.
pub(super) fn widen(
    asked: &SearchParams,
    api: &Api<'_>,
    request: &SearchRequest,
    facets: &mut FacetsView,
) -> Result<(), Error> {
    let query = asked.meant();
    for (name, _) in FACETS {
        let terms = Terms::of(&query, name);
        if terms.any.is_empty() && terms.not.is_empty() {
            continue;
        }
        let wider = SearchRequest {
            query: Some(asked.for_query(terms.rest).asked_for()).filter(|rest| !rest.trim().is_empty()),
            facets: true,
            limit: Some(1),
            cursor: None,
            ..request.clone()
        };
        let found = api.find_iterations(&wider, 0)?;
        if let Some(mut found) = found.facets {
            std::mem::swap(values(facets, name), values(&mut found, name));
        }
    }
    Ok(())
}

/// The facets offered: their names in queries, and on the page.
const FACETS: [(&str, &str); 8] = [
    ("rating", "Rating"),
    ("tag", "Tag"),
    ("project", "Project"),
    ("model", "Model"),
    ("lora", "LoRA"),
    ("sampler", "Sampler"),
    ("size", "Size"),
    ("outcome", "Outcome"),
];

/// Returns the counts of a facet.
fn values<'a>(facets: &'a mut FacetsView, name: &str) -> &'a mut Vec<FacetCount> {
    match name {
        "rating" => &mut facets.rating,
        "tag" => &mut facets.tag,
        "project" => &mut facets.project,
        "model" => &mut facets.model,
        "lora" => &mut facets.lora,
        "sampler" => &mut facets.sampler,
        "size" => &mut facets.size,
        _ => &mut facets.outcome,
    }
}

/// Renders the values of each facet with their counts, and the ranges.
pub(super) fn lists(asked: &SearchParams, facets: &FacetsView, total: u64) -> Markup {
    let mut facets = facets.clone();
    // Facets refer to the results shown now, so a word that is still being typed stays a prefix.
    let query = asked.meant();
    html! {
        p.muted { "Counts are iterations" }
        @for (name, heading) in FACETS {
            @let terms = Terms::of(&query, name);
            @let counts = std::mem::take(values(&mut facets, name));
            @let chosen = !terms.any.is_empty() || !terms.not.is_empty();
            // A facet with a single value that all results have is not informative.
            @if chosen || counts.len() > 1 || counts.first().is_some_and(|only| only.count < total) {
                section {
                    h2 { (heading) }
                    @for FacetCount { value, count } in counts.iter().take(MAX_VALUES) {
                        @let value = value.as_str();
                        @let (on, off) = (terms.any.iter().any(|it| it == value), terms.not.iter().any(|it| it == value));
                        div.value {
                            a href=(asked.with_query(&terms.toggled(value, false))) aria-current=[on.then_some("true")] data-off[off] {
                                span dir="auto" { (value) } span { (words::grouped(*count)) }
                            }
                            a.not href=(asked.with_query(&terms.toggled(value, true))) aria-current=[off.then_some("true")] aria-label={ "Exclude " (value) } title="Exclude" { "−" }
                        }
                    }
                }
            }
        }
        (range_form(asked, &query))
    }
}

/// The ranges that the form submits.
#[derive(Default, Deserialize)]
pub(super) struct Ranges {
    steps_from: Option<String>,
    steps_to: Option<String>,
    cfg_from: Option<String>,
    cfg_to: Option<String>,
    since: Option<String>,
    until: Option<String>,
}

impl Ranges {
    /// Returns whether the form was submitted, also if all of it is empty.
    pub(super) fn are_given(&self) -> bool {
        let Ranges { steps_from, steps_to, cfg_from, cfg_to, since, until } = self;
        [steps_from, steps_to, cfg_from, cfg_to, since, until].into_iter().any(Option::is_some)
    }

    /// Returns the query with these ranges in place of its own.
    pub(super) fn within(&self, query: &str) -> String {
        let text = |text: &Option<String>| text.as_deref().map(str::trim).unwrap_or_default().to_owned();
        let range = |from: &Option<String>, to: &Option<String>| match (text(from).as_str(), text(to).as_str()) {
            ("", "") => String::new(),
            (from, "") => format!(">={from}"),
            ("", to) => format!("<={to}"),
            (from, to) if from == to => from.to_owned(),
            (from, to) => format!("{from}..{to}"),
        };
        let ranges = [
            ("steps", range(&self.steps_from, &self.steps_to)),
            ("cfg", range(&self.cfg_from, &self.cfg_to)),
            ("since", text(&self.since)),
            ("until", text(&self.until)),
        ];
        ranges.into_iter().fold(query.to_owned(), |query, (name, value)| {
            let terms = Terms::of(&query, name);
            match value.as_str() {
                // Values that the form cannot show, such as `since:7d`, stay as they were typed.
                "" if ends(&terms) == Ends::default() => query,
                "" => terms.with_any(&[]),
                value => terms.with_any(&[value]),
            }
        })
    }
}

/// The ends of a range, empty if it is open. A day is a range with one end.
type Ends = (String, String);

/// Returns the ends of the range that a query asks for: `20..30`, `>=20`, `<=30`, `20` or `2026-03-14`. They are empty
/// if there is none, or one that the form cannot show.
fn ends(terms: &Terms) -> Ends {
    let Some(value) = terms.any.first() else { return Ends::default() };
    let (from, to) = match (value.strip_prefix(">="), value.strip_prefix("<="), value.split_once("..")) {
        (Some(from), _, _) => (from, ""),
        (_, Some(to), _) => ("", to),
        (_, _, Some(both)) => both,
        _ => (value.as_str(), value.as_str()),
    };
    let is_plain = |end: &str| end.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | '-'));
    let is_day = |end: &str| end.len() == 10 && end.split('-').count() == 3;
    if !is_plain(from) || !is_plain(to) || (terms.is_time() && !is_day(from)) {
        return Ends::default();
    }
    (from.to_owned(), to.to_owned())
}

fn range_form(asked: &SearchParams, query: &str) -> Markup {
    let numbers = |name: &str, label: &str, step: &str| {
        let (from, to) = ends(&Terms::of(query, name));
        html! {
            fieldset {
                legend { (label) }
                input type="number" min="0" step=(step) inputmode="decimal" name={ (name) "_from" } value=(from) placeholder="from" aria-label={ (label) " from" };
                span aria-hidden="true" { "–" }
                input type="number" min="0" step=(step) inputmode="decimal" name={ (name) "_to" } value=(to) placeholder="to" aria-label={ (label) " to" };
            }
        }
    };
    let day = |name: &str, label: &str| {
        let (day, _) = ends(&Terms::of(query, name));
        html! { label { (label) input type="date" name=(name) value=(day); } }
    };
    html! {
        form.ranges action="/search" method="get" {
            input type="hidden" name="q" value=(query);
            @for (name, value) in asked.choices() { @if let Some(value) = value { input type="hidden" name=(name) value=(value); } }
            (numbers("steps", "Steps", "1"))
            (numbers("cfg", "CFG", "any"))
            fieldset { legend { "Recorded" } (day("since", "from")) (day("until", "to")) }
            button type="submit" { "Apply" }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(steps: (&str, &str), since: &str) -> Ranges {
        let text = |text: &str| Some(text.to_owned());
        Ranges { steps_from: text(steps.0), steps_to: text(steps.1), since: text(since), ..Ranges::default() }
    }

    #[test]
    fn a_range_replaces_the_one_in_the_query() {
        assert_eq!(ranges(("20", "30"), "").within("fox"), "fox steps:20..30");
        assert_eq!(ranges(("20", ""), "2026-03-14").within("fox steps:1..2"), "fox steps:>=20 since:2026-03-14");
        assert_eq!(ranges((" ", "30"), "").within("steps:5 fox since:7d"), "fox since:7d steps:<=30");
        assert_eq!(ranges(("", ""), "").within("fox steps:<=9"), "fox");
        assert!(!Ranges::default().are_given() && ranges(("", ""), "").are_given());
    }

    #[test]
    fn the_form_shows_the_range_of_the_query() {
        let shown = |query: &str| ends(&Terms::of(query, "steps"));
        let pair = |from: &str, to: &str| (from.to_owned(), to.to_owned());
        assert_eq!(shown("fox steps:20..30"), pair("20", "30"));
        assert_eq!(shown("steps:>=20"), pair("20", ""));
        assert_eq!(shown("steps:<=20"), pair("", "20"));
        assert_eq!(shown("steps:28"), pair("28", "28"));
        assert_eq!(shown("steps:>20 fox"), pair("", ""));
        assert_eq!(shown("fox"), pair("", ""));
        let day = |query: &str| ends(&Terms::of(query, "since")).0;
        assert_eq!(
            (day("since:2026-03-14"), day("since:7d"), day("since:2026")),
            ("2026-03-14".into(), "".into(), "".into())
        );
    }
}
