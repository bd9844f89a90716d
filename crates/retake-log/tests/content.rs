//! Files made durable together: a failure only affects its own file, or the files of its directory.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may stop anywhere")]

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use retake_log::disk::{ContentDir, Disk, Observer, Op};

/// Fails the operations selected by a function.
struct Fails(fn(&Op<'_>, &Path) -> bool, PathBuf);

impl Observer for Fails {
    fn before(&self, op: Op<'_>) -> io::Result<()> {
        if (self.0)(&op, &self.1) { Err(io::Error::from_raw_os_error(5)) } else { Ok(()) }
    }
}

/// Makes a hundred files durable together while some operations fail, and returns which succeeded.
fn persisted(fails: fn(&Op<'_>, &Path) -> bool, victim: usize) -> Vec<usize> {
    let dir = tempfile::tempdir().unwrap();
    let texts: Vec<String> = (0..100).map(|n| format!("image {n}")).collect();
    let root = dir.path().join("images");
    let path = ContentDir::new(Disk::default(), root.clone()).path(*blake3::hash(texts[victim].as_bytes()).as_bytes());
    let observed = ContentDir::new(Disk::observed(Arc::new(Fails(fails, path))), root.clone());
    let written = texts.iter().map(|text| observed.write(&mut text.as_bytes())).collect();
    let stored = observed.persist_all(written);
    assert_eq!(stored.len(), texts.len());
    let left: Vec<_> = fs::read_dir(&root).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(left.iter().all(|path| path.is_dir()), "a temporary file was left: {left:?}");
    let stored = stored.into_iter().zip(&texts).enumerate().filter_map(|(number, (stored, text))| {
        assert_eq!(observed.get(stored.ok()?.hash).unwrap(), text.as_bytes());
        Some(number)
    });
    stored.collect()
}

#[test]
fn one_file_that_fails_does_not_cost_the_others_of_its_group() {
    let all: Vec<usize> = (0..100).collect();
    let without = |victim: usize| all.iter().copied().filter(|number| *number != victim).collect::<Vec<_>>();
    assert_eq!(persisted(|_, _| false, 7), all);
    assert_eq!(persisted(|op, path| matches!(op, Op::Rename(_, to) if *to == path), 7), without(7));
    // Everything in a directory that cannot be created or synced.
    let lost = |kept: &[usize]| {
        assert!(!kept.contains(&7) && kept.len() > 80, "{kept:?}");
    };
    lost(&persisted(|op, path| matches!(op, Op::SyncDir(dir) if Some(*dir) == path.parent()), 7));
    lost(&persisted(|op, path| matches!(op, Op::CreateDir(dir) if Some(*dir) == path.parent()), 7));
    // If the root directory cannot be synced, nothing is known to be durable.
    let root = |op: &Op<'_>, path: &Path| matches!(op, Op::SyncDir(dir) if Some(*dir) == path.ancestors().nth(2));
    assert_eq!(persisted(root, 7), Vec::<usize>::new());
}

#[test]
fn a_file_that_cannot_be_synced_is_not_stored() {
    let dir = tempfile::tempdir().unwrap();
    let syncs = Arc::new(FailsSync(AtomicUsize::new(0)));
    let content = ContentDir::new(Disk::observed(syncs), dir.path().join("images"));
    let texts: Vec<String> = (0..20).map(|n| format!("image {n}")).collect();
    let stored = content.persist_all(texts.iter().map(|text| content.write(&mut text.as_bytes())).collect());
    let failed: Vec<usize> = (0..20).filter(|number| stored[*number].is_err()).collect();
    assert_eq!(failed.len(), 1, "{failed:?}");
    let lost = *blake3::hash(texts[failed[0]].as_bytes()).as_bytes();
    assert_eq!(content.get(lost).unwrap_err().kind(), io::ErrorKind::NotFound);
    content.put(texts[failed[0]].as_bytes()).unwrap();
    assert_eq!(content.get(lost).unwrap(), texts[failed[0]].as_bytes());
}

/// Fails the fifth sync of a file.
struct FailsSync(AtomicUsize);

impl Observer for FailsSync {
    fn before(&self, op: Op<'_>) -> io::Result<()> {
        let fails = matches!(op, Op::SyncFile(_)) && self.0.fetch_add(1, Ordering::Relaxed) == 4;
        if fails { Err(io::Error::from_raw_os_error(5)) } else { Ok(()) }
    }
}
