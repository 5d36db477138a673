//! `touchstone load` on streams of messages from servers that others wrote: server-sent events from uvicorn,
//! and gRPC from grpcio. The server's own count must be that of the load.

use crate::support::{curl, error_lines, free_port, run, skipped, wait_until};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A server that ends with the test.
struct Other(Child);

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn tests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

fn json(arguments: &[&str]) -> Value {
    let output = run([&["load"], arguments, &["--json"]].concat());
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&text)
        .unwrap_or_else(|error| panic!("{error} in: {text} {:?}", error_lines(&output)))
}

fn number(value: &Value, pointer: &str) -> f64 {
    value.pointer(pointer).and_then(Value::as_f64).unwrap_or_else(|| panic!("no {pointer} in {value:#}"))
}

/// An application behind uvicorn; `None`, with a visible word, where that is not installed.
fn uvicorn() -> Option<(Other, u16)> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
    let program = cache?.join("touchstone/python-servers/bin/uvicorn");
    if !program.exists() {
        skipped("server-sent events from uvicorn (run scripts/setup-python-servers.sh)");
        return None;
    }
    let port = free_port();
    let child = Command::new(program)
        .args(["sse_app:app", "--log-level", "error", "--host", "127.0.0.1", "--port", &port.to_string()])
        .arg("--app-dir")
        .arg(tests().join("lab"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::null())
        .spawn()
        .expect("it can be started");
    let other = Other(child);
    wait_until("uvicorn listens", Duration::from_secs(60), || {
        TcpStream::connect(("127.0.0.1", port)).is_ok()
    });
    Some((other, port))
}

#[test]
fn events_of_another_server_are_counted_as_it_counts_them_and_not_told_too_early() {
    // A gap is shorter than the server's by as much as the event before it was late: a machine that stands
    // still for a moment shortens some, and only an engine that reports events too early shortens them in all
    // runs.
    let mut tried = Vec::new();
    for _ in 0..TRIES {
        let Some((_server, port)) = uvicorn() else { return };
        let Some((p50, p50_of_server, mean)) = gaps_of_events(port) else { return };
        if p50 >= p50_of_server * 0.9 && mean >= 20_000.0 * 0.9 {
            return;
        }
        tried.push((p50, p50_of_server, mean));
    }
    panic!("gaps are always shorter than the server's: {tried:?}");
}

/// How often a load is measured whose figures may be wrong by chance.
const TRIES: usize = 6;

/// Loads the application and compares the counts. Returns the median gap between two events, what it was for
/// the server, and the mean gap; `None` where there is no curl.
fn gaps_of_events(port: u16) -> Option<(f64, f64, f64)> {
    let url = format!("http://127.0.0.1:{port}/events");
    let value = json(&[&url, "--messages", "events", "--rate", "40", "--requests", "60", "--clients", "60"]);
    assert_eq!((number(&value, "/requests"), number(&value, "/errors")), (60.0, 0.0), "{value:#}");
    let told = curl([format!("http://127.0.0.1:{port}/log")])?;
    let log: Value = serde_json::from_slice(&told.stdout).expect("the application's log");
    assert_eq!(number(&log, "/answers"), 60.0);
    assert_eq!(number(&value, "/messages/whole_run"), number(&log, "/events"));
    let median = |name: &str| {
        let mut sent: Vec<f64> =
            log[name].as_array().expect("a list").iter().filter_map(Value::as_f64).collect();
        sent.sort_by(f64::total_cmp);
        sent[sent.len() / 2]
    };
    let first = number(&value, "/messages/first_us/p50");
    assert!(first >= median("first_us") * 0.9, "{first} after {}", median("first_us"));
    let gap = |figure: &str| number(&value, &format!("/messages/gap_us/{figure}"));
    Some((gap("p50"), median("gaps_us"), gap("mean")))
}

/// A server of real gRPC; `None`, with a visible word, where grpcio is not installed.
fn grpc() -> Option<(Other, String)> {
    let built = Path::new(env!("CARGO_BIN_EXE_touchstone"));
    let python = built.ancestors().nth(2)?.join("grpcio/bin/python");
    if !python.exists() {
        skipped("gRPC with grpcio (run scripts/setup-grpc.sh)");
        return None;
    }
    let mut command = Command::new(python);
    command.arg(tests().join("accelerate/origins/grpc_calls.py")).arg("serve");
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("it can be started");
    let mut port = String::new();
    let output = child.stdout.take().expect("its output");
    BufReader::new(output).read_line(&mut port).expect("its port");
    Some((Other(child), port.trim().to_string()))
}

#[test]
fn calls_of_grpc_to_another_server_are_streams_with_a_status() {
    let Some((_server, port)) = grpc() else { return };
    let call = |method: &str, body: &str, more: &[&str]| {
        let url = format!("http://127.0.0.1:{port}/trial.Trial/{method}");
        let fixed = [&url, "--grpc", "--http2", "--requests", "50", "--clients", "10", "--body", body];
        json(&[&fixed[..], more].concat())
    };
    let unary = call("Echo", "hello", &["--streams", "5"]);
    assert_eq!((number(&unary, "/requests"), number(&unary, "/errors")), (50.0, 0.0), "{unary:#}");
    assert_eq!(number(&unary, "/messages/whole_run"), 50.0);
    let stream = call("Count", "7", &["--rate", "100"]);
    assert_eq!((number(&stream, "/requests"), number(&stream, "/errors")), (50.0, 0.0), "{stream:#}");
    assert_eq!(number(&stream, "/messages/whole_run"), 350.0);
    assert_eq!(number(&stream, "/messages/first_us/count"), 50.0);
    let failed = call("Fail", "x", &[]);
    assert_eq!(number(&failed, "/errors_by_kind/bad_status"), 50.0, "{failed:#}");
    assert_eq!(failed["error_reasons"][0]["reason"], "grpc-status 5");
}
