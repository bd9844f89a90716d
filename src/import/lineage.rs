//! Finds the parent of a run. Strong evidence makes a parent, with the evidence as its reason. Weak evidence only makes
//! a likely parent. Without evidence, a run has no known parent.
//!
//! Strong evidence, strongest first (a hash of the source image is stronger still, see `intake`):
//! 1. The file names its source image, and the image of that name looks like it or has the same size.
//! 2. An upscale: the same prompt and seed at an exact multiple of the size, and the images look alike.
//! 3. It continues a **line** of its session: the preceding run there has the same prompt, or half of its tags, and
//!    either both or neither were made from an image.
//!
//! Weak evidence: a name alone, or a strong resemblance to an earlier run of the same session.

use std::collections::HashMap;
use std::fmt;

use crate::model::{Hash, ImageRef, IterationId, PerceptualHash, Recipe, Timestamp};

use super::inspect::ImageFacts;
use super::likeness::{is_generic, likeness, multiple};

/// The share of common tags above which two prompts belong to the same line.
const SIMILAR: f64 = 0.5;
/// The maximum number of earlier runs of a session that a run is compared with.
const MAX_COMPARED: usize = 500;
/// The share of common tags below which two images have different subjects, however similar they look.
const RELATED: f64 = 0.2;

/// The place where a run is or will be recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum RunPlace {
    /// Recorded.
    Recorded(IterationId),
    /// Planned in a dry run: the number of the session in the plan, and the index there.
    Planned(usize, u32),
}

/// A run that other runs may be derived from.
#[derive(Clone, Debug)]
pub(super) struct KnownRun {
    /// Where it is.
    pub(super) place: RunPlace,
    /// Its session in the plan, if it belongs to this import.
    pub(super) group: Option<usize>,
    /// When it was made.
    pub(super) at: Timestamp,
    /// Its recipe, without `parameters`.
    pub(super) recipe: Recipe,
    /// The fingerprint of its workflow's structure.
    pub(super) workflow: Option<Hash>,
    /// Whether it was made from an image.
    pub(super) from_image: bool,
    /// Its images.
    pub(super) traits: Vec<ImageTraits>,
}

/// The traits that identify an image as the source of another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ImageTraits {
    name: String,
    size: Option<(u32, u32)>,
    perceptual_hash: Option<PerceptualHash>,
}

/// The origin of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Origin {
    /// The parent, and the evidence.
    pub(super) parent: Option<(RunPlace, String)>,
    /// The likely parent, and the evidence, if there is no parent.
    pub(super) likely: Option<(RunPlace, String)>,
    /// The line of its session, from 0.
    pub(super) line: usize,
    /// The preceding run in its line, as an index into all runs.
    pub(super) before: Option<usize>,
}

/// All known runs, and the lines of the sessions in the plan.
#[derive(Default)]
pub(super) struct KnownRuns {
    made: Vec<KnownRun>,
    by_place: HashMap<RunPlace, usize>,
    by_name: HashMap<String, Vec<usize>>,
    by_seed: HashMap<u64, Vec<usize>>,
    by_group: HashMap<usize, Vec<usize>>,
    /// The runs of each line, for every session in the plan.
    lines: HashMap<usize, Vec<Vec<usize>>>,
    /// Changes since the last [`commit`](KnownRuns::commit), which can still be undone.
    undo_log: Vec<LineageChange>,
}

/// A change that can be undone.
enum LineageChange {
    /// The newest run was added. If it became the last of a line: its session in the plan, and the line.
    Added { line: Option<(usize, usize)> },
    /// A known run became the last of a line.
    Adopted { number: usize, line: (usize, usize), workflow: Option<Hash>, from_image: bool },
}

impl ImageTraits {
    /// Returns the traits of a stored image.
    pub(super) fn of(image: &ImageRef) -> ImageTraits {
        ImageTraits {
            name: image.name.as_deref().unwrap_or_default().to_lowercase(),
            size: image.width.zip(image.height),
            // Images of a single colour all have the same hash.
            perceptual_hash: image.perceptual_hash.filter(|perceptual_hash| perceptual_hash.0 != 0),
        }
    }
}

impl KnownRun {
    /// Creates a run with these images.
    pub(super) fn new(
        place: RunPlace,
        group: Option<usize>,
        at: Timestamp,
        facts: &ImageFacts,
        images: &[ImageRef],
    ) -> KnownRun {
        KnownRun {
            place,
            group,
            at,
            recipe: facts.recipe.clone(),
            workflow: facts.workflow,
            from_image: facts.evidence.from_image,
            traits: images.iter().map(ImageTraits::of).collect(),
        }
    }
}

impl KnownRuns {
    /// Returns the origin of a new run with these images in this session of the plan.
    pub(super) fn origin(&self, group: usize, at: Timestamp, facts: &ImageFacts, images: &[ImageRef]) -> Origin {
        let traits: Vec<ImageTraits> = images.iter().map(ImageTraits::of).collect();
        let (line, before) = self.line(group, facts);
        let mut origin = Origin { line, before, ..Origin::default() };
        let place = |number: usize| self.made.get(number).map(|made| made.place);
        let named = self.named(at, facts, &traits);
        let strong = named.as_ref().filter(|(_, _, sure)| *sure).map(|(number, reason, _)| (*number, reason.clone()));
        let strong = strong.or_else(|| self.enlarged(at, facts, &traits)).or_else(|| self.followed(before, facts));
        if let Some((number, reason)) = strong {
            origin.parent = place(number).map(|place| (place, reason));
            return origin;
        }
        let weak = named.map(|(number, reason, _)| (number, reason)).or_else(|| self.alike(group, facts, &traits));
        origin.likely = weak.and_then(|(number, reason)| Some((place(number)?, reason)));
        origin
    }

    /// Starts a new plan: forgets the sessions of the previous one but keeps the runs.
    pub(super) fn begin(&mut self) {
        self.by_group.clear();
        self.lines.clear();
        self.commit();
    }

    /// Returns a mark for [`undo_to`](KnownRuns::undo_to), valid until the next [`commit`](KnownRuns::commit).
    pub(super) fn mark(&self) -> usize {
        self.undo_log.len()
    }

    /// Makes all changes so far permanent.
    pub(super) fn commit(&mut self) {
        self.undo_log.clear();
    }

    /// Undoes all changes since a mark.
    pub(super) fn undo_to(&mut self, mark: usize) {
        while self.undo_log.len() > mark
            && let Some(change) = self.undo_log.pop()
        {
            match change {
                LineageChange::Added { line } => {
                    let Some(made) = self.made.pop() else { continue };
                    self.by_place.remove(&made.place);
                    for known in &made.traits {
                        self.by_name.get_mut(&known.name).and_then(Vec::pop);
                    }
                    if let Some(seed) = made.recipe.seed {
                        self.by_seed.get_mut(&seed.0).and_then(Vec::pop);
                    }
                    line.into_iter().for_each(|line| self.discontinue(line));
                }
                LineageChange::Adopted { number, line, workflow, from_image } => {
                    if let Some(made) = self.made.get_mut(number) {
                        (made.workflow, made.from_image) = (workflow, from_image);
                    }
                    self.discontinue(line);
                }
            }
        }
    }

    /// Updates the place of a run that was recorded elsewhere than expected.
    pub(super) fn relocate(&mut self, from: RunPlace, to: RunPlace) {
        let Some(number) = self.by_place.remove(&from) else { return };
        if let Some(made) = self.made.get_mut(number) {
            made.place = to;
        }
        self.by_place.insert(to, number);
    }

    /// Removes the last run from a line.
    fn discontinue(&mut self, (group, line): (usize, usize)) {
        self.by_group.get_mut(&group).and_then(Vec::pop);
        let Some(lines) = self.lines.get_mut(&group) else { return };
        lines.get_mut(line).and_then(Vec::pop);
        if lines.last().is_some_and(Vec::is_empty) {
            lines.pop();
        }
    }

    /// Adds a known run to a session of the plan, at the end of a line.
    pub(super) fn adopt(&mut self, place: RunPlace, group: usize, facts: &ImageFacts, line: usize) {
        let Some(number) = self.by_place.get(&place).copied() else { return };
        let Some(made) = self.made.get_mut(number) else { return };
        let (workflow, from_image) = (made.workflow, made.from_image);
        (made.workflow, made.from_image) = (facts.workflow, facts.evidence.from_image);
        let line = self.continued(number, group, Some(line));
        self.undo_log.push(LineageChange::Adopted { number, line: (group, line), workflow, from_image });
    }

    /// Appends a run to a line, or to a new one, and returns the line.
    fn continued(&mut self, number: usize, group: usize, line: Option<usize>) -> usize {
        self.by_group.entry(group).or_default().push(number);
        let lines = self.lines.entry(group).or_default();
        match line.and_then(|line| Some((line, lines.get_mut(line)?))) {
            Some((line, runs)) => {
                runs.push(number);
                line
            }
            None => {
                lines.push(vec![number]);
                lines.len() - 1
            }
        }
    }

    /// Adds a run; if it belongs to the plan, at the end of its line.
    pub(super) fn add(&mut self, made: KnownRun, line: Option<usize>) {
        if self.by_place.contains_key(&made.place) {
            return;
        }
        let number = self.made.len();
        for known in &made.traits {
            self.by_name.entry(known.name.clone()).or_default().push(number);
        }
        if let Some(seed) = made.recipe.seed {
            self.by_seed.entry(seed.0).or_default().push(number);
        }
        let line = made.group.map(|group| (group, self.continued(number, group, line)));
        self.by_place.insert(made.place, number);
        self.made.push(made);
        self.undo_log.push(LineageChange::Added { line });
    }

    /// Returns the size of the first image of a run.
    pub(super) fn size(&self, place: RunPlace) -> Option<(u32, u32)> {
        self.made.get(*self.by_place.get(&place)?)?.traits.first()?.size
    }

    /// Returns the line that a run continues and the preceding run there. The last run of a line is preferred if it has
    /// the same or a similar prompt or the same workflow; otherwise an earlier run is used, since people go back. If
    /// nothing matches, returns a new line.
    fn line(&self, group: usize, facts: &ImageFacts) -> (usize, Option<usize>) {
        let none = Vec::new();
        let lines = self.lines.get(&group).unwrap_or(&none);
        let like = |(line, number): (usize, usize)| {
            let made = self.made.get(number)?;
            let likeness = likeness(&made.recipe, &facts.recipe);
            let workflow = facts.workflow.is_some() && facts.workflow == made.workflow;
            // In a tie, prefer the later run.
            (likeness >= SIMILAR || workflow).then_some(((likeness * 1000.0).round(), number, line))
        };
        let best = |candidates: &mut dyn Iterator<Item = (usize, usize)>| {
            candidates.filter_map(like).max_by(|one, other| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)))
        };
        let last = best(&mut lines.iter().filter_map(|runs| runs.last().copied()).enumerate());
        let earlier = || {
            let runs = lines.iter().enumerate().flat_map(|(line, runs)| runs.iter().map(move |run| (line, *run)));
            let mut runs: Vec<(usize, usize)> = runs.collect();
            runs.sort_unstable_by_key(|(_, number)| std::cmp::Reverse(*number));
            best(&mut runs.into_iter().take(MAX_COMPARED))
        };
        last.or_else(earlier).map_or((lines.len(), None), |(_, number, line)| (line, Some(number)))
    }

    /// Returns the image that the file names. It is certain if the two look alike or have the same size.
    fn named(&self, at: Timestamp, facts: &ImageFacts, traits: &[ImageTraits]) -> Option<(usize, String, bool)> {
        let mut unsure = None;
        for name in &facts.evidence.image_names {
            let numbers = self.by_name.get(&name.to_lowercase()).into_iter().flatten().rev();
            let earlier: Vec<&usize> = numbers.filter(|number| self.is_before(**number, at)).collect();
            for number in &earlier {
                let theirs = self.traits(**number).iter().filter(|known| known.name == name.to_lowercase());
                for their in theirs {
                    if traits.iter().any(|ours| near(ours, their)) {
                        return Some((**number, format!("it was made from {name:?}, and looks like it"), true));
                    }
                    let same_size = |ours: &ImageTraits| ours.size.is_some() && ours.size == their.size;
                    if !is_generic(name) && traits.iter().any(same_size) {
                        return Some((**number, format!("it was made from {name:?}, and has its size"), true));
                    }
                }
            }
            if let [only] = earlier.as_slice() {
                unsure = Some((**only, format!("it was made from an image named {name:?}"), false));
            }
        }
        unsure
    }

    /// Returns the run that has the same image at a smaller size.
    fn enlarged(&self, at: Timestamp, facts: &ImageFacts, traits: &[ImageTraits]) -> Option<(usize, String)> {
        let seed = facts.recipe.seed?;
        let numbers = self.by_seed.get(&seed.0).into_iter().flatten().rev();
        numbers.filter(|number| self.is_before(**number, at)).find_map(|number| {
            let made = self.made.get(*number)?;
            let alike = made
                .traits
                .iter()
                .any(|their| traits.iter().any(|ours| near(ours, their) && multiple(their.size, ours.size).is_some()));
            (made.recipe.prompt == facts.recipe.prompt && alike)
                .then(|| (*number, "the same prompt and seed at a larger size, and they look alike".to_owned()))
        })
    }

    /// Returns the preceding run in the line, if it counts as strong evidence.
    fn followed(&self, before: Option<usize>, facts: &ImageFacts) -> Option<(usize, String)> {
        let number = before?;
        let made = self.made.get(number)?;
        let likeness = likeness(&made.recipe, &facts.recipe);
        if likeness < SIMILAR || made.from_image != facts.evidence.from_image {
            return None;
        }
        let what = if made.recipe.prompt == facts.recipe.prompt { "the same prompt" } else { "a similar prompt" };
        Some((number, format!("it comes next in the session and has {what}")))
    }

    /// Returns the run of the same session that looks most similar. Similarity says little about images made from
    /// different prompts alone.
    fn alike(&self, group: usize, facts: &ImageFacts, traits: &[ImageTraits]) -> Option<(usize, String)> {
        let numbers = self.by_group.get(&group).into_iter().flatten().rev().take(MAX_COMPARED);
        let related = |number: &usize| {
            let Some(made) = self.made.get(*number) else { return false };
            let silent = facts.recipe.prompt.trim().is_empty() || made.recipe.prompt.trim().is_empty();
            silent || facts.evidence.from_image || likeness(&made.recipe, &facts.recipe) >= RELATED
        };
        let nearest = numbers.filter(|number| related(number)).filter_map(|number| {
            let distances = self.traits(*number).iter().flat_map(|their| {
                traits.iter().filter_map(|ours| Some(ours.perceptual_hash?.distance(their.perceptual_hash?)))
            });
            Some((distances.min()?, *number))
        });
        let (distance, number) = nearest.min_by_key(|(distance, _)| *distance)?;
        (distance <= PerceptualHash::NEAR).then(|| (number, format!("they look alike: {distance} of 128 bits differ")))
    }

    fn is_before(&self, number: usize, at: Timestamp) -> bool {
        self.made.get(number).is_some_and(|made| made.at <= at)
    }

    fn traits(&self, number: usize) -> &[ImageTraits] {
        self.made.get(number).map(|made| made.traits.as_slice()).unwrap_or_default()
    }
}

impl fmt::Display for RunPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunPlace::Recorded(id) => id.fmt(f),
            RunPlace::Planned(session, index) => write!(f, "new-{}#{index}", session + 1),
        }
    }
}

/// Returns whether two images have the same composition.
fn near(one: &ImageTraits, other: &ImageTraits) -> bool {
    matches!((one.perceptual_hash, other.perceptual_hash), (Some(one), Some(other)) if one.distance(other) <= PerceptualHash::NEAR)
}

#[cfg(test)]
mod tests {
    use crate::images::metadata::Evidence;
    use crate::model::Seed;

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(1_700_000_000_000 + seconds * 1000).unwrap()
    }

    fn facts(prompt: &str, seed: u64) -> ImageFacts {
        let recipe = Recipe { prompt: prompt.to_owned(), seed: Some(Seed(seed)), ..Recipe::default() };
        ImageFacts { recipe, ..ImageFacts::default() }
    }

    fn image(name: &str, side: u32, perceptual_hash: u128) -> ImageRef {
        serde_json::from_value(serde_json::json!({
            "hash": "0".repeat(64), "bytes": 1, "mimeType": "image/png", "width": side, "height": side, "name": name,
            "perceptualHash": format!("{perceptual_hash:032x}"),
        }))
        .unwrap()
    }

    const FAR: u128 = u128::MAX >> 1;

    /// Creates a lineage with these runs in session 0, one second apart.
    fn lineage(runs: &[(&ImageFacts, &[ImageRef])]) -> KnownRuns {
        let mut lineage = KnownRuns::default();
        for (number, (facts, images)) in (0..).zip(runs) {
            let origin = lineage.origin(0, at(number), facts, images);
            let place = RunPlace::Planned(0, u32::try_from(number).unwrap());
            lineage.add(KnownRun::new(place, Some(0), at(number), facts, images), Some(origin.line));
        }
        lineage
    }

    fn text(origin: Option<(RunPlace, String)>) -> String {
        origin.map_or_else(|| "none".to_owned(), |(place, reason)| format!("{place}: {reason}"))
    }

    #[test]
    fn a_reroll_follows_and_a_new_idea_does_not() {
        let first = facts("a red fox, snow, dusk, 85mm", 1);
        let lineage = lineage(&[(&first, &[image("a.png", 512, 0xff)])]);
        let of = |facts: &ImageFacts| lineage.origin(0, at(10), facts, &[image("b.png", 512, FAR)]);
        assert_eq!(
            text(of(&facts("a red fox, snow, dusk, 85mm", 2)).parent),
            "new-1#0: it comes next in the session and has the same prompt"
        );
        assert_eq!(
            text(of(&facts("a red fox, snow, dawn, 85mm", 2)).parent),
            "new-1#0: it comes next in the session and has a similar prompt"
        );
        let other = of(&facts("portrait of an old sailor, oil painting", 3));
        assert_eq!((other.parent, other.likely, other.line), (None, None, 1));
        let unknown = of(&facts("", 4));
        assert_eq!((unknown.parent, unknown.line), (None, 1), "no prompt is like no prompt");
    }

    #[test]
    fn parallel_lines_are_kept_apart() {
        let (fox, sailor) = (facts("a red fox, snow", 1), facts("an old sailor, oil", 2));
        let lineage = lineage(&[
            (&fox, &[image("a.png", 512, 1)]),
            (&sailor, &[image("b.png", 512, FAR)]),
            (&fox, &[image("c.png", 512, 3)]),
        ]);
        let origin = lineage.origin(0, at(10), &facts("an old sailor, oil", 9), &[image("d.png", 512, FAR << 1)]);
        assert_eq!(
            (origin.line, text(origin.parent)),
            (1, "new-1#1: it comes next in the session and has the same prompt".to_owned())
        );
        let elsewhere = lineage.origin(1, at(10), &facts("an old sailor, oil", 9), &[]);
        assert_eq!(elsewhere.parent, None, "another session has lines of its own");
    }

    #[test]
    fn a_named_image_is_the_parent_if_other_evidence_agrees() {
        let first = facts("a fox", 1);
        let lineage = lineage(&[(&first, &[image("fox-final.png", 512, 0xff)])]);
        let mut from = facts("watercolour, boats in a harbour", 2);
        let names = ["Fox-final.png".to_owned()];
        from.evidence = Evidence { image_names: names.to_vec(), from_image: true, ..Evidence::default() };
        let of = |image: ImageRef| lineage.origin(0, at(10), &from, &[image]);
        assert!(text(of(image("x.png", 768, 0xfe)).parent).ends_with("and looks like it"));
        assert!(text(of(image("x.png", 512, FAR)).parent).ends_with("and has its size"));
        let unsure = of(image("x.png", 768, FAR));
        assert_eq!(unsure.parent, None);
        assert!(text(unsure.likely).contains("an image named"));
        let before = lineage.origin(0, at(-10), &from, &[image("x.png", 512, 0xff)]);
        assert_eq!(before.parent, None, "nothing comes from what was made later");
    }

    #[test]
    fn a_generic_name_and_the_same_size_are_not_enough() {
        let first = facts("a fox", 1);
        let lineage = lineage(&[(&first, &[image("ComfyUI_00001_.png", 512, 0xff)])]);
        let mut from = facts("watercolour, boats in a harbour", 2);
        let names = ["ComfyUI_00001_.png".to_owned()];
        from.evidence = Evidence { image_names: names.to_vec(), from_image: true, ..Evidence::default() };
        let of = |image: ImageRef| lineage.origin(0, at(10), &from, &[image]);
        assert!(text(of(image("x.png", 768, 0xfe)).parent).ends_with("and looks like it"));
        let unsure = of(image("x.png", 512, FAR));
        assert_eq!(unsure.parent, None, "every folder has a ComfyUI_00001_.png of that size");
        assert!(text(unsure.likely).contains("an image named"));
    }

    #[test]
    fn going_back_to_an_earlier_model_finds_its_run() {
        let with_model = |prompt: &str, seed, model: &str| {
            let mut facts = facts(prompt, seed);
            facts.recipe.model = Some(model.to_owned());
            facts
        };
        let runs = [with_model("a knight, armor", 1, "dreamshaper"), with_model("a knight, armor", 2, "rev")];
        let lineage = lineage(&[(&runs[0], &[]), (&runs[1], &[])]);
        let origin = lineage.origin(0, at(10), &with_model("a knight, armor, gold", 3, "dreamshaper"), &[]);
        assert_eq!(text(origin.parent), "new-1#0: it comes next in the session and has a similar prompt");
    }

    #[test]
    fn similarity_is_ignored_if_the_prompts_differ() {
        let lineage = lineage(&[(&facts("a red cat, sofa", 1), &[image("a.png", 512, 0xff00)])]);
        let origin = lineage.origin(0, at(10), &facts("a lighthouse, storm", 2), &[image("b.png", 512, 0xff01)]);
        assert_eq!((origin.parent, origin.likely), (None, None));
    }

    #[test]
    fn an_upscale_is_recognised_by_seed_size_and_similarity() {
        let lineage = lineage(&[(&facts("a fox", 7), &[image("a.png", 512, 0xff)])]);
        let of = |seed, side, perceptual_hash| {
            lineage.origin(1, at(10), &facts("a fox", seed), &[image("b.png", side, perceptual_hash)])
        };
        assert!(text(of(7, 1024, 0xfd).parent).contains("larger size"));
        assert_eq!(of(8, 1024, 0xfd).parent, None, "another seed");
        assert_eq!(of(7, 512, 0xfd).parent, None, "the same size");
        assert_eq!(of(7, 1024, FAR).parent, None, "another picture");
    }

    #[test]
    fn undoing_restores_the_previous_state() {
        let (fox, sailor) = (facts("a red fox, snow", 1), facts("an old sailor, oil", 2));
        let mut lineage = lineage(&[(&fox, &[image("a.png", 512, 1)])]);
        let next = |lineage: &KnownRuns, facts: &ImageFacts| {
            let origin = lineage.origin(0, at(10), facts, &[image("c.png", 512, FAR)]);
            (origin.line, text(origin.parent))
        };
        let before = (next(&lineage, &fox), next(&lineage, &sailor));
        lineage.commit();
        let mark = lineage.mark();
        for (number, facts) in (1..).zip([&sailor, &fox, &sailor]) {
            let origin = lineage.origin(0, at(number), facts, &[]);
            let made = KnownRun::new(
                RunPlace::Planned(0, u32::try_from(number).unwrap()),
                Some(0),
                at(number),
                facts,
                &[image("b.png", 512, 3)],
            );
            lineage.add(made, Some(origin.line));
        }
        lineage.adopt(RunPlace::Planned(0, 0), 0, &sailor, 1);
        assert_ne!((next(&lineage, &fox), next(&lineage, &sailor)), before);
        lineage.undo_to(mark);
        assert_eq!((next(&lineage, &fox), next(&lineage, &sailor)), before);
        assert_eq!(lineage.made.len(), 1);
        assert!(lineage.by_name.get("b.png").is_none_or(Vec::is_empty));
    }

    #[test]
    fn similarity_alone_makes_a_likely_parent() {
        let lineage = lineage(&[(&facts("a fox", 1), &[image("a.png", 512, 0xff00)])]);
        let origin = lineage.origin(0, at(10), &facts("", 2), &[image("b.png", 512, 0xff01)]);
        assert_eq!(origin.parent, None);
        assert_eq!(text(origin.likely), "new-1#0: they look alike: 1 of 128 bits differ");
        let flat = lineage.origin(0, at(10), &facts("", 2), &[image("b.png", 512, 0)]);
        assert_eq!(flat.likely, None, "one colour looks like any other");
    }
}
