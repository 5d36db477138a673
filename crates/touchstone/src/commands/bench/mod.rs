//! `touchstone bench`: runs a suite on one or more systems under test, and leaves a result and its report.

mod display;

use super::print::{print, print_for_reading};
use crate::exit::Exit;
use display::{Display, Form};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use touchstone_fleet::{Controller, ControllerOptions, Deployment, FleetFile};
use touchstone_lab::raw::{self, RawMix};
use touchstone_lab::result::{Disclosure, MixResult, ResultFile, RunStatus, SystemResult};
use touchstone_lab::{memory, peaks, verdict, warnings};
use touchstone_lab_report::answers::{self, Answer};
use touchstone_lab_report::planning::{self, Assumptions};
use touchstone_lab_report::run_rules::Assessment;
use touchstone_lab_report::{report, table};
use touchstone_lab_run::bench::{self, BenchError, BenchOutcome, Options};
use touchstone_lab_run::live::web::PageListener;
use touchstone_lab_run::placement::{PlacementOptions, parse_list};
use touchstone_load::Threshold;

/// The arguments of `touchstone bench`.
#[derive(clap::Args)]
#[command(after_help = "\
The load engine and the server run on this machine, each on its own processors. With several \
systems the mixes alternate between them, so that noise affects all equally. Ctrl-C ends a run \
early: the measured mixes are kept.

  touchstone bench webbench-1.1-static --quick --sut touchstone,nginx,limit")]
pub struct Arguments {
    /// A built-in suite (touchstone suites) or the path of a suite file
    #[arg(value_name = "SUITE")]
    suite: String,

    /// A system (touchstone systems), one with another executable (nginx=/opt/nginx/sbin/nginx), the path of
    /// a definition, ssh://[USER@]HOST[:PORT]/SYSTEM to start one on another machine, or the URL of a server
    /// that runs already; several separated by commas or by repeating the option [default: touchstone]
    #[arg(long = "sut", value_name = "NAME|URL", value_delimiter = ',')]
    systems: Vec<String>,

    /// Run the suite's short form: about a minute for each system
    #[arg(long)]
    quick: bool,

    /// The number of runs of each mix on each system, in blocks in which all systems take turns [default: 3,
    /// with --quick 1]
    #[arg(long, value_name = "N")]
    runs: Option<u64>,

    /// Search for each system's peak with short trials, and measure loads around the peak instead of the
    /// suite's mixes
    #[arg(long, conflicts_with = "clients")]
    find_peak: bool,

    /// Load all systems at the same time, not in turns: disturbances then affect all equally, so that small
    /// changes of processor time per request are visible, but the rates are those of shared processors
    #[arg(long, conflicts_with_all = ["find_peak", "fleet"])]
    at_once: bool,

    /// Restart all systems before each run, so that the random effects of a start on caches and memory count
    /// as noise and not as a difference between the systems
    #[arg(long, conflicts_with_all = ["find_peak", "fleet"])]
    restart: bool,

    /// The time within which 95 of 100 answers must arrive for a load to be useful, for example 50ms
    #[arg(long, value_name = "TIME", value_parser = duration)]
    p95: Option<Duration>,

    /// The directory for the result; it must be new or empty [default: results/<UTC time>-<suite>]
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,

    /// These numbers of virtual clients instead of the suite's mixes, for example 1,2,4
    #[arg(long, value_name = "N,...", value_delimiter = ',')]
    clients: Option<Vec<usize>>,

    /// These rates instead of the suite's mixes, for example 1000,2000: this many requests (or pages, or
    /// sessions) are sent each second, even if earlier ones are not answered yet; --clients then limits the
    /// active ones
    #[arg(long, value_name = "R,...", value_delimiter = ',', conflicts_with = "find_peak")]
    rate: Vec<f64>,

    /// The length of each mix with ramps, for example 30s or 2m
    #[arg(long, value_name = "TIME", value_parser = duration)]
    length: Option<Duration>,

    /// Time at the beginning of each mix that is not counted
    #[arg(long, value_name = "TIME", value_parser = duration)]
    ramp_up: Option<Duration>,

    /// Time at the end of each mix that is not counted
    #[arg(long, value_name = "TIME", value_parser = duration)]
    ramp_down: Option<Duration>,

    /// How long each system is loaded with all its requests before its first mix, without counting [default:
    /// the suite's]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    warm_up: Option<Duration>,

    /// The number of processors for the system under test; with several numbers each system is measured with
    /// each of them, for the speedup [default: half of them]
    #[arg(long, value_name = "N,...", value_delimiter = ',')]
    cores: Vec<usize>,

    /// The memory limit of the system under test; with several sizes each system is measured with each of
    /// them, for example 64MiB,1GiB [default: the suite's]
    #[arg(long, value_name = "SIZE,...", value_delimiter = ',')]
    memory: Vec<String>,

    /// The processors for the system under test, for example 0,2-3
    #[arg(long, value_name = "LIST", conflicts_with = "cores")]
    sut_cores: Option<String>,

    /// The processors for the load engine [default: those that the system does not get]
    #[arg(long, value_name = "LIST")]
    load_cores: Option<String>,

    /// The port for the system under test, the next ones for further systems [default: free ports]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,

    /// The process of the server that --sut names by its URL, so that its processor time is measured
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,

    /// The metrics of the other machine on which the servers run that --sut names by their URLs: a
    /// node_exporter, for example http://server:9100/metrics
    #[arg(long, value_name = "URL")]
    exporter: Option<String>,

    /// The command that reaches the machines of systems named ssh://HOST/SYSTEM, with its options
    #[arg(long, value_name = "COMMAND", default_value = "ssh")]
    ssh: String,

    /// Let this fleet generate the load: its directory, or its name below fleets/ (touchstone fleet)
    #[arg(long, value_name = "FLEET", conflicts_with = "load_cores")]
    fleet: Option<String>,

    /// With --fleet: how long to wait until all its agents are connected
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "10s", requires = "fleet")]
    fleet_wait: Duration,

    /// With --fleet: continue when an agent is lost, without its part and with a mark, instead of ending an
    /// invalid run
    #[arg(long, requires = "fleet")]
    exploratory: bool,

    /// With --fleet: end the run when more than this share of a mix's requests are errors, percent
    #[arg(long, value_name = "PERCENT", requires = "fleet", value_parser = percent)]
    abort_errors: Option<f64>,

    /// A mix fails (exit code 3) if this is true, in addition to the thresholds of the suite: p99>200ms,
    /// errors>0.1%, rate<1000; repeat for more
    #[arg(long, value_name = "THRESHOLD", value_parser = Threshold::parse)]
    fail_if: Vec<Threshold>,

    /// Like --fail-if, but checked during a mix, after its first counted second: the run ends as soon as it
    /// is true, also with --fleet
    #[arg(long, value_name = "THRESHOLD", value_parser = Threshold::parse)]
    abort_if: Vec<Threshold>,

    /// The sponsor of the measurement, for the report
    #[arg(long, value_name = "TEXT")]
    sponsor: Option<String>,

    /// The network between the load machines and the server, for the report
    #[arg(long, value_name = "TEXT")]
    switch: Option<String>,

    /// Other information for readers of the report; repeat for more
    #[arg(long = "note", value_name = "TEXT")]
    notes: Vec<String>,

    /// The seed of the choice of requests
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// How to show the running bench: the whole screen, one line that changes, or plain lines
    /// [default: the screen on a terminal, plain lines elsewhere]
    #[arg(long, value_name = "FORM", value_parser = ["screen", "line", "plain"])]
    progress: Option<String>,

    /// Also show the run as a web page at this port, for example 8089 or 127.0.0.1:8089; port 0 selects a
    /// free port
    #[arg(long, value_name = "PORT", value_parser = live_address)]
    live: Option<std::net::SocketAddr>,

    /// Print the path of the result and its summary as JSON
    #[arg(long)]
    json: bool,

    /// Do not write the HTML report
    #[arg(long)]
    no_report: bool,
}

/// Runs the suite.
pub fn run(arguments: Arguments) -> Exit {
    let as_json = arguments.json;
    let form = Form::of(arguments.progress.as_deref());
    let page = match arguments.live.map(PageListener::to).transpose() {
        Ok(page) => page,
        Err(message) => return refuse(&message),
    };
    let fleet = arguments.fleet.as_ref().map(|word| FleetFile::directory(word));
    let fleet_options = ControllerOptions {
        wait: arguments.fleet_wait,
        exploratory: arguments.exploratory,
        abort_error_share: arguments.abort_errors.map(|percent| percent / 100.0),
    };
    let options = match options(arguments) {
        Ok(options) => options,
        Err(message) => return refuse(&message),
    };
    let interrupt = match bench::interrupt_on_signals() {
        Ok(interrupt) => interrupt,
        Err(error) => return refuse(&format!("signals cannot be handled: {error}")),
    };
    let mut display = Display::new(form, &options.suite, page);
    let mut left = Vec::new();
    let finished = match fleet {
        None => bench::run(options, &mut display, &interrupt),
        Some(directory) => {
            with_fleet(&directory, fleet_options, options, &mut display, &interrupt, &mut left)
        }
    };
    display.end(&match &finished {
        Ok(BenchOutcome { result, directory, .. }) => match &result.status {
            RunStatus::Complete => format!("done: {}", directory.display()),
            RunStatus::Incomplete(reason) => format!("ended early: {reason}"),
        },
        Err(error) => error.to_string(),
    });
    left.iter().for_each(|line| eprintln!("touchstone bench: {line}"));
    match finished {
        Ok(finished) => {
            if as_json {
                print(&format!("{:#}", summary_json(&finished)));
            } else {
                print_for_reading(&summary(&finished));
            }
            let missed = report_missed(&finished.result);
            match finished.result.status {
                RunStatus::Incomplete(_) if finished.aborted => Exit::ThresholdsNotMet,
                RunStatus::Incomplete(_) => Exit::Failed,
                RunStatus::Complete if missed => Exit::ThresholdsNotMet,
                RunStatus::Complete => Exit::Done,
            }
        }
        Err(BenchError::Refused(message)) => refuse(&message),
        Err(BenchError::Failed(message)) => {
            eprintln!("touchstone bench: {message}");
            Exit::Failed
        }
    }
}

/// The same with a fleet, which is started if its file states how. `left` receives the results that remain on
/// agents' disks.
fn with_fleet(
    directory: &Path,
    fleet: ControllerOptions,
    options: Options,
    display: &mut Display,
    interrupt: &AtomicBool,
    left: &mut Vec<String>,
) -> Result<BenchOutcome, BenchError> {
    let mut deployment = Deployment::start(directory).map_err(BenchError::Refused)?;
    deployment
        .iter()
        .for_each(|deployment| eprintln!("touchstone bench: {}", deployment.broker_description()));
    let mut report = |line: &str| eprintln!("touchstone bench: {line}");
    let controller = Controller::open(directory, fleet, deployment.as_mut(), interrupt, &mut report);
    let controller = controller.map_err(|error| BenchError::Refused(error.to_string()))?;
    let finished = bench::run_with(&controller, options, display, interrupt);
    drop(controller);
    left.extend(deployment.map(Deployment::end).unwrap_or_default());
    finished
}

/// Says on standard error which thresholds were missed, and whether any was.
fn report_missed(result: &ResultFile) -> bool {
    let mut missed = false;
    for system in &result.systems {
        for mix in &system.mixes {
            for record in mix.thresholds.iter().filter(|record| !record.kept) {
                missed = true;
                eprintln!(
                    "touchstone bench: threshold missed by {}, {}, run {}: {}: {}",
                    system.title, mix.name, mix.run, record.threshold, record.words
                );
            }
        }
    }
    missed
}

fn refuse(message: &str) -> Exit {
    eprintln!("touchstone bench: {message}");
    Exit::Usage
}

fn options(arguments: Arguments) -> Result<Options, String> {
    let list = |option: &str, text: Option<String>| {
        text.map(|text| parse_list(&text).map_err(|error| format!("{option}: {error}"))).transpose()
    };
    Ok(Options {
        suite: arguments.suite,
        systems: arguments.systems,
        quick: arguments.quick,
        runs: arguments.runs,
        search: arguments.find_peak,
        at_once: arguments.at_once,
        restart: arguments.restart,
        p95: arguments.p95,
        ssh: arguments.ssh.split_whitespace().map(str::to_string).collect(),
        processors: processors(&arguments.cores)?,
        memory: memory::parse_list(&arguments.memory).map_err(|error| format!("--memory: {error}"))?,
        output: arguments.output,
        clients: arguments.clients,
        rates: arguments.rate,
        length: arguments.length,
        ramp_up: arguments.ramp_up,
        ramp_down: arguments.ramp_down,
        warm_up: arguments.warm_up,
        placement: PlacementOptions {
            cores: arguments.cores.iter().copied().max(),
            system: list("--sut-cores", arguments.sut_cores)?,
            load: list("--load-cores", arguments.load_cores)?,
        },
        port: arguments.port,
        pid: arguments.pid,
        exporter: arguments.exporter,
        disclosure: Disclosure {
            sponsor: arguments.sponsor,
            switch: arguments.switch,
            notes: arguments.notes,
        },
        fail_if: arguments.fail_if,
        abort_if: arguments.abort_if,
        seed: arguments.seed,
        report: (!arguments.no_report).then_some(report::write_html as bench::WriteReport),
        command_line: std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect(),
    })
}

/// The numbers of processors on which each system is measured; one number, or none, is not a speedup.
fn processors(numbers: &[usize]) -> Result<Vec<usize>, String> {
    let mut sorted = numbers.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    match sorted.len() {
        found if found < numbers.len() => Err("--cores names a number twice".to_string()),
        0 | 1 => Ok(Vec::new()),
        _ => Ok(sorted),
    }
}

/// Reads a share in percent.
fn percent(text: &str) -> Result<f64, String> {
    let percent: f64 =
        text.trim_end_matches('%').parse().map_err(|_| "write a number such as 5".to_string())?;
    if (0.0..=100.0).contains(&percent) { Ok(percent) } else { Err("a share is from 0 to 100".to_string()) }
}

/// Reads `10s`, `500ms`, `2m`, `1h`, or a number of seconds.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let unit_at = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let seconds_in_unit = match unit {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(format!("the unit {unit:?} is not ms, s, m or h")),
    };
    let number: f64 =
        number.trim().parse().map_err(|_| "write a time such as 10s, 500ms or 2m".to_string())?;
    let seconds = number * seconds_in_unit;
    if (0.0..=86_400.0).contains(&seconds) {
        return Ok(Duration::from_secs_f64(seconds));
    }
    Err("a time is from 0 to 24h".to_string())
}

/// Reads `8089` or `127.0.0.1:8089`.
fn live_address(text: &str) -> Result<std::net::SocketAddr, String> {
    let port = text.parse::<u16>().map(|port| (std::net::Ipv4Addr::LOCALHOST, port).into());
    port.or_else(|_| text.parse())
        .map_err(|_| "write a port, or an address with one such as 127.0.0.1:8089".to_owned())
}

/// What is printed at the end: the table, the verdict, the warnings, and where everything is.
fn summary(finished: &BenchOutcome) -> String {
    let result = &finished.result;
    let raw = raw::read(&finished.directory).ok();
    let mut text = format!("\n{}\n\n{}", result.suite.title, table::summary(result));
    for system in &result.systems {
        if let Some(words) = &system.last_words {
            text.push_str(&format!("What {} printed last:\n{}\n\n", system.title, indented(words)));
        }
    }
    let spice = table::spice(result);
    if !spice.is_empty() {
        text.push_str("Efficiency against the static file, by rate / latency\n\n");
        text.push_str(&spice);
    }
    for answer in answers(result, raw.as_deref()) {
        text.push_str(&format!("{:<23}{}\n{:<23}{}\n", answer.question, answer.answer, "", answer.because));
    }
    text.push_str("\nVerdict\n");
    verdict::sentences(result, raw.as_deref().unwrap_or_default())
        .iter()
        .for_each(|sentence| text.push_str(&format!("  {sentence}\n")));
    text.push_str(&format!("\nValidity\n  {}\n", validity(result, raw.as_deref())));
    if !result.warnings.is_empty() {
        text.push_str("\nWarnings\n");
        let warnings = warnings::each_once(&result.warnings);
        warnings.iter().for_each(|warning| text.push_str(&format!("  {warning}\n")));
    }
    text.push_str(&format!("\nresult: {}\n", finished.directory.join("result.json").display()));
    if let Some(report) = &finished.report {
        text.push_str(&format!("report: {}\n", report.display()));
    }
    text
}

/// The five questions, with the evidence of the raw data.
fn answers(result: &ResultFile, raw: Option<&[RawMix]>) -> Vec<Answer> {
    answers::of(result, &planning::plan(result, raw.unwrap_or_default(), &Assumptions::default()))
}

/// The class of the result by the run rules, and what decided it.
fn validity(result: &ResultFile, raw: Option<&[RawMix]>) -> String {
    let assessment = Assessment::of(result, raw);
    let reasons: String = assessment.reasons().map(|reason| format!("; {reason}")).collect();
    format!("{}: {}{reasons}.", assessment.class.name(), assessment.meaning())
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}

fn summary_json(finished: &BenchOutcome) -> Value {
    let result = &finished.result;
    let raw = raw::read(&finished.directory).ok();
    json!({
        "result": finished.directory.join("result.json").display().to_string(),
        "report": finished.report.as_ref().map(|report| report.display().to_string()),
        "status": result.status,
        "suite": result.suite.name,
        "answers": answers(result, raw.as_deref()),
        "verdict": verdict::sentences(result, raw.as_deref().unwrap_or_default()),
        "class": Assessment::of(result, raw.as_deref()).class,
        "spice": result.spice,
        "comparisons": result.comparisons,
        "speedups": result.speedups,
        "warnings": result.warnings,
        "systems": result.systems.iter().map(system_json).collect::<Vec<_>>(),
    })
}

fn system_json(system: &SystemResult) -> Value {
    json!({
        "name": system.name,
        "title": system.title,
        "is_limit": system.is_limit,
        "peak": peaks::peak(system).map(mix_json),
        "mixes": system.mixes.iter().map(mix_json).collect::<Vec<_>>(),
        "loads": system.loads,
        "peaks": system.peaks,
        "search": system.search,
        "skipped": system.skipped,
        "last_words": system.last_words,
    })
}

fn mix_json(mix: &MixResult) -> Value {
    json!({
        "name": mix.name,
        "interface": mix.interface,
        "run": mix.run,
        "clients": mix.clients,
        "arrivals": mix.arrivals,
        "messages": mix.messages,
        "window_s": mix.window_s,
        "requests": mix.requests,
        "requests_per_second": mix.requests_per_second,
        "megabits_per_second": mix.megabits_per_second,
        "errors": mix.errors.total(),
        "mean_us": mix.latency.mean_us,
        "p50_us": mix.latency.p50_us,
        "p99_us": mix.latency.p99_us,
        "littles_law_clients": mix.littles_law_clients,
        "server_cpu_us_per_request": mix.server.as_ref().map(|server| server.cpu_us_per_request),
        "load_cpu_us_per_request": mix.load.cpu_us_per_request,
        "generator_saturated": mix.generator_saturated,
        "complete": mix.complete,
        "thresholds": mix.thresholds,
        "error_reasons": mix.error_reasons,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_with_their_units() {
        let milliseconds = |text: &str| duration(text).map(|time| time.as_millis());
        assert_eq!(milliseconds("10s"), Ok(10_000));
        assert_eq!(milliseconds("500ms"), Ok(500));
        assert_eq!(milliseconds("1.5m"), Ok(90_000));
        assert_eq!(milliseconds("1h"), Ok(3_600_000));
        assert_eq!(milliseconds("7"), Ok(7_000));
        for bad in ["", "s", "-1s", "10x", "1e9h", "nan", "25h"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }
}
