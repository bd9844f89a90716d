//! The search index against a naive scan: random work, random searches, and random damage to the index in between. Hits,
//! their order, totals and counts must always be those of the scan.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a failed assertion is the report of a test")]

mod kill;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use proptest::prelude::*;
use retake_log::model::query::{Candidate, Condition, Facet, Field, MatchKind, Part, Quantity};
use retake_log::model::tokenizer::fold_name;
use retake_log::model::{
    AnnotationChange, Cost, Draft, Hash, ImageRef, Lora, OutcomeStatus, PerceptualHash, Query, Seed, Session, SessionId,
};
use retake_log::store::{Detail, Store, Target};
use retake_search::{Facets, Found, Hit, Index, MAX_RANK, Question, SIMILAR, SearchKey, Sizes, Sort};
use retake_testutils::{at, batch, iteration, open};

#[derive(Clone, Debug)]
enum Step {
    Start {
        words: Vec<u8>,
        title: Option<u8>,
        project: Option<u8>,
        made: i64,
    },
    Record {
        session: usize,
        words: Vec<u8>,
        recipe: u32,
        made: i64,
    },
    Annotate {
        session: usize,
        index: usize,
        rating: Option<u8>,
        tags: Option<Vec<u8>>,
        note: Option<Vec<u8>>,
    },
    Title {
        session: usize,
        title: Option<u8>,
        project: Option<u8>,
    },
    Archive {
        session: usize,
    },
    Restore {
        session: usize,
    },
    /// The process exits cleanly.
    Close,
    /// The process is killed: what the index had not written is lost.
    Kill,
    /// The background work runs to its end.
    Tend,
    /// The files are damaged.
    Damage {
        how: u8,
        file: usize,
        at: usize,
    },
    Ask(Box<Query>, u8),
}

const WORDS: [&str; 12] =
    ["bridge", "Bridges", "glass", "GLASS", "fog", "café", "cafe", "玻璃", "玻", "bríd", "night", "a"];
const NAMES: [&str; 4] = ["SDXL 1.0", "sdxl", "Flux", "é-model"];

fn words(which: &[u8]) -> String {
    which.iter().map(|word| WORDS[usize::from(*word) % WORDS.len()]).collect::<Vec<_>>().join(" ")
}

fn name(which: u8) -> String {
    NAMES[usize::from(which) % NAMES.len()].to_owned()
}

fn some_words() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(0u8..12, 1..6)
}

/// Generates a prompt, occasionally a long one.
fn prompt() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![9 => some_words(), 1 => prop::collection::vec(0u8..12, 60..70)]
}

fn condition() -> impl Strategy<Value = Condition> {
    let field = prop_oneof![
        4 => Just(None),
        1 => Just(Some(Field::Prompt)),
        1 => Just(Some(Field::Negative)),
        1 => Just(Some(Field::Note)),
        1 => Just(Some(Field::Title)),
        1 => Just(Some(Field::Message)),
    ];
    let text = (field, prop::collection::vec(0u8..12, 1..3), any::<bool>(), any::<bool>(), 1usize..4).prop_map(
        |(field, which, prefix, part, cut)| {
            let mut words: Vec<String> =
                retake_log::model::tokenizer::words(&words(&which)).into_iter().map(|word| word.text).collect();
            if let Some(last) = words.last_mut().filter(|_| prefix || part) {
                *last = last.chars().take(cut).collect();
            }
            let by = match words.as_slice() {
                _ if prefix => MatchKind::Start,
                [_] if part => MatchKind::Part,
                _ => MatchKind::Whole,
            };
            Condition::Text { field, words, by }
        },
    );
    let facet = prop::sample::select(vec![
        Facet::Model,
        Facet::Lora,
        Facet::Sampler,
        Facet::Generator,
        Facet::Tag,
        Facet::Project,
        Facet::Scheduler,
        Facet::Actor,
    ]);
    let by = prop::sample::select(vec![MatchKind::Whole, MatchKind::Start, MatchKind::Part]);
    let name = (facet, by, 0u8..4, 1usize..9).prop_map(|(facet, by, which, cut)| {
        let whole = fold_name(&name(which));
        let value = if by == MatchKind::Whole { whole } else { whole.chars().take(cut).collect() };
        Condition::Name { facet, by, value }
    });
    let quantity = prop::sample::select(vec![Quantity::Steps, Quantity::GuidanceScale, Quantity::Cost]);
    let part = prop::sample::select(vec![Part::Image, Part::Note, Part::Tag, Part::Rating, Part::Lora, Part::Negative]);
    let outcome = prop::sample::select(vec![OutcomeStatus::Succeeded, OutcomeStatus::Failed, OutcomeStatus::Refused]);
    prop_oneof![
        6 => text,
        4 => name,
        2 => (quantity, -1i64..5, 0i64..5).prop_map(|(quantity, low, high)| Condition::Number {
            quantity,
            low: low * 1_000_000,
            high: high * 1_000_000,
        }),
        1 => (0u64..3).prop_map(Condition::Seed),
        1 => (0u32..3).prop_map(|n| Condition::Size(512 + n, 512)),
        2 => (0u8..6, 0u8..6).prop_map(|(low, high)| Condition::Rating(low, high)),
        1 => outcome.prop_map(Condition::Outcome),
        2 => any::<bool>().prop_map(Condition::Archived),
        1 => (1u32..4).prop_map(|n| Condition::Session(format!("session-2025-12-11-{n:03}").parse().unwrap())),
        2 => part.prop_map(Condition::Has),
        2 => (prop::option::of(-50i64..50), prop::option::of(-50i64..50)).prop_map(|(from, until)| Condition::Made {
            from: from.map(|from| at(from * 1000).millis()),
            until: until.map(|until| at(until * 1000).millis()),
        }),
    ]
}

fn query() -> impl Strategy<Value = Query> {
    let leaf = prop_oneof![10 => condition().prop_map(Query::from), 1 => Just(Query::everything())];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            3 => prop::collection::vec(inner.clone(), 0..4).prop_map(Query::All),
            2 => prop::collection::vec(inner.clone(), 1..4).prop_map(Query::Any),
            2 => inner.prop_map(|query| Query::Not(Box::new(query))),
        ]
    })
}

fn step() -> impl Strategy<Value = Step> {
    let some = 0usize..1000;
    let made = -50_000i64..50_000;
    let name = || prop::option::of(0u8..4);
    prop_oneof![
        4 => (prompt(), name(), name(), made.clone())
            .prop_map(|(words, title, project, made)| Step::Start { words, title, project, made }),
        12 => (some.clone(), prompt(), any::<u32>(), made)
            .prop_map(|(session, words, recipe, made)| Step::Record { session, words, recipe, made }),
        6 => (
            some.clone(), some.clone(), prop::option::of(1u8..6),
            prop::option::of(prop::collection::vec(0u8..4, 0..3)), prop::option::of(prop::collection::vec(0u8..12, 0..3)),
        ).prop_map(|(session, index, rating, tags, note)| Step::Annotate { session, index, rating, tags, note }),
        2 => (some.clone(), name(), name()).prop_map(|(session, title, project)| Step::Title { session, title, project }),
        2 => some.clone().prop_map(|session| Step::Archive { session }),
        2 => some.clone().prop_map(|session| Step::Restore { session }),
        1 => Just(Step::Close),
        1 => Just(Step::Kill),
        2 => Just(Step::Tend),
        2 => (0u8..6, some.clone(), some).prop_map(|(how, file, at)| Step::Damage { how, file, at }),
        8 => (query(), any::<u8>()).prop_map(|(query, how)| Step::Ask(Box::new(query), how)),
    ]
}

/// Thresholds so low that segments, merges and catching up happen often.
const SIZES: Sizes = Sizes { full: 8, left: 3, made_at_once: 16, max_merged: 200, worth_threads: 20 };

struct Subject {
    store: Option<Store>,
    index: Index,
    sessions: Vec<SessionId>,
    keys: u32,
}

impl Subject {
    fn open(dir: &Path) -> Subject {
        Subject { store: Some(open(dir)), index: Index::new(dir, SIZES), sessions: Vec::new(), keys: 0 }
    }

    fn store(&self) -> &Store {
        self.store.as_ref().unwrap()
    }

    fn append(&mut self, target: Target, millis: i64, drafts: Vec<Draft>) {
        self.keys += 1;
        // A refused draft is not an event, so there is nothing to find.
        if let Ok(ack) = self.store().append(batch(target, millis, &format!("key {}", self.keys), drafts)) {
            if target != Target::Existing(ack.head.id) {
                self.sessions.push(ack.head.id);
            }
            self.index.note();
        }
    }

    fn session(&self, which: usize) -> Option<SessionId> {
        self.sessions.get(which % self.sessions.len().max(1)).copied()
    }

    fn run(&mut self, dir: &Path, step: &Step) {
        match step {
            Step::Start { words: which, title, project, made } => {
                let (title, project) = (title.map(|title| words(&[title, title + 1])), project.map(name));
                let first = iteration(&words(which), *made);
                let drafts = vec![Draft::Start { title, project }, Draft::Record(Box::new(first))];
                self.append(Target::New(at(*made).day()), *made, drafts);
            }
            Step::Record { session, words: which, recipe, made } => {
                let Some(id) = self.session(*session) else { return };
                let mut it = iteration(&words(which), *made);
                let bits = |shift: u32, mask: u32| (recipe >> shift) & mask;
                let number = |shift: u32| u8::try_from(bits(shift, 3)).unwrap();
                let has = |shift: u32| bits(shift, 1) == 1;
                let recipe = &mut it.recipe;
                recipe.model = has(0).then(|| name(number(1)));
                recipe.sampler = has(3).then(|| name(number(4)));
                recipe.provider = has(6).then(|| name(number(7)));
                recipe.loras = has(9).then(|| Lora::new(name(number(10)), 1.0)).into_iter().collect();
                recipe.seed = has(12).then(|| Seed(u64::from(number(13))));
                (recipe.width, recipe.height) = (has(15).then(|| 512 + u32::from(number(16))), Some(512));
                recipe.negative_prompt = has(18).then(|| words(&[number(19), number(21)]));
                recipe.prompt_sent = has(23).then(|| words(&[number(19), number(13)]));
                it.outcome.status =
                    [OutcomeStatus::Succeeded, OutcomeStatus::Failed, OutcomeStatus::Refused][bits(24, 3) as usize % 3];
                it.recipe.scheduler = has(5).then(|| name(number(8)));
                it.recipe.steps = has(2).then(|| u32::from(number(3)));
                it.recipe.guidance_scale = has(14).then(|| f64::from(number(11)));
                it.outcome.cost = has(17).then(|| Cost { amount: f64::from(number(19)), currency: "USD".to_owned() });
                it.outcome.message = has(22).then(|| words(&[number(9), number(15)]));
                if has(26) {
                    it.images = vec![image(bits(27, 31)), image(bits(20, 31))];
                }
                self.append(Target::Existing(id), *made, vec![Draft::Record(Box::new(it))]);
            }
            Step::Annotate { session, index, rating, tags, note } => {
                let Some(id) = self.session(*session) else { return };
                let head = self.store().head(id).unwrap().unwrap();
                let index = u32::try_from(*index).unwrap() % (head.last_index.unwrap() + 1);
                let tags = tags.as_ref().map(|tags| tags.iter().map(|tag| name(*tag)).collect());
                let change = AnnotationChange { rating: *rating, tags, note: note.as_deref().map(words) };
                self.append(Target::Existing(id), 0, vec![Draft::Annotate { index, change }]);
            }
            Step::Title { session, title, project } => {
                let Some(id) = self.session(*session) else { return };
                let (title, project) = (title.map(|title| words(&[title])), project.map(name));
                self.append(Target::Existing(id), 0, vec![Draft::Title { title, project }]);
            }
            Step::Archive { session } => {
                let Some(id) = self.session(*session) else { return };
                self.append(Target::Existing(id), 0, vec![Draft::Archive { reason: None }]);
            }
            Step::Restore { session } => {
                let Some(id) = self.session(*session) else { return };
                self.append(Target::Existing(id), 0, vec![Draft::Restore { reason: None }]);
            }
            Step::Close => {
                self.index.close(self.store());
                self.reopen(dir);
            }
            Step::Kill => self.reopen(dir),
            Step::Tend => self.index.tend(self.store()),
            Step::Damage { how, file, at } => damage(dir, *how, *file, *at),
            Step::Ask(query, how) => self.ask(query, *how),
        }
    }

    fn reopen(&mut self, dir: &Path) {
        self.store.take().unwrap().close().unwrap();
        self.store = Some(open(dir));
        self.index = Index::new(dir, SIZES);
    }

    /// Searches page by page, and compares the result with the scan.
    fn ask(&self, query: &Query, how: u8) {
        let perceptual_hash = (how & 1 == 1).then_some(PerceptualHash(u128::from(how)));
        let sort =
            [Sort::Newest, Sort::Best, Sort::Largest][usize::from(how & 2) / 2 + usize::from(how & 0x22 == 0x22)];
        let limit = usize::from(how >> 4) + 1;
        let pixels = (how & 3 == 3).then(|| Hash::of(&u32::from(how).to_le_bytes()));
        let (mut expected, facets) = naive(self.store(), query, (perceptual_hash, pixels), sort);
        let (counted, per_session) = (how & 4 == 4, how & 8 == 8);
        if per_session {
            expected = first_of_each_session(expected);
        }
        let query = query.clone();
        let mut question = Question {
            query,
            perceptual_hash,
            pixels,
            except: None,
            sort,
            shuffle: None,
            after: None,
            skip: 0,
            limit,
            facets: counted,
            per_session,
        };
        let mut hits: Vec<Hit> = Vec::new();
        loop {
            let Found { hits: page, total, more, facets: counted } =
                self.index.search(self.store(), &question, None).unwrap();
            assert_eq!(total, expected.len() as u64, "{question:?}");
            assert_eq!(counted, question.facets.then(|| facets.clone()), "{question:?}");
            assert!(page.len() <= limit);
            question.after = page.last().map(|hit| hit.place);
            hits.extend(page);
            assert_eq!(more, hits.len() < expected.len());
            if !more {
                break;
            }
        }
        assert_eq!(hits, expected, "{question:?}");
        // Skipping gives the hits from there on.
        let skip = usize::from(how >> 3) % (expected.len() + 2);
        let jump = self.index.search(self.store(), &Question { after: None, skip, ..question }, None).unwrap();
        assert_eq!(jump.hits, expected.iter().skip(skip).take(limit).cloned().collect::<Vec<_>>());
        assert_eq!((jump.total, jump.more), (expected.len() as u64, skip + limit < expected.len()));
    }
}

fn image(perceptual_hash: u32) -> ImageRef {
    ImageRef {
        hash: Hash::of(&perceptual_hash.to_le_bytes()),
        bytes: 1,
        mime_type: "image/png".to_owned(),
        width: Some(512),
        height: Some(512),
        name: None,
        pixels: None,
        // Some hashes are near each other, some far.
        perceptual_hash: Some(PerceptualHash(if perceptual_hash.is_multiple_of(3) {
            u128::from(perceptual_hash)
        } else {
            u128::MAX << (perceptual_hash % 64)
        })),
        linked: None,
    }
}

/// Damages a file: truncates, flips, deletes or replaces it, or leaves it half-written.
fn damage(dir: &Path, how: u8, file: usize, at: usize) {
    let dir = dir.join("cache").join("search");
    let mut files: Vec<_> = fs::read_dir(&dir).into_iter().flatten().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let Some(path) = files.get(file % files.len().max(1)) else { return };
    let mut bytes = fs::read(path).unwrap();
    let at = at % bytes.len().max(1);
    match how {
        0 => fs::remove_dir_all(&dir).unwrap(),
        1 => fs::remove_file(path).unwrap(),
        2 => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1;
            }
            // As another program would: a new file under the same name, or a change in place.
            fs::write(path, bytes).unwrap();
        }
        3 => fs::write(path, &bytes[..at]).unwrap(),
        4 => fs::write(dir.join("99999999.segment"), &bytes[..at]).unwrap(),
        _ => fs::write(dir.join("manifest.new"), &bytes[..at]).unwrap(),
    }
}

fn naive(
    store: &Store,
    query: &Query,
    (perceptual_hash, pixels): (Option<PerceptualHash>, Option<Hash>),
    sort: Sort,
) -> (Vec<Hit>, Facets) {
    let mut hits = Vec::new();
    let mut counts: BTreeMap<&'static str, BTreeMap<String, u64>> = BTreeMap::new();
    for id in store.ids(None, 10_000).unwrap() {
        let events = store.events(id, Detail::Full).unwrap();
        let seqs = |index: u32, noted: bool| {
            events.iter().rev().find_map(|event| match &event.body {
                retake_log::model::EventBody::Recorded { index: it, .. } if *it == index && !noted => Some(event.seq),
                retake_log::model::EventBody::Annotated { index: it, change } if *it == index && noted => {
                    change.note.as_ref().map(|_| event.seq)
                }
                _ => None,
            })
        };
        let session = Session::fold(events.clone()).unwrap();
        for (index, state) in &session.iterations {
            let it = Candidate {
                id: id.iteration(*index),
                iteration: &state.iteration,
                annotation: &state.annotation,
                session: &session.head,
                recorded_by: &state.recorded_by,
            };
            if !query.matches(&it) {
                continue;
            }
            let distances = state
                .iteration
                .images
                .iter()
                .filter_map(|image| Some(image.perceptual_hash?.distance(perceptual_hash?)));
            let nearest = distances.min().filter(|distance| *distance <= SIMILAR);
            if perceptual_hash.is_some() && nearest.is_none() {
                continue;
            }
            let rating = state.annotation.rating.unwrap_or(0);
            let rank = match (nearest, sort) {
                (Some(0), _) if state.iteration.images.iter().any(|image| Some(image.hash) == pixels) => 0,
                (Some(distance), _) => distance + 1,
                (None, Sort::Best) => 5 - u32::from(rating),
                (None, Sort::Newest) => 0,
                (None, Sort::Largest) => {
                    let pixels = it.size().map_or(0, |(width, height)| u64::from(width) * u64::from(height));
                    MAX_RANK - u32::try_from(pixels.isqrt()).unwrap().min(MAX_RANK)
                }
            };
            let place = SearchKey { rank, made: state.iteration.created_at.millis(), id: it.id };
            let mut tags = state.annotation.tags.clone();
            tags.sort();
            tags.dedup();
            let noted = state.annotation.note.as_ref().and_then(|_| seqs(*index, true));
            hits.push(Hit {
                place,
                seq: seqs(*index, false).unwrap(),
                rating,
                tags,
                noted,
                distance: nearest,
                siblings: None,
            });
            count(&mut counts, &it, rating);
        }
    }
    hits.sort_by_key(|hit| hit.place);
    (hits, facets(counts))
}

fn first_of_each_session(hits: Vec<Hit>) -> Vec<Hit> {
    let mut matching: BTreeMap<SessionId, u64> = BTreeMap::new();
    hits.iter().for_each(|hit| *matching.entry(hit.place.id.session).or_default() += 1);
    let first = |hit: Hit| Some(Hit { siblings: Some(matching.remove(&hit.place.id.session)?), ..hit });
    hits.into_iter().filter_map(first).collect()
}

fn count(counts: &mut BTreeMap<&'static str, BTreeMap<String, u64>>, it: &Candidate<'_>, rating: u8) {
    let mut add = |facet: &'static str, value: String| *counts.entry(facet).or_default().entry(value).or_default() += 1;
    for (facet, kind) in [
        ("model", Facet::Model),
        ("lora", Facet::Lora),
        ("sampler", Facet::Sampler),
        ("generator", Facet::Generator),
        ("tag", Facet::Tag),
        ("project", Facet::Project),
    ] {
        let mut names = it.names(kind);
        names.sort_unstable();
        names.dedup();
        names.into_iter().for_each(|name| add(facet, name.to_owned()));
    }
    if let Some((width, height)) = it.size() {
        add("size", format!("{width}x{height}"));
    }
    add("rating", if rating == 0 { "none".to_owned() } else { rating.to_string() });
    add("status", if it.session.archived { "archived" } else { "active" }.to_owned());
    add("outcome", format!("{:?}", it.iteration.outcome.status).to_lowercase());
}

fn facets(mut counts: BTreeMap<&'static str, BTreeMap<String, u64>>) -> Facets {
    let mut take = |facet| -> Vec<(String, u64)> { counts.remove(facet).unwrap_or_default().into_iter().collect() };
    let most = |mut values: Vec<(String, u64)>| {
        values.sort_by(|(a, few), (b, many)| many.cmp(few).then(a.cmp(b)));
        values
    };
    let order = |values: Vec<(String, u64)>, order: &[&str]| -> Vec<(String, u64)> {
        order.iter().filter_map(|name| values.iter().find(|(value, _)| value == name).cloned()).collect()
    };
    Facets {
        model: most(take("model")),
        lora: most(take("lora")),
        sampler: most(take("sampler")),
        generator: most(take("generator")),
        size: most(take("size")),
        tag: most(take("tag")),
        project: most(take("project")),
        rating: order(take("rating"), &["5", "4", "3", "2", "1", "none"]),
        outcome: order(take("outcome"), &["succeeded", "failed", "refused"]),
        status: order(take("status"), &["active", "archived"]),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, max_shrink_iters: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_index_finds_what_a_scan_finds(steps in prop::collection::vec(step(), 1..120)) {
        let home = tempfile::tempdir().unwrap();
        let mut subject = Subject::open(home.path());
        for step in &steps {
            subject.run(home.path(), step);
        }
        subject.ask(&Query::everything(), 0x74);
    }
}
