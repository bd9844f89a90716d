//! The URL of a team workspace, completed from the environment and from files of PostgreSQL's own clients.
//!
//! `postgres://role@host1:5432,host2:5432/database?target_session_attrs=read-write&schema=retake`. Secrets never appear
//! in `Debug`, `Display` or errors.

use std::env;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use tokio_postgres::config::{SslMode, TargetSessionAttrs};

use super::Error;
use super::passwords::{password_file, password_in, service};
use super::platform::{host_name, is_local};

/// The default schema.
const DEFAULT_SCHEMA: &str = "retake";
/// The default maximum number of connections of a process, besides the one that listens.
const DEFAULT_POOL_SIZE: usize = 8;
/// The default time for which a call is retried.
const DEFAULT_CALL_TIMEOUT: Duration = Duration::from_secs(60);
/// The default timeout of one attempt, including the server's work.
const DEFAULT_ATTEMPT_TIMEOUT: Duration = Duration::from_secs(10);

/// How connections are encrypted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TlsMode {
    /// Not encrypted: on loopback and Unix sockets, or because the URL says `sslmode=disable`.
    Plaintext,
    /// TLS with a verified certificate and host name, using the authorities in this file or the system's.
    Verified(Option<PathBuf>),
}

/// The address of a team workspace, and how to connect to it.
#[derive(Clone)]
pub struct Config {
    pub(crate) postgres: tokio_postgres::Config,
    pub(crate) schema: String,
    pub(crate) tls: TlsMode,
    /// The maximum number of connections in the pool.
    pub pool_size: usize,
    /// How long a call is retried before it fails.
    pub call_timeout: Duration,
    /// The timeout of one attempt.
    pub attempt_timeout: Duration,
}

impl Config {
    /// Returns whether a text is the URL of a team workspace rather than a directory.
    pub fn is_url(text: &str) -> bool {
        text.starts_with("postgres://") || text.starts_with("postgresql://")
    }

    /// Returns the hosts and ports, without credentials.
    pub fn server(&self) -> String {
        let ports = self.postgres.get_ports();
        let port = |at: usize| ports.get(at).or(ports.first()).copied().unwrap_or(5432);
        let hosts = self.postgres.get_hosts().iter().enumerate();
        hosts.map(|(at, host)| format!("{}:{}", host_name(host), port(at))).collect::<Vec<_>>().join(",")
    }

    /// Returns the name of the database.
    pub fn database(&self) -> &str {
        self.postgres.get_dbname().unwrap_or_default()
    }

    /// Returns the schema that holds the workspace.
    pub fn schema(&self) -> &str {
        &self.schema
    }

    /// Returns how connections are encrypted.
    pub fn tls(&self) -> &TlsMode {
        &self.tls
    }
}

impl FromStr for Config {
    type Err = Error;

    fn from_str(url: &str) -> Result<Config, Error> {
        if !Config::is_url(url) {
            return Err(Error::Config("expected postgres://HOST/DATABASE".to_owned()));
        }
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        let mut own = Own::default();
        let mut passed_on = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = percent_decode_str(value).decode_utf8_lossy().into_owned();
            if !own.take(key, &value)? {
                passed_on.push(pair);
            }
        }
        let base = if passed_on.is_empty() { base.to_owned() } else { format!("{base}?{}", passed_on.join("&")) };
        // The parser's messages may quote the URL, so they are not passed on.
        let mut postgres = tokio_postgres::Config::from_str(&base)
            .map_err(|_| Error::Config("the URL or one of its parameters cannot be understood".to_owned()))?;
        complete(&mut postgres, &mut own)?;
        let local = postgres.get_hosts().iter().all(is_local);
        let tls = match own.sslmode.as_deref() {
            Some("disable") => TlsMode::Plaintext,
            None if local => TlsMode::Plaintext,
            None | Some("require" | "verify-ca" | "verify-full") => TlsMode::Verified(own.sslrootcert),
            Some(other) => {
                return Err(Error::Config(format!(
                    "sslmode={other} may fall back to plaintext: use verify-full or disable"
                )));
            }
        };
        postgres.ssl_mode(if tls == TlsMode::Plaintext { SslMode::Disable } else { SslMode::Require });
        if postgres.get_target_session_attrs() == TargetSessionAttrs::Any {
            // A standby cannot append; after a failover, the other host can.
            postgres.target_session_attrs(TargetSessionAttrs::ReadWrite);
        }
        if postgres.get_connect_timeout().is_none() {
            postgres.connect_timeout(Duration::from_secs(3));
        }
        // Detect within seconds a peer that vanished without closing the connection.
        postgres.keepalives_idle(Duration::from_secs(5));
        postgres.keepalives_interval(Duration::from_secs(2));
        postgres.keepalives_retries(3);
        postgres.tcp_user_timeout(Duration::from_secs(10));
        if postgres.get_application_name().is_none() {
            postgres.application_name("retake");
        }
        Ok(Config {
            postgres,
            schema: own.schema.unwrap_or_else(|| DEFAULT_SCHEMA.to_owned()),
            tls,
            pool_size: own.pool_size.unwrap_or(DEFAULT_POOL_SIZE),
            call_timeout: own.call_timeout.unwrap_or(DEFAULT_CALL_TIMEOUT),
            attempt_timeout: own.attempt_timeout.unwrap_or(DEFAULT_ATTEMPT_TIMEOUT),
        })
    }
}

impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let user = self.postgres.get_user().unwrap_or("?");
        write!(f, "postgres://{user}@{}/{}", self.server(), self.postgres.get_dbname().unwrap_or("?"))?;
        if self.schema == DEFAULT_SCHEMA { Ok(()) } else { write!(f, "?schema={}", self.schema) }
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Config({self})")
    }
}

/// The URL parameters that the PostgreSQL client does not know.
#[derive(Default)]
struct Own {
    sslmode: Option<String>,
    sslrootcert: Option<PathBuf>,
    schema: Option<String>,
    service: Option<String>,
    passfile: Option<String>,
    pool_size: Option<usize>,
    call_timeout: Option<Duration>,
    attempt_timeout: Option<Duration>,
}

impl Own {
    /// Handles a parameter; `false` if it is one for the client.
    fn take(&mut self, key: &str, value: &str) -> Result<bool, Error> {
        let seconds = || match value.parse::<f64>() {
            Ok(seconds) if (0.1..=3600.0).contains(&seconds) => Ok(Some(Duration::from_secs_f64(seconds))),
            _ => Err(Error::Config(format!("{key}={value}: expected 0.1 to 3600 seconds"))),
        };
        match key {
            "sslmode" => self.sslmode = Some(value.to_owned()),
            "sslrootcert" => self.sslrootcert = Some(value.into()),
            "service" => self.service = Some(value.to_owned()),
            "passfile" => self.passfile = Some(value.to_owned()),
            "schema" if is_identifier(value) => self.schema = Some(value.to_owned()),
            "schema" => {
                return Err(Error::Config(format!(
                    "schema={value}: expected lower-case letters, digits and underscores"
                )));
            }
            "pool_size" => match value.parse() {
                Ok(size @ 1..=200) => self.pool_size = Some(size),
                _ => return Err(Error::Config(format!("pool_size={value}: expected 1 to 200"))),
            },
            "call_timeout" => self.call_timeout = seconds()?,
            "attempt_timeout" => self.attempt_timeout = seconds()?,
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// Completes the configuration from the service file, environment variables and the password file.
fn complete(postgres: &mut tokio_postgres::Config, own: &mut Own) -> Result<(), Error> {
    let variable = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
    let has_host = !postgres.get_hosts().is_empty();
    let named = own.service.clone().or_else(|| variable("PGSERVICE").filter(|_| !has_host));
    if let Some(name) = named {
        for (key, value) in service(&name)? {
            match key.as_str() {
                "host" if !has_host => {
                    for host in value.split(',') {
                        postgres.host(host);
                    }
                }
                "port" if !has_host => {
                    for port in value.split(',') {
                        let port = port.parse().map_err(|_| Error::Config(format!("service {name}: bad port")))?;
                        postgres.port(port);
                    }
                }
                "dbname" if postgres.get_dbname().is_none() => {
                    postgres.dbname(&value);
                }
                "user" if postgres.get_user().is_none() => {
                    postgres.user(&value);
                }
                "password" if postgres.get_password().is_none() => {
                    postgres.password(&value);
                }
                "sslmode" | "sslrootcert" | "schema" | "passfile" => {
                    let unset = match key.as_str() {
                        "sslmode" => own.sslmode.is_none(),
                        "sslrootcert" => own.sslrootcert.is_none(),
                        "schema" => own.schema.is_none(),
                        _ => own.passfile.is_none(),
                    };
                    if unset {
                        own.take(&key, &value)?;
                    }
                }
                _ => {}
            }
        }
    }
    if own.sslmode.is_none() {
        own.sslmode = variable("PGSSLMODE");
    }
    if own.sslrootcert.is_none() {
        own.sslrootcert = variable("PGSSLROOTCERT").map(PathBuf::from);
    }
    if postgres.get_hosts().is_empty() {
        postgres.host(variable("PGHOST").unwrap_or_else(|| "localhost".to_owned()));
        if let Some(port) = variable("PGPORT").and_then(|port| port.parse().ok()) {
            postgres.port(port);
        }
    }
    if postgres.get_user().is_none() {
        let user = variable("PGUSER").or_else(|| variable("USER")).or_else(|| variable("USERNAME"));
        postgres.user(user.ok_or_else(|| Error::Config("no role: put one in the URL or PGUSER".to_owned()))?);
    }
    let user = postgres.get_user().unwrap_or_default().to_owned();
    if postgres.get_dbname().is_none() {
        postgres.dbname(variable("PGDATABASE").unwrap_or_else(|| user.clone()));
    }
    if postgres.get_password().is_none() {
        if let Some(password) = variable("PGPASSWORD") {
            postgres.password(password);
        } else if let Some(text) = password_file(own.passfile.as_deref())? {
            let host = postgres.get_hosts().first().map(host_name).unwrap_or_default();
            let port = postgres.get_ports().first().copied().unwrap_or(5432);
            let database = postgres.get_dbname().unwrap_or_default().to_owned();
            if let Some(password) = password_in(&text, &host, port, &database, &user) {
                postgres.password(password);
            }
        }
    }
    Ok(())
}

/// Returns whether a name needs no quoting, since it is inserted into SQL as it is.
fn is_identifier(name: &str) -> bool {
    let starts_well = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
    let rest = name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    starts_well && rest && name.len() <= 63 && !name.starts_with("pg_")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<Config, Error> {
        url.parse()
    }

    #[test]
    fn secrets_never_show() {
        let config = parse("postgres://ada:hunter2@db.example:6000/studio?schema=film").unwrap();
        assert_eq!(config.to_string(), "postgres://ada@db.example:6000/studio?schema=film");
        assert!(!format!("{config:?}").contains("hunter2"));
        for bad in ["postgres://ada:hunter2@db.example:99999999/x", "postgres://ada:hunter2@h/db?sslmode=prefer"] {
            let error = parse(bad).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
        }
    }

    #[test]
    fn tls_is_required_beyond_this_machine() {
        let tls = |url: &str| parse(url).unwrap().tls;
        assert_eq!(tls("postgres://a@db.example/x"), TlsMode::Verified(None));
        assert_eq!(tls("postgres://a@db.example/x?sslmode=require"), TlsMode::Verified(None));
        assert_eq!(tls("postgres://a@127.0.0.1,db.example/x"), TlsMode::Verified(None));
        assert_eq!(tls("postgres://a@127.0.0.1,[::1],localhost/x"), TlsMode::Plaintext);
        assert_eq!(tls("postgres://a@db.example/x?sslmode=disable"), TlsMode::Plaintext);
        assert_eq!(
            tls("postgres://a@db.example/x?sslrootcert=%2Fetc%2Fca.pem"),
            TlsMode::Verified(Some("/etc/ca.pem".into()))
        );
        assert!(parse("postgres://a@db.example/x?sslmode=prefer").is_err());
    }

    #[test]
    fn of_several_hosts_the_writable_one_is_used() {
        let config = parse("postgresql://a@one:1,two:2/x").unwrap();
        assert_eq!(config.server(), "one:1,two:2");
        assert_eq!(config.postgres.get_target_session_attrs(), TargetSessionAttrs::ReadWrite);
    }

    #[test]
    fn a_schema_is_a_plain_name() {
        assert!(parse("postgres://a@h/x?schema=film_2").is_ok());
        for bad in ["Film", "film-2", "2film", "pg_catalog", "a;drop", ""] {
            assert!(parse(&format!("postgres://a@h/x?schema={bad}")).is_err(), "{bad}");
        }
    }
}
