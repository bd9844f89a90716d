//! A team workspace compared with plain SQL that does the same job, on one PostgreSQL server in one run.
//!
//! A separate program rather than a part of `retake-benches`, so that the others do not need a server:
//! `cargo run --release -p retake-team --example team -- postgres://postgres@127.0.0.1:5432/postgres [SESSIONS [QUESTION…]]`,
//! where the questions are `appends`, `creates`, `history`, `page` and `catch-up`, by default all. Uses and drops the
//! schemas `bench_retake`, `bench_same` and `bench_bare`.
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

use retake_log::model::{
    Actor, Draft, Hash, Head, ImageRef, Iteration, Outcome, Query, Recipe, Seed, SessionId, Timestamp,
};
use retake_log::store::carrier::encode_batch;
use retake_log::store::{Batch, Clock, Detail, Order, Status, Target};
use retake_search::{Index, Question, Sizes, Sort};
use retake_team::{Config, Cursor, PgLog, open_log};
use tokio_postgres::{Client, NoTls};

/// The duration of each measurement of appends: short, because the latency of a disk changes from second to second, so
/// that only engines that alternate quickly see the same disk.
const APPEND_TIME: Duration = Duration::from_millis(300);
/// The number of rounds in which the engines alternate, for appends.
const APPEND_ROUNDS: usize = 61;
/// The same for reads.
const ROUNDS: usize = 15;
/// The number of iterations per session from which a new machine catches up.
const LENGTH: u32 = 200;
/// The interval at which plain SQL notifies its followers, as in Retake.
const NOTIFY_INTERVAL: Duration = Duration::from_millis(25);
/// The length of a plain SQL record of an iteration, as in Retake.
const RECORD_LENGTH: usize = 560;
/// The offset in a plain SQL record of its session number and the hash of its predecessor.
const LINK: usize = 16;

/// The schemas of plain SQL. `bench_same` does the same job: compare-and-swap on a head whose hash the record contains,
/// a unique key, a gap-free number per day, the commit order and the role for followers and audits, and totals.
/// `bench_bare` leaves out the last three.
const PLAIN_SCHEMAS: [&str; 2] = ["bench_same", "bench_bare"];

fn plain_script(schema: &str) -> String {
    let same = schema == "bench_same";
    let order = if same {
        ", ord bigint NOT NULL, pos bigint GENERATED ALWAYS AS IDENTITY, role name NOT NULL DEFAULT session_user"
    } else {
        ""
    };
    let index = if same { "CREATE INDEX ON records (ord, pos);" } else { "" };
    let columns = if same { "day, number, seq, bytes, ord" } else { "day, number, seq, bytes" };
    let ord = if same { ", pg_current_xact_id()::text::bigint" } else { "" };
    let count = |sessions: u32, events: u32| {
        let sql = format!(
            "UPDATE counters SET sessions = sessions + {sessions}, events = events + {events} \
             WHERE slot = pg_backend_pid() % 128;"
        );
        if same { sql } else { String::new() }
    };
    let (one, two) = (count(0, 1), count(1, 2));
    format!(
        "
DROP SCHEMA IF EXISTS {schema} CASCADE; CREATE SCHEMA {schema}; SET search_path = {schema};
CREATE TABLE heads (day int, number int, next_seq int NOT NULL, tip bytea NOT NULL, modified bigint NOT NULL,
    count int NOT NULL, PRIMARY KEY (day, number)) WITH (fillfactor = 85);
CREATE INDEX ON heads (modified DESC, day DESC, number DESC);
CREATE TABLE records (day int, number int, seq int, bytes bytea NOT NULL{order}, PRIMARY KEY (day, number, seq));
{index}
CREATE TABLE keys (key bytea PRIMARY KEY, day int, number int, index int);
CREATE TABLE days (day int PRIMARY KEY, last int NOT NULL);
CREATE TABLE counters (slot int PRIMARY KEY, sessions bigint NOT NULL, events bigint NOT NULL) WITH (fillfactor = 50);
INSERT INTO counters SELECT n, 0, 0 FROM generate_series(0, 127) AS n;
INSERT INTO days VALUES (2, 0);
CREATE FUNCTION add(p_day int, p_number int, p_seq int, p_prev bytea, p_tip bytea, p_key bytea, p_bytes bytea)
RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    UPDATE heads SET next_seq = next_seq + 1, tip = p_tip, modified = modified + 1, count = count + 1
        WHERE day = p_day AND number = p_number AND next_seq = p_seq AND tip = p_prev;
    IF NOT FOUND THEN RETURN false; END IF;
    INSERT INTO keys VALUES (p_key, p_day, p_number, p_seq);
    INSERT INTO records ({columns}) VALUES (p_day, p_number, p_seq, p_bytes{ord});
    {one}
    RETURN true;
END $$ SET search_path = {schema};
CREATE FUNCTION create_session(p_day int, p_number int, p_tip bytea, p_key bytea, p_first bytea, p_second bytea)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE days SET last = p_number WHERE day = p_day;
    INSERT INTO keys VALUES (p_key, p_day, p_number, 0);
    INSERT INTO heads VALUES (p_day, p_number, 2, p_tip, p_number, 1);
    INSERT INTO records ({columns}) VALUES (p_day, p_number, 0, p_first{ord}), (p_day, p_number, 1, p_second{ord});
    {two}
END $$ SET search_path = {schema};
-- Chooses the number itself, which therefore cannot be part of the records.
CREATE FUNCTION create_numbered(p_day int, p_tip bytea, p_key bytea, p_first bytea, p_second bytea)
RETURNS int LANGUAGE plpgsql AS $$
DECLARE n int;
BEGIN
    SELECT last + 1 INTO n FROM days WHERE day = p_day FOR UPDATE;
    PERFORM create_session(p_day, n, p_tip, p_key, p_first, p_second);
    RETURN n;
END $$ SET search_path = {schema};"
    )
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().unwrap_or_else(|| "postgres://postgres@127.0.0.1:5432/postgres".to_owned());
    let sessions: u32 = arguments.next().map_or(100_000, |count| count.parse().unwrap());
    let wanted: Vec<String> = arguments.collect();
    let wants = |question: &str| wanted.is_empty() || wanted.iter().any(|wanted| wanted == question);
    let plain = Plain::new(&url);
    let log = fresh(&url);
    println!("round trip of `SELECT 1`: {}", micros(plain.median(200, "SELECT 1")));
    for writers in [1, 16] {
        if wants("appends") {
            appends(&url, &log, writers);
        }
        if wants("creates") {
            creates(&url, &log, writers);
        }
    }
    if wants("history") {
        history(&log, &plain);
    }
    if wants("page") {
        page(&log, &plain, sessions);
    }
    if wants("catch-up") {
        catch_up(&url, &log, sessions);
    }
    plain.execute("DROP SCHEMA bench_same CASCADE; DROP SCHEMA bench_bare CASCADE; DROP SCHEMA bench_retake CASCADE");
}

/// A plain connection without any of our code.
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
    PLAIN_SCHEMAS.iter().for_each(|schema| plain.execute(&plain_script(schema)));
    PgLog::init(config(url), "bench", "file:///nowhere", None).unwrap();
    Arc::new(PgLog::open(config(url)).unwrap())
}

fn config(url: &str) -> Config {
    format!("{url}?schema=bench_retake").parse().unwrap()
}

fn appends(url: &str, log: &Arc<PgLog>, writers: usize) {
    let mut rates = Rates::new(&PLAIN_SCHEMAS);
    for round in 0..APPEND_ROUNDS {
        rates.ours.push(ours(log, writers, |log, writer| {
            let key = format!("{writers} {writer} {round}");
            let id = log.append(batch(None, 0, &key)).unwrap().head.id;
            let log = Arc::clone(log);
            let mut n = 0;
            Box::new(move || {
                n += 1;
                log.append(batch(Some(id), n, &format!("{key} {n}"))).unwrap();
            })
        }));
        for (peer, schema) in PLAIN_SCHEMAS.into_iter().enumerate() {
            rates.peers[peer].push(theirs(url, writers, move |client, writer| {
                Box::pin(async move {
                    let number = (round * 1000 + writers * 100 + writer) as i32;
                    let sql = format!("INSERT INTO {schema}.heads VALUES (1, $1, 0, $2, 0, 0)");
                    client.execute(&sql, &[&number, &vec![0u8; 32]]).await.unwrap();
                    let add = format!("SELECT {schema}.add(1, $1, $2, $3, $4, $5, $6)");
                    let add = client.prepare(&add).await.unwrap();
                    let (mut tip, mut seq, started) = (vec![0u8; 32], 0i32, Instant::now());
                    while started.elapsed() < APPEND_TIME {
                        let key = blake3::hash(format!("{number} {seq}").as_bytes()).as_bytes()[..16].to_vec();
                        let (bytes, next) = linked_record(RECORD_LENGTH, number, &tip);
                        client.query_one(&add, &[&number, &seq, &tip, &next, &key, &bytes]).await.unwrap();
                        tip = next;
                        seq += 1;
                    }
                    u64::try_from(seq).unwrap()
                })
            }));
        }
    }
    rates.show(&format!("appends/s to sessions of their own, {writers} writers"));
}

fn creates(url: &str, log: &Arc<PgLog>, writers: usize) {
    const PEERS: [&str; 2] = ["same job", "number outside the records"];
    let mut rates = Rates::new(&PEERS);
    for round in 0..APPEND_ROUNDS {
        rates.ours.push(ours(log, writers, |log, writer| {
            let log = Arc::clone(log);
            let mut n = 0;
            Box::new(move || {
                n += 1;
                log.append(batch(None, n, &format!("create {writers} {writer} {round} {n}"))).unwrap();
            })
        }));
        for (peer, rates) in rates.peers.iter_mut().enumerate() {
            rates.push(theirs(url, writers, move |client, writer| {
                Box::pin(async move {
                    let lock = "SELECT last FROM bench_same.days WHERE day = 2 FOR UPDATE";
                    let lock = client.prepare(lock).await.unwrap();
                    let create = "SELECT bench_same.create_session(2, $1, $2, $3, $4, $5)";
                    let create = client.prepare(create).await.unwrap();
                    let numbered = "SELECT bench_same.create_numbered(2, $1, $2, $3, $4)";
                    let numbered = client.prepare(numbered).await.unwrap();
                    let (started, mut n) = (Instant::now(), 0u64);
                    while started.elapsed() < APPEND_TIME {
                        let key = blake3::hash(format!("{peer} {writers} {writer} {round} {n} new").as_bytes());
                        let key = key.as_bytes()[..16].to_vec();
                        if peer == 0 {
                            client.batch_execute("BEGIN").await.unwrap();
                            let last: i32 = client.query_one(&lock, &[]).await.unwrap().get(0);
                            let (first, tip) = linked_record(170, last + 1, &[0; 32]);
                            let (second, tip) = linked_record(RECORD_LENGTH, last + 1, &tip);
                            client.query_one(&create, &[&(last + 1), &tip, &key, &first, &second]).await.unwrap();
                            client.batch_execute("COMMIT").await.unwrap();
                        } else {
                            let (first, tip) = linked_record(170, 0, &[0; 32]);
                            let (second, tip) = linked_record(RECORD_LENGTH, 0, &tip);
                            client.query_one(&numbered, &[&tip, &key, &first, &second]).await.unwrap();
                        }
                        n += 1;
                    }
                    n
                })
            }));
        }
    }
    rates.show(&format!("new sessions/s of one day, {writers} writers"));
}

/// Returns a plain SQL record, which contains its session and the hash of its predecessor, and its own hash.
fn linked_record(length: usize, number: i32, tip: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let mut bytes = vec![7u8; length];
    bytes[LINK..LINK + 4].copy_from_slice(&number.to_le_bytes());
    bytes[LINK + 4..LINK + 36].copy_from_slice(tip);
    let hash = blake3::hash(&bytes).as_bytes().to_vec();
    (bytes, hash)
}

fn history(log: &PgLog, plain: &Plain) {
    let id = log.append(batch(None, 0, "history")).unwrap().head.id;
    for n in 1..200 {
        log.append(batch(Some(id), n, &format!("history {n}"))).unwrap();
    }
    let number = id.number();
    let day = retake_day(id);
    let sql = format!("SELECT bytes FROM bench_retake.records WHERE day = {day} AND number = {number} ORDER BY seq");
    let (mut bytes, mut decoded) = (Times::default(), Times::default());
    for _ in 0..ROUNDS {
        let bare = plain.median(200, &sql);
        bytes.push(median(200, || drop(log.records(id).unwrap())), bare);
        decoded.push(median(200, || drop(log.events(id, Detail::Full).unwrap())), bare);
    }
    bytes.show("history of 200, bytes");
    decoded.show("history of 200, decoded and verified");
}

fn page(log: &PgLog, plain: &Plain, sessions: u32) {
    plain.execute(&format!(
        "INSERT INTO bench_retake.heads SELECT 700000 + n / 1000, n % 1000 + 1, 2, decode(repeat('00', 32), 'hex'), NULL, \
         NULL, n % 10 = 0, 1700000000000 + n * 977 % 1000003, 1700000000000 + n * 977 % 1000003, 1, 0, 1 \
         FROM generate_series(1, {sessions}) AS n; ANALYZE bench_retake.heads; \
         CREATE TABLE bench_bare.listing AS SELECT day, number, title, project, archived, created, modified, \
         iteration_count FROM bench_retake.heads; \
         CREATE INDEX ON bench_bare.listing (modified DESC, day DESC, number DESC); ANALYZE bench_bare.listing"
    ));
    let sql = "SELECT * FROM bench_bare.listing ORDER BY modified DESC, day DESC, number DESC LIMIT 100";
    let mut times = Times::default();
    for _ in 0..ROUNDS {
        let bare = plain.median(200, sql);
        let ours = median(200, || {
            assert_eq!(log.page(Status::All, Order::Recent, None, 100).unwrap().len(), 100);
        });
        times.push(ours, bare);
    }
    times.show(&format!("first page of 100 among {sessions} sessions, the bare query on a table of its own"));
}

/// Fills the log with real sessions of [`LENGTH`] iterations each, and lets a new machine read them and build its
/// index.
fn catch_up(url: &str, log: &Arc<PgLog>, iterations: u32) {
    let started = Instant::now();
    let sessions = iterations / LENGTH;
    let threads: Vec<_> = (0..4)
        .map(|thread| {
            let log = Arc::clone(log);
            std::thread::spawn(move || {
                for session in (thread..sessions).step_by(4) {
                    log.import(&written_session(session), &|_| None).unwrap();
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    println!("importing {sessions} sessions of {LENGTH} iterations: {:.1?}", started.elapsed());
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
    let dir = std::env::temp_dir().join(format!("retake-bench-team-{}", std::process::id()));
    let now = Timestamp::from_millis(1_765_447_200_000).unwrap();
    let clock: Clock = Arc::new(move || now);
    let carrier = open_log(config(url), &dir, clock, Arc::new(|_| Ok(())))().unwrap();
    let index = Index::new(&dir, Sizes::default());
    let question = Question {
        query: Query::parse("lighthouse", now).unwrap(),
        perceptual_hash: None,
        pixels: None,
        except: None,
        sort: Sort::Newest,
        shuffle: None,
        after: None,
        skip: 0,
        limit: 50,
        facets: false,
        per_session: false,
    };
    let started = Instant::now();
    let found = index.search(&*carrier, &question, None).unwrap();
    println!("first search on a new machine, which builds the index: {:.1?} ({} hits)", started.elapsed(), found.total);
    let started = Instant::now();
    index.search(&*carrier, &question, None).unwrap();
    println!("the next search: {}", micros(started.elapsed()));
    let _ = std::fs::remove_dir_all(&dir);
}

/// Returns the records of a session on a separate day, with words drawn from a vocabulary of 50,000.
fn written_session(session: u32) -> Vec<Vec<u8>> {
    let day = |n: u32| Timestamp::from_millis(i64::from(n) * 86_400_000).unwrap().day();
    let mut head = Head::new(SessionId::new(day(session), std::num::NonZeroU32::MIN).unwrap());
    let mut state = u64::from(session) + 1;
    let mut records = Vec::new();
    for n in 0..LENGTH {
        let mut sent = batch((n > 0).then_some(head.id), n, &format!("written {session} {n}"));
        sent.at = Timestamp::from_millis(i64::from(session) * 86_400_000 + i64::from(n)).unwrap();
        for draft in &mut sent.drafts {
            if let Draft::Record(iteration) = draft {
                iteration.created_at = sent.at;
                for _ in 0..12 {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    iteration.recipe.prompt.push_str(&format!(" word{}", (state >> 33) % 50_000));
                }
            }
        }
        if n == 0 {
            sent.target = Target::New(day(session));
        }
        let encoded = encode_batch(head, &sent).unwrap();
        head = encoded.head;
        records.extend(encoded.records.into_iter().map(|record| record.bytes));
    }
    records
}

/// Runs our appends on threads, and returns the rate per second.
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

/// Runs plain SQL on as many connections, and returns the rate per second.
fn theirs(url: &str, writers: usize, work: impl Fn(Client, usize) -> Work) -> f64 {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let mut clients = Vec::new();
        for _ in 0..writers {
            clients.push(connect(url).await);
        }
        let notifier = connect(url).await;
        let notifying = tokio::spawn(async move {
            loop {
                tokio::time::sleep(NOTIFY_INTERVAL).await;
                notifier.batch_execute("NOTIFY bench_plain").await.unwrap();
            }
        });
        let started = Instant::now();
        let tasks: Vec<_> =
            clients.into_iter().enumerate().map(|(writer, client)| tokio::spawn(work(client, writer))).collect();
        let mut total = 0;
        for task in tasks {
            total += task.await.unwrap();
        }
        notifying.abort();
        total as f64 / started.elapsed().as_secs_f64()
    })
}

/// The rates of Retake and its peers, one per round.
struct Rates {
    ours: Vec<f64>,
    names: Vec<&'static str>,
    peers: Vec<Vec<f64>>,
}

impl Rates {
    fn new(names: &[&'static str]) -> Rates {
        Rates { ours: Vec::new(), names: names.to_vec(), peers: vec![Vec::new(); names.len()] }
    }

    /// Prints medians, and for each peer the median of the rounds' ratios with both quartiles.
    fn show(&self, what: &str) {
        println!("{what}: ours {:.0}", middle(&self.ours));
        for (name, rates) in self.names.iter().zip(&self.peers) {
            let mut ratios: Vec<f64> = self.ours.iter().zip(rates).map(|(ours, peer)| ours / peer).collect();
            ratios.sort_by(f64::total_cmp);
            let (rate, ratio) = (middle(rates), middle(&ratios));
            let quartile = |n: usize| ratios[ratios.len() * n / 4];
            println!("    {name} {rate:.0}, ratio {ratio:.2} (quartiles {:.2}, {:.2})", quartile(1), quartile(3));
        }
    }
}

/// The median times of Retake and of the bare query, one pair per round.
#[derive(Default)]
struct Times(Vec<(Duration, Duration)>);

impl Times {
    fn push(&mut self, ours: Duration, bare: Duration) {
        self.0.push((ours, bare));
    }

    /// Prints medians, and the median of the rounds' ratios with the lowest and the highest.
    fn show(&self, what: &str) {
        let millis = |time: Duration| time.as_secs_f64() * 1000.0;
        let (ours, bare): (Vec<f64>, Vec<f64>) =
            self.0.iter().map(|(ours, bare)| (millis(*ours), millis(*bare))).unzip();
        let mut ratios: Vec<f64> = ours.iter().zip(&bare).map(|(ours, bare)| ours / bare).collect();
        ratios.sort_by(f64::total_cmp);
        println!(
            "{what}: ours {:.2} ms, bare query {:.2} ms, ratio {:.2} ({:.2} to {:.2})",
            middle(&ours),
            middle(&bare),
            middle(&ratios),
            ratios[0],
            ratios[ratios.len() - 1]
        );
    }
}

fn middle(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
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

fn micros(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1000.0)
}

fn retake_day(id: SessionId) -> i64 {
    id.day().signed_duration_since("0001-01-01".parse().unwrap()).num_days() + 1
}

/// Returns a batch with a recipe and an image of typical length: its record has about [`RECORD_LENGTH`] bytes.
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
