//! The files of the journal: identifies its segments and reads from them.
//!
//! All reads of the journal go through [`JournalFiles`], so that another segment format only changes this file. A
//! failed read is an error, never an empty segment.

use std::io;
use std::path::Path;

use memchr::memmem;

use crate::disk::{Disk, FileKind, ReadFile};
use crate::model::Hash;

use super::journal::{JournalPosition, MAX_SEGMENT_BYTES, SEALED, SEGMENT_HEADER, SegmentHeader, TEXT_HEADER};
use super::keys::le_u32;
use super::layout::{Layout, segment_name, segment_number};
use super::payload::MAX_PAYLOAD;
use super::record;
use super::scan::{Entry, carve, last_nonzero};
use super::sealed::SealedSegment;

/// The number of bytes of a segment read at once.
const CHUNK: usize = 1 << 20;

/// The maximum number of zeros read at the end of a segment: more than any frame ends in.
const MAX_ZEROS: u64 = 64 << 20;

/// A chunk of zeros, to compare a sparse tail with.
static ZEROS: [u8; CHUNK] = [0; CHUNK];

/// The files of a workspace's journal.
#[derive(Clone)]
pub(super) struct JournalFiles {
    pub(super) disk: Disk,
    pub(super) layout: Layout,
    pub(super) workspace: [u8; 16],
}

/// The contents of the journal's directory, without the frames.
#[derive(Clone, Debug, Default)]
pub(super) struct Outline {
    /// The journal's segments in order, without missing ones.
    pub(super) segments: Vec<SegmentFile>,
    /// Files that are named like a segment but do not belong to this journal.
    pub(super) strays: Vec<Stray>,
    /// Everything wrong with these files.
    pub(super) causes: Vec<String>,
}

/// A segment of the journal.
#[derive(Clone, Copy, Debug)]
pub(super) struct SegmentFile {
    pub(super) number: u32,
    /// `None` if it is damaged.
    pub(super) header: Option<SegmentHeader>,
    pub(super) length: u64,
}

/// A file that is named like a segment but does not belong to this journal.
#[derive(Clone, Debug)]
pub(super) struct Stray {
    pub(super) name: String,
    pub(super) kind: StrayKind,
}

/// The reason why a file is not a segment of this journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StrayKind {
    /// It belongs to another workspace.
    Foreign([u8; 16]),
    /// It is a copy of the segment of this journal with this number.
    Misnamed(u32),
    /// It is not a regular file.
    NotAFile,
}

/// An open segment in either form; offsets are those of the plain form.
pub(super) enum SegmentReader {
    Plain(ReadFile),
    Sealed(SealedSegment),
}

impl SegmentReader {
    /// Reads up to `len` bytes at `offset`; fewer at the end of the segment.
    pub(super) fn read_at(&self, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        match self {
            SegmentReader::Plain(file) => file.read_at(offset, len),
            SegmentReader::Sealed(sealed) => sealed.read_at(offset, len),
        }
    }

    fn len(&self) -> io::Result<u64> {
        match self {
            SegmentReader::Plain(file) => file.len(),
            SegmentReader::Sealed(sealed) => Ok(sealed.len()),
        }
    }
}

impl JournalFiles {
    /// Reads the names, sizes and headers of the segments. `known` is a segment that must have existed.
    pub(super) fn outline(&self, known: u32) -> io::Result<Outline> {
        let mut outline = Outline::default();
        let mut headerless = Vec::new();
        for name in self.disk.list(&self.layout.journal())? {
            let Some(number) = segment_number(&name) else { continue };
            let path = self.layout.segment(number);
            let FileKind::File(length) = self.disk.kind(&path)? else {
                outline.causes.push(format!("{name} in the journal is not a regular file"));
                outline.strays.push(Stray { name, kind: StrayKind::NotAFile });
                continue;
            };
            match self.header(number)? {
                Some(header) if header.workspace != self.workspace => {
                    outline.causes.push(format!("{name} in the journal belongs to another workspace"));
                    outline.strays.push(Stray { name, kind: StrayKind::Foreign(header.workspace) });
                }
                Some(header) if header.segment != number => {
                    outline.causes.push(format!("{name} in the journal is a copy of segment {}", header.segment));
                    outline.strays.push(Stray { name, kind: StrayKind::Misnamed(header.segment) });
                }
                Some(header) => {
                    let length = if header.format == SEALED { self.plain_length(number)? } else { length };
                    outline.segments.push(SegmentFile { number, header: Some(header), length });
                }
                None => headerless.push(SegmentFile { number, header: None, length }),
            }
        }
        let mut last = outline.segments.iter().map(|segment| segment.number).max().unwrap_or(0).max(known);
        for segment in headerless {
            // A name that does not continue the numbering is not a segment.
            if segment.number > last + 1 {
                let name = segment_name(segment.number);
                tracing::warn!(name, "a file in the journal's directory does not belong there; it is ignored");
                continue;
            }
            last = last.max(segment.number);
            outline.causes.push(format!("segment {} of the journal has a damaged header", segment.number));
            outline.segments.push(segment);
        }
        outline.segments.sort_unstable_by_key(|segment| segment.number);
        outline.find_gaps();
        Ok(outline)
    }

    fn plain_length(&self, number: u32) -> io::Result<u64> {
        self.open(number)?.map_or(Ok(0), |segment| segment.len())
    }

    /// Reads the header of a segment; `None` if it has no intact one.
    pub(super) fn header(&self, number: u32) -> io::Result<Option<SegmentHeader>> {
        let size = usize::try_from(SEGMENT_HEADER).unwrap_or(usize::MAX);
        let bytes = self.disk.read(&self.layout.segment(number), size)?;
        Ok(bytes.and_then(|bytes| SegmentHeader::from_bytes(&bytes)))
    }

    /// Opens a segment for reading at the offsets of its plain form; `None` if it does not exist.
    pub(super) fn open(&self, number: u32) -> io::Result<Option<SegmentReader>> {
        self.open_file(&self.layout.segment(number))
    }

    fn open_file(&self, path: &Path) -> io::Result<Option<SegmentReader>> {
        let Some(file) = self.disk.open_to_read(path)? else { return Ok(None) };
        Ok(Some(match SealedSegment::open(file)? {
            Ok(sealed) => SegmentReader::Sealed(sealed),
            Err(file) => SegmentReader::Plain(file),
        }))
    }

    /// Reads a segment from `from`, without most of the zeros at its end; `None` if it does not exist. Reading stops at
    /// the maximum size of a segment.
    pub(super) fn read(&self, number: u32, from: u64) -> io::Result<Option<Vec<u8>>> {
        self.read_file(&self.layout.segment(number), from)
    }

    /// Reads a file as [`read`](JournalFiles::read) does.
    pub(super) fn read_file(&self, path: &Path, from: u64) -> io::Result<Option<Vec<u8>>> {
        let Some(file) = self.open_file(path)? else { return Ok(None) };
        let mut bytes = Vec::new();
        let mut zeros: u64 = 0;
        let mut at = from;
        loop {
            // Anything beyond does not count, so that a sparse file of any length is only read up to there.
            let chunk = if at < MAX_SEGMENT_BYTES { file.read_at(at, CHUNK)? } else { Vec::new() };
            if chunk.is_empty() {
                // The last frame may end in zeros, as placeholder frames do.
                let zeros = usize::try_from(zeros.min(MAX_ZEROS)).unwrap_or(0);
                bytes.resize(bytes.len() + zeros, 0);
                return Ok(Some(bytes));
            }
            at += chunk.len() as u64;
            // A sparse tail of any length costs no memory.
            let is_zero = ZEROS.get(..chunk.len()) == Some(chunk.as_slice());
            let last = if is_zero { None } else { last_nonzero(&chunk) };
            match last {
                None => zeros += chunk.len() as u64,
                Some(last) => {
                    bytes.resize(bytes.len() + usize::try_from(zeros).unwrap_or(0), 0);
                    bytes.extend_from_slice(chunk.get(..=last).unwrap_or_default());
                    zeros = (chunk.len() - last - 1) as u64;
                }
            }
        }
    }

    /// Reads the record at a position without verifying it; `None` if there is none.
    pub(super) fn record_at(&self, position: JournalPosition) -> io::Result<Option<Vec<u8>>> {
        let Some(file) = self.open(position.segment)? else { return Ok(None) };
        let header = file.read_at(position.offset, record::HEADER)?;
        let Some(payload) = le_u32(&header, 12).filter(|length| u64::from(*length) <= MAX_PAYLOAD) else {
            return Ok(None);
        };
        let payload = usize::try_from(payload).unwrap_or(0);
        file.read_at(position.offset, record::HEADER + payload + record::TRAILER).map(Some)
    }

    /// Reads the long text at a position; `None` if it does not have this hash.
    pub(super) fn text_at(&self, position: JournalPosition, hash: Hash) -> io::Result<Option<String>> {
        let Some(file) = self.open(position.segment)? else { return Ok(None) };
        let header = file.read_at(position.offset, TEXT_HEADER)?;
        let Some(length) = le_u32(&header, 4).filter(|length| u64::from(*length) <= MAX_SEGMENT_BYTES) else {
            return Ok(None);
        };
        let bytes = file.read_at(position.offset, TEXT_HEADER + usize::try_from(length).unwrap_or(0))?;
        Ok(carve(&bytes, 0).0.into_iter().find_map(|(_, entry)| match entry {
            Entry::Text(found, text) if found == hash => Some(text.to_owned()),
            _ => None,
        }))
    }
}

impl Outline {
    /// Returns whether this journal never contained anything, so that a missing database is expected.
    pub(super) fn is_new(&self) -> bool {
        let [segment] = self.segments.as_slice() else { return false };
        let is_first = segment.header.is_some_and(|header| header.first_frame == 1);
        self.strays.is_empty() && segment.number == 1 && is_first && segment.length == SEGMENT_HEADER
    }

    /// Returns the number of the last segment, 0 if there is none.
    pub(super) fn last(&self) -> u32 {
        self.segments.last().map_or(0, |segment| segment.number)
    }

    /// Returns the header of a segment whose format is newer than ours, if there is one.
    pub(super) fn newer_format(&self) -> Option<SegmentHeader> {
        self.segments.iter().filter_map(|segment| segment.header).find(|header| header.format > SEALED)
    }

    pub(super) fn header(&self, number: u32) -> Option<SegmentHeader> {
        self.segments.iter().find(|segment| segment.number == number)?.header
    }

    /// Returns the frame number from which the frames of a segment do not count, because a later segment has them: they
    /// were refused.
    pub(super) fn void_from(&self, segment: u32) -> u64 {
        let later = self.segments.iter().filter(|later| later.number > segment);
        later.filter_map(|later| Some(later.header?.first_frame)).min().unwrap_or(u64::MAX)
    }

    /// Returns the offset from which a segment contains nothing that counts, because the next one states where it ended
    /// and which frame was the last: anything after it was refused or torn.
    pub(super) fn void_offset(&self, segment: u32, last_frame: Option<(u64, [u8; 12])>) -> u64 {
        match (self.header(segment.saturating_add(1)), last_frame) {
            (Some(next), Some((end, hash))) if next.previous_end == end && next.previous_frame == hash => end,
            _ => u64::MAX,
        }
    }

    fn find_gaps(&mut self) {
        let mut next = 1;
        for segment in &self.segments {
            for missing in (next..segment.number).take(100) {
                self.causes.push(format!("segment {missing} of the journal is missing"));
            }
            next = segment.number.saturating_add(1);
        }
        for (segment, next) in self.segments.iter().zip(self.segments.iter().skip(1)) {
            let previous_end =
                next.header.filter(|_| next.number == segment.number + 1).map(|header| header.previous_end);
            if previous_end.is_some_and(|end| end > segment.length) {
                self.causes.push(format!("segment {} of the journal has been cut", segment.number));
            }
        }
        if self.segments.is_empty() {
            self.causes.push("the journal is missing".to_owned());
        }
    }
}

/// Returns whether bytes may contain a record.
pub(super) fn may_hold_records(bytes: &[u8]) -> bool {
    memmem::find(bytes, &record::MAGIC).is_some()
}
