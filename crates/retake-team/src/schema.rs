//! The schema: creates it, checks its version, and upgrades it. Nothing is migrated automatically.

use std::sync::Arc;

use tokio_postgres::error::SqlState;

use super::connect::{Failure, Lease, Server, begin_patiently};
use super::{Config, Error};

/// The schema version that this program reads and writes.
pub const SCHEMA_VERSION: i32 = 2;

/// The first version of the schema.
const SCHEMA: &str = include_str!("sql/schema.sql");

/// The later versions of the schema, each with what it adds to the one before and a line for the user.
const STEPS: [(i32, &str, &str); 1] =
    [(2, include_str!("sql/version_2.sql"), "added a function that appends several iterations at once")];

/// The functions that are called from outside and refer to tables. Their search path is fixed: most run with the
/// privileges of the schema's owner, and objects in a caller's own schema must not replace our tables.
const ENTRY_POINTS: [&str; 8] = [
    "append",
    "append_iteration",
    "append_iterations",
    "import_records",
    "put_text",
    "lock_session",
    "lock_day",
    "note_restore",
];

/// The settings of a workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The version of the schema.
    pub schema_version: i32,
    /// The workspace's id.
    pub workspace: String,
    /// The location of images: `s3://bucket/prefix` or `file:///directory`.
    pub images: String,
}

/// Creates the schema of a workspace in one transaction; `role` is the application role that is granted the right to
/// read and append.
pub(crate) fn init(server: &Arc<Server>, workspace: &str, images: &str, role: Option<&str>) -> Result<(), Error> {
    let schema = server.config.schema.clone();
    let (workspace, images, role) = (workspace.to_owned(), images.to_owned(), role.map(str::to_owned));
    server.call(move |client| {
        let (schema, workspace, images, role) = (schema.clone(), workspace.clone(), images.clone(), role.clone());
        Box::pin(async move {
            if let Some(settings) = settings(client, &schema).await? {
                // A retry after a lost response is not an error.
                let ours = settings.workspace == workspace;
                return if ours { Ok(()) } else { Err(Error::Exists(schema).into()) };
            }
            let mut script =
                format!("BEGIN; CREATE SCHEMA IF NOT EXISTS {schema}; SET LOCAL search_path = {schema};\n");
            script.push_str(SCHEMA);
            STEPS.iter().for_each(|(_, step, _)| script.push_str(step));
            script.push_str(&secure_functions(&schema));
            if let Some(role) = &role {
                script.push_str(&grants(&schema, role));
            }
            client.batch_execute(&script).await?;
            let insert =
                format!("INSERT INTO {schema}.settings (schema_version, workspace, images) VALUES ($1, $2, $3)");
            client.execute(&insert, &[&SCHEMA_VERSION, &workspace, &images]).await?;
            client.batch_execute("COMMIT").await?;
            Ok(())
        })
    })
}

/// Upgrades the schema to this program's version, and prepares a workspace that was restored from a dump. Returns what
/// was done, one line each.
pub(crate) fn upgrade(server: &Arc<Server>) -> Result<Vec<String>, Error> {
    let config = server.config.clone();
    server.call(move |client| {
        let config = config.clone();
        Box::pin(async move {
            let found = existing(client, &config).await?;
            if found.schema_version > SCHEMA_VERSION {
                return Err(version_error(found.schema_version).into());
            }
            let mut done = Vec::new();
            let roles =
                if found.schema_version < SCHEMA_VERSION { roles(client, &config.schema).await? } else { vec![] };
            for (version, step, line) in STEPS.iter().filter(|(version, _, _)| *version > found.schema_version) {
                client.batch_execute(&upgrade_script(&config, *version, step, &roles)).await?;
                done.push((*line).to_owned());
            }
            if is_restored(client, &config.schema).await? {
                client.query_one(&format!("SELECT {}.note_restore()", config.schema), &[]).await?;
                done.push("made the restored workspace ready for new records".to_owned());
            }
            Ok(done)
        })
    })
}

/// Returns one step of an upgrade, which is one transaction.
fn upgrade_script(config: &Config, version: i32, step: &str, roles: &[String]) -> String {
    let (schema, begin) = (&config.schema, begin_patiently(config.attempt_timeout));
    let grants: String = roles.iter().map(|role| grants(schema, role)).collect();
    let secure = secure_functions(schema);
    format!(
        "{begin}; SET LOCAL search_path = {schema};\n{step}\n{secure}{grants}\
         UPDATE settings SET schema_version = {version}; COMMIT"
    )
}

/// Returns the roles that may append, which are granted what a new version adds.
async fn roles(client: &Lease, schema: &str) -> Result<Vec<String>, Failure> {
    let query = format!(
        "SELECT DISTINCT r.rolname::text FROM pg_proc AS p, aclexplode(p.proacl) AS a, pg_roles AS r \
         WHERE p.oid = '{schema}.append'::regproc AND a.privilege_type = 'EXECUTE' AND r.oid = a.grantee \
         AND r.oid <> p.proowner"
    );
    Ok(client.query(&query, &[]).await?.iter().map(|row| row.get(0)).collect())
}

/// Reads the settings and checks that this program can use the workspace.
pub(crate) fn check(server: &Arc<Server>) -> Result<Settings, Error> {
    let config = server.config.clone();
    server.call(move |client| {
        let config = config.clone();
        Box::pin(async move {
            let settings = existing(client, &config).await?;
            if settings.schema_version != SCHEMA_VERSION {
                return Err(version_error(settings.schema_version).into());
            }
            if is_restored(client, &config.schema).await? {
                return Err(Error::Restored.into());
            }
            Ok(settings)
        })
    })
}

async fn existing(client: &Lease, config: &Config) -> Result<Settings, Failure> {
    let missing = || Error::NoWorkspace { schema: config.schema.clone(), server: config.to_string() };
    Ok(settings(client, &config.schema).await?.ok_or_else(missing)?)
}

fn version_error(found: i32) -> Error {
    Error::SchemaVersion { found, needed: SCHEMA_VERSION }
}

async fn settings(client: &Lease, schema: &str) -> Result<Option<Settings>, Failure> {
    let query = format!("SELECT schema_version, workspace, images FROM {schema}.settings");
    match client.query_opt(&query, &[]).await {
        Ok(row) => {
            Ok(row.map(|row| Settings { schema_version: row.get(0), workspace: row.get(1), images: row.get(2) }))
        }
        Err(error)
            if matches!(error.code(), Some(&SqlState::UNDEFINED_TABLE) | Some(&SqlState::INVALID_SCHEMA_NAME)) =>
        {
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

/// Returns whether the records carry transaction ids that this cluster has not reached.
async fn is_restored(client: &Lease, schema: &str) -> Result<bool, Failure> {
    let query = format!(
        "SELECT coalesce((SELECT max(ord) FROM {schema}.records), 0) \
         > pg_snapshot_xmax(pg_current_snapshot())::text::bigint + (SELECT ord_offset FROM {schema}.settings)"
    );
    Ok(client.query_one(&query, &[]).await?.get(0))
}

/// Returns what fixes the search path of functions and keeps them from everyone who was not granted them.
fn secure_functions(schema: &str) -> String {
    let fix = |function| format!("ALTER FUNCTION {function} SET search_path = {schema}, pg_temp;\n");
    let fixed: String = ENTRY_POINTS.into_iter().map(fix).collect();
    format!("{fixed}REVOKE ALL ON ALL FUNCTIONS IN SCHEMA {schema} FROM PUBLIC;\n")
}

/// Returns the grants of the application role: it can read, and write only through the functions.
fn grants(schema: &str, role: &str) -> String {
    let role = quoted(role);
    let callable = [
        "append",
        "append_iteration",
        "append_iterations",
        "import_records",
        "put_text",
        "lock_session",
        "lock_day",
        "horizon",
        "le_u16",
        "le_u32",
    ];
    let mut script =
        format!("GRANT USAGE ON SCHEMA {schema} TO {role}; GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {role};\n");
    for function in callable {
        script.push_str(&format!("GRANT EXECUTE ON FUNCTION {schema}.{function} TO {role};\n"));
    }
    script
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
