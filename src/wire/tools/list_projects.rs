//! `list-projects`: lists the projects of the workspace.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::wire::tool::{Call, Effect, Reply, Tool};
use crate::wire::{Error, ProjectList};

/// The request, which has no arguments.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ProjectsRequest {}

pub(super) struct ListProjects;

impl Tool for ListProjects {
    const NAME: &'static str = "list-projects";
    const TITLE: &'static str = "List projects";
    const DESCRIPTION: &'static str = "\
List the projects of this workspace, most recently modified first, each with its numbers of sessions and iterations and \
its cost by currency. Use it to see what is worked on, what it cost, or how a project is spelt; for its sessions use \
list-sessions with `project`. Sessions without a project are only counted, in `sessionsWithout`. `totalProjects` \
counts all; those that do not fit the reply are left out, oldest first, and `maxChars` allows for more.";
    const EFFECT: Effect = Effect::Reads;
    type Request = ProjectsRequest;
    type View = ProjectList;

    fn call(call: &Call<'_>, _: ProjectsRequest) -> Result<Reply<ProjectList>, Error> {
        Ok(call.api.projects()?.into())
    }
}
