//! Checks the configuration of the server for risks to a team's data.

use super::Error;
use super::connect::Failure;
use super::log::PgLog;

/// The state of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// The server's version.
    pub version: String,
    /// The role of this process.
    pub role: String,
    /// Whether connections are encrypted.
    pub encrypted: bool,
    /// Risks to durability or notifications, one sentence each with a remedy; empty if there are none.
    pub warnings: Vec<String>,
}

/// Settings that endanger acknowledged data: the name, the dangerous value, and the remedy.
const DANGEROUS: [(&str, &str, &str); 4] = [
    ("data_checksums", "off", "damage on disk goes unnoticed: stop the server and run `pg_checksums --enable`"),
    ("fsync", "off", "a power failure can lose or destroy everything: set `fsync = on`"),
    ("full_page_writes", "off", "a power failure can damage pages: set `full_page_writes = on`"),
    ("synchronous_commit", "off", "a crash can lose records that were acknowledged: set `synchronous_commit = on`"),
];

impl PgLog {
    /// Queries the configuration of the server.
    pub fn health(&self) -> Result<Health, Error> {
        let names: Vec<String> = DANGEROUS.iter().map(|(name, _, _)| (*name).to_owned()).collect();
        let settings: Vec<(String, String)> = self.query(
            "SELECT name, current_setting(name) FROM unnest($1::text[]) AS s (name)".to_owned(),
            vec![Box::new(names)],
            |row| Ok((row.get(0), row.get(1))),
        )?;
        let mut warnings: Vec<String> = DANGEROUS
            .iter()
            .filter(|(name, bad, _)| settings.iter().any(|(found, value)| found == name && value == bad))
            .map(|(name, bad, advice)| format!("{name} is {bad}: {advice}"))
            .collect();
        if self.is_behind_transaction_pooler()? {
            warnings.push(
                "the connection goes through a transaction pooler, which breaks LISTEN and prepared statements: \
                 connect to the server directly or use session pooling"
                    .to_owned(),
            );
        }
        let about = self.query(
            "SELECT current_setting('server_version'), session_user::text, \
             coalesce((SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()), false)"
                .to_owned(),
            Vec::new(),
            |row| Ok((row.get(0), row.get(1), row.get(2))),
        )?;
        let (version, role, encrypted) = about.into_iter().next().unwrap_or_default();
        Ok(Health { version, role, encrypted, warnings })
    }

    /// Returns whether one of our connections reaches different server processes: with a transaction pooler, a second
    /// connection takes the process that the first one used.
    fn is_behind_transaction_pooler(&self) -> Result<bool, Error> {
        let server = std::sync::Arc::clone(&self.server);
        let pool_size = self.server.config.pool_size;
        self.server.call_in_background(move |first| {
            let server = std::sync::Arc::clone(&server);
            Box::pin(async move {
                if pool_size < 2 {
                    return Ok(false);
                }
                let second = server.lease().await?;
                let pid = async |client: &super::connect::Lease| -> Result<i32, Failure> {
                    let rows = client.simple_query("SELECT pg_backend_pid()").await?;
                    let pid = rows.iter().find_map(|message| match message {
                        tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0).and_then(|pid| pid.parse().ok()),
                        _ => None,
                    });
                    Ok(pid.unwrap_or(0))
                };
                let before = pid(first).await?;
                second.batch_execute("BEGIN").await?;
                let taken = pid(&second).await?;
                let after = pid(first).await?;
                second.batch_execute("ROLLBACK").await?;
                second.done();
                Ok(before != after || before == taken)
            })
        })
    }
}
