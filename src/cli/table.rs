//! Tables: one line per row, as wide as the terminal; the last columns are truncated first. Nothing is truncated in a
//! file or a pipe.

use std::collections::BTreeSet;

use unicode_width::UnicodeWidthStr;

use super::output::{FAINT, HEADING, NAME, Output, paint};
use super::words;

/// The space between two columns.
const GAP: usize = 2;

/// Rows below a heading. The first column names the row; the last ones may be long.
pub(super) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
    /// The rows whose last cell is a placeholder.
    faint: BTreeSet<usize>,
    headed: bool,
}

struct Column {
    heading: String,
    least: usize,
}

impl Table {
    /// Creates an empty table with headings and minimum widths, so that several pages line up.
    pub(super) fn new<const N: usize>(columns: [(&str, usize); N]) -> Table {
        Table::of(columns.to_vec())
    }

    /// Creates an empty table with any number of columns.
    pub(super) fn of(columns: Vec<(&str, usize)>) -> Table {
        let columns =
            columns.into_iter().map(|(heading, least)| Column { heading: heading.to_owned(), least }).collect();
        Table { columns, rows: Vec::new(), faint: BTreeSet::new(), headed: true }
    }

    /// Removes the headings, for pages after the first.
    pub(super) fn headless(mut self) -> Table {
        self.headed = false;
        self
    }

    /// Adds a row. Cells are sanitised and reduced to one line.
    pub(super) fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.row_of(cells.to_vec());
    }

    /// Adds a row with any number of cells.
    pub(super) fn row_of(&mut self, cells: Vec<String>) {
        self.rows.push(cells.iter().map(|cell| words::one_line(cell)).collect());
    }

    /// Marks the last cell of the last row as a placeholder.
    pub(super) fn faint(&mut self) {
        self.faint.extend(self.rows.len().checked_sub(1));
    }

    /// Removes columns that are empty in every row.
    pub(super) fn without_empty_columns(mut self) -> Table {
        let is_used = |number: usize| self.rows.iter().any(|row| row.get(number).is_some_and(|cell| !cell.is_empty()));
        let used: Vec<bool> = (0..self.columns.len()).map(is_used).collect();
        retain(&mut self.columns, &used);
        self.rows.iter_mut().for_each(|row| retain(row, &used));
        self
    }

    /// Writes the table.
    pub(super) fn print(self, output: &mut Output) {
        let lines = self.laid_out(output.width());
        for (number, (line, last)) in lines.iter().enumerate() {
            let row = number.checked_sub(usize::from(self.headed));
            if self.headed && number == 0 {
                output.line(paint(HEADING, line));
            } else if let Some((first, rest)) = line.split_once("  ") {
                let is_faint = row.is_some_and(|row| self.faint.contains(&row));
                let rest = match rest.split_at_checked(last.saturating_sub(first.len() + GAP)) {
                    Some((front, cell)) if is_faint => format!("{front}{}", paint(FAINT, cell)),
                    _ => rest.to_owned(),
                };
                output.line(format_args!("{}  {rest}", paint(NAME, first)));
            } else {
                output.line(paint(NAME, line));
            }
        }
    }

    #[cfg(test)]
    fn lines(&self, width: Option<usize>) -> Vec<String> {
        self.laid_out(width).into_iter().map(|(line, _)| line).collect()
    }

    /// Returns the lines, each with the byte offset of its last cell.
    fn laid_out(&self, width: Option<usize>) -> Vec<(String, usize)> {
        let heading = self.columns.iter().map(|column| column.heading.clone()).collect();
        let mut rows: Vec<Vec<String>> = std::iter::once(heading).chain(self.rows.iter().cloned()).collect();
        let last = self.columns.len().saturating_sub(1);
        let mut left = width.unwrap_or(usize::MAX);
        let mut widths = Vec::new();
        for (number, column) in self.columns.iter().enumerate() {
            // The last two columns, which may both be long, share the remaining width.
            let most = if number + 1 == last { left.saturating_sub(GAP) / 2 } else { left };
            let mut widest = column.least;
            for cell in rows.iter_mut().filter_map(|row| row.get_mut(number)) {
                *cell = words::cut(cell, most);
                widest = widest.max(cell.width());
            }
            left = left.saturating_sub(widest + GAP);
            widths.push(widest + GAP);
        }
        let laid_out = rows.iter().skip(usize::from(!self.headed)).map(|row| {
            let (mut line, mut last) = (String::new(), 0);
            for (cell, width) in row.iter().zip(&widths) {
                last = line.len();
                line += cell;
                line += &" ".repeat(width - cell.width());
            }
            let line = line.trim_end();
            // If the terminal is too narrow for all columns, the line is truncated.
            (width.map_or_else(|| line.to_owned(), |width| words::cut(line, width)), last)
        });
        laid_out.collect()
    }
}

fn retain<T>(items: &mut Vec<T>, kept: &[bool]) {
    let mut kept = kept.iter();
    items.retain(|_| kept.next().copied().unwrap_or(true));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new([("SESSION", 22), ("ITERATIONS", 0), ("STATUS", 0), ("TITLE", 0)]);
        let title =
            "A title that goes on\nfor longer than any terminal is wide, 猫猫猫猫猫猫猫猫 and then some more of it";
        table.row(["session-2025-12-11-001".into(), "12".into(), String::new(), title.into()]);
        table.row(["session-2025-12-11-1000".into(), "3".into(), String::new(), "Short".into()]);
        table.without_empty_columns()
    }

    #[test]
    fn a_terminal_is_never_too_narrow() {
        for width in 1..150 {
            let lines = table().lines(Some(width));
            assert_eq!(lines.len(), 3, "one line a row at {width}: {lines:#?}");
            assert!(lines.iter().all(|line| line.width() <= width), "{width}: {lines:#?}");
        }
        assert_eq!(
            table().lines(Some(60)),
            [
                "SESSION                  ITERATIONS  TITLE",
                "session-2025-12-11-001   12          A title that goes on f…",
                "session-2025-12-11-1000  3           Short",
            ]
        );
    }

    #[test]
    fn nothing_is_truncated_in_a_pipe() {
        assert_eq!(
            table().lines(None),
            [
                "SESSION                  ITERATIONS  TITLE",
                "session-2025-12-11-001   12          A title that goes on for longer than any terminal is wide, 猫猫猫猫猫猫猫猫 and then some more of it",
                "session-2025-12-11-1000  3           Short",
            ]
        );
    }
}
