//! `projects`: which projects there are, and how much is in each.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::Timestamp;
use crate::store::{Order, RecencyKey, Status};

use super::{Error, Tracker, fit};

/// The projects of a workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProjectList {
    /// The projects, the one with the most recently modified session first.
    pub projects: Vec<ProjectRow>,
    /// How many projects there are, shown or not.
    pub total_projects: u64,
    /// Sessions that belong to no project.
    pub sessions_without: u64,
}

/// A project in brief.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProjectRow {
    /// Its name.
    pub project: String,
    /// How many sessions it has.
    pub sessions: u64,
    /// How many of them are archived.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub archived: u64,
    /// How many iterations they have together.
    pub iterations: u64,
    /// When one of them was last modified (UTC).
    pub last_modified_at: Timestamp,
}

impl Tracker {
    /// The projects, each with how many sessions and iterations it has. As many as fit an answer.
    pub fn projects(&self) -> Result<ProjectList, Error> {
        let mut projects: BTreeMap<String, ProjectRow> = BTreeMap::new();
        let (mut without, mut after) = (0, None);
        loop {
            let summaries = self.log.page(Status::All, Order::Recent, after, CHUNK)?;
            for summary in &summaries {
                let Some(project) = &summary.project else {
                    without += 1;
                    continue;
                };
                // The first one seen is the one modified last.
                let row = projects.entry(project.clone()).or_insert_with(|| ProjectRow {
                    project: project.clone(),
                    sessions: 0,
                    archived: 0,
                    iterations: 0,
                    last_modified_at: summary.last_modified_at,
                });
                row.sessions += 1;
                row.archived += u64::from(summary.archived);
                row.iterations += u64::from(summary.iteration_count());
            }
            match summaries.last() {
                Some(last) if summaries.len() == CHUNK => {
                    after = Some(RecencyKey { modified: last.last_modified_at, id: last.id });
                }
                _ => break,
            }
        }
        let total_projects = projects.len() as u64;
        let mut rows: Vec<ProjectRow> = projects.into_values().collect();
        rows.sort_by(|a, b| b.last_modified_at.cmp(&a.last_modified_at).then_with(|| a.project.cmp(&b.project)));
        let mut list = ProjectList { projects: Vec::new(), total_projects, sessions_without: without };
        let mut page = fit::Page::new(usize::MAX, &list);
        for row in rows {
            if !page.push(row) {
                break;
            }
        }
        list.projects = page.rows;
        Ok(list)
    }
}

/// Summaries read at once.
const CHUNK: usize = 1024;

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}
