//! The gallery in a real browser: the binary serves, headless Chromium looks, and the scripts beside this file press keys
//! and click as people do. Screenshots of every page go to `target/screenshots`.
//!
//! Needs Chromium and Node.js: installed from Debian's packages where they are missing and this runs as root, named where
//! it does not. Playwright (without a browser of its own) and axe come from the npm registry into `target/`.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test says what is wrong by failing"
)]

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

/// A gallery that ends with the test.
struct Served {
    child: Child,
    url: String,
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn people_find_their_way() {
    let tools = Tools::ready();
    let dir = tempfile::tempdir().unwrap();
    let demo = serve(&["demo", "--keep"], &dir.path().join("sample"));
    tools.run("paths.mjs", &demo.url);
    tools.run("typing.mjs", &demo.url);
    tools.run("looks.mjs", &demo.url);
}

#[test]
fn what_is_not_the_usual_is_designed() {
    let tools = Tools::ready();
    let dir = tempfile::tempdir().unwrap();
    let workspace = dir.path();
    let mut served = Some(serve(&["serve", "--workspace"], workspace));
    let url = served.as_ref().unwrap().url.clone();
    // The same address each time, as a page that is open expects.
    let again = || Some(serve_at(url.trim_start_matches("http://"), &["serve", "--workspace"], workspace));
    tools.converse("states.mjs", &url, |told| {
        // Dropping it kills it.
        served = None;
        match told {
            "stop" => return,
            "start with more" => {
                let mut record = Command::new(env!("CARGO_BIN_EXE_retake"));
                record.args(["record", "recorded meanwhile", "--workspace"]).arg(workspace);
                assert!(record.output().unwrap().status.success());
            }
            _ => match told.strip_prefix("damage ") {
                Some(hash) => damage(workspace, hash),
                None => assert_eq!(told, "start"),
            },
        }
        served = again();
    });
}

/// Ruins the database, so that it is made again from the journal, and takes a picture and all thumbnails away.
fn damage(workspace: &Path, picture: &str) {
    for entry in std::fs::read_dir(workspace.join("db")).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            std::fs::write(path, [0xa5; 4096]).unwrap();
        }
    }
    let (folder, name) = picture.split_at(2);
    std::fs::remove_file(workspace.join("images").join(folder).join(name)).unwrap();
    std::fs::remove_dir_all(workspace.join("cache")).unwrap();
}

#[test]
fn hostile_text_stays_text() {
    let tools = Tools::ready();
    let (dir, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let picture = folder.path().join("<img src=x onerror=window.planted=1>.png");
    image::RgbImage::new(8, 8).save(&picture).unwrap();
    let mut record = Command::new(env!("CARGO_BIN_EXE_retake"));
    record.args(["record", "a pixel", "--title", "named by its file", "--image"]).arg(&picture);
    assert!(record.arg("--workspace").arg(dir.path()).output().unwrap().status.success());
    let served = serve(&["serve", "--workspace"], dir.path());
    tools.run("hostile.mjs", &served.url);
}

fn serve(args: &[&str], dir: &Path) -> Served {
    serve_at("127.0.0.1:0", args, dir)
}

fn serve_at(address: &str, args: &[&str], dir: &Path) -> Served {
    let mut command = Command::new(env!("CARGO_BIN_EXE_retake"));
    command.args(args).arg(dir).args(["--addr", address, "--json"]).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let said: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"));
    Served { child, url: said["url"].as_str().unwrap().trim_end_matches('/').to_owned() }
}

/// What drives the browser.
struct Tools {
    chromium: PathBuf,
    modules: PathBuf,
}

impl Tools {
    fn ready() -> Tools {
        // Both tests need them, and only one may install.
        static READY: std::sync::OnceLock<(PathBuf, PathBuf)> = std::sync::OnceLock::new();
        let (chromium, modules) = READY.get_or_init(|| {
            if chromium().is_none() || !there("npm") {
                install(&["chromium", "nodejs", "npm"]);
            }
            let found = chromium().unwrap_or_else(|| panic!("no Chromium was found: install the package chromium"));
            let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("browser");
            std::fs::create_dir_all(&dir).unwrap();
            let modules = dir.join("node_modules");
            if !modules.join("axe-core/axe.min.js").exists() || !modules.join("playwright-core/index.mjs").exists() {
                let npm = Command::new("npm")
                    .args(["install", "--no-save", "--no-package-lock", "--no-audit", "--no-fund", "--prefix"])
                    .arg(&dir)
                    .args(["playwright-core@1", "axe-core@4"])
                    .output()
                    .unwrap();
                assert!(npm.status.success(), "npm: {}", String::from_utf8_lossy(&npm.stderr));
            }
            (found, modules)
        });
        Tools { chromium: chromium.clone(), modules: modules.clone() }
    }

    /// Runs one of the scripts beside this file.
    fn run(&self, script: &str, url: &str) {
        self.converse(script, url, |told| panic!("{script} wants {told:?}, and nobody is there to do it"));
    }

    /// Runs one that has things done to the server: a line `tell …` is one, and is answered when it is done.
    fn converse(&self, script: &str, url: &str, mut told: impl FnMut(&str)) {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let shots = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("screenshots");
        std::fs::create_dir_all(&shots).unwrap();
        let mut command = Command::new("node");
        command.arg(root.join("tests/browser").join(script)).arg(url).arg(shots);
        command.env("CHROMIUM", &self.chromium).env("MODULES", &self.modules);
        let mut running = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (mut answers, said) = (running.stdin.take().unwrap(), running.stdout.take().unwrap());
        let mut log = String::new();
        for line in BufReader::new(said).lines() {
            let line = line.unwrap();
            if let Some(what) = line.strip_prefix("tell ") {
                told(what);
                writeln!(answers, "done").unwrap();
            }
            log += &format!("{line}\n");
        }
        drop(answers);
        assert!(running.wait().unwrap().success(), "{script}:\n{log}");
    }
}

fn chromium() -> Option<PathBuf> {
    let named = std::env::var_os("CHROMIUM").map(PathBuf::from);
    let usual = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].map(PathBuf::from);
    named.into_iter().chain(usual).find(|path| path.exists())
}

fn there(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|ran| ran.status.success())
}

fn install(packages: &[&str]) {
    let root = Command::new("id").arg("-u").output().is_ok_and(|ran| ran.stdout.starts_with(b"0\n"));
    assert!(root && there("apt-get"), "the browser tests need Chromium and Node.js with npm: install {packages:?}");
    // Node from elsewhere brings its own npm, with which Debian's does not go together.
    let wanted = packages.iter().filter(|name| **name == "chromium" || !there("npm"));
    for args in [
        vec!["update"],
        vec!["install", "--yes", "--no-install-recommends"].into_iter().chain(wanted.copied()).collect(),
    ] {
        let ran = Command::new("apt-get").args(&args).env("DEBIAN_FRONTEND", "noninteractive").output().unwrap();
        assert!(ran.status.success(), "apt-get {args:?}: {}", String::from_utf8_lossy(&ran.stderr));
    }
}
