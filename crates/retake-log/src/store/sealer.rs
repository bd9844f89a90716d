//! Sealing: segments that accept no more frames are compressed in the background, once all of their events are in the
//! database and synced there. Therefore both copies of every event exist while the journal's copy is replaced.
//!
//! A segment is sealed only if all of its bytes verify. The sealed form is written next to it, synced, read back and
//! compared; then it replaces the segment in one rename. Any failure before that leaves the plain segment.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;

use crate::disk::FileId;

use super::journal::{SEALED, SEGMENT_HEADER, SegmentHeader};
use super::log::LocalLog;
use super::scan::{ScanItem, walk};
use super::sealed;

impl LocalLog {
    /// Seals what can be sealed after each checkpoint, until the sender is dropped. Runs on its own thread.
    pub(super) fn seal_until_stopped(&self, checkpoints: &Receiver<()>) {
        while checkpoints.recv().is_ok() {
            if let Err(error) = self.seal_segments() {
                // The plain segments are unaffected.
                tracing::warn!(%error, "a segment of the journal cannot be sealed");
            }
        }
    }

    /// Seals every plain segment that is completely in both copies, and returns the number sealed.
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

    /// Seals a segment that is followed by `next`. Returns whether it was intact.
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

/// Returns whether every frame of a segment verifies, up to the end stated by the next segment.
fn is_whole(plain: &[u8], next: SegmentHeader) -> bool {
    let Some(header) = SegmentHeader::from_bytes(plain) else { return false };
    let mut number = header.first_frame;
    let mut whole = true;
    let body = plain.get(usize::try_from(SEGMENT_HEADER).unwrap_or(0)..).unwrap_or_default();
    walk(body, SEGMENT_HEADER, &mut |item| match item {
        // Refused frames lie after the end, and stay there.
        ScanItem::Frame(frame) if frame.start >= next.previous_end => {}
        ScanItem::Frame(frame) => {
            whole &= frame.number == number && frame.entries.iter().all(|(_, entry)| entry.is_true());
            number = frame.number.saturating_add(1);
        }
        ScanItem::Damage(span) => whole &= span.start >= next.previous_end,
    });
    whole && number == next.first_frame
}
