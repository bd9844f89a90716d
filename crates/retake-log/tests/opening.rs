//! Opening: a database is opened in place only if the journal next to it was checked, since sled changes its files
//! while it opens them, even if a read fails meanwhile.
#![expect(clippy::unwrap_used, reason = "a test may stop anywhere")]

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use retake_log::disk::{Disk, Observer, Op};
use retake_log::store::Store;
use retake_testutils::*;

/// Counts how often a database is opened in place before it is quarantined.
struct InPlace {
    database: PathBuf,
    is_set_aside: AtomicBool,
    openings: AtomicU64,
}

impl Observer for InPlace {
    fn before(&self, op: Op<'_>) -> io::Result<()> {
        match op {
            Op::Rename(from, _) if from == self.database => self.is_set_aside.store(true, Ordering::Relaxed),
            Op::OpenDatabase(path) if path == self.database && !self.is_set_aside.load(Ordering::Relaxed) => {
                self.openings.fetch_add(1, Ordering::Relaxed);
            }
            _ => {}
        }
        Ok(())
    }
}

/// A name, and a function that damages a workspace.
type Damage<'a> = (&'static str, &'a dyn Fn(&Path));

fn fill(store: &Store, sessions: std::ops::Range<i64>) {
    for n in sessions {
        let id = store.append(start(&format!("a fox, take {n}"), n, &format!("s{n}"))).unwrap().head.id;
        store.append(record(id, "a fox in the snow", n + 1, &format!("r{n}"))).unwrap();
    }
}

/// Opens a workspace, and returns its contents and how often its database was opened in place.
fn open_observed(dir: &Path) -> (Contents, u64) {
    let observer = Arc::new(InPlace {
        database: dir.join("db"),
        is_set_aside: AtomicBool::new(false),
        openings: AtomicU64::new(0),
    });
    let disk = Disk::observed(Arc::clone(&observer) as Arc<dyn Observer>);
    let store = Store::open(dir, options_on(disk)).unwrap();
    let openings = observer.openings.load(Ordering::Relaxed);
    (contents(&store), openings)
}

#[test]
fn a_database_beside_a_damaged_journal_is_opened_as_a_copy_only() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("ws");
    let store = Store::open(&dir, options()).unwrap();
    fill(&store, 0..3);
    store.close().unwrap();
    let segment = Path::new("journal/00000001.log");
    let older = home.path().join("older");
    copy(&dir.join("journal"), &older);
    let used = |path: &Path| fs::read(path).unwrap().iter().rposition(|byte| *byte != 0).unwrap() + 1;
    let before = used(&dir.join(segment));
    let store = Store::open(&dir, options()).unwrap();
    fill(&store, 3..6);
    let expected = contents(&store);
    // As left by a killed process, and by one that exits.
    let (killed, closed) = (home.path().join("killed"), home.path().join("closed"));
    copy(&dir, &killed);
    store.close().unwrap();
    copy(&dir, &closed);

    let ws = home.path().join("opened");
    for state in [&killed, &closed] {
        copy(state, &ws);
        let (found, openings) = open_observed(&ws);
        assert_eq!((found, openings), (expected.clone(), 1), "a whole workspace is opened where it lies");
        fs::remove_dir_all(&ws).unwrap();
    }
    let damages: [Damage<'_>; 3] = [
        ("a flipped byte", &|ws| {
            let mut bytes = fs::read(ws.join(segment)).unwrap();
            bytes[before + 40] ^= 1;
            fs::write(ws.join(segment), bytes).unwrap();
        }),
        ("a cut", &|ws| {
            let file = fs::File::options().write(true).open(ws.join(segment)).unwrap();
            file.set_len(before as u64).unwrap();
        }),
        ("an older journal", &|ws| {
            fs::remove_dir_all(ws.join("journal")).unwrap();
            copy(&older, &ws.join("journal"));
        }),
    ];
    for (what, damage) in damages {
        copy(&closed, &ws);
        damage(&ws);
        let (found, openings) = open_observed(&ws);
        assert_eq!(found, expected, "{what}");
        assert_eq!(openings, 0, "{what}: sled wrote to a database that was not judged");
        fs::remove_dir_all(&ws).unwrap();
    }
}

/// Moves a workspace away when its journal is listed for the given time.
struct MovesAway {
    from: PathBuf,
    to: PathBuf,
    listings: AtomicU64,
    at: u64,
}

impl Observer for MovesAway {
    fn before(&self, op: Op<'_>) -> io::Result<()> {
        if matches!(op, Op::List(path) if path == self.from.join("journal"))
            && self.listings.fetch_add(1, Ordering::Relaxed) == self.at
        {
            fs::rename(&self.from, &self.to)?;
        }
        Ok(())
    }
}

#[test]
fn a_workspace_moved_while_opening_is_not_recreated() {
    let home = tempfile::tempdir().unwrap();
    let (dir, moved) = (home.path().join("ws"), home.path().join("moved"));
    let store = Store::open(&dir, options()).unwrap();
    fill(&store, 0..3);
    let expected = contents(&store);
    store.close().unwrap();
    for at in 0.. {
        let observer = MovesAway { from: dir.clone(), to: moved.clone(), listings: AtomicU64::new(0), at };
        let opened = Store::open(&dir, options_on(Disk::observed(Arc::new(observer))));
        if !moved.exists() {
            assert!(at > 1, "the journal is listed more than once");
            assert_eq!(contents(&opened.unwrap()), expected);
            return;
        }
        assert!(opened.is_err(), "listing {at}");
        drop(opened);
        assert!(!dir.exists(), "listing {at}: a workspace was begun where another one was");
        fs::rename(&moved, &dir).unwrap();
    }
}
