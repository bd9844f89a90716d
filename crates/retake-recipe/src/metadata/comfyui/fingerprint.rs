//! The shape of a graph, whatever its nodes are called and its values are: two graphs of one shape have one fingerprint.

use super::graph::Graph;
use crate::Hash;

/// How far around it a node is told apart. Cycles, which no real graph has, end here too.
const ROUNDS: usize = 12;

/// The fingerprint: every node is named by its class and, round by round, by the names of what goes into it; the sorted
/// names are hashed.
pub(super) fn fingerprint(graph: &Graph) -> Hash {
    let mut names: Vec<Hash> = graph.nodes.iter().map(|node| Hash::of(node.class.as_bytes())).collect();
    for _ in 0..ROUNDS.min(graph.nodes.len()) {
        names = graph
            .nodes
            .iter()
            .map(|node| {
                let mut links: Vec<Vec<u8>> = graph
                    .links(node)
                    .filter_map(|(input, from, slot)| {
                        let from = names.get(from)?;
                        Some([input.as_bytes(), b"\0", &slot.to_le_bytes(), &from.0].concat())
                    })
                    .collect();
                links.sort_unstable();
                Hash::of(&[node.class.as_bytes(), b"\0", &links.concat()].concat())
            })
            .collect();
    }
    names.sort_unstable();
    let all: Vec<u8> = names.iter().flat_map(|name| name.0).collect();
    Hash::of(&all)
}
