//! Whole bench runs against a small server of the tests' own: this very executable, started again as
//! [`tiny_server`].
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]
#![allow(clippy::print_stderr, reason = "what was measured is printed")]

use rustix::net::{AddressFamily, SocketFlags, SocketType, getsockname, socket_with};
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use touchstone_lab::result::{ResultFile, RunStatus};
use touchstone_lab_run::bench::{self, BenchError, BenchOutcome, Event, Observer, Options};

/// The environment variable with the port of the small server; without it, this program is not a server.
const PORT: &str = "TINY_SERVER_PORT";

/// How many answers are those of the check, before anything is measured.
const CHECKED: u64 = 101;

/// Not a test: the small server, started by the runs below through their definition of a system.
#[test]
#[ignore = "a server for the other tests"]
fn tiny_server() {
    let Ok(port) = std::env::var(PORT) else { return };
    let root = PathBuf::from(std::env::var("TINY_SERVER_ROOT").unwrap());
    let behaviour = std::env::var("TINY_SERVER_BEHAVIOUR").unwrap();
    if behaviour == "refuse" {
        eprintln!("cannot read my configuration: line 3");
        std::process::exit(78);
    }
    let listener = TcpListener::bind(("127.0.0.1", port.parse().unwrap())).unwrap();
    static ANSWERS: AtomicU64 = AtomicU64::new(0);
    for stream in listener.incoming() {
        let (stream, root, behaviour) = (stream.unwrap(), root.clone(), behaviour.clone());
        std::thread::spawn(move || serve(stream, &root, &behaviour, &ANSWERS));
    }
}

fn serve(stream: TcpStream, root: &Path, behaviour: &str, answers: &AtomicU64) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    loop {
        let mut request = String::new();
        reader.read_line(&mut request).ok().filter(|length| *length > 0)?;
        let mut close = false;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok().filter(|length| *length > 0)?;
            close |= line.to_ascii_lowercase().starts_with("connection: close");
            if line == "\r\n" {
                break;
            }
        }
        let number = answers.fetch_add(1, Ordering::Relaxed);
        // The first hundred and one answers belong to the check.
        if behaviour == "die" && number > CHECKED + 10 {
            eprintln!("assertion failed: the tiny server gives up");
            std::process::exit(70);
        }
        let path = request.split(' ').nth(1)?.trim_start_matches('/').to_string();
        let mut body = std::fs::read(root.join(path)).ok()?;
        if behaviour == "other bytes" {
            body.fill(b'x');
        }
        let failing = behaviour == "fail" && number >= CHECKED;
        let status = if failing { "503 Service Unavailable" } else { "200 OK" };
        let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n", body.len());
        let mut answer = head.into_bytes();
        answer.append(&mut body);
        (&stream).write_all(&answer).ok()?;
        if close {
            return Some(());
        }
    }
}

/// Writes the definition of a system that is the small server with a behaviour.
fn definition(place: &Path, name: &str, behaviour: &str) -> String {
    let executable = std::env::current_exe().unwrap();
    let text = format!(
        r#"name = "{name}"
title = "{name}"
description = "for tests"
executables = ["{}"]
command = ["{{executable}}", "--exact", "tiny_server", "--ignored", "--nocapture"]
capabilities = ["files"]
[environment]
{PORT} = "{{port}}"
TINY_SERVER_ROOT = "{{root}}"
TINY_SERVER_BEHAVIOUR = "{behaviour}"
[[file]]
name = "tiny.conf"
template = "listen {{port}}"
"#,
        executable.display()
    );
    let path = place.join(format!("{name}.toml"));
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

fn options(place: &Path, systems: Vec<String>) -> Options {
    Options {
        suite: "webbench-1.1-static".to_string(),
        systems,
        quick: true,
        output: Some(place.join("result")),
        clients: Some(vec![1, 3]),
        length: Some(Duration::from_millis(900)),
        ramp_up: Some(Duration::from_millis(200)),
        ramp_down: Some(Duration::from_millis(100)),
        report: Some(write_report),
        seed: 1,
        ..Options::default()
    }
}

/// Notes which systems were started and which mixes were run, in which order.
#[derive(Default)]
struct Notes {
    turns: Vec<String>,
    ticks: usize,
}

impl Observer for Notes {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::MixStarted(turn) => self.turns.push(format!("{} {}", turn.system, turn.mix)),
            Event::Starting { system } => self.turns.push(format!("start {system}")),
            Event::Tick(_) => self.ticks += 1,
            _ => {}
        }
    }
}

fn run(options: Options, notes: &mut Notes) -> Result<BenchOutcome, BenchError> {
    bench::run(options, notes, &AtomicBool::new(false))
}

/// Runs with short mixes, and with longer ones if the machine is so busy that a mix has no counted request.
fn run_until_counted(options: Options, notes: &mut Notes) -> BenchOutcome {
    const LENGTHS_MS: [u64; 3] = [900, 5_000, 30_000];
    let place = options.output.clone().unwrap();
    for length_ms in LENGTHS_MS {
        *notes = Notes::default();
        let length = Some(Duration::from_millis(length_ms));
        let finished = run(Options { length, ..options.clone() }, notes).unwrap();
        let mut mixes = finished.result.systems.iter().flat_map(|system| &system.mixes);
        let is_counted = mixes.all(|mix| {
            let used_s = mix.server.as_ref().map_or(0.0, |server| server.user_s + server.system_s);
            mix.requests > 0 && mix.total_requests > mix.requests && used_s > 0.0
        });
        if is_counted || length_ms == LENGTHS_MS[2] {
            return finished;
        }
        std::fs::remove_dir_all(&place).unwrap();
    }
    unreachable!("the last one is returned")
}

fn read_back(finished: &BenchOutcome) -> ResultFile {
    let text = std::fs::read_to_string(finished.directory.join("result.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn two_systems_take_turns_and_leave_a_whole_result() {
    let place = tempfile::tempdir().unwrap();
    let systems = vec![definition(place.path(), "a", "serve"), definition(place.path(), "b", "serve")];
    let mut notes = Notes::default();
    let finished = run_until_counted(options(place.path(), systems), &mut notes);
    let turns = ["start a", "start b", "a 1_client", "b 1_client", "b 3_clients", "a 3_clients"];
    assert_eq!(notes.turns, turns);
    assert!(notes.ticks > 0);

    let result = read_back(&finished);
    assert_eq!(result, finished.result);
    assert_eq!(result.status, RunStatus::Complete);
    assert!(result.machine.same_host && result.suite.quick && result.suite.tree_bytes == 2_618_880);
    for system in &result.systems {
        assert_eq!(system.mixes.iter().map(|mix| mix.clients).collect::<Vec<_>>(), [1, 3]);
        assert_eq!(system.configuration[0].name, "tiny.conf");
        assert!(
            system.command[0].contains("bench") && !system.cpus.is_empty() && system.last_words.is_none()
        );
        for mix in &system.mixes {
            assert!(mix.complete && mix.requests > 0 && mix.errors.total() == 0, "{:?}", mix.errors);
            assert!(mix.total_requests > mix.requests && mix.latency.count == mix.requests);
            assert_eq!(mix.client_rows.len() as u64, mix.clients);
            assert_eq!(mix.client_rows.iter().map(|row| row.requests).sum::<u64>(), mix.requests);
            let server = mix.server.as_ref().unwrap();
            assert!(server.user_s + server.system_s > 0.0 && server.processes == 1);
            assert!(!mix.timeline.is_empty() && mix.machine.is_some());
        }
    }
    for name in [
        "latency.hlog",
        "timeline.csv",
        "clients.csv",
        "report.html",
        "systems/a/tiny.conf",
        "systems/b/output.log",
    ] {
        assert!(finished.directory.join(name).exists(), "{name}");
    }
    let log = std::fs::read_to_string(finished.directory.join("latency.hlog")).unwrap();
    assert_eq!(log.lines().filter(|line| line.starts_with("Tag=")).count(), 4);
}

#[test]
fn what_comes_before_the_first_mix_is_told_and_not_counted() {
    let place = tempfile::tempdir().unwrap();
    let systems = vec![definition(place.path(), "a", "serve"), definition(place.path(), "b", "serve")];
    let mut notes = Notes::default();
    let warm_up = Some(Duration::from_millis(400));
    let finished = run_until_counted(Options { warm_up, ..options(place.path(), systems) }, &mut notes);
    let turns = ["warm-up of a 3_clients", "warm-up of b 3_clients", "a 1_client", "b 1_client"];
    assert_eq!(notes.turns[2..6], turns);
    let result = read_back(&finished);
    assert_eq!((result.method.warm_up_s, result.status), (0.4, RunStatus::Complete));
    for system in &result.systems {
        assert_eq!(system.mixes.iter().map(|mix| mix.clients).collect::<Vec<_>>(), [1, 3]);
    }

    let place = tempfile::tempdir().unwrap();
    let systems = vec![definition(place.path(), "mortal", "die")];
    let finished = run(Options { warm_up, ..options(place.path(), systems) }, &mut Notes::default()).unwrap();
    let RunStatus::Incomplete(reason) = &finished.result.status else {
        panic!("{:?}", finished.result.status)
    };
    assert_eq!(reason, "it ended in the warm-up of mortal (exit status: 70)");
    assert!(finished.result.systems[0].mixes.is_empty() && finished.report.is_some());
}

#[test]
fn systems_are_restarted_before_each_run() {
    let place = tempfile::tempdir().unwrap();
    let systems = vec![definition(place.path(), "a", "serve"), definition(place.path(), "b", "serve")];
    let mut notes = Notes::default();
    let restarted = Options {
        restart: true,
        at_once: true,
        runs: Some(2),
        clients: Some(vec![1]),
        ..options(place.path(), systems)
    };
    let finished = run_until_counted(restarted.clone(), &mut notes);
    let starts = notes.turns.iter().filter(|turn| turn.starts_with("start ")).count();
    assert_eq!(starts, 4, "{:?}", notes.turns);
    let last_start = notes.turns.iter().rposition(|turn| turn == "start b").unwrap();
    assert_eq!(notes.turns[last_start + 1..].len(), 2, "{:?}", notes.turns);
    let result = read_back(&finished);
    assert!(result.status == RunStatus::Complete && result.method.restarts);
    assert!(result.warnings.iter().any(|warning| warning.contains("restarted before each run")));
    for system in &result.systems {
        assert_eq!(system.mixes.iter().map(|mix| mix.run).collect::<Vec<_>>(), [1, 2]);
        assert!(system.mixes.iter().all(|mix| mix.complete && mix.errors.total() == 0));
    }

    let url = "http://127.0.0.1:9/".to_string();
    let refused = run(Options { systems: vec![url], at_once: false, ..restarted }, &mut Notes::default());
    let Err(BenchError::Refused(message)) = refused else { panic!("{refused:?}") };
    assert!(message.contains("is not started on this machine by this run"), "{message}");
}

#[test]
fn a_system_that_dies_in_mid_mix_ends_the_run_and_what_was_measured_is_kept() {
    let place = tempfile::tempdir().unwrap();
    let systems =
        vec![definition(place.path(), "steady", "serve"), definition(place.path(), "mortal", "die")];
    // On a busy machine a mix of less than a second may have too few answers for its end.
    let length = Some(Duration::from_secs(4));
    let options = Options { length, ..options(place.path(), systems) };
    let finished = run(options, &mut Notes::default()).unwrap();
    let result = read_back(&finished);
    let RunStatus::Incomplete(reason) = &result.status else { panic!("{:?}", result.status) };
    assert!(reason.contains("mortal ended in the mix 1_client (exit status: 70)"), "{reason}");
    assert!(result.systems[0].mixes[0].complete && result.systems[0].last_words.is_none());
    let mortal = &result.systems[1];
    assert!(mortal.mixes.len() == 1 && !mortal.mixes[0].complete);
    assert!(mortal.last_words.as_ref().unwrap().contains("the tiny server gives up"));
    assert!(finished.report.is_some());
}

#[test]
fn a_system_that_answers_nothing_valid_any_more_ends_the_run() {
    let place = tempfile::tempdir().unwrap();
    let options = options(place.path(), vec![definition(place.path(), "failing", "fail")]);
    let finished = run(options, &mut Notes::default()).unwrap();
    let RunStatus::Incomplete(reason) = &finished.result.status else {
        panic!("{:?}", finished.result.status)
    };
    assert!(reason.contains("failing gave no valid answer in the mix"), "{reason}");
    assert!(finished.result.systems[0].mixes.last().unwrap().errors.bad_status > 0);
}

#[test]
fn an_interrupt_keeps_what_was_measured() {
    let place = tempfile::tempdir().unwrap();
    let mut options = options(place.path(), vec![definition(place.path(), "a", "serve")]);
    options.length = Some(Duration::from_secs(600));
    let interrupt = AtomicBool::new(false);
    /// Interrupts once something was answered.
    struct Impatient<'a>(&'a AtomicBool);
    impl Observer for Impatient<'_> {
        fn event(&mut self, event: Event<'_>) {
            if let Event::Tick(tick) = event
                && tick.requests_per_second > 0.0
            {
                self.0.store(true, Ordering::Relaxed);
            }
        }
    }
    let finished = bench::run(options, &mut Impatient(&interrupt), &interrupt).unwrap();
    let RunStatus::Incomplete(reason) = &finished.result.status else {
        panic!("{:?}", finished.result.status)
    };
    assert_eq!(reason, "it was interrupted in the mix 1_client on a");
    assert!(
        !finished.result.systems[0].mixes[0].complete
            && finished.result.systems[0].mixes[0].total_requests > 0
    );
    assert!(finished.report.is_some());
}

#[test]
fn a_system_that_cannot_be_measured_is_refused_with_its_last_words() {
    let cases = [
        (
            "refuse",
            "unable ended at once (exit status: 78). It printed last:\n",
            "cannot read my configuration: line 3",
        ),
        (
            "other bytes",
            "unable answered /CLASS_256B/0.html with other bytes than the file's",
            "It printed last",
        ),
    ];
    for (behaviour, expected, words) in cases {
        let place = tempfile::tempdir().unwrap();
        let options = options(place.path(), vec![definition(place.path(), "unable", behaviour)]);
        match run(options, &mut Notes::default()) {
            Err(BenchError::Refused(message)) => {
                assert!(message.starts_with(expected) && message.contains(words), "{message}");
            }
            other => panic!("{behaviour}: {other:?}"),
        }
    }
}

#[test]
fn a_server_that_runs_already_is_measured_by_its_url() {
    let place = tempfile::tempdir().unwrap();
    let suite = touchstone_lab::suite::Suite::find("webbench-1.1-static").unwrap();
    let root = place.path().join("tree");
    touchstone_lab::suite::tree::write(&suite, &root.join("base")).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/base/", listener.local_addr().unwrap());
    static ANSWERS: AtomicU64 = AtomicU64::new(0);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let root = root.clone();
            std::thread::spawn(move || serve(stream, &root, "serve", &ANSWERS));
        }
    });
    let mut options = options(place.path(), vec![url]);
    options.pid = Some(std::process::id());
    options.clients = Some(vec![2]);
    options.report = None;
    let finished = run_until_counted(options, &mut Notes::default());
    let system = &finished.result.systems[0];
    assert!(system.name.ends_with("/base") && system.command.is_empty() && system.cpus.is_empty());
    assert!(system.mixes[0].requests > 0 && system.mixes[0].server.is_some());
    assert!(finished.report.is_none() && !finished.directory.join("report.html").exists());
    assert!(finished.result.warnings.iter().any(|warning| warning.contains("was not started here")));
}

/// A port without a listener, which no other socket gets while this socket exists.
fn bound_port() -> (OwnedFd, SocketAddr) {
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
    rustix::net::bind(&socket, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let address = getsockname(&socket).unwrap().try_into().unwrap();
    (socket, address)
}

#[test]
fn a_url_that_does_not_serve_the_tree_is_refused_with_what_to_do() {
    let place = tempfile::tempdir().unwrap();
    let (_nobody_listens, address) = bound_port();
    let options = options(place.path(), vec![format!("http://{address}")]);
    let Err(BenchError::Refused(message)) = run(options, &mut Notes::default()) else {
        panic!("it was not refused")
    };
    assert!(message.contains("did not answer a request for /CLASS_256B/0.html"), "{message}");
    assert!(message.contains("--tree DIR"), "{message}");
    assert!(!place.path().join("result").exists(), "a refused run leaves no directory");
}

/// Replaces the report, which is made above this crate.
fn write_report(result: &ResultFile, directory: &Path) -> std::io::Result<PathBuf> {
    let path = directory.join("report.html");
    std::fs::write(&path, &result.suite.title)?;
    Ok(path)
}
