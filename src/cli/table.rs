//! Tables: one line a row, as wide as the terminal, the last column cut first. Where the output is no terminal, nothing is cut.

use comfy_table::presets::NOTHING;
use comfy_table::{ColumnConstraint, ContentArrangement, Row, Width};

use super::output::{HEADING, NAME, Output, paint};
use super::words;

/// The widest that a column before the last may be on a terminal.
const MAX_COLUMN: u16 = 32;

/// Rows under a heading. The first column holds what a row is called, the last one what may be long.
pub(super) struct Table {
    heading: Option<Vec<&'static str>>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table.
    pub(super) fn new(heading: Vec<&'static str>) -> Table {
        Table { heading: Some(heading), rows: Vec::new() }
    }

    /// The same table without its heading, for pages after the first.
    pub(super) fn headless(mut self) -> Table {
        self.heading = None;
        self
    }

    /// Adds a row. Cells are cleaned and brought onto one line.
    pub(super) fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.iter().map(|cell| words::one_line(cell)).collect());
    }

    /// Leaves out columns in which no row has anything.
    pub(super) fn without_empty_columns(mut self) -> Table {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let used: Vec<bool> = (0..columns)
            .map(|column| self.rows.iter().any(|row| row.get(column).is_some_and(|cell| !cell.is_empty())))
            .collect();
        let keep = |column: usize| used.get(column).copied().unwrap_or(true);
        if let Some(heading) = &mut self.heading {
            *heading = heading.iter().enumerate().filter(|(n, _)| keep(*n)).map(|(_, cell)| *cell).collect();
        }
        for row in &mut self.rows {
            let cells = std::mem::take(row).into_iter().enumerate();
            *row = cells.filter(|(n, _)| keep(*n)).map(|(_, cell)| cell).collect();
        }
        self
    }

    /// Writes it.
    pub(super) fn print(self, output: &mut Output) {
        let lines = self.lines(output.width());
        let headed = self.heading.is_some();
        for (number, line) in lines.iter().enumerate() {
            if headed && number == 0 {
                output.line(paint(HEADING, line));
            } else if let Some((first, rest)) = line.split_once("  ") {
                output.line(format_args!("{}  {rest}", paint(NAME, first)));
            } else {
                output.line(paint(NAME, line));
            }
        }
    }

    fn lines(&self, width: Option<usize>) -> Vec<String> {
        let mut table = comfy_table::Table::new();
        table.load_style(NOTHING).set_truncation_indicator("…");
        if let Some(heading) = &self.heading {
            table.set_header(one_line_row(heading));
        }
        for row in &self.rows {
            table.add_row(one_line_row(row));
        }
        let last = table.column_count().saturating_sub(1);
        let widths = table.column_max_content_widths();
        for (number, (column, content)) in table.column_iter_mut().zip(widths).enumerate() {
            column.set_padding((0, if number == last { 0 } else { 2 }));
            if number != last && width.is_some() {
                // With the padding, which counts.
                column.set_constraint(ColumnConstraint::Absolute(Width::Fixed(content.min(MAX_COLUMN) + 2)));
            }
        }
        match width {
            Some(width) => {
                table.set_content_arrangement(ContentArrangement::Dynamic);
                table.set_width(u16::try_from(width).unwrap_or(u16::MAX));
            }
            None => {
                table.set_content_arrangement(ContentArrangement::Disabled);
            }
        }
        // A terminal too narrow for all columns gets what fits of each line.
        let fit = |line: String| {
            let line = line.trim_end();
            width.map_or_else(|| line.to_owned(), |width| words::cut(line, width))
        };
        table.lines().map(fit).collect()
    }
}

fn one_line_row<T: ToString>(cells: &[T]) -> Row {
    let mut row = Row::from(cells.iter().map(T::to_string).collect::<Vec<_>>());
    row.max_height(1);
    row
}

#[cfg(test)]
mod tests {
    use unicode_width::UnicodeWidthStr;

    use super::*;

    fn table() -> Table {
        let mut table = Table::new(vec!["SESSION", "ITERATIONS", "STATUS", "TITLE"]);
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
        assert_eq!(table().lines(Some(60)), [""]);
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
