//! Groups images into runs, and runs into sessions.
//!
//! A **run** is one press of the button: the images of one queued graph, or of one batch with consecutive seeds. It
//! becomes one iteration. A **session** is a sequence of runs in one root without a long pause. Both are decided from
//! metadata and times, never from pixels.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use crate::model::Timestamp;
use crate::model::iteration::MAX_LIST;

use super::inspect::InspectedImage;

/// The default pause after which a new session begins: after a longer break, people rarely continue the same work.
const GAP_MILLIS: i64 = 45 * 60 * 1000;
/// The multiple of the median pause that still belongs to a session, if images are made slowly.
const TIMES_MEDIAN: i64 = 8;
/// The longest pause within a session, however slowly images are made.
const LONGEST_GAP_MILLIS: i64 = 4 * GAP_MILLIS;
/// The longest time between two images of one run.
const RUN_MILLIS: i64 = 10 * 60 * 1000;

/// A run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Run {
    /// Its images, as indices into all images found, in the order in which they were made; grids last.
    pub(super) pictures: Vec<usize>,
    /// When its first image was made.
    pub(super) at: Timestamp,
}

/// The runs of one session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Group {
    /// The output folder of the tool.
    pub(super) root: PathBuf,
    /// Its runs, in chronological order.
    pub(super) runs: Vec<Run>,
    /// Why it is separate from the preceding session, in words.
    pub(super) cut: String,
}

/// Groups images into runs, and runs into sessions. Images with the same bytes count once. `gap` is the longest pause
/// within a session, if the caller sets one.
pub(super) fn group(found: &[InspectedImage], gap: Option<Duration>) -> Vec<Group> {
    let mut roots: BTreeMap<&PathBuf, Vec<usize>> = BTreeMap::new();
    let mut order: Vec<usize> = (0..found.len()).collect();
    order.sort_by_key(|number| found.get(*number).map(|picture| (picture.at, picture.place, &picture.path)));
    let mut seen = std::collections::HashSet::new();
    for number in order {
        if let Some(picture) = found.get(number)
            && seen.insert(picture.hash)
        {
            roots.entry(&picture.root).or_default().push(number);
        }
    }
    let mut groups: Vec<Group> = Vec::new();
    for (root, numbers) in roots {
        let runs = runs(found, &numbers);
        let limit = gap.map_or_else(|| usual_gap(&runs), |gap| i64::try_from(gap.as_millis()).unwrap_or(i64::MAX));
        let mut last: Option<Timestamp> = None;
        for run in runs {
            let ends = run.pictures.iter().filter_map(|number| found.get(*number)).map(|it| it.at).max();
            let pause = last.map(|last| run.at.millis() - last.millis());
            let cut = match pause {
                None => Some(format!("the first session of {}", root.display())),
                Some(pause) if pause > limit => Some(format!("after a pause of {}", words(pause))),
                Some(_) => None,
            };
            last = last.max(ends);
            match (cut, groups.last_mut()) {
                (None, Some(group)) => group.runs.push(run),
                (cut, _) => groups.push(Group { root: root.clone(), runs: vec![run], cut: cut.unwrap_or_default() }),
            }
        }
    }
    groups.sort_by_key(|group| group.runs.first().map(|run| run.at));
    groups
}

/// Groups the images of one root, in chronological order, into runs.
fn runs(found: &[InspectedImage], numbers: &[usize]) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for number in numbers {
        let Some(picture) = found.get(*number) else { continue };
        // Runs can interleave: a queued run may start before the previous one is upscaled.
        let open = runs.iter_mut().rev().take(8).find(|run| belongs(found, run, picture));
        match open {
            Some(run) => run.pictures.push(*number),
            None => runs.push(Run { pictures: vec![*number], at: picture.at }),
        }
    }
    for run in &mut runs {
        run.pictures.sort_by_key(|number| found.get(*number).is_some_and(is_grid));
    }
    runs
}

/// Returns whether an image belongs to this run: the same graph and seed, or the same parameters and the next seed.
fn belongs(found: &[InspectedImage], run: &Run, picture: &InspectedImage) -> bool {
    let members = || run.pictures.iter().filter_map(|number| found.get(*number));
    let Some(key) = picture.facts.run_key else { return false };
    let same = members().all(|member| member.facts.run_key == Some(key));
    let soon = members().any(|member| picture.at.millis() - member.at.millis() <= RUN_MILLIS);
    let seed = |member: &InspectedImage| member.facts.recipe.seed.map(|seed| seed.0);
    let next = match seed(picture) {
        None => true,
        Some(new) => members().any(|member| seed(member).is_some_and(|old| new == old || new == old.wrapping_add(1))),
    };
    // The same image at another size is an upscale and not part of the batch, except that one queued graph may save
    // several sizes.
    let queued = picture.facts.workflow.is_some();
    let size = queued
        || is_grid(picture)
        || members().all(|member| member.facts.size == picture.facts.size || is_grid(member));
    run.pictures.len() < MAX_LIST && same && soon && next && size
}

/// Returns whether an image is a grid of the other images of its run, as A1111 saves them.
fn is_grid(picture: &InspectedImage) -> bool {
    picture.name().starts_with("grid")
}

/// Returns the longest pause that does not end a session, which is longer if images are made slowly.
fn usual_gap(runs: &[Run]) -> i64 {
    let times = runs.iter().map(|run| run.at.millis());
    let mut pauses: Vec<i64> = times.clone().zip(times.skip(1)).map(|(one, next)| next - one).collect();
    // Nights are not pauses within work.
    pauses.retain(|pause| *pause <= LONGEST_GAP_MILLIS);
    pauses.sort_unstable();
    let median = pauses.get(pauses.len() / 2).copied().unwrap_or_default();
    median.saturating_mul(TIMES_MEDIAN).clamp(GAP_MILLIS, LONGEST_GAP_MILLIS)
}

fn words(millis: i64) -> String {
    let minutes = millis / 60_000;
    match minutes {
        0..120 => format!("{minutes} minutes"),
        120..2880 => format!("{} hours", minutes / 60),
        _ => format!("{} days", minutes / 1440),
    }
}

#[cfg(test)]
mod tests {
    use crate::model::{Hash, Seed};

    use super::super::inspect::ImageFacts;
    use super::*;

    /// Returns an image made `seconds` after the start, with this name, graph and seed.
    fn picture(name: &str, seconds: i64, key: u8, seed: u64) -> InspectedImage {
        let at = Timestamp::from_millis(1_700_000_000_000 + seconds * 1000).unwrap();
        let mut facts = ImageFacts { run_key: (key > 0).then_some(Hash([key; 32])), ..ImageFacts::default() };
        facts.recipe.seed = Some(Seed(seed));
        InspectedImage {
            path: format!("/p/{name}").into(),
            root: "/p".into(),
            hash: Hash::of(name.as_bytes()),
            bytes: 0,
            modified: at,
            at,
            place: 0,
            mime_type: "image/png",
            facts,
        }
    }

    fn drawn(found: &[InspectedImage], gap: Option<Duration>) -> Vec<Vec<Vec<usize>>> {
        let groups = group(found, gap);
        groups.iter().map(|group| group.runs.iter().map(|run| run.pictures.clone()).collect()).collect()
    }

    #[test]
    fn a_batch_is_one_run_and_a_reroll_another() {
        let found = [
            picture("a", 0, 1, 100),
            picture("b", 1, 1, 101),
            picture("c", 2, 1, 102),
            picture("grid-1", 3, 1, 100),
            picture("d", 60, 1, 9_000),
            picture("e", 120, 0, 1),
            picture("f", 121, 0, 1),
        ];
        assert_eq!(drawn(&found, None), [[vec![0, 1, 2, 3], vec![4], vec![5], vec![6]]]);
    }

    #[test]
    fn the_same_graph_tomorrow_is_another_run() {
        let found = [picture("a", 0, 1, 5), picture("b", 86_400, 1, 5)];
        assert_eq!(drawn(&found, None), [[[0]], [[1]]]);
    }

    #[test]
    fn a_pause_ends_a_session_and_slow_work_has_longer_ones() {
        let quick: Vec<InspectedImage> =
            (0..10).map(|n| picture(&n.to_string(), n * 60 + n / 5 * 2800, 0, 0)).collect();
        assert_eq!(drawn(&quick, None).iter().map(Vec::len).collect::<Vec<_>>(), [5, 5]);
        assert_eq!(drawn(&quick, Some(Duration::from_secs(3600))).len(), 1);
        assert_eq!(drawn(&quick, Some(Duration::from_secs(30))).len(), 10);
        let slow: Vec<InspectedImage> =
            (0..10).map(|n| picture(&n.to_string(), n * 900 + n / 5 * 4000, 0, 0)).collect();
        assert_eq!(drawn(&slow, None).len(), 1, "an hour is not a pause where an image takes a quarter of one");
        let daily: Vec<InspectedImage> = (0..10).map(|n| picture(&n.to_string(), n * 86_400, 0, 0)).collect();
        assert_eq!(drawn(&daily, None).len(), 10, "an image a day is not a session of ten days");
    }

    #[test]
    fn roots_do_not_mix_and_copies_count_once() {
        let mut found = vec![picture("a", 0, 0, 0), picture("b", 10, 0, 0), picture("c", 20, 0, 0)];
        found[1].root = "/other".into();
        found[2].hash = found[0].hash;
        assert_eq!(drawn(&found, None), [[[0]], [[1]]]);
    }
}
