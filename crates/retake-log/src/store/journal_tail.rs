//! The tail of the journal, read and checked before sled is opened.
//!
//! sled changes its files while it opens them, even if a read fails meanwhile: it then takes the rest of its log for a
//! torn write and overwrites it. That is harmless as long as the journal contains everything that sled wrote since its
//! last snapshot. So this part of the journal is checked first, and if it is damaged, the database is not opened in
//! place: recovery opens a copy.

use std::borrow::Cow;
use std::io;

use super::checkpoint::Checkpoint;
use super::frame_sequence::{Cause, FrameSequence};
use super::journal::{JournalPosition, SEGMENT_HEADER};
use super::rebuild::RecoveryContext;
use super::scan::{ScanItem, walk};
use super::segments::Outline;

/// The number of events up to which a workspace is compared in full unless it was closed cleanly.
pub(super) const SMALL: u64 = 4096;
/// The maximum number of bytes kept for the comparison with the database; the rest is read again.
const MAX_KEPT_BYTES: usize = 32 << 20;
/// The first position of every journal.
pub(super) const START: JournalPosition = JournalPosition { segment: 1, offset: SEGMENT_HEADER };

/// The bytes read at the end of the journal.
#[derive(Default)]
pub(super) struct JournalTail {
    segments: Vec<(JournalPosition, Vec<u8>)>,
    kept_bytes: usize,
}

impl JournalTail {
    /// Reads and checks what sled may have written since its last snapshot. `keys_end` is the position up to which the
    /// key index has all keys. The inner error is the cause of a recovery.
    pub(super) fn read(
        context: &RecoveryContext<'_>,
        outline: &Outline,
        checkpoint: Option<Checkpoint>,
        keys_end: JournalPosition,
    ) -> io::Result<Result<JournalTail, Cause>> {
        let is_large_or_clean =
            |checkpoint: &Checkpoint| checkpoint.events > SMALL || checkpoint.unchecked == checkpoint.end;
        let from = checkpoint.filter(is_large_or_clean).map_or(START, |checkpoint| checkpoint.unchecked.min(keys_end));
        let known = keys_end.segment.max(checkpoint.map_or(0, |checkpoint| checkpoint.end.segment));
        if outline.last() < known {
            return Ok(Err(format!("segment {} of the journal is missing", outline.last() + 1)));
        }
        let mut tail = JournalTail::default();
        let mut sequence = FrameSequence::new(from, from == START);
        for segment in outline.segments.iter().filter(|segment| segment.number >= from.segment) {
            let at = entry_position(from, segment.number);
            if segment.number != from.segment
                && let Err(cause) = sequence.check_segment(outline, segment.number)
            {
                return Ok(Err(cause));
            }
            let Some(bytes) = context.files.read(segment.number, at.offset)? else {
                return Ok(Err(format!("segment {} of the journal is missing", segment.number)));
            };
            sequence.enter(outline, at);
            let mut judged = Ok(());
            walk(&bytes, at.offset, &mut |item| {
                if judged.is_ok() {
                    judged = match item {
                        ScanItem::Frame(frame) => sequence.take(at.segment, &frame).map(|_| ()),
                        ScanItem::Damage(span) => {
                            sequence.check_damage(at.segment == outline.last(), at.segment, &span)
                        }
                    };
                }
            });
            if let Err(cause) = judged {
                return Ok(Err(cause));
            }
            tail.keep(at, bytes);
        }
        // Keys are written from the same commits as sled's trees.
        let judged = sequence.check_end(checkpoint, context.acknowledged, keys_end);
        Ok(judged.map(|()| tail))
    }

    /// Returns the bytes of a segment from a position; `None` if it does not exist.
    pub(super) fn bytes(
        &self,
        context: &RecoveryContext<'_>,
        at: JournalPosition,
    ) -> io::Result<Option<Cow<'_, [u8]>>> {
        let kept = self.segments.iter().find(|(from, _)| from.segment == at.segment && from.offset <= at.offset);
        let rest = kept.and_then(|(from, bytes)| bytes.get(usize::try_from(at.offset - from.offset).ok()?..));
        match rest {
            Some(rest) => Ok(Some(Cow::Borrowed(rest))),
            None => Ok(context.files.read(at.segment, at.offset)?.map(Cow::Owned)),
        }
    }

    fn keep(&mut self, at: JournalPosition, bytes: Vec<u8>) {
        if self.kept_bytes + bytes.len() <= MAX_KEPT_BYTES {
            self.kept_bytes += bytes.len();
            self.segments.push((at, bytes));
        }
    }
}

/// Returns the position at which reading of a segment starts, if reading of the journal starts at `from`.
pub(super) fn entry_position(from: JournalPosition, segment: u32) -> JournalPosition {
    let offset = if segment == from.segment { from.offset.max(SEGMENT_HEADER) } else { SEGMENT_HEADER };
    JournalPosition { segment, offset }
}
