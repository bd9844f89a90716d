//! One connection that is driven by the thread that waits for it.
//!
//! The connections of the pool belong to the threads of a runtime. A call on one of them wakes such a thread to send the
//! request, and that thread wakes the caller when the answer arrives; on an idle machine, the two cost about as much as
//! the rest of a lone append. A thread that calls while no other does therefore takes this connection, and sends and
//! receives by itself.
//!
//! Nothing drives the connection between two calls. That suits an idle one: what the server sends meanwhile is read by
//! the next call, and if the server has closed it, that call is retried like any other. A connection that was not
//! returned must be closed at once, however, since a transaction may be open on it. So unless the connection is back in
//! its pool after a call, it is dropped together with its runtime.

use std::future::Future;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use deadpool_postgres::Pool;
use tokio::runtime::{Builder, Runtime};

use super::Config;
use super::connect::pool;

/// The connection, or the possibility of one.
#[derive(Default)]
pub(crate) struct Direct {
    /// Held by the thread whose turn it is.
    runtime: Mutex<Option<Runtime>>,
    /// The pool, whose only connection is driven by the runtime.
    pool: Mutex<Option<Pool>>,
}

/// The right to wait on the connection.
pub(crate) struct DirectTurn<'a> {
    direct: &'a Direct,
    runtime: MutexGuard<'a, Option<Runtime>>,
}

impl Direct {
    /// Takes the connection; `None` if another thread has it, or if there cannot be one.
    pub(crate) fn try_turn(&self, config: &Config) -> Option<DirectTurn<'_>> {
        let mut runtime = match self.runtime.try_lock() {
            Ok(runtime) => runtime,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        if runtime.is_none() {
            *runtime = Builder::new_current_thread().enable_all().build().ok();
            *self.lock_pool() = pool(config, 1).ok();
        }
        (runtime.is_some() && self.lock_pool().is_some()).then_some(DirectTurn { direct: self, runtime })
    }

    /// Returns the pool that has the connection.
    pub(crate) fn pool(&self) -> Option<Pool> {
        self.lock_pool().clone()
    }

    /// Closes the connection. No thread has it any more.
    pub(crate) fn close(&self) {
        discard(&mut self.runtime.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn lock_pool(&self) -> MutexGuard<'_, Option<Pool>> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DirectTurn<'_> {
    /// Runs a task on this thread, and with it the connection.
    pub(crate) fn block_on<T>(self, task: impl Future<Output = T>) -> T {
        #[expect(clippy::expect_used, reason = "`try_turn` returns a turn only with a runtime, and `drop` ends it")]
        let runtime = self.runtime.as_ref().expect("a turn has a runtime");
        runtime.block_on(task)
    }
}

impl Drop for DirectTurn<'_> {
    fn drop(&mut self) {
        let is_returned = self.direct.pool().is_some_and(|pool| pool.status().available == 1);
        if !is_returned {
            discard(&mut self.runtime);
            *self.direct.lock_pool() = None;
        }
    }
}

/// Drops a runtime with its connection, without waiting: the last reference may be dropped by an async thread.
fn discard(runtime: &mut Option<Runtime>) {
    if let Some(runtime) = runtime.take() {
        runtime.shutdown_background();
    }
}
