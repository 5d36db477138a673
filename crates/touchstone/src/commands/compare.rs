//! `touchstone compare`: whether two systems differ, against the noise that a system shows against itself.

use super::print::{print, print_for_reading};
use crate::exit::Exit;
use serde_json::json;
use std::path::{Path, PathBuf};
use touchstone_lab::compare::{self, Side};
use touchstone_lab::read_result;
use touchstone_lab::result::{Compared, ResultFile};

/// The arguments of `touchstone compare`.
#[derive(clap::Args)]
#[command(after_help = "\
  touchstone compare results/monday                                # its systems with each other
  touchstone compare results/before results/after                  # each system with itself
  touchstone compare results/before results/after --noise results/monday --noise results/tuesday")]
pub struct Arguments {
    /// A result whose systems are compared with each other, or two results whose systems are compared each
    /// with itself
    #[arg(value_name = "RESULT", required = true, num_args = 1..=2)]
    results: Vec<PathBuf>,

    /// Two results of the same systems, unchanged: how far they differ is the noise floor. Given twice
    #[arg(long, value_name = "RESULT")]
    noise: Vec<PathBuf>,

    /// Seed of the bootstrap
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Compares, and says what came out.
pub fn run(arguments: Arguments) -> Exit {
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
                "{} and {} are different suites: their figures say nothing about each other",
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
        // A system that took part twice gives the floor, unless one is named.
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
        return Err("there is nothing that both were measured with".to_owned());
    }
    Ok(found)
}

/// The same side, with its result in its name.
fn labelled<'a>(side: &Side<'a>, result: &Path) -> Side<'a> {
    Side { label: format!("{} ({})", side.label, result.display()), ..side.clone() }
}
