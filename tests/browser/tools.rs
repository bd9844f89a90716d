//! The programs that drive the browser: finding them, and installing them if `RETAKE_TEST_INSTALL=1`. Chromium and
//! Node.js come from Debian's packages, Playwright and axe from the npm registry into `target/`.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use retake_testutils::optional::may_install;

/// Chromium and the modules of Node.js.
pub(crate) struct Tools {
    chromium: PathBuf,
    modules: PathBuf,
}

impl Tools {
    /// Returns what to do about missing tools; `None` if they are installed or may be installed.
    pub(crate) fn missing() -> Option<String> {
        let absent = [
            (chromium().is_none(), "Chromium"),
            (!is_installed("node"), "Node.js"),
            (!has_modules(), "Playwright and axe"),
        ];
        let absent: Vec<&str> = absent.into_iter().filter_map(|(absent, name)| absent.then_some(name)).collect();
        (!absent.is_empty() && !may_install())
            .then(|| format!("needs {}: set RETAKE_TEST_INSTALL=1 to install", absent.join(", ")))
    }

    /// Installs what is missing, once for all tests.
    pub(crate) fn ready() -> Tools {
        static READY: OnceLock<PathBuf> = OnceLock::new();
        let chromium = READY.get_or_init(|| {
            if let Some(missing) = Tools::missing() {
                panic!("{missing}");
            }
            if chromium().is_none() || !is_installed("node") || (!has_modules() && !is_installed("npm")) {
                install(&["chromium", "nodejs", "npm"]);
            }
            if !has_modules() {
                let npm = Command::new("npm")
                    .args(["install", "--no-save", "--no-package-lock", "--no-audit", "--no-fund", "--prefix"])
                    .arg(npm_dir())
                    .args(["playwright-core@1", "axe-core@4"])
                    .output()
                    .unwrap();
                assert!(npm.status.success(), "npm: {}", String::from_utf8_lossy(&npm.stderr));
            }
            chromium().unwrap_or_else(|| panic!("no Chromium was found: install the package chromium"))
        });
        Tools { chromium: chromium.clone(), modules: npm_dir().join("node_modules") }
    }

    /// Runs one of the scripts in this directory.
    pub(crate) fn run(&self, script: &str, url: &str) {
        self.converse(script, url, |request| panic!("{script} makes the unexpected request {request:?}"));
    }

    /// Runs a script that makes requests about the server: it prints a line `tell …` for each, and reads a line when it
    /// is done.
    pub(crate) fn converse(&self, script: &str, url: &str, mut carry_out: impl FnMut(&str)) {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let screenshots = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("screenshots");
        std::fs::create_dir_all(&screenshots).unwrap();
        let mut command = Command::new("node");
        command.arg(root.join("tests/browser").join(script)).arg(url).arg(screenshots);
        command.env("CHROMIUM", &self.chromium).env("MODULES", &self.modules);
        let mut running = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (mut answers, output) = (running.stdin.take().unwrap(), running.stdout.take().unwrap());
        let mut log = String::new();
        for line in BufReader::new(output).lines() {
            let line = line.unwrap();
            if let Some(request) = line.strip_prefix("tell ") {
                carry_out(request);
                writeln!(answers, "done").unwrap();
            }
            log += &format!("{line}\n");
        }
        drop(answers);
        assert!(running.wait().unwrap().success(), "{script}:\n{log}");
    }
}

fn npm_dir() -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("browser");
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

fn has_modules() -> bool {
    let modules = npm_dir().join("node_modules");
    modules.join("axe-core/axe.min.js").exists() && modules.join("playwright-core/index.mjs").exists()
}

fn chromium() -> Option<PathBuf> {
    let named = std::env::var_os("CHROMIUM").map(PathBuf::from);
    let usual = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].map(PathBuf::from);
    named.into_iter().chain(usual).find(|path| path.exists())
}

fn is_installed(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

fn install(packages: &[&str]) {
    let is_root = Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout.starts_with(b"0\n"));
    assert!(
        is_root && is_installed("apt-get"),
        "system packages can only be installed as root on Debian: install {packages:?}"
    );
    // A Node.js from elsewhere has its own npm, which conflicts with Debian's.
    let wanted = packages.iter().filter(|name| **name == "chromium" || !is_installed("npm"));
    for args in [
        vec!["update"],
        vec!["install", "--yes", "--no-install-recommends"].into_iter().chain(wanted.copied()).collect(),
    ] {
        let output = Command::new("apt-get").args(&args).env("DEBIAN_FRONTEND", "noninteractive").output().unwrap();
        assert!(output.status.success(), "apt-get {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
}
