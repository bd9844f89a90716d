//! Everything in this crate that depends on the operating system. No other module checks the target.

use std::net::IpAddr;
use std::path::Path;

use tokio_postgres::config::Host;

/// Returns the display name of a database host: a host name, or the directory of a socket.
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

/// Returns whether other users of the machine may read a file. Not checked on Windows.
#[cfg(unix)]
pub(crate) fn is_readable_by_others(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o077 != 0)
}

#[cfg(windows)]
pub(crate) fn is_readable_by_others(_: &Path) -> bool {
    false
}
