//! The dictionary of a segment and its posting lists.
//!
//! A term is a word in a field. Terms are sorted in front-coded blocks of a few dozen. A posting list is a bitmap where
//! that is shorter, and a list of deltas otherwise. The positions of the word in each document follow, for phrases. Titles
//! belong to sessions, everything else to iterations.

use retake_log::model::query::Field;

use super::bytes::{Damage, Extent, Reader, put};
use super::set::{Bits, Set};

/// The number of terms per block.
pub(super) const BLOCK: usize = 48;

/// The occurrences of a term.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Posting {
    /// The documents, ascending.
    pub(super) docs: Vec<u32>,
    /// The number of occurrences in each.
    pub(super) counts: Vec<u32>,
    /// The ascending positions in each, concatenated.
    pub(super) positions: Vec<u32>,
}

/// A term of the dictionary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Term {
    pub(super) word: Vec<u8>,
    pub(super) field: Field,
    /// The number of documents that contain it.
    pub(super) count: u32,
    pub(super) docs: Extent,
    pub(super) positions: Extent,
}

/// The first term of a block, and its location.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub(super) struct Block {
    pub(super) first: Vec<u8>,
    pub(super) offset: u64,
    pub(super) length: u64,
    pub(super) crc: u32,
    /// The offset of the posting lists of its terms.
    pub(super) postings: u64,
}

/// Returns the key of a term: words sort as bytes, and the fields of one word are adjacent.
pub(super) fn key(word: &str, field: Field) -> Vec<u8> {
    let mut key = word.as_bytes().to_vec();
    key.extend([0, field_byte(field)]);
    key
}

/// Returns the key of a term of the dictionary.
pub(super) fn key_bytes(term: &Term) -> Vec<u8> {
    let mut key = term.word.clone();
    key.extend([0, field_byte(term.field)]);
    key
}

/// Returns the half-open range of the keys of a word in all fields.
pub(super) fn keys_of(word: &str) -> (Vec<u8>, Vec<u8>) {
    let (mut from, mut until) = (word.as_bytes().to_vec(), word.as_bytes().to_vec());
    from.push(0);
    until.push(1);
    (from, until)
}

/// Returns the half-open range of the keys of all words with a prefix.
pub(super) fn keys_from(start: &str) -> (Vec<u8>, Vec<u8>) {
    let from = start.as_bytes().to_vec();
    let mut until = from.clone();
    // No byte of UTF-8 is this high.
    until.push(0xFF);
    (from, until)
}

/// Appends a term to its block.
pub(super) fn put_term(block: &mut Vec<u8>, before: &[u8], key: &[u8], count: usize, docs: Extent, positions: Extent) {
    let shared = before.iter().zip(key).take_while(|(a, b)| a == b).count();
    let rest = key.get(shared..).unwrap_or_default();
    put(block, shared as u64);
    put(block, rest.len() as u64);
    block.extend_from_slice(rest);
    put(block, count as u64);
    put(block, docs.length);
    put(block, positions.length);
    block.extend_from_slice(&docs.crc.to_le_bytes());
    block.extend_from_slice(&positions.crc.to_le_bytes());
}

/// Reads the terms of a block, in order.
pub(super) fn read_block(bytes: &[u8], mut postings: u64) -> Result<Vec<Term>, Damage> {
    let mut reader = Reader::new(bytes);
    let mut key: Vec<u8> = Vec::new();
    let mut terms = Vec::new();
    while !reader.is_empty() {
        let term = read_term(&mut reader, &mut key, &mut postings).ok_or(Damage::new("a term cannot be read"))?;
        terms.push(term);
    }
    Ok(terms)
}

fn read_term(reader: &mut Reader<'_>, key: &mut Vec<u8>, postings: &mut u64) -> Option<Term> {
    let shared = usize::try_from(reader.number()?).ok()?;
    let length = usize::try_from(reader.number()?).ok()?;
    key.truncate(shared);
    key.extend_from_slice(reader.take(length)?);
    let count = reader.small()?;
    let (docs_length, positions_length) = (reader.number()?, reader.number()?);
    let crc = |bytes: &[u8]| Some(u32::from_le_bytes(bytes.try_into().ok()?));
    let (docs_crc, positions_crc) = (crc(reader.take(4)?)?, crc(reader.take(4)?)?);
    let docs = Extent { offset: *postings, length: docs_length, crc: docs_crc };
    let positions =
        Extent { offset: docs.offset.checked_add(docs.length)?, length: positions_length, crc: positions_crc };
    *postings = positions.offset.checked_add(positions.length)?;
    let (word, field) = match key.as_slice() {
        [word @ .., 0, field] => (word.to_vec(), byte_field(*field)?),
        _ => return None,
    };
    Some(Term { word, field, count, docs, positions })
}

/// Encodes a posting list.
pub(super) fn put_docs(docs: &[u32], universe: u32) -> Vec<u8> {
    if is_bits(docs.len(), universe) {
        let mut bits = Bits::new(universe);
        docs.iter().for_each(|doc| bits.insert(*doc));
        return bits.to_bytes();
    }
    let mut bytes = Vec::with_capacity(docs.len());
    let mut next = 0;
    for doc in docs {
        put(&mut bytes, u64::from(doc - next));
        next = doc + 1;
    }
    bytes
}

/// Decodes a posting list.
pub(super) fn read_docs(bytes: &[u8], count: u32, universe: u32) -> Result<Vec<u32>, Damage> {
    if is_bits(count as usize, universe) {
        return Ok(Bits::from_bytes(bytes, universe).docs());
    }
    let mut docs = Vec::with_capacity(count as usize);
    each_doc(bytes, count, universe, |doc| docs.push(doc))?;
    Ok(docs)
}

/// Adds the documents of a posting list to a bitmap.
pub(super) fn add_docs(bytes: &[u8], count: u32, universe: u32, to: &mut Bits) -> Result<(), Damage> {
    if is_bits(count as usize, universe) {
        to.add_bytes(bytes);
        return Ok(());
    }
    each_doc(bytes, count, universe, |doc| to.insert(doc))
}

/// Calls `each` for the documents of a list of deltas.
fn each_doc(bytes: &[u8], count: u32, universe: u32, mut each: impl FnMut(u32)) -> Result<(), Damage> {
    let mut reader = Reader::new(bytes);
    let mut next = 0u32;
    for _ in 0..count {
        let doc = reader.small().and_then(|gap| next.checked_add(gap)).filter(|doc| *doc < universe);
        let doc = doc.ok_or(Damage::new("a posting list cannot be read"))?;
        each(doc);
        next = doc + 1;
    }
    Ok(())
}

/// Decodes a posting list to a set, without listing many documents.
pub(super) fn read_set(bytes: &[u8], count: u32, universe: u32) -> Result<Set, Damage> {
    if is_bits(count as usize, universe) {
        return Ok(Set::Many(Bits::from_bytes(bytes, universe)));
    }
    Ok(Set::of(read_docs(bytes, count, universe)?, universe))
}

/// Encodes the positions in each document.
pub(super) fn put_positions(counts: &[u32], positions: &[u32]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(positions.len() + counts.len());
    let mut positions = positions.iter();
    for count in counts {
        put(&mut bytes, u64::from(*count));
        let mut next = 0;
        for place in positions.by_ref().take(*count as usize) {
            put(&mut bytes, u64::from(place - next));
            next = *place;
        }
    }
    bytes
}

/// Calls `each` for the positions in the wanted documents, in order. `next` is called once per document of the list, and
/// returns the value to pass for it, or `Some(None)` if it is not wanted.
pub(super) fn read_positions<T: Copy>(
    bytes: &[u8],
    count: u32,
    mut next: impl FnMut() -> Option<Option<T>>,
    mut each: impl FnMut(T, u32),
) -> Result<(), Damage> {
    let unreadable = || Damage::new("the positions of a word cannot be read");
    let mut rest = bytes;
    for _ in 0..count {
        let wanted = next().ok_or_else(unreadable)?;
        // The fast path, one byte per number: a text contains a word a few times, less than 128 positions apart.
        if let [count @ 0..0x80, behind @ ..] = rest
            && let Some((steps, behind)) = behind.split_at_checked(usize::from(*count))
            && steps.iter().all(|step| *step < 0x80)
        {
            if let Some(wanted) = wanted {
                let mut place = 0;
                for step in steps {
                    place += u32::from(*step);
                    each(wanted, place);
                }
            }
            rest = behind;
            continue;
        }
        let mut reader = Reader::new(rest);
        let mut read = || {
            let count = reader.number()?;
            let mut place = 0u32;
            for _ in 0..count {
                place = place.checked_add(reader.small()?)?;
                if let Some(wanted) = wanted {
                    each(wanted, place);
                }
            }
            Some(())
        };
        read().ok_or_else(unreadable)?;
        rest = reader.rest();
    }
    Ok(())
}

fn is_bits(count: usize, universe: u32) -> bool {
    count as u64 * 8 > u64::from(universe)
}

fn field_byte(field: Field) -> u8 {
    match field {
        Field::Prompt => 1,
        Field::Negative => 2,
        Field::Note => 3,
        Field::Title => 4,
        Field::Message => 5,
    }
}

fn byte_field(byte: u8) -> Option<Field> {
    Field::ALL.into_iter().find(|field| field_byte(*field) == byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn posting_lists_round_trip_in_both_forms() {
        for step in [1, 2, 7, 9, 500] {
            let docs: Vec<u32> = (0..1000).filter(|doc| doc % step == 0).collect();
            let bytes = put_docs(&docs, 1000);
            let count = u32::try_from(docs.len()).unwrap();
            assert_eq!(read_docs(&bytes, count, 1000).unwrap(), docs);
            assert_eq!(read_set(&bytes, count, 1000).unwrap().len(), u64::from(count));
        }
        let mut seen = Vec::new();
        let positions = put_positions(&[2, 0, 1, 3], &[3, 900, 0, 5, 6, 130]);
        let mut docs = 0..;
        read_positions(&positions, 4, || docs.next().map(Some), |doc, place| seen.push((doc, place))).unwrap();
        assert_eq!(seen, [(0, 3), (0, 900), (2, 0), (3, 5), (3, 6), (3, 130)]);
        seen.clear();
        let mut docs = 0..;
        let wanted = || docs.next().map(|doc| (doc != 0).then_some(doc));
        read_positions(&positions, 4, wanted, |doc, place| seen.push((doc, place))).unwrap();
        assert_eq!(seen, [(2, 0), (3, 5), (3, 6), (3, 130)]);
        for cut in 0..positions.len() {
            assert!(read_positions(&positions[..cut], 4, || Some(Some(())), |(), _| {}).is_err(), "{cut}");
        }
    }

    #[test]
    fn a_block_round_trips() {
        let mut block = Vec::new();
        let mut before = Vec::new();
        let extent = |length| Extent { offset: 0, length, crc: 7 };
        for word in ["bridge", "bridges", "brücke"] {
            let key = key(word, Field::Note);
            put_term(&mut block, &before, &key, 5, extent(10), extent(20));
            before = key;
        }
        let terms = read_block(&block, 100).unwrap();
        assert_eq!(
            terms.iter().map(|term| term.word.clone()).collect::<Vec<_>>(),
            [b"bridge".to_vec(), b"bridges".to_vec(), "brücke".as_bytes().to_vec()]
        );
        assert_eq!(terms[2].docs.offset, 160);
        assert!(read_block(&block[..block.len() - 1], 0).is_err());
    }
}
