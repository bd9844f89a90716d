//! Repairs segments of the journal: intact frames keep their offsets, and placeholder frames fill the gaps.

use std::path::Path;

use super::Error;
use super::journal::{FORMAT, FRAME_HEADER, STANDS_FOR_LOST, SegmentHeader, frame_bytes};
use super::layout::segment_name;
use super::rebuild::RecoveryContext;

/// The state of a segment.
pub(super) struct SegmentState {
    pub(super) number: u32,
    pub(super) header: Option<SegmentHeader>,
    /// Whether a file with this number exists and belongs to the journal.
    pub(super) there: bool,
    /// The start, end and number of each intact frame.
    pub(super) frames: Vec<(u64, u64, u64)>,
    /// The start and end of each range that is not an intact frame of this journal.
    pub(super) damaged: Vec<(u64, u64)>,
    /// Whether there is junk after the last frame.
    pub(super) has_junk: bool,
    /// Whether it refers to another predecessor than the segment before it.
    pub(super) is_fork: bool,
    /// The prefix of the hash of its last frame.
    pub(super) last_frame_hash: [u8; 12],
}

/// Returns the numbers of the segments that must be repaired.
pub(super) fn damaged(segments: &[SegmentState], highest_frame: u64) -> Vec<u32> {
    repairs(segments, highest_frame).into_iter().map(|repair| repair.segment.number).collect()
}

/// Writes a repaired copy of every damaged segment in its place, after the damaged one was linked in `aside`. Returns
/// the numbers of those that existed.
pub(super) fn repair(
    context: &RecoveryContext<'_>,
    segments: &[SegmentState],
    highest_frame: u64,
    aside: &Path,
) -> Result<Vec<u32>, Error> {
    let mut repaired = Vec::new();
    for SegmentRepair { segment, first, until, end } in repairs(segments, highest_frame) {
        let path = context.layout.segment(segment.number);
        let error = || context.error("repair a segment of the journal", path.clone());
        let old = if segment.there { context.files.read(segment.number, 0).map_err(error())? } else { None };
        let new = segment.repaired(&old.unwrap_or_default(), context.workspace, first, until, end);
        let replaced = context.disk.create_dir_all(aside).and_then(|()| {
            let second = aside.join(segment_name(segment.number));
            if segment.there && !context.disk.exists(&second)? && context.disk.exists(&path)? {
                context.disk.link(&path, &second)?;
            }
            context.disk.replace(&path, &new)
        });
        replaced.map_err(error())?;
        if segment.there {
            repaired.push(segment.number);
        }
    }
    Ok(repaired)
}

/// A segment to be repaired: it starts with frame `first`, the next one with `until`, and the next one states that this
/// one reached to `end`.
struct SegmentRepair<'a> {
    segment: &'a SegmentState,
    first: u64,
    until: u64,
    end: u64,
}

fn repairs(segments: &[SegmentState], highest_frame: u64) -> Vec<SegmentRepair<'_>> {
    let mut repairs = Vec::new();
    let mut first = 1;
    for (at, segment) in segments.iter().enumerate() {
        let follower = segments.get(at + 1);
        let next = follower.and_then(|next| {
            next.header
                .map(|header| (header.first_frame, header.previous_end))
                .or(next.frames.first().map(|(_, _, n)| (*n, 0)))
        });
        let unknown = (segment.last_frame().max(first - 1) + 1, 0);
        let (until, end) = if follower.is_some() { next.unwrap_or(unknown) } else { (highest_frame + 1, 0) };
        if !segment.is_sound(first) || segment.last_frame().max(first - 1) + 1 < until {
            repairs.push(SegmentRepair { segment, first, until, end });
        }
        first = until.max(segment.last_frame() + 1);
    }
    repairs
}

impl SegmentState {
    pub(super) fn new(number: u32, header: Option<SegmentHeader>, there: bool) -> SegmentState {
        SegmentState {
            number,
            header,
            there,
            frames: Vec::new(),
            damaged: Vec::new(),
            has_junk: false,
            is_fork: false,
            last_frame_hash: [0; 12],
        }
    }

    pub(super) fn last_frame(&self) -> u64 {
        self.frames.last().map_or(0, |(_, _, number)| *number)
    }

    fn is_sound(&self, first: u64) -> bool {
        let numbers = self.frames.iter().map(|(_, _, number)| *number);
        let contiguous = numbers.zip(first..).all(|(number, expected)| number <= expected);
        self.there && self.header.is_some() && self.damaged.is_empty() && contiguous
    }

    /// Returns the segment with its intact frames at their offsets, and placeholder frames for the lost ones in
    /// between: it starts with frame `first`, the next segment with `until`, and the next one states that this one
    /// reached to `end`.
    fn repaired(&self, old: &[u8], workspace: [u8; 16], first: u64, until: u64, end: u64) -> Vec<u8> {
        let first_frame = self.header.map_or(first, |header| header.first_frame);
        let previous_end = self.header.map_or(0, |header| header.previous_end);
        let previous_frame = self.header.filter(|_| !self.is_fork).map_or([0; 12], |header| header.previous_frame);
        let header = SegmentHeader {
            format: FORMAT,
            segment: self.number,
            workspace,
            first_frame,
            previous_end,
            previous_frame,
        };
        let mut new = header.to_bytes();
        let mut last = first_frame.saturating_sub(1);
        let size = |offset: u64| usize::try_from(offset).unwrap_or(0);
        for (start, end, number) in &self.frames {
            let room = size(*start).saturating_sub(new.len());
            if room > 0 {
                stand_in(&mut new, last.max(number.saturating_sub(1)), room);
            }
            new.extend_from_slice(old.get(size(*start)..size(*end)).unwrap_or_default());
            last = *number;
        }
        let room = size(end).saturating_sub(new.len());
        if last + 1 < until || room > 0 {
            stand_in(&mut new, last.max(until.saturating_sub(1)), room.max(FRAME_HEADER));
        }
        new
    }
}

/// Appends a placeholder frame for all lost ones up to this number, which fills this many bytes.
fn stand_in(new: &mut Vec<u8>, number: u64, room: usize) {
    let body = vec![0; room.saturating_sub(FRAME_HEADER)];
    if let Ok(frame) = frame_bytes(&body, 0, STANDS_FOR_LOST, number) {
        new.extend_from_slice(&frame);
    }
}
