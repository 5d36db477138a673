//! `touchstone load --rate` against a server that the kernel stops for a while: the stall shows as it was.

use crate::support::{Server, Tree, free_port, run, wait_until};
use serde_json::Value;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn json(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes)
        .unwrap_or_else(|error| panic!("{error} in: {}", String::from_utf8_lossy(bytes)))
}

fn number(value: &Value, pointer: &str) -> f64 {
    value.pointer(pointer).and_then(Value::as_f64).unwrap_or_else(|| panic!("no {pointer} in {value:#}"))
}

/// In milliseconds the 99th percentile, what it truly was, and that of the service times.
#[derive(Debug)]
struct Stalled {
    /// The engine had room: its figures are to be relied upon.
    is_clear: bool,
    /// What was due and found no client before the end.
    unsent: f64,
    measured: f64,
    truth: f64,
    service: f64,
}

/// Loads a server with 500 requests a second for 4 seconds, and stops its process for 200 ms in between.
fn with_a_stopped_server(clients: &str) -> Stalled {
    const RATE: f64 = 500.0;
    let tree = Tree::standard();
    let server = Server::quick(&tree.root());
    let before = server.open_sockets();
    let url = format!("http://{}/alphabet.txt", server.address());
    let child = Command::new(env!("CARGO_BIN_EXE_touchstone"))
        .args(["load", &url, "--rate", "500", "--clients", clients, "--duration", "4s", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts");
    wait_until("the load has begun", Duration::from_secs(60), || server.open_sockets() > before);
    std::thread::sleep(Duration::from_millis(1500));
    server.signal(rustix::process::Signal::STOP);
    let start = Instant::now();
    std::thread::sleep(Duration::from_millis(200));
    server.signal(rustix::process::Signal::CONT);
    let stall = start.elapsed();
    let output = child.wait_with_output().expect("the child ends");
    assert_eq!(output.status.code(), Some(0));
    let value = json(&output.stdout);
    assert_eq!((number(&value, "/arrivals/due"), number(&value, "/errors")), (2000.0, 0.0), "{value:#}");
    assert_eq!(number(&value, "/latency_us/count"), number(&value, "/arrivals/started"));
    // 20 of the 2,000 are above the percentile; the first was due half a distance after the stall's
    // beginning, on average, and each one after it waited one distance less.
    Stalled {
        is_clear: value["saturated"] == false,
        unsent: number(&value, "/arrivals/unsent"),
        measured: number(&value, "/latency_us/p99") / 1e3,
        truth: stall.as_secs_f64() * 1e3 - 20.5 * 1000.0 / RATE,
        service: number(&value, "/service_us/p99") / 1e3,
    }
}

#[test]
fn a_stopped_server_shows_in_the_percentiles_as_it_was() {
    for clients in ["200", "4"] {
        // A pause of the machine itself adds to the measured times, so that one run may be wrong; omitted or
        // wrongly timed requests would be wrong in all runs.
        let mut tried = Vec::new();
        let is_right = (0..12).any(|_| {
            let stalled = with_a_stopped_server(clients);
            // Four clients meet the stall four times in all: from their real start the requests after it look
            // fast.
            let is_hidden = clients != "4" || stalled.service < stalled.truth / 2.0;
            let is_near = (stalled.measured / stalled.truth - 1.0).abs() < 0.02;
            let is_right = stalled.unsent == 0.0 && is_hidden && is_near;
            tried.push(stalled);
            is_right
        });
        // If the engine mostly reports that it had no room, other work disturbed the measurement. That only
        // adds time.
        let unclear = tried.iter().filter(|stalled| !stalled.is_clear).count();
        if !is_right
            && unclear * 2 > tried.len()
            && tried.iter().all(|stalled| stalled.measured > stalled.truth * 0.9)
        {
            // Not `eprintln!`, which the harness captures and drops when the test passes.
            let _ = writeln!(
                std::io::stderr(),
                "NOT MEASURED: p99 of a stopped server (the engine had no room): {tried:?}"
            );
            return;
        }
        assert!(is_right, "{clients} clients: {tried:?}");
    }
}

#[test]
fn arrivals_continue_without_a_server() {
    let url = format!("http://127.0.0.1:{}/", free_port());
    let output = run(["load", &url, "--rate", "200", "--clients", "2", "--duration", "500ms", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let value = json(&output.stdout);
    assert_eq!(number(&value, "/arrivals/due"), 100.0);
    let failed = number(&value, "/errors_by_kind/connect");
    assert_eq!(failed, number(&value, "/arrivals/started"));
    assert_eq!(number(&value, "/arrivals/unsent"), 100.0 - failed);
}

#[test]
fn sessions_and_stages_are_told_with_their_model() {
    let tree = Tree::standard();
    let server = Server::quick(&tree.root());
    let url = format!("http://{}/alphabet.txt", server.address());
    let cases: [(&[&str], &str, &str); 4] = [
        (
            &["--rate", "50", "--poisson", "--duration", "400ms"],
            "open",
            "open: 50.0 requests a second, at random",
        ),
        (
            &["--rate", "40", "--session", "~3", "--think-time", "~5ms", "--duration", "400ms"],
            "partly-open",
            "sessions a second of 3.00 requests on average",
        ),
        (&["--stages", "100ms:1,200ms:1-3"], "closed", "closed loop: 3 clients at most"),
        (&["--rate-stages", "100ms:100,200ms:100-0"], "open", "open: 100 requests a second at most"),
    ];
    for (arguments, model, words) in cases {
        let output = run(["load", &url].iter().chain(arguments).chain(&["--json"]));
        let value = json(&output.stdout);
        assert_eq!(value["plan"]["model"], Value::from(model), "{arguments:?}");
        assert_eq!(number(&value, "/errors"), 0.0, "{arguments:?}: {value:#}");
        let stages = value["stages"].as_array().expect("a list of stages");
        assert_eq!(stages.len(), if arguments[0].ends_with("stages") { 2 } else { 0 });
        let output = run(["load", &url].iter().chain(arguments));
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains(words), "{words:?} is not in\n{text}");
        assert_eq!(text.contains("stage at"), !stages.is_empty(), "{text}");
    }
}
