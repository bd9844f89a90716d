//! Determines when an image was made. Few tools write this into the file, so it is mostly the file's modification time,
//! checked against the counter and the date in its name: files get touched, copied, unzipped and synchronised.
//!
//! In order of precedence: a time in the file itself; the modification time, unless the files of the folder all share
//! one (then the counters give the order), a date in the name disagrees, or files with a higher counter are older.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use chrono::{NaiveDate, NaiveDateTime, NaiveTime};

use crate::images::metadata::Precision;
use crate::model::Timestamp;

use super::inspect::InspectedImage;

/// The average interval between files below which they count as copied rather than made one by one.
const COPIED_APART_MILLIS: i64 = 200;
/// The minimum number of files that can be recognised as copied.
const COPIED_TOGETHER: usize = 6;
/// The largest difference that time zones can cause between a file's time and the date in its name.
const ZONES_MILLIS: i64 = 38 * 60 * 60 * 1000;

/// Sets the time of every image and its position among images of the same time. Returns notes on the decisions.
pub(super) fn assign_times(found: &mut [InspectedImage]) -> Vec<String> {
    let mut notes = Vec::new();
    let mut folders: BTreeMap<std::path::PathBuf, Vec<usize>> = BTreeMap::new();
    for (number, picture) in found.iter().enumerate() {
        folders.entry(picture.path.parent().unwrap_or(&picture.path).to_owned()).or_default().push(number);
    }
    for (folder, numbers) in &folders {
        let mut pictures: Vec<&mut InspectedImage> = pick(found, numbers);
        // Sort by counter, or by name if there is none.
        pictures.sort_by_cached_key(|picture| order(picture));
        let copied = shares_one_time(&pictures);
        let mut dated = 0;
        for (place, picture) in (0..).zip(pictures.iter_mut()) {
            picture.place = place;
            picture.at = picture.modified;
            let named = named_time(&picture.path);
            let embedded = picture.facts.created_at;
            match (embedded, named) {
                (Some(created), _) if created.precision == Precision::Second => picture.at = created.at,
                (_, Some(named)) if copied || !named.allows(picture.modified) => {
                    picture.at = named.at(place);
                    dated += 1;
                }
                (Some(created), _) if !TimeInName::Day(created.at.day()).allows(picture.modified) => {
                    picture.at = TimeInName::Day(created.at.day()).at(place);
                    dated += 1;
                }
                _ => {}
            }
        }
        if copied && dated < pictures.len() {
            notes.push(format!(
                "{}: its {} files share one time, as after copying or unzipping; they are ordered by name",
                folder.display(),
                pictures.len()
            ));
        }
        if dated > 0 {
            notes.push(format!(
                "{}: {} dated by name or metadata, since the modification time is on another day",
                folder.display(),
                files_are(dated)
            ));
        }
        let touched = if copied { 0 } else { undo_touched_times(&mut pictures) };
        if touched > 0 {
            notes.push(format!(
                "{}: {} newer than files with higher numbers, and placed before them",
                folder.display(),
                files_are(touched)
            ));
        }
    }
    notes
}

/// Returns `1 file is` or `2 files are`.
fn files_are(count: usize) -> String {
    match count {
        1 => "1 file is".to_owned(),
        count => format!("{count} files are"),
    }
}

/// Returns the date in a text such as a folder's name: `2024-05-01`, `20240501`, `2024_05_01`.
pub(super) fn date_in(name: &str) -> Option<NaiveDate> {
    let bytes = name.as_bytes();
    (0..bytes.len()).find_map(|at| {
        let apart = at == 0 || !bytes.get(at - 1).is_some_and(u8::is_ascii_digit);
        apart.then(|| date_at(name, at).map(|(date, _)| date)).flatten()
    })
}

/// A time in a file or folder name.
#[derive(Clone, Copy, Debug, PartialEq)]
enum TimeInName {
    Day(NaiveDate),
    Second(NaiveDateTime),
}

impl TimeInName {
    /// Returns whether the modification time is consistent with it in some time zone.
    fn allows(self, modified: Timestamp) -> bool {
        let (from, to) = match self {
            TimeInName::Day(day) => {
                (day.and_time(NaiveTime::MIN), day.and_time(NaiveTime::MIN) + chrono::TimeDelta::days(1))
            }
            TimeInName::Second(time) => (time, time),
        };
        let (from, to) = (from.and_utc().timestamp_millis(), to.and_utc().timestamp_millis());
        // Files made after midnight may be in the folder of the previous day.
        (from - ZONES_MILLIS / 2..=to + ZONES_MILLIS).contains(&modified.millis())
    }

    /// Returns the time it denotes; for a day, its first moments, in the order of the files.
    fn at(self, place: i64) -> Timestamp {
        let time = match self {
            TimeInName::Day(day) => day.and_time(NaiveTime::MIN) + chrono::TimeDelta::seconds(place.min(86_399)),
            TimeInName::Second(time) => time,
        };
        time.and_utc().into()
    }
}

/// Returns the time in a file's name, or the day in the name of its folder.
fn named_time(path: &Path) -> Option<TimeInName> {
    let name = path.file_stem()?.to_string_lossy();
    let plausible = |date: &NaiveDate| (2020..2100).contains(&chrono::Datelike::year(date));
    let in_name = (0..name.len()).filter(|at| name.is_char_boundary(*at)).find_map(|at| {
        let apart = at == 0 || !name.as_bytes().get(at - 1).is_some_and(u8::is_ascii_digit);
        let (date, rest) = if apart { date_at(&name, at)? } else { return None };
        Some(match time_at(rest) {
            Some(time) => TimeInName::Second(date.and_time(time)),
            None => TimeInName::Day(date),
        })
    });
    let in_name = in_name.filter(|named| match named {
        TimeInName::Day(day) => plausible(day),
        TimeInName::Second(time) => plausible(&time.date()),
    });
    in_name.or_else(|| {
        let folder = path.parent()?.file_name()?.to_str()?;
        date_in(folder).filter(plausible).map(TimeInName::Day)
    })
}

/// Returns the date at this position, and the text after it.
fn date_at(text: &str, at: usize) -> Option<(NaiveDate, &str)> {
    let rest = text.get(at..)?;
    let (year, rest) = digits(rest, 4)?;
    let (rest, separator) = match rest.strip_prefix(['-', '_', '.']) {
        Some(after) => (after, true),
        None => (rest, false),
    };
    let (month, rest) = digits(rest, 2)?;
    let rest = if separator { rest.strip_prefix(['-', '_', '.'])? } else { rest };
    let (day, rest) = digits(rest, 2)?;
    let date = NaiveDate::from_ymd_opt(i32::try_from(year).ok()?, month, day)?;
    // Eight digits within a longer number are a counter or a seed.
    let ends = separator || !rest.starts_with(|c: char| c.is_ascii_digit());
    (ends && (1990..2100).contains(&year)).then_some((date, rest))
}

/// Returns the time at the beginning of the text after a date: `_14-05-59`, `T140559`, ` 14.05.59`.
fn time_at(rest: &str) -> Option<NaiveTime> {
    let rest = rest.strip_prefix(['_', '-', 'T', ' ', '@'])?;
    let apart = |rest| str::strip_prefix(rest, ['-', '_', '.', ':']).unwrap_or(rest);
    let (hour, rest) = digits(rest, 2)?;
    let (minute, rest) = digits(apart(rest), 2)?;
    let (second, rest) = digits(apart(rest), 2)?;
    let ends = !rest.starts_with(|c: char| c.is_ascii_digit());
    NaiveTime::from_hms_opt(hour, minute, second).filter(|_| ends)
}

fn digits(text: &str, count: usize) -> Option<(u32, &str)> {
    let (number, rest) = text.split_at_checked(count)?;
    let number = number.bytes().all(|byte| byte.is_ascii_digit()).then(|| number.parse().ok())??;
    Some((number, rest))
}

/// Splits a name into its counter and the text before it. `ComfyUI_00012_.png` and `00012-1234.png` have a counter; a
/// seed or a UUID is not one.
fn counted(path: &Path) -> (String, Option<u64>) {
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let after = |at: usize| stem.get(at..).unwrap_or_default();
    let length = |at: usize| after(at).bytes().take_while(u8::is_ascii_digit).count();
    let starts = (0..stem.len()).filter(|at| {
        let first = stem.as_bytes().get(*at).is_some_and(u8::is_ascii_digit);
        first && (*at == 0 || !stem.as_bytes().get(at - 1).is_some_and(u8::is_ascii_alphanumeric))
    });
    // A1111 puts the counter first, ComfyUI and Fooocus put it last.
    let fits: Vec<usize> = starts.filter(|at| (3..=6).contains(&length(*at))).collect();
    let at = match fits.first() {
        Some(0) => Some(0),
        _ => fits.last().copied(),
    };
    let number = at.and_then(|at| stem.get(at..at + length(at))?.parse().ok());
    (stem.get(..at.unwrap_or(stem.len())).unwrap_or_default().to_owned(), number)
}

fn order(picture: &InspectedImage) -> (String, Option<u64>, std::path::PathBuf) {
    let (prefix, number) = counted(&picture.path);
    (prefix, number, picture.path.clone())
}

/// Returns whether the modification times are meaningless, because many files within a short time were copied.
fn shares_one_time(pictures: &[&mut InspectedImage]) -> bool {
    let times = || pictures.iter().map(|picture| picture.modified.millis());
    let (Some(first), Some(last)) = (times().min(), times().max()) else { return false };
    let count = i64::try_from(pictures.len()).unwrap_or(i64::MAX);
    pictures.len() >= COPIED_TOGETHER && last - first < COPIED_APART_MILLIS.saturating_mul(count - 1)
}

/// Resets files that were touched later to the time of their successors. If most files disagree, the counters were
/// restarted, and nothing is changed. Returns the number of files changed.
fn undo_touched_times(pictures: &mut [&mut InspectedImage]) -> usize {
    let mut series: HashMap<String, Vec<(u64, usize)>> = HashMap::new();
    for (at, picture) in pictures.iter().enumerate() {
        if let (prefix, Some(number)) = counted(&picture.path) {
            series.entry(prefix).or_default().push((number, at));
        }
    }
    let mut touched = 0;
    for places in series.into_values() {
        let mut earliest = None;
        let mut changes = Vec::new();
        for (_, at) in places.iter().rev() {
            let Some(picture) = pictures.get(*at) else { continue };
            match earliest {
                Some(later) if picture.at > later => changes.push((*at, later)),
                _ => earliest = Some(picture.at),
            }
        }
        if changes.len() * 5 <= places.len() {
            touched += changes.len();
            for (at, later) in changes {
                if let Some(picture) = pictures.get_mut(at) {
                    picture.at = later;
                }
            }
        }
    }
    touched
}

/// Returns the images with these indices, which must be ascending.
fn pick<'a>(found: &'a mut [InspectedImage], numbers: &[usize]) -> Vec<&'a mut InspectedImage> {
    let mut wanted = numbers.iter().copied().peekable();
    found.iter_mut().enumerate().filter_map(|(number, picture)| wanted.next_if_eq(&number).map(|_| picture)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_and_times_in_names() {
        let described = |path: &str| named_time(Path::new(path)).map(|named| named.at(0).to_string());
        assert_eq!(described("x/2024-05-01_14-05-59_1234.png").as_deref(), Some("2024-05-01T14:05:59.000Z"));
        assert_eq!(described("x/img-20240501-140559.png").as_deref(), Some("2024-05-01T14:05:59.000Z"));
        assert_eq!(described("2024-05-01/00012-7.png").as_deref(), Some("2024-05-01T00:00:00.000Z"));
        for path in ["x/00012-20240501123.png", "x/ComfyUI_00012_.png", "x/2024-13-01.png", "x/19991231.png"] {
            assert_eq!(described(path), None, "{path}");
        }
    }

    #[test]
    fn counters_are_distinguished_from_seeds() {
        for (name, prefix, number) in [
            ("ComfyUI_00012_.png", "ComfyUI_", Some(12)),
            ("portrait_v2_00003_.png", "portrait_v2_", Some(3)),
            ("00012-3456789012.png", "", Some(12)),
            ("grid-0003.png", "grid-", Some(3)),
            ("a-cat.png", "a-cat", None),
            ("6f9619ff-8b86-d011-b42d-00c04fc964ff.png", "6f9619ff-8b86-d011-b42d-00c04fc964ff", None),
        ] {
            assert_eq!(counted(Path::new(name)), (prefix.to_owned(), number), "{name}");
        }
    }
}
