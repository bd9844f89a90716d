//! The values of known classes of nodes, in the order in which ComfyUI's editor saves them.
//!
//! `classes.txt` has one line per class: its name, a tab, and the names of its values up to the last one that a reading
//! may need. It was compiled from what public node packs declare as their inputs and from the lists of nodes that
//! ComfyUI's server returns; only names, order and types were taken. A class whose declaration changed, or a name that
//! several packs use, has several lines. The lines are sorted by the bytes of the name, so that a class is found by
//! bisection without parsing the others.
//!
//! The type of a value follows its name: `#` for a whole number, `~` for any number, `?` for a Boolean, `+` for a seed
//! (which the editor may follow by a value that states what happens to it after a run), `*` for anything, `@` for a
//! choice that brings values of its own; all others are texts. A line names the values of a node only if all types fit,
//! since files are older or newer than the declaration.

use std::sync::LazyLock;

use serde_json::Value;

/// The lines of the table.
static LINES: LazyLock<Vec<(&str, &str)>> =
    LazyLock::new(|| include_str!("classes.txt").lines().filter_map(|line| line.split_once('\t')).collect());

/// The name of the value that the editor adds after a seed.
pub(super) const CONTROL: &str = "control_after_generate";

/// Returns the names of the values of a class, one for each value as far as they are known, and empty for values whose
/// names depend on a choice; `None` if the class is unknown, or if the values do not fit any of its declarations.
pub(super) fn names(class: &str, values: &[Value]) -> Option<Vec<&'static str>> {
    let first = LINES.partition_point(|(name, _)| *name < class);
    let lines = LINES.iter().skip(first).take_while(|(name, _)| *name == class);
    // Of several declarations that fit, the longest one says most.
    lines.filter_map(|(_, names)| aligned(names.split(','), values)).max_by_key(Vec::len)
}

/// Names values one by one; `None` if a value is not of its declared type.
fn aligned(names: impl Iterator<Item = &'static str>, values: &[Value]) -> Option<Vec<&'static str>> {
    let mut found: Vec<&str> = Vec::new();
    let mut names = names.map(typed).peekable();
    let mut chosen = false;
    while let Some((name, kind)) = names.next() {
        // The values of a choice follow it, up to the only number with a control if a seed is next.
        if std::mem::take(&mut chosen) {
            let seed = (kind == '+').then(|| seed_place(values)).flatten().filter(|place| *place >= found.len());
            let Some(place) = seed else { break };
            found.resize(place, "");
        }
        let Some(value) = values.get(found.len()) else { break };
        if !fits(value, kind) {
            return None;
        }
        found.push(name);
        chosen = kind == '@';
        // Older editors have a Boolean in the place of the control, and some nodes leave a `null` there.
        let none_expected = names.peek().is_none_or(|(_, kind)| *kind != '?');
        let controlled = |next: &Value| {
            is_control(next) || (kind == '+' && (next.is_null() || (next.is_boolean() && none_expected)))
        };
        if value.is_number() && values.get(found.len()).is_some_and(controlled) {
            found.push(CONTROL);
        }
    }
    Some(found)
}

/// Splits a name from the mark of its type.
fn typed(name: &'static str) -> (&'static str, char) {
    let marked = name.char_indices().next_back().filter(|(_, mark)| "#~?+*@".contains(*mark));
    marked.and_then(|(end, mark)| Some((name.get(..end)?, mark))).unwrap_or((name, '"'))
}

/// Returns the place of the only number with a control.
fn seed_place(values: &[Value]) -> Option<usize> {
    let mut places = values.windows(2).enumerate().filter_map(|(place, pair)| match pair {
        [seed, control] if seed.is_u64() && is_control(control) => Some(place),
        _ => None,
    });
    places.next().filter(|_| places.next().is_none())
}

/// Returns the only number with a control, which the editor adds after seeds.
pub(super) fn only_seed(values: &[Value]) -> Option<&Value> {
    values.get(seed_place(values)?)
}

fn fits(value: &Value, kind: char) -> bool {
    match kind {
        '#' | '+' => value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|number| number.fract() == 0.0),
        '~' => value.is_number(),
        // Some files have numbers in the place of Booleans.
        '?' => value.is_boolean() || value.as_u64().is_some_and(|number| number <= 1),
        '*' | '@' => true,
        _ => value.is_string() || value.is_null(),
    }
}

/// Returns whether a value states what happens to a seed after a run. Nothing but a seed is followed by one.
pub(super) fn is_control(value: &Value) -> bool {
    value.as_str().is_some_and(|it| ["fixed", "increment", "decrement", "randomize"].contains(&it))
}
