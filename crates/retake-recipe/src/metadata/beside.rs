//! Sidecar files that some tools write next to an image: Easy Diffusion a `.json` or `.txt` of the same name, Fooocus a
//! `log.html` for all images of a folder. They are only searched if the image itself contains nothing, and only used if
//! they are recognised as that tool's: captions and other notes are ignored.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::container::{MAX_TEXT, Slot, Texts};
use super::{easy_diffusion, fooocus};

/// Adds the text of a sidecar file that describes the image at this path.
pub(super) fn search(path: &Path, texts: &mut Texts) {
    for ending in [easy_diffusion::JSON, easy_diffusion::TEXT] {
        let beside = path.with_extension(ending);
        if let Some(text) = content(&beside).filter(|text| easy_diffusion::is_own(text, ending)) {
            texts.add(Slot::Beside(ending), 0, name(&beside), text);
            return;
        }
    }
    let log = path.with_file_name(fooocus::LOG);
    if let Some((offset, record)) = content(&log).and_then(|log| fooocus::logged(&log, &name(path))) {
        texts.add(Slot::Beside(fooocus::LOG), offset, name(path), record);
    }
}

/// Reads a text file, unless it is too long to be a sidecar.
fn content(path: &Path) -> Option<String> {
    let mut text = String::new();
    let file = File::open(path).ok().filter(|file| file.metadata().is_ok_and(|found| found.is_file()))?;
    file.take(MAX_TEXT + 1).read_to_string(&mut text).ok()?;
    u64::try_from(text.len()).is_ok_and(|size| size <= MAX_TEXT).then_some(text)
}

fn name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}
