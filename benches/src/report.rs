//! Tables of results: medians, percentiles, and the same rows as lines of JSON.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use serde_json::{Map, Value};

/// The output of results: tables to the terminal, lines of JSON to a file.
pub(crate) struct Report {
    lines: File,
}

/// A table with column names; the first column is text, the others are numbers.
pub(crate) struct Table {
    title: String,
    columns: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Report {
    pub(crate) fn new(path: &Path) -> Report {
        Report { lines: File::create(path).unwrap() }
    }

    pub(crate) fn say(&self, text: &str) {
        println!("{text}");
    }

    /// Prints a table, and writes its rows as JSON.
    pub(crate) fn show(&mut self, question: &str, table: &Table) {
        let mut widths: Vec<usize> = table.columns.iter().map(|column| column.chars().count()).collect();
        for row in &table.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        let line = |cells: Vec<&str>| {
            let padded = cells.iter().zip(&widths).enumerate().map(|(at, (cell, width))| match at {
                0 => format!("{cell:<width$}"),
                _ => format!("{cell:>width$}"),
            });
            format!("| {} |", padded.collect::<Vec<_>>().join(" | "))
        };
        println!("\n{}\n", table.title);
        println!("{}", line(table.columns.clone()));
        let rules = widths.iter().enumerate().map(|(at, width)| match at {
            0 => "-".repeat(width + 2),
            _ => format!("{}:", "-".repeat(width + 1)),
        });
        println!("|{}|", rules.collect::<Vec<_>>().join("|"));
        for row in &table.rows {
            println!("{}", line(row.iter().map(String::as_str).collect()));
            let mut object = Map::new();
            object.insert("question".to_owned(), Value::from(question));
            object.insert("table".to_owned(), Value::from(table.title.as_str()));
            for (column, cell) in table.columns.iter().zip(row) {
                let number = cell.parse::<f64>().ok().map(Value::from);
                object.insert((*column).to_owned(), number.unwrap_or_else(|| Value::from(cell.as_str())));
            }
            writeln!(self.lines, "{}", Value::Object(object)).unwrap();
        }
    }
}

impl Table {
    pub(crate) fn new(title: impl Into<String>, columns: &[&'static str]) -> Table {
        Table { title: title.into(), columns: columns.to_vec(), rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, cells: Vec<String>) {
        assert_eq!(cells.len(), self.columns.len(), "a row of another width");
        self.rows.push(cells);
    }
}

/// Returns the value below which this share of the values lies.
pub(crate) fn percentile(values: &mut [f64], share: f64) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a length is an index")]
    let at = ((values.len() - 1) as f64 * share).round() as usize;
    values[at]
}

pub(crate) fn median(values: &[f64]) -> f64 {
    percentile(&mut values.to_vec(), 0.5)
}

/// Returns the median ratio of `ours` to `theirs` over the rounds, since other load on the machine affects both sides
/// of a round alike.
pub(crate) fn ratio(ours: &[f64], theirs: &[f64]) -> f64 {
    median(&ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs).collect::<Vec<_>>())
}

pub(crate) fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

pub(crate) fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

pub(crate) fn times(ratio: f64) -> String {
    format!("{ratio:.2}")
}

/// Returns the user and system time that all threads of this process have used, in seconds.
pub(crate) fn processor_time() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    // The name, in parentheses, may contain spaces; user and system time are the 12th and 13th fields after it, in
    // 1/100 s.
    let fields = stat.rsplit_once(')').unwrap().1.split_whitespace();
    fields.skip(11).take(2).map(|ticks| ticks.parse::<f64>().unwrap() / 100.0).sum()
}
