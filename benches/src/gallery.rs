//! How fast is the gallery with 100,000 sessions and a million iterations? Measures every page, jumps by date and to
//! any position, and search while typing; the size of a page before its images; and the memory after 200 concurrent
//! clients.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use retake::internals::bound_heap;
use retake::internals::web::{self, Serving};
use retake::internals::workspace::{Lifetime, Options, Workspace};

use crate::Settings;
use crate::data;
use crate::report::{Report, Table, median, percentile};

/// The number of requests in a measurement.
const READS: usize = 40;
/// The number of concurrent clients.
const CLIENTS: usize = 200;
/// The text typed letter by letter: a word in every prompt, another word, and a number that identifies a session.
const TYPED: &str = "lighthouse study 42";
/// The pages that every workspace has.
const PAGES: &[(&str, &str)] = &[
    ("shelf", "/"),
    ("shelf, oldest first", "/?sort=oldest"),
    ("shelf, by name", "/?sort=name"),
    ("shelf, by cost", "/?sort=cost"),
    ("months beside the shelf", "/sessions/marks"),
    ("projects with their counts", "/projects"),
    ("images with facets", "/search"),
    ("best rated images", "/search?sort=best"),
    ("favourites, by session", "/search?q=rating%3A%3E%3D4&by=session"),
    ("two facets chosen", "/search?q=model%3A%22sd_xl_base_1.0%22%20-lora%3A%22none%22"),
    ("statistics and integrity", "/workspace"),
];

pub(crate) fn run(settings: &Settings, report: &mut Report) {
    let (built, long) = data::retake(settings, report, settings.large());
    // Ratings are written to it.
    let workspace = settings.scratch("gallery").join("workspace");
    data::copy_all(&built, &workspace);
    let begun = Instant::now();
    let gallery = Gallery::start(&workspace);
    // Includes building the search index if necessary.
    let first_answer = begun.elapsed();
    gallery.get("/search?q=a");
    let indexed = begun.elapsed();
    report.say(&format!(
        "\nserved {:.0} ms after it was started; search ready after {:.1} s",
        first_answer.as_secs_f64() * 1e3,
        indexed.as_secs_f64()
    ));

    let mut table = Table::new(
        "The gallery, over HTTP on one connection",
        &["what", "first ms", "p50 ms", "p99 ms", "kB", "gzip kB"],
    );
    let mut row = |name: &str, paths: &[String]| {
        let (mut times, mut bytes) = (Vec::new(), 0);
        for read in 0..READS.max(paths.len()) {
            let begun = Instant::now();
            bytes = gallery.get(&paths[read % paths.len()]).len();
            times.push(begun.elapsed().as_secs_f64() * 1e3);
        }
        let first = times[0];
        let cells = [first, median(&times), percentile(&mut times, 0.99)].map(|it| format!("{it:.2}"));
        let packed = gallery.get_compressed(&paths[0]).len();
        let sizes = [bytes, packed].map(|it| format!("{:.1}", it as f64 / 1e3));
        table.row([name.to_owned()].into_iter().chain(cells).chain(sizes).collect());
    };
    for (name, path) in PAGES {
        row(name, &[(*path).to_owned()]);
    }
    let step = (settings.sessions / 40).max(1);
    let jumps = (0..40).rev().map(|at| format!("/sessions/part?from={}", at * step)).collect::<Vec<_>>();
    row("a jump anywhere on the shelf", &jumps);
    let months: Vec<(String, u64)> = serde_json::from_slice(&gallery.get("/sessions/marks")).unwrap();
    let mut from = 0;
    let mut dates = Vec::new();
    for (_, count) in &months {
        dates.push(format!("/sessions/part?from={from}"));
        from += count;
    }
    row("a jump by date", &dates);
    if let Some(id) = long {
        for view in ["", "/strip?from=0&limit=100", "/grid", "/story", "/tree", "/audit", "/0/part"] {
            row(
                &format!("session of 200: {}", if view.is_empty() { "loupe" } else { view }),
                &[format!("/sessions/{id}{view}")],
            );
        }
    }
    let typed = |by: &str| -> Vec<String> {
        (1..=TYPED.len()).map(|end| format!("/search?q={}&typing=1{by}", TYPED[..end].replace(' ', "%20"))).collect()
    };
    row("sessions found, letter by letter", &typed("&by=session"));
    row("images found, letter by letter", &typed(""));
    let all = settings.sessions * 10;
    for (name, skip) in [("middle", all / 2), ("end", all - 1000)] {
        row(&format!("a jump to the {name} of all images"), &[format!("/search/part?q=&skip={skip}")]);
    }
    if let Some(id) = long {
        // Each write changes what the shelf shows, so that nothing derived can be reused.
        let mut times: Vec<f64> = (0..READS)
            .map(|read| {
                gallery.rate(&format!("{id}#0"), read % 5 + 1);
                let begun = Instant::now();
                gallery.get("/");
                begun.elapsed().as_secs_f64() * 1e3
            })
            .collect();
        let cells = [times[0], median(&times), percentile(&mut times, 0.99)].map(|it| format!("{it:.2}"));
        table.row(
            ["the shelf after a write".to_owned()]
                .into_iter()
                .chain(cells)
                .chain(["", ""].map(str::to_owned))
                .collect(),
        );
    }
    report.show("gallery", &table);
    for path in ["/", "/search", "/compare", "/workspace"] {
        let (plain, packed) = (gallery.weight(path, false), gallery.weight(path, true));
        report.say(&format!(
            "{path} weighs {:.1} kB with its styles and scripts, {:.1} kB compressed.",
            plain as f64 / 1e3,
            packed as f64 / 1e3
        ));
    }
    if let Some(id) = long {
        let path = format!("/sessions/{id}");
        let (plain, packed) = (gallery.weight(&path, false), gallery.weight(&path, true));
        report.say(&format!(
            "A session of 200 weighs {:.1} kB, {:.1} kB compressed.",
            plain as f64 / 1e3,
            packed as f64 / 1e3
        ));
    }
    report.say(&format!("{:.0} MB in memory after these pages.", gallery.memory_mb()));

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

/// Serves a workspace until it is killed, for [`Gallery::start`].
pub(crate) fn child(workspace: &str) {
    bound_heap();
    let options = Options { lifetime: Lifetime::LongRunning, ..Options::default() };
    let workspace = Arc::new(Workspace::open_with(Path::new(workspace), options).unwrap());
    let bound = web::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    println!("{}", bound.url());
    bound.serve(workspace, Serving { user: "bench".to_owned(), token: None }).unwrap();
}

/// A gallery in a separate process.
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
        self.request(path, "").unwrap()
    }

    /// Returns the response as browsers get it.
    fn get_compressed(&self, path: &str) -> Vec<u8> {
        self.request(path, "Accept-Encoding: gzip\r\n").unwrap()
    }

    fn try_get(&self, path: &str) -> Option<Vec<u8>> {
        self.request(path, "")
    }

    fn rate(&self, reference: &str, rating: usize) {
        let body = format!("{{\"reference\":\"{reference}\",\"rating\":{rating}}}");
        let mut stream = TcpStream::connect(&self.host).unwrap();
        let head = format!(
            "POST /api/annotate-iteration HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            self.host,
            body.len()
        );
        stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }

    /// Returns the body of a response; `None` if the request failed.
    fn request(&self, path: &str, headers: &str) -> Option<Vec<u8>> {
        let mut stream = TcpStream::connect(&self.host).ok()?;
        stream.set_nodelay(true).ok()?;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {}\r\n{headers}Connection: close\r\n\r\n", self.host).ok()?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).ok()?;
        let head = answer.windows(4).position(|it| it == b"\r\n\r\n")?;
        answer.starts_with(b"HTTP/1.1 200").then(|| answer.split_off(head + 4))
    }

    /// Returns the size of a page with its styles and scripts, including imported ones.
    fn weight(&self, path: &str, compressed: bool) -> usize {
        let fetch = |path: &str| if compressed { self.get_compressed(path).len() } else { self.get(path).len() };
        let page = String::from_utf8(self.get(path)).unwrap();
        let after =
            |text: &str, mark: &str| text.split(mark).nth(1).and_then(|it| it.split('"').next()).map(str::to_owned);
        let name = after(&page, "data-page=\"").unwrap();
        let mut waiting: Vec<String> =
            page.split('"').filter(|it| it.starts_with("/assets/")).map(str::to_owned).collect();
        let mut known: Vec<String> = Vec::new();
        let mut bytes = fetch(path);
        while let Some(asset) = waiting.pop() {
            if known.contains(&asset) {
                continue;
            }
            bytes += fetch(&asset);
            if let Some((folder, "js")) =
                asset.rsplit_once('/').zip(asset.rsplit_once('.')).map(|(path, file)| (path.0, file.1))
            {
                let text = String::from_utf8(self.get(&asset)).unwrap();
                let imported = text.split("from \"./").skip(1).filter_map(|it| it.split('"').next()).map(str::to_owned);
                let of_page = after(&text, &format!("{name}: () => import(\"./"));
                waiting.extend(imported.chain(of_page).map(|it| format!("{folder}/{it}")));
            }
            known.push(asset);
        }
        bytes
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

    /// Returns the numbers of successful and failed requests.
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
