//! The five reports of 1996 to 2000 as data: every table with its source, the figures derived from the
//! tables, and the inconsistencies of the papers.
//!
//! The tables are in `data/*.toml`, every cell as it was printed. [`derived`] computes again each figure that
//! a paper derived from others, within what the roundings of its inputs allow; [`disagreements`] are the
//! statements that do not agree with their inputs. The reports are a reference for runs
//! (`touchstone report --reference`) and a test of this crate's own sums.

mod cells;
mod derived;
mod disagree;
mod little;
mod peaks;
mod printed;

pub use derived::{DerivedFigure, derived, static_classes};
pub use disagree::{Disagreement, disagreements};
pub use little::{LittleRow, little};
pub use peaks::{Kind, Peak, peaks};
pub use printed::{PrintedNumber, Range};

use serde::{Deserialize, Serialize};
use std::sync::LazyLock;

/// The files, in the order of their dates.
const FILES: [&str; 5] = [
    include_str!("data/fasttrack-1996.toml"),
    include_str!("data/compaq-1997.toml"),
    include_str!("data/bordermanager-1997.toml"),
    include_str!("data/iplanet-1999.toml"),
    include_str!("data/iplanet-2000.toml"),
];

/// One report.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// A short name, for example `compaq-1997`.
    pub id: String,
    /// Its title.
    pub title: String,
    /// Who wrote it.
    pub authors: String,
    /// When: RFC 3339, as exact as it is known.
    pub dated: String,
    /// The benchmark that it used.
    pub tool: String,
    /// How to find its tables: the meaning of the `section` of each.
    pub paging: String,
    /// Every table, and what the text states in figures, in their order.
    pub tables: Vec<Table>,
}

/// One table.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// Its name among those of its report; unique, as the printed numbers are not.
    pub id: String,
    /// Its number as it was printed; empty where it had none.
    pub number: String,
    /// Its title.
    pub title: String,
    /// Its place: the section, and the page if the report has pages.
    pub section: String,
    /// The names of the columns, the first (of the row's own name) left out.
    pub columns: Vec<String>,
    /// The rows: the row's name, then its cells as they were printed.
    pub rows: Vec<Vec<String>>,
}

impl Report {
    /// The table of that name.
    pub fn table(&self, id: &str) -> Option<&Table> {
        self.tables.iter().find(|table| table.id == id)
    }
}

impl Table {
    /// The cell of a row and a column, where it holds a figure.
    pub fn figure(&self, row: &str, column: &str) -> Option<PrintedNumber> {
        let at = self.columns.iter().position(|name| name == column)? + 1;
        let cells = self.rows.iter().find(|cells| cells.first().is_some_and(|name| name == row))?;
        PrintedNumber::parse(cells.get(at)?)
    }
}

/// The five reports, the oldest first.
pub fn reports() -> &'static [Report] {
    static REPORTS: LazyLock<Vec<Report>> = LazyLock::new(|| {
        let read = |text: &&str| toml::from_str(text).expect("the files are tested to be whole");
        FILES.iter().map(read).collect()
    });
    &REPORTS
}

/// The report of that name.
pub fn report(id: &str) -> Option<&'static Report> {
    reports().iter().find(|report| report.id == id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_is_whole_and_has_a_name_of_its_own() {
        let counts: Vec<(&str, usize)> =
            reports().iter().map(|report| (report.id.as_str(), report.tables.len())).collect();
        let expected = [
            ("fasttrack-1996", 14),
            ("compaq-1997", 9),
            ("bordermanager-1997", 7),
            ("iplanet-1999", 1),
            ("iplanet-2000", 17),
        ];
        assert_eq!(counts, expected);
        for report in reports() {
            for (index, table) in report.tables.iter().enumerate() {
                let place = format!("{}, {}", report.id, table.id);
                assert!(report.tables[..index].iter().all(|other| other.id != table.id), "{place}");
                assert!(!table.title.is_empty() && !table.section.is_empty(), "{place}");
                assert!(!table.rows.is_empty(), "{place}");
                for row in &table.rows {
                    assert_eq!(row.len(), table.columns.len() + 1, "{place}: {row:?}");
                    assert!(row.iter().all(|cell| !cell.trim().is_empty()), "{place}: {row:?}");
                }
                let mut names: Vec<&str> = table.rows.iter().map(|row| row[0].as_str()).collect();
                names.sort_unstable();
                names.dedup();
                assert_eq!(names.len(), table.rows.len(), "{place}: two rows of one name");
            }
        }
    }

    #[test]
    fn cells_are_found_by_their_names() {
        let table = report("compaq-1997").unwrap().table("table-5").unwrap();
        assert_eq!(table.figure("ProLiant 5000 2P", "Static HTML").unwrap().value, 1401.0);
        assert!(table.figure("ProLiant 5000 2P", "None").is_none());
        let table = report("iplanet-2000").unwrap().table("table-7").unwrap();
        assert!(table.figure("SPICE JSP requests/second", "Stronghold").is_none());
    }
}
