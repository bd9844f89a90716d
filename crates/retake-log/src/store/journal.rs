//! The journal: numbered segments of checksummed frames. A commit is one frame and one fdatasync.
//!
//! Writing lives here, and the names and positions; reading what may be damaged is [`scan`](super::scan)'s.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::disk::{Disk, DiskFile};

use super::keys::{le_u32, le_u64};
use super::rebuild::RecoveryContext;

pub(super) const SEGMENT_MAGIC: [u8; 8] = *b"RETAKEJ1";
pub(super) const SEGMENT_HEADER: u64 = 64;
pub(super) const FRAME_MAGIC: [u8; 4] = [0xF7, b'R', b'T', b'F'];
pub(super) const FRAME_HEADER: usize = 32;
pub(super) const TEXT_MAGIC: [u8; 4] = [0xF5, b'R', b'T', b'T'];
pub(super) const TEXT_HEADER: usize = 44;
pub(super) const FORMAT: u32 = 1;

/// Frame flag: events that a recovery put back.
pub(super) const PUT_BACK: u16 = 1;
/// Frame flag: stands for a frame that was lost.
pub(super) const STANDS_FOR_LOST: u16 = 2;

const FIRST_ALLOCATION: u64 = 128 << 10;
const MOST_ALLOCATION: u64 = 4 << 20;

/// A byte of the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct Position {
    pub(super) segment: u32,
    pub(super) offset: u64,
}

impl Position {
    pub(super) fn to_bytes(self) -> [u8; 12] {
        let mut bytes = [0; 12];
        let (segment, offset) = bytes.split_at_mut(4);
        segment.copy_from_slice(&self.segment.to_le_bytes());
        offset.copy_from_slice(&self.offset.to_le_bytes());
        bytes
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Position> {
        Some(Position { segment: le_u32(bytes, 0)?, offset: le_u64(bytes, 4)? })
    }
}

/// What a segment says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SegmentHeader {
    pub(super) format: u32,
    pub(super) segment: u32,
    pub(super) workspace: [u8; 16],
    /// The number of its first frame.
    pub(super) first_frame: u64,
    /// The byte behind the last frame of the segment before it.
    pub(super) previous_end: u64,
}

/// Where a commit went.
#[derive(Clone, Copy, Debug)]
pub(super) struct Written {
    /// The first byte of its body.
    pub(super) body: Position,
    /// The byte behind it.
    pub(super) end: Position,
    /// Its frame number.
    pub(super) frame: u64,
}

/// The end of the journal, open for writing.
pub(super) struct Journal {
    disk: Disk,
    dir: PathBuf,
    workspace: [u8; 16],
    segment_bytes: u64,
    file: DiskFile,
    segment: u32,
    end: u64,
    allocated: u64,
    next_frame: u64,
    /// What lies behind `end` may not be zeros: the next commit goes to a new segment.
    spoilt: bool,
}

impl Journal {
    /// Goes on writing behind `end`, whose segment exists. With `spoilt`, junk lies there, and a new segment is begun.
    pub(super) fn resume(site: &RecoveryContext<'_>, end: Position, next_frame: u64, spoilt: bool) -> io::Result<Journal> {
        let dir = site.journal_dir();
        let file = site.disk.open(&segment_path(&dir, end.segment))?;
        let allocated = file.len()?;
        Ok(Journal {
            disk: site.disk.clone(),
            dir,
            workspace: site.workspace,
            segment_bytes: site.segment_bytes,
            file,
            segment: end.segment,
            end: end.offset,
            allocated,
            next_frame,
            spoilt,
        })
    }

    /// Makes a segment without frames.
    pub(super) fn create_segment(disk: &Disk, dir: &Path, header: SegmentHeader) -> io::Result<()> {
        disk.create_dir_all(dir)?;
        disk.replace(&segment_path(dir, header.segment), &header.to_bytes())
    }

    /// Writes a frame and syncs it. After an error nothing of it will ever count.
    pub(super) fn commit(&mut self, body: &[u8], entries: u32, flags: u16) -> io::Result<Written> {
        let frame = frame_bytes(body, entries, flags, self.next_frame)?;
        let length = frame.len() as u64;
        if self.spoilt || (self.end > SEGMENT_HEADER && self.end + length > self.segment_bytes) {
            self.begin_segment()?;
        }
        self.allocate(self.end + length)?;
        let written = self.file.write_at(self.end, &frame).and_then(|()| self.file.sync());
        if let Err(error) = written {
            // After a failed sync the kernel may call the same pages clean without having written them: never try again here.
            self.spoilt = true;
            return Err(error);
        }
        let body = Position { segment: self.segment, offset: self.end + FRAME_HEADER as u64 };
        self.end += length;
        self.next_frame += 1;
        Ok(Written { body, end: self.position(), frame: self.next_frame - 1 })
    }

    /// The byte behind the last commit.
    pub(super) fn position(&self) -> Position {
        Position { segment: self.segment, offset: self.end }
    }

    /// The number the next commit gets.
    pub(super) fn next_frame(&self) -> u64 {
        self.next_frame
    }

    fn begin_segment(&mut self) -> io::Result<()> {
        if !self.spoilt && self.allocated > self.end {
            // Best effort: zeros behind the last frame are valid too.
            let _ = self.file.set_len(self.end).and_then(|()| self.file.sync());
        }
        let next = self.segment + 1;
        let header = SegmentHeader {
            format: FORMAT,
            segment: next,
            workspace: self.workspace,
            first_frame: self.next_frame,
            previous_end: self.end,
        };
        Journal::create_segment(&self.disk, &self.dir, header)?;
        self.file = self.disk.open(&segment_path(&self.dir, next))?;
        (self.segment, self.end, self.allocated, self.spoilt) = (next, SEGMENT_HEADER, SEGMENT_HEADER, false);
        Ok(())
    }

    /// Writes zeros ahead of need, so that a commit changes no metadata. What fails here has touched no frame.
    fn allocate(&mut self, needed: u64) -> io::Result<()> {
        if needed <= self.allocated {
            return Ok(());
        }
        let ahead = self.allocated.clamp(FIRST_ALLOCATION, MOST_ALLOCATION);
        let generous = self.write_zeros(needed + ahead);
        // A nearly full disk may still have room for what is needed now.
        if generous.is_err() { self.write_zeros(needed) } else { generous }
    }

    fn write_zeros(&mut self, until: u64) -> io::Result<()> {
        static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];
        let mut at = self.allocated;
        while at < until {
            let length = usize::try_from(until - at).unwrap_or(usize::MAX).min(ZEROS.len());
            self.file.write_at(at, ZEROS.get(..length).unwrap_or_default())?;
            at += length as u64;
        }
        self.allocated = until;
        Ok(())
    }
}

/// Where the segment of that number is.
pub(super) fn segment_path(dir: &Path, segment: u32) -> PathBuf {
    dir.join(format!("{segment:08}.log"))
}

/// The numbers of the segments there are, in order.
pub(super) fn segments(dir: &Path) -> io::Result<Vec<u32>> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut segments = Vec::new();
    for entry in entries {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|name| name.strip_suffix(".log")).filter(|digits| digits.len() == 8);
        segments.extend(number.and_then(|digits| digits.parse::<u32>().ok()).filter(|number| *number > 0));
    }
    segments.sort_unstable();
    Ok(segments)
}

impl SegmentHeader {
    pub(super) fn to_bytes(self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(64);
        bytes.extend_from_slice(&SEGMENT_MAGIC);
        bytes.extend_from_slice(&self.format.to_le_bytes());
        bytes.extend_from_slice(&self.segment.to_le_bytes());
        bytes.extend_from_slice(&self.workspace);
        bytes.extend_from_slice(&self.first_frame.to_le_bytes());
        bytes.extend_from_slice(&self.previous_end.to_le_bytes());
        bytes.resize(60, 0);
        let crc = crc32fast::hash(&bytes);
        bytes.extend_from_slice(&crc.to_le_bytes());
        bytes
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Option<SegmentHeader> {
        if !bytes.starts_with(&SEGMENT_MAGIC) || crc32fast::hash(bytes.get(..60)?) != le_u32(bytes, 60)? {
            return None;
        }
        Some(SegmentHeader {
            format: le_u32(bytes, 8)?,
            segment: le_u32(bytes, 12)?,
            workspace: bytes.get(16..32)?.try_into().ok()?,
            first_frame: le_u64(bytes, 32)?,
            previous_end: le_u64(bytes, 40)?,
        })
    }
}

/// A whole frame.
pub(super) fn frame_bytes(body: &[u8], entries: u32, flags: u16, number: u64) -> io::Result<Vec<u8>> {
    let too_large = |_| io::Error::new(io::ErrorKind::InvalidInput, "a commit of 4 GiB");
    let length = u32::try_from(body.len()).map_err(too_large)?;
    let mut frame = Vec::with_capacity(FRAME_HEADER + body.len());
    frame.extend_from_slice(&FRAME_MAGIC);
    frame.extend_from_slice(&1u16.to_le_bytes());
    frame.extend_from_slice(&flags.to_le_bytes());
    frame.extend_from_slice(&length.to_le_bytes());
    frame.extend_from_slice(&entries.to_le_bytes());
    frame.extend_from_slice(&number.to_le_bytes());
    frame.extend_from_slice(&crc32fast::hash(body).to_le_bytes());
    let crc = crc32fast::hash(&frame);
    frame.extend_from_slice(&crc.to_le_bytes());
    frame.extend_from_slice(body);
    Ok(frame)
}

/// A long text as the journal keeps it.
pub(super) fn text_bytes(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(TEXT_HEADER + text.len());
    bytes.extend_from_slice(&TEXT_MAGIC);
    // Texts are at most a few megabytes.
    bytes.extend_from_slice(&u32::try_from(text.len()).unwrap_or(u32::MAX).to_le_bytes());
    bytes.extend_from_slice(blake3::hash(text.as_bytes()).as_bytes());
    let crc = crc32fast::hash(&bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    bytes.extend_from_slice(text.as_bytes());
    bytes
}
