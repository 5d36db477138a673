//! `touchstone suites`: the suites that can be run.

use super::print::{print, print_for_reading};
use crate::exit::Exit;
use serde_json::json;
use std::path::PathBuf;
use touchstone_lab::figures::rate;
use touchstone_lab::suite::{Interface, Mix, Part, Suite, tree};

/// The arguments of `touchstone suites`.
#[derive(clap::Args)]
pub struct Arguments {
    /// Print this suite's TOML text: a built-in suite's name or a suite file's path
    #[arg(value_name = "SUITE")]
    suite: Option<String>,

    /// Write the suite's files below this directory, to serve them from your own server
    #[arg(long, value_name = "DIR", requires = "suite")]
    tree: Option<PathBuf>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Lists the suites, prints one, or writes its files.
pub fn run(arguments: Arguments) -> Exit {
    let outcome = match (&arguments.suite, &arguments.tree) {
        (None, _) => list(arguments.json),
        (Some(name), None) => show(name, arguments.json),
        (Some(name), Some(directory)) => write_tree(name, directory),
    };
    outcome.unwrap_or_else(|message| {
        eprintln!("touchstone suites: {message}");
        Exit::Usage
    })
}

fn list(as_json: bool) -> Result<Exit, String> {
    let suites = Suite::built_in().map_err(|error| error.to_string())?;
    if as_json {
        print(&format!("{:#}", json!({ "suites": suites.iter().map(to_json).collect::<Vec<_>>() })));
        return Ok(Exit::Done);
    }
    let mut text = String::new();
    for suite in &suites {
        let parts = suite.parts.len();
        let (mixes, quick) = (in_words(&suite.mixes, parts), in_words(&suite.quick_mixes, parts));
        let (name, description, needs) = (&suite.name, &suite.description, needs(suite).join(", "));
        text += &format!(
            "{name}\n    {description}.\n    {mixes}; with --quick {quick}.\n    A system needs: {needs}.\n\n"
        );
    }
    text += "touchstone suites NAME prints a suite's TOML text; change a copy of it to make your own suite.";
    print_for_reading(&text);
    Ok(Exit::Done)
}

fn show(name: &str, as_json: bool) -> Result<Exit, String> {
    let suite = Suite::find(name).map_err(|error| error.to_string())?;
    if as_json {
        print(&format!("{:#}", to_json(&suite)));
    } else {
        print(&suite.text);
    }
    Ok(Exit::Done)
}

fn write_tree(name: &str, directory: &std::path::Path) -> Result<Exit, String> {
    let suite = Suite::find(name).map_err(|error| error.to_string())?;
    tree::write(&suite, directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    print(&format!("{}, below {}", in_the_tree(&suite), directory.display()));
    Ok(Exit::Done)
}

/// The text for `--tree`: the files of the workload, or those of the interfaces that are files.
fn in_the_tree(suite: &Suite) -> String {
    let workload = &suite.first_part().workload;
    if suite.compares_interfaces() {
        return "the files of the suite's interfaces".to_string();
    }
    format!("{} files, {} bytes", workload.files(), workload.tree_bytes())
}

fn to_json(suite: &Suite) -> serde_json::Value {
    let mixes = |mixes: &[Mix]| {
        let mix = |mix: &Mix| {
            json!({
                "name": mix.name,
                "clients": mix.clients,
                "rate": mix.rate,
                "ramp_up_s": mix.ramp_up_s,
                "length_s": mix.length_s,
                "ramp_down_s": mix.ramp_down_s,
                "delay_s": mix.delay_s,
                "think_time_s": mix.think_time_s,
            })
        };
        mixes.iter().map(mix).collect::<Vec<_>>()
    };
    let workload = &suite.first_part().workload;
    json!({
        "name": suite.name,
        "title": suite.title,
        "description": suite.description,
        "source": suite.source,
        "workload": workload.name,
        "mean_body_bytes": workload.mean_body_bytes(),
        "needs": needs(suite),
        "warm_up_s": suite.warm_up_s,
        "quick_warm_up_s": suite.quick_warm_up_s,
        "files": workload.files(),
        "tree_bytes": workload.tree_bytes(),
        "interfaces": suite
            .parts
            .iter()
            .filter_map(|part| part.interface.as_ref())
            .map(Interface::record)
            .collect::<Vec<_>>(),
        "mixes": mixes(&suite.mixes),
        "quick_mixes": mixes(&suite.quick_mixes),
    })
}

/// The capabilities that a system needs for all of it, without repetitions.
fn needs(suite: &Suite) -> Vec<&str> {
    let mut needs: Vec<&str> = suite.parts.iter().flat_map(Part::needs).collect();
    needs.sort_unstable();
    needs.dedup();
    needs
}

/// For example `13 mixes of 1 to 144 clients, 26 min a system`; every mix is run for each part of the suite.
fn in_words(mixes: &[Mix], parts: usize) -> String {
    let clients = mixes.iter().map(|mix| mix.clients);
    let (Some(fewest), Some(most)) = (clients.clone().min(), clients.max()) else {
        return "nothing".to_string();
    };
    let seconds = (mixes.iter().map(|mix| mix.length_s).sum::<f64>() * parts as f64).round() as u64;
    let time = match (seconds / 60, seconds % 60) {
        (0, seconds) => format!("{seconds} s"),
        (minutes, 0) => format!("{minutes} min"),
        (minutes, seconds) => format!("{minutes} min {seconds} s"),
    };
    let rates: Vec<f64> = mixes.iter().filter_map(|mix| mix.rate).collect();
    if let (Some(lowest), Some(highest)) =
        (rates.iter().copied().reduce(f64::min), rates.iter().copied().reduce(f64::max))
    {
        return format!(
            "{} mixes of {} to {} arrivals/s, {time} a system",
            mixes.len(),
            rate(lowest),
            rate(highest)
        );
    }
    let of_each = if parts > 1 { format!(" for each of {parts} interfaces") } else { String::new() };
    format!("{} mixes of {fewest} to {most} clients{of_each}, {time} a system", mixes.len())
}
