//! Compaction: segments of similar size are merged in the background, so that they stay few.

use std::fs::{self, File};
use std::io::BufWriter;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::bytes::Source;
use super::evaluate::SegmentView;
use super::index::{Index, IndexPart, Loaded, mark};
use super::manifest::segment_path;
use super::merge::{MergeError, Relocations, merge};
use super::segment::Segment;
use super::set::Bits;

/// The number of segments of similar size that are merged into one.
const MERGE_FACTOR: usize = 4;

impl Index {
    /// Merges some segments if that is worthwhile, and returns whether it did. The lock is only held to choose and to
    /// replace them.
    pub(super) fn merge_some(&self) -> bool {
        let (chosen, number) = {
            let mut state = self.lock(None);
            let Some(loaded) = state.as_mut() else { return false };
            let chosen: Vec<SegmentView> = loaded.merge_candidates(self.sizes.max_merged);
            if chosen.is_empty() {
                return false;
            }
            loaded.next += 1;
            (chosen, loaded.next - 1)
        };
        let path = segment_path(&self.dir, number);
        let merged = self.merge_to(&chosen, &path);
        let (segment, moves) = match merged {
            Ok(merged) => merged,
            Err(error) => {
                if !matches!(error, MergeError::Stopped) {
                    tracing::warn!(%error, "the search index cannot be merged");
                }
                let _ = fs::remove_file(&path);
                return false;
            }
        };
        let mut state = self.lock(None);
        let replaced = state.as_mut().is_some_and(|loaded| loaded.replace(&chosen, segment, &moves, number));
        if let Some(loaded) = state.as_mut().filter(|_| replaced) {
            self.write_tail(loaded);
        } else {
            let _ = fs::remove_file(&path);
        }
        replaced
    }

    fn merge_to(&self, parts: &[SegmentView], path: &Path) -> Result<(Segment, Relocations), MergeError> {
        let out = BufWriter::with_capacity(1 << 20, File::create(path)?);
        let (out, moves) = merge(parts, out, &|| self.stopping.load(Ordering::Acquire))?;
        out.into_inner().map_err(|error| error.into_error())?.sync_data()?;
        Ok((Segment::open(Source::file(File::open(path)?)?)?, moves))
    }
}

impl Loaded {
    /// Returns the segments to merge: several of similar size, with at most `max_merged` documents together, or one
    /// that is mostly dead.
    fn merge_candidates(&self, max_merged: u32) -> Vec<SegmentView> {
        let size = |part: &IndexPart| part.live.segment.docs().max(part.live.segment.sessions());
        let tier = |part: &IndexPart| (size(part) / 512).max(1).ilog2() / 2;
        let stored: Vec<&IndexPart> = self.parts.iter().filter(|part| part.number.is_some()).collect();
        // Larger ones have reached their final size.
        let mut growing: Vec<&&IndexPart> = stored.iter().filter(|part| size(part) <= max_merged / 2).collect();
        growing.sort_by_key(|part| size(part));
        for wanted in 0..16 {
            if growing.iter().filter(|part| tier(part) == wanted).count() >= MERGE_FACTOR {
                // Smaller ones are included: they are cheap to merge, and each one slows down every search a little.
                let mut left = max_merged;
                let fits = |part: &&&&IndexPart| {
                    let room = left.checked_sub(size(part));
                    left = room.unwrap_or(0);
                    tier(part) <= wanted && room.is_some()
                };
                return growing.iter().take_while(fits).map(|part| part.live.clone()).collect();
            }
        }
        let wasted = |part: &&&IndexPart| {
            let dead = part.live.dead.len() + part.live.dead_sessions.len();
            dead > 1000 && dead * 3 > u64::from(part.live.segment.docs() + part.live.segment.sessions())
        };
        stored.iter().filter(wasted).map(|part| part.live.clone()).take(1).collect()
    }

    /// Replaces segments by the one they were merged into; returns false if one of them is gone.
    fn replace(&mut self, merged: &[SegmentView], segment: Segment, moves: &Relocations, number: u64) -> bool {
        let same = |part: &IndexPart, live: &SegmentView| Arc::ptr_eq(&part.live.segment, &live.segment);
        if !merged.iter().all(|live| self.parts.iter().any(|part| same(part, live))) {
            return false;
        }
        // Documents that were superseded during the merge are dead in the merged segment too.
        let (mut dead, mut dead_sessions): (Arc<Bits>, Arc<Bits>) = Default::default();
        for (live, (docs, sessions)) in merged.iter().zip(moves.docs.iter().zip(&moves.sessions)) {
            let Some(now) = self.parts.iter().find(|part| same(part, live)) else { continue };
            let moved = |moves: &[Option<u32>], at: u32| moves.get(at as usize).copied().flatten();
            for doc in now.live.dead.docs() {
                if let Some(doc) = moved(docs, doc) {
                    mark(&mut dead, doc, segment.docs());
                }
            }
            for session in now.live.dead_sessions.docs() {
                if let Some(session) = moved(sessions, session) {
                    mark(&mut dead_sessions, session, segment.sessions());
                }
            }
        }
        self.parts.retain(|part| !merged.iter().any(|live| same(part, live)));
        let live = SegmentView { segment: Arc::new(segment), dead, dead_sessions };
        self.parts.insert(0, IndexPart { number: Some(number), live });
        self.view = None;
        true
    }
}
