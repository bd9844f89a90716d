//! Who waits for a long call: told how far it has come, and free to stop waiting, which ends the call.

use std::sync::Arc;

use super::{Error, ErrorKind, Progress, Tracker};

/// Whether nobody waits any more.
type Gone = Arc<dyn Fn() -> bool + Send + Sync>;

/// Who waits for a long call.
///
/// Only readers look out for one. A recording that has begun is carried out: half of it would be worse than one that
/// nobody waited for.
#[derive(Clone, Default)]
pub struct CallContext {
    progress: Option<Progress>,
    gone: Option<Gone>,
}

impl CallContext {
    /// Someone who is told how far the call has come: what is being done, how much of it, of how much (0: unknown).
    #[must_use]
    pub fn with_progress(mut self, progress: Progress) -> CallContext {
        self.progress = Some(progress);
        self
    }

    /// Someone who no longer waits once `gone` says so.
    #[must_use]
    pub fn cancel_when(mut self, gone: impl Fn() -> bool + Send + Sync + 'static) -> CallContext {
        self.gone = Some(Arc::new(gone));
        self
    }

    /// Says how far the call has come; fails when nobody waits for it any more. To be called between pieces of work.
    pub fn step(&self, what: &str, done: u64, total: u64) -> Result<(), Error> {
        if self.gone.as_ref().is_some_and(|gone| gone()) {
            return Err(Error::new(
                ErrorKind::Internal,
                "the call was broken off, because nobody waits for it any more",
                "ask again: nothing was changed",
            ));
        }
        if let Some(progress) = &self.progress {
            progress(what, done, total);
        }
        Ok(())
    }
}

impl Tracker {
    /// The one that was named when the workspace was opened.
    pub(super) fn context(&self) -> CallContext {
        CallContext { progress: self.progress.clone(), gone: None }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn is_told_until_gone() {
        let steps = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&steps);
        let count = Arc::clone(&steps);
        let context = CallContext::default()
            .with_progress(Arc::new(move |_: &str, done, _| heard.lock().unwrap().push(done)))
            .cancel_when(move || count.lock().unwrap().len() >= 2);
        assert!(context.step("work", 1, 3).is_ok());
        assert!(context.step("work", 2, 3).is_ok());
        assert!(context.step("work", 3, 3).unwrap_err().message.contains("nobody waits"));
        assert_eq!(*steps.lock().unwrap(), [1, 2]);
        assert!(CallContext::default().step("work", 1, 0).is_ok());
    }
}
