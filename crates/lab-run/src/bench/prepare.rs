//! The preparation of a run: it checks every argument of the command line and every system, and acquires
//! ports, descriptors and the place for the result. Every fault is refused here, with what to do about it.

use super::Options;
use super::port::HeldPort;
use super::search;
use super::system_selection::{self, EnteredSystems, SelectedSystem, SystemKind};
use crate::monitor::Exporter;
use crate::placement::{self, Placement};
use crate::programs::Programs;
use crate::system::user::{self, User};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use time::OffsetDateTime;
use time::macros::format_description;
use touchstone_lab::machine;
use touchstone_lab::output::ResultDirectory;
use touchstone_lab::result::{Disclosure, MachineFacts, MethodRecord, ToolFacts};
use touchstone_lab::statistics::useful_peak::Criteria;
use touchstone_lab::suite::{Lengths, Mix, RunParameters, Suite, tree};
use touchstone_load::{Target, Threshold, TlsTarget, Trust};

/// Descriptors that a bench needs beside those of the load engine: the output files of the systems, the
/// monitor.
const OTHER_OPEN_FILES: u64 = 64;
/// Runs of each mix in the suite's whole form: the fewest with which a result can be certified.
const RUNS: u64 = 3;
/// The most runs of each mix.
const RUNS_MAX: u64 = 1000;

/// A run that can start.
#[derive(Debug)]
pub struct PreparedBench {
    /// What is run.
    pub suite: Suite,
    /// The mixes with the changes of the command line.
    pub mixes: Vec<Mix>,
    /// Whether it is the short form.
    pub quick: bool,
    /// How often each mix is run, the warm-up, and what makes a load useful.
    pub method: MethodRecord,
    /// Whether the loads are searched for before they are measured.
    pub search: bool,
    /// The systems, in the order in which they were named.
    pub selected: Vec<SelectedSystem>,
    /// Their ports, each held until its system is started.
    pub(super) held_ports: Vec<HeldPort>,
    /// Which processors the load engine and the systems get.
    pub placement: Placement,
    /// The workload's files.
    pub tree: PathBuf,
    /// The programs that the suite's interfaces call.
    pub programs: Programs,
    /// The user that servers switch to when root starts them.
    pub user: Option<User>,
    /// The directory of the result.
    pub directory: ResultDirectory,
    /// What each mix must keep to, `abort_if` among it.
    pub thresholds: Vec<Threshold>,
    /// What ends a mix, and the run, as soon as it is missed.
    pub abort_if: Vec<Threshold>,
    /// Seed of the choice of requests.
    pub seed: u64,
    /// The exporter of the systems' machine, where it is not this one.
    pub exporter: Option<Exporter>,
    /// Writes the report; absent: none is written.
    pub report: Option<super::WriteReport>,
    /// The words of the command line, for the record.
    pub command_line: Vec<String>,
    /// The facts of the measuring program.
    pub tool: ToolFacts,
    /// The facts of the machine.
    pub machine: MachineFacts,
    /// The statements of the person who measures.
    pub disclosure: Disclosure,
    /// Facts known already that a reader of the figures needs.
    pub warnings: Vec<String>,
}

impl PreparedBench {
    /// Releases a system's port for the system.
    pub(super) fn release_port(&mut self, system: &SelectedSystem) {
        if let SystemKind::Started { port, tls_port, .. } = system.kind {
            self.held_ports.retain(|held| ![port, tls_port].contains(&held.number()));
        }
    }
}

/// The warning for readers of such figures.
const AT_ONCE: &str = "All systems had each mix at the same time (--at-once): a disturbance of the machine \
    affected all equally, so that their processor times can be compared with each other; their rates and \
    latencies are those of servers that share their processors.";

/// The same for systems that were restarted before each run.
const RESTARTED: &str = "All systems were restarted before each run (--restart): the random effects of a \
    start differ from run to run, and are part of the intervals.";

/// Checks the options and acquires what the run needs; the text of an error states what is wrong and what to
/// do.
pub fn prepare(options: Options) -> Result<PreparedBench, String> {
    let suite = Suite::find(&options.suite).map_err(|error| error.to_string())?;
    let mixes = mixes(&suite, &options)?;
    let method = method(&options, &suite)?;
    let placement = placement::place(&options.placement)?;
    let EnteredSystems { selected, programs, held_ports } =
        system_selection::enter(&options, &suite, &placement)?;
    if options.at_once && selected.len() < 2 {
        return Err("--at-once compares systems with each other: name two or more with --sut".to_string());
    }
    if options.restart
        && let Some(system) = selected.iter().find(|system| !system.is_started_here())
    {
        return Err(format!(
            "--restart restarts the systems before each run, and {} is not started on this machine by \
             this run: leave it out, or --restart",
            system.title
        ));
    }
    let searched = if options.search { search::CLIENTS_MAX } else { 0 };
    provide_open_files(mixes.iter().map(|mix| mix.clients).max().unwrap_or(0).max(searched))?;
    let abort_if: Vec<Threshold> = suite.abort_if.iter().chain(&options.abort_if).cloned().collect();
    if let Some(reason) = abort_if.iter().find_map(Threshold::only_at_the_end) {
        return Err(format!("--abort-if {reason}"));
    }
    let thresholds = suite.fail_if.iter().chain(&options.fail_if).chain(&abort_if);
    let thresholds: Vec<Threshold> = thresholds.cloned().collect();
    let mut warnings: Vec<String> = placement.warning().into_iter().collect();
    for system in &selected {
        warnings.extend(system_warnings(system, &suite, &mixes, &placement, &thresholds)?);
    }
    if options.at_once {
        warnings.push(AT_ONCE.to_string());
    }
    if method.restarts {
        warnings.push(RESTARTED.to_string());
    }
    warnings.dedup();
    let tree = tree::prepare(&suite).map_err(|error| error.to_string())?;
    let same_host = selected.iter().any(SelectedSystem::is_on_this_machine);
    let exporter = exporter(options.exporter.as_deref(), &selected)?;
    let directory = output_directory(options.output.as_deref(), &suite.name)?;
    Ok(PreparedBench {
        exporter,
        mixes,
        quick: options.quick,
        method,
        search: options.search,
        selected,
        held_ports,
        placement,
        tree,
        programs,
        user: user::unprivileged(),
        directory,
        thresholds,
        abort_if,
        seed: options.seed,
        report: options.report,
        command_line: options.command_line,
        tool: machine::tool(),
        machine: machine::facts(same_host),
        disclosure: options.disclosure,
        warnings,
        suite,
    })
}

/// The suite's mixes, or those of its short form, with the numbers of clients and the times of the command
/// line.
fn mixes(suite: &Suite, options: &Options) -> Result<Vec<Mix>, String> {
    let chosen = if options.quick { &suite.quick_mixes } else { &suite.mixes };
    let Some(first) = chosen.first() else {
        return Err(format!("the suite {} has no short form; leave --quick out", suite.name));
    };
    let is_open = !options.rates.is_empty() || first.rate.is_some();
    if is_open && options.search {
        return Err("--find-peak searches for a rate in closed loops: leave the rates out".to_string());
    }
    if !options.rates.is_empty() && suite.compares_interfaces() {
        return Err("interfaces are compared by their peaks, which --rate does not search for".to_string());
    }
    let mut mixes = match &options.clients {
        clients if !options.rates.is_empty() => search::mixes_at(&options.rates, clients.as_deref(), first)?,
        None => chosen.clone(),
        Some(_) if is_open => {
            return Err(format!("the suite {} has rates: set others with --rate", suite.name));
        }
        Some(numbers) => search::mixes_with(numbers, first)?,
    };
    for mix in &mut mixes {
        let set = |seconds: &mut f64, wish: Option<Duration>| {
            if let Some(wish) = wish {
                *seconds = wish.as_secs_f64();
            }
        };
        set(&mut mix.length_s, options.length);
        set(&mut mix.ramp_up_s, options.ramp_up);
        set(&mut mix.ramp_down_s, options.ramp_down);
        if options.ramp_up.is_some() {
            // A client that has not begun when the counting begins is missing in the load that the mix is
            // named after.
            mix.delay_s = mix.delay_s.min(mix.ramp_up_s);
        }
        if let Some(problem) = mix.problem() {
            return Err(problem);
        }
    }
    Ok(mixes)
}

/// How often each mix is run, and what makes a load useful: the criterion needs at most as many runs as there
/// are.
fn method(options: &Options, suite: &Suite) -> Result<MethodRecord, String> {
    let runs = options.runs.unwrap_or(if options.quick { 1 } else { RUNS });
    if !(1..=RUNS_MAX).contains(&runs) {
        return Err(format!("--runs must be from 1 to {RUNS_MAX}"));
    }
    let usual = Criteria::default();
    let useful = Criteria {
        runs_min: usual.runs_min.min(runs as usize),
        p95_max_us: options.p95.map(|time| time.as_secs_f64() * 1e6),
        ..usual
    };
    let warm_up_s = if options.quick { suite.quick_warm_up_s } else { suite.warm_up_s };
    let warm_up_s = options.warm_up.map_or(warm_up_s, |time| time.as_secs_f64());
    let restarts = options.restart && runs > 1;
    Ok(MethodRecord { runs, warm_up_s, at_once: options.at_once, restarts, useful })
}

/// The exporter, when it answers as one.
fn exporter(url: Option<&str>, selected: &[SelectedSystem]) -> Result<Option<Exporter>, String> {
    let Some(url) = url else { return Ok(None) };
    if selected.iter().any(|system| !matches!(system.kind, SystemKind::Running { .. })) {
        return Err(
            "--exporter is for systems that run on another machine: name them by their URL".to_string()
        );
    }
    let exporter = Exporter::new(url).map_err(|error| format!("--exporter: {error}"))?;
    exporter.read(Instant::now()).map_err(|error| format!("--exporter {url}: {error}"))?;
    Ok(Some(exporter))
}

/// Raises the limit of open files as far as allowed, for this process and the servers that it starts; a
/// server needs as many as there are clients, too.
fn provide_open_files(clients: usize) -> Result<(), String> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let most = clients as u64;
    let needed = most + OTHER_OPEN_FILES;
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        // If it cannot be raised, the check below reports it.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    }
    let current = machine::open_files_limit();
    if current < needed {
        return Err(format!(
            "{most} clients need {needed} open files, and the limit is {current}; raise it (ulimit -n \
             {needed}) or use fewer clients"
        ));
    }
    Ok(())
}

/// Has the load engine check its largest plan against this system, and adds warnings about the system itself.
fn system_warnings(
    system: &SelectedSystem,
    suite: &Suite,
    mixes: &[Mix],
    placement: &Placement,
    thresholds: &[Threshold],
) -> Result<Vec<String>, String> {
    // A system that is started here gets its certificate, and its port for TLS, only then.
    let is_running = matches!(system.kind, SystemKind::Running { .. });
    let tls = TlsTarget { trust: Trust::Anything, ..TlsTarget::new("127.0.0.1") };
    let run_parameters = RunParameters {
        target: system.target(),
        tls_target: (!is_running).then(|| Target { tls: Some(tls), ..system.target() }),
        path_prefix: "",
        cores: &placement.load,
        seed: 0,
        lengths: Lengths::Stated,
    };
    let mut warnings = Vec::new();
    if let Some(largest) = mixes.iter().max_by_key(|mix| mix.clients) {
        let plan = suite.plan(suite.first_part(), largest, &run_parameters);
        warnings = plan.check().map_err(|error| format!("{}: {error}", system.name))?;
        super::bound(thresholds, &plan)?;
    }
    if let SystemKind::Running { url, pid } = &system.kind
        && url.is_this_machine()
    {
        warnings.push(format!(
            "{} runs on this machine and was not started here: it may have used the load engine's \
             processors{}.",
            url.url,
            if pid.is_none() { ", and its processor time was not watched (--pid)" } else { "" }
        ));
    }
    Ok(warnings)
}

fn output_directory(wish: Option<&Path>, suite: &str) -> Result<ResultDirectory, String> {
    if let Some(path) = wish {
        return ResultDirectory::create(path);
    }
    let format = format_description!("[year][month][day]T[hour][minute][second]Z");
    let time = OffsetDateTime::now_utc().format(format).map_err(|error| error.to_string())?;
    let base = Path::new("results").join(format!("{time}-{suite}"));
    // Two runs that begin in the same second do not share a directory.
    let mut path = base.clone();
    for number in 2..100 {
        if !path.exists() {
            break;
        }
        path = base.with_file_name(format!("{time}-{suite}-{number}"));
    }
    ResultDirectory::create(&path)
}

#[cfg(test)]
mod tests {
    use super::super::system_selection::PartState;
    use super::super::system_selection::tests::system;
    use super::*;
    use std::net::TcpListener;

    fn options(systems: &[&str]) -> Options {
        Options {
            suite: "webbench-1.1-static".to_string(),
            systems: systems.iter().map(ToString::to_string).collect(),
            ..Options::default()
        }
    }

    fn refusal(options: Options) -> String {
        let place = tempfile::tempdir().unwrap();
        let output = options.output.clone().unwrap_or_else(|| place.path().join("out"));
        let message = prepare(Options { output: Some(output.clone()), ..options }).unwrap_err();
        assert!(!output.exists(), "a refused run leaves no directory");
        message
    }

    #[test]
    fn what_cannot_work_is_refused_before_anything_starts() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = taken.local_addr().unwrap().port();
        let cases = [
            (
                Options { suite: "webbench".into(), ..options(&[]) },
                "there is no suite `webbench`; did you mean",
            ),
            (options(&["ngnix"]), "there is no system `ngnix`; did you mean `nginx`?"),
            (options(&["ftp://127.0.0.1/"]), "only http:// and https://"),
            (Options { port: Some(port), ..options(&["limit"]) }, "cannot be had for limit"),
            (Options { port: Some(65535), ..options(&["limit", "limit"]) }, "--port is too high"),
            (
                Options { exporter: Some("http://127.0.0.1:9/".to_string()), ..options(&["limit"]) },
                "--exporter is for systems that run on another machine",
            ),
            (
                Options { exporter: Some("ftp://x/".to_string()), ..options(&["http://127.0.0.1/"]) },
                "--exporter: ",
            ),
            (Options { pid: Some(1), ..options(&["limit"]) }, "--pid names the process of one system"),
            (Options { pid: Some(u32::MAX), ..options(&["http://127.0.0.1/"]) }, "no such process"),
            (Options { clients: Some(vec![]), ..options(&["limit"]) }, "--clients names no number"),
            (Options { clients: Some(vec![4, 4]), ..options(&["limit"]) }, "--clients names 4 twice"),
            (Options { clients: Some(vec![0]), ..options(&["limit"]) }, "has no clients"),
            (Options { clients: Some(vec![90_000_000]), ..options(&["limit"]) }, "90000000 clients need"),
            (
                Options { length: Some(Duration::from_secs(40)), ..options(&["limit"]) },
                "leave nothing to count",
            ),
            (
                Options {
                    placement: placement::PlacementOptions { cores: Some(9999), ..Default::default() },
                    ..options(&["limit"])
                },
                "--cores must be from 1 to",
            ),
        ];
        for (options, expected) in cases {
            let message = refusal(options);
            assert!(message.contains(expected), "{message:?} should hold {expected:?}");
        }
    }

    #[test]
    fn an_output_directory_that_is_not_empty_is_refused() {
        let place = tempfile::tempdir().unwrap();
        std::fs::write(place.path().join("result.json"), "{}").unwrap();
        let wish = Options { output: Some(place.path().to_path_buf()), ..options(&["limit"]) };
        assert!(prepare(wish).unwrap_err().contains("is not empty; name another with --output"));
    }

    #[test]
    fn systems_named_twice_get_numbers_and_all_get_ports_of_their_own() {
        let place = tempfile::tempdir().unwrap();
        let output = Some(place.path().join("out"));
        let prepared =
            prepare(Options { output, ..options(&["limit", "limit", "http://127.0.0.1:1/x"]) }).unwrap();
        let names: Vec<&str> = prepared.selected.iter().map(|system| system.name.as_str()).collect();
        assert_eq!(names, ["limit", "limit#2", "http://127.0.0.1:1/x"]);
        let ports: Vec<u16> = prepared.selected.iter().map(|system| system.target().address.port()).collect();
        assert!(ports[0] != ports[1] && ports[2] == 1);
        assert!(prepared.machine.same_host && prepared.tree.join("CLASS_4K/3.html").exists());
        assert!(prepared.warnings.iter().any(|warning| warning.contains("was not started here")));
    }

    #[test]
    fn what_a_system_lacks_is_skipped_with_its_reason() {
        let place = tempfile::tempdir().unwrap();
        let words = [
            system(place.path(), "pages", "\"files\", \"includes\""),
            system(place.path(), "plain", "\"files\""),
            system(place.path(), "nothing", ""),
            "limit".to_string(),
            "http://127.0.0.1:1".to_string(),
        ];
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let output = Some(place.path().join("out"));
        let prepared = prepare(Options { suite: "spice".into(), output, ..options(&words) }).unwrap();
        let [pages, plain, nothing, limit, running] = &prepared.selected[..] else { panic!("five") };
        let lacks = |what: &str| PartState::Skipped(what.to_string());
        assert_eq!(pages.parts[..2], [PartState::Runs, PartState::Runs]);
        assert_eq!(pages.parts[2], lacks("pages does not run CGI programs"));
        assert_eq!(pages.needs(&prepared.suite), ["files", "includes"]);
        assert_eq!(pages.skipped(&prepared.suite).len(), 13);
        // With static files alone there would be no comparison.
        assert!(!plain.runs() && plain.parts[0] == PartState::NotNeeded);
        assert!(!nothing.runs() && nothing.parts[3] == lacks("nothing does not serve files"));
        assert!(
            limit.parts[0] == PartState::Runs
                && limit.parts[1..].iter().all(|it| *it == PartState::NotNeeded)
        );
        assert!(running.parts.iter().all(|state| *state == PartState::Runs));
        assert!(prepared.tree.join("spice/spice.shtml").exists());
    }

    #[test]
    fn a_run_with_nothing_to_measure_is_refused_with_the_reasons() {
        let place = tempfile::tempdir().unwrap();
        let plain = system(place.path(), "plain", "\"files\"");
        let message = refusal(Options { suite: "spice-cgi".into(), ..options(&[&plain]) });
        assert_eq!(message, "nothing can be measured: plain does not run CGI programs");
        let nothing = system(place.path(), "nothing", "");
        assert_eq!(refusal(options(&[&nothing])), "nothing can be measured: nothing does not serve files");
    }

    #[test]
    fn the_command_line_changes_the_mixes() {
        let suite = Suite::find("webbench-1.1-static").unwrap();
        let seconds = Duration::from_secs;
        let wishes = Options {
            quick: true,
            clients: Some(vec![3, 1]),
            length: Some(seconds(5)),
            ramp_up: Some(Duration::ZERO),
            ..options(&[])
        };
        let mixes = mixes(&suite, &wishes).unwrap();
        assert_eq!(mixes.iter().map(|mix| mix.clients).collect::<Vec<_>>(), [3, 1]);
        assert_eq!((mixes[0].ramp_up_s, mixes[0].length_s, mixes[0].ramp_down_s), (0.0, 5.0, 1.0));
        assert_eq!(mixes[1].name, "1_client");
    }

    #[test]
    fn a_shorter_ramp_shortens_the_delay_in_it() {
        let mut suite = Suite::find("webbench-1.1-static").unwrap();
        suite.mixes.iter_mut().for_each(|mix| mix.delay_s = 13.0);
        let delay_s = |ramp_up| mixes(&suite, &Options { ramp_up, ..options(&[]) }).unwrap()[0].delay_s;
        assert_eq!(delay_s(Some(Duration::from_secs(2))), 2.0);
        assert_eq!(delay_s(Some(Duration::from_secs(20))), 13.0);
        assert_eq!(delay_s(None), 13.0);
    }
}
