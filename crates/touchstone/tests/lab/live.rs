//! A running bench: the live page's events over a real run, and Ctrl-C in the middle of it, which keeps the
//! measurements, marked.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

/// No event arrives later than this on any machine.
const TIME_LIMIT: Duration = Duration::from_secs(120);

/// A run of several mixes that would take minutes, with its live page.
fn start(place: &std::path::Path) -> (Child, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_touchstone"))
        .args(["bench", "webbench-1.1-static", "--quick", "--sut", "touchstone", "--clients", "1,2,3,4"])
        .args(["--length", "20s", "--ramp-up", "200ms", "--ramp-down", "200ms", "--live", "0", "--output"])
        .arg(place.join("result"))
        .env("TOUCHSTONE_CACHE", place.join("cache"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let line = lines.next().unwrap().unwrap();
    let address = line.strip_prefix("live page: http://").unwrap_or_else(|| panic!("{line}"));
    let address = address.trim_end_matches('/').to_owned();
    // The rest of its output is read and dropped, so that it never waits for us.
    std::thread::spawn(move || lines.for_each(drop));
    (child, address)
}

fn ask(address: &str, path: &str) -> BufReader<TcpStream> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TIME_LIMIT)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
    BufReader::new(stream)
}

#[test]
fn events_stream_over_a_run_and_ctrl_c_keeps_what_was_measured() {
    let place = tempfile::tempdir().unwrap();
    let (mut child, address) = start(place.path());

    let mut page = String::new();
    ask(&address, "/").read_to_string(&mut page).unwrap();
    assert!(page.starts_with("HTTP/1.1 200 OK") && page.contains("EventSource"), "{page:.300}");

    let mut events = Vec::new();
    let mut interrupted = false;
    for line in ask(&address, "/events").lines() {
        let line = line.unwrap();
        let Some(data) = line.strip_prefix("data: ") else { continue };
        let state: Value = serde_json::from_str(data).unwrap();
        let measuring = state["now"]["requests_per_second"].as_f64().is_some_and(|rate| rate > 0.0)
            && state["now"]["p99_us"].as_f64().is_some_and(|us| us > 0.0)
            && state["now"]["server_cpus"].is_f64()
            && state["load_machines"][0]["cpus"].is_f64();
        if measuring && state["mix"]["phase"] == "counted" && !interrupted {
            interrupted = true;
            let sent = Command::new("kill").args(["-s", "INT", &child.id().to_string()]).status().unwrap();
            assert!(sent.success());
        }
        events.push(state);
    }
    assert!(interrupted, "no event with all figures came: {:?}", events.last());
    let last = events.last().unwrap();
    assert_eq!(last["ended"], true, "{last}");
    assert!(last["doing"].as_str().unwrap().starts_with("ended early: it was interrupted"), "{last}");
    assert_eq!(events[0]["suite"], "webbench-1.1-static");

    assert_eq!(child.wait().unwrap().code(), Some(1));
    let result: Value =
        serde_json::from_slice(&fs::read(place.path().join("result/result.json")).unwrap()).unwrap();
    assert_eq!(result["status"]["state"], "incomplete");
    let mixes = result["systems"][0]["mixes"].as_array().unwrap();
    assert_eq!((mixes.len(), &mixes[0]["complete"]), (1, &Value::Bool(false)));
    assert!(mixes[0]["requests"].as_u64().unwrap() > 0);
    let report = fs::read_to_string(place.path().join("result/report.html")).unwrap();
    assert!(report.contains("This run is incomplete") && report.contains("it was interrupted in the mix"));
}

#[test]
fn an_address_that_cannot_be_served_is_refused_before_the_run() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    for (address, words) in
        [(taken.local_addr().unwrap().to_string(), "cannot listen"), ("0.0.0.0:0".to_owned(), "loopback")]
    {
        let output = Command::new(env!("CARGO_BIN_EXE_touchstone"))
            .args(["bench", "webbench-1.1-static", "--live", &address])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains(words), "{said}");
    }
}
