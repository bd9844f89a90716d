//! The options for opening a store: its clock, its disk, and the limits of its files.

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
    /// The size at which a new journal segment is started.
    pub segment_bytes: u64,
    /// The minimum size of a full journal segment that is compressed.
    pub seal_from: u64,
    /// The maximum time between an acknowledged change and the checkpoint that makes the second copy durable.
    pub checkpoint_after: Duration,
}

impl Options {
    /// Returns the default options with this clock.
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

/// A source of the current time, injected so that output can be compared exactly.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// A callback for the progress of long work: what it is, how much is done, and the total (0 if unknown).
pub type Progress = Arc<dyn Fn(&str, u64, u64) + Send + Sync>;
