//! The checkpoint: the end of the journal when both copies were last synced. It is evidence that survives if both
//! copies of the newest events are damaged, so that their loss is reported, and it states from which position sled must
//! be checked on open. It never proves that something does *not* exist, since it may be older than either copy. The
//! same file contains a note of what was acknowledged since, so that a journal that was truncated after the process
//! died is not mistaken for one that ended there.

use std::io;
use std::path::Path;

use crate::disk::{Disk, DiskFile, FileKind};

use super::journal::JournalPosition;
use super::keys::{le_u32, le_u64};

const MAGIC: [u8; 8] = *b"RETAKEM1";
const SLOT: usize = 128;
const SLOTS: [usize; 2] = [0, 512];
/// The offset of the note of the last acknowledgement: a slot of the same format, written after each commit and never
/// synced. It survives a crash of the process, but not of the machine.
const NOTE: usize = 1024;
/// The length of the file.
const FILE: usize = 1536;

/// A position of the journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Checkpoint {
    /// The number of writes, which identifies the newer slot.
    pub(super) count: u64,
    /// The last acknowledged frame.
    pub(super) frame: u64,
    /// The byte after it.
    pub(super) end: JournalPosition,
    /// The number of events acknowledged up to there.
    pub(super) events: u64,
    /// The position in the journal from which sled's log is not covered by its snapshot.
    pub(super) unchecked: JournalPosition,
    /// The day and number of the newest session, whose id must not be used again, whatever is lost.
    pub(super) newest: (u32, u32),
    /// The workspace it belongs to; zeros in files of version 0.1.
    pub(super) workspace: [u8; 16],
}

impl Checkpoint {
    /// Reads the newest intact checkpoint of this workspace at `path`; `None` if there is none.
    pub(super) fn read(disk: &Disk, path: &Path, workspace: [u8; 16]) -> io::Result<Option<Checkpoint>> {
        if !matches!(disk.kind(path)?, FileKind::File(_)) {
            return Ok(None);
        }
        let bytes = disk.read(path, FILE)?.unwrap_or_default();
        let slots = SLOTS.iter().filter_map(|slot| Checkpoint::from_slot(bytes.get(*slot..)?));
        let own = slots.filter(|slot| slot.workspace == workspace || slot.workspace == [0; 16]);
        Ok(own.max_by_key(|checkpoint| checkpoint.count))
    }

    /// Reads the intact note of the last acknowledgement of this workspace; `None` if there is none.
    pub(super) fn read_note(disk: &Disk, path: &Path, workspace: [u8; 16]) -> io::Result<Option<Checkpoint>> {
        if !matches!(disk.kind(path)?, FileKind::File(_)) {
            return Ok(None);
        }
        let bytes = disk.read(path, FILE)?.unwrap_or_default();
        let note = bytes.get(NOTE..).and_then(Checkpoint::from_slot);
        Ok(note.filter(|note| note.workspace == workspace))
    }

    /// Writes the note of the last acknowledgement into the checkpoint file, without syncing it.
    pub(super) fn write_note(&self, file: &DiskFile) -> io::Result<()> {
        file.write_at(NOTE as u64, &self.to_slot())
    }

    /// Writes it into the slot that does not hold the newest one, and syncs it.
    pub(super) fn write(&self, disk: &Disk, path: &Path) -> io::Result<()> {
        let slot = SLOTS.get(usize::from(self.count % 2 == 1)).copied().unwrap_or(0);
        match disk.open(path) {
            Ok(file) => file.write_at(slot as u64, &self.to_slot()).and_then(|()| file.sync()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let mut bytes = vec![0; FILE];
                if let Some(place) = bytes.get_mut(slot..slot + SLOT) {
                    place.copy_from_slice(&self.to_slot());
                }
                disk.replace(path, &bytes)
            }
            Err(error) => Err(error),
        }
    }

    fn to_slot(self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(SLOT);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&self.count.to_le_bytes());
        bytes.extend_from_slice(&self.frame.to_le_bytes());
        bytes.extend_from_slice(&self.end.to_bytes());
        bytes.extend_from_slice(&self.events.to_le_bytes());
        bytes.extend_from_slice(&self.unchecked.to_bytes());
        bytes.extend_from_slice(&self.newest.0.to_le_bytes());
        bytes.extend_from_slice(&self.newest.1.to_le_bytes());
        bytes.extend_from_slice(&self.workspace);
        bytes.resize(SLOT - 4, 0);
        let crc = crc32fast::hash(&bytes);
        bytes.extend_from_slice(&crc.to_le_bytes());
        bytes
    }

    fn from_slot(bytes: &[u8]) -> Option<Checkpoint> {
        if !bytes.starts_with(&MAGIC) || crc32fast::hash(bytes.get(..SLOT - 4)?) != le_u32(bytes, SLOT - 4)? {
            return None;
        }
        Some(Checkpoint {
            count: le_u64(bytes, 8)?,
            frame: le_u64(bytes, 16)?,
            end: JournalPosition::from_bytes(bytes.get(24..36)?)?,
            events: le_u64(bytes, 36)?,
            unchecked: JournalPosition::from_bytes(bytes.get(44..56)?)?,
            newest: (le_u32(bytes, 56)?, le_u32(bytes, 60)?),
            workspace: bytes.get(64..80)?.try_into().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_slot_leaves_the_other() {
        let dir = tempfile::tempdir().unwrap();
        let (disk, path) = (Disk::default(), dir.path().join("mark"));
        let read = || Checkpoint::read(&disk, &path, [7; 16]).unwrap();
        assert_eq!(read(), None);
        let checkpoint = |count| Checkpoint { count, frame: count * 10, workspace: [7; 16], ..Checkpoint::default() };
        let checkpoints: Vec<Checkpoint> = (1..=5).map(checkpoint).collect();
        for checkpoint in &checkpoints {
            checkpoint.write(&disk, &path).unwrap();
            assert_eq!(read(), Some(*checkpoint));
        }
        assert_eq!(
            Checkpoint::read(&disk, &path, [8; 16]).unwrap(),
            None,
            "the checkpoint of another workspace is ignored"
        );
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[512 + 20] ^= 0x40;
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(read(), Some(checkpoints[3]));
        bytes[20] ^= 0x40;
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(read(), None);
    }
}
