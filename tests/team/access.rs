//! Authentication of machines and servers: TLS, service files, password files, and the role in the trail.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use libtest_mimic::Trial;
use serde_json::Value;

use super::commands::{Machine, set_up};
use super::postgres_trial;
use super::servers::{Postgres, install, may_install, wait_until};

const PGBOUNCER: &str = "/usr/sbin/pgbouncer";

pub(crate) fn trials() -> Vec<Trial> {
    let openssl = Command::new("openssl").arg("version").output().is_ok_and(|output| output.status.success());
    let tls = postgres_trial("access::certificates_are_checked", certificates);
    let pooler = postgres_trial("access::a_transaction_pooler_is_named", transaction_pooler);
    let pgbouncer = Path::new(PGBOUNCER).exists() || may_install();
    vec![
        if pgbouncer { pooler } else { pooler.with_kind("needs the Debian package pgbouncer").with_ignored_flag(true) },
        if openssl { tls } else { tls.with_ignored_flag(true) },
        postgres_trial("access::service_and_password_files_are_used", files),
        postgres_trial("access::the_trail_names_the_role", role_in_trail),
        postgres_trial("access::dangerous_settings_are_named", dangerous_settings),
    ]
}

/// Runs openssl in a directory.
fn openssl(dir: &Path, arguments: &[&str]) {
    let output = Command::new("openssl").current_dir(dir).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Creates an authority, and a certificate signed by it for 127.0.0.1.
fn authority(dir: &Path, name: &str) -> PathBuf {
    let (ca, key) = (format!("{name}.pem"), format!("{name}.key"));
    let subject = format!("/CN={name}");
    let new = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", &subject];
    openssl(dir, &[&new[..], &["-keyout", &key, "-out", &ca]].concat());
    dir.join(ca)
}

fn certificates() {
    // Outside of root's home directory, which the server cannot access.
    let dir = tempfile::Builder::new().prefix("rt-tls").tempdir_in("/tmp").unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let ca = authority(dir.path(), "ca");
    let other = authority(dir.path(), "other");
    openssl(
        dir.path(),
        &["req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=db", "-keyout", "db.key", "-out", "db.csr"],
    );
    fs::write(dir.path().join("ext"), "subjectAltName=IP:127.0.0.1\nbasicConstraints=CA:FALSE\n").unwrap();
    let sign = ["x509", "-req", "-in", "db.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2"];
    openssl(dir.path(), &[&sign[..], &["-extfile", "ext", "-out", "db.pem"]].concat());
    let key = dir.path().join("db.key");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    // The server runs as another user if the tests run as root.
    let _ = Command::new("chown").arg("postgres").arg(&key).status();
    let at = |name: &str| dir.path().join(name).display().to_string();
    let settings = [
        "ssl = on".to_owned(),
        format!("ssl_cert_file = '{}'", at("db.pem")),
        format!("ssl_key_file = '{}'", at("db.key")),
    ];
    let server = Postgres::start(&settings.each_ref().map(String::as_str));
    let images = tempfile::tempdir().unwrap();
    let (_, url) = set_up(&server, &images.path().join("images"));
    let with = |more: String| Machine::new(&format!("{url}&{more}"));

    let plain = Machine::new(&url).json(&["team", "status", "--json"]);
    assert_eq!(plain["encrypted"], false, "the default on loopback: {plain}");
    let verified = with(format!("sslmode=verify-full&sslrootcert={}", ca.display()));
    assert_eq!(verified.json(&["team", "status", "--json"])["encrypted"], true);
    verified.ok(&["record", "over TLS"]);
    for (more, why) in [
        (format!("sslmode=verify-full&sslrootcert={}", other.display()), "another authority"),
        ("sslmode=verify-full".to_owned(), "the operating system does not know it"),
    ] {
        let refused = with(format!("{more}&call_timeout=2")).run(&["list"]);
        assert_eq!(refused.status, Some(1), "{why}: {}", refused.stdout);
        assert!(refused.stderr.contains("certificate"), "{why}: {}", refused.stderr);
        assert!(!refused.stderr.contains("hunter2"), "{}", refused.stderr);
    }
    let rejected = with("sslmode=prefer".to_owned()).run(&["list"]);
    assert!(rejected.stderr.contains("sslmode"), "{}", rejected.stderr);
}

fn files() {
    let server = Postgres::start(&[]);
    let images = tempfile::tempdir().unwrap();
    let (schema, _) = set_up(&server, &images.path().join("images"));
    let role = format!("app_{schema}");
    server.sql(&format!("ALTER ROLE {role} PASSWORD 'hunter2'")).unwrap();
    server.authenticate(&format!("host all {role} 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust\n"));
    wait_until("the role needs its password", || server.sql_as(&role, "SELECT 1").is_err());

    let machine = Machine::new("postgres://");
    let service =
        format!("[studio]\nhost=127.0.0.1\nport={}\ndbname=postgres\nuser={role}\nschema={schema}\n", server.port);
    machine.file("services.conf", service.as_bytes());
    let passwords = machine.file("passwords", format!("127.0.0.1:{}:*:{role}:hunter2\n", server.port).as_bytes());
    fs::set_permissions(&passwords, fs::Permissions::from_mode(0o600)).unwrap();
    let run = |arguments: &[&str]| {
        let mut command = machine.command(arguments);
        command.env("PGSERVICEFILE", machine.home().join("services.conf")).env("PGSERVICE", "studio");
        let output = command.env("PGPASSFILE", &passwords).output().unwrap();
        let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(!text.contains("hunter2"), "{text}");
        (output.status.code(), text)
    };
    let (status, text) = run(&["record", "through a service"]);
    assert_eq!(status, Some(0), "{text}");
    let (_, text) = run(&["team", "status", "--json"]);
    let shown: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(shown["role"], role.as_str());
    fs::set_permissions(&passwords, fs::Permissions::from_mode(0o644)).unwrap();
    let (status, text) = run(&["list"]);
    assert!(status != Some(0) && text.contains("readable by others"), "{text}");
    fs::set_permissions(&passwords, fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(&passwords, format!("127.0.0.1:{}:*:{role}:wrong\n", server.port)).unwrap();
    // The process that holds the connections has the old password; another machine has none.
    let other = Machine::new(&format!("postgres://{role}@127.0.0.1:{}/postgres?schema={schema}", server.port));
    let refused = other.command(&["list"]).env("PGPASSFILE", &passwords).output().unwrap();
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1), "{text}");
    assert!(text.contains("password") && !text.contains("wrong"), "{text}");
}

fn role_in_trail() {
    let server = Postgres::shared();
    let images = tempfile::tempdir().unwrap();
    let (schema, url) = set_up(server, &images.path().join("images"));
    let machine = Machine::new(&url);
    let recorded = machine.json(&["record", "a fox", "--json"]);
    let session = recorded["reference"].as_str().unwrap().split('#').next().unwrap().to_owned();
    let owner = Machine::new(&server.url(&schema));
    owner.ok(&["annotate", &format!("{session}#0"), "--rating", "5"]);
    let audit = machine.json(&["audit", &session, "--json"]);
    let roles: Vec<&str> = audit["events"].as_array().unwrap().iter().map(|it| it["role"].as_str().unwrap()).collect();
    let app = format!("app_{schema}");
    assert_eq!(roles, [app.as_str(), app.as_str(), "postgres"], "{audit}");
    let shown = machine.ok(&["audit", &session]);
    assert!(shown.contains(&format!("as {app}")) && shown.contains("as postgres"), "{shown}");
    assert!(!shown.contains("both copies"), "a team workspace has one copy: {shown}");
}

fn dangerous_settings() {
    let server = Postgres::start_with(&["fsync = off", "synchronous_commit = off"], &[]);
    let images = tempfile::tempdir().unwrap();
    let (_, url) = set_up(&server, &images.path().join("images"));
    let machine = Machine::new(&url);
    let status = machine.json(&["team", "status", "--json"]);
    let warnings = status["warnings"].to_string();
    for word in ["fsync is off", "synchronous_commit is off", "data_checksums is off"] {
        assert!(warnings.contains(word), "{word} in {warnings}");
        let doctor = machine.run(&["doctor"]);
        let doctor = format!("{}{}", doctor.stdout, doctor.stderr);
        assert!(doctor.contains(word), "{word} in {doctor}");
    }
}

/// A pooler that gives each transaction another server session.
struct Pooler {
    dir: PathBuf,
    child: std::process::Child,
    port: u16,
}

impl Pooler {
    fn start(server: &Postgres) -> Pooler {
        let port = super::servers::free_port();
        let dir = PathBuf::from(format!("/tmp/rt-pooler-{}", std::process::id()));
        fs::create_dir(&dir).unwrap();
        let config = format!(
            "[databases]\n* = host=127.0.0.1 port={}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n\
             unix_socket_dir =\nauth_type = any\npool_mode = transaction\n\
             ignore_startup_parameters = extra_float_digits,options\n",
            server.port
        )
        // `any` logs everyone in as the user configured for the database.
        .replace("port=", "user=postgres port=");
        fs::write(dir.join("pgbouncer.ini"), config).unwrap();
        // It refuses to run as root.
        let child = Command::new("runuser")
            .args(["-u", "postgres", "--", PGBOUNCER, "-q"])
            .arg(dir.join("pgbouncer.ini"))
            .current_dir("/tmp")
            .stderr(fs::File::create(dir.join("err")).unwrap())
            .spawn()
            .unwrap();
        let pooler = Pooler { dir, child, port };
        wait_until("the pooler listens", || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
        pooler
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        // runuser forwards the signal.
        let _ = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.dir);
    }
}

fn transaction_pooler() {
    install(Path::new(PGBOUNCER), "pgbouncer");
    let server = Postgres::shared();
    let images = tempfile::tempdir().unwrap();
    let (_, url) = set_up(server, &images.path().join("images"));
    let pooler = Pooler::start(server);
    let machine = Machine::new(&url.replace(&format!(":{}", server.port), &format!(":{}", pooler.port)));
    // Whether a prepared statement happens to survive decides between a warning and an error; both mention the pooler.
    let status = machine.run(&["team", "status"]);
    let shown = format!("{}{}", status.stdout, status.stderr);
    assert!(shown.contains("transaction pooler"), "{shown}");
    assert!(shown.contains("session pooling"), "{shown}");
}
