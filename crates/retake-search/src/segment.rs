//! Reads a segment, an immutable part of the index. Only what a search needs is read, and it is cached.

use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::bytes::{Damage, Extent, Fixed, Source, unpack};
use super::columns::{SECTIONS, Section};
use super::counts::Tally;
use super::doc::{Facts, LISTS, Look, QUANTITIES, SINGLE, SessionKey, UNKNOWN};
use super::set::Set;
use super::terms::{Block, Term, read_block};

pub(super) const MAGIC: [u8; 8] = *b"RETAKES2";

/// The maximum number of bytes of posting lists read at once.
const MAX_READ_BYTES: u64 = 256 * 1024;

/// The separator of words in the vocabulary; no word contains it.
const SEPARATOR: char = '\n';

/// The footer of a segment: the offsets of all sections.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Footer {
    pub(super) docs: u32,
    pub(super) sessions: u32,
    /// Offset, length and checksum of each section.
    pub(super) extents: Vec<(u64, u64, u32)>,
}

/// An open segment.
pub(super) struct Segment {
    source: Source,
    footer: Footer,
    blocks: OnceLock<Vec<Block>>,
    cells: Vec<OnceLock<Cell>>,
    tally: OnceLock<Tally>,
    vocabulary: OnceLock<String>,
    /// Held while a section is read for the first time: many searches at once would otherwise each hold a copy of it.
    loading: Mutex<()>,
    /// The block of the dictionary that was read last, by its offset.
    kept: Mutex<Option<(u64, Arc<Vec<Term>>)>>,
}

/// A cached section.
enum Cell {
    U8(Vec<u8>),
    U32(Vec<u32>),
    U64(Vec<u64>),
    I64(Vec<i64>),
    U128(Vec<u128>),
    Names(Vec<String>),
}

/// The type of the values of a column.
pub(super) trait ColumnType: Fixed {
    #[expect(private_interfaces, reason = "only this file uses cells")]
    fn keep(values: Vec<Self>) -> Cell;
    #[expect(private_interfaces, reason = "only this file uses cells")]
    fn kept(cell: &Cell) -> Option<&[Self]>;
}

macro_rules! kept {
    ($($type:ty => $cell:ident),*) => {$(
        impl ColumnType for $type {
            #[expect(private_interfaces, reason = "only this file uses cells")]
            fn keep(values: Vec<Self>) -> Cell {
                Cell::$cell(values)
            }
            #[expect(private_interfaces, reason = "only this file uses cells")]
            fn kept(cell: &Cell) -> Option<&[Self]> {
                if let Cell::$cell(values) = cell { Some(values) } else { None }
            }
        }
    )*};
}

kept!(u8 => U8, u32 => U32, u64 => U64, i64 => I64, u128 => U128);

impl Segment {
    /// Opens a segment: reads its footer and nothing else.
    pub(super) fn open(source: Source) -> Result<Segment, Damage> {
        let cut = || Damage::new("a segment has no footer");
        let end = source.length();
        let tail = source.raw(end.checked_sub(16).ok_or_else(cut)?, 16)?;
        let number = |from: usize| Some(u32::from_le_bytes(tail.get(from..from + 4)?.try_into().ok()?));
        let (length, crc) = number(0).zip(number(4)).ok_or_else(cut)?;
        if tail.get(8..) != Some(&MAGIC) {
            return Err(cut());
        }
        let offset = end.checked_sub(16 + u64::from(length)).ok_or_else(cut)?;
        let bytes = source.read(Extent { offset, length: u64::from(length), crc })?;
        let footer: Footer = bincode::deserialize(&bytes).map_err(|_| cut())?;
        if footer.extents.len() != SECTIONS {
            return Err(Damage::new("a segment has the wrong number of sections"));
        }
        let cells = (0..SECTIONS).map(|_| OnceLock::new()).collect();
        Ok(Segment {
            source,
            footer,
            blocks: OnceLock::new(),
            cells,
            tally: OnceLock::new(),
            vocabulary: OnceLock::new(),
            loading: Mutex::default(),
            kept: Mutex::default(),
        })
    }

    pub(super) fn docs(&self) -> u32 {
        self.footer.docs
    }

    pub(super) fn sessions(&self) -> u32 {
        self.footer.sessions
    }

    /// Returns a column.
    pub(super) fn column<T: ColumnType>(&self, place: usize) -> Result<&[T], Damage> {
        let cell = self.cells.get(place).ok_or(Damage::new("no such column"))?;
        let cell = match cell.get() {
            Some(cell) => cell,
            None => {
                let _loading = self.loading.lock();
                match cell.get() {
                    Some(cell) => cell,
                    None => {
                        let values = unpack::<T>(&self.section(place)?);
                        cell.get_or_init(|| T::keep(values))
                    }
                }
            }
        };
        T::kept(cell).ok_or(Damage::new("a column has the wrong type"))
    }

    /// Returns the names that the numbers of a column refer to, counted from 1.
    pub(super) fn names(&self, place: usize) -> Result<&[String], Damage> {
        let cell = self.cells.get(place).ok_or(Damage::new("no such column"))?;
        let cell = match cell.get() {
            Some(cell) => cell,
            None => {
                let names =
                    bincode::deserialize(&self.section(place)?).map_err(|_| Damage::new("names cannot be read"))?;
                cell.get_or_init(|| Cell::Names(names))
            }
        };
        if let Cell::Names(names) = cell { Ok(names) } else { Err(Damage::new("a list of names has the wrong type")) }
    }

    /// Returns the counts of all documents, dead ones included.
    pub(super) fn tally(&self) -> Result<&Tally, Damage> {
        match self.tally.get() {
            Some(tally) => Ok(tally),
            None => {
                let tally = Tally::count(self, &Set::all(self.docs()))?;
                Ok(self.tally.get_or_init(|| tally))
            }
        }
    }

    /// Returns the terms whose keys lie in this half-open range.
    pub(super) fn terms(&self, (from, until): &(Vec<u8>, Vec<u8>)) -> Result<Vec<Term>, Damage> {
        let blocks = self.blocks()?;
        let first = blocks.partition_point(|block| block.first <= *from).saturating_sub(1);
        let mut found = Vec::new();
        for block in blocks.iter().skip(first).take_while(|block| block.first < *until) {
            for term in self.recent(block)?.iter() {
                let key = super::terms::key_bytes(term);
                if key >= *from && key < *until {
                    found.push(term.clone());
                }
            }
        }
        Ok(found)
    }

    /// Returns the words of the dictionary that contain `part`, ascending.
    pub(super) fn words_containing(&self, part: &str) -> Result<Vec<&str>, Damage> {
        let vocabulary = self.vocabulary()?;
        let mut found: Vec<&str> = Vec::new();
        let mut done = 0;
        for (at, _) in vocabulary.match_indices(part) {
            if at < done {
                continue;
            }
            let start = vocabulary.get(..at).and_then(|before| before.rfind(SEPARATOR)).map_or(0, |at| at + 1);
            let rest = vocabulary.get(start..).unwrap_or_default();
            let word = rest.split(SEPARATOR).next().unwrap_or_default();
            done = start + word.len();
            found.push(word);
        }
        Ok(found)
    }

    /// Returns all words of the dictionary, ascending.
    pub(super) fn words(&self) -> Result<impl Iterator<Item = &str>, Damage> {
        Ok(self.vocabulary()?.split_terminator(SEPARATOR))
    }

    /// Returns all words of the dictionary as one text, which can be searched faster than the dictionary: a megabyte
    /// for a hundred thousand words. It is built on the first search for a part of a word.
    fn vocabulary(&self) -> Result<&str, Damage> {
        if let Some(vocabulary) = self.vocabulary.get() {
            return Ok(vocabulary);
        }
        let _loading = self.loading.lock();
        if let Some(vocabulary) = self.vocabulary.get() {
            return Ok(vocabulary);
        }
        let mut vocabulary = String::new();
        let mut last: Vec<u8> = Vec::new();
        for block in self.blocks()? {
            for term in self.block(block)? {
                if term.word != last {
                    let word = std::str::from_utf8(&term.word).map_err(|_| Damage::new("a word is not UTF-8"))?;
                    vocabulary.push_str(word);
                    vocabulary.push(SEPARATOR);
                    last = term.word;
                }
            }
        }
        Ok(self.vocabulary.get_or_init(|| vocabulary))
    }

    /// Returns the terms of a block. The last block is cached, since a word is searched in titles first and then in all
    /// other texts.
    fn recent(&self, block: &Block) -> Result<Arc<Vec<Term>>, Damage> {
        let mut kept = self.kept.lock();
        if let Some((_, terms)) = kept.as_ref().filter(|(offset, _)| *offset == block.offset) {
            return Ok(Arc::clone(terms));
        }
        let terms = Arc::new(self.block(block)?);
        *kept = Some((block.offset, Arc::clone(&terms)));
        Ok(terms)
    }

    pub(super) fn blocks(&self) -> Result<&[Block], Damage> {
        match self.blocks.get() {
            Some(blocks) => Ok(blocks),
            None => {
                let bytes = self.section(Section::Blocks.place())?;
                let blocks = bincode::deserialize(&bytes).map_err(|_| Damage::new("the dictionary cannot be read"))?;
                Ok(self.blocks.get_or_init(|| blocks))
            }
        }
    }

    pub(super) fn block(&self, block: &Block) -> Result<Vec<Term>, Damage> {
        let bytes = self.source.read(Extent { offset: block.offset, length: block.length, crc: block.crc })?;
        read_block(&bytes, block.postings)
    }

    pub(super) fn read(&self, extent: Extent) -> Result<Vec<u8>, Damage> {
        self.source.read(extent)
    }

    /// Calls `each` with the bytes of ascending extents and their index. Neighbouring ones are read at once: a prefix may
    /// have thousands of words, each with a list of a few bytes.
    pub(super) fn read_each(
        &self,
        extents: &[Extent],
        mut each: impl FnMut(usize, &[u8]) -> Result<(), Damage>,
    ) -> Result<(), Damage> {
        let mut next = 0;
        while let Some(first) = extents.get(next) {
            let close = |extent: &&Extent| extent.end() <= first.offset.saturating_add(MAX_READ_BYTES);
            let count = extents.iter().skip(next).take_while(close).count().max(1);
            let run = extents.get(next..next + count).unwrap_or_default();
            let end = run.last().map_or(first.end(), Extent::end);
            let bytes = self.source.raw(first.offset, end.saturating_sub(first.offset))?;
            for extent in run {
                let start = usize::try_from(extent.offset.saturating_sub(first.offset)).unwrap_or(usize::MAX);
                let length = usize::try_from(extent.length).unwrap_or(usize::MAX);
                let its = bytes.get(start..start.saturating_add(length)).unwrap_or_default();
                if !extent.holds(its) {
                    return Err(Damage::new("an extent does not match its checksum"));
                }
                each(next, its)?;
                next += 1;
            }
        }
        Ok(())
    }

    /// Returns the half-open range of the documents of a session; empty if it has none here.
    pub(super) fn run(&self, session: SessionKey) -> Result<(u32, u32), Damage> {
        match self.column::<u64>(Section::RunKeys.place())?.binary_search(&session) {
            Ok(run) => self.run_range(run),
            Err(_) => Ok((0, 0)),
        }
    }

    /// Returns the half-open range of the documents of a run.
    pub(super) fn run_range(&self, run: usize) -> Result<(u32, u32), Damage> {
        let starts = self.column::<u32>(Section::RunStarts.place())?;
        let start = starts.get(run).copied().unwrap_or(self.docs());
        Ok((start, starts.get(run + 1).copied().unwrap_or(self.docs())))
    }

    /// Returns the session of a document.
    pub(super) fn session(&self, doc: u32) -> Result<SessionKey, Damage> {
        let starts = self.column::<u32>(Section::RunStarts.place())?;
        let run = starts.partition_point(|start| *start <= doc).saturating_sub(1);
        let keys = self.column::<u64>(Section::RunKeys.place())?;
        keys.get(run).copied().ok_or(Damage::new("an iteration has no session"))
    }

    /// Returns the document of an iteration.
    pub(super) fn find(&self, session: SessionKey, index: u32) -> Result<Option<u32>, Damage> {
        let (start, end) = self.run(session)?;
        if start == end {
            return Ok(None);
        }
        let run = self.column::<u32>(Section::Index.place())?.get(start as usize..end as usize).unwrap_or_default();
        Ok(run.binary_search(&index).ok().and_then(|at| start.checked_add(u32::try_from(at).ok()?)))
    }

    /// Returns the number of a session in this segment.
    pub(super) fn find_session(&self, session: SessionKey) -> Result<Option<u32>, Damage> {
        let keys = self.column::<u64>(Section::SessionKeys.place())?;
        Ok(keys.binary_search(&session).ok().and_then(|at| u32::try_from(at).ok()))
    }

    /// Returns the properties of a document.
    pub(super) fn facts(&self, doc: u32) -> Result<Facts, Damage> {
        let at = doc as usize;
        let missing = || Damage::new("a column is too short");
        let number = |section: Section| self.column::<u32>(section.place())?.get(at).copied().ok_or_else(missing);
        let byte = |section: Section| self.column::<u8>(section.place())?.get(at).copied().ok_or_else(missing);
        let mut names: [Option<String>; SINGLE] = Default::default();
        for (kind, name) in names.iter_mut().enumerate() {
            let number = self.column::<u32>(Section::name(kind))?.get(at).copied().ok_or_else(missing)?;
            *name = self.name(Section::name(kind) + 1, number)?.map(str::to_owned);
        }
        let mut lists: [Vec<String>; LISTS] = Default::default();
        for (kind, list) in lists.iter_mut().enumerate() {
            *list = self.list(kind, doc)?.into_iter().map(str::to_owned).collect();
        }
        let hash_docs = self.column::<u32>(Section::HashDocs.place())?;
        let perceptual_hash = self.column::<u128>(Section::PerceptualHash.place())?;
        let first = hash_docs.partition_point(|of| *of < doc);
        let pixels = self.column::<u64>(Section::Pixels.place())?;
        let looks = perceptual_hash
            .iter()
            .zip(pixels)
            .map(|(perceptual_hash, pixels)| Look { perceptual_hash: *perceptual_hash, pixels: *pixels });
        let its = hash_docs.iter().zip(looks).skip(first).take_while(|(of, _)| **of == doc);
        let mut quantities = [UNKNOWN; QUANTITIES.len()];
        for (kind, number) in quantities.iter_mut().enumerate() {
            let column = self.column::<i64>(Section::Quantity.place() + kind)?;
            *number = column.get(at).copied().ok_or_else(missing)?;
        }
        Ok(Facts {
            session: self.session(doc)?,
            index: number(Section::Index)?,
            seq: number(Section::Seq)?,
            made: self.column::<i64>(Section::Made.place())?.get(at).copied().ok_or_else(missing)?,
            rating: byte(Section::Rating)?,
            noted: number(Section::Noted)?,
            flags: byte(Section::Flags)?,
            seed: self.column::<u64>(Section::Seed.place())?.get(at).copied().ok_or_else(missing)?,
            quantities,
            names,
            lists,
            images: its.map(|(_, look)| look).collect(),
        })
    }

    /// Returns the names of a document in a facet with any number of names.
    pub(super) fn list(&self, kind: usize, doc: u32) -> Result<Vec<&str>, Damage> {
        let place = Section::list(kind);
        let starts = self.column::<u32>(place)?;
        let (start, end) = (starts.get(doc as usize), starts.get(doc as usize + 1));
        let (start, end) = start.zip(end).ok_or(Damage::new("a list has no end"))?;
        let numbers = self.column::<u32>(place + 1)?.get(*start as usize..*end as usize);
        let numbers = numbers.ok_or(Damage::new("a list is too short"))?;
        numbers.iter().filter_map(|number| self.name(place + 2, *number).transpose()).collect()
    }

    /// Returns the project of a session in this segment.
    pub(super) fn project(&self, session: u32) -> Result<Option<&str>, Damage> {
        let number = self.column::<u32>(Section::Project.place())?.get(session as usize).copied().unwrap_or(0);
        self.name(Section::ProjectNames.place(), number)
    }

    fn name(&self, place: usize, number: u32) -> Result<Option<&str>, Damage> {
        let Some(at) = number.checked_sub(1) else { return Ok(None) };
        let name = self.names(place)?.get(at as usize);
        name.map(|name| Some(name.as_str())).ok_or(Damage::new("a name has no text"))
    }

    fn section(&self, place: usize) -> Result<Vec<u8>, Damage> {
        let (offset, length, crc) = self.footer.extents.get(place).copied().unwrap_or_default();
        self.source.read(Extent { offset, length, crc })
    }
}
