//! The report: one self-contained HTML file made from a [`ResultFile`], and from the raw data beside it, if
//! that exists. The raw data shows the bottleneck of a system, and whether every figure follows from the
//! measurements.
//!
//! It needs no network and no script: the charts are SVG drawn here, with their numbers as a table under
//! each. The templates escape all text from outside (output of systems, names, URLs, configuration files) and
//! make its control characters visible. A small script adds tooltips; the page's policy allows that script
//! and no other. The order of the sections is that of a reader's questions: what is the outcome, is it
//! reliable, what does it look like, what are the numbers, how do I repeat it.

mod acceleration;
#[cfg(test)]
mod accessibility;
mod appendix;
mod audit;
#[cfg(test)]
mod browser;
mod capacity;
mod chart;
mod compared;
mod conformance;
mod disclosure;
mod fairness;
mod figure;
#[cfg(test)]
pub(crate) mod fixture;
mod history;
mod interval;
mod latency;
#[cfg(test)]
mod layout;
mod page;
mod questions;
mod rates;
mod reference;
mod resources;
mod run_rules;
mod scale;
mod side_by_side;
mod spice;
mod streams;
mod style;
mod table;
mod tables;
#[cfg(test)]
mod tests;
mod thresholds;
mod timeline;
mod verdict_box;
mod view;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

pub use crate::audit::{AuditOutcome, audit_outcomes};
pub use reference::{REFERENCE_FILE_NAME, reference_html};
pub use side_by_side::{Side, SuitesDiffer, side_by_side};

use crate::planning::{self, Assumptions};
use crate::run_rules::Assessment;
use crate::{number, words};
use touchstone_lab::history::Line;
use touchstone_lab::raw::{self, RawMix};
use touchstone_lab::result::{Disclosure, MachineFacts, ResultFile, RunStatus, ToolFacts};

/// The name of the report in a result directory.
pub const FILE_NAME: &str = "report.html";

/// The report of one result, as HTML. With its raw data the report also has figures that only the raw data
/// shows.
pub fn html(result: &ResultFile, raw: Option<&[RawMix]>) -> String {
    html_with_history(result, raw, &[])
}

/// The same with the history of a gate.
pub fn html_with_history(result: &ResultFile, raw: Option<&[RawMix]>, history: &[Line]) -> String {
    let plans = planning::plan(result, raw.unwrap_or_default(), &Assumptions::default());
    page::page(result, &[Source::of("", result, raw)], &plans, history)
}

/// Writes the report of the result of a directory as `report.html` into it, completely or not at all. Returns
/// its path.
pub fn write_html(result: &ResultFile, directory: &Path) -> io::Result<PathBuf> {
    let path = directory.join(FILE_NAME);
    write_file(&path, &html(result, raw::read(directory).ok().as_deref()))?;
    Ok(path)
}

/// Writes a file so that a reader sees the old one or the whole new one, never a part: to a new file beside
/// it, then by renaming.
pub fn write_file(path: &Path, text: &str) -> io::Result<()> {
    let name = path.file_name().ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
    let mut temporary_name = std::ffi::OsString::from(".");
    temporary_name.push(name);
    temporary_name.push(format!(".{}.new", std::process::id()));
    let temporary = path.with_file_name(temporary_name);
    let written = write_whole(&temporary, text).and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        // The first error is reported; a left-over file does no harm.
        let _ = fs::remove_file(&temporary);
    }
    written
}

/// One run of a report: its facts except for its systems.
#[derive(Debug, Clone)]
struct Source {
    /// Its name among several; empty for a lone one.
    label: String,
    started_at: String,
    finished_at: String,
    command_line: Vec<String>,
    status: RunStatus,
    machine: MachineFacts,
    disclosure: Disclosure,
    tool: ToolFacts,
    /// Its class by the run rules.
    assessment: Assessment,
}

impl Source {
    fn of(label: &str, result: &ResultFile, raw: Option<&[RawMix]>) -> Source {
        Source {
            assessment: Assessment::of(result, raw),
            label: label.to_owned(),
            started_at: result.started_at.clone(),
            finished_at: result.finished_at.clone(),
            command_line: result.command_line.clone(),
            status: result.status.clone(),
            machine: result.machine.clone(),
            disclosure: result.disclosure.clone(),
            tool: result.tool.clone(),
        }
    }
}

fn write_whole(path: &Path, text: &str) -> io::Result<()> {
    let mut file: File = OpenOptions::new().write(true).create(true).truncate(true).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}
