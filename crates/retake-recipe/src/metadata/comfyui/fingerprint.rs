//! The fingerprint of a graph: the same for graphs of the same structure, whatever their node ids and values.

use super::graph::Graph;
use crate::Hash;

/// The number of rounds that distinguish a node by its neighbourhood. This also bounds cycles, which real graphs do not
/// have.
const ROUNDS: usize = 12;

/// Returns the fingerprint: every node is labelled by its class and, round by round, by the labels of its inputs; the
/// sorted labels are hashed.
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
