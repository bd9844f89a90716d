//! Threads for expensive reads. They are few and permanent, because glibc keeps freed memory per arena, and assigns
//! arenas to threads: on the many threads of small calls, the megabytes that a read needs for a moment would be kept
//! many times.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::{io, thread};

use parking_lot::Mutex;
use tokio::sync::oneshot;

type Job = Box<dyn FnOnce() + Send>;

/// A fixed number of threads. They end when it is dropped.
pub(super) struct Readers {
    jobs: Sender<Job>,
}

impl Readers {
    /// Starts the threads.
    pub(super) fn start(count: usize) -> io::Result<Readers> {
        let (jobs, waiting) = mpsc::channel();
        let waiting = Arc::new(Mutex::new(waiting));
        for _ in 0..count {
            let waiting = Arc::clone(&waiting);
            thread::Builder::new().name("retake-read".to_owned()).spawn(move || run(&waiting))?;
        }
        Ok(Readers { jobs })
    }

    /// Runs a job on one of the threads; `None` if it panicked.
    pub(super) async fn run<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let (answer, answered) = oneshot::channel();
        // Fails only if the request was cancelled.
        let job = Box::new(move || drop(answer.send(job())));
        self.jobs.send(job).ok()?;
        answered.await.ok()
    }
}

fn run(waiting: &Mutex<Receiver<Job>>) {
    loop {
        // The lock is released before the job runs.
        let next = waiting.lock().recv();
        let Ok(job) = next else { return };
        // A panic drops the job's channel, which reports it.
        let _ = catch_unwind(AssertUnwindSafe(job));
    }
}

#[cfg(test)]
mod tests {
    use tokio::runtime::Builder;

    use super::*;

    #[test]
    fn a_thread_survives_a_job_that_panics() {
        let readers = Readers::start(1).unwrap();
        let runtime = Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let gone: Option<()> = readers.run(|| panic!("on purpose")).await;
            assert!(gone.is_none());
            assert_eq!(readers.run(|| 2 + 2).await, Some(4));
        });
    }
}
