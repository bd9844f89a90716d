//! The layout of the iteration tree: one column for each open line, branches to the right, and the line of the last
//! iteration on the left.

use std::collections::{BTreeMap, HashMap, HashSet};

/// An iteration with its position in the tree.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Placed {
    /// Its index.
    pub(super) index: u32,
    /// The prefix of its first line.
    pub(super) head: String,
    /// The prefix of its other lines.
    pub(super) body: String,
}

/// The depth beyond which branches are not indented further.
const MAX_DEPTH: usize = 16;

/// Lays out iterations from top to bottom. Each is given with its parent, if that is among them.
pub(super) fn place(parents: &BTreeMap<u32, Option<u32>>) -> Vec<Placed> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    let mut roots = Vec::new();
    for (index, parent) in parents {
        match parent {
            // A parent with a higher index can only be due to damage.
            Some(parent) if parent < index && parents.contains_key(parent) => {
                children.entry(*parent).or_default().push(*index);
            }
            _ => roots.push(*index),
        }
    }
    let mut last_line = HashSet::new();
    let mut at = parents.keys().next_back().copied();
    while let Some(index) = at {
        last_line.insert(index);
        at = parents.get(&index).copied().flatten().filter(|parent| *parent < index);
    }

    let mut placed = Vec::new();
    // The iterations to place: the index, the prefix to the left of its column, and whether it branches off there.
    let mut open: Vec<(u32, String, bool)> = roots.into_iter().rev().map(|root| (root, String::new(), false)).collect();
    while let Some((index, left, branches_off)) = open.pop() {
        let mut next = children.remove(&index).unwrap_or_default();
        // The child that continues in this column comes last.
        next.sort_by_key(|child| (last_line.contains(child), *child));
        let column = if branches_off { format!("{left}├─") } else { left.clone() };
        let inside = if branches_off { format!("{left}│ ") } else { left };
        let going_on = next.pop();
        let body = format!("{inside}{}", if going_on.is_some() { "│ " } else { "  " });
        open.extend(going_on.map(|child| (child, inside.clone(), false)));
        let deep = inside.chars().count() >= 2 * MAX_DEPTH;
        open.extend(next.into_iter().rev().map(|child| (child, inside.clone(), !deep)));
        placed.push(Placed { index, head: format!("{column}o "), body });
    }
    placed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(parents: &[(u32, Option<u32>)]) -> Vec<String> {
        let lines = |it: Placed| [format!("{}#{}", it.head, it.index), it.body];
        let all = place(&parents.iter().copied().collect()).into_iter().flat_map(lines);
        all.map(|line| line.trim_end().to_owned()).collect()
    }

    #[test]
    fn a_line_stays_a_line() {
        assert_eq!(drawn(&[(0, None), (1, Some(0)), (2, Some(1))]), ["o #0", "│", "o #1", "│", "o #2", ""]);
        assert_eq!(drawn(&[]), Vec::<String>::new());
    }

    #[test]
    fn branches_are_drawn_to_the_right_of_the_main_line() {
        assert_eq!(
            drawn(&[(0, None), (1, Some(0)), (2, Some(1)), (3, Some(1)), (4, Some(0)), (5, Some(4)), (6, Some(4))]),
            [
                "o #0",
                "│", //
                "├─o #1",
                "│ │",
                "│ ├─o #2",
                "│ │",
                "│ o #3",
                "│", //
                "o #4",
                "│",
                "├─o #5",
                "│",
                "o #6",
                "",
            ]
        );
    }

    #[test]
    fn several_roots_are_drawn_separately() {
        assert_eq!(drawn(&[(3, None), (4, Some(9)), (7, Some(3))]), ["o #3", "│", "o #7", "", "o #4", ""]);
    }

    #[test]
    fn every_node_is_drawn_however_deep() {
        let deep: Vec<(u32, Option<u32>)> = (0..3000).map(|n: u32| (n, n.checked_sub(2 - n % 2))).collect();
        let placed = place(&deep.into_iter().collect());
        assert_eq!(placed.len(), 3000);
        assert!(placed.iter().all(|it| it.head.chars().count() < 40));
    }
}
