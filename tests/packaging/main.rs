//! The packages as people install them: each is built from the binary under test, installed from local files, and must
//! start `retake mcp`. Tests with missing prerequisites are reported as ignored.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a failed assertion is the report of a test"
)]

mod container;
mod licences;

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output, Stdio};
use std::sync::OnceLock;

use retake_testutils::optional::{optional, run};
use serde_json::{Value, json};

fn main() -> ExitCode {
    let needs = |programs: &[&str]| {
        let absent: Vec<&str> = programs.iter().copied().filter(|it| !is_installed(it)).collect();
        (!absent.is_empty()).then(|| format!("needs {}", absent.join(", ")))
    };
    run(vec![
        optional("the_archive_has_everything", needs(&["python3"]), the_archive_has_everything),
        optional("the_same_binary_gives_the_same_bytes", needs(&["python3"]), the_same_binary_gives_the_same_bytes),
        optional("npx_starts_the_server", needs(&["python3", "npm", "node"]), npx_starts_the_server),
        optional("a_wheel_starts_the_server", needs(&["python3"]).or_else(needs_venv), a_wheel_starts_the_server),
        optional("an_mcp_bundle_starts_the_server", needs(&["python3"]), an_mcp_bundle_starts_the_server),
        optional("notices_and_bill_of_materials_name_what_is_inside", needs(&["python3"]), materials_are_named),
        optional("every_crate_can_be_packaged", None, every_crate_can_be_packaged),
        optional("every_file_states_this_version", None, every_file_states_this_version),
        optional(
            "the_container_image_serves_as_an_ordinary_user",
            container::missing(),
            container::the_image_serves_as_an_ordinary_user,
        ),
    ])
}

fn the_archive_has_everything() {
    let listing = python(&["-m", "tarfile", "-l"], &[package("tar.gz")]);
    for name in ["/retake", "/README.md", "/LICENSE-MIT", "/LICENSE-APACHE", "/man/retake.1", "/man/retake-record.1"] {
        assert!(listing.lines().any(|line| line.trim_end().ends_with(name)), "{name} is missing:\n{listing}");
    }
    for name in ["/completions/retake", "/completions/_retake", "/completions/retake.fish"] {
        assert!(listing.contains(name), "{name} is missing:\n{listing}");
    }
}

fn the_same_binary_gives_the_same_bytes() {
    let dir = tempfile::tempdir().unwrap();
    build(dir.path());
    for file in std::fs::read_dir(packages()).unwrap() {
        let file = file.unwrap();
        let again = std::fs::read(dir.path().join(file.file_name())).unwrap();
        assert!(std::fs::read(file.path()).unwrap() == again, "{:?} differs", file.file_name());
    }
}

fn npx_starts_the_server() {
    let dir = tempfile::tempdir().unwrap();
    let mut npm = Command::new("npm");
    npm.args(["install", "--offline", "--no-audit", "--no-fund", "--prefix"]).arg(dir.path()).arg(package("tgz"));
    succeed(&mut npm);
    let mut npx = Command::new("npx");
    npx.current_dir(dir.path()).args(["--offline", "retake"]);
    greets(npx, dir.path());
    let mut failing = Command::new("npx");
    failing.current_dir(dir.path()).args(["--offline", "retake", "list", "--limit", "many"]);
    assert_eq!(failing.output().unwrap().status.code(), Some(2), "the launcher passes the exit status on");
}

fn a_wheel_starts_the_server() {
    let dir = tempfile::tempdir().unwrap();
    succeed(Command::new("python3").args(["-m", "venv"]).arg(dir.path()));
    let mut pip = Command::new(dir.path().join("bin/pip"));
    succeed(pip.args(["install", "--quiet", "--no-index", "--no-deps"]).arg(package("whl")));
    greets(Command::new(dir.path().join("bin/retake")), dir.path());
}

fn an_mcp_bundle_starts_the_server() {
    let dir = tempfile::tempdir().unwrap();
    python(&["-m", "zipfile", "-e"], &[package("mcpb"), dir.path().to_owned()]);
    let manifest: Value = serde_json::from_slice(&std::fs::read(dir.path().join("manifest.json")).unwrap()).unwrap();
    assert_eq!(manifest["version"], env!("CARGO_PKG_VERSION"));
    let config = &manifest["server"]["mcp_config"];
    let binary = config["command"].as_str().unwrap().replace("${__dirname}", dir.path().to_str().unwrap());
    assert_eq!(config["args"][0], "mcp");
    // Python's zipfile does not restore the executable bit in the archive; clients do.
    succeed(Command::new("chmod").arg("+x").arg(&binary));
    greets(Command::new(binary), dir.path());
}

fn materials_are_named() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let bill: Value = serde_json::from_str(&python(&[], &[root.join("packaging/sbom.py")])).unwrap();
    let sled = bill["components"].as_array().unwrap().iter().find(|it| it["name"] == "sled").unwrap();
    assert!(sled["hashes"][0]["content"].as_str().unwrap().len() == 64, "{sled}");
    assert!(bill["components"].as_array().unwrap().iter().all(|it| it["name"] != "insta"), "only what is linked");
    licences::are_allowed(&bill);
    let notices = python(&[], &[root.join("packaging/notices.py")]);
    assert!(notices.contains("Bitstream Vera"), "the fonts have a licence of their own");
    assert!(notices.contains("sled 0.34"));
}

/// Lists the files of each package, which fails on a manifest that cannot be published. Building them from the packed
/// files takes minutes: `just package` does that.
fn every_crate_can_be_packaged() {
    for name in ["retake-recipe", "retake-log", "retake-search", "retake-team", "retake"] {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.current_dir(env!("CARGO_MANIFEST_DIR"));
        cargo.args(["package", "--list", "--offline", "--allow-dirty", "--package", name]);
        let output = cargo.output().unwrap();
        let (listing, warnings) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{name}: {warnings}");
        assert!(!warnings.contains("no documentation, homepage or repository"), "{name}: {warnings}");
        let own: &[&str] = if name == "retake" { &["build.rs", "data/wrap/profiles/replicate.toml"] } else { &[] };
        for file in ["src/lib.rs", "README.md", "LICENSE-MIT", "LICENSE-APACHE"].iter().chain(own) {
            assert!(listing.lines().any(|it| it == *file), "{name}: {file} is missing:\n{listing}");
        }
    }
}

/// The version is written in more files than Cargo knows about.
fn every_file_states_this_version() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |file: &str| std::fs::read_to_string(root.join(file)).unwrap();
    let version = env!("CARGO_PKG_VERSION");
    assert!(read("CHANGELOG.md").lines().any(|line| line == format!("## {version}")), "CHANGELOG.md");
    assert!(read("packaging/debian/changelog").starts_with(&format!("retake ({version}-1) ")), "debian/changelog");
    for file in ["data/mcp/manifest.json", "data/mcp/server.json"] {
        let json: Value = serde_json::from_str(&read(file)).unwrap();
        assert_eq!(json["version"], version, "{file}");
        assert_eq!(json["description"], env!("CARGO_PKG_DESCRIPTION"), "{file}");
        for package in json["packages"].as_array().into_iter().flatten() {
            assert_eq!(package["version"], version, "{file}");
        }
    }
}

/// Starts the server as a client would, and expects it to initialise and to list its tools.
fn greets(mut command: Command, home: &Path) {
    command.arg("--workspace").arg(home.join("workspace")).arg("mcp");
    let mut server = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = server.stdin.take().unwrap();
    let mut answers = BufReader::new(server.stdout.take().unwrap()).lines();
    let mut ask = |message: Value| {
        writeln!(input, "{message}").unwrap();
        input.flush().unwrap();
        serde_json::from_str::<Value>(&answers.next().unwrap().unwrap()).unwrap()
    };
    let hello =
        json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}});
    let answer = ask(json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}));
    assert_eq!(answer["result"]["serverInfo"]["name"], "retake", "{answer}");
    let answer = ask(json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}));
    let tools = answer["result"]["tools"].as_array().unwrap();
    assert!(tools.iter().any(|tool| tool["name"] == "record-iteration"), "{answer}");
    drop(input);
    assert!(server.wait().unwrap().success());
}

/// Returns the directory with the packages of the binary under test.
fn packages() -> &'static Path {
    static BUILT: OnceLock<tempfile::TempDir> = OnceLock::new();
    BUILT
        .get_or_init(|| {
            let dir = tempfile::tempdir().unwrap();
            build(dir.path());
            dir
        })
        .path()
}

fn package(ending: &str) -> PathBuf {
    let mut files = std::fs::read_dir(packages()).unwrap().map(|it| it.unwrap().path());
    files.find(|it| it.to_str().unwrap().ends_with(ending)).unwrap_or_else(|| panic!("no package ends in {ending}"))
}

fn build(output: &Path) {
    let retake = || Command::new(env!("CARGO_BIN_EXE_retake"));
    let extras = tempfile::tempdir().unwrap();
    succeed(retake().arg("man").arg(extras.path().join("man")));
    std::fs::create_dir(extras.path().join("completions")).unwrap();
    for (shell, file) in [("bash", "retake"), ("zsh", "_retake"), ("fish", "retake.fish")] {
        let script = retake().args(["completions", shell]).output().unwrap().stdout;
        assert!(!script.is_empty(), "no completions for {shell}");
        std::fs::write(extras.path().join("completions").join(file), script).unwrap();
    }
    let mut python = Command::new("python3");
    python.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/bundle.py"));
    python.arg(env!("CARGO_BIN_EXE_retake")).arg(output).arg("--fast").arg("--extras").arg(extras.path());
    succeed(&mut python);
}

fn python(args: &[&str], paths: &[PathBuf]) -> String {
    let output = Command::new("python3").args(args).args(paths).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn succeed(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{command:?}: {}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

fn is_installed(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

fn needs_venv() -> Option<String> {
    let has =
        Command::new("python3").args(["-c", "import ensurepip, venv"]).output().is_ok_and(|it| it.status.success());
    (!has).then(|| "needs python3-venv".to_owned())
}
