//! Answering: the page, the total and the counts, from the sets that the segments give.

use std::collections::{BinaryHeap, HashMap};

use super::bytes::Damage;
use super::columns::Section;
use super::doc::{GENERATOR, LORA, MODEL, OUTCOME, SAMPLER, SIZE, SessionKey, TAG, key_of, session_of};
use super::evaluate::{Live, each_run, evaluate, plan};
use super::segment::Segment;
use super::set::Set;
use super::{Facets, Found, Hit, MOST_VALUES, Place, Question, SIMILAR, Sort};

/// Answers a question from these segments.
pub(super) fn find(question: &Question, parts: &[Live]) -> Result<Found, Damage> {
    let plan = plan(&question.query, parts)?;
    let mut best = Best::new(question);
    let mut firsts = Firsts::default();
    let mut counts = Counts::default();
    let mut found = Found::default();
    for (at, part) in parts.iter().enumerate() {
        let segment = &part.segment;
        let mut set = evaluate(&plan, segment)?.minus(&part.dead);
        if let Some(id) = question.except
            && let Some(itself) = segment.find(key_of(id.session), id.index)?
        {
            set = set.keep(|doc| doc != itself);
        }
        if set.is_empty() {
            continue;
        }
        let from = Part { at, segment, per_session: question.per_session };
        match question.looks {
            Some(looks) => {
                let distances = similar(segment, &set, looks.0)?;
                set = Set::of(distances.iter().map(|(doc, _)| *doc).collect(), segment.docs());
                let distance = |doc: u32| distances.binary_search_by_key(&doc, |(doc, _)| *doc).ok();
                let rank = |doc: u32| distance(doc).and_then(|at| distances.get(at)).map_or(SIMILAR, |found| found.1);
                from.take(&set, rank, &mut best, &mut firsts)?;
            }
            None if question.sort == Sort::Best => {
                let ratings = segment.column::<u8>(Section::Rating.place())?;
                let lacks = |doc: u32| 5 - u32::from(ratings.get(doc as usize).copied().unwrap_or(0)).min(5);
                from.take(&set, lacks, &mut best, &mut firsts)?;
            }
            None => from.take(&set, |_| 0, &mut best, &mut firsts)?,
        }
        found.total += set.len();
        if question.facets {
            counts.take(segment, &set, parts)?;
        }
    }
    if question.per_session {
        found.total = firsts.0.len() as u64;
        firsts.0.values().for_each(|first| best.offer(first.place, first.part, first.doc));
    }
    let chosen = best.into_sorted();
    found.more = chosen.len() > question.skip.saturating_add(question.limit);
    for (place, at, doc) in chosen.into_iter().skip(question.skip).take(question.limit) {
        let Some(part) = parts.get(at) else { continue };
        let siblings = firsts.0.get(&key_of(place.id.session)).map(|first| first.matching);
        found.hits.push(Hit { siblings, ..hit(&part.segment, doc, place, question.looks.is_some())? });
    }
    found.facets = question.facets.then(|| counts.into_facets());
    Ok(found)
}

/// Where documents come from, and whether one of each session is enough.
struct Part<'a> {
    at: usize,
    segment: &'a Segment,
    per_session: bool,
}

impl Part<'_> {
    fn take(&self, set: &Set, rank: impl Fn(u32) -> u32, best: &mut Best, firsts: &mut Firsts) -> Result<(), Damage> {
        match self.per_session {
            true => firsts.take(self.at, self.segment, set, rank),
            false => best.take(self.at, self.segment, set, rank),
        }
    }
}

fn hit(segment: &Segment, doc: u32, place: Place, similar: bool) -> Result<Hit, Damage> {
    let at = doc as usize;
    let noted = segment.column::<u32>(Section::Noted.place())?.get(at).copied().unwrap_or(0);
    Ok(Hit {
        place,
        seq: segment.column::<u32>(Section::Seq.place())?.get(at).copied().unwrap_or(0),
        rating: segment.column::<u8>(Section::Rating.place())?.get(at).copied().unwrap_or(0),
        tags: segment.list(TAG, doc)?.into_iter().map(str::to_owned).collect(),
        noted: (noted > 0).then_some(noted),
        distance: similar.then_some(place.rank),
        siblings: None,
    })
}

/// The documents of the set that look so, ascending, each with the distance of its most similar picture.
fn similar(segment: &Segment, set: &Set, looks: u128) -> Result<Vec<(u32, u32)>, Damage> {
    let docs = segment.column::<u32>(Section::LookDocs.place())?;
    let all = segment.column::<u128>(Section::Looks.place())?;
    let mut found: Vec<(u32, u32)> = Vec::new();
    for (doc, its) in docs.iter().zip(all) {
        let distance = (its ^ looks).count_ones();
        if distance > SIMILAR || !set.contains(*doc) {
            continue;
        }
        match found.last_mut().filter(|(last, _)| last == doc) {
            Some((_, nearest)) => *nearest = distance.min(*nearest),
            None => found.push((*doc, distance)),
        }
    }
    Ok(found)
}

/// The first places behind the one to go on from, and one more to know whether there are more.
struct Best {
    after: Option<Place>,
    most: usize,
    heap: BinaryHeap<(Place, usize, u32)>,
}

impl Best {
    fn new(question: &Question) -> Best {
        let most = question.skip.saturating_add(question.limit).saturating_add(1);
        Best { after: question.after, most, heap: BinaryHeap::new() }
    }

    /// Takes in the documents of a set, highest first. Most fall to the first comparison, since sessions are ordered by
    /// their day.
    fn take(&mut self, part: usize, segment: &Segment, set: &Set, rank: impl Fn(u32) -> u32) -> Result<(), Damage> {
        let made = segment.column::<i64>(Section::Made.place())?;
        let indexes = segment.column::<u32>(Section::Index.place())?;
        let mut damage = None;
        set.each_back(|doc| {
            let rank = rank(doc);
            let made = made.get(doc as usize).copied().unwrap_or(i64::MIN);
            if self.heap.len() >= self.most
                && self.heap.peek().is_some_and(|(worst, ..)| (rank, -made) > (worst.rank, -worst.made))
            {
                return;
            }
            if self.after.is_some_and(|after| (rank, -made) < (after.rank, -after.made)) {
                return;
            }
            let index = indexes.get(doc as usize).copied().unwrap_or(0);
            match segment.session(doc).map(session_of) {
                Ok(Some(session)) => {
                    self.offer(Place { rank, made, id: session.iteration(index) }, part, doc);
                }
                Ok(None) => damage = Some(Damage::new("a session has no id")),
                Err(error) => damage = Some(error),
            }
        });
        damage.map_or(Ok(()), Err)
    }

    fn offer(&mut self, place: Place, part: usize, doc: u32) {
        if self.after.is_none_or(|after| place > after) {
            self.heap.push((place, part, doc));
            if self.heap.len() > self.most {
                self.heap.pop();
            }
        }
    }

    fn into_sorted(self) -> Vec<(Place, usize, u32)> {
        self.heap.into_sorted_vec()
    }
}

/// Of every session with a match the first one. A session's iterations may lie in several segments, so that which is the
/// first, and how many there are, is known at the end only.
#[derive(Default)]
struct Firsts(HashMap<SessionKey, First>);

struct First {
    place: Place,
    part: usize,
    doc: u32,
    matching: u64,
}

impl Firsts {
    fn take(&mut self, part: usize, segment: &Segment, set: &Set, rank: impl Fn(u32) -> u32) -> Result<(), Damage> {
        let made = segment.column::<i64>(Section::Made.place())?;
        let indexes = segment.column::<u32>(Section::Index.place())?;
        let keys = segment.column::<u64>(Section::RunKeys.place())?;
        for (run, key) in keys.iter().enumerate() {
            let (start, end) = segment.run_range(run)?;
            let matching = set.count(start, end);
            if matching == 0 {
                continue;
            }
            let session = session_of(*key).ok_or(Damage::new("a session has no id"))?;
            let place = |doc: u32| Place {
                rank: rank(doc),
                made: made.get(doc as usize).copied().unwrap_or(i64::MIN),
                id: session.iteration(indexes.get(doc as usize).copied().unwrap_or(0)),
            };
            let docs = (start..end).filter(|doc| set.contains(*doc)).map(|doc| (place(doc), doc));
            let Some((place, doc)) = docs.min() else { continue };
            let first = self.0.entry(*key).or_insert(First { place, part, doc, matching: 0 });
            if place < first.place {
                (first.place, first.part, first.doc) = (place, part, doc);
            }
            first.matching += matching;
        }
        Ok(())
    }
}

/// How many matches have each value.
#[derive(Default)]
struct Counts {
    singles: [HashMap<String, u64>; 4],
    lists: [HashMap<String, u64>; 2],
    ratings: [u64; 6],
    outcomes: [u64; 4],
    projects: HashMap<String, u64>,
    archived: u64,
    all: u64,
}

impl Counts {
    fn take(&mut self, segment: &Segment, set: &Set, parts: &[Live]) -> Result<(), Damage> {
        self.all += set.len();
        for (kind, counts) in self.singles.iter_mut().enumerate() {
            let place = Section::name(kind);
            let (numbers, names) = (segment.column::<u32>(place)?, segment.names(place + 1)?);
            let mut tally = vec![0u64; names.len() + 1];
            set.each_back(|doc| {
                let number = numbers.get(doc as usize).copied().unwrap_or(0);
                if let Some(count) = tally.get_mut(number as usize) {
                    *count += 1;
                }
            });
            add(counts, names, &tally);
        }
        for (kind, counts) in self.lists.iter_mut().enumerate() {
            let place = Section::list(kind);
            let (starts, numbers) = (segment.column::<u32>(place)?, segment.column::<u32>(place + 1)?);
            let names = segment.names(place + 2)?;
            let mut tally = vec![0u64; names.len() + 1];
            set.each_back(|doc| {
                let range = starts.get(doc as usize).zip(starts.get(doc as usize + 1));
                let its = range.and_then(|(start, end)| numbers.get(*start as usize..*end as usize));
                for number in its.unwrap_or_default() {
                    if let Some(count) = tally.get_mut(*number as usize) {
                        *count += 1;
                    }
                }
            });
            add(counts, names, &tally);
        }
        let ratings = segment.column::<u8>(Section::Rating.place())?;
        let flags = segment.column::<u8>(Section::Flags.place())?;
        set.each_back(|doc| {
            let rating = ratings.get(doc as usize).copied().unwrap_or(0);
            if let Some(count) = self.ratings.get_mut(usize::from(rating)) {
                *count += 1;
            }
            let outcome = flags.get(doc as usize).copied().unwrap_or(0) & OUTCOME;
            if let Some(count) = self.outcomes.get_mut(usize::from(outcome)) {
                *count += 1;
            }
        });
        self.take_sessions(segment, set, parts)
    }

    /// Projects and archived sessions: what the newest word on each session says of its iterations here.
    fn take_sessions(&mut self, segment: &Segment, set: &Set, parts: &[Live]) -> Result<(), Damage> {
        for part in parts.iter().filter(|part| part.segment.sessions() > 0) {
            let keys = part.segment.column::<u64>(Section::SessionKeys.place())?;
            let archived = part.segment.column::<u8>(Section::Archived.place())?;
            let projects = part.segment.column::<u32>(Section::Project.place())?;
            let names = part.segment.names(Section::ProjectNames.place())?;
            let mut tally = vec![0u64; names.len() + 1];
            each_run(segment, keys, |at, start, end| {
                if u32::try_from(at).is_ok_and(|at| part.dead_sessions.contains(at)) {
                    return;
                }
                let count = set.count(start, end);
                if archived.get(at).is_some_and(|archived| *archived != 0) {
                    self.archived += count;
                }
                if let Some(tally) = projects.get(at).and_then(|number| tally.get_mut(*number as usize)) {
                    *tally += count;
                }
            })?;
            add(&mut self.projects, names, &tally);
        }
        Ok(())
    }

    fn into_facets(self) -> Facets {
        let mut singles = self.singles.map(most);
        let mut lists = self.lists.map(most);
        let mut single = |kind: usize| singles.get_mut(kind).map(std::mem::take).unwrap_or_default();
        let mut list = |kind: usize| lists.get_mut(kind).map(std::mem::take).unwrap_or_default();
        let some = |values: Vec<(&str, u64)>| -> Vec<(String, u64)> {
            values.into_iter().filter(|(_, count)| *count > 0).map(|(name, count)| (name.to_owned(), count)).collect()
        };
        let [unrated, one, two, three, four, five] = self.ratings;
        let [succeeded, failed, refused, _] = self.outcomes;
        Facets {
            model: single(MODEL),
            sampler: single(SAMPLER),
            generator: single(GENERATOR),
            size: single(SIZE),
            lora: list(LORA),
            tag: list(TAG),
            rating: some(vec![("5", five), ("4", four), ("3", three), ("2", two), ("1", one), ("none", unrated)]),
            outcome: some(vec![("succeeded", succeeded), ("failed", failed), ("refused", refused)]),
            project: most(self.projects),
            status: some(vec![("active", self.all.saturating_sub(self.archived)), ("archived", self.archived)]),
        }
    }
}

/// Adds the tally of names by number, from 1, to the counts by name.
fn add(counts: &mut HashMap<String, u64>, names: &[String], tally: &[u64]) {
    for (name, count) in names.iter().zip(tally.iter().skip(1)).filter(|(_, count)| **count > 0) {
        match counts.get_mut(name) {
            Some(sum) => *sum += count,
            None => {
                counts.insert(name.clone(), *count);
            }
        }
    }
}

/// The most frequent values, and of equally frequent ones those first in the alphabet.
fn most(counts: HashMap<String, u64>) -> Vec<(String, u64)> {
    let mut counts: Vec<(String, u64)> = counts.into_iter().collect();
    counts.sort_unstable_by(|(a, few), (b, many)| many.cmp(few).then_with(|| a.cmp(b)));
    counts.truncate(MOST_VALUES);
    counts
}
