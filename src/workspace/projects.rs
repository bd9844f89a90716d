//! The projects of a workspace, with their counts.

use std::collections::BTreeMap;

use crate::model::{Cost, Order, SessionId, Status, Timestamp, amounts};

use super::{Error, SessionFilter, Workspace};

/// A project.
#[derive(Clone, Debug, PartialEq)]
pub struct Project {
    /// Its name, as the most recently modified session spells it.
    pub name: String,
    /// The number of its sessions.
    pub sessions: u64,
    /// The number of its archived sessions.
    pub archived: u64,
    /// The number of iterations in all its sessions.
    pub iterations: u64,
    /// The total cost of its iterations, by currency.
    pub cost: Vec<Cost>,
    /// When one of its sessions was last modified.
    pub last_modified_at: Timestamp,
}

/// The number of sessions whose costs are read at once.
const COSTS_AT_ONCE: usize = 512;

impl Workspace {
    /// Returns the projects, most recently modified first, and the number of sessions without one. Names that differ
    /// only in case are the same project.
    pub fn projects(&self) -> Result<(Vec<Project>, u64), Error> {
        let mut projects: BTreeMap<String, Project> = BTreeMap::new();
        let mut without = 0;
        let mut sessions = Vec::new();
        let filter = SessionFilter { status: Status::All, order: Order::Recent, ..SessionFilter::default() };
        for summary in self.sessions(&filter) {
            let summary = summary?;
            let Some(name) = &summary.project else {
                without += 1;
                continue;
            };
            // The first session seen is the most recently modified one.
            let project = projects.entry(name.to_lowercase()).or_insert_with(|| Project {
                name: name.clone(),
                sessions: 0,
                archived: 0,
                iterations: 0,
                cost: Vec::new(),
                last_modified_at: summary.last_modified_at,
            });
            project.sessions += 1;
            project.archived += u64::from(summary.archived);
            project.iterations += u64::from(summary.iteration_count());
            sessions.push((summary.id, name.to_lowercase()));
        }
        for chunk in sessions.chunks(COSTS_AT_ONCE) {
            let ids: Vec<SessionId> = chunk.iter().map(|(id, _)| *id).collect();
            for ((_, name), cost) in chunk.iter().zip(self.costs(&ids)?) {
                if let Some(project) = projects.get_mut(name) {
                    project.cost.extend(cost);
                }
            }
        }
        let mut projects: Vec<Project> = projects.into_values().collect();
        projects.iter_mut().for_each(|project| project.cost = amounts::total(&project.cost));
        projects.sort_by(|a, b| b.last_modified_at.cmp(&a.last_modified_at).then_with(|| a.name.cmp(&b.name)));
        Ok((projects, without))
    }
}
