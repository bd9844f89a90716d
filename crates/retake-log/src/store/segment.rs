//! Mending segments of the journal: whole frames stay where they are, and frames that stand for the lost ones fill the gaps.

use std::fs;
use std::path::Path;

use super::Error;
use super::journal::{FORMAT, FRAME_HEADER, STANDS_FOR_LOST, SegmentHeader, frame_bytes, segment_path};
use super::rebuild::RecoveryContext;

/// How a segment looked.
pub(super) struct Segment {
    pub(super) number: u32,
    pub(super) header: Option<SegmentHeader>,
    /// Start, end and number of each whole frame.
    pub(super) frames: Vec<(u64, u64, u64)>,
    /// Bytes between frames that are none.
    pub(super) damaged: Vec<(u64, u64)>,
    /// Junk behind the last frame.
    pub(super) junk: bool,
}

/// Writes a mended copy of every damaged segment in its place, after the damaged one has a second name in `aside`. Gives
/// the numbers of those that were there.
pub(super) fn mend(site: &RecoveryContext<'_>, segments: &[Segment], highest_frame: u64, aside: &Path) -> Result<Vec<u32>, Error> {
    let mut mended = Vec::new();
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
        let sound = segment.is_sound(first) && segment.last_frame().max(first - 1) + 1 >= until;
        let path = segment_path(&site.journal_dir(), segment.number);
        if !sound {
            let old = fs::read(&path).unwrap_or_default();
            let new = segment.mended(&old, site.workspace, first, until, end);
            let replaced = site.disk.create_dir_all(aside).and_then(|()| {
                let second = aside.join(format!("{:08}.log", segment.number));
                if path.exists() && !second.exists() {
                    site.disk.link(&path, &second)?;
                }
                site.disk.replace(&path, &new)
            });
            replaced.map_err(|source| Error::Io { action: "mend a segment of the journal".into(), path, source })?;
            if !old.is_empty() {
                mended.push(segment.number);
            }
        }
        first = until.max(segment.last_frame() + 1);
    }
    Ok(mended)
}

impl Segment {
    pub(super) fn new(number: u32, header: Option<SegmentHeader>) -> Segment {
        Segment { number, header, frames: Vec::new(), damaged: Vec::new(), junk: false }
    }

    pub(super) fn last_frame(&self) -> u64 {
        self.frames.last().map_or(0, |(_, _, number)| *number)
    }

    fn is_sound(&self, first: u64) -> bool {
        let numbers = self.frames.iter().map(|(_, _, number)| *number);
        let contiguous = numbers.zip(first..).all(|(number, expected)| number <= expected);
        self.header.is_some() && self.damaged.is_empty() && contiguous
    }

    /// The segment with its whole frames where they were, and frames that stand for the lost ones between them: it begins
    /// with frame `first`, the next segment with `until`, and the next one remembers that this one reached to `end`.
    fn mended(&self, old: &[u8], workspace: [u8; 16], first: u64, until: u64, end: u64) -> Vec<u8> {
        let first_frame = self.header.map_or(first, |header| header.first_frame);
        let previous_end = self.header.map_or(0, |header| header.previous_end);
        let header = SegmentHeader { format: FORMAT, segment: self.number, workspace, first_frame, previous_end };
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

/// A frame that stands for all lost ones up to that number and fills that many bytes.
fn stand_in(new: &mut Vec<u8>, number: u64, room: usize) {
    let body = vec![0; room.saturating_sub(FRAME_HEADER)];
    if let Ok(frame) = frame_bytes(&body, 0, STANDS_FOR_LOST, number) {
        new.extend_from_slice(&frame);
    }
}
