//! Starts and stops the servers that the tests use.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use retake_team::{Config, PgLog};

const BINARIES: &str = "/usr/lib/postgresql/15/bin";
pub(crate) const HOW_TO_GET_POSTGRES: &str =
    "needs PostgreSQL 15: apt-get install postgresql, or RETAKE_TEST_INSTALL=1";

/// The server shared by most tests, each in its own schema.
static SHARED: OnceLock<Postgres> = OnceLock::new();
static RUNNING: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
static NEXT: AtomicU32 = AtomicU32::new(0);

/// Returns whether PostgreSQL is neither installed nor may be installed.
pub(crate) fn postgres_missing() -> bool {
    !Path::new(BINARIES).join("postgres").exists() && !may_install()
}

/// Returns whether the tests may install servers.
pub(crate) fn may_install() -> bool {
    std::env::var("RETAKE_TEST_INSTALL").is_ok_and(|value| value == "1")
}

/// Installs a Debian package unless its program exists. Tests that run at the same time wait for each other.
pub(crate) fn install(program: &Path, package: &str) {
    static INSTALLING: Mutex<()> = Mutex::new(());
    let _installing = INSTALLING.lock().unwrap_or_else(PoisonError::into_inner);
    if !program.exists() {
        let arguments = ["-o", "DPkg::Lock::Timeout=300", "install", "-y", package];
        let installed = Command::new("apt-get").args(arguments).output().unwrap();
        assert!(installed.status.success(), "{}", String::from_utf8_lossy(&installed.stderr));
    }
}

/// A PostgreSQL server in its own directory.
pub(crate) struct Postgres {
    dir: PathBuf,
    pub(crate) port: u16,
}

impl Postgres {
    pub(crate) fn shared() -> &'static Postgres {
        SHARED.get_or_init(|| Postgres::start(&[]))
    }

    /// Creates a cluster and starts it with these additional settings.
    pub(crate) fn start(settings: &[&str]) -> Postgres {
        Postgres::start_with(settings, &["--data-checksums"])
    }

    pub(crate) fn start_with(settings: &[&str], initdb: &[&str]) -> Postgres {
        install(&Path::new(BINARIES).join("postgres"), "postgresql");
        // Short, since the path of a Unix socket is limited to 107 bytes.
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let dir = PathBuf::from(format!("/tmp/rt-pg-{}-{number}", std::process::id()));
        fs::create_dir(&dir).unwrap();
        if as_root() {
            assert!(Command::new("chown").arg("postgres").arg(&dir).status().unwrap().success());
        }
        let data = dir.join("data");
        let mut create = vec!["-D", data.to_str().unwrap(), "--auth=trust", "-U", "postgres", "--no-sync"];
        create.extend(initdb);
        run("initdb", &create);
        let server = Postgres { dir, port: free_port() };
        let mut conf = fs::read_to_string(data.join("postgresql.conf")).unwrap();
        conf.push_str(&format!(
            "\nlisten_addresses = '127.0.0.1'\nport = {}\nunix_socket_directories = '{}'\nmax_connections = 300\n",
            server.port,
            server.dir.display()
        ));
        settings.iter().for_each(|setting| conf.push_str(&format!("{setting}\n")));
        fs::write(data.join("postgresql.conf"), conf).unwrap();
        server.resume();
        RUNNING.lock().unwrap().push(server.dir.clone());
        server
    }

    /// Starts the server on the existing files.
    pub(crate) fn resume(&self) {
        let data = self.dir.join("data");
        let log = self.dir.join("log");
        run("pg_ctl", &["-D", data.to_str().unwrap(), "-l", log.to_str().unwrap(), "-w", "-t", "60", "start"]);
    }

    /// Kills the server and all its processes at once, as a crash would.
    pub(crate) fn crash(&self) {
        let data = self.dir.join("data");
        // `immediate` aborts without a checkpoint: the next start recovers from the write-ahead log.
        run("pg_ctl", &["-D", data.to_str().unwrap(), "-m", "immediate", "-w", "stop"]);
    }

    /// Kills the postmaster with SIGKILL; its children notice and end.
    pub(crate) fn kill(&self) {
        let pid = fs::read_to_string(self.dir.join("data/postmaster.pid")).unwrap();
        let pid = pid.lines().next().unwrap().to_owned();
        assert!(Command::new("kill").args(["-KILL", &pid]).status().unwrap().success());
        let gone = || !Path::new("/proc").join(&pid).exists();
        wait_until("the postmaster is gone", gone);
        // Its children hold the shared memory until they have noticed too.
        let data = self.dir.join("data").display().to_string();
        wait_until("its children are gone", || {
            let list = Command::new("ps").args(["-eo", "args"]).output().unwrap();
            let list = String::from_utf8_lossy(&list.stdout).into_owned();
            !list.lines().any(|line| line.contains(&data)) && !self.answers_on_socket()
        });
        let _ = fs::remove_file(self.dir.join("data/postmaster.pid"));
    }

    fn answers_on_socket(&self) -> bool {
        std::os::unix::net::UnixStream::connect(self.dir.join(format!(".s.PGSQL.{}", self.port))).is_ok()
    }

    /// Returns what the server has logged.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.dir.join("log")).unwrap()
    }

    pub(crate) fn url(&self, schema: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres?schema={schema}", self.port)
    }

    /// Replaces the authentication rules for TCP connections.
    pub(crate) fn authenticate(&self, rules: &str) {
        let rules = format!("local all all trust\n{rules}");
        fs::write(self.dir.join("data/pg_hba.conf"), rules).unwrap();
        self.sql("SELECT pg_reload_conf()").unwrap();
    }

    /// Returns a schema that no other test uses.
    pub(crate) fn fresh_schema(&self) -> String {
        format!("w{}", NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// Creates a workspace in a new schema, and returns its URL.
    pub(crate) fn workspace(&self) -> String {
        let url = self.url(&self.fresh_schema());
        PgLog::init(config(&url), "test-workspace", "file:///nowhere", None).unwrap();
        url
    }

    /// Runs SQL as the superuser, and returns the unaligned output.
    pub(crate) fn sql(&self, script: &str) -> Result<String, String> {
        self.sql_as("postgres", script)
    }

    /// Runs SQL that begins a transaction, which stays open until the result is dropped.
    pub(crate) fn hold(&self, script: &str) -> Holder {
        let mut child = Command::new(Path::new(BINARIES).join("psql"))
            .args(["-X", "-q", "-h", "127.0.0.1", "-p", &self.port.to_string(), "-U", "postgres", "-d", "postgres"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let script = format!("{script}; SELECT 'locked';\n");
        child.stdin.as_mut().unwrap().write_all(script.as_bytes()).unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        assert!(output.lines().map_while(Result::ok).any(|line| line.contains("locked")));
        Holder(child)
    }

    pub(crate) fn sql_as(&self, role: &str, script: &str) -> Result<String, String> {
        let output = Command::new(Path::new(BINARIES).join("psql"))
            .args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1", "-p", &self.port.to_string()])
            .args(["-U", role, "-d", "postgres", "-c", script])
            .output()
            .unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).trim().to_owned();
        if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
    }
}

/// A client that keeps a transaction open until it is dropped.
pub(crate) struct Holder(Child);

impl Drop for Holder {
    fn drop(&mut self) {
        // psql exits at the end of its input, which ends its transaction.
        drop(self.0.stdin.take());
        self.0.wait().unwrap();
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        stop(&self.dir);
    }
}

/// Stops what is still running, since statics are not dropped.
pub(crate) fn stop_all() {
    let running: Vec<PathBuf> = std::mem::take(&mut *RUNNING.lock().unwrap());
    running.iter().for_each(|dir| stop(dir));
}

fn stop(dir: &Path) {
    if dir.join("data/postmaster.pid").exists() {
        let data = dir.join("data");
        let mut command = as_postgres("pg_ctl");
        let _ = command.args(["-D", data.to_str().unwrap(), "-m", "immediate", "-w", "stop"]).output();
    }
    let _ = fs::remove_dir_all(dir);
}

/// Returns a configuration with short timeouts, so that failing tests fail quickly.
pub(crate) fn config(url: &str) -> Config {
    let mut config: Config = url.parse().unwrap();
    config.call_timeout = Duration::from_secs(30);
    config.attempt_timeout = Duration::from_secs(5);
    config
}

pub(crate) fn open(url: &str) -> PgLog {
    PgLog::open(config(url)).unwrap()
}

/// Waits until something holds; fails after two minutes.
pub(crate) fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < Duration::from_secs(120), "in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn as_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout.starts_with(b"0\n"))
}

/// Returns a command that runs as another user, since PostgreSQL refuses to run as root.
fn as_postgres(program: &str) -> Command {
    let program = Path::new(BINARIES).join(program);
    let mut command = if as_root() {
        let mut command = Command::new("runuser");
        command.args(["-u", "postgres", "--"]).arg(program);
        command
    } else {
        Command::new(program)
    };
    command.current_dir("/tmp").stdin(Stdio::null());
    command
}

fn run(program: &str, arguments: &[&str]) {
    // Not captured through a pipe: the server would inherit it, and the wait would never end.
    let errors = tempfile::NamedTempFile::new().unwrap();
    let status =
        as_postgres(program).args(arguments).stdout(Stdio::null()).stderr(errors.reopen().unwrap()).status().unwrap();
    assert!(status.success(), "{program} {arguments:?}: {}", fs::read_to_string(errors.path()).unwrap());
}
