//! Sealing: segments that take no more frames are compressed in the background, each once all of it is in the database
//! and synced there. So both copies of every event exist while the journal's own is replaced.
//!
//! A segment is sealed only if every byte of it proves itself. The sealed form is written beside it, synced, read back
//! and compared; then it takes the segment's name in one rename. Whatever fails before that leaves the plain segment.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;

use crate::disk::FileId;

use super::journal::{SEALED, SEGMENT_HEADER, SegmentHeader};
use super::log::Log;
use super::scan::{ScanItem, walk};
use super::sealed;

impl Log {
    /// Seals what can be sealed after each checkpoint, until the sender is gone. Runs on its own thread.
    pub(super) fn seal_until_stopped(&self, checkpoints: &Receiver<()>) {
        while checkpoints.recv().is_ok() {
            if let Err(error) = self.seal_segments() {
                // The plain segments stay as good as they were.
                tracing::warn!(%error, "a segment of the journal cannot be sealed");
            }
        }
    }

    /// Seals every plain segment that both copies have completely, and returns how many.
    pub(super) fn seal_segments(&self) -> io::Result<u32> {
        let covered = self.checkpointed().segment;
        let outline = self.files.outline(0)?;
        let mut sealed = 0;
        for (segment, next) in outline.segments.iter().zip(outline.segments.iter().skip(1)) {
            let (Some(header), Some(next)) = (segment.header, next.header) else { continue };
            let is_plain = header.format < SEALED && segment.length >= self.seal_from;
            if is_plain && segment.number < covered && next.segment == segment.number + 1 {
                sealed += u32::from(self.seal_segment(segment.number, next)?);
            }
            if self.is_closing.load(Ordering::Relaxed) {
                break;
            }
        }
        Ok(sealed)
    }

    /// Seals a segment that `next` follows; returns whether it was whole.
    fn seal_segment(&self, number: u32, next: SegmentHeader) -> io::Result<bool> {
        let path = self.layout.segment(number);
        let Some(file) = self.disk.open_to_read(&path)? else { return Ok(false) };
        let (id, length) = (file.id()?, file.len()?);
        let plain = file.read_at(0, usize::try_from(length).unwrap_or(0))?;
        if !is_whole(&plain, next) {
            return Ok(false);
        }
        let Some(compressed) = sealed::seal(&plain).filter(|compressed| compressed.len() < plain.len()) else {
            return Ok(false);
        };
        if self.is_closing.load(Ordering::Relaxed) {
            return Ok(false);
        }
        let prepared = self.disk.prepare(&path, &compressed)?;
        drop(compressed);
        let written = self.files.read_file(prepared.path(), SEGMENT_HEADER)?.unwrap_or_default();
        let body = plain.get(usize::try_from(SEGMENT_HEADER).unwrap_or(0)..).unwrap_or_default();
        let is_same = body.starts_with(&written) && body.iter().skip(written.len()).all(|byte| *byte == 0);
        if !is_same {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the sealed segment does not read back as written"));
        }
        // A recovery may have replaced the segment meanwhile, but not from here on.
        let _maintenance = self.view.maintain();
        self.lock_journal().check_lock()?;
        if !id.map_or(Ok(true), |id: FileId| self.disk.still_names(&path, id))? {
            return Ok(false);
        }
        prepared.persist(&path)?;
        Ok(true)
    }
}

/// Returns whether every frame of a segment proves itself, up to where the next segment says that it ended.
fn is_whole(plain: &[u8], next: SegmentHeader) -> bool {
    let Some(header) = SegmentHeader::from_bytes(plain) else { return false };
    let mut number = header.first_frame;
    let mut whole = true;
    let body = plain.get(usize::try_from(SEGMENT_HEADER).unwrap_or(0)..).unwrap_or_default();
    walk(body, SEGMENT_HEADER, &mut |item| match item {
        // What was refused lies after the end, and stays there.
        ScanItem::Frame(frame) if frame.start >= next.previous_end => {}
        ScanItem::Frame(frame) => {
            whole &= frame.number == number && frame.entries.iter().all(|(_, entry)| entry.is_true());
            number = frame.number.saturating_add(1);
        }
        ScanItem::Damage(span) => whole &= span.start >= next.previous_end,
    });
    whole && number == next.first_frame
}
