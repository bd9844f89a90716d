//! Fetches images from hosts that the user allowed: without credentials or redirects, with limits on time and size, and
//! only if the response is an image.

use std::io;
use std::time::Duration;

use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Bytes;
use hyper::{Request, Uri};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tokio::runtime::Runtime;

use crate::images::{Header, UNKNOWN_TYPE};

/// The timeout for one image.
const FETCH_TIMEOUT: Duration = Duration::from_secs(30);
/// The maximum size of a fetched image.
const MAX_FETCHED_BYTES: usize = 64 * 1024 * 1024;

/// Fetches images from allowed hosts.
pub(crate) struct Fetcher {
    hosts: Vec<String>,
    runtime: Runtime,
    client: Client<HttpsConnector<HttpConnector>, Empty<Bytes>>,
}

impl Fetcher {
    /// Creates a fetcher for these hosts, each `HOST` or `HOST:PORT`; `None` if there are none.
    pub(crate) fn new(hosts: Vec<String>) -> io::Result<Option<Fetcher>> {
        if hosts.is_empty() {
            return Ok(None);
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let connector = HttpsConnectorBuilder::new().with_webpki_roots().https_or_http().enable_http1().build();
        let client = Client::builder(TokioExecutor::new()).build(connector);
        Ok(Some(Fetcher { hosts, runtime, client }))
    }

    /// Fetches the image at a URL, if its host is allowed.
    pub(crate) fn image(&self, address: &str) -> Option<Vec<u8>> {
        let uri: Uri = address.parse().ok()?;
        if !self.is_allowed(&uri) {
            return None;
        }
        let fetched = self.runtime.block_on(async { tokio::time::timeout(FETCH_TIMEOUT, self.get(uri)).await });
        let bytes = fetched.inspect_err(|_| tracing::warn!(address, "an image took too long to fetch")).ok()??;
        (Header::of(&bytes).mime_type != UNKNOWN_TYPE).then_some(bytes)
    }

    fn is_allowed(&self, uri: &Uri) -> bool {
        let Some(authority) = uri.authority() else { return false };
        // A URL with a user name can be made to look like another host.
        let host = authority.host();
        let is_plain = !authority.as_str().contains('@');
        let is_meant =
            |allowed: &String| allowed.eq_ignore_ascii_case(host) || allowed.eq_ignore_ascii_case(authority.as_str());
        is_plain && self.hosts.iter().any(is_meant)
    }

    async fn get(&self, uri: Uri) -> Option<Vec<u8>> {
        let request = Request::get(uri).body(Empty::new()).ok()?;
        let response = self.client.request(request).await.ok().filter(|response| response.status().is_success())?;
        let body = Limited::new(response.into_body(), MAX_FETCHED_BYTES).collect().await.ok()?;
        Some(body.to_bytes().to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_allowed_hosts_count() {
        let hosts = ["cdn.example", "127.0.0.1:8188"].map(str::to_owned).to_vec();
        let fetcher = Fetcher::new(hosts).unwrap().unwrap();
        let allowed = |address: &str| fetcher.is_allowed(&address.parse().unwrap());
        assert!(allowed("https://CDN.example/a.png"));
        assert!(allowed("http://127.0.0.1:8188/view?x=1"));
        for address in
            ["http://127.0.0.1:8189/", "https://evil.example/", "https://cdn.example@evil.example/", "/a.png"]
        {
            assert!(!allowed(address), "{address}");
        }
        assert!(Fetcher::new(Vec::new()).unwrap().is_none());
    }
}
