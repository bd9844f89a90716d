//! Disk operations that fail: each in turn, with each of some errors.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use retake_log::disk::{Observer, Op};

/// An observer that fails one operation, given by its number from 0.
pub struct FailsOnce {
    operations: AtomicU64,
    at: u64,
    errno: i32,
}

impl FailsOnce {
    /// Creates an observer that fails operation `at` with this error of the system.
    pub fn new(at: u64, errno: i32) -> Arc<FailsOnce> {
        Arc::new(FailsOnce { operations: AtomicU64::new(0), at, errno })
    }

    /// Returns the number of operations so far.
    pub fn operations(&self) -> u64 {
        self.operations.load(Ordering::Relaxed)
    }
}

impl Observer for FailsOnce {
    fn before(&self, _: Op<'_>) -> io::Result<()> {
        if self.operations.fetch_add(1, Ordering::Relaxed) == self.at {
            return Err(io::Error::from_raw_os_error(self.errno));
        }
        Ok(())
    }
}

/// Runs `case` once for every operation and error, with an observer that fails that operation, until there are no more
/// operations to fail. Returns the number of runs.
pub fn each_failing_operation(errors: &[i32], mut case: impl FnMut(&Arc<FailsOnce>, &str)) -> usize {
    let mut cases = 0;
    for errno in errors {
        for at in 0.. {
            let fails = FailsOnce::new(at, *errno);
            case(&fails, &format!("operation {at} failed with {errno}"));
            cases += 1;
            if fails.operations() <= at {
                break;
            }
        }
    }
    cases
}
