//! Compares two prompts: by tag if they are lists of tags, by word if they are prose.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::align::align;
use super::tag::{Tag, tags};
use super::words::{self, Side};

/// What differs between two prompts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PromptDiff {
    /// What the changes are made of: `tags` between commas, or `words` where the prompts are prose.
    pub by: Unit,
    /// The changes, in the order of the prompts.
    pub changes: Vec<PromptChange>,
    /// Present and true when nothing differs but spaces, separators, or how the same weights are written.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reformatted: bool,
}

/// What changes are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Unit {
    /// Tags: the text between commas.
    Tags,
    /// Words.
    Words,
}

/// One change of a prompt. Places count tags, or words and marks, from 0.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PromptChange {
    /// What happened: `added`, `removed`, `reweighted`, `moved` (perhaps with another weight), or `reworded` (a tag that
    /// kept most of its words).
    pub kind: PromptChangeKind,
    /// The tag without its weight, or the words.
    pub text: String,
    /// What it was, when it was reworded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old_text: Option<String>,
    /// The weight it had; absent when that is 1, or did not change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old_weight: Option<f64>,
    /// The weight it has; absent when that is 1, or did not change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_weight: Option<f64>,
    /// Its place in the old prompt; absent when it was added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old_index: Option<u32>,
    /// Its place in the new prompt; absent when it was removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_index: Option<u32>,
}

/// What can happen to a part of a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum PromptChangeKind {
    /// It is new.
    Added,
    /// It is gone.
    Removed,
    /// It has another weight.
    Reweighted,
    /// It moved.
    Moved,
    /// Some of its words changed.
    Reworded,
}

impl PromptDiff {
    /// Compares two prompts; `None` if they are the same.
    pub fn between(old: &str, new: &str) -> Option<PromptDiff> {
        if old == new {
            return None;
        }
        let (old_tags, new_tags) = (tags(old), tags(new));
        let (by, changes) = if is_prose(&old_tags) && is_prose(&new_tags) {
            (Unit::Words, word_changes(old, new))
        } else {
            (Unit::Tags, tag_changes(&old_tags, &new_tags))
        };
        Some(PromptDiff { by, reformatted: changes.is_empty(), changes })
    }
}

/// The average number of words per tag above which a prompt is prose; one without separators always is.
const LONG_CLAUSE_WORDS: usize = 8;
/// The number of words from which a tag that was replaced by a similar one is shown by its words.
const REWORDED_WORDS: usize = 5;
/// The maximum number of combinations in a gap that is searched for reworded tags.
const MAX_PAIRS: usize = 4096;

fn is_prose(tags: &[Tag]) -> bool {
    let plain = tags.iter().all(|tag| tag.weight == 1.0);
    let words: usize = tags.iter().map(|tag| tag.text.split(' ').count()).sum();
    plain && (tags.len() <= 1 || words > LONG_CLAUSE_WORDS * tags.len())
}

fn word_changes(old: &str, new: &str) -> Vec<PromptChange> {
    let changes = words::runs(old, new).into_iter().filter_map(|run| {
        let (kind, old_index, new_index) = match run.side {
            Side::Both => return None,
            Side::Old => (PromptChangeKind::Removed, Some(run.old.start), None),
            Side::New => (PromptChangeKind::Added, None, Some(run.new.start)),
        };
        Some(PromptChange { old_index: place(old_index), new_index: place(new_index), ..change(kind, run.text) })
    });
    changes.collect()
}

fn tag_changes(old: &[Tag], new: &[Tag]) -> Vec<PromptChange> {
    let texts = |tags: &[Tag]| tags.iter().map(|tag| tag.text.clone()).collect::<Vec<_>>();
    let pairs = align(&texts(old), &texts(new));
    let mut changes = Changes { old, new, moves: Moves::of(old, new, &pairs), found: Vec::new() };
    let (mut from, mut to) = (0, 0);
    for (at_old, at_new) in pairs {
        changes.gap(from..at_old, to..at_new);
        changes.kept(at_old, at_new);
        (from, to) = (at_old + 1, at_new + 1);
    }
    changes.gap(from..old.len(), to..new.len());
    changes.found
}

struct Changes<'a> {
    old: &'a [Tag],
    new: &'a [Tag],
    moves: Moves,
    found: Vec<PromptChange>,
}

impl Changes<'_> {
    /// Adds the changes of a tag that kept its place in the order.
    fn kept(&mut self, old: usize, new: usize) {
        self.push(PromptChangeKind::Reweighted, Some(old), Some(new));
    }

    /// Adds the changes between two tags that stayed.
    fn gap(&mut self, old: Range<usize>, new: Range<usize>) {
        let reworded = self.reworded(old.clone(), new.clone());
        for at in old {
            if !self.moves.to.contains_key(&at) && !reworded.values().any(|from| *from == at) {
                self.push(PromptChangeKind::Removed, Some(at), None);
            }
        }
        for at in new {
            match (self.moves.from.get(&at).copied(), reworded.get(&at).copied()) {
                (Some(from), _) => self.push(PromptChangeKind::Moved, Some(from), Some(at)),
                (None, Some(from)) => self.push(PromptChangeKind::Reworded, Some(from), Some(at)),
                (None, None) => self.push(PromptChangeKind::Added, None, Some(at)),
            }
        }
    }

    /// Returns the tags of a gap that replaced similar ones, as positions in the new and in the old prompt.
    fn reworded(&self, old: Range<usize>, new: Range<usize>) -> HashMap<usize, usize> {
        let mut found = HashMap::new();
        if old.len().saturating_mul(new.len()) > MAX_PAIRS {
            return found;
        }
        for from in old.filter(|at| !self.moves.to.contains_key(at)) {
            let open = new.clone().filter(|at| !self.moves.from.contains_key(at) && !found.contains_key(at));
            let alike = open.filter(|at| match (self.old.get(from), self.new.get(*at)) {
                (Some(old), Some(new)) => is_reworded(&old.text, &new.text),
                _ => false,
            });
            if let Some(to) = alike.into_iter().next() {
                found.insert(to, from);
            }
        }
        found
    }

    fn push(&mut self, kind: PromptChangeKind, old_index: Option<usize>, new_index: Option<usize>) {
        let old = old_index.and_then(|at| self.old.get(at));
        let new = new_index.and_then(|at| self.new.get(at));
        let weights = (old.map_or(1.0, |tag| tag.weight), new.map_or(1.0, |tag| tag.weight));
        let (old_weight, new_weight) = match (old, new) {
            (Some(_), Some(_)) if weights.0 != weights.1 => (Some(weights.0), Some(weights.1)),
            (Some(_), Some(_)) if kind == PromptChangeKind::Reweighted => return,
            (Some(_), Some(_)) => (None, None),
            _ => (Some(weights.0).filter(|weight| *weight != 1.0), Some(weights.1).filter(|weight| *weight != 1.0)),
        };
        let Some(tag) = new.or(old) else { return };
        self.found.push(PromptChange {
            old_text: old.filter(|old| old.text != tag.text).map(|old| old.text.clone()),
            old_weight,
            new_weight,
            old_index: place(old_index),
            new_index: place(new_index),
            ..change(kind, &tag.text)
        });
    }
}

/// The tags that moved from one place to another.
struct Moves {
    /// The new position of a tag, by its old one.
    to: HashMap<usize, usize>,
    /// The old position of a tag, by its new one.
    from: HashMap<usize, usize>,
}

impl Moves {
    fn of(old: &[Tag], new: &[Tag], stayed: &[(usize, usize)]) -> Moves {
        let mut stayed_old = stayed.iter().map(|pair| pair.0).peekable();
        let mut stayed_new = stayed.iter().map(|pair| pair.1).peekable();
        let mut gone: HashMap<&str, VecDeque<usize>> = HashMap::new();
        for (at, tag) in old.iter().enumerate() {
            if stayed_old.next_if_eq(&at).is_none() {
                gone.entry(&tag.text).or_default().push_back(at);
            }
        }
        let mut moves = Moves { to: HashMap::new(), from: HashMap::new() };
        for (at, tag) in new.iter().enumerate() {
            if stayed_new.next_if_eq(&at).is_some() {
                continue;
            }
            if let Some(from) = gone.get_mut(tag.text.as_str()).and_then(VecDeque::pop_front) {
                moves.to.insert(from, at);
                moves.from.insert(at, from);
            }
        }
        moves
    }
}

/// Returns whether a long tag kept at least half of its words.
fn is_reworded(old: &str, new: &str) -> bool {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.split(' ').collect(), new.split(' ').collect());
    let all = old.len() + new.len();
    if old.len().max(new.len()) < REWORDED_WORDS || old.len().saturating_mul(new.len()) > MAX_PAIRS {
        return false;
    }
    align(&old, &new).len() * 4 >= all
}

fn change(kind: PromptChangeKind, text: &str) -> PromptChange {
    PromptChange {
        kind,
        text: text.to_owned(),
        old_text: None,
        old_weight: None,
        new_weight: None,
        old_index: None,
        new_index: None,
    }
}

fn place(index: Option<usize>) -> Option<u32> {
    index.and_then(|index| u32::try_from(index).ok())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::diff::summary;

    fn shown(old: &str, new: &str) -> String {
        PromptDiff::between(old, new).map(|diff| summary::prompt(&diff)).unwrap_or_default()
    }

    #[test]
    fn tags_are_added_removed_reweighted_and_moved() {
        assert_eq!(
            shown(
                "1girl, (red dress:1.2), standing in a forest, <lora:add_detail:0.8>",
                "1girl, solo, (red dress:1.35), sitting in a forest, golden hour, <lora:add_detail:0.6>"
            ),
            "+solo  ~red dress 1.2→1.35  -standing in a forest  +sitting in a forest  +golden hour  ~<lora:add_detail> 0.8→0.6"
        );
        assert_eq!(shown("a, b, c, d", "d, a, b, c"), "↕d");
        assert_eq!(shown("a, b, c, (d:1.2)", "d, a, b, c"), "↕d 1.2→1");
        assert_eq!(shown("a, b", "a, (b, c:1.3)"), "~b 1→1.3  +c 1.3");
        assert_eq!(shown("a, a, b", "a, b"), "-a");
    }

    #[test]
    fn a_long_tag_is_shown_by_its_words() {
        assert_eq!(
            shown("best quality, a cat in the snow at dawn, 8k", "best quality, a cat in the rain at dawn, 8k"),
            "-snow  +rain"
        );
        let diff =
            PromptDiff::between("a cat sleeping in the snow, 8k", "a cat sleeping in the (rain:1.2), 8k").unwrap();
        assert_eq!(diff.changes.len(), 1, "{diff:?}");
        assert_eq!(diff.changes[0].kind, PromptChangeKind::Reworded);
        assert_eq!(diff.changes[0].old_text.as_deref(), Some("a cat sleeping in the snow"));
    }

    #[test]
    fn prose_is_shown_by_its_words() {
        assert_eq!(shown("a glass bridge", "a glass bridge at night"), "+at night");
        assert_eq!(shown("a cat in the snow", "a dog in the snow"), "-cat  +dog");
        let old = "A photograph of an old lighthouse on a cliff while a storm rolls in, with waves that break against the rocks below it.";
        let new = old.replace("an old", "a ruined").replace("rocks", "boats");
        assert_eq!(shown(old, &new), "-an old  +a ruined  -rocks  +boats");
        assert_eq!(shown("a cat", "a cat, 8k"), "+8k", "what has tags is compared by them");
    }

    #[test]
    fn reformatting_is_not_a_change() {
        for (old, new) in [("a, b", "a,b"), ("((a)), b", "(a:1.21), b"), ("a, b", "a\nb,")] {
            let diff = PromptDiff::between(old, new).unwrap();
            assert_eq!((diff.changes.len(), diff.reformatted), (0, true), "{old:?} {new:?}");
        }
        assert_eq!(PromptDiff::between("a", "a"), None);
    }

    /// Applies the changes to the old tags.
    fn applied(old: &[Tag], diff: &PromptDiff) -> Vec<Tag> {
        let mut slots: Vec<Option<Tag>> = old.iter().cloned().map(Some).collect();
        let mut put: Vec<(u32, Tag)> = Vec::new();
        for change in &diff.changes {
            let weight = |weight: Option<f64>| weight.unwrap_or(1.0);
            match change.kind {
                PromptChangeKind::Reweighted => {
                    let tag = slots[change.old_index.unwrap() as usize].as_mut().unwrap();
                    assert_eq!((&tag.text, tag.weight), (&change.text, weight(change.old_weight)));
                    tag.weight = weight(change.new_weight);
                }
                PromptChangeKind::Removed => {
                    let tag = slots[change.old_index.unwrap() as usize].take().unwrap();
                    assert_eq!((&tag.text, tag.weight), (&change.text, weight(change.old_weight)));
                }
                PromptChangeKind::Added => {
                    let tag = Tag { text: change.text.clone(), weight: weight(change.new_weight) };
                    put.push((change.new_index.unwrap(), tag));
                }
                PromptChangeKind::Moved | PromptChangeKind::Reworded => {
                    let mut tag = slots[change.old_index.unwrap() as usize].take().unwrap();
                    assert_eq!(&tag.text, change.old_text.as_ref().unwrap_or(&change.text));
                    tag.text.clone_from(&change.text);
                    tag.weight = change.new_weight.unwrap_or(tag.weight);
                    put.push((change.new_index.unwrap(), tag));
                }
            }
        }
        let mut made: Vec<Tag> = slots.into_iter().flatten().collect();
        put.sort_by_key(|(at, _)| *at);
        for (at, tag) in put {
            made.insert(at as usize, tag);
        }
        made
    }

    fn prompt() -> impl Strategy<Value = String> {
        let tag = prop_oneof![
            8 => "[a-e]{1,2}",
            2 => "\\([a-e]:1\\.[1-9]\\)",
            1 => "\\(\\([a-e]\\)\\)",
            1 => "\\{[a-e], [a-e]\\}",
            1 => "1\\.[1-9]::[a-e]::",
            1 => "<lora:[a-c]:0\\.[1-9]>",
            1 => "[a-c] [a-c] [a-c] [a-c] [a-c] [a-c]",
            1 => Just("BREAK".to_owned()),
        ];
        prop::collection::vec(tag, 0..12).prop_map(|tags| tags.join(", "))
    }

    proptest! {
        #[test]
        fn applying_the_diff_yields_the_new_text(old in prompt(), new in prompt()) {
            prop_assert_eq!(PromptDiff::between(&old, &old), None);
            match PromptDiff::between(&old, &new) {
                Some(diff) if diff.by == Unit::Tags => prop_assert_eq!(applied(&tags(&old), &diff), tags(&new)),
                Some(diff) => prop_assert!(!diff.changes.is_empty() || diff.reformatted),
                None => prop_assert_eq!(old, new),
            }
        }

        #[test]
        fn any_text_can_be_compared(old in "\\PC{0,60}", new in "[(){}\\[\\]<>:,|\\\\0-9a.B A\n]{0,60}") {
            if let Some(diff) = PromptDiff::between(&old, &new) {
                prop_assert!(summary::prompt(&diff).len() < 4000);
                let json = serde_json::to_string(&diff).unwrap();
                prop_assert_eq!(serde_json::from_str::<PromptDiff>(&json).unwrap(), diff);
            }
            prop_assert_eq!(PromptDiff::between(&new, &new), None);
        }
    }

    #[test]
    fn the_longest_prompts_are_compared_quickly() {
        let most = crate::recipe::MAX_PROMPT_BYTES;
        let long = |part: &dyn Fn(usize) -> String| -> String {
            let mut text = String::new();
            let mut at = 0;
            while text.len() < most - 20 {
                text.push_str(&part(at));
                at += 1;
            }
            text
        };
        let prompts = [
            long(&|n| format!("{},", n % 7)),
            long(&|n| format!("{},", (n * n) % 11)),
            long(&|n| format!("({n}:1.2),")),
            long(&|n| format!("({}:1.{}),", n + n % 3, n % 9)),
            long(&|n| format!("word{} ", n % 13)),
            long(&|n| format!("word{} ", n * 3 % 17)),
            long(&|_| "\"".to_owned()),
        ];
        for (old, new) in prompts.iter().zip(prompts.iter().cycle().skip(1)) {
            assert!(PromptDiff::between(old, new).is_some());
        }
    }
}
