//! How long does the gallery take at 100,000 sessions and a million iterations: the first page, a jump to the end, search as
//! one types; the size of a page without its images; and how 200 clients at once fare.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use retake::internals::web::{self, Serving};
use retake::internals::workspace::{Lifetime, Options, Workspace};

use crate::Settings;
use crate::data;
use crate::report::{Report, Table, median, percentile};

/// The number of requests in a measurement.
const READS: usize = 40;
/// The number of clients at once.
const CLIENTS: usize = 200;
/// The text typed letter by letter: a word that every prompt has, one more, and what tells a session from the others.
const TYPED: &str = "lighthouse study 42";

pub(crate) fn run(settings: &Settings, report: &mut Report) {
    let (workspace, long) = data::retake(settings, report, settings.large());
    let begun = Instant::now();
    let gallery = Gallery::start(&workspace);
    // Includes building the search index, where there is none yet.
    let first_answer = begun.elapsed();
    gallery.get("/search?q=a");
    let indexed = begun.elapsed();
    report.say(&format!(
        "\nserved {:.0} ms after it was started; search ready after {:.1} s",
        first_answer.as_secs_f64() * 1e3,
        indexed.as_secs_f64()
    ));

    let mut table = Table::new("The gallery, over HTTP on one connection", &["what", "p50 ms", "p99 ms", "kB"]);
    let long = long.map(|id| format!("/sessions/{id}"));
    let mut row = |name: &str, paths: &[String]| {
        let (mut times, mut bytes) = (Vec::new(), 0);
        for read in 0..READS.max(paths.len()) {
            let begun = Instant::now();
            bytes = gallery.get(&paths[read % paths.len()]).len();
            times.push(begun.elapsed().as_secs_f64() * 1e3);
        }
        let cells = [median(&times), percentile(&mut times, 0.99)].map(|it| format!("{it:.2}"));
        table.row([name.to_owned()].into_iter().chain(cells).chain([format!("{:.1}", bytes as f64 / 1e3)]).collect());
    };
    row("first page", &["/".to_owned()]);
    row("months, for a scroll bar that jumps", &["/sessions/marks".to_owned()]);
    let step = (settings.sessions / 40).max(1);
    let jumps = (0..40).rev().map(|at| format!("/sessions/part?from={}", at * step)).collect::<Vec<_>>();
    row("a jump anywhere", &jumps);
    if let Some(long) = &long {
        row("a session of 200 iterations", std::slice::from_ref(long));
        row("its strip", &[format!("{long}/strip?from=0&limit=100")]);
    }
    let typed = |by: &str| -> Vec<String> {
        (1..=TYPED.len()).map(|end| format!("/search?q={}&typing=1{by}", TYPED[..end].replace(' ', "%20"))).collect()
    };
    row("sessions found, letter by letter", &typed("&by=session"));
    row("iterations found, letter by letter", &typed(""));
    let deep = settings.sessions * 10 - 1000;
    row("a jump to the end of all iterations", &[format!("/search/part?q=&skip={deep}")]);
    row("projects with their counts", &["/projects".to_owned()]);
    report.show("gallery", &table);
    report.say(&format!(
        "\nThe first page weighs {:.1} kB with its style and scripts.",
        gallery.weight("/") as f64 / 1e3
    ));

    gallery.look(report);

    let span = Duration::from_secs(if settings.full { 60 } else { 5 });
    let (served, refused) = gallery.crowd(span);
    report.say(&format!(
        "{CLIENTS} clients for {} s: {:.0} answers a second, {refused} refused, {:.0} MB in memory after.",
        span.as_secs(),
        served as f64 / span.as_secs_f64(),
        gallery.memory_mb()
    ));
    assert_eq!(refused, 0, "everyone who behaves is served");
}

/// Serves a workspace until it is killed: what [`Gallery::start`] runs.
pub(crate) fn child(workspace: &str) {
    let options = Options { lifetime: Lifetime::LongRunning, ..Options::default() };
    let workspace = Arc::new(Workspace::open_with(Path::new(workspace), options).unwrap());
    let bound = web::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    println!("{}", bound.url());
    bound.serve(workspace, Serving { user: "bench".to_owned(), token: None }).unwrap();
}

/// A gallery in a process of its own.
struct Gallery {
    child: Child,
    host: String,
}

impl Gallery {
    fn start(workspace: &Path) -> Gallery {
        let exe = std::env::current_exe().unwrap();
        let mut child = Command::new(exe).args(["gallery"]).arg(workspace).stdout(Stdio::piped()).spawn().unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut url).unwrap();
        let host = url.trim().trim_start_matches("http://").trim_end_matches('/').to_owned();
        Gallery { child, host }
    }

    fn get(&self, path: &str) -> Vec<u8> {
        self.try_get(path).unwrap()
    }

    fn try_get(&self, path: &str) -> Option<Vec<u8>> {
        let mut stream = TcpStream::connect(&self.host).ok()?;
        stream.set_nodelay(true).ok()?;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.host).ok()?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).ok()?;
        let head = answer.windows(4).position(|it| it == b"\r\n\r\n")?;
        answer.starts_with(b"HTTP/1.1 200").then(|| answer.split_off(head + 4))
    }

    /// Returns the size of a page with the style and scripts it names, and those that they import.
    fn weight(&self, path: &str) -> usize {
        let page = String::from_utf8(self.get(path)).unwrap();
        let build = page.split("/assets/").nth(1).and_then(|rest| rest.split('/').next()).unwrap();
        let assets = ["style.css", "app.js", "kit.js", "tray.js", "wall.js", "typing.js"];
        page.len() + assets.iter().map(|name| self.get(&format!("/assets/{build}/{name}")).len()).sum::<usize>()
    }

    /// Measures a page in a browser, if it is installed with its driver, which `cargo test --test browser` fetches.
    fn look(&self, report: &mut Report) {
        let exe = std::env::current_exe().unwrap();
        let modules = exe.ancestors().nth(2).unwrap().join("tmp/browser/node_modules");
        let chromium = std::env::var_os("CHROMIUM").unwrap_or_else(|| "/usr/bin/chromium".into());
        if !modules.is_dir() || !Path::new(&chromium).exists() {
            report.say("\nNot looked at in a browser: install Chromium and run `cargo test --test browser` once.");
            return;
        }
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/gallery.mjs");
        let mut node = Command::new("node");
        node.arg(script)
            .arg(format!("http://{}", self.host))
            .args(["", TYPED])
            .env("CHROMIUM", chromium)
            .env("MODULES", modules);
        let ran = node.stderr(Stdio::inherit()).output().unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stdout));
        let figures: BTreeMap<String, Vec<f64>> = serde_json::from_slice(&ran.stdout).unwrap();
        let mut table = Table::new("The gallery in Chromium, nothing cached", &["what", "p50 ms", "worst ms"]);
        for (name, what) in [
            ("painted", "first page painted"),
            ("ready", "first page ready for keys"),
            ("end", "a jump to the end of the wall"),
            ("typed", "from a key to what it finds, with the pause of 120 ms"),
        ] {
            let times = figures.get(name).unwrap();
            let worst = times.iter().copied().fold(0.0, f64::max);
            table.row(vec![what.to_owned(), format!("{:.0}", median(times)), format!("{worst:.0}")]);
        }
        report.show("gallery in a browser", &table);
    }

    /// Returns the numbers of requests that were answered and that were not.
    fn crowd(&self, span: Duration) -> (u64, u64) {
        let (served, refused) = (AtomicU64::new(0), AtomicU64::new(0));
        let until = Instant::now() + span;
        thread::scope(|scope| {
            for client in 0..CLIENTS {
                let (served, refused) = (&served, &refused);
                scope.spawn(move || {
                    let paths = ["/", "/sessions/part", "/api/list-sessions?limit=50", "/search?q=study%2042"];
                    for path in paths.iter().cycle().skip(client % paths.len()) {
                        if Instant::now() >= until {
                            return;
                        }
                        let counter = if self.try_get(path).is_some() { served } else { refused };
                        counter.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        (served.into_inner(), refused.into_inner())
    }

    fn memory_mb(&self) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or("0");
        line.trim().trim_end_matches(" kB").trim().parse::<f64>().unwrap_or(0.0) / 1e3
    }
}

impl Drop for Gallery {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
