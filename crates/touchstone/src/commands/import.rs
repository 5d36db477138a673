//! `touchstone import`: makes a suite from recordings and lists of other tools, sessions from their scripts,
//! or a configuration from that of another server.

use super::print::print;
use crate::exit::Exit;
use std::path::{Path, PathBuf};
use touchstone_import_apache as apache;
use touchstone_import_base::Imported;
use touchstone_import_caddy as caddy;
use touchstone_import_nginx as nginx;
use touchstone_lab::capability::OWN_REQUESTS;
use touchstone_lab::suite::Suite;
use touchstone_load::HttpUrl;
use touchstone_session_import::{jmeter, k6, openapi, postman};
use touchstone_suite_import::suite_text::{Form, SuiteOptions, suite_name};
use touchstone_suite_import::{
    LogFormat, Recording, access_log, curl, file_text, filelist, har, suite_text, url_list,
};

/// The URL in a proposed command if the server is not known.
const EXAMPLE_URL: &str = "http://127.0.0.1:8080";

/// The arguments of `touchstone import`.
#[derive(clap::Args)]
pub struct Arguments {
    /// The kind of the file: requests become a suite, scripts of other tools sessions, the configuration of
    /// another server one for this server
    #[arg(value_name = "FORMAT")]
    format: Format,

    /// The file; `-` reads standard input. For `curl` the command line itself, in quotes; for `apache` also a
    /// directory
    #[arg(value_name = "FILE")]
    input: String,

    /// Write the suite or configuration to this new file [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// The suite's name [default: that of the file]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// The form of the suite [default: session for a HAR, mix for all others]
    #[arg(long = "as", value_name = "FORM")]
    form: Option<SuiteForm>,

    /// Import at most this many different requests: the most frequent ones, or the first of a session
    #[arg(
        long,
        value_name = "N",
        default_value_t = 10_000,
        value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=65_536)
    )]
    most: usize,

    /// For a HAR, import the requests to this server [default: that of the first request]
    #[arg(long, value_name = "URL")]
    origin: Option<String>,

    /// For a log, the format of its lines, with the variables of an access log's format: '$client [$time]
    /// "$request" $status'; nginx's names are valid, too [default: derived from the lines]
    #[arg(long, value_name = "FORMAT", value_parser = LogFormat::parse)]
    log_format: Option<LogFormat>,

    /// Import cookies and credentials, too; they are written into the suite unchanged
    #[arg(long)]
    with_secrets: bool,
}

/// The formats that can be imported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// A HAR recording of a browser or a proxy
    Har,
    /// An access log: Common, Combined, JSON, W3C Extended, or in the format of --log-format
    Log,
    /// A list of URLs or paths, one on each line, after an optional weight and method
    Urls,
    /// A file list of WebStone, 1.x (with pages) or 2.x
    Webstone,
    /// A curl command line
    Curl,
    /// A Postman collection (2.0 or 2.1): a file of sessions for `touchstone load --sessions`
    Postman,
    /// An OpenAPI document (3.0 or 3.1, JSON or YAML): a file of sessions
    Openapi,
    /// A test plan of JMeter (.jmx): a file of sessions
    Jmeter,
    /// A script of k6, its HTTP subset: a file of sessions
    K6,
    /// A configuration of nginx, or a file of its sites, with what it includes
    Nginx,
    /// A Caddyfile, with what it imports
    Caddy,
    /// A configuration of Apache httpd, or a file of its hosts, with what it includes and the .htaccess files
    /// of its directories; or such a directory
    Apache,
}

/// The form of an imported suite.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum SuiteForm {
    /// The requests in order, with the think times between them; for a HAR only
    Session,
    /// Each request separately, weighted by its frequency
    Mix,
}

/// Reads, converts, and writes or prints the suite.
pub fn run(arguments: &Arguments) -> Exit {
    let imported = match arguments.format {
        Format::Nginx | Format::Caddy | Format::Apache => server_configuration(arguments),
        Format::Postman | Format::Openapi | Format::Jmeter | Format::K6 => sessions(arguments),
        _ => import(arguments),
    };
    imported.unwrap_or_else(|message| {
        eprintln!("touchstone import: {message}");
        Exit::Usage
    })
}

fn import(arguments: &Arguments) -> Result<Exit, String> {
    let form = form(arguments)?;
    let (file, recording) = recording(arguments)?;
    let name = match (&arguments.name, arguments.format) {
        (Some(name), _) => name.clone(),
        (None, Format::Curl) => "curl".to_string(),
        (None, _) => suite_name(&file),
    };
    let wishes = SuiteOptions { name, source: format!("imported from {file}"), most: arguments.most, form };
    let (text, notes) = suite_text(&recording, &wishes);
    // The file is read like any suite, so that an invalid suite is never reported as one.
    let suite = Suite::read("the suite", &text).map_err(|error| error.message)?;
    for note in &notes {
        eprintln!("touchstone import: {note}.");
    }
    let Some(path) = &arguments.output else {
        print(text.trim_end());
        return Ok(Exit::Done);
    };
    write(path, &text)?;
    let workload = &suite.first_part().workload;
    let of_pages = workload.classes.iter().filter(|class| class.is_page() && !class.is_session()).count();
    let sessions = workload.classes.iter().filter(|class| class.is_session());
    let thought_s: f64 = sessions.map(|class| class.session_think_s()).sum();
    let different = workload.files();
    let what = match (form, of_pages) {
        (_, 1..) => format!(", {different} different ones on {of_pages} pages"),
        (Form::Session, _) => format!(" in their order, with {thought_s:.1} s of think time"),
        (Form::Mix, _) => format!(", {different} different ones"),
    };
    // A system that is started here has only the files of a suite, and answers no other requests.
    let needs_server = suite.first_part().needs().contains(&OWN_REQUESTS);
    let (with, system) = match &recording.origin {
        Some(origin) => ("with", origin.as_str()),
        None if needs_server => {
            ("against the server that answers these requests, by its URL, such as", EXAMPLE_URL)
        }
        None => ("with", "touchstone"),
    };
    print(&format!(
        "{}: {} requests{what}. Run it {with}: touchstone bench {} --quick --sut {system}",
        path.display(),
        recording.requests.len(),
        as_argument(path),
    ));
    Ok(Exit::Done)
}

/// Refuses options that only suites have.
fn refuse_suite_options(arguments: &Arguments, reason: &str) -> Result<(), String> {
    let of_suites = [
        ("--name", arguments.name.is_some()),
        ("--as", arguments.form.is_some()),
        ("--origin", arguments.origin.is_some()),
        ("--log-format", arguments.log_format.is_some()),
        ("--with-secrets", arguments.with_secrets),
    ];
    match of_suites.iter().find(|(_, given)| *given) {
        Some((option, _)) => Err(format!("{option} is for suites, and {reason}")),
        None => Ok(()),
    }
}

/// Makes a file of sessions from another tool's file.
fn sessions(arguments: &Arguments) -> Result<Exit, String> {
    refuse_suite_options(arguments, "this becomes a file of sessions")?;
    let (file, text) = text(&arguments.input)?;
    let draft = match arguments.format {
        Format::Postman => postman::read(&text),
        Format::Openapi => openapi::read(&text),
        Format::K6 => k6::read(&text),
        _ => jmeter::read(&text),
    };
    let draft = draft.map_err(|reason| format!("{file}: {reason}"))?;
    for note in &draft.notes {
        eprintln!("touchstone import: {note}.");
    }
    let sessions = draft.text(&file);
    let Some(path) = &arguments.output else {
        print(sessions.trim_end());
        return Ok(Exit::Done);
    };
    write(path, &sessions)?;
    let before = match draft.data.is_empty() {
        true => String::new(),
        false => "Write the data files that it names beside it. ".to_string(),
    };
    print(&format!(
        "{}: {} requests in {} sessions. {before}Run them with: touchstone load {}/ --sessions {}",
        path.display(),
        draft.requests(),
        draft.sessions.len(),
        draft.origin.as_deref().unwrap_or(EXAMPLE_URL),
        path.display(),
    ));
    Ok(Exit::Done)
}

/// Translates the configuration of another server.
fn server_configuration(arguments: &Arguments) -> Result<Exit, String> {
    refuse_suite_options(arguments, "the configuration of a server becomes none")?;
    let (whose, imported) = translated(arguments)?;
    if imported.translated == 0 {
        return Err(format!("{}: no configuration of {whose} was found in it", arguments.input));
    }
    for problem in &imported.problems {
        eprintln!("{}: not translated: {}\n    {}", problem.place, problem.directive, problem.advice);
    }
    let sums = format!(
        "{} directives translated, {} not needed, {} not translated",
        imported.translated,
        imported.unneeded,
        imported.problems.len()
    );
    let place = arguments.output.as_deref().unwrap_or(Path::new("touchstone.toml"));
    // The files of this machine that it names are for `touchstone check`.
    if let Err(problems) = touchstone_config::parse(&imported.text, place) {
        for problem in problems {
            eprintln!("touchstone import: {problem}");
        }
    }
    match &arguments.output {
        None => {
            print(imported.text.trim_end());
            eprintln!("touchstone import: {sums}.");
        }
        Some(path) => {
            write(path, &imported.text)?;
            let file = path.display();
            print(&format!("{file}: {sums}. Read it, then: touchstone check --config {file}"));
        }
    }
    Ok(Exit::Done)
}

/// The name of the other server, and its translated configuration.
fn translated(arguments: &Arguments) -> Result<(&'static str, Imported), String> {
    const INPUT: &str = "standard input";
    let input = arguments.input.as_str();
    let file = Path::new(input);
    Ok(match (arguments.format, input) {
        (Format::Caddy, "-") => ("Caddy", caddy::translate(&caddy::parse(INPUT, &text("-")?.1)?)),
        (Format::Caddy, _) => {
            let directives = caddy::read(file)?;
            let mut imported = caddy::translate(&directives);
            // Pages with templates are on this machine, or not.
            imported.problems.extend(caddy::actions(&directives));
            ("Caddy", imported)
        }
        (Format::Apache, "-") => ("Apache", apache::translate(&apache::parse(INPUT, &text("-")?.1)?)),
        (Format::Apache, _) => ("Apache", apache::translate(&apache::read(file)?)),
        (_, "-") => ("nginx", nginx::translate(&nginx::parse(INPUT, &text("-")?.1)?)),
        _ => ("nginx", nginx::translate(&nginx::read(file)?)),
    })
}

/// A HAR records what one user did, so it is a session; the other files record many users.
fn form(arguments: &Arguments) -> Result<Form, String> {
    match (arguments.form, arguments.format) {
        (Some(SuiteForm::Mix), _) => Ok(Form::Mix),
        (Some(SuiteForm::Session) | None, Format::Har) => Ok(Form::Session),
        (Some(SuiteForm::Session), _) => {
            Err("--as session: only a HAR contains the requests of one visitor, in order".to_string())
        }
        (None, _) => Ok(Form::Mix),
    }
}

/// The name of the input for messages, and its content.
fn recording(arguments: &Arguments) -> Result<(String, Recording), String> {
    if arguments.format == Format::Curl && arguments.input != "-" {
        let file = "the command".to_string();
        let read = curl::read(&file, &arguments.input, arguments.with_secrets);
        return Ok((file, read.map_err(|error| error.to_string())?));
    }
    let (file, text) = text(&arguments.input)?;
    let read = match arguments.format {
        Format::Har => {
            let origin = arguments.origin.as_deref().map(HttpUrl::parse).transpose();
            let origin = origin.map_err(|error| format!("--origin: {error}"))?.map(|url| url.origin());
            har::read(&file, &text, &har::HarOptions { origin, with_secrets: arguments.with_secrets })
        }
        Format::Log => access_log::read(&file, &text, arguments.log_format.as_ref()),
        Format::Urls => url_list::read(&file, &text, arguments.with_secrets),
        Format::Webstone => filelist::read(&file, &text),
        Format::Curl => curl::read(&file, &text, arguments.with_secrets),
        Format::Postman | Format::Openapi | Format::Jmeter | Format::K6 => {
            return Err("this is not a recording".to_string());
        }
        Format::Nginx | Format::Caddy | Format::Apache => {
            return Err("this is not a recording".to_string());
        }
    };
    Ok((file, read.map_err(|error| error.to_string())?))
}

/// The whole text of a file, or of standard input, and the name of either.
fn text(input: &str) -> Result<(String, String), String> {
    let (name, text) = match input {
        "-" => ("standard input".to_string(), file_text("standard input", std::io::stdin())),
        path => {
            let file = std::fs::File::open(path).map_err(|error| format!("{path}: {error}"))?;
            (path.to_string(), file_text(path, file))
        }
    };
    Ok((name, text.map_err(|error| error.to_string())?))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    let failed = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => {
            format!("{} exists already; name another file with --output", path.display())
        }
        _ => format!("{}: {error}", path.display()),
    };
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).open(path).map_err(failed)?;
    std::io::Write::write_all(&mut file, text.as_bytes()).map_err(failed)
}

/// The path of the file in the form that `bench` accepts for a suite.
fn as_argument(path: &Path) -> String {
    let text = path.display().to_string();
    if text.contains('/') || text.ends_with(".toml") { text } else { format!("./{text}") }
}
