//! Searching from a terminal: matches, no matches, and errors in a query.

use crate::support::{TestWorkspace, Transcript};

#[test]
fn what_is_found_and_what_cannot_be_asked() {
    let workspace = TestWorkspace::new();
    let mut said = Transcript::new(&workspace);
    said.run(&["search"]);
    workspace.record(
        0,
        &["a glass bridge at night", "--model", "SDXL 1.0", "--seed", "42", "--title", "Bridges", "--project", "cards"],
    );
    workspace.record(1, &["glass bridges in fog, \u{732b}\u{732b}", "--negative-prompt", "stone", "--cost", "0.04"]);
    workspace.run(&["annotate", "latest", "--rating", "4", "--tag", "hero"]);
    for args in [
        &["search", "glass"] as &[&str],
        &["search", "bridg*", "-fog"],
        &["search", "glass", "model:SDXL 1.0", "--facets"],
        &["search", "rating:>=4 stone", "--sort", "best"],
        &["search", "\u{732b}", "--limit", "1"],
        &["search", "glass", "river"],
        &["search", "bridge modle:sdxl"],
        &["search", "(glass"],
        &["search", "before:soon", "--json"],
        &["search", "--similar-to", "latest"],
        &["search", "--json", "bridge"],
        &["search", "\"bridg\""],
        &["search", "cost:>0.01"],
        &["list", "--projects"],
        &["list", "--projects", "--query", "x"],
    ] {
        said.run(args);
    }
    said.check("searching");
}
