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

use std::io::{BufRead, BufReader};
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
    tools.run("looks.mjs", &demo.url);
}

#[test]
fn hostile_text_stays_text() {
    let tools = Tools::ready();
    let dir = tempfile::tempdir().unwrap();
    let served = serve(&["serve", "--workspace"], dir.path());
    tools.run("hostile.mjs", &served.url);
}

fn serve(args: &[&str], dir: &Path) -> Served {
    let mut command = Command::new(env!("CARGO_BIN_EXE_retake"));
    command.args(args).arg(dir).args(["--addr", "127.0.0.1:0", "--json"]).stdin(Stdio::null()).stdout(Stdio::piped());
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
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let shots = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("screenshots");
        std::fs::create_dir_all(&shots).unwrap();
        let ran = Command::new("node")
            .arg(root.join("tests/browser").join(script))
            .arg(url)
            .arg(shots)
            .env("CHROMIUM", &self.chromium)
            .env("MODULES", &self.modules)
            .output()
            .unwrap();
        let said = format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
        assert!(ran.status.success(), "{script}:\n{said}");
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
