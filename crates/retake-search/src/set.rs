//! Sets of documents, by their numbers in a segment: a list while they are few, a bitmap if they are many.

/// A subset of the documents `0..universe`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Set {
    /// An ascending list.
    Few(Vec<u32>),
    /// A bitmap.
    Many(Bits),
}

/// A bitmap with one bit per document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Bits {
    words: Vec<u64>,
    universe: u32,
}

/// The share of documents, as a divisor, below which a list is shorter than a bitmap.
const SPARSE: u32 = 64;

impl Set {
    pub(super) fn empty() -> Set {
        Set::Few(Vec::new())
    }

    pub(super) fn all(universe: u32) -> Set {
        let mut bits = Bits::new(universe);
        bits.fill(0, universe);
        Set::Many(bits)
    }

    /// Creates a set from an ascending list.
    pub(super) fn of(docs: Vec<u32>, universe: u32) -> Set {
        if !Set::is_many(docs.len() as u64, universe) {
            return Set::Few(docs);
        }
        Set::Many(Set::Few(docs).into_bits(universe))
    }

    /// Returns whether a bitmap is the shorter form for this many documents.
    pub(super) fn is_many(count: u64, universe: u32) -> bool {
        count.saturating_mul(u64::from(SPARSE)) > u64::from(universe)
    }

    /// Converts the set to a bitmap.
    pub(super) fn into_bits(self, universe: u32) -> Bits {
        match self {
            Set::Few(docs) => {
                let mut bits = Bits::new(universe);
                docs.into_iter().for_each(|doc| bits.insert(doc));
                bits
            }
            Set::Many(bits) => bits,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        match self {
            Set::Few(docs) => docs.is_empty(),
            Set::Many(bits) => bits.words.iter().all(|word| *word == 0),
        }
    }

    pub(super) fn len(&self) -> u64 {
        match self {
            Set::Few(docs) => docs.len() as u64,
            Set::Many(bits) => bits.words.iter().map(|word| u64::from(word.count_ones())).sum(),
        }
    }

    pub(super) fn contains(&self, doc: u32) -> bool {
        match self {
            Set::Few(docs) => docs.binary_search(&doc).is_ok(),
            Set::Many(bits) => bits.contains(doc),
        }
    }

    pub(super) fn and(self, other: &Set) -> Set {
        match (self, other) {
            (Set::Few(docs), other) => Set::Few(docs.into_iter().filter(|doc| other.contains(*doc)).collect()),
            (Set::Many(bits), Set::Few(docs)) => {
                Set::Few(docs.iter().copied().filter(|doc| bits.contains(*doc)).collect())
            }
            (Set::Many(mut bits), Set::Many(others)) => {
                bits.words.iter_mut().zip(&others.words).for_each(|(word, other)| *word &= other);
                Set::Many(bits)
            }
        }
    }

    pub(super) fn or(self, other: Set, universe: u32) -> Set {
        match (self, other) {
            (Set::Few(docs), Set::Few(others)) => {
                let mut both = docs;
                both.extend(others);
                both.sort_unstable();
                both.dedup();
                Set::of(both, universe)
            }
            (Set::Many(mut bits), Set::Many(others)) => {
                bits.words.iter_mut().zip(&others.words).for_each(|(word, other)| *word |= other);
                Set::Many(bits)
            }
            (Set::Many(mut bits), Set::Few(docs)) | (Set::Few(docs), Set::Many(mut bits)) => {
                docs.into_iter().for_each(|doc| bits.insert(doc));
                Set::Many(bits)
            }
        }
    }

    pub(super) fn not(&self, universe: u32) -> Set {
        let Set::Many(mut bits) = Set::all(universe) else { return Set::empty() };
        match self {
            Set::Few(docs) => docs.iter().for_each(|doc| bits.remove(*doc)),
            Set::Many(others) => {
                bits.words.iter_mut().zip(&others.words).for_each(|(word, other)| *word &= !other);
            }
        }
        Set::Many(bits)
    }

    pub(super) fn minus(self, dead: &Bits) -> Set {
        if dead.words.is_empty() {
            return self;
        }
        self.keep(|doc| !dead.contains(doc))
    }

    /// Keeps the documents for which `test` is true.
    pub(super) fn keep(self, mut test: impl FnMut(u32) -> bool) -> Set {
        match self {
            Set::Few(mut docs) => {
                docs.retain(|doc| test(*doc));
                Set::Few(docs)
            }
            Set::Many(mut bits) => {
                for (at, word) in (0u32..).zip(bits.words.iter_mut()) {
                    let mut left = *word;
                    while left != 0 {
                        let bit = left.trailing_zeros();
                        left &= left - 1;
                        if !test(at * 64 + bit) {
                            *word &= !(1 << bit);
                        }
                    }
                }
                Set::Many(bits)
            }
        }
    }

    /// Calls `each` for the documents in descending order.
    pub(super) fn for_each_descending(&self, mut each: impl FnMut(u32)) {
        match self {
            Set::Few(docs) => docs.iter().rev().for_each(|doc| each(*doc)),
            Set::Many(bits) => {
                let mut at = bits.words.len() as u64 * 64;
                for word in bits.words.iter().rev() {
                    at -= 64;
                    let mut left = *word;
                    while left != 0 {
                        let bit = 63 - left.leading_zeros();
                        left &= !(1 << bit);
                        // The universe fits into a u32, and so does every document.
                        each(u32::try_from(at).unwrap_or(u32::MAX) + bit);
                    }
                }
            }
        }
    }

    /// Returns the number of documents from `start` up to `end`.
    pub(super) fn count(&self, start: u32, end: u32) -> u64 {
        match self {
            Set::Few(docs) => {
                let below = |limit: u32| docs.partition_point(|doc| *doc < limit);
                below(end).saturating_sub(below(start)) as u64
            }
            Set::Many(bits) => bits.count(start, end),
        }
    }
}

impl Bits {
    pub(super) fn new(universe: u32) -> Bits {
        Bits { words: vec![0; universe.div_ceil(64) as usize], universe }
    }

    /// Reads a bitmap as a posting list stores it.
    pub(super) fn from_bytes(bytes: &[u8], universe: u32) -> Bits {
        let mut bits = Bits::new(universe);
        bits.add_bytes(bytes);
        bits
    }

    /// Adds the bits of a stored bitmap.
    pub(super) fn add_bytes(&mut self, bytes: &[u8]) {
        for (word, bytes) in self.words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word |= bytes.try_into().map_or(0, u64::from_le_bytes);
        }
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        self.words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    pub(super) fn insert(&mut self, doc: u32) {
        if let Some(word) = self.words.get_mut((doc / 64) as usize).filter(|_| doc < self.universe) {
            *word |= 1 << (doc % 64);
        }
    }

    fn remove(&mut self, doc: u32) {
        if let Some(word) = self.words.get_mut((doc / 64) as usize) {
            *word &= !(1 << (doc % 64));
        }
    }

    pub(super) fn contains(&self, doc: u32) -> bool {
        self.words.get((doc / 64) as usize).is_some_and(|word| word >> (doc % 64) & 1 == 1)
    }

    pub(super) fn len(&self) -> u64 {
        self.words.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    /// Sets all bits from `start` up to `end`.
    pub(super) fn fill(&mut self, start: u32, end: u32) {
        let end = end.min(self.universe);
        let (mut at, last) = (start, end);
        while at < last {
            let until = ((at / 64 + 1) * 64).min(last);
            if let Some(word) = self.words.get_mut((at / 64) as usize) {
                *word |= mask(at % 64, until - at);
            }
            at = until;
        }
    }

    fn count(&self, start: u32, end: u32) -> u64 {
        let (mut at, mut count) = (start, 0);
        let end = end.min(self.universe);
        while at < end {
            let until = ((at / 64 + 1) * 64).min(end);
            let word = self.words.get((at / 64) as usize).copied().unwrap_or(0);
            count += u64::from((word & mask(at % 64, until - at)).count_ones());
            at = until;
        }
        count
    }

    /// Returns the documents, ascending.
    pub(super) fn docs(&self) -> Vec<u32> {
        let mut docs = Vec::with_capacity(usize::try_from(self.len()).unwrap_or(0));
        docs.extend(self.ascending());
        docs
    }

    /// Iterates over the documents, ascending.
    pub(super) fn ascending(&self) -> impl Iterator<Item = u32> {
        (0u32..).zip(&self.words).flat_map(|(at, word)| {
            let mut left = *word;
            std::iter::from_fn(move || {
                let bit = (left != 0).then(|| left.trailing_zeros())?;
                left &= left - 1;
                Some(at * 64 + bit)
            })
        })
    }
}

/// An index from documents to their rank among the set bits.
pub(super) struct Ranks<'a> {
    bits: &'a Bits,
    /// The number of set bits before each word.
    before: Vec<u32>,
}

impl<'a> Ranks<'a> {
    pub(super) fn new(bits: &'a Bits) -> Ranks<'a> {
        let mut sum = 0;
        let mut add = |word: &u64| {
            let before = sum;
            sum += word.count_ones();
            before
        };
        let before = bits.words.iter().map(&mut add).collect();
        Ranks { bits, before }
    }

    /// Returns the rank of a document; `None` if its bit is not set.
    pub(super) fn of(&self, doc: u32) -> Option<usize> {
        let at = (doc / 64) as usize;
        let word = *self.bits.words.get(at)?;
        let bit = 1u64 << (doc % 64);
        if word & bit == 0 {
            return None;
        }
        Some((self.before.get(at)? + (word & (bit - 1)).count_ones()) as usize)
    }
}

/// Returns a mask of `count` bits from `from` on.
fn mask(from: u32, count: u32) -> u64 {
    let low = if count >= 64 { u64::MAX } else { (1 << count) - 1 };
    low << from
}

#[cfg(test)]
mod tests {
    use super::*;

    fn docs(set: &Set) -> Vec<u32> {
        let mut docs = Vec::new();
        set.for_each_descending(|doc| docs.push(doc));
        docs.reverse();
        docs
    }

    #[test]
    fn both_forms_are_equivalent() {
        let universe = 1000;
        let every = |step: u32| (0..universe).filter(|doc| doc % step == 0).collect::<Vec<_>>();
        for (a, b) in [(3, 5), (100, 7), (2, 100), (100, 90)] {
            let (left, right) = (Set::of(every(a), universe), Set::of(every(b), universe));
            let expected = |test: &dyn Fn(bool, bool) -> bool| {
                (0..universe).filter(|doc| test(doc % a == 0, doc % b == 0)).collect::<Vec<_>>()
            };
            assert_eq!(docs(&left.clone().and(&right)), expected(&|x, y| x && y));
            assert_eq!(docs(&left.clone().or(right.clone(), universe)), expected(&|x, y| x || y));
            assert_eq!(docs(&left.not(universe)), expected(&|x, _| !x));
            assert_eq!(
                left.count(10, 700),
                expected(&|x, _| x).iter().filter(|d| (10..700).contains(*d)).count() as u64
            );
            assert_eq!(left.len(), every(a).len() as u64);
            assert_eq!(
                docs(&left.keep(|doc| doc % 2 == 1)),
                expected(&|x, _| x).into_iter().filter(|d| d % 2 == 1).collect::<Vec<_>>()
            );
        }
        assert_eq!(Set::all(130).len(), 130);
        assert!(Set::all(130).not(130).is_empty());
        let mut bits = Bits::new(200);
        bits.fill(60, 130);
        assert_eq!(bits.docs(), (60..130).collect::<Vec<_>>());
        assert_eq!(Bits::from_bytes(&bits.to_bytes(), 200), bits);
        let ranks = Ranks::new(&bits);
        assert_eq!(
            [59, 60, 63, 64, 129, 130, 5000].map(|doc| ranks.of(doc)),
            [None, Some(0), Some(3), Some(4), Some(69), None, None]
        );
    }
}
