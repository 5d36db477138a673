//! A result in other forms: WebBench's workbook, WebStone's text, CSV, Markdown, and JUnit for continuous
//! integration.
//!
//! Each is made from the result alone, like the report, so it can be made at any time (`touchstone report
//! --format`).

mod csv;
mod junit;
mod markdown;
mod webstone;
mod workbook;

pub use csv::csv;
pub use junit::junit;
pub use markdown::markdown;
pub use webstone::{WebStone, webstone};
pub use workbook::workbook;
#[cfg(test)]
pub(crate) use workbook::{remarks as remarks_in_workbook, told as told_in_workbook};

use touchstone_lab::raw::RawMix;
use touchstone_lab::result::ResultFile;

/// A form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// A workbook for spreadsheets: WebBench's Summary Report and Client Data Report, with charts.
    Xlsx,
    /// The summary as comma-separated values.
    Csv,
    /// Run rules and mixes as tests.
    Junit,
    /// The peaks side by side, and how each system was started, in Markdown.
    Markdown,
    /// The run report of WebStone 2.0, one for each mix.
    Webstone,
}

impl Format {
    /// The name of its file in a result directory.
    pub fn file_name(self) -> &'static str {
        match self {
            Format::Xlsx => "report.xlsx",
            Format::Csv => "summary.csv",
            Format::Junit => "junit.xml",
            Format::Markdown => "summary.md",
            Format::Webstone => "webstone.txt",
        }
    }

    /// A result in this form; the text of an error states why it cannot be written. `raw` is its raw data;
    /// without it (empty), the bottlenecks have less evidence.
    pub fn write(self, result: &ResultFile, raw: &[RawMix]) -> Result<Vec<u8>, String> {
        match self {
            Format::Xlsx => workbook(result, raw),
            Format::Csv => Ok(csv(result).into_bytes()),
            Format::Junit => Ok(junit(result).into_bytes()),
            Format::Markdown => Ok(markdown(result).into_bytes()),
            Format::Webstone => Ok(webstone(result).into_bytes()),
        }
    }
}
