//! Statistics of a workspace: activity by month, models, ratings, cost.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::card;
use crate::model::Status;
use crate::model::query::facet_term;
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
    months: Vec<(String, usize)>,
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
            months: selection.months.iter().take(MONTHS).cloned().collect(),
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
                @if self.months.len() > 1 { (chart(&self.months)) }
            }
            div.halves {
                (list("Models", "model", &self.facets.model))
                (list("Ratings", "rating", &self.facets.rating))
            }
        }
    }
}

/// Renders sessions by month as bars, oldest first, with a table for screen readers.
fn chart(months: &[(String, usize)]) -> Markup {
    let most = months.iter().map(|(_, count)| *count).max().unwrap_or(1).max(1);
    let newest_last: Vec<&(String, usize)> = months.iter().rev().collect();
    let height = |count: usize| (count * 80).div_ceil(most).max(2);
    html! {
        svg.chart viewBox={ "0 0 " (newest_last.len() * 60) " 118" } role="img" aria-label="Sessions by month of their last change" {
            @for (at, (month, count)) in newest_last.iter().enumerate() {
                rect x=(at * 60 + 8) y=(100 - height(*count) - 4) width="44" height=(height(*count)) rx="3" {}
                text x=(at * 60 + 30) y=(100 - height(*count) - 9) text-anchor="middle" { (count) }
                text.label x=(at * 60 + 30) y="114" text-anchor="middle" { (month.get(2..).unwrap_or(month)) }
            }
        }
        table.sr { caption { "Sessions by month" } tbody { @for (month, count) in newest_last { tr { th scope="row" { (month) } td { (count) } } } } }
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
