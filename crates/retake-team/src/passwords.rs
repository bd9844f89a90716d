//! Credentials from the standard locations of PostgreSQL's own clients: the password file and the service file.

use std::env;
use std::fs;
use std::path::PathBuf;

use super::Error;
use super::platform::is_readable_by_others;

/// Finds the password for one server in the contents of a password file (`host:port:database:user:password`).
pub(crate) fn password_in(text: &str, host: &str, port: u16, database: &str, user: &str) -> Option<String> {
    let port = port.to_string();
    text.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
        let fields = fields(line);
        let [line_host, line_port, line_database, line_user, password] = fields.as_slice() else { return None };
        let fits = [(line_host, host), (line_port, port.as_str()), (line_database, database), (line_user, user)]
            .iter()
            .all(|(pattern, value)| *pattern == "*" || pattern == value);
        fits.then(|| password.clone())
    })
}

/// Reads the password file named by the URL or `PGPASSFILE`, or the one in the home directory.
pub(crate) fn password_file(named: Option<&str>) -> Result<Option<String>, Error> {
    let explicit = named.map(PathBuf::from).or_else(|| env::var_os("PGPASSFILE").map(PathBuf::from));
    let path = match (&explicit, env::var_os("HOME")) {
        (Some(path), _) => path.clone(),
        (None, Some(home)) => PathBuf::from(home).join(".pgpass"),
        (None, None) => return Ok(None),
    };
    match fs::read_to_string(&path) {
        Ok(text) => {
            if is_readable_by_others(&path) {
                return Err(Error::Config(format!(
                    "password file {} is readable by others: run `chmod 600` on it",
                    path.display()
                )));
            }
            Ok(Some(text))
        }
        Err(error) if explicit.is_some() => {
            Err(Error::Config(format!("password file {} cannot be read: {error}", path.display())))
        }
        Err(_) => Ok(None),
    }
}

/// Returns the settings of one service from the service files (`PGSERVICEFILE`, `~/.pg_service.conf`, `PGSYSCONFDIR`).
pub(crate) fn service(name: &str) -> Result<Vec<(String, String)>, Error> {
    let home = env::var_os("HOME").map(|home| PathBuf::from(home).join(".pg_service.conf"));
    let system = env::var_os("PGSYSCONFDIR").map(|dir| PathBuf::from(dir).join("pg_service.conf"));
    let user = env::var_os("PGSERVICEFILE").map(PathBuf::from).or(home);
    for path in [user, system].into_iter().flatten() {
        if let Ok(text) = fs::read_to_string(&path)
            && let Some(found) = section_in(&text, name)
        {
            return Ok(found);
        }
    }
    Err(Error::Config(format!("service \"{name}\" is not defined in PGSERVICEFILE or ~/.pg_service.conf")))
}

/// Returns the settings of one section of an INI file.
pub(crate) fn section_in(text: &str, name: &str) -> Option<Vec<(String, String)>> {
    let mut found = None;
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(section) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            if found.is_some() {
                break;
            }
            found = (section == name).then(Vec::new);
        } else if let (Some(found), Some((key, value))) = (&mut found, line.split_once('=')) {
            found.push((key.trim().to_owned(), value.trim().to_owned()));
        }
    }
    found
}

/// Splits a line of a password file at colons that are not escaped.
fn fields(line: &str) -> Vec<String> {
    let (mut fields, mut field) = (Vec::new(), String::new());
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match character {
            ':' if fields.len() < 4 => fields.push(std::mem::take(&mut field)),
            '\\' => field.extend(characters.next()),
            other => field.push(other),
        }
    }
    fields.push(field);
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_matching_line_has_the_password() {
        let file = "# comment\ndb.example:5432:other:ada:wrong\n*:5432:retake:ada:col\\:on\\\\\n*:*:*:*:rest\n";
        assert_eq!(password_in(file, "db.example", 5432, "retake", "ada").as_deref(), Some("col:on\\"));
        assert_eq!(password_in(file, "db.example", 5433, "retake", "ada").as_deref(), Some("rest"));
        assert_eq!(password_in("a:1:b:c\n", "a", 1, "b", "c"), None);
    }

    #[test]
    fn a_service_is_one_section_of_the_file() {
        let file = "[a]\nhost=one\n\n[b]\n# note\nhost = two\nport=6000\n[c]\nhost=three\n";
        let expected = vec![("host".to_owned(), "two".to_owned()), ("port".to_owned(), "6000".to_owned())];
        assert_eq!(section_in(file, "b"), Some(expected));
        assert_eq!(section_in(file, "d"), None);
    }
}
