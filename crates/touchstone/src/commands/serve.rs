//! `touchstone serve`: serves sites from a configuration file, or one directory at once.

use std::net::SocketAddr;
use std::path::PathBuf;

use touchstone_interfaces::cgi::service::{self, SpawnerCommand};
use touchstone_server::config::{
    AccessLogFormat, Config, ConfigPlaces, ConfigProblem, LogDestination, check_surroundings, load_file,
    quick,
};
use touchstone_server::{Inheritance, Server};

use crate::exit::Exit;

/// What to serve, and where.
#[derive(clap::Args)]
#[command(
    after_help = "Signals: SIGTERM and SIGINT finish what was begun and end; SIGHUP reads the configuration file \
    again; SIGUSR1 opens the log files again; SIGUSR2 starts a new process that takes over. From a configuration file \
    also: touchstone reload, upgrade, status, stop."
)]
pub struct Arguments {
    /// The configuration file (docs/configuration.md; `touchstone check --explain` lists every key)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["root", "listen"], required_unless_present = "root")]
    config: Option<PathBuf>,

    /// Quick form: the directory to serve; pages that end in .shtml are parsed for directives
    #[arg(long, value_name = "DIR", requires = "listen")]
    root: Option<PathBuf>,

    /// Quick form: the address and port to listen on; port 0 picks a free one
    #[arg(long, value_name = "ADDR:PORT", requires = "root")]
    listen: Option<SocketAddr>,

    /// Quick form: a PEM file with a certificate and those that lead to its authority; the address then speaks HTTPS
    #[arg(long, value_name = "PEM", requires = "root")]
    cert: Option<PathBuf>,

    /// Quick form: the PEM file with the certificate's private key [default: in the certificate's file]
    #[arg(long, value_name = "PEM", requires = "cert")]
    key: Option<PathBuf>,

    /// Quick form: speak HTTPS with a certificate for localhost that is made now and trusted by nobody
    #[arg(long, requires = "root", conflicts_with = "cert")]
    development_certificate: bool,

    /// Quick form: speak HTTP/3 as well, over UDP on the same port; needs a certificate
    #[arg(long, requires = "root")]
    http3: bool,

    /// Event loops, one a core [default: server.cores, or every processor that the process may run on]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    cores: Option<u16>,

    /// Where the access log goes: a file, "stdout", "stderr" or "off" [default: access_log.path, or off]
    #[arg(long, value_name = "FILE|off")]
    access_log: Option<String>,

    /// The form of an access log line: common, combined, json, or a line with variables such as '$client $status' (all
    /// are in docs/logs.md) [default: access_log.format, or combined]
    #[arg(long, value_name = "FORMAT", value_parser = AccessLogFormat::parse)]
    access_log_format: Option<AccessLogFormat>,

    /// Where the error log goes: a file, "stdout", "stderr" or "off" [default: error_log.path, or stderr]
    #[arg(long, value_name = "FILE|off")]
    error_log: Option<String>,
}

/// Serves until a signal ends it.
pub fn run(arguments: Arguments) -> Exit {
    let config_file = arguments.config.clone();
    serve_until_ended("serve", config_file, || configuration(arguments))
}

/// Serves a configuration until a signal ends it. `command` is the one that was given, for messages.
pub(super) fn serve_until_ended(
    command: &str,
    config_file: Option<PathBuf>,
    configuration: impl FnOnce() -> Result<Config, Vec<ConfigProblem>>,
) -> Exit {
    let inheritance = match Inheritance::from_environment() {
        Ok(inheritance) => inheritance,
        Err(error) => {
            eprintln!("touchstone {command}: {error}");
            return Exit::Usage;
        }
    };
    let config = match configuration() {
        Ok(config) => config,
        Err(problems) => {
            let lines: Vec<String> = problems.iter().map(|problem| problem_line(command, problem)).collect();
            lines.iter().for_each(|line| eprintln!("{line}"));
            inheritance.refuse(&lines);
            return Exit::Usage;
        }
    };
    let start_spawner = || service::start(SpawnerCommand::this_program(&["spawner"]));
    let server = match Server::bind(config, config_file, inheritance, start_spawner) {
        Ok(server) => server,
        Err(error) => {
            eprintln!("touchstone {command}: {error}");
            return Exit::Usage;
        }
    };
    match server.run() {
        Ok(()) => Exit::Done,
        Err(error) => {
            eprintln!("touchstone {command}: {error}");
            Exit::Failed
        }
    }
}

/// The configuration that the arguments ask for, or why it cannot work.
fn configuration(arguments: Arguments) -> Result<Config, Vec<ConfigProblem>> {
    let (mut config, places) = match (arguments.config, arguments.root, arguments.listen) {
        (Some(file), ..) => load_file(&file).map(|loaded| (loaded.config, loaded.places))?,
        (None, Some(root), Some(listen)) => {
            if arguments.http3 && arguments.cert.is_none() && !arguments.development_certificate {
                let message = "--http3 needs --cert or --development-certificate".to_string();
                return Err(vec![ConfigProblem { file: PathBuf::new(), line: 0, column: 0, message }]);
            }
            let mut config = quick(root, listen);
            for site in &mut config.sites {
                site.tls.certificate = arguments.cert.clone();
                site.tls.key = arguments.key.clone();
                site.tls.development_certificate = arguments.development_certificate;
                site.tls.http3 = arguments.http3;
            }
            (config, ConfigPlaces::default())
        }
        // The arguments' own rules leave no such case.
        _ => return Err(Vec::new()),
    };
    if let Some(cores) = arguments.cores {
        config.server.cores = usize::from(cores);
    }
    if let Some(destination) = arguments.access_log {
        config.access_log.destination = log_destination(destination);
    }
    if let Some(format) = arguments.access_log_format {
        config.access_log.format = format;
    }
    if let Some(destination) = arguments.error_log {
        config.error_log.destination = log_destination(destination);
    }
    let problems = check_surroundings(&config, &places);
    if problems.is_empty() { Ok(config) } else { Err(problems) }
}

pub(super) fn problem_line(command: &str, problem: &ConfigProblem) -> String {
    // What stands in a file begins with its name.
    match problem.file.as_os_str().is_empty() {
        true => format!("touchstone {command}: {problem}"),
        false => problem.to_string(),
    }
}

pub(super) fn log_destination(text: String) -> LogDestination {
    match text.as_str() {
        "off" => LogDestination::Off,
        "stdout" => LogDestination::Stdout,
        "stderr" => LogDestination::Stderr,
        _ => LogDestination::File(text.into()),
    }
}
