//! The page of an exported session: its story, step by step, in Markdown that also reads well as plain text. Recorded
//! text is escaped, so that it cannot become markup, a link or an image.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::model::diff::RecipeDiff;
use crate::model::{Head, Iteration, IterationState, OutcomeStatus, Timestamp};

/// The contents of a page.
pub(super) struct StoryPage<'a> {
    /// The session.
    pub(super) head: &'a Head,
    /// Its iterations.
    pub(super) steps: &'a [ExportedStep<'a>],
    /// The contact sheets in the same folder.
    pub(super) sheets: &'a [String],
}

/// An iteration, and the files of its images in the same folder.
pub(super) struct ExportedStep<'a> {
    pub(super) index: u32,
    pub(super) state: &'a IterationState,
    pub(super) files: Vec<String>,
}

/// Returns the page as Markdown.
pub(super) fn page(page: &StoryPage<'_>) -> String {
    let StoryPage { head, steps, sheets } = page;
    let mut out = String::new();
    let id = head.id.to_string();
    let title = head.title.as_deref().map_or_else(|| id.clone(), plain);
    let _ = writeln!(out, "# {title}\n");
    let mut about = vec![format!("`{id}`")];
    about.extend(head.project.as_deref().map(|project| format!("project {}", plain(project))));
    about.push(if steps.len() == 1 { "1 iteration".to_owned() } else { format!("{} iterations", steps.len()) });
    if let Some(span) = head.span {
        about.push(format!("{} to {} UTC", minute(span.created_at), minute(span.last_modified_at)));
    }
    if head.archived {
        about.push("archived".to_owned());
    }
    let _ = writeln!(out, "{}\n", about.join(" · "));
    for sheet in *sheets {
        let _ = writeln!(out, "![contact sheet]({sheet})\n");
    }
    let states: BTreeMap<u32, &IterationState> = steps.iter().map(|step| (step.index, step.state)).collect();
    for step in *steps {
        write_step(&mut out, head, &states, step);
    }
    let _ = writeln!(out, "---\nMade with Retake. Every image has its recipe and its reference inside.");
    out
}

/// Returns the changes from an iteration's parent, if the parent is in the same session.
pub(super) fn step<S: std::borrow::Borrow<IterationState>>(
    states: &BTreeMap<u32, S>,
    state: &IterationState,
) -> Option<RecipeDiff> {
    let parent = states.get(&state.iteration.parent?.index)?.borrow();
    Some(RecipeDiff::between(&parent.iteration.recipe, &state.iteration.recipe))
}

/// Returns a rating as stars: `★★★★☆`.
pub(super) fn stars(rating: u8) -> String {
    (1..=5).map(|star| if star <= rating { '★' } else { '☆' }).collect()
}

fn write_step(out: &mut String, head: &Head, states: &BTreeMap<u32, &IterationState>, shown: &ExportedStep<'_>) {
    let ExportedStep { index, state, files } = shown;
    let Iteration { created_at, recipe, outcome, parent, parent_reason, likely_parent, .. } = &state.iteration;
    let here = parent.filter(|parent| parent.session == head.id);
    let diff = here.and_then(|_| step(states, state));
    let label = diff.as_ref().map(|diff| format!(" · {}", diff.label)).unwrap_or_default();
    let rating = state.annotation.rating.map(|rating| format!(" · {}", stars(rating))).unwrap_or_default();
    let _ = writeln!(out, "## {index}{label}{rating}\n");
    for file in files {
        let _ = writeln!(out, "![iteration {index}]({file})\n");
    }
    match recipe.prompt.trim() {
        "" => out.push_str("*no prompt is known*\n"),
        prompt => quote(out, prompt),
    }
    out.push('\n');
    if let Some(negative) = &recipe.negative_prompt {
        let _ = writeln!(out, "not: {}\n", plain(negative));
    }
    let mut from = match (parent, here) {
        (Some(_), Some(here)) => format!("from {}", here.index),
        (Some(parent), None) => format!("from {parent}"),
        (None, _) => String::new(),
    };
    if let Some(reason) = parent_reason {
        let _ = write!(from, " ({})", plain(reason));
    }
    if let Some(diff) = diff.filter(|diff| !diff.summary.is_empty()) {
        let _ = write!(from, ": {}", plain(&diff.summary));
    }
    if let Some(likely) = likely_parent {
        let _ = write!(from, "likely from {} ({})", likely.reference, plain(&likely.reason));
    }
    if !from.is_empty() {
        let _ = writeln!(out, "{from}\n");
    }
    let fact = |name: &str, value: &str| format!("{} {}", name.to_lowercase(), plain(value));
    let mut facts: Vec<String> = recipe.facts().iter().map(|(label, value)| fact(label, value)).collect();
    facts.extend(outcome.cost.as_ref().map(|cost| fact("cost", &format!("{} {}", cost.amount, cost.currency))));
    facts.push(format!("{} UTC", minute(*created_at)));
    let _ = writeln!(out, "{}\n", facts.join(" · "));
    let failed = match outcome.status {
        OutcomeStatus::Succeeded => None,
        OutcomeStatus::Failed => Some("failed"),
        OutcomeStatus::Refused => Some("refused"),
    };
    if let Some(failed) = failed {
        let _ = writeln!(out, "**{failed}** {}\n", plain(outcome.message.as_deref().unwrap_or_default()));
    }
    if !state.annotation.tags.is_empty() {
        let tags: Vec<String> = state.annotation.tags.iter().map(|tag| plain(tag)).collect();
        let _ = writeln!(out, "tags: {}\n", tags.join(", "));
    }
    if let Some(note) = &state.annotation.note {
        quote(out, note);
        out.push('\n');
    }
}

/// Appends a text of several lines as a block quote.
fn quote(out: &mut String, text: &str) {
    for line in text.lines() {
        let _ = writeln!(out, "> {}  ", plain(line));
    }
}

/// Returns the text on one line, escaped so that Markdown shows it verbatim.
fn plain(text: &str) -> String {
    let mut shown = String::with_capacity(text.len() + 16);
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut before = ' ';
    let mut numbered = true;
    for (at, c) in words.char_indices() {
        let first = at == 0;
        numbered &= c.is_ascii_digit() || (!first && matches!(c, '.' | ')'));
        let markup = match c {
            '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '#' | '|' | '~' | '&' | '!' | '$' | '^' | '@' => true,
            '+' | '-' | '=' => first,
            '.' | ')' => numbered && !first || before == 'w',
            // A bare URL would become a link.
            ':' => before.is_ascii_alphabetic(),
            _ => false,
        };
        if c.is_control() || is_invisible(c) {
            continue;
        }
        if markup {
            shown.push('\\');
        }
        shown.push(c);
        before = c;
    }
    shown
}

/// Returns whether a character is invisible or changes the direction of the text after it.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// Returns a time to the minute: `2025-12-11 14:45`.
fn minute(at: Timestamp) -> String {
    let text = at.to_string();
    text.get(..16).unwrap_or(&text).replacen('T', " ", 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_text_stays_text() {
        for (text, shown) in [
            ("a red fox, snow (dusk:1.2)", r"a red fox, snow (dusk\:1.2)"),
            ("<script>alert(1)</script>", r"\<script\>alert(1)\</script\>"),
            ("![x](http://evil/p.png)", r"\!\[x\](http\://evil/p.png)"),
            ("# a heading\n- a list", r"\# a heading - a list"),
            ("1. first", r"1\. first"),
            ("- dash", r"\- dash"),
            ("see www.example.org", r"see www\.example.org"),
            ("a\u{202e}b\u{1b}[31m", r"ab\[31m"),
            ("a|b `c` *d* _e_ ~f~", r"a\|b \`c\` \*d\* \_e\_ \~f\~"),
        ] {
            assert_eq!(plain(text), shown);
        }
    }
}
