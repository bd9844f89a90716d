//! The user that this process runs as.

/// Returns the user's name according to the system, or else the user id. Containers, cron and systemd start programs
/// without `USER`. `None` on Windows, which always sets `USERNAME`.
#[cfg(unix)]
pub(crate) fn user_name() -> Option<String> {
    use std::os::unix::fs::MetadataExt;

    let Ok(process) = std::fs::metadata("/proc/self") else {
        // Only Linux has /proc; this command is in POSIX.
        let output = std::process::Command::new("id").arg("-un").output().ok()?;
        let name = String::from_utf8(output.stdout).ok()?.trim().to_owned();
        return Some(name).filter(|name| !name.is_empty());
    };
    let uid = process.uid();
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    Some(name_of(uid, &users).unwrap_or_else(|| format!("uid {uid}")))
}

#[cfg(windows)]
pub(crate) fn user_name() -> Option<String> {
    None
}

/// Returns the name of a user in the contents of `/etc/passwd`.
#[cfg(unix)]
fn name_of(uid: u32, users: &str) -> Option<String> {
    let uid = uid.to_string();
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next().filter(|name| !name.is_empty())?;
        (fields.nth(1) == Some(uid.as_str())).then(|| name.to_owned())
    })
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_found_by_number() {
        let users = "root:x:0:0:root:/root:/bin/sh\nada:x:1000:1000::/home/ada:/bin/sh\n";
        assert_eq!(name_of(1000, users).as_deref(), Some("ada"));
        assert_eq!(name_of(7, users), None);
        assert!(!user_name().unwrap().is_empty());
    }
}
