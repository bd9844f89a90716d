//! Writes a segment: posting lists in the order of their terms, then the dictionary, the columns, and a footer with all
//! offsets. Nothing is written twice, so a segment of any size goes straight to its file.

use std::collections::HashMap;
use std::io::{self, Write};

use retake_log::model::query::Field;
use retake_log::model::tokenizer::each_word;

use super::bytes::Extent;
use super::columns::{Columns, Section};
use super::doc::{Doc, SessionDoc};
use super::segment::{Footer, MAGIC};
use super::terms::{self, BLOCK, Block, Posting};

/// A writer of segments.
pub(super) struct Writer<W> {
    out: W,
    at: u64,
    blocks: Vec<Block>,
    dictionary: Vec<u8>,
    block: Vec<u8>,
    in_block: usize,
    before: Vec<u8>,
}

impl<W: Write> Writer<W> {
    pub(super) fn new(out: W) -> io::Result<Writer<W>> {
        let (blocks, dictionary, block, before) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut writer = Writer { out, at: 0, blocks, dictionary, block, in_block: 0, before };
        writer.put(&MAGIC)?;
        Ok(writer)
    }

    /// Appends a term; keys must ascend.
    pub(super) fn term(&mut self, key: &[u8], posting: &Posting, universe: u32) -> io::Result<()> {
        if self.in_block == BLOCK {
            self.end_block();
        }
        if self.in_block == 0 {
            // Offset and length are set when the block is full.
            let block = Block { first: key.to_vec(), offset: 0, length: 0, crc: 0, postings: self.at };
            self.blocks.push(block);
            self.before.clear();
        }
        let docs = self.extent(&terms::put_docs(&posting.docs, universe))?;
        let positions = self.extent(&terms::put_positions(&posting.counts, &posting.positions))?;
        terms::put_term(&mut self.block, &self.before, key, posting.docs.len(), docs, positions);
        self.before = key.to_vec();
        self.in_block += 1;
        Ok(())
    }

    /// Writes the remaining sections, and returns the output.
    pub(super) fn finish(mut self, columns: Columns) -> io::Result<W> {
        self.end_block();
        let start = self.at;
        let dictionary = std::mem::take(&mut self.dictionary);
        self.put(&dictionary)?;
        self.blocks.iter_mut().for_each(|block| block.offset += start);
        let (docs, sessions) = (columns.docs(), columns.sessions());
        let mut extents = Vec::new();
        for (place, section) in columns.sections().into_iter().enumerate() {
            let extent = if place == Section::Blocks.place() {
                let blocks = bincode::serialize(&self.blocks).map_err(io::Error::other)?;
                self.extent(&blocks)?
            } else {
                self.extent(&section)?
            };
            extents.push((extent.offset, extent.length, extent.crc));
        }
        let footer = bincode::serialize(&Footer { docs, sessions, extents }).map_err(io::Error::other)?;
        self.put(&footer)?;
        self.put(&u32::try_from(footer.len()).map_err(io::Error::other)?.to_le_bytes())?;
        self.put(&crc32fast::hash(&footer).to_le_bytes())?;
        self.put(&MAGIC)?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn end_block(&mut self) {
        if let Some(last) = self.blocks.last_mut().filter(|_| self.in_block > 0) {
            last.offset = self.dictionary.len() as u64;
            last.length = self.block.len() as u64;
            last.crc = crc32fast::hash(&self.block);
            self.dictionary.append(&mut self.block);
        }
        self.in_block = 0;
    }

    fn extent(&mut self, bytes: &[u8]) -> io::Result<Extent> {
        let extent = Extent { offset: self.at, length: bytes.len() as u64, crc: crc32fast::hash(bytes) };
        self.put(bytes)?;
        Ok(extent)
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)?;
        self.at += bytes.len() as u64;
        Ok(())
    }
}

/// Writes a segment of these iterations and sessions, both in the order of their keys.
pub(super) fn build<'a, W: Write>(
    out: W,
    docs: impl Iterator<Item = &'a Doc>,
    sessions: impl Iterator<Item = &'a SessionDoc>,
) -> io::Result<W> {
    let mut columns = Columns::default();
    let mut words = Words::default();
    for doc in docs {
        let number = columns.docs();
        columns.push(&doc.facts);
        let mut next = HashMap::new();
        for (field, text) in &doc.texts {
            // A gap, so that no phrase spans two texts.
            let start = next.get(field).map_or(0, |end| end + 1);
            let end = words.take(*field, text, number, start);
            next.insert(field, end);
        }
    }
    for session in sessions {
        let number = columns.sessions();
        columns.push_session(session.key, session.archived, session.project.as_deref());
        if let Some(title) = &session.title {
            words.take(Field::Title, title, number, 0);
        }
    }
    let mut writer = Writer::new(out)?;
    let (docs, sessions) = (columns.docs(), columns.sessions());
    for (key, field, posting) in words.postings() {
        writer.term(&key, &posting, if field == Field::Title { sessions } else { docs })?;
    }
    writer.finish(columns)
}

/// The words of all documents, before they are sorted.
#[derive(Default)]
struct Words {
    /// For each word, the posting list of each field that contains it.
    known: HashMap<String, [Option<usize>; Field::ALL.len()]>,
    postings: Vec<Posting>,
}

impl Words {
    /// Adds a text whose first word has the position `start`, and returns the position after its last word.
    fn take(&mut self, field: Field, text: &str, doc: u32, start: u32) -> u32 {
        let of_field = Field::ALL.iter().position(|known| *known == field).unwrap_or(0);
        let mut place = start;
        each_word(text, |word, _| {
            let number = self.number(word, of_field);
            if let Some(posting) = self.postings.get_mut(number) {
                match posting.counts.last_mut().filter(|_| posting.docs.last() == Some(&doc)) {
                    Some(count) => *count += 1,
                    None => {
                        posting.docs.push(doc);
                        posting.counts.push(1);
                    }
                }
                posting.positions.push(place);
            }
            place += 1;
        });
        place
    }

    /// Returns the number of the posting list of a word in a field.
    fn number(&mut self, word: &str, of_field: usize) -> usize {
        if let Some(Some(number)) = self.known.get(word).and_then(|fields| fields.get(of_field)) {
            return *number;
        }
        let number = self.postings.len();
        self.postings.push(Posting::default());
        if let Some(slot) = self.known.entry(word.to_owned()).or_default().get_mut(of_field) {
            *slot = Some(number);
        }
        number
    }

    fn postings(mut self) -> Vec<(Vec<u8>, Field, Posting)> {
        let mut terms: Vec<(Vec<u8>, Field, usize)> = Vec::with_capacity(self.postings.len());
        for (word, fields) in &self.known {
            let of_fields = Field::ALL.iter().zip(fields).filter_map(|(field, number)| Some((*field, (*number)?)));
            terms.extend(of_fields.map(|(field, number)| (terms::key(word, field), field, number)));
        }
        terms.sort_unstable();
        let mut take = |number: usize| self.postings.get_mut(number).map(std::mem::take).unwrap_or_default();
        terms.into_iter().map(|(key, field, number)| (key, field, take(number))).collect()
    }
}
