//! What makes up the bytes on disk? Lists the items and bytes of every database tree, and the other files.

use std::fs;
use std::path::Path;

use crate::Settings;
use crate::data;
use crate::report::{Report, Table, times};
use crate::size::on_disk;

pub(crate) fn run(settings: &Settings, report: &mut Report) {
    let shape = settings.large();
    let (workspace, _) = data::retake(settings, report, shape);
    let events = (shape.sessions * u64::from(shape.iterations + 1)) as f64;
    let title = format!("What a workspace of {} sessions of {} consists of", shape.sessions, shape.iterations);
    let mut table = Table::new(title, &["what", "items", "MB", "bytes per event"]);
    let mut row = |what: String, items: u64, bytes: u64| {
        let (megabytes, each) = (format!("{:.1}", bytes as f64 / 1e6), times(bytes as f64 / events));
        table.row(vec![what, items.to_string(), megabytes, each]);
    };
    // sled writes to what it opens, and the data set is reused.
    let copy = settings.scratch("layout");
    copy_files(&workspace.join("db"), &copy);
    let database = sled::Config::new().path(&copy).flush_every_ms(None).open().unwrap();
    for name in database.tree_names() {
        let tree = database.open_tree(&name).unwrap();
        let (mut items, mut bytes) = (0, 0);
        for item in tree.iter() {
            let (key, value) = item.unwrap();
            items += 1;
            bytes += (key.len() + value.len()) as u64;
        }
        if items > 0 {
            row(format!("tree {}", String::from_utf8_lossy(&name)), items, bytes);
        }
    }
    drop(database);
    fs::remove_dir_all(&copy).unwrap();
    for part in ["db", "journal"] {
        for entry in fs::read_dir(workspace.join(part)).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(&workspace).unwrap().display().to_string();
            row(name, 1, on_disk(&path));
        }
    }
    report.show("layout", &table);
}

fn copy_files(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_file() {
            fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}
