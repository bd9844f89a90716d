//! `list-projects`: lists the projects with their sizes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::{Cost, Timestamp};

use super::{Api, Error, is_zero, limits};

/// The projects of a workspace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProjectList {
    /// The projects, most recently modified first.
    pub projects: Vec<ProjectRow>,
    /// The number of all projects.
    pub total_projects: u64,
    /// The number of sessions without a project.
    pub sessions_without: u64,
}

/// A project in a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProjectRow {
    /// Its name.
    pub project: String,
    /// The number of its sessions.
    pub sessions: u64,
    /// The number of its archived sessions.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub archived: u64,
    /// The number of iterations in all its sessions.
    pub iterations: u64,
    /// What all its iterations cost, by currency, if that is known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cost: Vec<Cost>,
    /// When one of them was last modified (UTC).
    pub last_modified_at: Timestamp,
}

impl Api<'_> {
    /// Lists the projects with their numbers of sessions and iterations; as many as fit a reply.
    pub fn projects(&self) -> Result<ProjectList, Error> {
        let (projects, sessions_without) = self.workspace.projects()?;
        let total_projects = projects.len() as u64;
        let mut list = ProjectList { projects: Vec::new(), total_projects, sessions_without };
        let mut page = limits::PageRows::new(usize::MAX, self.reply_bytes, &list);
        for project in projects {
            let row = ProjectRow {
                project: project.name,
                sessions: project.sessions,
                archived: project.archived,
                iterations: project.iterations,
                cost: project.cost,
                last_modified_at: project.last_modified_at,
            };
            if !page.push(row) {
                break;
            }
        }
        list.projects = page.rows;
        Ok(list)
    }
}
