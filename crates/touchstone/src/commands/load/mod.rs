//! `touchstone load`: drives one URL, or a list of them, with virtual clients and prints the figures.

mod fleet;
mod json;
mod live_metrics;
mod planned;
mod progress;
mod replay;
mod summary;
mod text;
mod thresholds;
mod url_list;
mod values;

use super::bench::duration;
use super::print::{print, print_for_reading};
use crate::exit::Exit;
use fleet::LoadSource;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use thresholds::Thresholds;
use touchstone_lab::result::FleetUse;
use touchstone_lab_run::bench::{GeneratedLoad, interrupt_on_signals};
use touchstone_load::{
    DEFAULT_RECEIVE_BUFFER_BYTES, Outcome, Plan, Progress, Stage, Threshold, Verdict, interval_log,
    percentile_text,
};
use touchstone_suite_import::LogFormat;
use values::{
    ByteCount, Statuses, Varying, byte_count, share, stages, statuses, varying_number, varying_time,
};

/// The help after the options.
pub const AFTER_HELP: &str = "Each virtual client has one active request at a time, and sends the next when \
    the last was answered. With --rate requests arrive at that rate instead, however the server answers, and \
    latencies count from the moment at which a request was due. Ctrl-C ends a run early: what was measured \
    is printed.\n\n\
    Exit code 0: there was an answer; 1: there was none; 2: the load could not start; 3: a threshold was \
    missed.";

/// The arguments of `touchstone load`.
#[derive(clap::Args)]
pub struct Arguments {
    /// What to load: http://HOST[:PORT][/PATH], or https://; ws:// or wss:// for WebSockets
    #[arg(value_name = "URL", required_unless_present_any = ["urls", "replay"])]
    url: Option<String>,

    /// The number of virtual clients; with --rate the most that have an active request
    #[arg(long, short = 'c', value_name = "N", default_value_t = 16, help_heading = "Load")]
    clients: usize,

    /// The length of the run with ramps, for example 10s, 500ms or 2m [default: 10s]
    #[arg(long, short = 'd', value_name = "TIME", value_parser = duration, help_heading = "Load")]
    duration: Option<Duration>,

    /// End after this many requests
    #[arg(long, short = 'n', value_name = "N", conflicts_with = "ramp_down", help_heading = "Load")]
    requests: Option<u64>,

    /// Send this many requests (or sessions) a second, even if earlier ones are not answered yet (open load)
    #[arg(long, value_name = "R", conflicts_with = "delay", help_heading = "Load")]
    rate: Option<f64>,

    /// In an open load: arrivals at random times, as from many independent users, instead of equal intervals
    #[arg(long, help_heading = "Load")]
    poisson: bool,

    /// In an open load: each arrival is a session of N requests on its own connection, with think times; ~N:
    /// N on average
    #[arg(long, value_name = "N", value_parser = varying_number, help_heading = "Load")]
    session: Option<Varying<f64>>,

    /// Phases of the number of clients, separated by commas: 10s:50 holds 50, 10s:0-50 goes from 0 to 50
    #[arg(
        long,
        value_name = "LIST",
        value_parser = stages,
        conflicts_with_all = ["rate", "rate_stages", "duration", "clients"],
        help_heading = "Load"
    )]
    stages: Option<StageList>,

    /// Phases of the rate of arrivals, in the same form
    #[arg(
        long,
        value_name = "LIST",
        value_parser = stages,
        conflicts_with_all = ["rate", "duration", "delay"],
        help_heading = "Load"
    )]
    rate_stages: Option<StageList>,

    /// The time that each client waits between an answer and its next request; ~TIME: a random time with this
    /// mean
    #[arg(
        long,
        value_name = "TIME",
        default_value = "0s",
        value_parser = varying_time,
        help_heading = "Load"
    )]
    think_time: Varying<Duration>,

    /// Each client starts after a random delay of at most this
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = duration, help_heading = "Load")]
    delay: Duration,

    /// Time at the beginning that is not counted
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = duration, help_heading = "Load")]
    ramp_up: Duration,

    /// Time at the end that is not counted
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = duration, help_heading = "Load")]
    ramp_down: Duration,

    /// The time after which a request without a complete answer is an error
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration, help_heading = "Load")]
    timeout: Duration,

    /// The seed of all random choices
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Load")]
    seed: u64,

    /// A file of URLs or paths, one on each line, each after an optional weight and method: 10 POST /basket
    #[arg(long, value_name = "FILE", help_heading = "Requests")]
    urls: Option<PathBuf>,

    /// Weights by position in the list (Zipf's law): the weight of number n is 1/n^S (web caches see 0.6 to
    /// 0.8)
    #[arg(long, value_name = "S", requires = "urls", help_heading = "Requests")]
    zipf: Option<f64>,

    /// A file of sessions (TOML): requests in order, with values of earlier answers and of data files
    #[arg(
        long,
        value_name = "FILE",
        requires = "url",
        conflicts_with_all = [
            "urls", "replay", "session", "method", "body", "body_file", "body_size", "expect_status",
            "expect_size", "expect_sha256",
        ],
        help_heading = "Requests"
    )]
    sessions: Option<PathBuf>,

    /// Replay an access log or a HAR: each request at its recorded time
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = [
            "urls", "rate", "rate_stages", "stages", "poisson", "session", "delay", "think_time", "method",
            "body", "body_file", "body_size",
        ],
        help_heading = "Requests"
    )]
    replay: Option<PathBuf>,

    /// The format of the log's lines: '$client [$time] "$request" $status' [default: detected]
    #[arg(
        long,
        value_name = "FORMAT",
        requires = "replay",
        value_parser = LogFormat::parse,
        help_heading = "Requests"
    )]
    log_format: Option<LogFormat>,

    /// Replay this many times as fast as recorded
    #[arg(long, value_name = "X", default_value_t = 1.0, requires = "replay", help_heading = "Requests")]
    speed: f64,

    /// The method [default: GET, with a body POST]
    #[arg(long, short = 'X', value_name = "METHOD", help_heading = "Requests")]
    method: Option<String>,

    /// Add a header field to every request; repeat for more
    #[arg(long = "header", short = 'H', value_name = "NAME: VALUE", help_heading = "Requests")]
    headers: Vec<String>,

    /// The request's body
    #[arg(long, value_name = "TEXT", group = "request_body", help_heading = "Requests")]
    body: Option<String>,

    /// The request's body from a file
    #[arg(long, value_name = "FILE", group = "request_body", help_heading = "Requests")]
    body_file: Option<PathBuf>,

    /// A body of this size, for example 10k
    #[arg(
        long,
        value_name = "BYTES",
        value_parser = byte_count,
        group = "request_body",
        help_heading = "Requests"
    )]
    body_size: Option<ByteCount>,

    /// The statuses of a valid answer, for example 200,404 [default: 200-399]
    #[arg(long, value_name = "LIST", value_parser = statuses, help_heading = "Requests")]
    expect_status: Option<Statuses>,

    /// The size of the body of a valid answer
    #[arg(long, value_name = "BYTES", value_parser = byte_count, help_heading = "Requests")]
    expect_size: Option<ByteCount>,

    /// The SHA-256 of the body of a valid answer, as sha256sum prints it
    #[arg(long, value_name = "HEX", value_parser = values::sha256, help_heading = "Requests")]
    expect_sha256: Option<values::Sha256Sum>,

    /// Answers are streams of messages, and each message is timed: events (server-sent events) or lines
    #[arg(
        long,
        value_name = "FORM",
        value_parser = values::message_form,
        conflicts_with_all = ["grpc", "sessions", "replay"],
        help_heading = "Requests"
    )]
    messages: Option<touchstone_load::MessageForm>,

    /// Make gRPC calls: the body is a message (Protocol Buffers), the answer a stream of messages, and
    /// grpc-status must be 0; with --http2 or --http3
    #[arg(long, conflicts_with_all = ["sessions", "replay", "method"], help_heading = "Requests")]
    grpc: bool,

    /// With --messages, --grpc or WebSockets: the client ends an answer after this number of messages; on a
    /// WebSocket 0 means not to wait for answers [default for WebSockets: as many as are sent]
    #[arg(long, value_name = "N", help_heading = "Requests")]
    end_after: Option<u64>,

    /// Open WebSockets, as with a URL with ws:// or wss://; the body is the message that is sent
    #[arg(
        long,
        conflicts_with_all = [
            "sessions", "replay", "messages", "grpc", "method", "expect_status", "expect_size",
            "expect_sha256", "http2", "http3", "http10", "new_connections", "new_connection_share",
        ],
        help_heading = "WebSockets"
    )]
    websocket: bool,

    /// How many messages are sent on each WebSocket, or "all": until the run ends [default: 1 with a body,
    /// all with --send-every, else 0]
    #[arg(long, value_name = "N|all", value_parser = values::sends, help_heading = "WebSockets")]
    sends: Option<values::Sends>,

    /// Send a message at this interval, even if earlier ones are not answered [default: each after the answer
    /// to the last]
    #[arg(long, value_name = "TIME", value_parser = duration, help_heading = "WebSockets")]
    send_every: Option<Duration>,

    /// Send binary messages, not text messages
    #[arg(long, help_heading = "WebSockets")]
    binary: bool,

    /// Send a ping at this interval, and time the pongs
    #[arg(long, value_name = "TIME", value_parser = duration, help_heading = "WebSockets")]
    ping_every: Option<Duration>,

    /// A new connection for every request
    #[arg(long, help_heading = "Connections")]
    new_connections: bool,

    /// The share of requests that get a new connection, for example 0.1
    #[arg(
        long,
        value_name = "S",
        value_parser = share,
        conflicts_with = "new_connections",
        help_heading = "Connections"
    )]
    new_connection_share: Option<f64>,

    /// Send HTTP/1.0 requests
    #[arg(long = "http1.0", conflicts_with = "http2", help_heading = "Connections")]
    http10: bool,

    /// Use HTTP/2: by ALPN with https://, by prior knowledge (h2c) with http://
    #[arg(long, help_heading = "Connections")]
    http2: bool,

    /// Use HTTP/3 over QUIC; the URL must have https://
    #[arg(long, conflicts_with_all = ["http10", "http2"], help_heading = "Connections")]
    http3: bool,

    /// The number of clients that share a connection of HTTP/2 or 3, each with its own stream
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Connections")]
    streams: usize,

    /// The number of clients that share a connection of HTTP/1.1 and send without waiting for each other's
    /// answers (pipelining)
    #[arg(
        long,
        value_name = "N",
        conflicts_with_all = [
            "streams", "http10", "http2", "http3", "new_connections", "new_connection_share",
        ],
        help_heading = "Connections"
    )]
    pipeline: Option<usize>,

    /// Connect to this address or name and port, instead of those of the URL
    #[arg(long, value_name = "HOST:PORT", help_heading = "Connections")]
    connect_to: Option<String>,

    /// The size of the buffer of a receive call, for example 4096 or 64k
    #[arg(
        long,
        value_name = "BYTES",
        default_value_t = ByteCount(DEFAULT_RECEIVE_BUFFER_BYTES),
        value_parser = byte_count,
        help_heading = "Connections"
    )]
    receive_buffer: ByteCount,

    /// Accept any certificate: an attacker in the network can impersonate the server
    #[arg(long, help_heading = "TLS")]
    insecure: bool,

    /// Trust these certificate authorities (PEM) instead of the system's; a server's own certificate is
    /// allowed too
    #[arg(long, value_name = "FILE", conflicts_with = "insecure", help_heading = "TLS")]
    ca: Option<PathBuf>,

    /// A client certificate (PEM)
    #[arg(long, value_name = "FILE", help_heading = "TLS")]
    cert: Option<PathBuf>,

    /// The key of the client certificate (PEM) [default: in the same file]
    #[arg(long, value_name = "FILE", requires = "cert", help_heading = "TLS")]
    key: Option<PathBuf>,

    /// The server name to send (SNI), which the certificate must have [default: the URL's host]
    #[arg(long, value_name = "NAME", help_heading = "TLS")]
    server_name: Option<String>,

    /// Offer only this version: 1.2 or 1.3
    #[arg(long = "tls", value_name = "VERSION", value_parser = values::tls_version, help_heading = "TLS")]
    tls: Option<touchstone_load::TlsVersions>,

    /// The share of connections that resume an earlier session; the others make full handshakes
    #[arg(
        long,
        value_name = "S",
        default_value_t = 1.0,
        value_parser = values::whole_share,
        help_heading = "TLS"
    )]
    resumption_share: f64,

    /// The number of engine threads, each pinned to a processor, beginning with the last processor [default:
    /// one thread, not pinned]
    #[arg(long, value_name = "N", help_heading = "Engine")]
    cores: Option<usize>,

    /// The processors for the engine threads, for example 1 or 0,2-3
    #[arg(long, value_name = "LIST", conflicts_with = "cores", help_heading = "Engine")]
    pin: Option<String>,

    /// The run fails (exit code 3) if this is true: p99>200ms, errors>0.1%, rate<1000, p99{/basket}>1s;
    /// repeat for more
    #[arg(long, value_name = "THRESHOLD", value_parser = Threshold::parse, help_heading = "Thresholds")]
    fail_if: Vec<Threshold>,

    /// Like --fail-if, but checked during the run, after its first counted second: the run ends as soon as it
    /// is true
    #[arg(long, value_name = "THRESHOLD", value_parser = Threshold::parse, help_heading = "Thresholds")]
    abort_if: Vec<Threshold>,

    /// Let this fleet generate the load: its directory, or its name below fleets/ (touchstone fleet)
    #[arg(long, value_name = "FLEET", conflicts_with_all = ["cores", "pin"], help_heading = "Fleet")]
    fleet: Option<String>,

    /// How long to wait until all agents of the fleet are connected
    #[arg(
        long,
        value_name = "TIME",
        value_parser = duration,
        default_value = "10s",
        requires = "fleet",
        help_heading = "Fleet"
    )]
    fleet_wait: Duration,

    /// Continue when an agent is lost, without its part and with a mark, instead of ending an invalid run
    #[arg(long, requires = "fleet", help_heading = "Fleet")]
    exploratory: bool,

    /// Send metrics during the run to Prometheus, by remote write; repeat for more:
    /// http://127.0.0.1:9090/api/v1/write
    #[arg(long, value_name = "URL", help_heading = "Live figures")]
    prometheus_write: Vec<String>,

    /// Send metrics during the run to an OpenTelemetry collector, by OTLP over HTTP:
    /// http://127.0.0.1:4318/v1/metrics
    #[arg(long, value_name = "URL", help_heading = "Live figures")]
    otlp: Vec<String>,

    /// The interval at which metrics are sent
    #[arg(
        long,
        value_name = "TIME",
        default_value = "5s",
        value_parser = duration,
        help_heading = "Live figures"
    )]
    metrics_each: Duration,

    /// A label of all these metrics, such as run=nightly; repeat for more
    #[arg(long, value_name = "NAME=VALUE", help_heading = "Live figures")]
    metrics_label: Vec<String>,

    /// A header field of these requests, such as 'Authorization: Bearer ...'; repeat for more
    #[arg(long, value_name = "NAME: VALUE", help_heading = "Live figures")]
    metrics_header: Vec<String>,

    /// Print a row for each client
    #[arg(long, help_heading = "Output")]
    per_client: bool,

    /// Print a row for each URL of the list, or for each request of the sessions
    #[arg(long, help_heading = "Output")]
    per_url: bool,

    /// Print a row for each second
    #[arg(long, help_heading = "Output")]
    timeline: bool,

    /// Print JSON
    #[arg(long, help_heading = "Output")]
    json: bool,

    /// Write the latencies of each second as an HdrHistogram log
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    hdr_log: Option<PathBuf>,

    /// Write the whole curve of latency percentiles as text that HdrHistogram's plotter reads (.hgrm)
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    percentiles: Option<PathBuf>,

    /// Write the thresholds as test cases (JUnit XML), for continuous integration
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    junit: Option<PathBuf>,

    /// Append a summary in Markdown to this file: --markdown "$GITHUB_STEP_SUMMARY"
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    markdown: Option<PathBuf>,
}

/// The stated phases of a run.
#[derive(Debug, Clone, PartialEq)]
struct StageList(Vec<Stage>);

/// A run that is over, with what is needed to report it.
struct FinishedLoad {
    /// What was loaded, in words.
    subject: String,
    plan: Plan,
    outcome: Outcome,
    /// The machines of the fleet that made the load.
    fleet: Option<FleetUse>,
    /// Why the figures are not those of the plan.
    invalid: Option<String>,
    /// The outcome of each threshold.
    verdicts: Vec<Verdict>,
    /// The reason if the run ended early.
    aborted_by: Option<Verdict>,
    started: SystemTime,
    per_client: bool,
    per_url: bool,
    timeline: bool,
}

/// Loads the URL and prints the figures.
pub fn run(arguments: Arguments) -> Exit {
    let planned = planned::plan(&arguments)
        .and_then(|(subject, plan)| Ok((subject, Thresholds::of(&arguments, &plan)?, plan)));
    let (subject, thresholds, plan) = match planned {
        Ok(planned) => planned,
        Err(message) => return refuse(&message),
    };
    let sender = match live_metrics::sender(&arguments) {
        Ok(sender) => sender,
        Err(message) => return refuse(&message),
    };
    let interrupt = match interrupt_on_signals() {
        Ok(interrupt) => interrupt,
        Err(error) => return refuse(&format!("signals cannot be handled: {error}")),
    };
    let maker = match LoadSource::of(&arguments, &interrupt) {
        Ok(maker) => maker,
        Err(message) => return refuse(&message),
    };
    let progress = Progress::default();
    let watch = thresholds.watch();
    watch.begin(&progress);
    let load = match maker.generator().prepare(&plan, watch.checked_classes(), &interrupt) {
        Ok(load) => load,
        Err(error) => return refuse(&error.0),
    };
    let started = SystemTime::now();
    let (generated, sent) = progress::shown_while(&plan, &progress, &interrupt, &watch, || {
        sender.while_runs(&progress, plan.clients, || load.run(&progress))
    });
    drop(load);
    maker.end();
    live_metrics::report_failed(&sent);
    let GeneratedLoad { outcome, fleet, invalid, .. } = match generated {
        Ok(generated) => generated,
        Err(error) => return refuse(&error.0),
    };
    let answered = outcome.total_requests > 0;
    let (aborted_by, verdicts) = (watch.verdict(), thresholds.verdicts(&outcome));
    let is_kept = aborted_by.is_none() && verdicts.iter().all(|verdict| verdict.is_kept);
    let Arguments { json, per_client, per_url, timeline, .. } = arguments;
    let finished = FinishedLoad {
        subject,
        plan,
        outcome,
        fleet,
        invalid,
        verdicts,
        aborted_by,
        started,
        per_client,
        per_url,
        timeline,
    };
    if json {
        print(&format!("{:#}", json::of(&finished)));
    } else {
        print_for_reading(&text::of(&finished));
    }
    let written = [
        arguments.hdr_log.map(|path| write(&path, &interval_log(&finished.outcome, finished.started))),
        arguments
            .percentiles
            .map(|path| write(&path, percentile_text(&finished.outcome.latency_ns).as_bytes())),
        arguments.junit.map(|path| write(&path, summary::junit(&finished).as_bytes())),
        arguments.markdown.map(|path| append(&path, summary::markdown(&finished).as_bytes())),
    ];
    let is_written = written.into_iter().flatten().all(|is_written| is_written);
    thresholds::report_missed(&finished);
    if let Some(reason) = &finished.invalid {
        eprintln!("touchstone load: the run is not valid: {reason}");
    }
    let answered = answered && finished.invalid.is_none();
    match (is_written, is_kept, answered) {
        (false, ..) => Exit::Failed,
        (true, false, _) => Exit::ThresholdsNotMet,
        (true, true, true) => Exit::Done,
        (true, true, false) => Exit::Failed,
    }
}

/// Writes a file of figures; an error states why it cannot.
fn write(path: &Path, bytes: &[u8]) -> bool {
    report_written(path, std::fs::write(path, bytes))
}

/// Appends to a file, as steps of a workflow do to their summary.
fn append(path: &Path, bytes: &[u8]) -> bool {
    let file = std::fs::OpenOptions::new().append(true).create(true).open(path);
    report_written(path, file.and_then(|mut file| file.write_all(bytes)))
}

fn report_written(path: &Path, written: std::io::Result<()>) -> bool {
    if let Err(error) = &written {
        eprintln!("touchstone load: {}: {error}", path.display());
    }
    written.is_ok()
}

fn refuse(message: &str) -> Exit {
    eprintln!("touchstone load: {message}");
    Exit::Usage
}
