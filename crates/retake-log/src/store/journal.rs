//! The writing end of the journal: numbered segments of checksummed frames. A commit is one frame and one fdatasync.
//!
//! This module only writes; [`segments`](super::segments) reads, and [`scan`](super::scan) distinguishes intact frames
//! from damage.

use std::io;
use std::path::PathBuf;

use crate::disk::{Disk, DiskFile, FileId};

use super::checkpoint::Checkpoint;
use super::keys::{le_u32, le_u64};
use super::layout::Layout;
use super::rebuild::RecoveryContext;

pub(super) const SEGMENT_MAGIC: [u8; 8] = *b"RETAKEJ1";
pub(super) const SEGMENT_HEADER: u64 = 64;
pub(super) const FRAME_MAGIC: [u8; 4] = [0xF7, b'R', b'T', b'F'];
pub(super) const FRAME_HEADER: usize = 32;
pub(super) const TEXT_MAGIC: [u8; 4] = [0xF5, b'R', b'T', b'T'];
pub(super) const TEXT_HEADER: usize = 44;
/// The format of a plain segment, and of the current workspace identity.
pub(super) const FORMAT: u32 = 1;
/// The format of a sealed segment, the newest one.
pub const SEALED: u32 = 2;

/// Frame flag: events restored by a recovery.
pub(super) const PUT_BACK: u16 = 1;
/// Frame flag: a placeholder for a lost frame.
pub(super) const STANDS_FOR_LOST: u16 = 2;

/// The maximum size of a segment: a longer one, or one that claims so of another, is damaged.
pub(super) const MAX_SEGMENT_BYTES: u64 = 512 << 20;

/// The number of zeros written in advance in a new segment.
const FIRST_ALLOCATION: u64 = 128 << 10;
/// The maximum number of zeros written in advance: they are read when the workspace is opened.
const MAX_ALLOCATION: u64 = 1 << 20;

/// A byte position in the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct JournalPosition {
    pub(super) segment: u32,
    pub(super) offset: u64,
}

impl JournalPosition {
    pub(super) fn to_bytes(self) -> [u8; 12] {
        let mut bytes = [0; 12];
        let (segment, offset) = bytes.split_at_mut(4);
        segment.copy_from_slice(&self.segment.to_le_bytes());
        offset.copy_from_slice(&self.offset.to_le_bytes());
        bytes
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Option<JournalPosition> {
        Some(JournalPosition { segment: le_u32(bytes, 0)?, offset: le_u64(bytes, 4)? })
    }
}

/// The header of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SegmentHeader {
    pub(super) format: u32,
    pub(super) segment: u32,
    pub(super) workspace: [u8; 16],
    /// The number of its first frame.
    pub(super) first_frame: u64,
    /// The end of the last frame in the previous segment.
    pub(super) previous_end: u64,
    /// The prefix of the hash of that frame; zeros if there is none, and in segments of version 0.1.
    pub(super) previous_frame: [u8; 12],
}

/// The location of a commit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Written {
    /// The first byte of its body.
    pub(super) body: JournalPosition,
    /// The byte after it.
    pub(super) end: JournalPosition,
    /// Its frame number.
    pub(super) frame: u64,
}

/// The reason why a commit was not acknowledged.
#[derive(Debug)]
pub(super) enum CommitError {
    /// Nothing of it will ever count.
    Refused(io::Error),
    /// It may or may not exist after a restart, since voiding it failed too.
    Unknown(io::Error),
    /// The workspace or the segment was moved.
    Moved(io::Error),
}

impl CommitError {
    pub(super) fn source(&self) -> &io::Error {
        match self {
            CommitError::Refused(error) | CommitError::Unknown(error) | CommitError::Moved(error) => error,
        }
    }
}

/// The position at which the journal continues.
#[derive(Clone, Copy, Debug)]
pub(super) struct JournalEnd {
    /// The position after the last frame that counts.
    pub(super) end: JournalPosition,
    /// The number of the next frame.
    pub(super) next_frame: u64,
    /// The prefix of the last frame's hash.
    pub(super) last_frame: [u8; 12],
    /// Whether there is junk after the end, so that a new segment must be started.
    pub(super) is_spoilt: bool,
    /// The position up to which everything is known to be synced.
    pub(super) synced: JournalPosition,
}

/// The end of the journal, open for writing.
pub(super) struct Journal {
    disk: Disk,
    layout: Layout,
    workspace: [u8; 16],
    segment_bytes: u64,
    /// The lock file of the workspace, with its identity.
    lock: Option<(PathBuf, FileId)>,
    file: DiskFile,
    /// The identity of that file; `None` if the system does not support this.
    file_id: Option<FileId>,
    segment: u32,
    end: u64,
    allocated: u64,
    next_frame: u64,
    last_frame: [u8; 12],
    /// Bytes after `end` may not be zeros: the next commit goes to a new segment.
    is_spoilt: bool,
    /// There is an unacknowledged frame after `end`, which must be voided before anything else is written.
    is_unsettled: bool,
}

impl Journal {
    /// Continues writing at the journal's end, whose segment exists. It is unknown whether the existing frames were
    /// ever synced, so they are synced before anything is acknowledged on their basis.
    pub(super) fn resume(context: &RecoveryContext<'_>, at: JournalEnd) -> io::Result<Journal> {
        let path = context.layout.segment(at.end.segment);
        let file = context.disk.open(&path)?;
        // A sealed segment was synced before it was renamed, and accepts no frames.
        let is_sealed = context.files.header(at.end.segment)?.is_some_and(|header| header.format == SEALED);
        let allocated = if is_sealed { at.end.offset } else { file.len()? };
        let from = if at.synced.segment == at.end.segment { at.synced.offset } else { 0 };
        if from < at.end.offset && !is_sealed {
            // After a failed sync, the kernel may mark pages as clean that it never wrote, so they are written again.
            let length = usize::try_from(at.end.offset - from).unwrap_or(0);
            let bytes = file.read_at(from, length)?;
            file.write_at(from, &bytes)?;
        }
        file.sync()?;
        context.disk.sync_dir(&context.layout.journal())?;
        Ok(Journal {
            disk: context.disk.clone(),
            layout: context.layout.clone(),
            workspace: context.workspace,
            segment_bytes: context.segment_bytes,
            lock: context.lock.clone(),
            file_id: file.id()?,
            file,
            segment: at.end.segment,
            end: at.end.offset,
            allocated,
            next_frame: at.next_frame,
            last_frame: at.last_frame,
            is_spoilt: at.is_spoilt || is_sealed,
            is_unsettled: false,
        })
    }

    /// Creates a segment without frames.
    pub(super) fn create_segment(disk: &Disk, layout: &Layout, header: SegmentHeader) -> io::Result<()> {
        disk.create_dir_all(&layout.journal())?;
        disk.replace(&layout.segment(header.segment), &header.to_bytes())
    }

    /// Writes a frame and syncs it.
    pub(super) fn commit(&mut self, body: &[u8], entries: u32, flags: u16) -> Result<Written, CommitError> {
        let frame = frame_bytes(body, entries, flags, self.next_frame).map_err(CommitError::Refused)?;
        let length = frame.len() as u64;
        self.check_in_place()?;
        if self.is_unsettled {
            // A retry with the key of the unsettled frame must not find it acknowledged by accident.
            self.void_last_write().map_err(CommitError::Unknown)?;
        }
        if self.is_spoilt || (self.end > SEGMENT_HEADER && self.end + length > self.segment_bytes) {
            self.begin_segment().map_err(CommitError::Refused)?;
        }
        self.allocate(self.end + length).map_err(CommitError::Refused)?;
        let written = self.file.write_at(self.end, &frame).and_then(|()| self.file.sync());
        if let Err(error) = written {
            self.is_spoilt = true;
            self.is_unsettled = true;
            return Err(match self.void_last_write() {
                Ok(()) => CommitError::Refused(error),
                Err(_) => CommitError::Unknown(error),
            });
        }
        let body = JournalPosition { segment: self.segment, offset: self.end + FRAME_HEADER as u64 };
        self.end += length;
        self.next_frame += 1;
        self.last_frame = frame_hash(&frame);
        Ok(Written { body, end: self.position(), frame: self.next_frame - 1 })
    }

    /// Writes the checkpoint, unless the workspace was moved.
    pub(super) fn write_checkpoint(&self, checkpoint: &Checkpoint) -> io::Result<()> {
        self.check_lock()?;
        checkpoint.write(&self.disk, &self.layout.checkpoint())
    }

    /// Writes the first checkpoint after opening, and its note, which supersedes an earlier note.
    pub(super) fn write_first_checkpoint(&self, checkpoint: &Checkpoint) -> io::Result<()> {
        self.write_checkpoint(checkpoint)?;
        let file = self.disk.open(&self.layout.checkpoint())?;
        checkpoint.write_note(&file)?;
        file.sync()
    }

    /// Returns the position after the last commit.
    pub(super) fn position(&self) -> JournalPosition {
        JournalPosition { segment: self.segment, offset: self.end }
    }

    /// Returns the number of the next frame.
    pub(super) fn next_frame(&self) -> u64 {
        self.next_frame
    }

    /// Checks that the workspace is still where it was opened.
    pub(super) fn check_lock(&self) -> io::Result<()> {
        if self.is_lock_in_place()? { Ok(()) } else { Err(moved()) }
    }

    fn is_lock_in_place(&self) -> io::Result<bool> {
        self.lock.as_ref().map_or(Ok(true), |(path, id)| self.disk.still_names(path, *id))
    }

    /// Checks that the workspace and the segment were not moved: data written to an unlinked file is lost when the
    /// process exits.
    fn check_in_place(&self) -> Result<(), CommitError> {
        if !self.is_lock_in_place().map_err(CommitError::Refused)? {
            return Err(CommitError::Moved(moved()));
        }
        if self.is_spoilt {
            // Nothing more is written to this segment, which a recovery may have replaced.
            return Ok(());
        }
        match self.file_id.map_or(Ok(true), |id| self.disk.still_names(self.file.path(), id)) {
            Ok(true) => Ok(()),
            Ok(false) => Err(CommitError::Moved(io::Error::other(format!(
                "segment {} of the journal was moved or replaced while it was open",
                self.segment
            )))),
            Err(error) => Err(CommitError::Refused(error)),
        }
    }

    /// Ensures that a frame whose write or sync failed never counts: a new segment that starts with its number voids
    /// it. If there is no space for one, the segment is truncated instead.
    fn void_last_write(&mut self) -> io::Result<()> {
        let end = self.end;
        let cut = |file: &DiskFile| file.set_len(end).and_then(|()| file.sync());
        let begun = self.begin_segment();
        if begun.is_err() {
            cut(&self.file)?;
            self.allocated = end;
        }
        self.is_unsettled = false;
        Ok(())
    }

    fn begin_segment(&mut self) -> io::Result<()> {
        // If this fails half-way, the next segment may already exist and void whatever is written here from now on.
        self.is_spoilt = true;
        let next = self.segment + 1;
        let header = SegmentHeader {
            format: FORMAT,
            segment: next,
            workspace: self.workspace,
            first_frame: self.next_frame,
            previous_end: self.end,
            previous_frame: self.last_frame,
        };
        Journal::create_segment(&self.disk, &self.layout, header)?;
        let file = self.disk.open(&self.layout.segment(next))?;
        let file_id = file.id()?;
        if self.allocated > self.end {
            // Best effort, and only after the new segment exists: zeros or a voided frame after the last one are valid.
            let _ = self.file.set_len(self.end).and_then(|()| self.file.sync());
        }
        self.file = file;
        self.file_id = file_id;
        (self.segment, self.end, self.allocated) = (next, SEGMENT_HEADER, SEGMENT_HEADER);
        (self.is_spoilt, self.last_frame) = (false, [0; 12]);
        Ok(())
    }

    /// Writes zeros in advance, so that a commit changes no metadata. A failure here has touched no frame.
    fn allocate(&mut self, needed: u64) -> io::Result<()> {
        if needed <= self.allocated {
            return Ok(());
        }
        let ahead = self.allocated.clamp(FIRST_ALLOCATION, MAX_ALLOCATION);
        let generous = self.write_zeros(needed + ahead);
        // A nearly full disk may still have space for what is needed now.
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

impl SegmentHeader {
    /// Returns the header of a workspace's first segment.
    pub(super) fn first(workspace: [u8; 16]) -> SegmentHeader {
        SegmentHeader {
            format: FORMAT,
            segment: 1,
            workspace,
            first_frame: 1,
            previous_end: 0,
            previous_frame: [0; 12],
        }
    }

    pub(super) fn to_bytes(self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(64);
        bytes.extend_from_slice(&SEGMENT_MAGIC);
        bytes.extend_from_slice(&self.format.to_le_bytes());
        bytes.extend_from_slice(&self.segment.to_le_bytes());
        bytes.extend_from_slice(&self.workspace);
        bytes.extend_from_slice(&self.first_frame.to_le_bytes());
        bytes.extend_from_slice(&self.previous_end.to_le_bytes());
        bytes.extend_from_slice(&self.previous_frame);
        let crc = crc32fast::hash(&bytes);
        bytes.extend_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Parses a header; `None` if it is damaged or contains impossible values.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<SegmentHeader> {
        if !bytes.starts_with(&SEGMENT_MAGIC) || crc32fast::hash(bytes.get(..60)?) != le_u32(bytes, 60)? {
            return None;
        }
        let header = SegmentHeader {
            format: le_u32(bytes, 8)?,
            segment: le_u32(bytes, 12)?,
            workspace: bytes.get(16..32)?.try_into().ok()?,
            first_frame: le_u64(bytes, 32)?,
            previous_end: le_u64(bytes, 40)?,
            previous_frame: bytes.get(48..60)?.try_into().ok()?,
        };
        Some(header).filter(|header| header.previous_end <= MAX_SEGMENT_BYTES)
    }
}

/// Returns the error for a workspace that was moved since it was opened.
pub(super) fn moved() -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, "the workspace was moved, deleted or replaced while it was open")
}

/// Returns the prefix of a frame's hash, by which the next segment refers to it.
pub(super) fn frame_hash(frame: &[u8]) -> [u8; 12] {
    let mut short = [0; 12];
    short.iter_mut().zip(blake3::hash(frame).as_bytes()).for_each(|(to, from)| *to = *from);
    short
}

/// Encodes a frame.
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

/// Encodes a long text for the journal.
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
