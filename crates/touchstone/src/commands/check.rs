//! `touchstone check`: reports all faults of a configuration, with file, line and column.
//!
//! The text is checked first. If it is correct, the files that it needs are checked too: roots that can be
//! read, log files that can be written, certificates with their keys, WARs that can be unpacked.

use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use touchstone_config::{ConfigProblem, explain, unreached_routes};
use touchstone_sites::checks::check_all;
use touchstone_sites::missing_pages::missing_pages;
use touchstone_sites::site_tls::records_to_set;

use crate::exit::Exit;

/// What to check, and the form of the output.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The configuration file
    #[arg(value_name = "FILE", required_unless_present_any = ["config", "explain"])]
    file: Option<PathBuf>,

    /// The configuration file, as for `touchstone serve`
    #[arg(long, value_name = "FILE", conflicts_with = "file")]
    config: Option<PathBuf>,

    /// Print a JSON array of the problems: file, line, column and message of each (line and column 0: the
    /// whole file)
    #[arg(long)]
    json: bool,

    /// Explain a key ("limits.ranges"), the keys of a section ("limits"), or without a name every key
    #[arg(
        long,
        value_name = "KEY",
        num_args = 0..=1,
        default_missing_value = "",
        conflicts_with_all = ["file", "config", "json"]
    )]
    explain: Option<String>,
}

/// Checks, and prints the faults.
pub(crate) fn run(arguments: Arguments) -> Exit {
    match (arguments.explain, arguments.file.or(arguments.config)) {
        (Some(name), _) => print_explanation(&name),
        (None, Some(path)) => check(&path, arguments.json),
        // The rules of the arguments exclude this case.
        (None, None) => Exit::Usage,
    }
}

fn check(path: &Path, as_json: bool) -> Exit {
    // With the changes of the control API, as a start reads it.
    let (problems, opened) = match touchstone_control::open(path) {
        Ok(opened) => {
            let problems = check_all(&opened.effective.config, &opened.effective.places);
            opened
                .conflicts
                .iter()
                .for_each(|conflict| print_line(std::io::stderr(), &format!("note: {conflict}")));
            let (config, places) = (&opened.effective.config, &opened.effective.places);
            let notices = unreached_routes(config, places).into_iter().chain(missing_pages(config, places));
            notices.for_each(|notice| print_line(std::io::stderr(), &format!("note: {notice}")));
            (problems, Some(opened))
        }
        Err(problems) => (problems, None),
    };
    if as_json {
        print_line(std::io::stdout(), &format!("{:#}", problems.iter().map(to_json).collect::<Value>()));
    } else if problems.is_empty() {
        print_line(std::io::stdout(), &format!("{}: no problems found", path.display()));
        for record in opened.iter().flat_map(|opened| records_to_set(&opened.effective.config)) {
            print_line(std::io::stdout(), &format!("dns-persist-01 needs this record in DNS: {record}"));
        }
    } else {
        problems.iter().for_each(|problem| print_line(std::io::stderr(), &problem.to_string()));
    }
    if problems.is_empty() { Exit::Done } else { Exit::Failed }
}

fn to_json(problem: &ConfigProblem) -> Value {
    json!({
        "file": problem.file.to_string_lossy(),
        "line": problem.line,
        "column": problem.column,
        "message": problem.message,
    })
}

fn print_explanation(name: &str) -> Exit {
    match explain(Some(name).filter(|name| !name.is_empty())) {
        Ok(text) => {
            print_line(std::io::stdout(), text.trim());
            Exit::Done
        }
        Err(message) => {
            print_line(std::io::stderr(), &format!("touchstone check: {message}"));
            Exit::Usage
        }
    }
}

/// Prints one line. A reader that stops reading (`| head`) is not a fault: the exit code still states the
/// result.
fn print_line(mut to: impl Write, text: &str) {
    let _ = writeln!(to, "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Whole {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn arguments(words: &[&str]) -> Result<Arguments, clap::Error> {
        Whole::try_parse_from(["check"].iter().chain(words)).map(|whole| whole.arguments)
    }

    fn exit(words: &[&str]) -> Exit {
        run(arguments(words).unwrap_or_else(|error| panic!("{error}")))
    }

    #[test]
    fn a_file_or_explain_is_needed() {
        assert!(arguments(&[]).is_err());
        assert!(arguments(&["a"]).is_ok());
        assert!(arguments(&["a", "--config", "a"]).is_err());
        assert!(arguments(&["a", "--explain"]).is_err());
        assert!(arguments(&["--json"]).is_err());
        assert!(arguments(&["--config", "a", "--explain"]).is_err());
        assert!(arguments(&["--config", "a", "--json"]).is_ok());
        assert_eq!(exit(&["--explain"]), Exit::Done);
        assert_eq!(exit(&["--explain", "site.root"]), Exit::Done);
        assert_eq!(exit(&["--explain", "site.rot"]), Exit::Usage);
    }

    #[test]
    fn exit_codes() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("site.toml");
        let path_text = path.to_str().unwrap();
        assert_eq!(exit(&["--config", path_text]), Exit::Failed);
        std::fs::write(&path, "[[site]]\nlisten = ['127.0.0.1:0']\nroot = '.'\n").unwrap();
        assert_eq!(exit(&["--config", path_text]), Exit::Done);
        assert_eq!(exit(&["--config", path_text, "--json"]), Exit::Done);
        std::fs::write(&path, "[[site]]\nlisten = ['127.0.0.1:0']\nroot = 'missing'\n").unwrap();
        assert_eq!(exit(&["--config", path_text]), Exit::Failed);
        std::fs::write(&path, "[[site]]\nlisten = ['127.0.0.1']\nrot = '.'\n").unwrap();
        assert_eq!(exit(&["--config", path_text, "--json"]), Exit::Failed);
    }

    #[test]
    fn json_of_a_problem() {
        let problem =
            ConfigProblem { file: "a.toml".into(), line: 7, column: 1, message: "a \"b\"".to_string() };
        let expected = json!({ "file": "a.toml", "line": 7, "column": 1, "message": "a \"b\"" });
        assert_eq!(to_json(&problem), expected);
    }
}
