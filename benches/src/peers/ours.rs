//! Retake's store, through its public interface.

use std::path::Path;
use std::sync::Arc;

use retake::internals::model::Timestamp;
use retake::internals::store::{Options, Store};

use super::{Appender, Cursor};
use crate::workload;

/// Opens the store in `dir`.
pub(crate) fn open(dir: &Path) -> Store {
    let now = Timestamp::from_millis(1_765_447_200_000).unwrap();
    Store::open(dir, Options::new(Arc::new(move || now))).unwrap()
}

/// An open store that is appended to.
pub(crate) struct Ours(pub(crate) Store);

impl Appender for Ours {
    fn name(&self) -> &str {
        "retake"
    }

    fn append(&self, _writer: usize, cursor: &mut Cursor) {
        let ack = self.0.append(workload::batch(cursor.id, cursor.session, cursor.index)).unwrap();
        cursor.id = Some(ack.head.id);
    }

    /// Waits until the database has everything, since a listing by id only reads the database.
    fn drain(&self) {
        self.0.ids(None, 1).unwrap();
    }
}
