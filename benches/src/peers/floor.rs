//! The floor: the bytes of our frames, written to a plain file and synced, and nothing else. No durable engine can be
//! faster on this disk, so the distance from the floor is the cost of everything else.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Mutex;

use retake::internals::store::Store;

use super::group::Group;
use super::{Appender, Cursor};
use crate::workload;

const AHEAD: u64 = 4 << 20;
const FRAME_HEADER: usize = 32;

/// Whether space is allocated in advance, so that a sync need not update the file's length.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Growth {
    /// Every append extends the file, as in most logs.
    Plain,
    /// Zeros are written in advance in large steps.
    Ahead,
}

/// A file that is appended to.
pub(crate) struct Floor {
    name: &'static str,
    growth: Growth,
    file: Mutex<Tail>,
    group: Group<Vec<u8>>,
    first: Vec<u8>,
    next: Vec<u8>,
}

struct Tail {
    file: File,
    end: u64,
    allocated: u64,
}

impl Floor {
    /// Creates the file at `path`; `sample` is a store that determines the length of our records.
    pub(crate) fn new(name: &'static str, path: &Path, growth: Growth, sample: &Store) -> Floor {
        let ack = sample.append(workload::batch(None, 9_000_000, 0)).unwrap();
        sample.append(workload::batch(Some(ack.head.id), 9_000_000, 1)).unwrap();
        let records = sample.records(ack.head.id).unwrap();
        let [start, first, next] = records.as_slice() else { unreachable!("three events were appended") };
        let frame = |records: &[&[u8]]| [&[0xA5; FRAME_HEADER], records.concat().as_slice()].concat();
        Floor {
            name,
            growth,
            file: Mutex::new(Tail { file: File::create(path).unwrap(), end: 0, allocated: 0 }),
            group: Group::new(),
            first: frame(&[start, first]),
            next: frame(&[next]),
        }
    }

    fn write(&self, group: &[Vec<u8>]) {
        let bytes = group.concat();
        let mut tail = self.file.lock().unwrap();
        let end = tail.end + bytes.len() as u64;
        if self.growth == Growth::Ahead && end > tail.allocated {
            tail.allocated = end + AHEAD;
            let zeros = vec![0; usize::try_from(tail.allocated - tail.end).unwrap()];
            tail.file.write_all_at(&zeros, tail.end).unwrap();
        }
        tail.file.write_all_at(&bytes, tail.end).unwrap();
        tail.file.sync_data().unwrap();
        tail.end = end;
    }
}

impl Appender for Floor {
    fn name(&self) -> &str {
        self.name
    }

    fn append(&self, _writer: usize, cursor: &mut Cursor) {
        let bytes = if cursor.index == 0 { &self.first } else { &self.next };
        self.group.submit(bytes.clone(), |group| self.write(&group));
    }
}
