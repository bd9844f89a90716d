//! Images: a thumbnail, a hash, a comparison, and storing many at once, compared with Pillow, libvips and scikit-image
//! (through `peers/pictures.py`, if installed), and with the resizing of `image` in this process.

use std::fs;
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Instant;

use image::codecs::jpeg::JpegEncoder;
use image::imageops::FilterType;
use image::{ImageFormat, Rgb, RgbImage};
use retake::internals::disk::Disk;
use retake::internals::images::{Images, ThumbSide, decode, on_all_cores};

use crate::Settings;
use crate::report::{Report, Table, median, millis, ratio, times};

/// The number of one-megapixel images processed sequentially per round.
const FEW: usize = 8;

pub(crate) fn run(settings: &Settings, report: &mut Report) {
    let many = if settings.full { 200 } else { 40 };
    let pictures = pictures(&settings.data.join("pictures"), many);
    let few = &pictures[..FEW];
    let names: Vec<&str> = few.iter().map(|path| path.to_str().unwrap()).collect();

    let mut thumbnails = Rows::default();
    let mut hashes = Rows::default();
    let mut comparisons = Rows::default();
    let mut ingests = Rows::default();
    for round in 0..settings.rounds {
        let images = Images::new(Disk::default(), &settings.scratch("pictures"));
        let kept: Vec<_> = few.iter().map(|path| images.put_file(path).unwrap().hash).collect();
        fs::remove_dir_all(settings.data.join("scratch-pictures/cache")).unwrap();

        thumbnails.add("retake", each(&kept, |hash| drop(images.thumbnail(*hash, ThumbSide::Small).unwrap())));
        thumbnails.add("image alone", each(few, |path| image_thumbnail(path)));
        hashes.add("retake", each(few, |path| _ = images.see_file(path).unwrap()));
        comparisons.add("retake", each(&kept[1..], |hash| _ = images.compare(kept[0], *hash).unwrap()));
        let peer = |rows: &mut Rows, what: &'static str, files: &[&str]| match python(what, files) {
            Some(took) => rows.add(what, took),
            None if round == 0 => report.say(&format!("{what} is not installed here")),
            None => {}
        };
        peer(&mut thumbnails, "pillow-thumbnail", &names);
        peer(&mut thumbnails, "vips-thumbnail", &names);
        peer(&mut hashes, "pillow-hash", &names);
        peer(&mut comparisons, "scikit-compare", &names[..2]);

        let images = Images::new(Disk::default(), &settings.scratch("ingest"));
        ingests.add("retake", all(&pictures, |path| drop(images.put_file(path).unwrap())));
        ingests.add("decoding alone", all(&pictures, |path| drop(decode(&fs::read(path).unwrap()).unwrap())));
        let images = Images::new(Disk::default(), &settings.scratch("ingest"));
        ingests.add("keeping alone", all(&pictures, |path| images.put_known(&fs::read(path).unwrap()).unwrap()));
    }
    let cores = thread::available_parallelism().map_or(1, usize::from);
    thumbnails.show(report, "Thumbnails of 512 and 256 px from a PNG file of 1024² pixels");
    hashes.show(report, "Perceptual hash of a PNG file of 1024² pixels (ours with the pixel hash too)");
    comparisons.show(report, "Comparing two PNG files of 1024² pixels (scikit-image: SSIM at 512 px only)");
    ingests.show(report, &format!("Taking in {many} pictures on {cores} cores, per picture, synced to the disk"));
}

/// The milliseconds per round of each candidate, ours first.
#[derive(Default)]
struct Rows(Vec<(&'static str, Vec<f64>)>);

impl Rows {
    fn add(&mut self, name: &'static str, took: f64) {
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            Some((_, rounds)) => rounds.push(took),
            None => self.0.push((name, vec![took])),
        }
    }

    fn show(&self, report: &mut Report, title: &str) {
        let mut table = Table::new(title, &["", "ms", "times ours"]);
        for (name, rounds) in &self.0 {
            let times_ours = times(ratio(rounds, &self.0[0].1));
            table.row(vec![(*name).to_owned(), format!("{:.1}", median(rounds)), times_ours]);
        }
        report.show("pictures", &table);
    }
}

/// Returns the milliseconds per item, processed sequentially.
fn each<T>(items: &[T], work: impl Fn(&T)) -> f64 {
    let begun = Instant::now();
    items.iter().for_each(work);
    millis(begun.elapsed()) / items.len() as f64
}

/// Returns the milliseconds per item, processed on all cores as in an import.
fn all(paths: &[PathBuf], work: impl Fn(&Path) + Sync) -> f64 {
    let begun = Instant::now();
    on_all_cores(paths, |path| work(path), |_| true);
    millis(begun.elapsed()) / paths.len() as f64
}

/// Makes a thumbnail with `image` alone.
fn image_thumbnail(path: &Path) {
    let mut picture = image::load_from_memory(&fs::read(path).unwrap()).unwrap();
    for side in [512, 256] {
        picture = picture.resize(side, side, FilterType::Lanczos3);
        JpegEncoder::new_with_quality(&mut Vec::new(), 80).encode_image(&picture.to_rgb8()).unwrap();
    }
}

fn python(what: &str, files: &[&str]) -> Option<f64> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/pictures.py");
    // One thread, as ours.
    let output =
        Command::new("python3").env("VIPS_CONCURRENCY", "1").arg(script).arg(what).args(files).output().ok()?;
    serde_json::from_slice(&output.stdout).ok()?
}

/// Writes PNG files of 1024² pixels with realistic contents: gradients, edges and a little noise, like generated
/// images.
fn pictures(dir: &Path, count: usize) -> Vec<PathBuf> {
    fs::create_dir_all(dir).unwrap();
    let paths: Vec<PathBuf> = (0..count).map(|number| dir.join(format!("{number}.png"))).collect();
    for (number, path) in paths.iter().enumerate().filter(|(_, path)| !path.is_file()) {
        let mut state = u32::try_from(number).unwrap().wrapping_mul(2_654_435_761) | 1;
        let picture = RgbImage::from_fn(1024, 1024, |x, y| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let [_, _, _, noise] = state.to_le_bytes();
            let slope = (x * 7 + y * u32::try_from(number % 13 + 1).unwrap()) / 64;
            let edge = if (x / 97 + y / 61 + u32::try_from(number).unwrap()) % 3 == 0 { 60 } else { 0 };
            let light = |channel: u32| (slope * channel % 160 + edge + u32::from(noise >> 5)).to_le_bytes()[0];
            Rgb([light(1), light(2), light(3)])
        });
        let mut bytes = Cursor::new(Vec::new());
        picture.write_to(&mut bytes, ImageFormat::Png).unwrap();
        fs::write(path, bytes.into_inner()).unwrap();
    }
    paths
}
