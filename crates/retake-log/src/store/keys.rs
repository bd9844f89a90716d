//! The encoding of sessions, iterations and positions as sortable keys: big-endian, most significant first.

use std::num::NonZeroU32;

use chrono::{Datelike, NaiveDate};

use crate::model::{Iteration, IterationId, SessionId, Timestamp};

use super::RecencyKey;

/// Returns the two numbers that represent a session on disk.
pub(super) fn numbers(id: SessionId) -> (u32, u32) {
    (day_number(id.day()), id.number().get())
}

/// Returns the day counted from 0001-01-01 = 1.
pub(super) fn day_number(day: NaiveDate) -> u32 {
    // Session ids only contain the years 1 to 9999, whose day numbers are positive.
    u32::try_from(day.num_days_from_ce()).unwrap_or(0)
}

/// Returns the session of these two numbers, if they are valid.
pub(super) fn session_from(day: u32, number: u32) -> Option<SessionId> {
    let day = NaiveDate::from_num_days_from_ce_opt(i32::try_from(day).ok()?)?;
    SessionId::new(day, NonZeroU32::new(number)?)
}

pub(super) fn session_key(id: SessionId) -> [u8; 8] {
    let (day, number) = numbers(id);
    join(day.to_be_bytes(), number.to_be_bytes())
}

pub(super) fn session_of(key: &[u8]) -> Option<SessionId> {
    session_from(be_u32(key, 0)?, be_u32(key, 4)?)
}

/// Returns the key of an event (by sequence number) or an iteration (by index).
pub(super) fn numbered_key(id: SessionId, number: u32) -> [u8; 12] {
    join(session_key(id), number.to_be_bytes())
}

pub(super) fn numbered_of(key: &[u8]) -> Option<(SessionId, u32)> {
    Some((session_of(key)?, be_u32(key, 8)?))
}

/// Returns the parent and the child of an iteration's link, unless the parent is the previous iteration: that link,
/// which nearly every iteration has, is read from the child itself.
pub(super) fn link(iteration: &Iteration, child: IterationId) -> Option<(IterationId, IterationId)> {
    let before = child.index.checked_sub(1).map(|index| child.session.iteration(index));
    iteration.parent.filter(|parent| Some(*parent) != before).map(|parent| (parent, child))
}

pub(super) fn child_key(parent: IterationId, child: IterationId) -> [u8; 24] {
    join(numbered_key(parent.session, parent.index), numbered_key(child.session, child.index))
}

pub(super) fn recency_key(archived: bool, place: RecencyKey) -> [u8; 17] {
    let time = (place.modified.millis() ^ i64::MIN).to_be_bytes();
    join(join::<1, 8, 9>([u8::from(archived)], time), session_key(place.id))
}

pub(super) fn place_of(key: &[u8]) -> Option<(bool, RecencyKey)> {
    let archived = *key.first()? != 0;
    let time = i64::from_be_bytes(key.get(1..9)?.try_into().ok()?) ^ i64::MIN;
    Some((archived, RecencyKey { modified: Timestamp::from_millis(time)?, id: session_of(key.get(9..)?)? }))
}

/// Returns the half of an idempotency key's hash that the index stores, since keys may be any text.
pub(super) fn idempotency_key(key: &str) -> [u8; 16] {
    let hash = blake3::hash(key.as_bytes());
    let mut half = [0; 16];
    half.copy_from_slice(hash.as_bytes().split_at(16).0);
    half
}

pub(super) fn be_u32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

pub(super) fn le_u16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at.checked_add(2)?)?.try_into().ok()?))
}

pub(super) fn le_u32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

pub(super) fn le_u64(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

fn join<const A: usize, const B: usize, const C: usize>(a: [u8; A], b: [u8; B]) -> [u8; C] {
    const { assert!(A + B == C) };
    let mut joined = [0; C];
    let (left, right) = joined.split_at_mut(A);
    left.copy_from_slice(&a);
    right.copy_from_slice(&b);
    joined
}
