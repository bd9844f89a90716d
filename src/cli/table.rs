//! Tables: one line a row, as wide as the terminal, the last columns cut first. Where the output is no terminal, nothing is cut.

use unicode_width::UnicodeWidthStr;

use super::output::{HEADING, NAME, Output, paint};
use super::words;

/// Between two columns.
const GAP: usize = 2;

/// Rows under a heading. The first column holds what a row is called, the last ones what may be long.
pub(super) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
    headed: bool,
}

struct Column {
    heading: &'static str,
    least: usize,
}

impl Table {
    /// An empty table: the headings, and how wide each column is at least, so that several pages line up.
    pub(super) fn new<const N: usize>(columns: [(&'static str, usize); N]) -> Table {
        Table::of(columns.to_vec())
    }

    /// The same, for as many columns as there happen to be.
    pub(super) fn of(columns: Vec<(&'static str, usize)>) -> Table {
        let columns = columns.into_iter().map(|(heading, least)| Column { heading, least }).collect();
        Table { columns, rows: Vec::new(), headed: true }
    }

    /// The same table without its headings, for pages after the first.
    pub(super) fn headless(mut self) -> Table {
        self.headed = false;
        self
    }

    /// Adds a row. Cells are cleaned and brought onto one line.
    pub(super) fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.row_of(cells.to_vec());
    }

    /// The same, for as many columns as there happen to be.
    pub(super) fn row_of(&mut self, cells: Vec<String>) {
        self.rows.push(cells.iter().map(|cell| words::one_line(cell)).collect());
    }

    /// Leaves out columns in which no row has anything.
    pub(super) fn without_empty_columns(mut self) -> Table {
        let is_used = |number: usize| self.rows.iter().any(|row| row.get(number).is_some_and(|cell| !cell.is_empty()));
        let used: Vec<bool> = (0..self.columns.len()).map(is_used).collect();
        retain(&mut self.columns, &used);
        self.rows.iter_mut().for_each(|row| retain(row, &used));
        self
    }

    /// Writes it.
    pub(super) fn print(self, output: &mut Output) {
        let lines = self.lines(output.width());
        for (number, line) in lines.iter().enumerate() {
            if self.headed && number == 0 {
                output.line(paint(HEADING, line));
            } else if let Some((first, rest)) = line.split_once("  ") {
                output.line(format_args!("{}  {rest}", paint(NAME, first)));
            } else {
                output.line(paint(NAME, line));
            }
        }
    }

    fn lines(&self, width: Option<usize>) -> Vec<String> {
        let heading = self.columns.iter().map(|column| column.heading.to_owned()).collect();
        let mut rows: Vec<Vec<String>> = std::iter::once(heading).chain(self.rows.iter().cloned()).collect();
        let last = self.columns.len().saturating_sub(1);
        let mut left = width.unwrap_or(usize::MAX);
        let mut widths = Vec::new();
        for (number, column) in self.columns.iter().enumerate() {
            // The last two, of which both may be long, share what the others leave.
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
            let cells = row.iter().zip(&widths);
            let line: String =
                cells.map(|(cell, width)| format!("{cell}{}", " ".repeat(width - cell.width()))).collect();
            let line = line.trim_end();
            // A terminal too narrow for all columns gets what fits of each line.
            width.map_or_else(|| line.to_owned(), |width| words::cut(line, width))
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
    fn nothing_is_cut_where_nobody_looks() {
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
