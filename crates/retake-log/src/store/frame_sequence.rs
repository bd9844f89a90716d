//! The expected order of frames and segments in a journal, and how far it must reach. This needs no database, so the
//! journal is checked before sled is opened, and again while sled catches up.

use super::checkpoint::Checkpoint;
use super::journal::{JournalPosition, STANDS_FOR_LOST, frame_hash};
use super::scan::{DamagedSpan, Frame};
use super::segments::Outline;

/// The cause of a recovery.
pub(super) type Cause = String;

/// The cause if a journal is shorter than other evidence says.
const ENDS_EARLY: &str = "the journal ends before what was acknowledged";

/// The state of a walk over the journal.
pub(super) struct FrameSequence {
    /// The number of the next frame, once one was seen.
    expected: Option<u64>,
    /// The frame number from which the frames of this segment were refused.
    void_from: u64,
    /// The position after the last frame that counts.
    pub(super) end: JournalPosition,
    /// The prefix of the hash of that frame; zeros if unknown.
    pub(super) last_frame: [u8; 12],
    /// Whether there is junk after the end.
    pub(super) has_junk: bool,
}

impl FrameSequence {
    /// Starts at a position; the first position of the journal is followed by its first frame.
    pub(super) fn new(from: JournalPosition, is_start: bool) -> FrameSequence {
        let expected = is_start.then_some(1);
        FrameSequence { expected, void_from: u64::MAX, end: from, last_frame: [0; 12], has_junk: false }
    }

    /// Starts reading a segment at an offset.
    pub(super) fn enter(&mut self, outline: &Outline, at: JournalPosition) {
        self.void_from = outline.void_from(at.segment);
        self.has_junk = false;
        self.end = at;
    }

    /// Checks that a segment continues where the previous one ended.
    pub(super) fn check_segment(&mut self, outline: &Outline, number: u32) -> Result<(), Cause> {
        let Some(header) = outline.header(number) else { return Ok(()) };
        if let Some(expected) = self.expected.filter(|expected| header.first_frame != *expected) {
            return Err(format!("frame {expected} of the journal is missing"));
        }
        self.expected = Some(header.first_frame);
        let follows = header.previous_end == self.end.offset;
        let names_another = header.previous_frame != [0; 12] && header.previous_frame != self.last_frame;
        if self.end.segment + 1 == number
            && (header.previous_end > self.end.offset || (follows && self.last_frame != [0; 12] && names_another))
        {
            return Err(format!("segment {number} of the journal does not follow the one before it"));
        }
        self.last_frame = [0; 12];
        Ok(())
    }

    /// Processes the next frame. Returns whether it counts.
    pub(super) fn take(&mut self, segment: u32, frame: &Frame<'_>) -> Result<bool, Cause> {
        if frame.number >= self.void_from {
            return Ok(false);
        }
        let stands_for_lost = frame.flags & STANDS_FOR_LOST != 0;
        if self.expected.is_some_and(|expected| frame.number != expected && !stands_for_lost) {
            return Err(format!("frame {} of the journal is where another belongs", frame.number));
        }
        self.expected = Some(frame.number + 1);
        self.last_frame = if stands_for_lost { [0; 12] } else { frame_hash(frame.bytes) };
        self.end = JournalPosition { segment, offset: frame.end };
        Ok(true)
    }

    /// Judges bytes that are not a frame: damage, unless they are a write that never completed or was refused.
    pub(super) fn check_damage(&mut self, is_last: bool, segment: u32, span: &DamagedSpan<'_>) -> Result<(), Cause> {
        if span.is_followed || (is_last && !span.is_torn) {
            return Err(damaged_at(segment, span));
        }
        self.has_junk = true;
        Ok(())
    }

    /// Checks that the journal reaches as far as the checkpoint, the note of the last acknowledgement, and the
    /// database.
    pub(super) fn check_end(
        &self,
        checkpoint: Option<Checkpoint>,
        note: Option<Checkpoint>,
        database: JournalPosition,
    ) -> Result<(), Cause> {
        let last_frame = self.expected.map(|expected| expected - 1);
        // A note is written only after its frame was synced.
        let ends_before = |known: Checkpoint| self.end < known.end || last_frame.is_some_and(|last| last < known.frame);
        let is_short = self.end < database || checkpoint.into_iter().chain(note).any(ends_before);
        if is_short { Err(ENDS_EARLY.to_owned()) } else { Ok(()) }
    }

    /// Returns the number of the next frame, from the frames or else from a checkpoint at the same position; `None` if
    /// it can only be found by reading the whole journal.
    pub(super) fn next_frame(&self, checkpoint: Option<Checkpoint>) -> Option<u64> {
        let at_checkpoint = checkpoint.filter(|checkpoint| checkpoint.end == self.end);
        self.expected.or(at_checkpoint.map(|checkpoint| checkpoint.frame + 1))
    }
}

/// Describes the location of a damaged span.
pub(super) fn damaged_at(segment: u32, span: &DamagedSpan<'_>) -> Cause {
    format!("the journal is damaged at byte {} of segment {segment}", span.start)
}
