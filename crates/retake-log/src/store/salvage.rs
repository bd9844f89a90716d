//! Looking for records in databases that are damaged, replaced, or set aside by a recovery that did not finish.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::database::{Database, decode_head};
use super::pack::{self, Pack};
use super::rebuild::{Rebuild, owned};
use super::record::Record;
use super::scan::carve;
use super::{Error, keys, quarantine};

/// How much of a raw file is searched at once, and how far two pieces overlap: more than the longest record.
const PIECE: usize = 32 << 20;
const OVERLAP: usize = 2 << 20;

impl Rebuild<'_> {
    /// Takes records from databases that are damaged, replaced, or set aside by a recovery that did not finish.
    pub(super) fn search_old_databases(&mut self) -> Result<(), Error> {
        let mut places = vec![self.site.dir.join("db")];
        places.extend(quarantine::unfinished(self.site.dir).into_iter().map(|place| place.join("db")));
        for place in places.iter().filter(|place| place.is_dir()) {
            // First by sled's own reading, on a copy: opening may overwrite what could still be carved.
            let copy = self.site.dir.join("db.copy");
            let _ = fs::remove_dir_all(&copy);
            if copy_dir(place, &copy).is_ok()
                && let Ok(database) = Database::open(&copy)
            {
                self.question(&database)?;
            }
            let _ = fs::remove_dir_all(&copy);
            let mut files = Vec::new();
            files_below(place, &mut files);
            for (at, file) in files.iter().enumerate() {
                self.site.tell("searching the old database", at as u64, files.len() as u64);
                self.search_file(file)?;
            }
        }
        self.put_back()
    }

    fn question(&mut self, database: &Database) -> Result<(), Error> {
        for value in database.events.packs()? {
            let Ok(value) = value else { break };
            self.offer_pack(&value)?;
        }
        for head in database.heads.all() {
            self.heard_of(head.id, head.next_seq, head.last_index);
        }
        self.question_older(database)?;
        for item in database.days.iter() {
            let Ok((key, value)) = item else { break };
            if let (Some(day), Some(number)) = (keys::be_u32(&key, 0), keys::le_u32(&value, 0)) {
                self.newest_of_day(day, number);
            }
        }
        if let Ok(totals) = database.totals() {
            self.expected_events = self.expected_events.max(totals.events);
        }
        Ok(())
    }

    /// Takes what a database of the first layout holds: one item per event, and one per head.
    fn question_older(&mut self, database: &Database) -> Result<(), Error> {
        for value in database.older_tree("events").iter().flat_map(|tree| tree.iter().values().map_while(Result::ok)) {
            if let Some(record) = Record::read(&value) {
                self.offer(record.bytes.to_vec())?;
            }
        }
        for (key, value) in database.older_tree("heads").iter().flat_map(|tree| tree.iter().map_while(Result::ok)) {
            if let Some(id) = keys::session_of(&key)
                && let Ok(head) = decode_head(id, &value)
            {
                self.heard_of(id, head.next_seq, head.last_index);
            }
        }
        Ok(())
    }

    fn offer_pack(&mut self, value: &[u8]) -> Result<(), Error> {
        match Pack::read(value) {
            Some(pack) => self.offer_records(&pack.into_body()),
            None => pack::salvage(value).try_for_each(|body| self.offer_records(&body)),
        }
    }

    /// Takes the records of a pack's body that prove themselves.
    fn offer_records(&mut self, body: &[u8]) -> Result<(), Error> {
        let found: Vec<_> = carve(body, 0).0.iter().map(|(_, entry)| owned(entry)).collect();
        found.into_iter().try_for_each(|bytes| self.offer(bytes))
    }

    fn search_file(&mut self, path: &Path) -> Result<(), Error> {
        let Ok(mut file) = fs::File::open(path) else { return Ok(()) };
        let mut piece = Vec::new();
        loop {
            let keep = piece.len().min(OVERLAP);
            piece.drain(..piece.len() - keep);
            let read = file.by_ref().take(PIECE as u64).read_to_end(&mut piece);
            if !matches!(read, Ok(more) if more > 0) {
                return Ok(());
            }
            let (entries, _) = carve(&piece, 0);
            let found: Vec<_> = entries.iter().map(|(_, entry)| owned(entry)).collect();
            found.into_iter().try_for_each(|bytes| self.offer(bytes))?;
            for body in pack::salvage(&piece) {
                self.offer_records(&body)?;
            }
        }
    }
}

fn copy_dir(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_dir(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

fn files_below(dir: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            files_below(&path, files);
        } else {
            files.push(path);
        }
    }
}
