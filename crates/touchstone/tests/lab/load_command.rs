//! `touchstone load`, as it is typed: figures that agree with the server's log, exit codes, refusals.

use crate::support::{Server, Tree, error_lines, free_port, run, wait_until};
use serde_json::Value;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

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
    // All connections are made in the ramp, on a busy machine too.
    let output = load(&[&url, "-c", "3", "-d", "4s", "--ramp-up", "3s", "--per-client", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{:?}", error_lines(&output));
    let value = json(&output);
    assert_eq!(value["url"], Value::from(url));
    assert_eq!(number(&value, "/clients"), 3.0);
    assert_eq!(number(&value, "/duration_s"), 4.0);
    assert_eq!(number(&value, "/window/length_s"), 1.0);
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
    let output = load(&[&url, "--clients", "2", "--duration", "1s"]);
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
    let output = load(&[&url, "--clients", "1", "--duration", "1s"]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("bad status"), "{text}");

    let url = format!("http://127.0.0.1:{}/", free_port());
    let output = load(&[&url, "--clients", "1", "--duration", "1s", "--json"]);
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
        (&["ftp://127.0.0.1/"], "only http:// and https://"),
        (&["https://127.0.0.1/", "--ca", "/nowhere.pem"], "/nowhere.pem"),
        (&[&url, "--urls", "/nowhere.txt"], "/nowhere.txt"),
        (&[&url, "--zipf", "1"], "--urls"),
        (&[&url, "--poisson"], "--rate"),
        (&[&url, "--session", "3"], "set a rate"),
        (&[&url, "--stages", "10s"], "10s:100"),
        (&[&url, "--stages", "10s:5", "--duration", "1s"], "cannot be used with"),
        (&[&url, "--streams", "4"], "HTTP/2's"),
        (&[&url, "--http3"], "requires TLS 1.3"),
        (&[&url, "--http2", "--streams", "4", "--new-connections"], "cannot be shared"),
        (&[&url, "--method", "CONNECT"], "tunnel"),
        (&[&url, "--method", "A B"], "method"),
        (&[&url, "--body", "a", "--body-size", "3"], "cannot be used with"),
        (&[&url, "--expect-status", "99"], "final status"),
        (&[&url, "--expect-sha256", "12"], "64 hexadecimal"),
        (&[&url, "--new-connection-share", "1"], "above 0 and below 1"),
        (&[&url, "--requests", "0"], "0 requests"),
        (&["127.0.0.1:80"], "no scheme"),
        (&["http://127.0.0.1:99999/"], "not a port"),
        (&[&url, "--clients", "0"], "0 clients"),
        (&[&url, "--duration", "0s"], "length"),
        (&[&url, "--duration", "1s", "--ramp-up", "1s"], "leave nothing"),
        (&[&url, "--duration", "fast"], "not ms, s, m or h"),
        (&[&url, "--rate", "0"], "rate"),
        (&[&url, "--rate", "5", "--think-time", "1s"], "or use sessions"),
        (&[&url, "--rate", "5", "--delay", "1s"], "cannot be used with"),
        (&[&url, "--header", "nonsense"], "name: value"),
        (&[&url, "--receive-buffer", "0"], "receive buffer"),
        (&[&url, "--receive-buffer", "lots"], "64k or 1m"),
        (&[&url, "--cores", "0"], "--cores 0"),
        (&[&url, "--pin", "9-"], "--pin"),
        (&[&url, "--clients", "900000"], "900"),
        (&[], "<URL>"),
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
fn a_list_of_urls_is_loaded_by_its_weights() {
    let (tree, mut server) = logging_server();
    let list = tree.beside("urls.txt");
    let text = format!("# a mix\n9 http://{}/alphabet.txt\n1 HEAD /index.html\n", server.address());
    std::fs::write(&list, text).expect("the directory can be written");
    let list = list.to_str().expect("the path is text");
    let output = load(&["--urls", list, "--requests", "1000", "--clients", "4", "--per-url", "--json"]);
    let value = json(&output);
    assert_eq!(value["per_url"][1]["method"], Value::from("HEAD"));
    let by_url = number(&value, "/per_url/0/requests") + number(&value, "/per_url/1/latency_us/count");
    assert_eq!(by_url, 1000.0, "{value:#}");
    assert_eq!((number(&value, "/requests"), number(&value, "/errors")), (1000.0, 0.0), "{value:#}");
    let text = "/alphabet.txt\n/index.html\n/alphabet.txt?3\n/alphabet.txt?4\n";
    std::fs::write(list, text).expect("the directory can be written");
    let base = format!("http://{}/", server.address());
    let output = load(&[&base, "--urls", list, "--zipf", "1", "--requests", "1000", "--per-url"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("GET /alphabet.txt?3\n"), "{text}");
    server.stop();
    let log = std::fs::read_to_string(tree.beside("access.log")).expect("the server has written its log");
    let count = |what: &str| log.lines().filter(|line| line.contains(what)).count();
    // 100 with a deviation of 9.5, and shares of 12/25, 6/25, 4/25 and 3/25 of 1,000.
    assert!((40..160).contains(&count("\"HEAD /index.html")), "{}", count("\"HEAD /index.html"));
    for (what, expected) in [("\"GET /index.html", 240), ("alphabet.txt?3", 160), ("alphabet.txt?4", 120)] {
        assert!(count(what).abs_diff(expected) < 90, "{what}: {}", count(what));
    }
    assert_eq!(log.lines().count(), 2000);
}

#[test]
fn latencies_are_written_for_other_tools() {
    let tree = Tree::standard();
    let server = Server::quick(&tree.root());
    let url = format!("http://{}/alphabet.txt", server.address());
    let [log, curve] = [tree.beside("run.hlog"), tree.beside("run.hgrm")];
    let text = |path: &std::path::Path| path.to_str().expect("the path is text").to_string();
    let output = load(&[
        &url,
        "--duration",
        "1900ms",
        "--clients",
        "2",
        "--think-time",
        "5ms",
        "--timeline",
        "--hdr-log",
        &text(&log),
        "--percentiles",
        &text(&curve),
    ]);
    assert_eq!(output.status.code(), Some(0), "{:?}", error_lines(&output));
    assert!(String::from_utf8_lossy(&output.stdout).contains("second    requests"));
    let log = std::fs::read_to_string(log).expect("the log is there");
    let lines: Vec<&str> = log.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(lines.len(), 2, "{log}");
    for (line, begin) in lines.iter().zip(["0.000,1.000,", "1.000,0.900,"]) {
        let histogram = line.rsplit(',').next().unwrap_or_default();
        assert!(line.starts_with(begin) && histogram.starts_with("HISTF"), "{line}");
    }
    let curve = std::fs::read_to_string(curve).expect("the curve is there");
    assert!(curve.contains("1/(1-Percentile)") && curve.contains("Total count"), "{curve}");
    let output = load(&[&url, "--requests", "1", "--percentiles", "/nowhere/run.hgrm"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("/nowhere/run.hgrm"));
}

#[test]
fn an_interrupt_ends_early_and_prints() {
    let (tree, server) = logging_server();
    let url = format!("http://{}/alphabet.txt", server.address());
    let child = Command::new(env!("CARGO_BIN_EXE_touchstone"))
        .args(["load", &url, "--duration", "1h", "--clients", "2", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts");
    // Of so many answers its two clients have received most. It has taken over the signals before the first.
    let log = || std::fs::read_to_string(tree.beside("access.log")).unwrap_or_default();
    wait_until("requests are answered", Duration::from_secs(60), || log().lines().count() >= 20);
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("the child can be signalled");
    let output = child.wait_with_output().expect("the child ends");
    assert_eq!(output.status.code(), Some(0));
    let value = json(&output);
    assert_eq!(value["interrupted"], Value::from(true));
    assert!(number(&value, "/requests") > 0.0);
}
