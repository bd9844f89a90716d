//! `retake team`: sets up, upgrades and inspects a workspace in PostgreSQL.

use clap::{Args, Subcommand};
use serde::Serialize;

use retake_team::{ImageLocation, PgLog, RemoteImages, SCHEMA_VERSION};

use crate::store;
use crate::team::TeamWorkspace;
use crate::wire::{Error, ErrorKind};

use super::args::Json;
use super::context::Context;
use super::exit::{Exit, Failure};

/// Set up a workspace that a team shares in PostgreSQL
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  retake team init postgres://retake_owner@db.example/studio \\
      --images s3://studio-images/retake --role retake_app
  retake team status postgres://retake_app@db.example/studio

Passwords belong into PGPASSFILE (~/.pgpass), not into the URL.")]
pub(super) struct TeamArgs {
    #[command(subcommand)]
    verb: TeamVerb,
}

#[derive(Debug, Subcommand)]
enum TeamVerb {
    /// Create the schema of a new workspace
    Init(InitArgs),
    /// Bring the schema to this version, or make a restored dump ready
    Upgrade(UrlArgs),
    /// Show the schema, the server and what endangers the data
    Status(UrlArgs),
}

#[derive(Debug, Args)]
struct InitArgs {
    /// The database, as a role that may create schemas
    #[arg(value_name = "URL")]
    url: String,
    /// Where images are kept: s3://BUCKET/PREFIX or file:///DIRECTORY
    #[arg(long, value_name = "LOCATION")]
    images: String,
    /// The role that people and agents use: it may read and append
    #[arg(long, value_name = "ROLE")]
    role: Option<String>,
    #[command(flatten)]
    json: Json,
}

#[derive(Debug, Args)]
struct UrlArgs {
    /// The workspace [default: that of --workspace or RETAKE_WORKSPACE]
    #[arg(value_name = "URL")]
    url: Option<String>,
    #[command(flatten)]
    json: Json,
}

/// The result of `team init` and `team upgrade`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SchemaChanges {
    workspace: String,
    schema_version: i32,
    changes: Vec<String>,
}

/// The result of `team status`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    workspace: String,
    workspace_id: String,
    schema_version: i32,
    server_version: String,
    role: String,
    encrypted: bool,
    images: String,
    sessions: u64,
    events: u64,
    warnings: Vec<String>,
}

impl TeamArgs {
    pub(super) fn wants_json(&self) -> bool {
        match &self.verb {
            TeamVerb::Init(InitArgs { json, .. }) | TeamVerb::Upgrade(UrlArgs { json, .. }) => json.json,
            TeamVerb::Status(UrlArgs { json, .. }) => json.json,
        }
    }

    pub(super) fn run(self, context: &mut Context) -> Result<Exit, Failure> {
        match self.verb {
            TeamVerb::Init(init) => init.run(context),
            TeamVerb::Upgrade(url) => url.upgrade(context),
            TeamVerb::Status(url) => url.status(context),
        }
    }
}

impl InitArgs {
    fn run(self, context: &mut Context) -> Result<Exit, Failure> {
        let team = named(&self.url)?;
        let location: ImageLocation = self.images.parse().map_err(plain)?;
        // Check this before creating anything: a workspace that cannot store images is useless.
        let dir = team.dir().join("cache").join("originals");
        let images = RemoteImages::open(location.clone(), &dir, 0).map_err(plain)?;
        images.check_access().map_err(|error| {
            let hint = "check the location, its rights and the credentials in the environment";
            Error::new(ErrorKind::Invalid, format!("images cannot be kept: {error}"), hint)
        })?;
        let id = random_id()?;
        PgLog::init(team.config().clone(), &id, &location.to_string(), self.role.as_deref()).map_err(plain)?;
        let changes = vec![format!("created the schema \"{}\"", team.config().schema())];
        show(SchemaChanges { workspace: team.url(), schema_version: SCHEMA_VERSION, changes }, context);
        Ok(Exit::Done)
    }
}

impl UrlArgs {
    fn upgrade(self, context: &mut Context) -> Result<Exit, Failure> {
        let team = self.team(context)?;
        let changes = PgLog::upgrade(team.config().clone()).map_err(plain)?;
        show(SchemaChanges { workspace: team.url(), schema_version: SCHEMA_VERSION, changes }, context);
        Ok(Exit::Done)
    }

    fn status(self, context: &mut Context) -> Result<Exit, Failure> {
        let team = self.team(context)?;
        let log = PgLog::open(team.config().clone()).map_err(plain)?;
        let (health, totals) = (log.health().map_err(plain)?, log.totals().map_err(plain)?);
        let settings = log.settings();
        let status = Status {
            workspace: team.url(),
            workspace_id: settings.workspace.clone(),
            schema_version: settings.schema_version,
            server_version: health.version,
            role: health.role,
            encrypted: health.encrypted,
            images: settings.images.clone(),
            sessions: totals.sessions,
            events: totals.events,
            warnings: health.warnings,
        };
        context.output.answer(&status, |output, status| {
            output.line(format_args!("workspace   {}", status.workspace));
            output.line(format_args!("schema      version {}", status.schema_version));
            output.line(format_args!("server      PostgreSQL {}", status.server_version));
            let encrypted = if status.encrypted { "encrypted" } else { "not encrypted" };
            output.line(format_args!("connection  as {}, {encrypted}", status.role));
            output.line(format_args!("images      {}", status.images));
            output.line(format_args!("sessions    {}", status.sessions));
            output.line(format_args!("events      {}", status.events));
            for warning in &status.warnings {
                output.warn(warning);
            }
        });
        Ok(Exit::Done)
    }

    fn team(&self, context: &Context) -> Result<TeamWorkspace, Failure> {
        if let Some(url) = &self.url {
            return named(url);
        }
        let chosen = context.workspace()?;
        chosen.team.ok_or_else(|| {
            let message = format!("{} is a directory, not a team workspace", chosen.dir.display());
            Failure::flags(message, "pass a URL such as postgres://ROLE@HOST/DATABASE")
        })
    }
}

fn random_id() -> Result<String, Error> {
    let mut id = [0; 16];
    getrandom::fill(&mut id).map_err(|error| {
        let hint = "this should not happen: the operating system must provide them";
        Error::new(ErrorKind::Internal, format!("the system gives no random numbers: {error}"), hint)
    })?;
    Ok(format!("{:032x}", u128::from_be_bytes(id)))
}

fn named(url: &str) -> Result<TeamWorkspace, Failure> {
    TeamWorkspace::new(url).map_err(|error| Failure::flags(error.to_string(), "write postgres://ROLE@HOST/DATABASE"))
}

fn plain(error: retake_team::Error) -> Error {
    crate::workspace::Error::from(store::Error::from(error)).into()
}

fn show(changed: SchemaChanges, context: &mut Context) {
    context.output.answer(&changed, |output, changed| {
        if changed.changes.is_empty() {
            output.line(format_args!("{} is up to date: schema version {}", changed.workspace, changed.schema_version));
        }
        for change in &changed.changes {
            output.line(format_args!("{change}"));
        }
    });
}
