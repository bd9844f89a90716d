//! Counts the matches per value of each facet.
//!
//! Names are counted by their number, once per matching document. If most of a segment matches, the other documents are
//! counted instead and subtracted from the counts of all, which are cached since segments never change.

use std::collections::HashMap;

use super::bytes::Damage;
use super::columns::Section;
use super::doc::{GENERATOR, LISTS, LORA, MODEL, OUTCOME, SAMPLER, SINGLE, SIZE, TAG};
use super::evaluate::{SegmentView, each_run};
use super::segment::Segment;
use super::set::Set;
use super::{Facets, MAX_FACET_VALUES};

/// The number of matches per value.
#[derive(Default)]
pub(super) struct Counts {
    singles: [HashMap<String, u64>; SINGLE],
    lists: [HashMap<String, u64>; LISTS],
    ratings: [u64; 6],
    outcomes: [u64; 4],
    projects: HashMap<String, u64>,
    archived: u64,
    all: u64,
}

impl Counts {
    pub(super) fn take(&mut self, segment: &Segment, set: &Set, parts: &[SegmentView]) -> Result<(), Damage> {
        self.all += set.len();
        let tally = Tally::of(segment, set)?;
        for (kind, (counts, tally)) in self.singles.iter_mut().zip(&tally.singles).enumerate() {
            add(counts, segment.names(Section::name(kind) + 1)?, tally);
        }
        for (kind, (counts, tally)) in self.lists.iter_mut().zip(&tally.lists).enumerate() {
            add(counts, segment.names(Section::list(kind) + 2)?, tally);
        }
        self.ratings.iter_mut().zip(tally.ratings).for_each(|(count, more)| *count += more);
        self.outcomes.iter_mut().zip(tally.outcomes).for_each(|(count, more)| *count += more);
        self.take_sessions(segment, set, parts)
    }

    /// Counts projects and archived sessions, by the newest state of each session.
    fn take_sessions(&mut self, segment: &Segment, set: &Set, parts: &[SegmentView]) -> Result<(), Damage> {
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

    pub(super) fn into_facets(self) -> Facets {
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

/// The number of documents of a segment per name, by its number from 1; 0 counts those without one.
#[derive(Clone)]
pub(super) struct Tally {
    singles: [Vec<u64>; SINGLE],
    lists: [Vec<u64>; LISTS],
    ratings: [u64; 6],
    outcomes: [u64; 4],
}

impl Tally {
    /// Counts the documents of a set. If they are most of the segment, the others are counted and subtracted from all.
    fn of(segment: &Segment, set: &Set) -> Result<Tally, Damage> {
        if set.len() * 2 <= u64::from(segment.docs()) {
            return Tally::count(segment, set);
        }
        let mut tally = segment.tally()?.clone();
        tally.minus(&Tally::count(segment, &set.not(segment.docs()))?);
        Ok(tally)
    }

    /// Counts document by document.
    pub(super) fn count(segment: &Segment, set: &Set) -> Result<Tally, Damage> {
        let mut docs = Vec::new();
        set.for_each_descending(|doc| docs.push(doc as usize));
        let mut tally =
            Tally { singles: Default::default(), lists: Default::default(), ratings: [0; 6], outcomes: [0; 4] };
        for (kind, counts) in tally.singles.iter_mut().enumerate() {
            let place = Section::name(kind);
            let numbers = segment.column::<u32>(place)?;
            *counts = vec![0; segment.names(place + 1)?.len() + 1];
            docs.iter().filter_map(|doc| numbers.get(*doc)).for_each(|number| one_more(counts, *number as usize));
        }
        for (kind, counts) in tally.lists.iter_mut().enumerate() {
            let place = Section::list(kind);
            let (starts, numbers) = (segment.column::<u32>(place)?, segment.column::<u32>(place + 1)?);
            *counts = vec![0; segment.names(place + 2)?.len() + 1];
            for doc in &docs {
                if let Some([start, end]) = starts.get(*doc..doc + 2) {
                    let its = numbers.get(*start as usize..*end as usize).unwrap_or_default();
                    its.iter().for_each(|number| one_more(counts, *number as usize));
                }
            }
        }
        let ratings = segment.column::<u8>(Section::Rating.place())?;
        let flags = segment.column::<u8>(Section::Flags.place())?;
        for doc in &docs {
            one_more(&mut tally.ratings, ratings.get(*doc).copied().unwrap_or(0).into());
            one_more(&mut tally.outcomes, (flags.get(*doc).copied().unwrap_or(0) & OUTCOME).into());
        }
        Ok(tally)
    }

    fn minus(&mut self, other: &Tally) {
        let less = |(count, less): (&mut u64, &u64)| *count = count.saturating_sub(*less);
        let ours = self.singles.iter_mut().chain(&mut self.lists);
        ours.zip(other.singles.iter().chain(&other.lists))
            .for_each(|(ours, theirs)| ours.iter_mut().zip(theirs).for_each(less));
        self.ratings.iter_mut().zip(&other.ratings).for_each(less);
        self.outcomes.iter_mut().zip(&other.outcomes).for_each(less);
    }
}

fn one_more(counts: &mut [u64], number: usize) {
    if let Some(count) = counts.get_mut(number) {
        *count += 1;
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

/// Returns the most frequent values; ties are broken alphabetically.
fn most(counts: HashMap<String, u64>) -> Vec<(String, u64)> {
    let mut counts: Vec<(String, u64)> = counts.into_iter().collect();
    counts.sort_unstable_by(|(a, few), (b, many)| many.cmp(few).then_with(|| a.cmp(b)));
    counts.truncate(MAX_FACET_VALUES);
    counts
}
