//! Replacements, whose results must not be larger than a prompt can be, and the regular expressions of nodes. They are
//! those of Python, which mostly mean the same here; the others are not understood.

use std::cell::Cell;

use regex::{Regex, RegexBuilder, Replacer};

use crate::recipe::MAX_PROMPT_BYTES;

/// The maximum size of a compiled pattern: enough for a few classes of letters of all scripts.
const MAX_BYTES: usize = 1 << 20;
/// The maximum number of patterns compiled for a graph, since that takes longer than anything else that is done for a
/// node; real graphs have a few.
const MAX_COMPILED: u32 = 64;

/// Compiles patterns, as many as a real graph has.
#[derive(Debug, Default)]
pub(super) struct Patterns {
    compiled: Cell<u32>,
}

/// How a pattern is applied.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flags {
    pub(super) ignores_case: bool,
    pub(super) multiline: bool,
    pub(super) dotall: bool,
}

impl Patterns {
    /// Compiles a pattern; `None` if it is not understood, or if there were too many.
    pub(super) fn compile(&self, pattern: &str, flags: Flags) -> Option<Regex> {
        let compiled = self.compiled.get();
        self.compiled.set(compiled.saturating_add(1));
        if compiled >= MAX_COMPILED {
            return None;
        }
        RegexBuilder::new(pattern)
            .case_insensitive(flags.ignores_case)
            .multi_line(flags.multiline)
            .dot_matches_new_line(flags.dotall)
            .size_limit(MAX_BYTES)
            .build()
            .ok()
    }
}

/// Replaces all occurrences of a text; `None` if the result is longer than a prompt can be.
pub(super) fn replaced(of: &str, find: &str, by: &str) -> Option<String> {
    if find.is_empty() {
        return Some(of.to_owned());
    }
    let added = of.matches(find).count().saturating_mul(by.len());
    (of.len().saturating_add(added) <= MAX_PROMPT_BYTES).then(|| of.replace(find, by))
}

/// Replaces the first matches of a pattern, or all of them; `None` if the result may be longer than a prompt can be.
pub(super) fn replaced_matches(
    of: &str,
    find: &Regex,
    by: impl Replacer,
    length: usize,
    most: usize,
) -> Option<String> {
    let added = find.find_iter(of).count().saturating_mul(length);
    (of.len().saturating_add(added) <= MAX_PROMPT_BYTES).then(|| find.replacen(of, most, by).into_owned())
}
