//! Merges several segments into one, without superseded documents and sessions.

use std::io::{self, Write};

use super::build::Writer;
use super::bytes::Damage;
use super::columns::{Columns, Section};
use super::evaluate::SegmentView;
use super::segment::Segment;
use super::terms::{self, Posting, Term};
use retake_log::model::query::Field;

/// The new numbers of the documents of merged segments; `None` for dead ones.
pub(super) struct Relocations {
    /// By merged segment and document.
    pub(super) docs: Vec<Vec<Option<u32>>>,
    /// By merged segment and session.
    pub(super) sessions: Vec<Vec<Option<u32>>>,
}

/// The reason why a merge failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum MergeError {
    #[error(transparent)]
    Damage(#[from] Damage),
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("the merge was interrupted")]
    Stopped,
}

/// Writes one segment with all live documents of `parts`. Stops early if `stopped` returns true.
pub(super) fn merge<W: Write>(
    parts: &[SegmentView],
    out: W,
    stopped: &dyn Fn() -> bool,
) -> Result<(W, Relocations), MergeError> {
    let mut columns = Columns::default();
    let moves =
        Relocations { docs: merge_docs(parts, &mut columns, stopped)?, sessions: merge_sessions(parts, &mut columns)? };
    let mut writer = Writer::new(out)?;
    let mut streams = Vec::new();
    for (part, (docs, sessions)) in parts.iter().zip(moves.docs.iter().zip(&moves.sessions)) {
        let mut stream =
            Stream { segment: &part.segment, docs, sessions, block: 0, terms: Vec::new().into_iter(), next: None };
        stream.advance()?;
        streams.push(stream);
    }
    let mut merged = 0usize;
    while let Some(key) = streams.iter().filter_map(|stream| Some(&stream.next.as_ref()?.0)).min().cloned() {
        merged += 1;
        if merged.is_multiple_of(1024) && stopped() {
            return Err(MergeError::Stopped);
        }
        let (mut rows, mut positions) = (Vec::new(), Vec::new());
        let mut field = Field::Prompt;
        for stream in &mut streams {
            if stream.next.as_ref().is_some_and(|(next, _)| *next == key) {
                field = stream.take(&mut rows, &mut positions)?;
            }
        }
        if rows.is_empty() {
            continue;
        }
        rows.sort_unstable();
        let mut posting = Posting::default();
        for (doc, start, count) in rows {
            posting.docs.push(doc);
            posting.counts.push(count);
            posting.positions.extend(positions.iter().skip(start).take(count as usize));
        }
        let universe = if field == Field::Title { columns.sessions() } else { columns.docs() };
        writer.term(&key, &posting, universe)?;
    }
    Ok((writer.finish(columns)?, moves))
}

fn merge_docs(
    parts: &[SegmentView],
    columns: &mut Columns,
    stopped: &dyn Fn() -> bool,
) -> Result<Vec<Vec<Option<u32>>>, MergeError> {
    let mut moves: Vec<Vec<Option<u32>>> = parts.iter().map(|part| vec![None; part.segment.docs() as usize]).collect();
    // The documents of a session are adjacent, so whole runs are merged.
    let mut runs: Vec<(u64, usize, u32, u32)> = Vec::new();
    for (at, part) in parts.iter().enumerate() {
        for (run, key) in part.segment.column::<u64>(Section::RunKeys.place())?.iter().enumerate() {
            let (start, end) = part.segment.run_range(run)?;
            runs.push((*key, at, start, end));
        }
    }
    runs.sort_unstable();
    let mut of_session: Vec<(u32, usize, u32)> = Vec::new();
    for same in runs.chunk_by(|a, b| a.0 == b.0) {
        if stopped() {
            return Err(MergeError::Stopped);
        }
        of_session.clear();
        for (_, at, start, end) in same {
            let Some(part) = parts.get(*at) else { continue };
            let indexes = part.segment.column::<u32>(Section::Index.place())?;
            let live = (*start..*end).filter(|doc| !part.dead.contains(*doc));
            of_session.extend(live.filter_map(|doc| Some((*indexes.get(doc as usize)?, *at, doc))));
        }
        of_session.sort_unstable();
        for (_, at, doc) in &of_session {
            if let (Some(part), Some(moved)) =
                (parts.get(*at), moves.get_mut(*at).and_then(|moves| moves.get_mut(*doc as usize)))
            {
                *moved = Some(columns.docs());
                columns.push(&part.segment.facts(*doc)?);
            }
        }
    }
    Ok(moves)
}

fn merge_sessions(parts: &[SegmentView], columns: &mut Columns) -> Result<Vec<Vec<Option<u32>>>, Damage> {
    let mut moves: Vec<Vec<Option<u32>>> =
        parts.iter().map(|part| vec![None; part.segment.sessions() as usize]).collect();
    let mut sessions: Vec<(u64, usize, u32)> = Vec::new();
    for (at, part) in parts.iter().enumerate() {
        let keys = part.segment.column::<u64>(Section::SessionKeys.place())?;
        let live = (0u32..).zip(keys).filter(|(session, _)| !part.dead_sessions.contains(*session));
        sessions.extend(live.map(|(session, key)| (*key, at, session)));
    }
    sessions.sort_unstable();
    for (key, at, session) in sessions {
        let Some(part) = parts.get(at) else { continue };
        let archived = part.segment.column::<u8>(Section::Archived.place())?.get(session as usize) == Some(&1);
        if let Some(moved) = moves.get_mut(at).and_then(|moves| moves.get_mut(session as usize)) {
            *moved = Some(columns.sessions());
            columns.push_session(key, archived, part.segment.project(session)?);
        }
    }
    Ok(moves)
}

/// The terms of one segment, in order.
struct Stream<'a> {
    segment: &'a Segment,
    docs: &'a [Option<u32>],
    sessions: &'a [Option<u32>],
    block: usize,
    terms: std::vec::IntoIter<Term>,
    next: Option<(Vec<u8>, Term)>,
}

impl Stream<'_> {
    fn advance(&mut self) -> Result<(), Damage> {
        loop {
            if let Some(term) = self.terms.next() {
                self.next = Some((terms::key_bytes(&term), term));
                return Ok(());
            }
            let Some(block) = self.segment.blocks()?.get(self.block) else {
                self.next = None;
                return Ok(());
            };
            self.terms = self.segment.block(block)?.into_iter();
            self.block += 1;
        }
    }

    /// Adds the documents of the next term, each with the start and the number of its positions, and advances to the term
    /// after it.
    fn take(&mut self, rows: &mut Vec<(u32, usize, u32)>, positions: &mut Vec<u32>) -> Result<Field, Damage> {
        let Some((_, term)) = self.next.take() else { return Ok(Field::Prompt) };
        let (moves, universe) = match term.field {
            Field::Title => (self.sessions, self.segment.sessions()),
            _ => (self.docs, self.segment.docs()),
        };
        let docs = terms::read_docs(&self.segment.read(term.docs)?, term.count, universe)?;
        let mut counts = vec![0u32; docs.len()];
        let mut start = positions.len();
        let mut numbers = 0..docs.len();
        let all = || numbers.next().map(Some);
        terms::read_positions(&self.segment.read(term.positions)?, term.count, all, |at: usize, place| {
            if let Some(count) = counts.get_mut(at) {
                *count += 1;
            }
            positions.push(place);
        })?;
        for (doc, count) in docs.iter().zip(counts) {
            if let Some(doc) = moves.get(*doc as usize).copied().flatten() {
                rows.push((doc, start, count));
            }
            start += count as usize;
        }
        self.advance()?;
        Ok(term.field)
    }
}
