//! `touchstone serve`: serves sites from a configuration file, or at once a directory, an application or
//! another server.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use touchstone_config::{
    AccessLogFormat, Config, ConfigPlaces, ConfigProblem, DirectoryListing, ListenAddress, LogDestination,
    accelerate, parse, quick, unreached_routes,
};
use touchstone_import_base::toml_text::toml_string;
use touchstone_interfaces::cgi::service::{self, SpawnerCommand};
use touchstone_lifecycle::inherited::Inheritance;
use touchstone_server::Server;
use touchstone_sites::machine::check_machine;
use touchstone_sites::missing_pages::missing_pages;

use super::serve_target::Target;
use crate::exit::Exit;

/// What to serve, and on which address.
#[derive(clap::Args)]
#[command(after_help = "Signals: SIGTERM and SIGINT finish running requests and end; SIGHUP reads the \
    configuration file again; SIGUSR1 opens the log files again; SIGUSR2 starts a new process that takes \
    over. With a configuration file, also: touchstone reload, upgrade, status, stop.")]
pub struct Arguments {
    /// What to serve: a directory, a Java application (.war), a Python application (module:name), a
    /// WebAssembly component (.wasm), a configuration (.toml), or the URL of another server, which is
    /// accelerated [default: this directory]
    #[arg(value_name = "TARGET", conflicts_with_all = ["config", "root"])]
    target: Option<String>,

    /// Further targets, which are refused with a message.
    #[arg(hide = true)]
    more: Vec<String>,

    /// The configuration file (docs/configuration.md; `touchstone check --explain` lists every key)
    #[arg(long, value_name = "FILE", conflicts_with_all = QUICK)]
    config: Option<PathBuf>,

    /// Quick form: the directory to serve; pages that end in .shtml are parsed for directives
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,

    /// Quick form: the address and port to listen on, or a unix socket as unix:PATH; port 0 picks a free one
    /// [default: 127.0.0.1:0]
    #[arg(long, value_name = "ADDR:PORT|unix:PATH")]
    listen: Option<ListenAddress>,

    /// Quick form: a PEM file with a certificate and its chain; the address then speaks HTTPS
    #[arg(long, value_name = "PEM")]
    cert: Option<PathBuf>,

    /// Quick form: the PEM file with the certificate's private key [default: in the certificate's file]
    #[arg(long, value_name = "PEM", requires = "cert")]
    key: Option<PathBuf>,

    /// Quick form: speak HTTPS with a new certificate for localhost, which no client trusts
    #[arg(long, conflicts_with = "cert")]
    development_certificate: bool,

    /// Quick form: speak HTTP/3 as well, over UDP on the same port; needs a certificate
    #[arg(long)]
    http3: bool,

    /// Quick form: serve a Python application, WSGI or ASGI, from this directory: a module, a colon, and the
    /// name in it (docs/python.md)
    #[arg(long, value_name = "MODULE:NAME", conflicts_with_all = ["target", "config", "root"])]
    python: Option<String>,

    /// Event loops, one a core [default: server.cores, or every processor that the process may run on]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    cores: Option<u16>,

    /// The destination of the access log: a file, "stdout", "stderr" or "off" [default: access_log.path, or
    /// off]
    #[arg(long, value_name = "FILE|off")]
    access_log: Option<String>,

    /// The format of an access log line: common, combined, json, or a line with variables such as '$client
    /// $status' (docs/logs.md lists them) [default: access_log.format, or combined]
    #[arg(long, value_name = "FORMAT", value_parser = AccessLogFormat::parse)]
    access_log_format: Option<AccessLogFormat>,

    /// The destination of the error log: a file, "stdout", "stderr" or "off" [default: error_log.path, or
    /// stderr]
    #[arg(long, value_name = "FILE|off")]
    error_log: Option<String>,
}

/// The options that a configuration file sets itself.
const QUICK: [&str; 7] = ["root", "python", "listen", "cert", "key", "development_certificate", "http3"];

/// Serves until a signal ends it.
pub fn run(mut arguments: Arguments) -> Exit {
    if !arguments.more.is_empty() {
        return refuse(
            "one target at a time can be served; several are the sites or routes of a configuration, which \
             `touchstone init` begins",
        );
    }
    let target = match arguments.target.as_deref().map(Target::of).transpose() {
        Ok(target) => target,
        Err(message) => return refuse(&message),
    };
    if let Some(Target::Configuration(file)) = &target {
        if arguments.is_quick() {
            return refuse("a configuration sets its own addresses and certificates");
        }
        arguments.config = Some(file.clone());
    }
    let config_file = arguments.config.clone();
    serve_until_ended("serve", config_file, || configuration(arguments, target))
}

fn refuse(message: &str) -> Exit {
    eprintln!("touchstone serve: {message}");
    Exit::Usage
}

impl Arguments {
    fn is_quick(&self) -> bool {
        self.listen.is_some() || self.cert.is_some() || self.development_certificate || self.http3
    }
}

/// Serves a configuration until a signal ends it. `command` is the command that was given, for messages.
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

/// The configuration for the arguments, or why it is invalid.
fn configuration(arguments: Arguments, target: Option<Target>) -> Result<Config, Vec<ConfigProblem>> {
    let (mut config, places) = match &arguments.config {
        Some(file) => {
            let opened = touchstone_control::open(file)?;
            (opened.effective.config, opened.effective.places)
        }
        None => (quick_configuration(&arguments, target)?, ConfigPlaces::default()),
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
    let notices = unreached_routes(&config, &places);
    for notice in notices.iter().chain(&missing_pages(&config, &places)) {
        eprintln!("touchstone serve: note: {notice}");
    }
    let problems = check_machine(&config, &places);
    if problems.is_empty() { Ok(config) } else { Err(problems) }
}

/// The configuration of the quick form.
fn quick_configuration(arguments: &Arguments, target: Option<Target>) -> Result<Config, Vec<ConfigProblem>> {
    let problem = |message: String| ConfigProblem { file: PathBuf::new(), line: 0, column: 0, message };
    if arguments.http3 && arguments.cert.is_none() && !arguments.development_certificate {
        return Err(vec![problem("--http3 needs --cert or --development-certificate".to_string())]);
    }
    let listen = arguments.listen.unwrap_or(SocketAddr::from(([127, 0, 0, 1], 0)).into());
    let absolute = |path: &Path| {
        std::path::absolute(path).map_err(|error| vec![problem(format!("{}: {error}", path.display()))])
    };
    let mut config = match (&arguments.root, target) {
        _ if arguments.python.is_some() => {
            let app = arguments.python.as_deref().unwrap_or_default();
            eprintln!("touchstone serve: the Python application {app}");
            parse(&python_application(app, &absolute(Path::new("."))?, listen), Path::new(""))?
        }
        (Some(root), _) => quick(root.clone(), listen),
        (None, Some(Target::Origin(url))) => {
            eprintln!(
                "touchstone serve: accelerating {url}; `touchstone accelerate --help` has more options"
            );
            accelerate(url, listen)
        }
        (None, Some(Target::Application(path))) => {
            let path = absolute(&path)?;
            eprintln!("touchstone serve: the application {}", path.display());
            parse(&application(&path, listen), Path::new(""))?
        }
        (None, Some(Target::Python(app))) => {
            eprintln!("touchstone serve: the Python application {app}");
            parse(&python_application(&app, &absolute(Path::new("."))?, listen), Path::new(""))?
        }
        (None, Some(Target::Component(path))) => {
            let path = absolute(&path)?;
            eprintln!("touchstone serve: the component {}", path.display());
            parse(&component(&path, listen), Path::new(""))?
        }
        (None, target) => {
            let directory = match target {
                Some(Target::Directory(directory)) => directory,
                _ => PathBuf::from("."),
            };
            let directory = absolute(&directory)?;
            eprintln!("touchstone serve: the files of {}", directory.display());
            let mut config = quick(directory, listen);
            config.sites.iter_mut().for_each(|site| site.listing = DirectoryListing::Html);
            config
        }
    };
    for site in &mut config.sites {
        site.tls.certificate = arguments.cert.clone();
        site.tls.key = arguments.key.clone();
        site.tls.development_certificate = arguments.development_certificate;
        site.tls.http3 = arguments.http3;
    }
    Ok(config)
}

/// The configuration of one Java application. The site has no files: the route handles every path.
fn application(path: &Path, listen: ListenAddress) -> String {
    let (app, listen) = (toml_string(&path.to_string_lossy()), toml_string(&listen.to_string()));
    format!(
        "[[site]]\nlisten = [{listen}]\n\n\
         [[site.route]]\npath = \"/\"\n\
         servlet = {{ app = {app} }}\n"
    )
}

/// The configuration of one WebAssembly component, without files as above. Compiled code is stored in the
/// user's own cache.
fn component(path: &Path, listen: ListenAddress) -> String {
    let (component, listen) = (toml_string(&path.to_string_lossy()), toml_string(&listen.to_string()));
    let directory = |name: &str, below: &str| {
        let home = std::env::var_os(name).map(PathBuf::from).filter(|home| home.is_absolute())?;
        Some(home.join(below))
    };
    let compiled = directory("XDG_CACHE_HOME", "touchstone/wasm")
        .or_else(|| directory("HOME", ".cache/touchstone/wasm"))
        .map(|directory| format!(", compiled = {}", toml_string(&directory.to_string_lossy())));
    format!(
        "[[site]]\nlisten = [{listen}]\n\n\
         [[site.route]]\npath = \"/\"\n\
         wasm = {{ component = {component}{} }}\n",
        compiled.unwrap_or_default()
    )
}

/// The configuration of one Python application, without files as above.
fn python_application(app: &str, directory: &Path, listen: ListenAddress) -> String {
    let (app, directory) = (toml_string(app), toml_string(&directory.to_string_lossy()));
    let listen = toml_string(&listen.to_string());
    format!(
        "[[site]]\nlisten = [{listen}]\n\n\
         [[site.route]]\npath = \"/\"\n\
         python = {{ app = {app}, directory = {directory} }}\n"
    )
}

pub(super) fn problem_line(command: &str, problem: &ConfigProblem) -> String {
    // Problems in a file begin with its name.
    match problem.file.as_os_str().is_empty() {
        true => format!("touchstone {command}: {problem}"),
        false => problem.to_string(),
    }
}

pub(super) fn log_destination(text: String) -> LogDestination {
    // Any other text is the name of a file.
    touchstone_config::parse_log_destination_text(&text).unwrap_or_else(|_| LogDestination::File(text.into()))
}
