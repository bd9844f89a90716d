//! Retake and the engines it is compared with, behind one small interface.

pub(crate) mod floor;
mod group;
pub(crate) mod json;
pub(crate) mod ours;
pub(crate) mod sqlite;

use retake::internals::model::SessionId;

/// An engine that appends durably: the iteration is on disk when `append` returns.
pub(crate) trait Appender: Sync {
    /// Returns its name in the tables.
    fn name(&self) -> &str;

    /// Appends the iteration at the cursor.
    fn append(&self, writer: usize, cursor: &mut Cursor);

    /// Waits until all background work is done.
    fn drain(&self) {}
}

/// The position of a writer: every writer has its own session, and starts another one after some iterations.
pub(crate) struct Cursor {
    /// The benchmark's number for the session.
    pub(crate) session: u64,
    /// The index of the iteration to append.
    pub(crate) index: u32,
    /// The id that our store gave the session.
    pub(crate) id: Option<SessionId>,
    step: u64,
}

/// The number of iterations after which a writer starts another session.
const ITERATIONS: u32 = 20;

impl Cursor {
    /// Creates a cursor that starts at session `first` and advances in steps of `step`.
    pub(crate) fn new(first: u64, step: u64) -> Cursor {
        Cursor { session: first, index: 0, id: None, step }
    }

    /// Advances to the next iteration.
    pub(crate) fn advance(&mut self) {
        self.index += 1;
        if self.index == ITERATIONS {
            *self = Cursor::new(self.session + self.step, self.step);
        }
    }
}

/// A row of a peer's listing, with the fields of our summary.
#[expect(dead_code, reason = "it is made to cost what ours costs, not to be looked at")]
pub(crate) struct Row {
    pub(crate) id: u64,
    pub(crate) title: Option<String>,
    pub(crate) project: Option<String>,
    pub(crate) created: i64,
    pub(crate) modified: i64,
    pub(crate) archived: bool,
    pub(crate) iterations: u64,
}
