//! Assembles the page, the total and the counts from the matching sets of all segments.

use std::collections::BinaryHeap;
use std::thread;

use super::bytes::Damage;
use super::columns::Section;
use super::counts::Counts;
use super::doc::{SIZE, SessionKey, TAG, key_of, pixels, session_of};
use super::evaluate::{SegmentView, evaluate_all, plan};
use super::segment::Segment;
use super::set::Set;
use super::{Facets, Found, Hit, MAX_RANK, Question, SIMILAR, SearchKey, Sort};

/// Searches these segments, using several threads from `worth_threads` documents on.
pub(super) fn find(question: &Question, parts: &[SegmentView], worth_threads: u64) -> Result<Found, Damage> {
    let plan = plan(&question.query, parts)?;
    let sets = evaluate_all(&plan, parts, worth_threads)?;
    let matches = parts.iter().enumerate().zip(sets).map(|((at, part), set)| Matches::new(question, at, part, set));
    let matches = matches.collect::<Result<Vec<_>, _>>()?;
    let total = matches.iter().map(|matches| matches.set.len()).sum();
    // Facets take about as long as hits, and both only read the sets.
    let (found, facets) = thread::scope(|scope| {
        let count = || question.facets.then(|| facets(parts, &matches)).transpose();
        let counting = (question.facets && total >= worth_threads).then(|| scope.spawn(count));
        let found = hits(question, parts, &matches, total);
        let facets = match counting {
            Some(counting) => counting.join().unwrap_or_else(|_| Err(Damage::new("a thread panicked"))),
            None => count(),
        };
        (found, facets)
    });
    Ok(Found { facets: facets?, ..found? })
}

/// Returns the hits of the requested page.
fn hits(question: &Question, parts: &[SegmentView], matches: &[Matches<'_>], total: u64) -> Result<Found, Damage> {
    let mut best = TopHits::new(question, parts);
    let mut firsts = FirstPerSession::default();
    let mut found = Found { total, ..Found::default() };
    for matches in matches {
        match &matches.order {
            RankOrder::Equal => matches.offer(|_| 0, question, &mut best, &mut firsts)?,
            RankOrder::Rating(ratings) => {
                let lacks = |doc: u32| 5 - u32::from(ratings.get(doc as usize).copied().unwrap_or(0)).min(5);
                matches.offer(lacks, question, &mut best, &mut firsts)?;
            }
            RankOrder::Size(numbers, ranks) => {
                let number = |doc: u32| numbers.get(doc as usize).copied().unwrap_or(0);
                let rank = |doc: u32| ranks.get(number(doc) as usize).copied().unwrap_or(MAX_RANK);
                matches.offer(rank, question, &mut best, &mut firsts)?;
            }
            RankOrder::Random { seed, made, indexes } => {
                let at = |doc: u32| Some((*made.get(doc as usize)?, *indexes.get(doc as usize)?));
                let rank = |doc: u32| at(doc).map_or(0, |(made, index)| random_rank(*seed, made, index));
                matches.offer(rank, question, &mut best, &mut firsts)?;
            }
            RankOrder::Likeness(ranks) => {
                let place = |doc: u32| ranks.binary_search_by_key(&doc, |(doc, _)| *doc).ok();
                let rank = |doc: u32| place(doc).and_then(|at| ranks.get(at)).map_or(SIMILAR + 1, |found| found.1);
                matches.offer(rank, question, &mut best, &mut firsts)?;
            }
        }
    }
    if question.per_session {
        firsts.unite();
        found.total = firsts.0.len() as u64;
        firsts.0.iter().for_each(|first| best.offer(first.place, first.part, first.doc));
    }
    let chosen = best.into_page(parts)?;
    found.more = chosen.len() > question.limit;
    for (place, at, doc) in chosen.into_iter().take(question.limit) {
        let Some(part) = parts.get(at) else { continue };
        let siblings = firsts.get(key_of(place.id.session)).map(|first| first.matching);
        found.hits.push(Hit { siblings, ..hit(&part.segment, doc, place, question.perceptual_hash.is_some())? });
    }
    Ok(found)
}

/// Counts all matches per value of each facet.
fn facets(parts: &[SegmentView], matches: &[Matches<'_>]) -> Result<Facets, Damage> {
    let mut counts = Counts::default();
    for matches in matches.iter().filter(|matches| !matches.set.is_empty()) {
        counts.take(matches.segment, &matches.set, parts)?;
    }
    Ok(counts.into_facets())
}

/// The matching documents of a segment.
struct Matches<'a> {
    /// The number of the segment.
    at: usize,
    segment: &'a Segment,
    set: Set,
    order: RankOrder<'a>,
}

/// What hits are ordered by, before their times.
enum RankOrder<'a> {
    Equal,
    /// The ratings of all documents; the best come first.
    Rating(&'a [u8]),
    /// The number of the size of all documents, and the rank of each size by its number; the largest come first.
    Size(&'a [u32], Vec<u32>),
    /// Determined by a number and by what never changes of a document: when it was made, and its index.
    Random {
        seed: u16,
        made: &'a [i64],
        indexes: &'a [u32],
    },
    /// The rank of each matching document, ascending by document.
    Likeness(Vec<(u32, u32)>),
}

/// Returns the rank of a size such as `1024x768`: the smaller, the more pixels. The edge of a square with as many pixels
/// fits into a rank, their number would not.
fn size_rank(size: &str) -> u32 {
    let sides = size.split_once('x').and_then(|(width, height)| Some((width.parse().ok()?, height.parse().ok()?)));
    let edge = sides.map_or(0, |(width, height): (u32, u32)| (u64::from(width) * u64::from(height)).isqrt());
    MAX_RANK.saturating_sub(u32::try_from(edge).unwrap_or(MAX_RANK))
}

/// Returns a random rank: the last step of `splitmix64`, which spreads any input over all bits.
fn random_rank(seed: u16, made: i64, index: u32) -> u32 {
    let mut bits =
        made.cast_unsigned() ^ (u64::from(index) << 48) ^ u64::from(seed).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    u32::try_from((bits ^ (bits >> 31)) >> 48).unwrap_or(MAX_RANK)
}

impl<'a> Matches<'a> {
    /// Takes the set that a query matches in a segment, and leaves out superseded and excluded documents.
    fn new(question: &Question, at: usize, part: &'a SegmentView, set: Set) -> Result<Matches<'a>, Damage> {
        let segment = part.segment.as_ref();
        let mut set = set.minus(&part.dead);
        if let Some(id) = question.except
            && let Some(itself) = segment.find(key_of(id.session), id.index)?
        {
            set = set.keep(|doc| doc != itself);
        }
        let order = match question.perceptual_hash {
            _ if set.is_empty() => RankOrder::Equal,
            Some(perceptual_hash) => {
                let wanted = (perceptual_hash.0, question.pixels.map(pixels));
                let ranks = similar(segment, &set, wanted)?;
                set = Set::of(ranks.iter().map(|(doc, _)| *doc).collect(), segment.docs());
                RankOrder::Likeness(ranks)
            }
            None if question.shuffle.is_some() => RankOrder::Random {
                seed: question.shuffle.unwrap_or_default(),
                made: segment.column::<i64>(Section::Made.place())?,
                indexes: segment.column::<u32>(Section::Index.place())?,
            },
            None if question.sort == Sort::Largest => {
                let place = Section::name(SIZE);
                // Number 0 is an unknown size.
                let ranks = segment.names(place + 1)?.iter().map(|size| size_rank(size));
                let ranks = std::iter::once(MAX_RANK).chain(ranks).collect();
                RankOrder::Size(segment.column::<u32>(place)?, ranks)
            }
            None if question.sort == Sort::Best => RankOrder::Rating(segment.column::<u8>(Section::Rating.place())?),
            None => RankOrder::Equal,
        };
        Ok(Matches { at, segment, set, order })
    }

    fn offer(
        &self,
        rank: impl Fn(u32) -> u32,
        question: &Question,
        best: &mut TopHits,
        firsts: &mut FirstPerSession,
    ) -> Result<(), Damage> {
        match self.set.is_empty() {
            true => Ok(()),
            false if question.per_session => firsts.take(self.at, self.segment, &self.set, rank),
            false => best.take(self.at, self.segment, &self.set, rank),
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

/// The share of all documents, as a divisor, above which skipping uses selection: maintaining a heap of that many hits
/// would take longer.
const DEEP_SKIP: u64 = 64;

/// The hits of the requested page, and one more to know whether others follow.
struct TopHits {
    after: Option<SearchKey>,
    skip: usize,
    is_deep: bool,
    /// How many hits from the first on are needed.
    most: usize,
    heap: BinaryHeap<(SearchKey, usize, u32)>,
    /// All hits after the cursor, if many of them are skipped: the ids of few are ever needed.
    unsorted: Vec<RoughHit>,
}

/// A hit with the part of its key that is found in columns. Hits of the same order are sorted by their full keys.
#[derive(Clone, Copy)]
struct RoughHit {
    order: u64,
    part: u32,
    doc: u32,
}

impl RoughHit {
    /// The number of bits of the time, in milliseconds.
    const TIME_BITS: u32 = 48;
    /// The latest time that is ordered by itself, more than 4000 years from 1970.
    const MAX_TIME: i64 = (1 << (RoughHit::TIME_BITS - 1)) - 1;

    /// Combines rank and time into one number, since selecting from a million of them is limited by memory.
    fn order(rank: u32, made: i64) -> u64 {
        let age = RoughHit::MAX_TIME - made.clamp(-RoughHit::MAX_TIME, RoughHit::MAX_TIME);
        u64::from(rank) << RoughHit::TIME_BITS | age.cast_unsigned()
    }

    fn rank(&self) -> u32 {
        u32::try_from(self.order >> RoughHit::TIME_BITS).unwrap_or(u32::MAX)
    }
}

impl TopHits {
    fn new(question: &Question, parts: &[SegmentView]) -> TopHits {
        let Question { after, skip, limit, .. } = *question;
        let most = skip.saturating_add(limit).saturating_add(1);
        let docs: u64 = parts.iter().map(|part| u64::from(part.segment.docs())).sum();
        let is_deep = skip > 0 && skip as u64 >= docs / DEEP_SKIP;
        TopHits { after, skip, is_deep, most, heap: BinaryHeap::new(), unsorted: Vec::new() }
    }

    /// Offers the documents of a set in descending order. The first comparison rejects most, since sessions are ordered by
    /// day.
    fn take(&mut self, part: usize, segment: &Segment, set: &Set, rank: impl Fn(u32) -> u32) -> Result<(), Damage> {
        let made = segment.column::<i64>(Section::Made.place())?;
        let mut damage = None;
        set.for_each_descending(|doc| {
            let rank = rank(doc);
            let made = made.get(doc as usize).copied().unwrap_or(i64::MIN);
            if self.heap.len() >= self.most
                && self.heap.peek().is_some_and(|(worst, ..)| (rank, -made) > (worst.rank, -worst.made))
            {
                return;
            }
            let after = self.after.map(|after| (rank, -made).cmp(&(after.rank, -after.made)));
            if after.is_some_and(std::cmp::Ordering::is_lt) {
                return;
            }
            // There are far fewer segments than fit into this.
            let part_number = u32::try_from(part).unwrap_or(u32::MAX);
            let rough = RoughHit { order: RoughHit::order(rank, made), part: part_number, doc };
            if self.is_deep && !after.is_some_and(std::cmp::Ordering::is_eq) {
                self.unsorted.push(rough);
                return;
            }
            match key_in(segment, doc, rank, made) {
                Ok(place) if !self.is_deep => self.offer(place, part, doc),
                Ok(place) if self.after.is_none_or(|after| place > after) => self.unsorted.push(rough),
                Ok(_) => {}
                Err(error) => damage = Some(error),
            }
        });
        damage.map_or(Ok(()), Err)
    }

    fn offer(&mut self, place: SearchKey, part: usize, doc: u32) {
        let is_full = self.heap.len() >= self.most;
        let is_worse = is_full && self.heap.peek().is_some_and(|(worst, ..)| place > *worst);
        if !is_worse && self.after.is_none_or(|after| place > after) {
            self.heap.push((place, part, doc));
            if self.heap.len() > self.most {
                self.heap.pop();
            }
        }
    }

    /// Returns the hits after those to skip, in order.
    fn into_page(self, parts: &[SegmentView]) -> Result<Vec<(SearchKey, usize, u32)>, Damage> {
        let TopHits { skip, most, heap, mut unsorted, .. } = self;
        if unsorted.is_empty() {
            return Ok(heap.into_sorted_vec().into_iter().skip(skip).collect());
        }
        if skip >= unsorted.len() {
            return Ok(Vec::new());
        }
        let last = most.min(unsorted.len()) - 1;
        let (_, first, rest) = unsorted.select_nth_unstable_by_key(skip, |hit| hit.order);
        let first = first.order;
        let last = match last - skip {
            0 => first,
            beyond => rest.select_nth_unstable_by_key(beyond - 1, |hit| hit.order).1.order,
        };
        let before = unsorted.iter().filter(|hit| hit.order < first).count();
        let near = unsorted.iter().filter(|hit| (first..=last).contains(&hit.order));
        let mut page: Vec<(SearchKey, usize, u32)> = Vec::new();
        for hit in near {
            let at = hit.part as usize;
            let Some(segment) = parts.get(at).map(|part| &part.segment) else { continue };
            let made = segment.column::<i64>(Section::Made.place())?.get(hit.doc as usize).copied().unwrap_or(i64::MIN);
            page.push((key_in(segment, hit.doc, hit.rank(), made)?, at, hit.doc));
        }
        page.sort_unstable();
        Ok(page.into_iter().skip(skip - before).take(most - skip).collect())
    }
}

fn key_in(segment: &Segment, doc: u32, rank: u32, made: i64) -> Result<SearchKey, Damage> {
    let index = segment.column::<u32>(Section::Index.place())?.get(doc as usize).copied().unwrap_or(0);
    let session = session_of(segment.session(doc)?).ok_or(Damage::new("a session key is invalid"))?;
    Ok(SearchKey { rank, made, id: session.iteration(index) })
}

/// The first hit of every session, ordered by session once they are united.
#[derive(Default)]
struct FirstPerSession(Vec<First>);

struct First {
    session: SessionKey,
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
            let is_whole = matching == u64::from(end - start);
            let docs = (start..end).filter(|doc| is_whole || set.contains(*doc)).map(|doc| (place(doc), doc));
            let Some((place, doc)) = docs.min() else { continue };
            self.0.push(First { session: *key, place, part, doc, matching });
        }
        Ok(())
    }

    /// Makes one hit of those that a session has in several segments.
    fn unite(&mut self) {
        if self.0.is_sorted_by(|one, next| one.session < next.session) {
            return;
        }
        self.0.sort_unstable_by_key(|first| (first.session, first.place));
        self.0.dedup_by(|next, first| {
            let is_same = next.session == first.session;
            if is_same {
                first.matching += next.matching;
            }
            is_same
        });
    }

    fn get(&self, session: SessionKey) -> Option<&First> {
        let at = self.0.binary_search_by_key(&session, |first| first.session).ok()?;
        self.0.get(at)
    }
}
