//! Evaluates a query on a segment, to the set of matching documents.
//!
//! Texts give sets of documents, from posting lists. Everything else is a test on columns, applied only to documents that
//! the texts left. Session properties (title, project, archived) are resolved first for the whole index, since the newest
//! state of a session may be in another segment than its iterations.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use retake_log::model::query::{Condition, Facet, Field, MatchKind, Part, Query};
use retake_log::model::tokenizer::{fold_name, inflections};

use super::bytes::{Damage, Extent};
use super::columns::Section;
use super::doc::{
    ACTOR, GENERATOR, HAS_IMAGE, HAS_NEGATIVE, HAS_SEED, LORA, MODEL, OUTCOME, QUANTITIES, SAMPLER, SCHEDULER, SEED,
    SIZE, SessionKey, TAG, UNKNOWN, key_of, outcome_flag, size_name,
};
use super::segment::Segment;
use super::set::{Bits, Ranks, Set};
use super::terms::{self, Term};

/// A segment, with the documents that newer segments supersede.
#[derive(Clone)]
pub(super) struct SegmentView {
    pub(super) segment: Arc<Segment>,
    /// Documents that a newer segment supersedes.
    pub(super) dead: Arc<Bits>,
    /// Sessions that a newer segment supersedes.
    pub(super) dead_sessions: Arc<Bits>,
}

/// A query whose conditions on sessions are resolved.
pub(super) enum Plan<'a> {
    All(Vec<Plan<'a>>),
    Any(Vec<Plan<'a>>),
    Not(Box<Plan<'a>>),
    /// These words as a phrase in one of these fields.
    Words(&'static [Field], &'a [String], MatchKind),
    /// A test on columns.
    Test(&'a Condition),
    /// All iterations of these sessions, ascending.
    Sessions(Vec<SessionKey>),
}

const OWN_TEXTS: &[Field] = &[Field::Prompt, Field::Negative, Field::Note, Field::Message];

/// Resolves the conditions of a query on sessions.
pub(super) fn plan<'a>(query: &'a Query, parts: &[SegmentView]) -> Result<Plan<'a>, Damage> {
    let all = |queries: &'a [Query]| queries.iter().map(|query| plan(query, parts)).collect::<Result<Vec<_>, _>>();
    Ok(match query {
        Query::All(queries) => Plan::All(all(queries)?),
        Query::Any(queries) => Plan::Any(all(queries)?),
        Query::Not(query) => Plan::Not(Box::new(plan(query, parts)?)),
        Query::Is(Condition::Text { field, words, by }) => match field {
            Some(Field::Title) => Plan::Sessions(titled(words, *by, parts)?),
            Some(Field::Prompt) => Plan::Words(&[Field::Prompt], words, *by),
            Some(Field::Negative) => Plan::Words(&[Field::Negative], words, *by),
            Some(Field::Note) => Plan::Words(&[Field::Note], words, *by),
            Some(Field::Message) => Plan::Words(&[Field::Message], words, *by),
            None => {
                let own = Plan::Words(OWN_TEXTS, words, *by);
                let sessions = titled(words, *by, parts)?;
                if sessions.is_empty() { own } else { Plan::Any(vec![own, Plan::Sessions(sessions)]) }
            }
        },
        Query::Is(Condition::Name { facet: Facet::Project, by, value }) => {
            Plan::Sessions(in_project(*by, value, parts)?)
        }
        Query::Is(Condition::Archived(true)) => Plan::Sessions(archived(parts)?),
        Query::Is(Condition::Archived(false)) => Plan::Not(Box::new(Plan::Sessions(archived(parts)?))),
        Query::Is(Condition::Session(id)) => Plan::Sessions(vec![key_of(*id)]),
        Query::Is(condition) => Plan::Test(condition),
    })
}

/// The maximum number of threads for one phrase.
const MAX_THREADS: usize = 4;

/// Returns the matching documents of each segment, dead ones included. Only phrases take long, since all positions of
/// their words are read; segments are then distributed over threads.
pub(super) fn evaluate_all(plan: &Plan<'_>, parts: &[SegmentView], worth_threads: u64) -> Result<Vec<Set>, Damage> {
    let docs: u64 = parts.iter().map(|part| u64::from(part.segment.docs())).sum();
    let threads = thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS).min(parts.len());
    if threads < 2 || docs < worth_threads || !plan.has_phrase() {
        return parts.iter().map(|part| evaluate(plan, &part.segment)).collect();
    }
    // The largest first, so that no thread is left with it at the end.
    let mut order: Vec<(usize, &SegmentView)> = parts.iter().enumerate().collect();
    order.sort_unstable_by_key(|(_, part)| Reverse(part.segment.docs()));
    let next = AtomicUsize::new(0);
    let some = || {
        let mut found = Vec::new();
        while let Some((at, part)) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
            found.push((*at, evaluate(plan, &part.segment)?));
        }
        Ok::<_, Damage>(found)
    };
    let mut sets = thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(some)).collect();
        let mut sets = some()?;
        for other in others {
            sets.extend(other.join().map_err(|_| Damage::new("a thread panicked"))??);
        }
        Ok::<_, Damage>(sets)
    })?;
    sets.sort_unstable_by_key(|(at, _)| *at);
    Ok(sets.into_iter().map(|(_, set)| set).collect())
}

/// Returns the matching documents of a segment, dead ones included.
fn evaluate(plan: &Plan<'_>, segment: &Segment) -> Result<Set, Damage> {
    let universe = segment.docs();
    match plan {
        Plan::All(plans) => {
            let (tests, others): (Vec<_>, Vec<_>) = plans.iter().partition(|plan| plan.as_test().is_some());
            let mut found: Option<Set> = None;
            for other in others {
                let set = evaluate(other, segment)?;
                let both = match found {
                    Some(found) => found.and(&set),
                    None => set,
                };
                if both.is_empty() {
                    return Ok(Set::empty());
                }
                found = Some(both);
            }
            let mut found = found.unwrap_or_else(|| Set::all(universe));
            for (condition, negated) in tests.into_iter().filter_map(Plan::as_test) {
                match test(condition, segment)? {
                    Some(test) => found = found.keep(|doc| test(doc) != negated),
                    // No document of the segment passes, so none needs to be asked.
                    None if negated => {}
                    None => return Ok(Set::empty()),
                }
            }
            Ok(found)
        }
        Plan::Any(plans) => {
            let mut found = Set::empty();
            for plan in plans {
                found = found.or(evaluate(plan, segment)?, universe);
            }
            Ok(found)
        }
        Plan::Not(plan) => Ok(evaluate(plan, segment)?.not(universe)),
        Plan::Words(fields, words, by) => with_words(segment, fields, words, *by, universe),
        Plan::Test(condition) => {
            Ok(test(condition, segment)?.map_or_else(Set::empty, |test| Set::all(universe).keep(test)))
        }
        Plan::Sessions(sessions) => of_sessions(segment, sessions),
    }
}

impl<'a> Plan<'a> {
    /// Returns whether the plan searches iterations for a phrase.
    fn has_phrase(&self) -> bool {
        match self {
            Plan::All(plans) | Plan::Any(plans) => plans.iter().any(Plan::has_phrase),
            Plan::Not(plan) => plan.has_phrase(),
            Plan::Words(_, words, _) => words.len() > 1,
            Plan::Test(_) | Plan::Sessions(_) => false,
        }
    }

    /// Returns the test of this plan, and whether it is negated.
    fn as_test(&self) -> Option<(&'a Condition, bool)> {
        match self {
            Plan::Test(condition) => Some((condition, false)),
            Plan::Not(plan) => match plan.as_ref() {
                Plan::Test(condition) => Some((condition, true)),
                _ => None,
            },
            _ => None,
        }
    }
}

type Test<'a> = Box<dyn Fn(u32) -> bool + 'a>;

/// Returns the test of a condition; `None` if no document of the segment passes it, because the name it asks for does
/// not occur there.
fn test<'a>(condition: &Condition, segment: &'a Segment) -> Result<Option<Test<'a>>, Damage> {
    let flags = |mask: u8, value: u8| -> Result<Test<'a>, Damage> {
        let flags = segment.column::<u8>(Section::Flags.place())?;
        Ok(Box::new(move |doc| flags.get(doc as usize).is_some_and(|flags| flags & mask == value)))
    };
    Ok(Some(match condition {
        Condition::Name { facet, by, value } => {
            return match facet {
                Facet::Model => named(segment, MODEL, *by, value),
                Facet::Sampler => named(segment, SAMPLER, *by, value),
                Facet::Generator => named(segment, GENERATOR, *by, value),
                Facet::Scheduler => named(segment, SCHEDULER, *by, value),
                Facet::Actor => listed(segment, ACTOR, *by, value),
                Facet::Lora => listed(segment, LORA, *by, value),
                Facet::Tag => listed(segment, TAG, *by, value),
                Facet::Project => Ok(None),
            };
        }
        Condition::Number { quantity, low, high } => {
            let kind = QUANTITIES.iter().position(|of| of == quantity).unwrap_or(0);
            let numbers = segment.column::<i64>(Section::Quantity.place() + kind)?;
            let range = *low..=*high;
            Box::new(move |doc| {
                numbers.get(doc as usize).is_some_and(|number| *number != UNKNOWN && range.contains(number))
            })
        }
        Condition::Size(width, height) => {
            return named(segment, SIZE, MatchKind::Whole, &size_name(*width, *height));
        }
        Condition::Seed(seed) => {
            let (seeds, flags) =
                (segment.column::<u64>(Section::Seed.place())?, segment.column::<u8>(Section::Flags.place())?);
            let is_another = listed(segment, SEED, MatchKind::Whole, &seed.to_string())?;
            let seed = *seed;
            Box::new(move |doc| {
                let is_first = seeds.get(doc as usize) == Some(&seed)
                    && flags.get(doc as usize).is_some_and(|flags| flags & HAS_SEED != 0);
                is_first || is_another.as_ref().is_some_and(|is_another| is_another(doc))
            })
        }
        Condition::Rating(low, high) => {
            let ratings = segment.column::<u8>(Section::Rating.place())?;
            let range = *low..=*high;
            Box::new(move |doc| ratings.get(doc as usize).is_some_and(|rating| range.contains(rating)))
        }
        Condition::Outcome(status) => flags(OUTCOME, outcome_flag(*status))?,
        Condition::Has(Part::Image) => flags(HAS_IMAGE, HAS_IMAGE)?,
        Condition::Has(Part::Negative) => flags(HAS_NEGATIVE, HAS_NEGATIVE)?,
        Condition::Has(Part::Rating) => {
            let ratings = segment.column::<u8>(Section::Rating.place())?;
            Box::new(move |doc| ratings.get(doc as usize).is_some_and(|rating| *rating > 0))
        }
        Condition::Has(Part::Note) => {
            let noted = segment.column::<u32>(Section::Noted.place())?;
            Box::new(move |doc| noted.get(doc as usize).is_some_and(|noted| *noted > 0))
        }
        Condition::Has(Part::Tag) => has_list(segment, TAG)?,
        Condition::Has(Part::Lora) => has_list(segment, LORA)?,
        Condition::Made { from, until } => {
            let made = segment.column::<i64>(Section::Made.place())?;
            let (from, until) = (from.unwrap_or(i64::MIN), until.unwrap_or(i64::MAX));
            Box::new(move |doc| made.get(doc as usize).is_some_and(|made| (from..until).contains(made)))
        }
        // Resolved by `plan`.
        Condition::Text { .. } | Condition::Archived(_) | Condition::Session(_) => return Ok(None),
    }))
}

/// Returns, for each number of a name (from 1; 0 means no name), whether the name matches.
fn matching_names(names: &[String], by: MatchKind, value: &str) -> Vec<bool> {
    std::iter::once(false).chain(names.iter().map(|name| by.holds(&fold_name(name), value))).collect()
}

fn named<'a>(segment: &'a Segment, kind: usize, by: MatchKind, value: &str) -> Result<Option<Test<'a>>, Damage> {
    let place = Section::name(kind);
    let matching_names = matching_names(segment.names(place + 1)?, by, value);
    if !matching_names.contains(&true) {
        return Ok(None);
    }
    let numbers = segment.column::<u32>(place)?;
    Ok(Some(Box::new(move |doc| {
        numbers.get(doc as usize).is_some_and(|number| matching_names.get(*number as usize).copied().unwrap_or(false))
    })))
}

fn listed<'a>(segment: &'a Segment, kind: usize, by: MatchKind, value: &str) -> Result<Option<Test<'a>>, Damage> {
    let place = Section::list(kind);
    let matching_names = matching_names(segment.names(place + 2)?, by, value);
    if !matching_names.contains(&true) {
        return Ok(None);
    }
    let (starts, numbers) = (segment.column::<u32>(place)?, segment.column::<u32>(place + 1)?);
    Ok(Some(Box::new(move |doc| {
        let range = starts.get(doc as usize).zip(starts.get(doc as usize + 1));
        let its = range.and_then(|(start, end)| numbers.get(*start as usize..*end as usize)).unwrap_or_default();
        its.iter().any(|number| matching_names.get(*number as usize).copied().unwrap_or(false))
    })))
}

fn has_list(segment: &Segment, kind: usize) -> Result<Test<'_>, Damage> {
    let starts = segment.column::<u32>(Section::list(kind))?;
    Ok(Box::new(move |doc| starts.get(doc as usize) < starts.get(doc as usize + 1)))
}

/// Returns the documents with these words as a phrase in one of these fields.
fn with_words(
    segment: &Segment,
    fields: &[Field],
    words: &[String],
    by: MatchKind,
    universe: u32,
) -> Result<Set, Damage> {
    let mut slots: Vec<Vec<Term>> = Vec::with_capacity(words.len());
    for (at, word) in words.iter().enumerate() {
        let mut terms = match by {
            MatchKind::Start if at + 1 == words.len() => segment.terms(&terms::keys_from(word))?,
            MatchKind::Part if words.len() == 1 => related(segment, word)?,
            _ => segment.terms(&terms::keys_of(word))?,
        };
        terms.retain(|term| fields.contains(&term.field));
        if terms.is_empty() {
            return Ok(Set::empty());
        }
        slots.push(terms);
    }
    if let [terms] = slots.as_slice() {
        return union(segment, &terms.iter().collect::<Vec<_>>(), universe);
    }
    let mut found = Set::empty();
    for field in fields {
        let of_field: Vec<Vec<&Term>> =
            slots.iter().map(|terms| terms.iter().filter(|term| term.field == *field).collect()).collect();
        if of_field.iter().all(|terms: &Vec<&Term>| !terms.is_empty()) {
            found = found.or(phrase_matches(segment, &of_field, universe)?, universe);
        }
    }
    Ok(found)
}

/// Returns the terms that contain a word or are its singular or plural, ascending.
fn related(segment: &Segment, word: &str) -> Result<Vec<Term>, Damage> {
    let mut words: BTreeSet<Cow<'_, str>> = segment.words_containing(word)?.into_iter().map(Cow::Borrowed).collect();
    words.extend(inflections(word).into_iter().map(Cow::Owned));
    let mut terms = Vec::new();
    for word in &words {
        terms.extend(segment.terms(&terms::keys_of(word))?);
    }
    Ok(terms)
}

/// Returns the documents that contain one term of each slot at consecutive positions.
///
/// For example, "glass bridge" in "a glass bridge": `glass` has position 1 and `bridge` position 2. Shifted back by their
/// slots (0 and 1) both become 1, so both bit sets have bit 1, and their intersection is not empty.
fn phrase_matches(segment: &Segment, slots: &[Vec<&Term>], universe: u32) -> Result<Set, Damage> {
    let mut both: Option<Set> = None;
    for terms in slots {
        let set = union(segment, terms, universe)?;
        both = Some(match both {
            Some(both) => both.and(&set),
            None => set,
        });
    }
    let Some(candidates) = both.filter(|both| !both.is_empty()) else { return Ok(Set::empty()) };
    // Most prompts have fewer than 64 words, so the positions of a document are the bits of a number, shifted back by the
    // slot: a phrase is a bit that all slots share. Later positions are kept as numbers of document and position, and
    // intersected as sorted lists.
    let candidates = candidates.into_bits(universe);
    let ranks = Ranks::new(&candidates);
    let count = usize::try_from(candidates.len()).unwrap_or(usize::MAX);
    let mut rows = vec![u64::MAX; count];
    let mut near = vec![0u64; count];
    let mut far: Option<Vec<u64>> = None;
    for (slot, terms) in (0u32..).zip(slots) {
        near.fill(0);
        let mut beyond = Vec::new();
        for term in terms {
            let mut take = |(doc, rank): (u32, usize), place: u32| match (place.checked_sub(slot), near.get_mut(rank)) {
                (Some(place @ 0..64), Some(near)) => *near |= 1 << place,
                (Some(place), _) => beyond.push(u64::from(doc) << 32 | u64::from(place)),
                (None, _) => {}
            };
            let positions = segment.read(term.positions)?;
            let of_term = terms::read_set(&segment.read(term.docs)?, term.count, universe)?;
            if terms.len() > 1 {
                let docs = of_term.into_bits(universe);
                let mut docs = docs.ascending();
                let wanted = || docs.next().map(|doc| ranks.of(doc).map(|rank| (doc, rank)));
                terms::read_positions(&positions, term.count, wanted, &mut take)?;
                continue;
            }
            // All candidates contain the only term of a slot, so their ranks are consecutive.
            let mut in_order = 0..count;
            let mut known = |doc: u32| if candidates.contains(doc) { Some((doc, in_order.next()?)) } else { None };
            match of_term {
                Set::Few(docs) => {
                    let mut docs = docs.into_iter();
                    terms::read_positions(&positions, term.count, || docs.next().map(&mut known), &mut take)?;
                }
                Set::Many(docs) => {
                    let mut docs = docs.ascending();
                    terms::read_positions(&positions, term.count, || docs.next().map(&mut known), &mut take)?;
                }
            }
        }
        rows.iter_mut().zip(&near).for_each(|(row, near)| *row &= near);
        if terms.len() > 1 {
            beyond.sort_unstable();
        }
        far = Some(match far {
            Some(far) => intersection(&far, &beyond),
            None => beyond,
        });
    }
    let phrase_matches = candidates.ascending().zip(&rows).filter(|(_, row)| **row != 0);
    let mut found: Vec<u32> = phrase_matches.map(|(doc, _)| doc).collect();
    let far = far.unwrap_or_default();
    if !far.is_empty() {
        found.extend(far.iter().filter_map(|row| u32::try_from(row >> 32).ok()));
        found.sort_unstable();
        found.dedup();
    }
    Ok(Set::of(found, universe))
}

/// Returns the numbers that two ascending lists share.
fn intersection(one: &[u64], other: &[u64]) -> Vec<u64> {
    let mut others = other.iter().copied().peekable();
    let mut both = Vec::new();
    for number in one {
        while others.next_if(|other| other < number).is_some() {}
        if others.peek() == Some(number) {
            both.push(*number);
        }
    }
    both
}

/// Returns the documents that contain any of these ascending terms.
fn union(segment: &Segment, terms: &[&Term], universe: u32) -> Result<Set, Damage> {
    if let [term] = terms {
        return terms::read_set(&segment.read(term.docs)?, term.count, universe);
    }
    let count = |at: usize| terms.get(at).map_or(0, |term| term.count);
    let lists: Vec<Extent> = terms.iter().map(|term| term.docs).collect();
    let sum: u64 = terms.iter().map(|term| u64::from(term.count)).sum();
    if Set::is_many(sum, universe) {
        let mut bits = Bits::new(universe);
        segment.read_each(&lists, |at, bytes| terms::add_docs(bytes, count(at), universe, &mut bits))?;
        return Ok(Set::Many(bits));
    }
    let mut docs = Vec::new();
    segment.read_each(&lists, |at, bytes| {
        docs.extend(terms::read_docs(bytes, count(at), universe)?);
        Ok(())
    })?;
    docs.sort_unstable();
    docs.dedup();
    Ok(Set::of(docs, universe))
}

/// Returns the documents of these sessions.
fn of_sessions(segment: &Segment, sessions: &[SessionKey]) -> Result<Set, Damage> {
    if sessions.is_empty() {
        return Ok(Set::empty());
    }
    let mut bits = Bits::new(segment.docs());
    each_run(segment, sessions, |_, start, end| bits.fill(start, end))?;
    Ok(Set::Many(bits))
}

/// Calls `each` for the runs of these ascending sessions that the segment contains, with their index in `sessions`.
pub(super) fn each_run(
    segment: &Segment,
    sessions: &[SessionKey],
    mut each: impl FnMut(usize, u32, u32),
) -> Result<(), Damage> {
    let keys = segment.column::<u64>(Section::RunKeys.place())?;
    let few = sessions.len() * 16 < keys.len();
    let mut run = 0;
    for (at, session) in sessions.iter().enumerate() {
        if few {
            match keys.binary_search(session) {
                Ok(found) => run = found,
                Err(_) => continue,
            }
        } else {
            while keys.get(run).is_some_and(|key| key < session) {
                run += 1;
            }
        }
        if keys.get(run) == Some(session) {
            let (start, end) = segment.run_range(run)?;
            each(at, start, end);
        }
    }
    Ok(())
}

/// Returns the sessions with these words as a phrase in their title.
fn titled(words: &[String], by: MatchKind, parts: &[SegmentView]) -> Result<Vec<SessionKey>, Damage> {
    of_all(parts, |segment| with_words(segment, &[Field::Title], words, by, segment.sessions()))
}

fn in_project(by: MatchKind, value: &str, parts: &[SegmentView]) -> Result<Vec<SessionKey>, Damage> {
    of_all(parts, |segment| {
        let matching_names = matching_names(segment.names(Section::ProjectNames.place())?, by, value);
        if !matching_names.contains(&true) {
            return Ok(Set::empty());
        }
        let projects = segment.column::<u32>(Section::Project.place())?;
        let fits = |at: &(u32, &u32)| matching_names.get(*at.1 as usize).copied().unwrap_or(false);
        Ok(Set::Few((0..).zip(projects).filter(fits).map(|(at, _)| at).collect()))
    })
}

fn archived(parts: &[SegmentView]) -> Result<Vec<SessionKey>, Damage> {
    of_all(parts, |segment| {
        let archived = segment.column::<u8>(Section::Archived.place())?;
        Ok(Set::Few((0..).zip(archived).filter(|(_, archived)| **archived != 0).map(|(at, _)| at).collect()))
    })
}

/// Returns the keys of the sessions that `choose` selects in each segment and that no newer segment supersedes.
fn of_all(parts: &[SegmentView], choose: impl Fn(&Segment) -> Result<Set, Damage>) -> Result<Vec<SessionKey>, Damage> {
    let mut sessions = Vec::new();
    for part in parts.iter().filter(|part| part.segment.sessions() > 0) {
        let chosen = choose(&part.segment)?.minus(&part.dead_sessions);
        if chosen.is_empty() {
            continue;
        }
        let keys = part.segment.column::<u64>(Section::SessionKeys.place())?;
        chosen.for_each_descending(|at| sessions.extend(keys.get(at as usize)));
    }
    sessions.sort_unstable();
    Ok(sessions)
}
