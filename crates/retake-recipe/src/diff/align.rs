//! Aligns two sequences: by their longest common subsequence if that is cheap, otherwise by the unambiguous part of it.
//!
//! Diffing two long texts that share little takes quadratic time. A deadline would make the result depend on the
//! machine, so the number of steps is bounded instead: first the common prefix and suffix are matched, then the items
//! that occur once on both sides, then the gaps in between, as long as they are small.

use std::collections::HashMap;
use std::hash::Hash;
use std::ops::Range;

use similar::{Algorithm, DiffOp};

/// The maximum number of comparisons for all gaps together.
const MAX_STEPS: usize = 1 << 21;

/// Returns pairs of equal items, ascending on both sides.
pub(super) fn align<T: Eq + Hash>(old: &[T], new: &[T]) -> Vec<(usize, usize)> {
    // Numbers compare faster than texts.
    let mut names: HashMap<&T, u32> = HashMap::new();
    let mut number = |item| {
        let next = u32::try_from(names.len()).unwrap_or(u32::MAX);
        *names.entry(item).or_insert(next)
    };
    let old: Vec<u32> = old.iter().map(&mut number).collect();
    let new: Vec<u32> = new.iter().map(&mut number).collect();
    let mut aligner = Aligner { old: &old, new: &new, steps_left: MAX_STEPS, pairs: Vec::new() };
    aligner.stretch(0..old.len(), 0..new.len(), true);
    aligner.pairs
}

struct Aligner<'a> {
    old: &'a [u32],
    new: &'a [u32],
    steps_left: usize,
    pairs: Vec<(usize, usize)>,
}

impl Aligner<'_> {
    fn stretch(&mut self, mut old: Range<usize>, mut new: Range<usize>, may_anchor: bool) {
        while !old.is_empty() && !new.is_empty() && self.same(old.start, new.start) {
            self.pairs.push((old.start, new.start));
            old.start += 1;
            new.start += 1;
        }
        let mut trailing = 0;
        while !old.is_empty() && !new.is_empty() && self.same(old.end - 1, new.end - 1) {
            old.end -= 1;
            new.end -= 1;
            trailing += 1;
        }
        if !old.is_empty() && !new.is_empty() {
            self.middle(old.clone(), new.clone(), may_anchor);
        }
        self.pairs.extend((0..trailing).map(|n| (old.end + n, new.end + n)));
    }

    fn middle(&mut self, old: Range<usize>, new: Range<usize>, may_anchor: bool) {
        let steps = old.len().saturating_mul(new.len());
        if steps <= self.steps_left {
            self.steps_left -= steps;
            let (Some(before), Some(after)) = (self.old.get(old.clone()), self.new.get(new.clone())) else { return };
            for op in similar::capture_diff_slices(Algorithm::Myers, before, after) {
                if let DiffOp::Equal { old_index, new_index, len } = op {
                    let (from, to) = (old.start + old_index, new.start + new_index);
                    self.pairs.extend((0..len).map(|n| (from + n, to + n)));
                }
            }
            return;
        }
        if !may_anchor {
            return;
        }
        let anchors = self.anchors(&old, &new);
        let (mut from, mut to) = (old.start, new.start);
        for (old_anchor, new_anchor) in anchors {
            self.stretch(from..old_anchor, to..new_anchor, false);
            self.pairs.push((old_anchor, new_anchor));
            (from, to) = (old_anchor + 1, new_anchor + 1);
        }
        self.stretch(from..old.end, to..new.end, false);
    }

    /// Returns the longest run of items that occur once on both sides and are in the same order.
    fn anchors(&self, old: &Range<usize>, new: &Range<usize>) -> Vec<(usize, usize)> {
        let once = |items: &[u32], range: &Range<usize>| {
            let mut places: HashMap<u32, Option<usize>> = HashMap::new();
            for (at, item) in items.iter().enumerate().take(range.end).skip(range.start) {
                places.entry(*item).and_modify(|place| *place = None).or_insert(Some(at));
            }
            places
        };
        let there = once(self.new, new);
        let mut both: Vec<(usize, usize)> =
            once(self.old, old).into_iter().filter_map(|(item, place)| Some((place?, (*there.get(&item)?)?))).collect();
        both.sort_unstable();
        longest_ascending(&both)
    }

    fn same(&self, old: usize, new: usize) -> bool {
        self.old.get(old) == self.new.get(new)
    }
}

/// Returns the longest subsequence that ascends on the right, given pairs that ascend on the left.
fn longest_ascending(pairs: &[(usize, usize)]) -> Vec<(usize, usize)> {
    // The pair that ends the best subsequence of each length, and for each pair its predecessor.
    let mut ends: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = Vec::with_capacity(pairs.len());
    let right = |at: usize| pairs.get(at).map_or(usize::MAX, |pair| pair.1);
    for at in 0..pairs.len() {
        let length = ends.partition_point(|end| right(*end) < right(at));
        before.push(length.checked_sub(1).and_then(|last| ends.get(last).copied()));
        match ends.get_mut(length) {
            Some(end) => *end = at,
            None => ends.push(at),
        }
    }
    let mut row = Vec::with_capacity(ends.len());
    let mut next = ends.last().copied();
    while let Some(at) = next {
        row.extend(pairs.get(at));
        next = before.get(at).copied().flatten();
    }
    row.reverse();
    row
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ascending_rows() {
        assert_eq!(longest_ascending(&[(0, 3), (1, 0), (2, 1), (3, 5), (4, 2)]), [(1, 0), (2, 1), (4, 2)]);
        assert_eq!(longest_ascending(&[]), []);
    }

    #[test]
    fn beyond_the_limit_unique_rows_are_still_aligned() {
        let old: Vec<u32> = (0..20_000).collect();
        // Every tenth is new, and the ends differ, so that nothing is trimmed.
        let new: Vec<u32> = (0..20_000).map(|n| if n % 10 == 0 { n + 100_000 } else { n }).chain([7_000_000]).collect();
        assert_eq!(align(&old, &new).len(), 18_000);
    }

    #[test]
    fn alignment_time_is_bounded() {
        let n = 128 * 1024;
        let old: Vec<u32> = (0..n).map(|at| at % 7).collect();
        let new: Vec<u32> = (0..n).map(|at| at / 3 % 5).collect();
        align(&old, &new);
    }

    proptest! {
        #[test]
        fn pairs_are_equal_and_ascend(old in prop::collection::vec(0_u8..6, 0..60), new in prop::collection::vec(0_u8..6, 0..60)) {
            let pairs = align(&old, &new);
            prop_assert!(pairs.is_sorted_by(|a, b| a.0 < b.0 && a.1 < b.1));
            prop_assert!(pairs.iter().all(|(a, b)| old[*a] == new[*b]));
            if old == new {
                prop_assert_eq!(pairs.len(), old.len());
            }
        }
    }
}
