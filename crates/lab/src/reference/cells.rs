//! Helpers of [`super::derived`] and [`super::disagree`]: they find a cell by name, and describe it.

use super::{PrintedNumber, Range, report};

/// A cell of a table: report, table, row, column.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cell(
    pub(super) &'static str,
    pub(super) &'static str,
    pub(super) &'static str,
    pub(super) &'static str,
);

impl Cell {
    /// The figure in it. Every cell that this module names is tested to be there.
    pub(super) fn printed(self) -> PrintedNumber {
        let Cell(in_report, table, row, column) = self;
        report(in_report)
            .and_then(|report| report.table(table))
            .and_then(|table| table.figure(row, column))
            .unwrap_or_else(|| PrintedNumber {
                text: "missing".to_owned(),
                value: f64::NAN,
                half_unit: f64::NAN,
            })
    }

    pub(super) fn range(self) -> Range {
        self.printed().range()
    }

    pub(super) fn value(self) -> f64 {
        self.printed().value
    }

    /// Its place in the report, for a reader.
    pub(super) fn place(self) -> String {
        let Cell(in_report, table, row, _) = self;
        let number =
            report(in_report).and_then(|report| report.table(table)).map(|table| match table.id.as_str() {
                "stated" => "text".to_owned(),
                _ if table.number.is_empty() => table.title.clone(),
                _ => table.number.clone(),
            });
        format!("{}: {row}", number.unwrap_or_default())
    }
}

/// A figure that the text of a report states.
pub(super) fn stated(in_report: &'static str, row: &'static str) -> Cell {
    Cell(in_report, "stated", row, "Figure")
}
