//! `touchstone accelerate`: a cache in front of another server, started with one line.

use std::path::PathBuf;
use std::time::Duration;

use touchstone_config::{
    Config, ConfigPlaces, ControlSocket, ListenAddress, accelerate, parse_duration_text, parse_size_text,
};
use touchstone_proxy::OriginUrl;
use touchstone_sites::machine::check_machine;

use super::serve::{log_destination, serve_until_ended};
use crate::exit::Exit;

/// What to accelerate, and on which address.
#[derive(clap::Args)]
#[command(
    after_help = "Signals: SIGTERM and SIGINT finish running requests and end; SIGUSR1 opens the log files \
    again. For more settings use a configuration file with a [[site.route]] that has `proxy` and `cache`: \
    see docs/accelerator.md."
)]
pub struct Arguments {
    /// The origin: http://host:port, with an optional path that is put before those of requests, or
    /// unix:/path/of/socket
    #[arg(long, value_name = "URL", value_parser = parse_origin)]
    origin: String,

    /// The address and port to listen on, or a unix socket as unix:PATH; port 0 picks a free one
    #[arg(long, value_name = "ADDR:PORT|unix:PATH")]
    listen: ListenAddress,

    /// Event loops, one a core [default: every processor that the process may run on]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    cores: Option<u16>,

    /// The most memory that stored responses may take, such as 512MiB [default: 256MiB, or a quarter of the
    /// memory that the server may use where that is less]
    #[arg(long, value_name = "SIZE", value_parser = parse_size_text)]
    memory: Option<u64>,

    /// A directory for copies of stored responses, which survive a restart; it is created if it is missing
    #[arg(long, value_name = "DIR")]
    disk: Option<PathBuf>,

    /// The maximum size of the copies on disk
    #[arg(
        long,
        value_name = "SIZE",
        default_value = "10GiB",
        value_parser = parse_size_text,
        requires = "disk"
    )]
    disk_size: u64,

    /// How long an answer without freshness information is kept, if neither it nor its request has a cookie:
    /// 0s: not at all
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = parse_duration_text)]
    default_freshness: Duration,

    /// A PEM file with a certificate and its chain; the address then speaks HTTPS
    #[arg(long, value_name = "PEM")]
    cert: Option<PathBuf>,

    /// The PEM file with the certificate's private key [default: in the certificate's file]
    #[arg(long, value_name = "PEM", requires = "cert")]
    key: Option<PathBuf>,

    /// Speak HTTP/3 as well, over UDP on the same port
    #[arg(long, requires = "cert")]
    http3: bool,

    /// The largest request body that is passed to the origin; a larger one is answered with 413
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = parse_size_text)]
    body_limit: u64,

    /// The path of the unix socket for `touchstone purge`, `status` and `stop`
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,

    /// The destination of the access log: a file, "stdout", "stderr" or "off" [default: off]
    #[arg(long, value_name = "FILE|off")]
    access_log: Option<String>,

    /// The destination of the error log: a file, "stdout", "stderr" or "off" [default: stderr]
    #[arg(long, value_name = "FILE|off")]
    error_log: Option<String>,
}

/// Runs the accelerator until a signal ends it.
pub fn run(arguments: Arguments) -> Exit {
    serve_until_ended("accelerate", None, || {
        let config = configuration(arguments);
        let problems = check_machine(&config, &ConfigPlaces::default());
        if problems.is_empty() { Ok(config) } else { Err(problems) }
    })
}

/// The configuration for the arguments.
fn configuration(arguments: Arguments) -> Config {
    let mut config = accelerate(arguments.origin, arguments.listen);
    config.accelerator.memory_bytes = arguments.memory;
    config.accelerator.disk = arguments.disk;
    config.limits.body_bytes = arguments.body_limit;
    config.accelerator.disk_bytes = arguments.disk_size;
    let default_freshness = u32::try_from(arguments.default_freshness.as_secs()).unwrap_or(u32::MAX);
    for site in &mut config.sites {
        for cache in site.routes.iter_mut().filter_map(|route| route.cache.as_mut()) {
            cache.default_freshness = default_freshness;
        }
        site.tls.certificate = arguments.cert.clone();
        site.tls.key = arguments.key.clone();
        site.tls.http3 = arguments.http3;
    }
    if let Some(path) = arguments.control {
        config.server.control_socket = ControlSocket::Path(path);
    }
    if let Some(cores) = arguments.cores {
        config.server.cores = usize::from(cores);
    }
    if let Some(destination) = arguments.access_log {
        config.access_log.destination = log_destination(destination);
    }
    if let Some(destination) = arguments.error_log {
        config.error_log.destination = log_destination(destination);
    }
    config
}

fn parse_origin(text: &str) -> Result<String, String> {
    OriginUrl::parse(text).map(|_| text.to_string())
}
