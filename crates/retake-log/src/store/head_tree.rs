//! The tree of heads: the state of each session, several sessions per value.
//!
//! Heads are small, and there is one per session. sled pays for every item when it is opened (see
//! [`pack`](super::pack)), so the heads of eight neighbouring sessions share one. Sessions that are active at the same
//! time are usually neighbours, so that one write serves several of them.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Bound::{Included, Unbounded};

use sled::{IVec, Tree};

use crate::model::{Head, SessionId};

use super::database::{DatabaseError, decode_head, encode_head, guard};
use super::keys::{self, be_u32, le_u32};

/// The number of sessions that share a value, as a power of two.
const SHARED_BITS: u32 = 3;

/// All heads. Cheap to clone, as sled's handles are.
#[derive(Clone)]
pub(super) struct HeadTree {
    tree: Tree,
    /// One head per value, as in version 0.1: only used as evidence for a recovery.
    older: Option<Tree>,
}

/// An encoded block: its key and its value.
type EncodedBlock = ([u8; 8], Vec<u8>);

/// A block: the encoded heads of neighbouring sessions, by number.
type Block = BTreeMap<u32, Vec<u8>>;

impl HeadTree {
    /// Creates it from the tree that holds the blocks.
    pub(super) fn new(tree: Tree, older: Option<Tree>) -> HeadTree {
        HeadTree { tree, older }
    }

    /// Returns the tree, for a transaction that writes what [`blocks`](HeadTree::blocks) returned.
    pub(super) fn tree(&self) -> &Tree {
        &self.tree
    }

    /// Returns the state of a session.
    pub(super) fn get(&self, id: SessionId) -> Result<Option<Head>, DatabaseError> {
        let (_, number) = keys::numbers(id);
        let Some(value) = guard(|| Ok(self.tree.get(block_key(id))?))? else { return Ok(None) };
        let found = entries(&value).find(|entry| entry.as_ref().is_none_or(|(found, _)| *found == number));
        match found {
            Some(Some((_, bytes))) => decode_head(id, bytes).map(Some),
            Some(None) => Err(damaged(id)),
            None => Ok(None),
        }
    }

    /// Returns the next `limit` sessions after this one, ordered by id.
    pub(super) fn ids(&self, after: Option<SessionId>, limit: usize) -> Result<Vec<SessionId>, DatabaseError> {
        guard(|| {
            let start = after.map_or(Unbounded, |id| Included(block_key(id)));
            let mut ids = Vec::new();
            for item in self.tree.range((start, Unbounded)) {
                let (key, value) = item?;
                for id in ids_in(&key, &value).filter(|id| after.is_none_or(|after| *id > after)) {
                    if ids.len() == limit {
                        return Ok(ids);
                    }
                    ids.push(id);
                }
            }
            Ok(ids)
        })
    }

    /// Calls `visit` for every readable head, until the first error of sled.
    pub(super) fn for_each(&self, mut visit: impl FnMut(Head)) -> Result<(), DatabaseError> {
        let mut blocks = self.tree.iter();
        while let Some((key, value)) = guard(|| Ok(blocks.next().transpose()?))? {
            for (number, head) in entries(&value).flatten() {
                let id = be_u32(&key, 0).and_then(|day| keys::session_from(day, number));
                id.and_then(|id| decode_head(id, head).ok()).into_iter().for_each(&mut visit);
            }
        }
        let Some(older) = &self.older else { return Ok(()) };
        let mut heads = older.iter();
        while let Some((key, value)) = guard(|| Ok(heads.next().transpose()?))? {
            keys::session_of(&key).and_then(|id| decode_head(id, &value).ok()).into_iter().for_each(&mut visit);
        }
        Ok(())
    }

    /// Returns the blocks to write in order to store these heads. Only the applier writes, so nothing changes in
    /// between.
    pub(super) fn blocks<'a>(
        &self,
        heads: impl IntoIterator<Item = (SessionId, &'a [u8])>,
    ) -> Result<Vec<EncodedBlock>, DatabaseError> {
        let mut blocks: BTreeMap<[u8; 8], Block> = BTreeMap::new();
        for (id, head) in heads {
            let block = match blocks.entry(block_key(id)) {
                Entry::Occupied(entry) => entry.into_mut(),
                Entry::Vacant(entry) => {
                    let value = guard(|| Ok(self.tree.get(entry.key())?))?;
                    let block = value.map_or(Some(Block::new()), |value| decode(&value));
                    entry.insert(block.ok_or_else(|| damaged(id))?)
                }
            };
            block.insert(keys::numbers(id).1, head.to_vec());
        }
        Ok(blocks.into_iter().map(|(key, block)| (key, encode(&block))).collect())
    }

    /// Stores one head.
    pub(super) fn insert(&self, head: &Head) -> Result<(), DatabaseError> {
        for (key, value) in self.blocks([(head.id, encode_head(head).as_slice())])? {
            guard(|| Ok(self.tree.insert(key, value.as_slice())?))?;
        }
        Ok(())
    }
}

/// Returns the key of a session's block: the day, and the number without its last bits.
fn block_key(id: SessionId) -> [u8; 8] {
    let (day, number) = keys::numbers(id);
    let mut key = [0; 8];
    let (left, right) = key.split_at_mut(4);
    left.copy_from_slice(&day.to_be_bytes());
    right.copy_from_slice(&(number >> SHARED_BITS).to_be_bytes());
    key
}

/// Returns the sessions in a block whose entries can be parsed.
fn ids_in(key: &IVec, value: &IVec) -> impl Iterator<Item = SessionId> {
    let day = be_u32(key, 0);
    let numbers: Vec<u32> = entries(value).flatten().map(|(number, _)| number).collect();
    numbers.into_iter().filter_map(move |number| keys::session_from(day?, number))
}

/// Returns the entries of a block: number (4 bytes), length (4 bytes), head. If the block is truncated, `None` comes
/// last.
fn entries(value: &[u8]) -> impl Iterator<Item = Option<(u32, &[u8])>> {
    let mut rest = value;
    let mut failed = false;
    std::iter::from_fn(move || {
        if rest.is_empty() || failed {
            return None;
        }
        let entry = split(rest);
        match entry {
            Some((number, head, after)) => {
                rest = after;
                Some(Some((number, head)))
            }
            None => {
                failed = true;
                Some(None)
            }
        }
    })
}

fn split(bytes: &[u8]) -> Option<(u32, &[u8], &[u8])> {
    let length = usize::try_from(le_u32(bytes, 4)?).ok()?;
    let (head, after) = bytes.get(8..)?.split_at_checked(length)?;
    Some((le_u32(bytes, 0)?, head, after))
}

fn decode(value: &[u8]) -> Option<Block> {
    entries(value).map(|entry| entry.map(|(number, head)| (number, head.to_vec()))).collect()
}

fn encode(block: &Block) -> Vec<u8> {
    let mut value = Vec::with_capacity(block.values().map(|head| head.len() + 8).sum());
    for (number, head) in block {
        value.extend_from_slice(&number.to_le_bytes());
        value.extend_from_slice(&u32::try_from(head.len()).unwrap_or(u32::MAX).to_le_bytes());
        value.extend_from_slice(head);
    }
    value
}

fn damaged(id: SessionId) -> DatabaseError {
    DatabaseError::Inconsistent(format!("the heads around {id} cannot be read"))
}
