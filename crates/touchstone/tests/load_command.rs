//! `touchstone load`, as it is typed: figures that agree with the server's log, exit codes, refusals.

mod support;

use serde_json::Value;
use std::process::{Command, Output, Stdio};
use std::time::Duration;
use support::{Server, Tree, error_lines, free_port, run, wait_until};

fn load(arguments: &[&str]) -> Output {
    run(std::iter::once("load").chain(arguments.iter().copied()))
}

fn json(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in: {text}"))
}

fn number(value: &Value, pointer: &str) -> f64 {
    value.pointer(pointer).and_then(Value::as_f64).unwrap_or_else(|| panic!("no {pointer} in {value:#}"))
}

/// A server of the standard tree with an access log.
fn logging_server() -> (Tree, Server) {
    let tree = Tree::standard();
    let log = tree.beside("access.log");
    let root = tree.root();
    let arguments: [&std::ffi::OsStr; 7] = [
        "--root".as_ref(),
        root.as_ref(),
        "--listen".as_ref(),
        "127.0.0.1:0".as_ref(),
        "--access-log".as_ref(),
        log.as_ref(),
        "--cores=1".as_ref(),
    ];
    let server = Server::start(arguments);
    (tree, server)
}

#[test]
fn requests_agree_with_the_log_of_the_server() {
    for connections in [&[][..], &["--new-connections"], &["--http1.0"], &["--rate", "200"]] {
        let (tree, mut server) = logging_server();
        let url = format!("http://{}/alphabet.txt", server.address());
        let mut arguments = vec![&url[..], "--clients", "5", "--duration", "700ms", "--json"];
        arguments.extend_from_slice(connections);
        let output = load(&arguments);
        assert_eq!(output.status.code(), Some(0), "{:?}", error_lines(&output));
        server.stop();
        let log = std::fs::read_to_string(tree.beside("access.log")).expect("the server has written its log");
        let asked = log.lines().filter(|line| line.contains("GET /alphabet.txt")).count();
        let value = json(&output);
        assert_eq!(number(&value, "/requests") as usize, asked, "{connections:?}");
        assert_eq!(number(&value, "/errors"), 0.0, "{connections:?}");
        assert!(asked > 5, "{connections:?}");
    }
}

#[test]
fn the_json_holds_what_scripts_rely_on() {
    let tree = Tree::standard();
    let server = Server::quick(&tree.root());
    let url = format!("http://{}/alphabet.txt?x=1", server.address());
    let output = load(&[&url, "-c", "3", "-d", "600ms", "--ramp-up", "100ms", "--per-client", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{:?}", error_lines(&output));
    let value = json(&output);
    assert_eq!(value["url"], Value::from(url));
    assert_eq!(number(&value, "/clients"), 3.0);
    assert_eq!(number(&value, "/duration_s"), 0.6);
    assert_eq!(number(&value, "/window/length_s"), 0.5);
    for pointer in ["/rate", "/bytes", "/engine/us_per_request", "/window/requests"] {
        assert!(number(&value, pointer) > 0.0, "{pointer} in {value:#}");
    }
    let mut last = 0.0;
    for figure in ["min", "p50", "p90", "p95", "p99", "p999", "max"] {
        let time_us = number(&value, &format!("/latency_us/{figure}"));
        assert!(time_us >= last, "{figure} in {value:#}");
        last = time_us;
    }
    // The connections were made in the ramp, so none is among the figures, and that is not the same as zero.
    assert!(value["connect_us"].is_null(), "{value:#}");
    assert!(value["saturated"].is_boolean() && value["interrupted"] == false);
    let clients = value["per_client"].as_array().expect("a row for each client");
    assert_eq!(clients.len(), 3);
    let sum: f64 = clients.iter().map(|client| number(client, "/requests")).sum();
    assert_eq!(sum, number(&value, "/window/requests"));
}

#[test]
fn the_text_is_one_screen() {
    let tree = Tree::standard();
    let server = Server::quick(&tree.root());
    let url = format!("http://{}/alphabet.txt", server.address());
    let output = load(&[&url, "--clients", "2", "--duration", "300ms"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{:?}", error_lines(&output));
    for words in [
        "2 clients on kept connections",
        "requests",
        "Mbit/s",
        "errors",
        "p99.9",
        "latency",
        "connect",
        "engine",
    ] {
        assert!(text.contains(words), "{words:?} is not in\n{text}");
    }
    assert!(text.lines().count() <= 24 && text.lines().all(|line| line.chars().count() <= 110), "{text}");
}

#[test]
fn errors_are_told_by_kind_and_only_a_run_without_answers_fails() {
    let tree = Tree::standard();
    let server = Server::quick(&tree.root());
    let url = format!("http://{}/nothing-here", server.address());
    let output = load(&[&url, "--clients", "1", "--duration", "200ms"]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("bad status"), "{text}");

    let url = format!("http://127.0.0.1:{}/", free_port());
    let output = load(&[&url, "--clients", "1", "--duration", "200ms", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let value = json(&output);
    assert_eq!(number(&value, "/requests"), 0.0);
    assert!(number(&value, "/errors_by_kind/connect") > 0.0);
    assert!(value["latency_us"].is_null());
}

#[test]
fn what_cannot_work_is_refused_before_anything_is_sent() {
    let url = format!("http://127.0.0.1:{}/", free_port());
    let cases: &[(&[&str], &str)] = &[
        (&["https://127.0.0.1/"], "TLS"),
        (&["127.0.0.1:80"], "no scheme"),
        (&["http://127.0.0.1:99999/"], "not a port"),
        (&[&url, "--clients", "0"], "0 clients"),
        (&[&url, "--duration", "0s"], "length"),
        (&[&url, "--duration", "1s", "--ramp-up", "1s"], "leave nothing"),
        (&[&url, "--duration", "fast"], "not ms, s, m or h"),
        (&[&url, "--rate", "0"], "rate"),
        (&[&url, "--rate", "5", "--think-time", "1s"], "cannot be used with"),
        (&[&url, "--header", "nonsense"], "name: value"),
        (&[&url, "--receive-buffer", "0"], "receive buffer"),
        (&[&url, "--receive-buffer", "lots"], "64k or 1m"),
        (&[&url, "--cores", "0"], "--cores 0"),
        (&[&url, "--pin", "9-"], "--pin"),
        (&[&url, "--clients", "900000"], "900"),
        (&[], "URL"),
    ];
    for (arguments, said) in cases {
        let output = load(arguments);
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {text}");
        assert!(text.contains(said), "{arguments:?}: {said:?} is not in: {text}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
}

#[test]
fn an_interrupt_ends_early_and_prints() {
    let tree = Tree::standard();
    let server = Server::quick(&tree.root());
    let url = format!("http://{}/alphabet.txt", server.address());
    let before = server.open_sockets();
    let child = Command::new(env!("CARGO_BIN_EXE_touchstone"))
        .args(["load", &url, "--duration", "1h", "--clients", "2", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts");
    // Once it has connections it has also taken over the signals.
    wait_until("the load has begun", Duration::from_secs(30), || server.open_sockets() >= before + 2);
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("the child can be signalled");
    let output = child.wait_with_output().expect("the child ends");
    assert_eq!(output.status.code(), Some(0));
    let value = json(&output);
    assert_eq!(value["interrupted"], Value::from(true));
    assert!(number(&value, "/requests") > 0.0);
}
