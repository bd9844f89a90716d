//! How a store is opened: its clock, its disk, and the limits of its files.

use std::sync::Arc;
use std::time::Duration;

use crate::disk::Disk;
use crate::model::Timestamp;

/// How to open a store.
#[derive(Clone)]
pub struct Options {
    /// The clock for reports and names in quarantine.
    pub clock: Clock,
    /// The callback for the progress of long work.
    pub progress: Option<Progress>,
    /// The file system.
    pub disk: Disk,
    /// A segment of the journal that would grow past this many bytes is followed by the next.
    pub segment_bytes: u64,
    /// A segment of the journal that takes no more frames is compressed if it has at least this many bytes.
    pub seal_from: u64,
    /// How long an acknowledged change may wait for a checkpoint, which makes the second copy durable.
    pub checkpoint_after: Duration,
}

impl Options {
    /// Returns the default options with that clock.
    pub fn new(clock: Clock) -> Options {
        Options {
            clock,
            progress: None,
            disk: Disk::default(),
            segment_bytes: 64 << 20,
            seal_from: 1 << 20,
            checkpoint_after: Duration::from_secs(5),
        }
    }
}

/// A source of the current time. It is injected, so that output can be compared exactly.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// A callback for the progress of long work: what it is, how much is done, of how much (0 where that is unknown).
pub type Progress = Arc<dyn Fn(&str, u64, u64) + Send + Sync>;
