//! `touchstone compare`: whether two systems differ by more than the noise of one system.

use super::print::{print, print_for_reading};
use crate::exit::Exit;
use serde_json::json;
use std::path::{Path, PathBuf};
use touchstone_lab::compare::{self, Side};
use touchstone_lab::history::{self, Entry};
use touchstone_lab::read_result;
use touchstone_lab::result::{Compared, ResultFile};
use touchstone_lab::statistics::gate::Verdict;

/// The arguments of `touchstone compare`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  touchstone compare results/monday                                # its systems with each other
  touchstone compare results/before results/after                  # each system with itself
  touchstone compare results/monday --against release --history gate.jsonl --label v1.2
  touchstone compare results/before results/after --noise results/monday --noise results/tuesday")]
pub struct Arguments {
    /// One result, whose systems are compared with each other, or two results, each of whose systems is
    /// compared with itself
    #[arg(value_name = "RESULT", required = true, num_args = 1..=2)]
    results: Vec<PathBuf>,

    /// Two results of the same unchanged systems; their difference is the noise floor. Given twice
    #[arg(long, value_name = "RESULT")]
    noise: Vec<PathBuf>,

    /// A gate for continuous integration: compares the other systems of the RESULT with this one, or the
    /// systems of the RESULT with those of this result. Exit code 3 if processor time a request became worse
    #[arg(long, value_name = "SYSTEM|RESULT", conflicts_with = "noise")]
    against: Option<String>,

    /// With --against: the tolerated worsening, percent
    #[arg(long, value_name = "PERCENT", default_value_t = 1.0, requires = "against")]
    tolerate: f64,

    /// With --against: append the outcome to this file, whose change points `touchstone report --history`
    /// draws
    #[arg(long, value_name = "FILE", requires = "against")]
    history: Option<PathBuf>,

    /// With --history: a name for what was compared, for example a commit
    #[arg(long, value_name = "TEXT", default_value = "", requires = "history")]
    label: String,

    /// Seed of the bootstrap
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Compares, and prints the outcome.
pub fn run(arguments: Arguments) -> Exit {
    if let Some(against) = &arguments.against {
        return gate(&arguments, against);
    }
    match compared(&arguments) {
        Err(message) => {
            eprintln!("touchstone compare: {message}");
            Exit::Usage
        }
        Ok(found) => {
            if arguments.json {
                print(&format!("{:#}", json!({ "comparisons": found })));
            } else {
                print_for_reading(&found.iter().map(|it| it.sentence() + "\n").collect::<String>());
            }
            Exit::Done
        }
    }
}

fn compared(arguments: &Arguments) -> Result<Vec<Compared>, String> {
    let read = |paths: &[PathBuf]| -> Result<Vec<ResultFile>, String> {
        paths
            .iter()
            .map(|path| read_result::read(path).map(|read| read.0).map_err(|error| error.to_string()))
            .collect()
    };
    let results = read(&arguments.results)?;
    let noise = read(&arguments.noise)?;
    if !matches!(noise.len(), 0 | 2) {
        return Err("--noise is given twice: a noise floor is that of two results".to_owned());
    }
    for other in results.iter().chain(&noise).skip(1) {
        if other.suite.name != results[0].suite.name || other.suite.keep_alive != results[0].suite.keep_alive
        {
            return Err(format!(
                "{} and {} are different suites: their figures cannot be compared",
                results[0].suite.name, other.suite.name
            ));
        }
    }
    let noise: Vec<Vec<Side<'_>>> = noise.iter().map(|result| compare::sides("", result)).collect();
    let floor_of = |label: &str| match noise.as_slice() {
        [left, right] => {
            let find = |sides: &'_ [Side<'_>]| sides.iter().position(|side| side.label == label);
            find(left).zip(find(right)).map(|(first, second)| (&left[first], &right[second]))
        }
        _ => None,
    };
    let mut found = Vec::new();
    match results.as_slice() {
        // A system that took part twice provides the noise floor, unless one is named.
        [one] if noise.is_empty() => found = compare::of_result(one, arguments.seed, usize::MAX),
        [one] => {
            let sides = compare::sides("", one);
            for (index, first) in sides.iter().enumerate() {
                for second in &sides[index + 1..] {
                    found.extend(compare::compare(first, second, floor_of(&first.label), arguments.seed));
                }
            }
        }
        [before, after] => {
            let seconds = compare::sides("", after);
            for first in compare::sides("", before) {
                let Some(second) = seconds.iter().find(|side| side.label == first.label) else { continue };
                let (left, right) =
                    (labelled(&first, &arguments.results[0]), labelled(second, &arguments.results[1]));
                found.extend(compare::compare(&left, &right, floor_of(&first.label), arguments.seed));
            }
        }
        _ => {}
    }
    if found.is_empty() {
        return Err("the results have no measurements to compare".to_owned());
    }
    Ok(found)
}

/// The gate: prints the outcome and returns the exit code.
fn gate(arguments: &Arguments, against: &str) -> Exit {
    match gated(arguments, against) {
        Err(message) => {
            eprintln!("touchstone compare: {message}");
            Exit::Usage
        }
        Ok(found) => {
            if arguments.json {
                print(&format!("{:#}", json!({ "gates": found })));
            } else {
                let sentence = |entry: &Entry| entry.gate.sentence(&entry.system, &entry.against) + "\n";
                print_for_reading(&found.iter().map(sentence).collect::<String>());
            }
            let is_worse = found.iter().any(|entry| entry.gate.verdict == Verdict::Worse);
            if is_worse { Exit::ThresholdsNotMet } else { Exit::Done }
        }
    }
}

/// The verdicts, which are also in the history if one was named.
fn gated(arguments: &Arguments, against: &str) -> Result<Vec<Entry>, String> {
    if !(0.0..=1000.0).contains(&arguments.tolerate) {
        return Err("--tolerate must be from 0 to 1000".to_owned());
    }
    let read = |path: &Path| read_result::read(path).map(|read| read.0).map_err(|error| error.to_string());
    let [path] = arguments.results.as_slice() else {
        return Err("--against takes one RESULT".to_owned());
    };
    let result = read(path)?;
    let is_system = result.systems.iter().any(|system| system.name == against);
    let other = if is_system { None } else { Some(read(Path::new(against))?) };
    if other.as_ref().is_some_and(|other| other.suite.name != result.suite.name) {
        return Err(format!("{against} is a result of another suite"));
    }
    let new = compare::sides("", &result);
    let old = compare::sides("", other.as_ref().unwrap_or(&result));
    let mut found = Vec::new();
    for side in new.iter().filter(|side| !is_system || side.system != against) {
        let wanted = if is_system { against } else { side.system };
        let old = old.iter().find(|old| old.system == wanted && old.interface == side.interface);
        let Some(old) = old else { continue };
        let Some(gate) = compare::gate(side, old, arguments.tolerate / 100.0) else { continue };
        let name = |side: &Side<'_>| match side.interface {
            "" => side.system.to_owned(),
            interface => format!("{}, {interface}", side.system),
        };
        found.push(Entry {
            version: history::VERSION,
            at: result.started_at.clone(),
            label: arguments.label.clone(),
            suite: result.suite.name.clone(),
            system: name(side),
            against: if is_system { name(old) } else { format!("{} of {against}", name(old)) },
            gate,
        });
    }
    if found.is_empty() {
        return Err(format!("no mix of {} was measured on {against} too", path.display()));
    }
    if let Some(path) = &arguments.history {
        found.iter().try_for_each(|entry| history::append(path, entry))?;
    }
    Ok(found)
}

/// The same side, with its result in its name.
fn labelled<'a>(side: &Side<'a>, result: &Path) -> Side<'a> {
    Side { label: format!("{} ({})", side.label, result.display()), ..side.clone() }
}
