//! `touchstone report`: makes the report of a result again, or one report of several results side by side.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use touchstone_lab::history;
use touchstone_lab::output::write_atomically;
use touchstone_lab::raw;
use touchstone_lab::read_result::{self, ReadError};
use touchstone_lab::result::ResultFile;
use touchstone_lab_report::export::Format;
use touchstone_lab_report::report::{self, Side};

use super::print::print;
use crate::exit::Exit;

/// The arguments of `touchstone report`.
#[derive(clap::Args)]
pub struct Arguments {
    /// Result directories, or their result.json files; several are shown side by side in one report
    #[arg(value_name = "RESULT", required = true)]
    results: Vec<PathBuf>,

    /// The file to write; by default, for one result, report.html in its directory
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// The form: the page, WebBench's workbook, a summary as comma-separated values or in Markdown, tests for
    /// continuous integration, or WebStone's text; all but the page are for one result
    #[arg(
        long,
        value_name = "FORM",
        default_value = "html",
        value_parser = ["html", "xlsx", "csv", "junit", "markdown", "webstone"]
    )]
    format: String,

    /// Instead, a page that compares one result with the reports of 1996 to 2000
    #[arg(long, conflicts_with = "format")]
    reference: bool,

    /// Draw this history of a gate, with its change points (touchstone compare --history). It needs --output,
    /// because the report.html of a result is only about that result
    #[arg(long, value_name = "FILE", requires = "output", conflicts_with_all = ["format", "reference"])]
    history: Option<PathBuf>,

    /// Open the report in the browser
    #[arg(long)]
    open: bool,
}

/// Why there is no report, and the exit code.
struct Failure(Exit, String);

/// Makes the report, prints its path, and opens it if requested.
pub fn run(arguments: Arguments) -> Exit {
    let outcome = write(&arguments).and_then(|path| {
        print(&path.display().to_string());
        if arguments.open { open(&path) } else { Ok(()) }
    });
    match outcome {
        Ok(()) => Exit::Done,
        Err(Failure(exit, message)) => {
            eprintln!("touchstone report: {message}");
            exit
        }
    }
}

/// Writes the report and returns its path.
fn write(arguments: &Arguments) -> Result<PathBuf, Failure> {
    let mut results = Vec::with_capacity(arguments.results.len());
    for path in &arguments.results {
        results.push(read_result::read(path)?);
    }
    if let Some((name, content)) = other_form(arguments, &results)? {
        let target = match (&arguments.output, results.first()) {
            (Some(output), _) => output.clone(),
            (None, Some((_, directory))) => directory.join(name),
            (None, None) => return Err(Failure(Exit::Usage, "name a result".to_owned())),
        };
        write_atomically(&target, &content)
            .map_err(|error| Failure(Exit::Usage, format!("cannot write {}: {error}", target.display())))?;
        return Ok(target);
    }
    let page = match results.as_slice() {
        [(result, directory)] => {
            let history = arguments.history.as_deref().map(history::read).transpose();
            let history = history.map_err(|problem| Failure(Exit::Usage, problem))?;
            report::html_with_history(
                result,
                raw::read(directory).ok().as_deref(),
                history.as_deref().unwrap_or_default(),
            )
        }
        _ if arguments.history.is_some() => {
            let message = "--history is drawn in the report of one result".to_owned();
            return Err(Failure(Exit::Usage, message));
        }
        _ => report::side_by_side(&labelled(&arguments.results, &results))
            .map_err(|error| Failure(Exit::Usage, error.to_string()))?,
    };
    let target = match (&arguments.output, results.as_slice()) {
        (Some(output), _) => output.clone(),
        (None, [(_, directory)]) => directory.join(report::FILE_NAME),
        (None, _) => {
            let message = "several results make one report: name it with --output FILE".to_owned();
            return Err(Failure(Exit::Usage, message));
        }
    };
    report::write_file(&target, &page)
        .map_err(|error| Failure(Exit::Usage, format!("cannot write {}: {error}", target.display())))?;
    Ok(target)
}

/// The file's name and content, if another form than the page is requested.
fn other_form(
    arguments: &Arguments,
    results: &[(ResultFile, PathBuf)],
) -> Result<Option<(&'static str, Vec<u8>)>, Failure> {
    let format = match arguments.format.as_str() {
        "xlsx" => Some(Format::Xlsx),
        "csv" => Some(Format::Csv),
        "markdown" => Some(Format::Markdown),
        "junit" => Some(Format::Junit),
        "webstone" => Some(Format::Webstone),
        _ => None,
    };
    if format.is_none() && !arguments.reference {
        return Ok(None);
    }
    let [(result, directory)] = results else {
        return Err(Failure(Exit::Usage, "this form is of one result: name one".to_owned()));
    };
    let Some(format) = format else {
        return Ok(Some((report::REFERENCE_FILE_NAME, report::reference_html(result).into_bytes())));
    };
    let raw = raw::read(directory).unwrap_or_default();
    let content = format.write(result, &raw).map_err(|error| Failure(Exit::Failed, error))?;
    Ok(Some((format.file_name(), content)))
}

/// The results with distinct labels: the names of their directories, or the whole paths if two of the names
/// are the same.
fn labelled(paths: &[PathBuf], results: &[(ResultFile, PathBuf)]) -> Vec<Side> {
    let short: Vec<String> = results.iter().map(|(_, directory)| directory_name(directory)).collect();
    let unique = short.iter().enumerate().all(|(index, name)| !short[..index].contains(name));
    let labels = if unique { short } else { paths.iter().map(|path| path.display().to_string()).collect() };
    let side = |(label, (result, directory)): (String, &(ResultFile, PathBuf))| Side {
        label,
        result: result.clone(),
        raw: raw::read(directory).ok(),
    };
    labels.into_iter().zip(results).map(side).collect()
}

fn directory_name(directory: &Path) -> String {
    // `.` and `..` have no name until they are resolved.
    let resolved = directory.canonicalize().unwrap_or_else(|_| directory.to_owned());
    match resolved.file_name() {
        Some(name) => name.to_string_lossy().into_owned(),
        None => directory.display().to_string(),
    }
}

/// Opens the report in the reader's browser.
fn open(path: &Path) -> Result<(), Failure> {
    let nothing = |error| {
        let message = format!(
            "the report is written, but cannot be opened here (xdg-open: {error}); open {}",
            path.display()
        );
        Failure(Exit::Failed, message)
    };
    // It may run as long as the browser, and its output does not matter: it is started and not waited for.
    Command::new("xdg-open")
        .arg(path)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map(|_| ())
        .map_err(nothing)
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Failure {
        Failure(Exit::Usage, error.to_string())
    }
}
