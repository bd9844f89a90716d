//! TLS with verification of certificate and host name. Unverified encryption is deliberately not supported.

use std::path::Path;
use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use tokio_postgres_rustls::MakeRustlsConnect;

use super::Error;

/// Creates the connector for servers whose certificate is signed by an authority in `authorities`, or by one that the
/// operating system trusts.
pub(crate) fn connector(authorities: Option<&Path>) -> Result<MakeRustlsConnect, Error> {
    let mut roots = RootCertStore::empty();
    match authorities {
        Some(path) => {
            let unreadable =
                |problem: String| Error::Config(format!("sslrootcert {} cannot be used: {problem}", path.display()));
            let certificates = CertificateDer::pem_file_iter(path).map_err(|error| unreadable(error.to_string()))?;
            for certificate in certificates {
                let certificate = certificate.map_err(|error| unreadable(error.to_string()))?;
                roots.add(certificate).map_err(|error| unreadable(error.to_string()))?;
            }
            if roots.is_empty() {
                return Err(unreadable("it contains no certificate".to_owned()));
            }
        }
        None => {
            let found = rustls_native_certs::load_native_certs();
            roots.add_parsable_certificates(found.certs);
            if roots.is_empty() {
                return Err(Error::Config(
                    "the operating system lists no certificate authorities: name a file with sslrootcert".to_owned(),
                ));
            }
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::Config(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}
