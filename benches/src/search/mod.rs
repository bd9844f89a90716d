//! How fast is search? Words, phrases, prefixes, facets, similarity and counts, compared with SQLite's FTS5.

mod measure;

use crate::Settings;
use crate::report::{Report, Table, times};

pub(crate) fn run(settings: &Settings, report: &mut Report) {
    let sessions = if settings.full { 10_000 } else { 1_000 };
    let say = |text: &str| report.say(text);
    let results = measure::measure(&settings.data, sessions, settings.rounds, &say);
    let title = format!("Searching {} iterations: a page of 50 and the exact total", sessions * 100);
    let mut table = Table::new(title, &["question", "matches", "retake ms", "FTS5 ms", "x"]);
    for one in &results.questions {
        table.row(vec![
            one.name.clone(),
            one.total.to_string(),
            format!("{:.3}", one.ours),
            format!("{:.3}", one.theirs),
            times(one.theirs / one.ours),
        ]);
    }
    report.show("search", &table);
    let mut table = Table::new("What the index takes", &["what", "value"]);
    for (name, value) in &results.facts {
        table.row(vec![name.clone(), value.clone()]);
    }
    report.show("search", &table);
}
