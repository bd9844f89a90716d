//! The fingerprint of a graph: the same for graphs of one shape, whatever their nodes are called and their values are.

use super::graph::Graph;
use crate::Hash;

/// How many rounds distinguish a node by its surroundings. Cycles, which no real graph has, end here too.
const ROUNDS: usize = 12;

/// Returns the fingerprint: every node is named by its class and, round by round, by the names of its inputs; the sorted
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
