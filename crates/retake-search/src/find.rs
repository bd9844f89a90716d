//! Assembles the page, the total and the counts from the matching sets of all segments.

use std::collections::{BinaryHeap, HashMap};

use super::bytes::Damage;
use super::columns::Section;
use super::counts::Counts;
use super::doc::{SessionKey, TAG, key_of, pixels, session_of};
use super::evaluate::{SegmentView, evaluate_all, plan};
use super::segment::Segment;
use super::set::Set;
use super::{Found, Hit, Question, SIMILAR, SearchKey, Sort};

/// Searches these segments, with several threads from `worth_threads` documents on.
pub(super) fn find(question: &Question, parts: &[SegmentView], worth_threads: u64) -> Result<Found, Damage> {
    let plan = plan(&question.query, parts)?;
    let mut best = TopHits::new(question);
    let mut firsts = FirstPerSession::default();
    let mut counts = Counts::default();
    let mut found = Found::default();
    for ((at, part), set) in parts.iter().enumerate().zip(evaluate_all(&plan, parts, worth_threads)?) {
        let segment = &part.segment;
        let mut set = set.minus(&part.dead);
        if let Some(id) = question.except
            && let Some(itself) = segment.find(key_of(id.session), id.index)?
        {
            set = set.keep(|doc| doc != itself);
        }
        if set.is_empty() {
            continue;
        }
        let from = Part { at, segment, per_session: question.per_session };
        match question.perceptual_hash {
            Some(perceptual_hash) => {
                let wanted = (perceptual_hash.0, question.pixels.map(pixels));
                let ranks = similar(segment, &set, wanted)?;
                set = Set::of(ranks.iter().map(|(doc, _)| *doc).collect(), segment.docs());
                let place = |doc: u32| ranks.binary_search_by_key(&doc, |(doc, _)| *doc).ok();
                let rank = |doc: u32| place(doc).and_then(|at| ranks.get(at)).map_or(SIMILAR + 1, |found| found.1);
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
        found.hits.push(Hit { siblings, ..hit(&part.segment, doc, place, question.perceptual_hash.is_some())? });
    }
    found.facets = question.facets.then(|| counts.into_facets());
    Ok(found)
}

/// The segment that documents come from, and whether one per session is enough.
struct Part<'a> {
    at: usize,
    segment: &'a Segment,
    per_session: bool,
}

impl Part<'_> {
    fn take(
        &self,
        set: &Set,
        rank: impl Fn(u32) -> u32,
        best: &mut TopHits,
        firsts: &mut FirstPerSession,
    ) -> Result<(), Damage> {
        match self.per_session {
            true => firsts.take(self.at, self.segment, set, rank),
            false => best.take(self.at, self.segment, set, rank),
        }
    }
}

fn hit(segment: &Segment, doc: u32, place: SearchKey, similar: bool) -> Result<Hit, Damage> {
    let at = doc as usize;
    let noted = segment.column::<u32>(Section::Noted.place())?.get(at).copied().unwrap_or(0);
    Ok(Hit {
        place,
        seq: segment.column::<u32>(Section::Seq.place())?.get(at).copied().unwrap_or(0),
        rating: segment.column::<u8>(Section::Rating.place())?.get(at).copied().unwrap_or(0),
        tags: segment.list(TAG, doc)?.into_iter().map(str::to_owned).collect(),
        noted: (noted > 0).then_some(noted),
        distance: similar.then(|| place.rank.saturating_sub(1)),
        siblings: None,
    })
}

/// Returns the documents of the set with a similar image, ascending, each with the rank of its most similar one: 0 for the
/// same pixels, otherwise 1 more than the distance.
fn similar(segment: &Segment, set: &Set, wanted: (u128, Option<u64>)) -> Result<Vec<(u32, u32)>, Damage> {
    let docs = segment.column::<u32>(Section::HashDocs.place())?;
    let all = segment.column::<u128>(Section::PerceptualHash.place())?;
    let pixels = segment.column::<u64>(Section::Pixels.place())?;
    let mut found: Vec<(u32, u32)> = Vec::new();
    for (doc, (its, pixels)) in docs.iter().zip(all.iter().zip(pixels)) {
        let distance = (its ^ wanted.0).count_ones();
        if distance > SIMILAR || !set.contains(*doc) {
            continue;
        }
        let rank = if distance == 0 && wanted.1 == Some(*pixels) { 0 } else { distance + 1 };
        match found.last_mut().filter(|(last, _)| last == doc) {
            Some((_, nearest)) => *nearest = rank.min(*nearest),
            None => found.push((*doc, rank)),
        }
    }
    Ok(found)
}

/// The first hits after the cursor, and one more to know whether others follow.
struct TopHits {
    after: Option<SearchKey>,
    most: usize,
    heap: BinaryHeap<(SearchKey, usize, u32)>,
}

impl TopHits {
    fn new(question: &Question) -> TopHits {
        let most = question.skip.saturating_add(question.limit).saturating_add(1);
        TopHits { after: question.after, most, heap: BinaryHeap::new() }
    }

    /// Offers the documents of a set in descending order. The first comparison rejects most, since sessions are ordered by
    /// day.
    fn take(&mut self, part: usize, segment: &Segment, set: &Set, rank: impl Fn(u32) -> u32) -> Result<(), Damage> {
        let made = segment.column::<i64>(Section::Made.place())?;
        let indexes = segment.column::<u32>(Section::Index.place())?;
        let mut damage = None;
        set.for_each_descending(|doc| {
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
                    self.offer(SearchKey { rank, made, id: session.iteration(index) }, part, doc);
                }
                Ok(None) => damage = Some(Damage::new("a session key is invalid")),
                Err(error) => damage = Some(error),
            }
        });
        damage.map_or(Ok(()), Err)
    }

    fn offer(&mut self, place: SearchKey, part: usize, doc: u32) {
        if self.after.is_none_or(|after| place > after) {
            self.heap.push((place, part, doc));
            if self.heap.len() > self.most {
                self.heap.pop();
            }
        }
    }

    fn into_sorted(self) -> Vec<(SearchKey, usize, u32)> {
        self.heap.into_sorted_vec()
    }
}

/// The first hit of every session. A session may span several segments, so the first hit and the number of matches are
/// only known at the end.
#[derive(Default)]
struct FirstPerSession(HashMap<SessionKey, First>);

struct First {
    place: SearchKey,
    part: usize,
    doc: u32,
    matching: u64,
}

impl FirstPerSession {
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
            let session = session_of(*key).ok_or(Damage::new("a session key is invalid"))?;
            let place = |doc: u32| SearchKey {
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
