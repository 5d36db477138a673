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
use fleet::Maker;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use thresholds::Thresholds;
use touchstone_lab::import::LogFormat;
use touchstone_lab::result::FleetUse;
use touchstone_lab_run::bench::{Generated, interrupt_on_signals};
use touchstone_load::{
    DEFAULT_RECEIVE_BUFFER_BYTES, Outcome, Plan, Progress, Stage, Threshold, Verdict, interval_log,
    percentile_text,
};
use values::{
    ByteCount, Statuses, Varying, byte_count, share, stages, statuses, varying_number, varying_time,
};

/// Drive one URL, or a list of them, with virtual clients and print the figures.
///
/// Each virtual client has one request under way at a time, and sends the next when the last was answered.
/// With --rate requests arrive at that rate instead, however the server answers, and latencies count from the
/// moment at which a request was due. Ctrl-C ends a run early: what was measured is printed.
///
/// Exit code 0 when there was an answer, 1 when there was none, 2 when the load could not start, 3 when a
/// threshold was missed.
#[derive(clap::Args)]
pub struct Arguments {
    /// What to load: http://HOST[:PORT][/PATH], or https://; ws:// or wss:// for WebSockets
    #[arg(value_name = "URL", required_unless_present_any = ["urls", "replay"])]
    url: Option<String>,

    /// Virtual clients; with --rate the most that have a request under way
    #[arg(long, short = 'c', value_name = "N", default_value_t = 16, help_heading = "Load")]
    clients: usize,

    /// How long, ramps included, for example 10s, 500ms or 2m [default: 10s]
    #[arg(long, short = 'd', value_name = "TIME", value_parser = duration, help_heading = "Load")]
    duration: Option<Duration>,

    /// End after this many requests
    #[arg(long, short = 'n', value_name = "N", conflicts_with = "ramp_down", help_heading = "Load")]
    requests: Option<u64>,

    /// Requests (or sessions) a second that arrive, however the server answers
    #[arg(long, value_name = "R", conflicts_with = "delay", help_heading = "Load")]
    rate: Option<f64>,

    /// Arrivals at random, as of many independent users, and not at equal distances
    #[arg(long, help_heading = "Load")]
    poisson: bool,

    /// What arrives are sessions of N requests on a connection of their own, with think times between; ~N: N
    /// on average
    #[arg(long, value_name = "N", value_parser = varying_number, help_heading = "Load")]
    session: Option<Varying<f64>>,

    /// Phases of the number of clients: 10s:50 holds 50, 10s:0-50 goes from 0 to 50; several with commas
    #[arg(
        long,
        value_name = "LIST",
        value_parser = stages,
        conflicts_with_all = ["rate", "rate_stages", "duration", "clients"],
        help_heading = "Load"
    )]
    stages: Option<StageList>,

    /// The same for the arrivals a second
    #[arg(
        long,
        value_name = "LIST",
        value_parser = stages,
        conflicts_with_all = ["rate", "duration", "delay"],
        help_heading = "Load"
    )]
    rate_stages: Option<StageList>,

    /// Each client waits this long between an answer and its next request; ~TIME: so long on average, at
    /// random
    #[arg(
        long,
        value_name = "TIME",
        default_value = "0s",
        value_parser = varying_time,
        help_heading = "Load"
    )]
    think_time: Varying<Duration>,

    /// Each client starts after a random wait of at most this
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = duration, help_heading = "Load")]
    delay: Duration,

    /// Time at the beginning that is not counted
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = duration, help_heading = "Load")]
    ramp_up: Duration,

    /// Time at the end that is not counted
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = duration, help_heading = "Load")]
    ramp_down: Duration,

    /// A request without a complete answer after this is an error
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration, help_heading = "Load")]
    timeout: Duration,

    /// Seed of all that is left to chance
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Load")]
    seed: u64,

    /// A file of URLs or paths, one a line, each after a weight and a method if it has them: 10 POST /basket
    #[arg(long, value_name = "FILE", help_heading = "Requests")]
    urls: Option<PathBuf>,

    /// Popularity by the place in the list: the weight of number n is 1/n^S (web caches see 0.6 to 0.8)
    #[arg(long, value_name = "S", requires = "urls", help_heading = "Requests")]
    zipf: Option<f64>,

    /// A file of sessions (TOML): requests in order, with values from answers and data files in later ones
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

    /// Make a recorded load again, each request at its own moment: an access log or a HAR
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

    /// How the lines of the log are written: '$client [$time] "$request" $status' [default: told by the
    /// lines]
    #[arg(
        long,
        value_name = "FORMAT",
        requires = "replay",
        value_parser = LogFormat::parse,
        help_heading = "Requests"
    )]
    log_format: Option<LogFormat>,

    /// So many times as fast as it was recorded
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

    /// A body of so many bytes, for example 10k
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

    /// The bytes that the body of a valid answer has
    #[arg(long, value_name = "BYTES", value_parser = byte_count, help_heading = "Requests")]
    expect_size: Option<ByteCount>,

    /// The SHA-256 that the body of a valid answer has, as sha256sum prints it
    #[arg(long, value_name = "HEX", value_parser = values::sha256, help_heading = "Requests")]
    expect_sha256: Option<values::Sha256Sum>,

    /// Answers are streams of messages, each of which is timed: events (server-sent events) or lines
    #[arg(
        long,
        value_name = "FORM",
        value_parser = values::message_form,
        conflicts_with_all = ["grpc", "sessions", "replay"],
        help_heading = "Requests"
    )]
    messages: Option<touchstone_load::MessageForm>,

    /// Calls of gRPC: the body is a message (Protocol Buffers), the answer a stream of them, and grpc-status
    /// must be 0; with --http2 or --http3
    #[arg(long, conflicts_with_all = ["sessions", "replay", "method"], help_heading = "Requests")]
    grpc: bool,

    /// With --messages, --grpc or WebSockets: the client ends an answer after so many messages; on a
    /// WebSocket 0 means that answers are not waited for [default of WebSockets: as many as are sent]
    #[arg(long, value_name = "N", help_heading = "Requests")]
    end_after: Option<u64>,

    /// Open WebSockets, as a URL with ws:// or wss:// says as well; the body is the message that is sent
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

    /// A message is due so often, whatever the server answers [default: each after the answer to the last]
    #[arg(long, value_name = "TIME", value_parser = duration, help_heading = "WebSockets")]
    send_every: Option<Duration>,

    /// Send messages as binary ones, not as text
    #[arg(long, help_heading = "WebSockets")]
    binary: bool,

    /// Send a ping so often, and time the pongs
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

    /// Speak HTTP/2: agreed upon with https://, and known beforehand with http://
    #[arg(long, help_heading = "Connections")]
    http2: bool,

    /// Speak HTTP/3, over QUIC: always with https://
    #[arg(long, conflicts_with_all = ["http10", "http2"], help_heading = "Connections")]
    http3: bool,

    /// Clients that share one connection of HTTP/2 or 3, each with a stream of it
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Connections")]
    streams: usize,

    /// Clients that share one connection of HTTP/1.1, each of which sends its request without waiting for the
    /// answers to the others' (pipelining)
    #[arg(
        long,
        value_name = "N",
        conflicts_with_all = [
            "streams", "http10", "http2", "http3", "new_connections", "new_connection_share",
        ],
        help_heading = "Connections"
    )]
    pipeline: Option<usize>,

    /// Connect to this address or name and port, whatever the URL says
    #[arg(long, value_name = "HOST:PORT", help_heading = "Connections")]
    connect_to: Option<String>,

    /// Bytes asked for in one receive call, for example 4096 or 64k
    #[arg(
        long,
        value_name = "BYTES",
        default_value_t = ByteCount(DEFAULT_RECEIVE_BUFFER_BYTES),
        value_parser = byte_count,
        help_heading = "Connections"
    )]
    receive_buffer: ByteCount,

    /// Take any certificate: an attacker on the way can be the server
    #[arg(long, help_heading = "TLS")]
    insecure: bool,

    /// Trust these certificate authorities (PEM) in place of the system's; also the server's own certificate
    #[arg(long, value_name = "FILE", conflicts_with = "insecure", help_heading = "TLS")]
    ca: Option<PathBuf>,

    /// A certificate (PEM) for servers that ask their clients for one
    #[arg(long, value_name = "FILE", help_heading = "TLS")]
    cert: Option<PathBuf>,

    /// Its key (PEM) [default: in the same file]
    #[arg(long, value_name = "FILE", requires = "cert", help_heading = "TLS")]
    key: Option<PathBuf>,

    /// The name to ask for (SNI), which the certificate must have [default: the URL's host]
    #[arg(long, value_name = "NAME", help_heading = "TLS")]
    server_name: Option<String>,

    /// Offer this version only: 1.2 or 1.3
    #[arg(long = "tls", value_name = "VERSION", value_parser = values::tls_version, help_heading = "TLS")]
    tls: Option<touchstone_load::TlsVersions>,

    /// The share of connections that take up an earlier session; the others make full handshakes
    #[arg(
        long,
        value_name = "S",
        default_value_t = 1.0,
        value_parser = values::whole_share,
        help_heading = "TLS"
    )]
    resumption_share: f64,

    /// Engine threads, each pinned to a processor, the last ones first [default: one thread, not pinned]
    #[arg(long, value_name = "N", help_heading = "Engine")]
    cores: Option<usize>,

    /// Exactly these processors for the engine threads, for example 1 or 0,2-3
    #[arg(long, value_name = "LIST", conflicts_with = "cores", help_heading = "Engine")]
    pin: Option<String>,

    /// The run fails (exit code 3) where this is true: p99>200ms, errors>0.1%, rate<1000, p99{/basket}>1s;
    /// repeat for more
    #[arg(long, value_name = "THRESHOLD", value_parser = Threshold::parse, help_heading = "Thresholds")]
    fail_if: Vec<Threshold>,

    /// The same, looked at while the load runs, after its first counted second: the run ends as soon as it is
    /// true
    #[arg(long, value_name = "THRESHOLD", value_parser = Threshold::parse, help_heading = "Thresholds")]
    abort_if: Vec<Threshold>,

    /// Have a fleet make the load: its directory, or its name below fleets/ (touchstone fleet)
    #[arg(long, value_name = "FLEET", conflicts_with_all = ["cores", "pin"], help_heading = "Fleet")]
    fleet: Option<String>,

    /// How long its agents may take until all have come
    #[arg(
        long,
        value_name = "TIME",
        value_parser = duration,
        default_value = "10s",
        requires = "fleet",
        help_heading = "Fleet"
    )]
    fleet_wait: Duration,

    /// Go on when an agent is lost, with its part left out and marked, instead of ending an invalid run
    #[arg(long, requires = "fleet", help_heading = "Fleet")]
    exploratory: bool,

    /// Send figures while the load runs to Prometheus, by remote write; repeat for more:
    /// http://127.0.0.1:9090/api/v1/write
    #[arg(long, value_name = "URL", help_heading = "Live figures")]
    prometheus_write: Vec<String>,

    /// The same to an OpenTelemetry collector, by OTLP over HTTP: http://127.0.0.1:4318/v1/metrics
    #[arg(long, value_name = "URL", help_heading = "Live figures")]
    otlp: Vec<String>,

    /// How often
    #[arg(
        long,
        value_name = "TIME",
        default_value = "5s",
        value_parser = duration,
        help_heading = "Live figures"
    )]
    metrics_each: Duration,

    /// A label of all these figures, such as run=nightly; repeat for more
    #[arg(long, value_name = "NAME=VALUE", help_heading = "Live figures")]
    metrics_label: Vec<String>,

    /// A header field of what is sent, such as 'Authorization: Bearer ...'; repeat for more
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

    /// Append a summary in Markdown, as GitHub shows it: --markdown "$GITHUB_STEP_SUMMARY"
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    markdown: Option<PathBuf>,
}

/// The stated phases of a run.
#[derive(Debug, Clone, PartialEq)]
struct StageList(Vec<Stage>);

/// A run that is over, with what is needed to report it.
struct Finished {
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
    let maker = match Maker::of(&arguments, &interrupt) {
        Ok(maker) => maker,
        Err(message) => return refuse(&message),
    };
    let progress = Progress::default();
    let watch = thresholds.watch();
    watch.begin(&progress);
    let load = match maker.generator().prepare(&plan, watch.wanted(), &interrupt) {
        Ok(load) => load,
        Err(error) => return refuse(&error.0),
    };
    let started = SystemTime::now();
    let (generated, sent) = progress::shown_while(&plan, &progress, &interrupt, &watch, || {
        sender.while_runs(&progress, plan.clients, || load.run(&progress))
    });
    drop(load);
    maker.end();
    live_metrics::tell_failed(&sent);
    let Generated { outcome, fleet, invalid, .. } = match generated {
        Ok(generated) => generated,
        Err(error) => return refuse(&error.0),
    };
    let answered = outcome.total_requests > 0;
    let (aborted_by, verdicts) = (watch.verdict(), thresholds.judge(&outcome));
    let is_kept = aborted_by.is_none() && verdicts.iter().all(|verdict| verdict.is_kept);
    let Arguments { json, per_client, per_url, timeline, .. } = arguments;
    let finished = Finished {
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
    thresholds::tell_missed(&finished);
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
    tell_written(path, std::fs::write(path, bytes))
}

/// Appends to a file, as steps of a workflow do to their summary.
fn append(path: &Path, bytes: &[u8]) -> bool {
    let file = std::fs::OpenOptions::new().append(true).create(true).open(path);
    tell_written(path, file.and_then(|mut file| file.write_all(bytes)))
}

fn tell_written(path: &Path, written: std::io::Result<()>) -> bool {
    if let Err(error) = &written {
        eprintln!("touchstone load: {}: {error}", path.display());
    }
    written.is_ok()
}

fn refuse(message: &str) -> Exit {
    eprintln!("touchstone load: {message}");
    Exit::Usage
}
