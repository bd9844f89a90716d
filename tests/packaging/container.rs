//! The container image: built from its Containerfile with podman, run as a user would run it, and removed again.
//!
//! No image registry is needed. The base image is a build argument; here it only contains the C library of this
//! machine, which also shows that the image needs no shell. The binary under test replaces the build stage.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use retake_testutils::optional::may_install;
use serde_json::Value;

use super::{is_installed, succeed};

const TOKEN: &str = "0123456789abcdef0123";
/// The timeout for the server to respond, on a busy machine.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// Ways to start a container, the usual one first. Without the right to raise limits, podman's defaults are refused;
/// and crun refuses machines with both versions of cgroups, which runc accepts.
const WAYS: [&[&str]; 3] =
    [&["run"], &["run", LIMITS[0], LIMITS[1]], &["--runtime", "runc", "run", LIMITS[0], LIMITS[1]]];
const LIMITS: [&str; 2] = ["--ulimit=nofile=1024:1024", "--ulimit=nproc=4096:4096"];

/// Returns what prevents the test from running on this machine.
pub(crate) fn missing() -> Option<String> {
    if !is_installed("podman") && !may_install() {
        return Some("needs podman, or RETAKE_TEST_INSTALL=1".to_owned());
    }
    let is_root = Command::new("id").arg("-u").output().is_ok_and(|it| it.stdout == b"0\n");
    (!is_root).then(|| "needs root: rootless podman needs additional setup".to_owned())
}

pub(crate) fn the_image_serves_as_an_ordinary_user() {
    install();
    let image = Image::build();
    let way = image.way();

    let built = image.inspect();
    assert_eq!(built["Config"]["User"], "10001:10001");
    assert!(built["Config"]["Volumes"].get("/workspace").is_some(), "{built}");

    let mut run = Command::new("podman");
    run.args(way).args(["--detach", "--name", &image.name, "--publish", "127.0.0.1::7373"]);
    run.args([
        "--env",
        &format!("RETAKE_TOKEN={TOKEN}"),
        "--volume",
        &format!("{}:/workspace", image.name),
        &image.name,
    ]);
    succeed(&mut run);
    let address = text(&succeed(&mut podman(&["port", &image.name])));
    let address = address.trim().rsplit_once(" -> ").unwrap().1;

    let begun = Instant::now();
    let served = loop {
        match get(address, Some(TOKEN)) {
            Ok(answer) if !answer.is_empty() => break answer,
            answer => assert!(begun.elapsed() < START_TIMEOUT, "no answer from {address}: {answer:?}, {}", image.log()),
        }
    };
    assert!(served.starts_with("HTTP/1.1 200"), "{served}");
    assert!(get(address, None).unwrap().starts_with("HTTP/1.1 401"), "the token is needed");

    let pid = text(&succeed(&mut podman(&["inspect", &image.name, "--format", "{{.State.Pid}}"])));
    let status = std::fs::read_to_string(format!("/proc/{}/status", pid.trim())).unwrap();
    assert!(status.lines().any(|line| line.starts_with("Uid:\t10001\t10001")), "{status}");
    let recorded = text(&succeed(image.exec().args(["/usr/bin/retake", "record", "a fox"])));
    assert!(recorded.starts_with("recorded session-"), "{recorded}");
    // The command of the image's health check, which podman would start by systemd timers.
    let health = built["Healthcheck"]["Test"].as_array().unwrap();
    assert_eq!(health[0], "CMD");
    succeed(image.exec().args(health[1..].iter().map(|it| it.as_str().unwrap())));

    // The server is process 1, which ignores signals by default.
    succeed(&mut podman(&["stop", "--time", "60", &image.name]));
    let code = text(&succeed(&mut podman(&["inspect", &image.name, "--format", "{{.State.ExitCode}}"])));
    assert_eq!(code.trim(), "0", "{}", image.log());
    succeed(&mut podman(&["rm", &image.name]));

    let mut list = Command::new("podman");
    list.args(way).args(["--rm", "--volume", &format!("{}:/workspace", image.name), &image.name, "list", "--json"]);
    let listed: Value = serde_json::from_str(&text(&succeed(&mut list))).unwrap();
    assert_eq!(listed["totalSessions"], 1, "the volume outlives the container: {listed}");
}

/// The image under test, with a container and a volume of the same name. All are removed at the end.
struct Image {
    name: String,
}

impl Image {
    fn build() -> Image {
        let image = Image { name: format!("retake-test-{}", std::process::id()) };
        let dir = tempfile::tempdir().unwrap();
        let (base, built) = (dir.path().join("base"), dir.path().join("build/image"));
        for made in ["usr/bin", "usr/share/doc/retake", "workspace"] {
            std::fs::create_dir_all(built.join(made)).unwrap();
        }
        let binary = built.join("usr/bin/retake");
        std::fs::copy(env!("CARGO_BIN_EXE_retake"), &binary).unwrap();
        // Most of a test build is debug information, and it is copied several times.
        let _ = Command::new("strip").arg("-g").arg(&binary).status();
        for library in libraries(&binary) {
            let to = base.join(library.trim_start_matches('/'));
            std::fs::create_dir_all(to.parent().unwrap()).unwrap();
            std::fs::copy(&library, to).unwrap();
        }
        let archive = dir.path().join("base.tar");
        succeed(Command::new("tar").arg("-C").arg(&base).arg("-cf").arg(&archive).arg("."));
        succeed(podman(&["import"]).arg(&archive).arg(image.base()));
        let recipe = Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/container/Containerfile");
        let mut build = podman(&["build", "--format", "docker", "--build-arg", "BUILD_IMAGE=scratch"]);
        build.args(["--build-arg", &format!("BASE_IMAGE=localhost/{}", image.base()), "--tag", &image.name]);
        build.arg("--build-context").arg(format!("build={}", dir.path().join("build").display()));
        succeed(build.arg("--file").arg(recipe).arg(dir.path().join("build")));
        image
    }

    fn base(&self) -> String {
        format!("{}-base", self.name)
    }

    /// Finds a way to start containers on this machine.
    fn way(&self) -> &'static [&'static str] {
        let mut problems = String::new();
        for way in WAYS {
            let output = Command::new("podman").args(way).args(["--rm", &self.name, "--version"]).output().unwrap();
            if output.status.success() {
                assert!(text(&output).contains(env!("CARGO_PKG_VERSION")), "{output:?}");
                return way;
            }
            problems += &String::from_utf8_lossy(&output.stderr);
        }
        panic!("the image was built, but podman cannot start a container here:\n{problems}");
    }

    fn exec(&self) -> Command {
        podman(&["exec", &self.name])
    }

    fn inspect(&self) -> Value {
        let found = text(&succeed(&mut podman(&["image", "inspect", &self.name])));
        serde_json::from_str::<Value>(&found).unwrap()[0].take()
    }

    fn log(&self) -> String {
        let output = podman(&["logs", &self.name]).output().unwrap();
        text(&output) + &String::from_utf8_lossy(&output.stderr)
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        for args in [["rm", "--force"], ["volume", "rm"], ["rmi", "--force"]] {
            let _ = podman(&args).arg(&self.name).output();
        }
        let _ = podman(&["rmi", "--force", &self.base()]).output();
    }
}

fn install() {
    if !is_installed("podman") {
        let apt = || Command::new("apt-get");
        succeed(apt().arg("update"));
        let install = ["install", "--yes", "--no-install-recommends", "podman", "runc"];
        succeed(apt().args(install).env("DEBIAN_FRONTEND", "noninteractive"));
    }
}

/// Returns the files that a program is linked to.
fn libraries(binary: &Path) -> Vec<String> {
    let listed = text(&succeed(Command::new("ldd").arg(binary)));
    listed.split_whitespace().filter(|word| word.starts_with('/')).map(str::to_owned).collect()
}

fn get(address: &str, token: Option<&str>) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(START_TIMEOUT))?;
    let token = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
    write!(stream, "GET / HTTP/1.1\r\nHost: {address}\r\n{token}Connection: close\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

fn podman(args: &[&str]) -> Command {
    let mut command = Command::new("podman");
    command.args(args);
    command
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}
