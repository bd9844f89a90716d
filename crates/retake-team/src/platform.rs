//! What differs between operating systems, as far as this crate is concerned. No other file here asks which system it is
//! compiled for.

use std::net::IpAddr;
use std::path::Path;

use tokio_postgres::config::Host;

/// Returns the name of a database host as people write it: a host, or the directory of a socket.
pub(crate) fn host_name(host: &Host) -> String {
    match host {
        Host::Tcp(name) => name.clone(),
        #[cfg(unix)]
        Host::Unix(path) => path.display().to_string(),
    }
}

/// Returns whether a host is this machine: by name, by address, or through a socket.
pub(crate) fn is_local(host: &Host) -> bool {
    match host {
        Host::Tcp(name) => name == "localhost" || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback()),
        #[cfg(unix)]
        Host::Unix(_) => true,
    }
}

/// Returns whether other users of the machine may read a file. On Windows it is not checked.
#[cfg(unix)]
pub(crate) fn is_readable_by_others(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o077 != 0)
}

#[cfg(windows)]
pub(crate) fn is_readable_by_others(_: &Path) -> bool {
    false
}
