//! The context of a long call: progress reports and cancellation.

use std::sync::Arc;

use super::{Error, Progress, Workspace};

/// Returns whether the call was cancelled.
type IsCancelled = Arc<dyn Fn() -> bool + Send + Sync>;

/// The context of a long call. By default it reports nothing and is never cancelled.
///
/// Only read operations check it. A recording that has started is completed, since half of it would be worse than one
/// that is no longer wanted.
#[derive(Clone, Default)]
pub struct CallContext {
    progress: Option<Progress>,
    is_cancelled: Option<IsCancelled>,
}

impl CallContext {
    /// Reports progress to `progress`: what is being done, how much of it is done, and how much there is (0 if unknown).
    #[must_use]
    pub fn with_progress(mut self, progress: Progress) -> CallContext {
        self.progress = Some(progress);
        self
    }

    /// Cancels the call once `is_cancelled` returns `true`.
    #[must_use]
    pub fn cancel_when(mut self, is_cancelled: impl Fn() -> bool + Send + Sync + 'static) -> CallContext {
        self.is_cancelled = Some(Arc::new(is_cancelled));
        self
    }

    /// Reports progress, or fails if the call was cancelled. Call this between units of work.
    pub fn step(&self, what: &str, done: u64, total: u64) -> Result<(), Error> {
        if self.is_cancelled.as_ref().is_some_and(|is_cancelled| is_cancelled()) {
            return Err(Error::Cancelled);
        }
        if let Some(progress) = &self.progress {
            progress(what, done, total);
        }
        Ok(())
    }
}

impl Workspace {
    /// Returns a context that reports to the progress callback the workspace was opened with.
    pub fn context(&self) -> CallContext {
        CallContext { progress: self.progress.clone(), is_cancelled: None }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn reports_progress_until_cancelled() {
        let steps = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&steps);
        let count = Arc::clone(&steps);
        let context = CallContext::default()
            .with_progress(Arc::new(move |_: &str, done, _| heard.lock().unwrap().push(done)))
            .cancel_when(move || count.lock().unwrap().len() >= 2);
        assert!(context.step("work", 1, 3).is_ok());
        assert!(context.step("work", 2, 3).is_ok());
        assert!(matches!(context.step("work", 3, 3), Err(Error::Cancelled)));
        assert_eq!(*steps.lock().unwrap(), [1, 2]);
        assert!(CallContext::default().step("work", 1, 0).is_ok());
    }
}
