//! The history of a gate: a line of JSON for each comparison, in a file that continuous integration keeps.
//!
//! Each entry holds the ratio of the new side to the old one. If the old side stays the same (a release), the
//! ratios depend only on the program, not on the machine.

use crate::regular_file;
use crate::statistics::change_points::change_points;
use crate::statistics::gate::Gate;
use serde::{Deserialize, Serialize};
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

/// The version of the lines; a reader refuses a higher one.
pub const VERSION: u32 = 1;
/// The longest file that is read, bytes.
const BYTES_MAX: u64 = 64 << 20;
/// The longest label, characters.
const LABEL_MAX: usize = 200;
/// The seed of the test of change points.
const SEED: u64 = 1;

/// One comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// [`VERSION`] when it was written.
    pub version: u32,
    /// When the run began, RFC 3339, UTC.
    pub at: String,
    /// What was compared, for example a commit.
    pub label: String,
    /// The suite.
    pub suite: String,
    /// The new side.
    pub system: String,
    /// The old side.
    pub against: String,
    /// The outcome.
    pub gate: Gate,
}

/// The entries of one system against one other with one suite, in their order, and where their level changed.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// The suite.
    pub suite: String,
    /// The new side.
    pub system: String,
    /// The old side.
    pub against: String,
    /// The entries.
    pub entries: Vec<Entry>,
    /// The places of the entries with which a new level begins.
    pub changes: Vec<usize>,
}

/// Appends an entry to a file, which is created if it is missing.
pub fn append(path: &Path, entry: &Entry) -> Result<(), String> {
    let place = |problem: String| format!("the history {}: {problem}", path.display());
    if path.exists() {
        // A file that is not a history is not written to.
        read(path)?;
    }
    let label: String = entry.label.chars().filter(|c| !c.is_control()).take(LABEL_MAX).collect();
    let mut line =
        serde_json::to_vec(&Entry { label, ..entry.clone() }).map_err(|error| place(error.to_string()))?;
    line.push(b'\n');
    let mut file =
        OpenOptions::new().create(true).append(true).open(path).map_err(|error| place(error.to_string()))?;
    file.write_all(&line).map_err(|error| place(error.to_string()))
}

/// Reads a history.
pub fn read(path: &Path) -> Result<Vec<Line>, String> {
    let place = |problem: String| format!("the history {}: {problem}", path.display());
    let text = regular_file::read_text(path, BYTES_MAX).map_err(|error| place(error.to_string()))?;
    parse(&text).map_err(place)
}

/// Reads the text of a history.
pub fn parse(text: &str) -> Result<Vec<Line>, String> {
    let mut lines: Vec<Line> = Vec::new();
    for (number, text) in text.lines().enumerate().filter(|(_, text)| !text.trim().is_empty()) {
        let wrong = |problem: String| format!("line {}: {problem}", number + 1);
        let entry: Entry = serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
        if entry.version > VERSION {
            return Err(wrong(format!("its version {} is newer than this program's", entry.version)));
        }
        if !(entry.gate.ratio.estimate > 0.0 && entry.gate.ratio.estimate.is_finite()) {
            return Err(wrong("its ratio is not a positive number".to_owned()));
        }
        let same = |line: &&mut Line| {
            (&line.suite, &line.system, &line.against) == (&entry.suite, &entry.system, &entry.against)
        };
        match lines.iter_mut().find(same) {
            Some(line) => line.entries.push(entry),
            None => lines.push(Line {
                suite: entry.suite.clone(),
                system: entry.system.clone(),
                against: entry.against.clone(),
                entries: vec![entry],
                changes: Vec::new(),
            }),
        }
    }
    for line in &mut lines {
        let values: Vec<f64> = line.entries.iter().map(|entry| entry.gate.ratio.estimate.ln()).collect();
        line.changes = change_points(&values, SEED);
    }
    Ok(lines)
}

/// A history of two levels, for tests of crates above.
#[cfg(any(test, feature = "sample"))]
pub fn sample() -> Vec<Entry> {
    use crate::statistics::Interval;
    use crate::statistics::gate::Verdict;
    let entry = |number: usize| {
        let estimate = if number < 12 { 1.0 } else { 1.05 } + 0.002 * (number % 3) as f64;
        Entry {
            version: VERSION,
            at: format!("2026-11-{:02}T10:00:00Z", number + 1),
            label: format!("commit {number}"),
            suite: "webbench-1.1-static".to_owned(),
            system: "new".to_owned(),
            against: "release".to_owned(),
            gate: Gate {
                runs: 5,
                ratio: Interval { low: estimate * 0.995, estimate, high: estimate * 1.005 },
                tolerated: 0.01,
                verdict: if number < 12 { Verdict::NoChangeShown } else { Verdict::Worse },
            },
        }
    };
    (0..24).map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_history_is_read_as_it_was_written_and_its_change_is_found() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("history.jsonl");
        for entry in sample() {
            append(&path, &entry).unwrap();
        }
        let lines = read(&path).unwrap();
        assert_eq!((lines.len(), &lines[0].entries), (1, &sample()));
        assert_eq!(lines[0].changes, [12]);
    }

    #[test]
    fn what_is_no_history_is_refused_and_left_alone() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("notes.txt");
        std::fs::write(&path, "dear diary\n").unwrap();
        let error = append(&path, &sample()[0]).unwrap_err();
        assert!(error.contains("notes.txt: line 1: "), "{error}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "dear diary\n");
        let newer = serde_json::to_string(&Entry { version: 9, ..sample()[0].clone() }).unwrap();
        assert_eq!(parse(&newer), Err("line 1: its version 9 is newer than this program's".to_owned()));
    }

    proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(text in "\\PC{0,200}") {
            let _ = parse(&text);
        }
    }
}
