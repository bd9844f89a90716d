//! A team workspace beside plain SQL that does the same job, on one PostgreSQL server in one run.
//!
//! Its own program rather than a question of `retake-benches`, so that it needs a server only where one is at hand:
//! `cargo run --release -p retake-team --example team -- postgres://postgres@127.0.0.1:5432/postgres [SESSIONS]`. Uses and
//! drops the schemas `bench_retake` and `bench_plain`.
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "a benchmark reports on stdout and stops at the first surprise"
)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use retake_log::model::{Actor, Draft, Hash, ImageRef, Iteration, Outcome, Recipe, Seed, SessionId, Timestamp};
use retake_log::store::{Batch, Detail, Order, Status, Target};
use retake_team::{Config, Cursor, PgLog};
use tokio_postgres::{Client, NoTls};

/// How long each measurement of appends takes.
const APPEND_TIME: Duration = Duration::from_secs(4);
/// How often the engines take turns.
const ROUNDS: usize = 3;

/// What plain SQL needs for the same job: compare-and-swap on a head, a unique key, a record, a gap-free number per day.
const PLAIN: &str = "
DROP SCHEMA IF EXISTS bench_plain CASCADE; CREATE SCHEMA bench_plain; SET search_path = bench_plain;
CREATE TABLE heads (day int, number int, next_seq int NOT NULL, tip bytea NOT NULL, modified bigint NOT NULL,
    count int NOT NULL, PRIMARY KEY (day, number)) WITH (fillfactor = 85);
CREATE INDEX ON heads (modified DESC, day DESC, number DESC);
CREATE TABLE records (day int, number int, seq int, bytes bytea NOT NULL, PRIMARY KEY (day, number, seq));
CREATE TABLE keys (key bytea PRIMARY KEY, day int, number int, index int);
CREATE TABLE days (day int PRIMARY KEY, last int NOT NULL);
CREATE FUNCTION add(p_day int, p_number int, p_seq int, p_prev bytea, p_tip bytea, p_key bytea, p_bytes bytea)
RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    UPDATE heads SET next_seq = next_seq + 1, tip = p_tip, modified = modified + 1, count = count + 1
        WHERE day = p_day AND number = p_number AND next_seq = p_seq AND tip = p_prev;
    IF NOT FOUND THEN RETURN false; END IF;
    INSERT INTO keys VALUES (p_key, p_day, p_number, p_seq);
    INSERT INTO records VALUES (p_day, p_number, p_seq, p_bytes);
    RETURN true;
END $$ SET search_path = bench_plain;
CREATE FUNCTION create_session(p_day int, p_tip bytea, p_key bytea, p_first bytea, p_second bytea)
RETURNS int LANGUAGE plpgsql AS $$
DECLARE n int;
BEGIN
    INSERT INTO days VALUES (p_day, 1) ON CONFLICT (day) DO UPDATE SET last = days.last + 1 RETURNING last INTO n;
    INSERT INTO keys VALUES (p_key, p_day, n, 0);
    INSERT INTO heads VALUES (p_day, n, 2, p_tip, n, 1);
    INSERT INTO records VALUES (p_day, n, 0, p_first), (p_day, n, 1, p_second);
    RETURN n;
END $$ SET search_path = bench_plain;";

fn main() {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().expect_url();
    let sessions: u32 = arguments.next().map_or(100_000, |count| count.parse().unwrap());
    let plain = Plain::new(&url);
    let log = fresh(&url);
    println!("round trip of `SELECT 1`: {}", micros(plain.median(200, "SELECT 1")));
    for writers in [1, 16] {
        appends(&url, &log, writers);
    }
    for writers in [1, 16] {
        creates(&url, &log, writers);
    }
    history(&log, &plain);
    page(&log, &plain, sessions);
    catch_up(&log, &plain, sessions);
    plain.execute("DROP SCHEMA bench_plain CASCADE; DROP SCHEMA bench_retake CASCADE");
}

trait ExpectUrl {
    fn expect_url(self) -> String;
}

impl ExpectUrl for Option<String> {
    fn expect_url(self) -> String {
        self.unwrap_or_else(|| "postgres://postgres@127.0.0.1:5432/postgres".to_owned())
    }
}

/// A connection without anything of ours.
struct Plain {
    runtime: tokio::runtime::Runtime,
    client: Client,
}

impl Plain {
    fn new(url: &str) -> Plain {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let client = runtime.block_on(connect(url));
        Plain { runtime, client }
    }

    fn execute(&self, script: &str) {
        self.runtime.block_on(self.client.batch_execute(script)).unwrap();
    }

    /// Returns the median time of a query.
    fn median(&self, times: usize, sql: &str) -> Duration {
        let statement = self.runtime.block_on(self.client.prepare(sql)).unwrap();
        median(times, || drop(self.runtime.block_on(self.client.query(&statement, &[])).unwrap()))
    }
}

async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

fn fresh(url: &str) -> Arc<PgLog> {
    let plain = Plain::new(url);
    plain.execute("DROP SCHEMA IF EXISTS bench_retake CASCADE");
    plain.execute(PLAIN);
    let mut config: Config = format!("{url}?schema=bench_retake").parse().unwrap();
    config.pool_size = 16;
    PgLog::init(config.clone(), "bench", "file:///nowhere", None).unwrap();
    Arc::new(PgLog::open(config).unwrap())
}

fn appends(url: &str, log: &Arc<PgLog>, writers: usize) {
    let mut rates = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        rates.0.push(ours(log, writers, |log, writer| {
            let key = format!("{writers} {writer} {round}");
            let id = log.append(batch(None, 0, &key)).unwrap().head.id;
            let log = Arc::clone(log);
            let mut n = 0;
            Box::new(move || {
                n += 1;
                log.append(batch(Some(id), n, &format!("{key} {n}"))).unwrap();
            })
        }));
        rates.1.push(theirs(url, writers, move |client, writer| {
            Box::pin(async move {
                let number = (round * 1000 + writers * 100 + writer) as i32;
                let bytes = vec![7u8; 700];
                client
                    .execute("INSERT INTO bench_plain.heads VALUES (1, $1, 0, $2, 0, 0)", &[&number, &vec![0u8; 32]])
                    .await
                    .unwrap();
                let add = client.prepare("SELECT bench_plain.add(1, $1, $2, $3, $4, $5, $6)").await.unwrap();
                let (mut tip, mut seq, started) = (vec![0u8; 32], 0i32, Instant::now());
                while started.elapsed() < APPEND_TIME {
                    let key = blake3::hash(format!("{number} {seq}").as_bytes()).as_bytes()[..16].to_vec();
                    let next = blake3::hash(&bytes).as_bytes().to_vec();
                    client.query_one(&add, &[&number, &seq, &tip, &next, &key, &bytes]).await.unwrap();
                    tip = next;
                    seq += 1;
                }
                u64::try_from(seq).unwrap()
            })
        }));
    }
    show(&format!("appends/s to sessions of their own, {writers} writers"), rates);
}

fn creates(url: &str, log: &Arc<PgLog>, writers: usize) {
    let mut rates = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        rates.0.push(ours(log, writers, |log, writer| {
            let log = Arc::clone(log);
            let mut n = 0;
            Box::new(move || {
                n += 1;
                log.append(batch(None, n, &format!("create {writers} {writer} {round} {n}"))).unwrap();
            })
        }));
        rates.1.push(theirs(url, writers, move |client, writer| {
            Box::pin(async move {
                let sql = "SELECT bench_plain.create_session(2, $1, $2, $3, $4)";
                let create = client.prepare(sql).await.unwrap();
                let (bytes, first, started, mut n) = (vec![7u8; 700], vec![7u8; 170], Instant::now(), 0u64);
                while started.elapsed() < APPEND_TIME {
                    let key = blake3::hash(format!("{writers} {writer} {round} {n} new").as_bytes());
                    let key = key.as_bytes()[..16].to_vec();
                    client.query_one(&create, &[&vec![0u8; 32], &key, &first, &bytes]).await.unwrap();
                    n += 1;
                }
                n
            })
        }));
    }
    show(&format!("new sessions/s of one day, {writers} writers"), rates);
}

fn history(log: &PgLog, plain: &Plain) {
    let id = log.append(batch(None, 0, "history")).unwrap().head.id;
    for n in 1..200 {
        log.append(batch(Some(id), n, &format!("history {n}"))).unwrap();
    }
    let number = id.number();
    let day = retake_day(id);
    let sql = format!("SELECT bytes FROM bench_retake.records WHERE day = {day} AND number = {number} ORDER BY seq");
    let bare = plain.median(300, &sql);
    let records = median(300, || drop(log.records(id).unwrap()));
    let events = median(300, || drop(log.events(id, Detail::Full).unwrap()));
    println!(
        "history of 200: bare query {}, records {} ({:.2}x), decoded and verified {} ({:.2}x)",
        micros(bare),
        micros(records),
        ratio(records, bare),
        micros(events),
        ratio(events, bare)
    );
}

fn page(log: &PgLog, plain: &Plain, sessions: u32) {
    plain.execute(&format!(
        "INSERT INTO bench_retake.heads SELECT 700000 + n / 1000, n % 1000 + 1, 2, decode(repeat('00', 32), 'hex'), NULL, \
         NULL, n % 10 = 0, 1700000000000 + n * 977 % 1000003, 1700000000000 + n * 977 % 1000003, 1, 0, 1 \
         FROM generate_series(1, {sessions}) AS n; ANALYZE bench_retake.heads; \
         CREATE INDEX bare ON bench_retake.heads (modified DESC, day DESC, number DESC)"
    ));
    let sql = "SELECT day, number, title, project, archived, created, modified, iteration_count FROM bench_retake.heads \
               ORDER BY modified DESC, day DESC, number DESC LIMIT 100";
    let bare = plain.median(500, sql);
    plain.execute("DROP INDEX bench_retake.bare");
    let ours = median(500, || {
        assert_eq!(log.page(Status::All, Order::Recent, None, 100).unwrap().len(), 100);
    });
    println!(
        "first page of 100 among {sessions} sessions: bare query with an index of its own {}, ours {} ({:.2}x)",
        micros(bare),
        micros(ours),
        ratio(ours, bare)
    );
}

fn catch_up(log: &PgLog, plain: &Plain, iterations: u32) {
    // Real records, so that they decode; the server copies them into place.
    plain.execute(&format!(
        "INSERT INTO bench_retake.records (day, number, seq, kind, ord, bytes) \
         SELECT 600000 + n / 1000, n % 1000 + 1, 1, 2, 5, r.bytes FROM generate_series(1, {iterations}) AS n, \
         (SELECT bytes FROM bench_retake.records WHERE kind = 2 LIMIT 1) AS r"
    ));
    let started = Instant::now();
    let (mut cursor, mut events) = (Cursor::START, 0);
    loop {
        let (more, next, complete) = log.since(cursor).unwrap();
        events += more.len();
        cursor = next;
        if complete {
            break;
        }
    }
    let rate = events as f64 / started.elapsed().as_secs_f64();
    println!("reading and verifying {events} records in commit order: {:.1?} ({rate:.0}/s)", started.elapsed());
}

/// Runs our appends on threads; returns how many a second.
fn ours(log: &Arc<PgLog>, writers: usize, prepare: impl Fn(&Arc<PgLog>, usize) -> Box<dyn FnMut() + Send>) -> f64 {
    let work: Vec<_> = (0..writers).map(|writer| prepare(log, writer)).collect();
    let started = Instant::now();
    let threads: Vec<_> = work
        .into_iter()
        .map(|mut work| {
            std::thread::spawn(move || {
                let (started, mut count) = (Instant::now(), 0u64);
                while started.elapsed() < APPEND_TIME {
                    work();
                    count += 1;
                }
                count
            })
        })
        .collect();
    let total: u64 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
    total as f64 / started.elapsed().as_secs_f64()
}

type Work = std::pin::Pin<Box<dyn Future<Output = u64> + Send>>;

/// Runs plain SQL on as many connections; returns how many a second.
fn theirs(url: &str, writers: usize, work: impl Fn(Client, usize) -> Work) -> f64 {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let mut clients = Vec::new();
        for _ in 0..writers {
            clients.push(connect(url).await);
        }
        let started = Instant::now();
        let tasks: Vec<_> =
            clients.into_iter().enumerate().map(|(writer, client)| tokio::spawn(work(client, writer))).collect();
        let mut total = 0;
        for task in tasks {
            total += task.await.unwrap();
        }
        total as f64 / started.elapsed().as_secs_f64()
    })
}

fn show(what: &str, (mut ours, mut plain): (Vec<f64>, Vec<f64>)) {
    let mut ratios: Vec<f64> = ours.iter().zip(&plain).map(|(ours, plain)| ours / plain).collect();
    for list in [&mut ours, &mut plain, &mut ratios] {
        list.sort_by(f64::total_cmp);
    }
    let middle = ROUNDS / 2;
    println!("{what}: ours {:.0}, plain SQL {:.0}, ratio {:.2}", ours[middle], plain[middle], ratios[middle]);
}

fn median(times: usize, mut work: impl FnMut()) -> Duration {
    let mut taken: Vec<Duration> = (0..times)
        .map(|_| {
            let started = Instant::now();
            work();
            started.elapsed()
        })
        .collect();
    taken.sort();
    taken[times / 2]
}

fn ratio(one: Duration, other: Duration) -> f64 {
    one.as_secs_f64() / other.as_secs_f64()
}

fn micros(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1000.0)
}

fn retake_day(id: SessionId) -> i64 {
    id.day().signed_duration_since("0001-01-01".parse().unwrap()).num_days() + 1
}

/// Returns a batch with a recipe and an image of usual length: its record has about 700 bytes.
fn batch(session: Option<SessionId>, n: u32, key: &str) -> Batch {
    let at = Timestamp::from_millis(1_765_447_200_000 + i64::from(n)).unwrap();
    let iteration = Iteration {
        created_at: at,
        recipe: Recipe {
            prompt: format!("a lighthouse at dusk, oil on canvas, study {n}, wide brush strokes, muted palette, fog"),
            negative_prompt: Some("blurry, low contrast, watermark".to_owned()),
            model: Some("sd_xl_base_1.0".to_owned()),
            seed: Some(Seed(u64::from(n))),
            steps: Some(28),
            guidance_scale: Some(6.5),
            sampler: Some("DPM++ 2M Karras".to_owned()),
            width: Some(1024),
            height: Some(1024),
            ..Recipe::default()
        },
        outcome: Outcome::default(),
        images: vec![ImageRef {
            hash: Hash::of(key.as_bytes()),
            bytes: 1_500_000,
            mime_type: "image/png".to_owned(),
            width: Some(1024),
            height: Some(1024),
            name: Some(format!("lighthouse-{n}.png")),
            pixels: Some(Hash::of(key.as_bytes())),
            perceptual_hash: None,
            linked: None,
        }],
        parent: None,
        parent_reason: None,
        likely_parent: None,
    };
    let record = Draft::Record(Box::new(iteration));
    let (target, drafts) = match session {
        Some(id) => (Target::Existing(id), vec![record]),
        None => (Target::New(at.day()), vec![Draft::Start { title: None, project: None }, record]),
    };
    let actor = Actor { client: "bench 1.0".to_owned(), user: "ada".to_owned() };
    Batch { target, expected_iterations: None, at, actor, key: key.to_owned(), drafts }
}
