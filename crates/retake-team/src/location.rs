//! The location of a team's images: a bucket with an optional prefix, or a directory mounted on every machine.

use std::env;
use std::fmt;
use std::fs;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use object_store::aws::{AmazonS3, AmazonS3Builder, S3ConditionalPut};
use object_store::{BackoffConfig, ClientOptions, RetryConfig};

use super::Error;

/// The location of images.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageLocation {
    /// `s3://bucket/prefix`.
    S3 {
        /// The bucket.
        bucket: String,
        /// The prefix of keys; empty, or without a slash at either end.
        prefix: String,
    },
    /// `file:///directory`.
    Directory(PathBuf),
}

impl FromStr for ImageLocation {
    type Err = Error;

    fn from_str(text: &str) -> Result<ImageLocation, Error> {
        let wrong = |problem: &str| Error::Config(format!("image location \"{text}\": {problem}"));
        if let Some(rest) = text.strip_prefix("s3://") {
            let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
            let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
            if bucket.is_empty() || !bucket.chars().all(plain) {
                return Err(wrong("expected s3://BUCKET/PREFIX"));
            }
            let prefix = prefix.trim_matches('/');
            if prefix.split('/').any(|part| part == "." || part == "..") || prefix.contains(['?', '#', '\\']) {
                return Err(wrong("the prefix contains characters that are not allowed"));
            }
            return Ok(ImageLocation::S3 { bucket: bucket.to_owned(), prefix: prefix.to_owned() });
        }
        match text.strip_prefix("file://").map(PathBuf::from) {
            Some(path) if path.is_absolute() => Ok(ImageLocation::Directory(path)),
            _ => Err(wrong("expected s3://BUCKET/PREFIX or file:///DIRECTORY")),
        }
    }
}

impl fmt::Display for ImageLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ImageLocation::S3 { bucket, prefix } if prefix.is_empty() => write!(f, "s3://{bucket}"),
            ImageLocation::S3 { bucket, prefix } => write!(f, "s3://{bucket}/{prefix}"),
            ImageLocation::Directory(path) => write!(f, "file://{}", path.display()),
        }
    }
}

/// Creates the client for a bucket, with credentials from the standard AWS variables or a profile.
pub(crate) fn s3_client(bucket: &str, timeout: Duration) -> Result<AmazonS3, Error> {
    // The HTTP client uses the process's default provider; a second installation has no effect.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let retry = RetryConfig {
        backoff: BackoffConfig {
            init_backoff: Duration::from_millis(50),
            max_backoff: Duration::from_secs(2),
            base: 2.0,
        },
        max_retries: 20,
        retry_timeout: timeout,
    };
    let options = ClientOptions::new().with_connect_timeout(Duration::from_secs(5)).with_timeout(timeout);
    let mut builder = AmazonS3Builder::from_env()
        .with_bucket_name(bucket)
        .with_client_options(options)
        .with_retry(retry)
        .with_conditional_put(S3ConditionalPut::ETagMatch);
    let profile = Profile::find();
    if env::var_os("AWS_ACCESS_KEY_ID").is_none()
        && let (Some(key), Some(secret)) = (profile.get("aws_access_key_id"), profile.get("aws_secret_access_key"))
    {
        builder = builder.with_access_key_id(key).with_secret_access_key(secret);
        if let Some(token) = profile.get("aws_session_token") {
            builder = builder.with_token(token);
        }
    }
    let set = |names: &[&str]| names.iter().any(|name| env::var_os(name).is_some());
    if !set(&["AWS_REGION", "AWS_DEFAULT_REGION"])
        && let Some(region) = profile.get("region")
    {
        builder = builder.with_region(region);
    }
    let endpoint = ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"];
    let endpoint = endpoint.iter().find_map(|name| env::var(name).ok()).or_else(|| profile.get("endpoint_url"));
    if let Some(endpoint) = endpoint {
        // Plain HTTP is only for servers on this machine.
        builder = builder.with_allow_http(is_loopback(&endpoint)).with_endpoint(endpoint);
    }
    builder
        .build()
        .map_err(|_| Error::Config("the S3 settings in the environment are incomplete or invalid".to_owned()))
}

fn is_loopback(endpoint: &str) -> bool {
    let host = endpoint.strip_prefix("http://").unwrap_or_default();
    let host = host.split(['/', '?']).next().unwrap_or_default();
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name).trim_matches(['[', ']']);
    name == "localhost" || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// The settings of the chosen AWS profile, from the credentials file and the configuration file.
struct Profile(Vec<(String, String)>);

impl Profile {
    fn find() -> Profile {
        let name = env::var("AWS_PROFILE").unwrap_or_else(|_| "default".to_owned());
        let home = env::var_os("HOME").map(|home| PathBuf::from(home).join(".aws"));
        let file = |variable: &str, name: &str| {
            let path = env::var_os(variable).map(PathBuf::from).or_else(|| Some(home.as_ref()?.join(name)))?;
            fs::read_to_string(path).ok()
        };
        let credentials = file("AWS_SHARED_CREDENTIALS_FILE", "credentials").unwrap_or_default();
        let config = file("AWS_CONFIG_FILE", "config").unwrap_or_default();
        Profile::read(&name, &credentials, &config)
    }

    /// Reads a profile from the contents of the two files; the credentials file takes precedence.
    fn read(name: &str, credentials: &str, config: &str) -> Profile {
        let mut settings = section(credentials, name);
        let in_config = if name == "default" { name.to_owned() } else { format!("profile {name}") };
        settings.extend(section(config, &in_config));
        Profile(settings)
    }

    fn get(&self, key: &str) -> Option<String> {
        self.0.iter().find(|(known, _)| known == key).map(|(_, value)| value.clone())
    }
}

fn section(text: &str, name: &str) -> Vec<(String, String)> {
    super::passwords::section_in(text, name).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_are_buckets_or_absolute_directories() {
        for (text, shown) in [
            ("s3://studio", "s3://studio"),
            ("s3://studio/film/one/", "s3://studio/film/one"),
            ("file:///srv/images", "file:///srv/images"),
        ] {
            assert_eq!(text.parse::<ImageLocation>().unwrap().to_string(), shown);
        }
        for bad in ["s3://", "s3:///x", "s3://a b", "s3://a/../b", "file://relative", "/srv/images", "gs://x"] {
            assert!(bad.parse::<ImageLocation>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_profile_is_read_from_both_files() {
        let credentials =
            "[default]\naws_access_key_id = A\n\n[studio]\naws_access_key_id = S\naws_secret_access_key=x=y\n";
        let config =
            "[default]\nregion = eu-west-1\n[profile studio]\nregion = eu-north-1\naws_access_key_id = other\n";
        let studio = Profile::read("studio", credentials, config);
        assert_eq!(studio.get("aws_access_key_id").as_deref(), Some("S"));
        assert_eq!(studio.get("aws_secret_access_key").as_deref(), Some("x=y"));
        assert_eq!(studio.get("region").as_deref(), Some("eu-north-1"));
        assert_eq!(Profile::read("default", credentials, config).get("region").as_deref(), Some("eu-west-1"));
        assert_eq!(Profile::read("absent", credentials, config).get("region"), None);
    }

    #[test]
    fn plain_http_stays_on_this_machine() {
        assert!(is_loopback("http://127.0.0.1:8333"));
        assert!(is_loopback("http://[::1]:8333/x"));
        assert!(!is_loopback("http://storage.example:8333"));
        assert!(!is_loopback("http://127.0.0.1.example/"));
    }
}
