//! Statistics of a workspace: activity by month or day, models, ratings, cost.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::card;
use crate::model::query::facet_term;
use crate::model::{Status, Timestamp};
use crate::web::words;
use crate::wire::{Api, Error, FacetCount, FacetsView, SearchRequest};
use crate::workspace::{Overview, Workspace};

/// The number of months shown.
const MONTHS: usize = 12;
/// The number of models shown.
const MODELS: usize = 8;
/// The maximum number of sessions whose cost is added up, newest first.
pub(super) const MAX_COSTED: usize = 5000;

/// The statistics.
pub(super) struct Statistics {
    activity: Activity,
    facets: FacetsView,
    iterations: u64,
    cost: BTreeMap<String, f64>,
    /// Whether only the newest sessions were added up.
    partial: bool,
}

impl Statistics {
    pub(super) fn read(workspace: &Workspace, overview: &Overview) -> Result<Statistics, Error> {
        let selection = overview.select(workspace, Status::All, None)?;
        let request = SearchRequest { facets: true, limit: Some(1), ..SearchRequest::default() };
        let found = Api::new(workspace).unbounded().find_iterations(&request, 0)?;
        let mut cost = BTreeMap::new();
        for row in selection.rows.iter().take(MAX_COSTED) {
            for spent in workspace.cost(row.id)? {
                *cost.entry(spent.currency).or_insert(0.0) += spent.amount;
            }
        }
        Ok(Statistics {
            activity: Activity::of(&selection.months, selection.rows.iter().map(|row| row.last_modified_at)),
            facets: found.facets.unwrap_or_default(),
            iterations: found.total,
            cost,
            partial: selection.rows.len() > MAX_COSTED,
        })
    }

    pub(super) fn shown(&self) -> Markup {
        html! {
            section.block {
                h2 { "Activity" }
                p { (words::count(self.iterations, "iteration")) @if let Some(cost) = card::cost(&self.cost) { ", " (cost) @if self.partial { " in the newest " (words::count(MAX_COSTED as u64, "session")) } } }
                @if self.activity.counts.len() > 1 { (self.activity.chart()) }
            }
            div.halves {
                (list("Models", "model", &self.facets.model))
                (list("Ratings", "rating", &self.facets.rating))
            }
        }
    }
}

/// The numbers of sessions by the time of their last change, newest first.
struct Activity {
    /// The unit of time, for people.
    unit: &'static str,
    counts: Vec<(String, usize)>,
}

impl Activity {
    /// Counts by month, or by day if everything is from one month. The times are newest first.
    fn of(months: &[(String, usize)], times: impl Iterator<Item = Timestamp>) -> Activity {
        if months.len() > 1 {
            return Activity { unit: "month", counts: months.iter().take(MONTHS).cloned().collect() };
        }
        let mut counts: Vec<(String, usize)> = Vec::new();
        for time in times {
            let day: String = time.to_string().chars().take(10).collect();
            match counts.last_mut() {
                Some((known, count)) if *known == day => *count += 1,
                _ => counts.push((day, 1)),
            }
        }
        Activity { unit: "day", counts }
    }

    /// Renders bars, oldest first, with a table for screen readers.
    fn chart(&self) -> Markup {
        let most = self.counts.iter().map(|(_, count)| *count).max().unwrap_or(1).max(1);
        let newest_last: Vec<&(String, usize)> = self.counts.iter().rev().collect();
        let height = |count: usize| (count * 80).div_ceil(most).max(2);
        html! {
            svg.chart viewBox={ "0 0 " (newest_last.len() * 60) " 118" } role="img" aria-label={ "Sessions by " (self.unit) " of their last change" } {
                @for (at, (label, count)) in newest_last.iter().enumerate() {
                    rect x=(at * 60 + 8) y=(100 - height(*count) - 4) width="44" height=(height(*count)) rx="3" {}
                    text x=(at * 60 + 30) y=(100 - height(*count) - 9) text-anchor="middle" { (count) }
                    text.label x=(at * 60 + 30) y="114" text-anchor="middle" { (readable(label)) }
                }
            }
            table.sr { caption { "Sessions by " (self.unit) } tbody { @for (label, count) in newest_last { tr { th scope="row" { (readable(label)) } td { (count) } } } } }
        }
    }
}

/// Formats a day as `9 Dec`, a month as `Dec 2025`.
fn readable(date: &str) -> String {
    const NAMES: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let mut parts = date.split('-');
    let year = parts.next().unwrap_or(date);
    let month = parts.next().and_then(|month| month.parse::<usize>().ok());
    let Some(name) = month.and_then(|month| NAMES.get(month.checked_sub(1)?)) else { return date.to_owned() };
    match parts.next() {
        Some(day) => format!("{} {name}", day.trim_start_matches('0')),
        None => format!("{name} {year}"),
    }
}

fn list(heading: &str, facet: &str, counts: &[FacetCount]) -> Markup {
    html! {
        section.block {
            h2 { (heading) }
            @if counts.is_empty() { p.muted { "None recorded" } }
            div.projects {
                @for FacetCount { value, count } in counts.iter().take(MODELS) {
                    @let query = facet_term(facet, value);
                    a href=(words::address("/search", [("q", Some(query.as_str())), ("status", Some("all"))])) {
                        span dir="auto" { @if facet == "rating" && value != "none" { "★ " } (value) } span { (words::grouped(*count)) }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workspace_of_one_month_is_counted_by_day() {
        let times = ["2025-12-11T23:59:59Z", "2025-12-11T00:00:00Z", "2025-12-09T12:00:00Z"];
        let times = || times.iter().map(|time| time.parse::<Timestamp>().unwrap());
        let month = |name: &str, count: usize| (name.to_owned(), count);
        let days = Activity::of(&[month("2025-12", 3)], times());
        assert_eq!(days.counts, [month("2025-12-11", 2), month("2025-12-09", 1)]);
        let chart = days.chart().into_string();
        assert!(chart.contains("Sessions by day") && chart.contains(">9 Dec<"), "{chart}");

        let months = Activity::of(&[month("2025-12", 3), month("2025-11", 1)], times());
        assert_eq!(months.counts.len(), 2);
        let chart = months.chart().into_string();
        assert!(chart.contains("Sessions by month") && chart.contains(">Nov 2025<"), "{chart}");
    }
}
