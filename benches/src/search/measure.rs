//! How fast is search? A page of the 50 newest matches and the exact total, from a million iterations, compared with
//! SQLite's FTS5 with the same words and the same columns.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use retake::internals::model::{
    Actor, AnnotationChange, Draft, Hash, ImageRef, Iteration, Lora, Outcome, PerceptualHash, Query, Recipe, Seed,
    Timestamp,
};
use retake::internals::search::{Index, Question, Sizes};
use retake::internals::store::{Batch, Options, Store, Target};
use rusqlite::{Connection, params};

/// The number of iterations in a session.
const LENGTH: u64 = 100;
/// The number of different words.
const VOCABULARY: f64 = 60_000.0;
/// The number of words in a prompt.
const PROMPT: usize = 25;
/// The number of rows on a page.
const PAGE: usize = 50;
/// The time of the first iteration, 2024-01-01, in milliseconds.
const FIRST: i64 = 1_704_067_200_000;
/// The time between two iterations, in milliseconds.
const EVERY: i64 = 30_000;

/// One measured query: its name, our time and that of FTS5 in milliseconds, and the number of matches.
pub(crate) struct Measured {
    pub(crate) name: String,
    pub(crate) ours: f64,
    pub(crate) theirs: f64,
    pub(crate) total: u64,
}

/// All measurements.
pub(crate) struct Results {
    pub(crate) questions: Vec<Measured>,
    /// Single measurements: a name and a value with its unit.
    pub(crate) facts: Vec<(String, String)>,
}

/// Measures with this many sessions of a hundred iterations, in `dir`, where data sets are kept between runs.
pub(crate) fn measure(dir: &Path, sessions: u64, rounds: usize, say: &dyn Fn(&str)) -> Results {
    let mut facts: Vec<(String, String)> = Vec::new();
    let workspace = dir.join(format!("search-retake-{sessions}"));
    if !workspace.join("done").exists() {
        let _ = fs::remove_dir_all(&workspace);
        let started = Instant::now();
        fill(&workspace, sessions);
        fs::write(workspace.join("done"), "").unwrap();
        say(&format!("log filled in {:.0} s", started.elapsed().as_secs_f64()));
    }
    let path = dir.join(format!("search-fts5-{sessions}.db"));
    if !path.exists() {
        let started = Instant::now();
        fill_fts5(&path, sessions);
        let reported = format!("{:.1} s", started.elapsed().as_secs_f64());
        say(&format!("FTS5 filled in {reported}"));
        fs::write(path.with_extension("time"), reported).unwrap();
    }
    facts.push(("FTS5 with its columns: filling".into(), fs::read_to_string(path.with_extension("time")).unwrap()));
    facts.push(("FTS5 with its columns: size".into(), format!("{} MB", fs::metadata(&path).unwrap().len() >> 20)));

    let store = open(&workspace);
    let _ = fs::remove_dir_all(workspace.join("cache"));
    let before = resident();
    let index = Index::new(&workspace, Sizes::default());
    let started = Instant::now();
    index.search(&store, &question("zzz", false), None).unwrap();
    facts.push(("index: made from the log".into(), format!("{:.1} s", started.elapsed().as_secs_f64())));
    let started = Instant::now();
    index.tend(&store);
    facts.push(("index: merged in the background".into(), format!("{:.1} s", started.elapsed().as_secs_f64())));
    index.close(&store);
    facts.push(("index: size".into(), format!("{} MB", size(&workspace.join("cache")) >> 20)));
    facts.push(("index: memory while made".into(), format!("{} MB", (resident().saturating_sub(before)) >> 20)));
    drop(index);

    let index = Index::new(&workspace, Sizes::default());
    let started = Instant::now();
    index.search(&store, &question("\"w300\"", false), None).unwrap();
    facts.push(("index: opened, and the first question".into(), ms(started.elapsed().as_secs_f64() * 1e3)));
    let connection = Connection::open(&path).unwrap();
    connection.pragma_update(None, "mmap_size", 4i64 << 30).unwrap();
    connection.pragma_update(None, "cache_size", -65536).unwrap();

    let mut questions = Vec::new();
    for (name, query, fts, facet) in [
        ("a frequent word", "\"w1\"", "w1", None),
        ("a word of one in fifty", "\"w100\"", "w100", None),
        ("a rare word", "\"w50000\"", "w50000", None),
        ("two frequent words", "\"w1\" \"w2\"", "w1 w2", None),
        ("a frequent and a rare word", "\"w1\" \"w30000\"", "w1 w30000", None),
        ("a phrase of frequent words", "\"w1 w2\"", "\"w1 w2\"", None),
        ("a phrase of rarer words", "\"w90 w110\"", "\"w90 w110\"", None),
        ("a beginning of few words", "w4999*", "w4999*", None),
        ("a beginning of many words", "w12*", "w12*", None),
        ("one word and not another", "\"w5\" -\"w1\"", "w5 NOT w1", None),
        ("a frequent word, a model", "\"w1\" model:\"model-3\"", "w1", Some("model = 'model-3'")),
        (
            "a word, a model, a rating",
            "\"w20\" model:\"model-2\" rating:>=4",
            "w20",
            Some("model = 'model-2' AND rating >= 4"),
        ),
        ("a word and a month", "\"w20\" on:2024-03", "w20", Some("made >= 1709251200000 AND made < 1711929600000")),
    ] {
        let mut theirs = fts5(&connection, fts, facet);
        let asked = question(query, false);
        let measured = rounds_of(rounds, || index.search(&store, &asked, None).unwrap().total, &mut theirs);
        questions.push(Measured { name: name.to_owned(), ..measured });
    }
    for (name, query, fts) in
        [("counts for a word of one in fifty", "\"w100\"", "w100"), ("counts for a frequent word", "\"w1\"", "w1")]
    {
        let asked = question(query, true);
        let mut theirs = fts5_counts(&connection, fts);
        let measured = rounds_of(rounds.min(5), || index.search(&store, &asked, None).unwrap().total, &mut theirs);
        questions.push(Measured { name: name.to_owned(), ..measured });
    }
    // FTS5 has no such query: words that contain a part are found in the vocabulary, which the first search reads.
    for (name, query) in
        [("a part of some words, first", "4999"), ("a part of some words", "4999"), ("a part of many words", "123")]
    {
        let asked = question(query, false);
        let started = Instant::now();
        let total = index.search(&store, &asked, None).unwrap().total;
        facts.push((format!("{name} ({total} matches)"), ms(started.elapsed().as_secs_f64() * 1e3)));
    }
    let asked = Question { perceptual_hash: Some(perceptual_hash(17)), ..question("", false) };
    let mut theirs = sqlite_scan(&connection, perceptual_hash(17).0);
    let measured = rounds_of(rounds.min(5), || index.search(&store, &asked, None).unwrap().total, &mut theirs);
    questions.push(Measured { name: "similar looks (SQLite: read and compared)".to_owned(), ..measured });
    facts.push(("index: memory after all questions".into(), format!("{} MB", resident().saturating_sub(before) >> 20)));
    drop(index);
    store.close().unwrap();
    facts.extend(append_cost(&dir.join("search-append")));
    Results { questions, facts }
}

fn question(query: &str, facets: bool) -> Question {
    let query = Query::parse(query, Timestamp::from_millis(FIRST).unwrap()).unwrap();
    Question { facets, ..Question::new(query, PAGE) }
}

/// Runs both alternately, and returns the medians.
fn rounds_of(rounds: usize, ours: impl Fn() -> u64, theirs: &mut dyn FnMut() -> u64) -> Measured {
    let (mut our_times, mut their_times, mut total) = (Vec::new(), Vec::new(), 0);
    for round in 0..=rounds {
        let started = Instant::now();
        total = ours();
        let our_time = started.elapsed().as_secs_f64() * 1e3;
        let started = Instant::now();
        let their_total = theirs();
        let their_time = started.elapsed().as_secs_f64() * 1e3;
        assert_eq!(total, their_total, "the engines disagree");
        // The first round warms both.
        if round > 0 {
            our_times.push(our_time);
            their_times.push(their_time);
        }
    }
    Measured { name: String::new(), ours: median(our_times), theirs: median(their_times), total }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Queries the page and the total from SQLite.
fn fts5<'a>(connection: &'a Connection, query: &str, facet: Option<&str>) -> Box<dyn FnMut() -> u64 + 'a> {
    let from = match facet {
        Some(facet) => {
            format!("FROM words JOIN iterations ON iterations.id = words.rowid WHERE words MATCH ?1 AND {facet}")
        }
        None => "FROM words WHERE words MATCH ?1".to_owned(),
    };
    let page = format!("SELECT words.rowid {from} ORDER BY words.rowid DESC LIMIT {PAGE}");
    let count = format!("SELECT count(*) {from}");
    let query = query.to_owned();
    Box::new(move || {
        let mut page = connection.prepare_cached(&page).unwrap();
        let rows: Vec<i64> = page.query_map([&query], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
        assert!(rows.len() <= PAGE);
        let mut count = connection.prepare_cached(&count).unwrap();
        let total: i64 = count.query_row([&query], |row| row.get(0)).unwrap();
        u64::try_from(total).unwrap()
    })
}

/// Queries the page, the total and a count for each value of seven facets.
fn fts5_counts<'a>(connection: &'a Connection, query: &str) -> Box<dyn FnMut() -> u64 + 'a> {
    let mut page = fts5(connection, query, None);
    let query = query.to_owned();
    Box::new(move || {
        let total = page();
        for column in ["model", "sampler", "size", "lora", "rating", "outcome", "project"] {
            let sql = format!(
                "SELECT {column}, count(*) FROM words JOIN iterations ON iterations.id = words.rowid WHERE words MATCH ?1 GROUP BY {column}"
            );
            let mut counts = connection.prepare_cached(&sql).unwrap();
            let rows = counts.query_map([&query], |row| row.get::<_, i64>(1)).unwrap();
            assert!(rows.map(Result::unwrap).sum::<i64>() > 0);
        }
        total
    })
}

/// Reads and compares everything, since SQLite has no index for this.
fn sqlite_scan<'a>(connection: &'a Connection, perceptual_hash: u128) -> Box<dyn FnMut() -> u64 + 'a> {
    Box::new(move || {
        let mut all = connection.prepare_cached("SELECT id, looks FROM iterations").unwrap();
        let mut rows = all.query([]).unwrap();
        let mut near: Vec<(u32, i64)> = Vec::new();
        while let Some(row) = rows.next().unwrap() {
            let its = u128::from_le_bytes(row.get_ref(1).unwrap().as_blob().unwrap().try_into().unwrap());
            let distance = (its ^ perceptual_hash).count_ones();
            if distance <= retake::internals::search::SIMILAR {
                near.push((distance, row.get(0).unwrap()));
            }
        }
        near.sort_unstable();
        near.len() as u64
    })
}

/// Measures an append with and without an index, in alternating rounds.
fn append_cost(dir: &Path) -> Vec<(String, String)> {
    const EACH: u64 = 2000;
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for round in 0..6 {
        for indexed in [round % 2 == 0, round % 2 != 0] {
            let _ = fs::remove_dir_all(dir);
            fs::create_dir_all(dir).unwrap();
            let store = Arc::new(open(dir));
            let index = Arc::new(Index::new(dir, Sizes::default()));
            let stop = Arc::new(AtomicBool::new(false));
            let keeper = indexed.then(|| {
                let (index, noting) = (Arc::clone(&index), Arc::clone(&index));
                let (store_, stop) = (Arc::clone(&store), Arc::clone(&stop));
                store.add_follower(move |_| {
                    noting.note();
                    true
                });
                thread::spawn(move || {
                    while index.wait() && !stop.load(Ordering::Acquire) {
                        index.tend(&*store_);
                    }
                })
            });
            let started = Instant::now();
            for number in 0..EACH {
                store
                    .append(batch(Target::New(made(number).day()), number, vec![start(number), record(number)]))
                    .unwrap();
            }
            let each = started.elapsed().as_secs_f64() * 1e6 / EACH as f64;
            if indexed {
                with.push(each);
            } else {
                without.push(each);
            }
            stop.store(true, Ordering::Release);
            index.stop();
            keeper.map(thread::JoinHandle::join);
        }
    }
    let _ = fs::remove_dir_all(dir);
    let (with, without) = (median(with), median(without));
    vec![
        ("append, durable, with the index kept".to_owned(), format!("{with:.0} µs")),
        ("append, durable, without one".to_owned(), format!("{without:.0} µs")),
    ]
}

fn open(dir: &Path) -> Store {
    Store::open(dir, Options::new(Arc::new(|| Timestamp::from_millis(FIRST).unwrap()))).unwrap()
}

/// Fills a log with one session per batch, as an import would.
fn fill(dir: &Path, sessions: u64) {
    fs::create_dir_all(dir).unwrap();
    let store = open(dir);
    for session in 0..sessions {
        let first = session * LENGTH;
        let mut drafts = vec![start(session)];
        drafts.extend((first..first + LENGTH).map(record));
        for (index, number) in (0u32..).zip(first..first + LENGTH) {
            if let Some(rating) = rating(number) {
                let tags = Some(vec![format!("tag-{}", number % 7)]);
                let change = AnnotationChange { rating: Some(rating), tags, note: None };
                drafts.push(Draft::Annotate { index, change });
            }
        }
        store.append(batch(Target::New(made(first).day()), first, drafts)).unwrap();
    }
    store.close().unwrap();
}

fn fill_fts5(path: &Path, sessions: u64) {
    let building = path.with_extension("building");
    let _ = fs::remove_file(&building);
    let mut connection = Connection::open(&building).unwrap();
    connection.pragma_update(None, "journal_mode", "OFF").unwrap();
    connection.pragma_update(None, "cache_size", -262_144).unwrap();
    connection
        .execute_batch(
            "CREATE TABLE iterations (id INTEGER PRIMARY KEY, session INTEGER, made INTEGER, model TEXT, sampler TEXT,
                size TEXT, lora TEXT, rating INTEGER, outcome INTEGER, project TEXT, seed INTEGER, perceptual_hash BLOB);
             CREATE VIRTUAL TABLE words USING fts5(prompt, negative, title, content='', tokenize='unicode61 remove_diacritics 2');",
        )
        .unwrap();
    let transaction = connection.transaction().unwrap();
    {
        let mut rows = transaction
            .prepare("INSERT INTO iterations VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)")
            .unwrap();
        let mut words =
            transaction.prepare("INSERT INTO words (rowid, prompt, negative, title) VALUES (?1, ?2, ?3, ?4)").unwrap();
        for number in 0..sessions * LENGTH {
            let it = iteration(number);
            let recipe = &it.recipe;
            let id = i64::try_from(number).unwrap();
            let size = format!("{}x{}", recipe.width.unwrap(), recipe.height.unwrap());
            rows.execute(params![
                id,
                i64::try_from(number / LENGTH).unwrap(),
                it.created_at.millis(),
                recipe.model,
                recipe.sampler,
                size,
                recipe.loras.first().map(|lora| lora.name.clone()),
                rating(number),
                0,
                project(number / LENGTH),
                id,
                perceptual_hash(number).0.to_le_bytes(),
            ])
            .unwrap();
            words.execute(params![id, recipe.prompt, recipe.negative_prompt, title(number / LENGTH)]).unwrap();
        }
    }
    transaction.commit().unwrap();
    connection
        .execute_batch("CREATE INDEX by_model ON iterations (model); CREATE INDEX by_made ON iterations (made); INSERT INTO words(words) VALUES('optimize'); ANALYZE;")
        .unwrap();
    drop(connection);
    fs::rename(building, path).unwrap();
}

fn batch(target: Target, number: u64, drafts: Vec<Draft>) -> Batch {
    let actor = Actor { client: "bench".to_owned(), user: "bench".to_owned() };
    Batch { target, expected_iterations: None, at: made(number), actor, key: format!("key {number}"), drafts }
}

fn start(session: u64) -> Draft {
    Draft::Start { title: Some(title(session)), project: Some(project(session)) }
}

fn record(number: u64) -> Draft {
    Draft::Record(Box::new(iteration(number)))
}

fn iteration(number: u64) -> Iteration {
    let mut random = Random(number.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    for _ in 0..4 {
        random.next();
    }
    let prompt = (0..PROMPT).map(|_| format!("w{}", random.zipf(VOCABULARY))).collect::<Vec<_>>().join(" ");
    let negative = (0..6).map(|_| format!("n{}", random.zipf(40.0))).collect::<Vec<_>>().join(" ");
    let sides = [512, 768, 1024];
    let mut side = || Some(sides[usize::try_from(random.next() % 3).unwrap()]);
    let (width, height) = (side(), side());
    let recipe = Recipe {
        prompt,
        negative_prompt: Some(negative),
        model: Some(format!("model-{}", random.zipf(20.0))),
        sampler: Some(format!("sampler-{}", random.zipf(8.0))),
        seed: Some(Seed(number)),
        steps: Some(30),
        width,
        height,
        loras: vec![Lora::new(format!("lora-{}", random.zipf(40.0)), 0.8)],
        ..Recipe::default()
    };
    let hash = Hash::of(&number.to_le_bytes());
    let image = ImageRef {
        hash,
        bytes: 1_000_000,
        mime_type: "image/png".to_owned(),
        width,
        height,
        name: None,
        pixels: Some(hash),
        perceptual_hash: Some(perceptual_hash(number)),
        linked: None,
    };
    Iteration {
        created_at: made(number),
        recipe,
        outcome: Outcome::default(),
        images: vec![image],
        parent: None,
        parent_reason: None,
        likely_parent: None,
    }
}

fn made(number: u64) -> Timestamp {
    Timestamp::from_millis(FIRST + i64::try_from(number).unwrap() * EVERY).unwrap()
}

fn title(session: u64) -> String {
    format!("t{} t{}", session % 97, session % 1009)
}

fn project(session: u64) -> String {
    format!("project-{}", session % 12)
}

fn rating(number: u64) -> Option<u8> {
    number.is_multiple_of(10).then(|| u8::try_from(number / 10 % 5).unwrap() + 1)
}

/// Returns a hash that shares about half of its bits with any other, like those of unrelated images.
fn perceptual_hash(number: u64) -> PerceptualHash {
    let mut random = Random(number.wrapping_mul(0xD134_2543_DE82_EF95) | 1);
    random.next();
    PerceptualHash(u128::from(random.next()) << 64 | u128::from(random.next()))
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Returns a number from 1 to below `most`, small ones far more often.
    fn zipf(&mut self, most: f64) -> u64 {
        let unit = (self.next() >> 11) as f64 / (1u64 << 53) as f64;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a positive number below `most`")]
        let rank = most.powf(unit) as u64;
        rank
    }
}

fn ms(value: f64) -> String {
    format!("{value:.1} ms")
}

/// Returns the resident memory of this process in bytes.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or(0) * 1024
}

fn size(path: &Path) -> u64 {
    let below = |dir: &Path| fs::read_dir(dir).unwrap().map(|entry| size(&entry.unwrap().path())).sum::<u64>();
    let metadata = fs::metadata(path).unwrap();
    if metadata.is_dir() { below(path) } else { metadata.len() }
}
