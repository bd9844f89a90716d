//! The columns of a segment: one value per iteration or session, in the order of their keys.

use std::collections::HashMap;

use super::bytes::pack;
use super::doc::{Facts, LISTS, QUANTITIES, SINGLE, SessionKey};

/// The sections of a segment, by their index in the footer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Section {
    RunKeys,
    RunStarts,
    Index,
    Seq,
    Made,
    Rating,
    Noted,
    Flags,
    Seed,
    HashDocs,
    PerceptualHash,
    SessionKeys,
    Archived,
    Project,
    ProjectNames,
    Blocks,
    Pixels,
    /// The first of the columns of [`QUANTITIES`].
    Quantity,
    /// The first of [`SINGLE`] columns, each followed by its names.
    Name = FIXED as isize,
    /// The first of [`LISTS`] columns, each of starts, values and names.
    List = (FIXED + 2 * SINGLE) as isize,
}

/// The number of sections that are not names.
const FIXED: usize = 17 + QUANTITIES.len();
/// The number of sections.
pub(super) const SECTIONS: usize = FIXED + 2 * SINGLE + 3 * LISTS;

impl Section {
    pub(super) fn place(self) -> usize {
        self as usize
    }

    pub(super) fn name(kind: usize) -> usize {
        Section::Name.place() + 2 * kind
    }

    pub(super) fn list(kind: usize) -> usize {
        Section::List.place() + 3 * kind
    }
}

/// Columns that are being filled.
#[derive(Default)]
pub(super) struct Columns {
    run_keys: Vec<u64>,
    run_starts: Vec<u32>,
    index: Vec<u32>,
    seq: Vec<u32>,
    made: Vec<i64>,
    rating: Vec<u8>,
    noted: Vec<u32>,
    flags: Vec<u8>,
    seed: Vec<u64>,
    hash_docs: Vec<u32>,
    perceptual_hash: Vec<u128>,
    pixels: Vec<u64>,
    quantities: [Vec<i64>; QUANTITIES.len()],
    session_keys: Vec<u64>,
    archived: Vec<u8>,
    project: Vec<u32>,
    projects: Names,
    singles: [(Vec<u32>, Names); SINGLE],
    lists: [(Vec<u32>, Vec<u32>, Names); LISTS],
}

/// A dictionary of names, each stored once and referred to by its number.
#[derive(Default)]
pub(super) struct Names {
    known: HashMap<String, u32>,
    names: Vec<String>,
}

impl Names {
    /// Returns the number of a name, counted from 1.
    fn number(&mut self, name: &str) -> u32 {
        if let Some(number) = self.known.get(name) {
            return *number;
        }
        self.names.push(name.to_owned());
        let number = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        self.known.insert(name.to_owned(), number);
        number
    }

    fn bytes(&self) -> Vec<u8> {
        bincode::serialize(&self.names).unwrap_or_default()
    }
}

impl Columns {
    pub(super) fn docs(&self) -> u32 {
        count(self.index.len())
    }

    pub(super) fn sessions(&self) -> u32 {
        count(self.session_keys.len())
    }

    /// Appends an iteration; keys must ascend.
    pub(super) fn push(&mut self, facts: &Facts) {
        let doc = self.docs();
        if self.run_keys.last() != Some(&facts.session) {
            self.run_keys.push(facts.session);
            self.run_starts.push(doc);
        }
        self.index.push(facts.index);
        self.seq.push(facts.seq);
        self.made.push(facts.made);
        self.rating.push(facts.rating);
        self.noted.push(facts.noted);
        self.flags.push(facts.flags);
        self.seed.push(facts.seed);
        for ((numbers, names), name) in self.singles.iter_mut().zip(&facts.names) {
            numbers.push(name.as_deref().map_or(0, |name| names.number(name)));
        }
        for ((starts, values, names), list) in self.lists.iter_mut().zip(&facts.lists) {
            starts.push(count(values.len()));
            values.extend(list.iter().map(|name| names.number(name)));
        }
        for (column, number) in self.quantities.iter_mut().zip(facts.quantities) {
            column.push(number);
        }
        for image in &facts.images {
            self.hash_docs.push(doc);
            self.perceptual_hash.push(image.perceptual_hash);
            self.pixels.push(image.pixels);
        }
    }

    /// Appends a session; keys must ascend.
    pub(super) fn push_session(&mut self, key: SessionKey, archived: bool, project: Option<&str>) {
        self.session_keys.push(key);
        self.archived.push(u8::from(archived));
        self.project.push(project.map_or(0, |name| self.projects.number(name)));
    }

    /// Encodes all sections but the blocks, in the order of the footer.
    pub(super) fn sections(mut self) -> Vec<Vec<u8>> {
        for (starts, values, _) in &mut self.lists {
            starts.push(count(values.len()));
        }
        let mut sections = vec![
            pack(&self.run_keys),
            pack(&self.run_starts),
            pack(&self.index),
            pack(&self.seq),
            pack(&self.made),
            self.rating,
            pack(&self.noted),
            self.flags,
            pack(&self.seed),
            pack(&self.hash_docs),
            pack(&self.perceptual_hash),
            pack(&self.session_keys),
            self.archived,
            pack(&self.project),
            self.projects.bytes(),
            Vec::new(),
            pack(&self.pixels),
        ];
        sections.extend(self.quantities.iter().map(|column| pack(column)));
        for (numbers, names) in &self.singles {
            sections.extend([pack(numbers), names.bytes()]);
        }
        for (starts, values, names) in &self.lists {
            sections.extend([pack(starts), pack(values), names.bytes()]);
        }
        sections
    }
}

fn count(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}
