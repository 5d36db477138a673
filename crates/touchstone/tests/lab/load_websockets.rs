//! `touchstone load` on WebSockets: with a server that others wrote, and over TLS. The server's own count
//! must be that of the load.

use crate::support::{Tree, error_lines, run, skipped};
use rcgen::generate_simple_self_signed;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};

/// A server by the package websockets; it ends with the test.
struct Other {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    port: String,
}

/// Where `scripts/setup-websockets.sh` puts it: below the target directory.
fn python() -> PathBuf {
    let built = Path::new(env!("CARGO_BIN_EXE_touchstone"));
    built.ancestors().nth(2).expect("the target directory").join("websockets/bin/python")
}

impl Other {
    /// `None`, with a visible word, where the package is not installed.
    fn start(arguments: &[&Path]) -> Option<Other> {
        if !python().exists() {
            skipped("WebSockets with the package websockets (run scripts/setup-websockets.sh)");
            return None;
        }
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lab/websocket_server.py");
        let mut child = Command::new(python())
            .arg(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it can be started");
        let input = child.stdin.take();
        let mut output = BufReader::new(child.stdout.take().expect("its output"));
        let mut port = String::new();
        output.read_line(&mut port).expect("its port");
        Some(Other { child, input, output, port: port.trim().to_string() })
    }

    /// What it received.
    fn seen(mut self) -> Value {
        drop(self.input.take());
        let mut text = String::new();
        self.output.read_to_string(&mut text).expect("its count");
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in {text:?}"))
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn load(arguments: &[&str]) -> Output {
    run(["load"].iter().chain(arguments))
}

fn json(arguments: &[&str]) -> Value {
    let output = load(&[arguments, &["--json"]].concat());
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&text)
        .unwrap_or_else(|error| panic!("{error} in: {text} {:?}", error_lines(&output)))
}

fn number(value: &Value, pointer: &str) -> f64 {
    value.pointer(pointer).and_then(Value::as_f64).unwrap_or_else(|| panic!("no {pointer} in {value:#}"))
}

/// Both sides count the same.
fn agree(load: &Value, seen: &Value, websockets: f64, messages: f64) {
    assert_eq!(number(load, "/errors"), 0.0, "{load:#}");
    for (of_load, of_server, wanted) in [
        ("/requests", "/opened", websockets),
        ("/websockets/whole_run/opened", "/codes/1000", websockets),
        ("/websockets/whole_run/sent", "/received", messages),
        ("/messages/whole_run", "/sent", messages),
        ("/websockets/close_codes/1000", "/opened", websockets),
    ] {
        assert_eq!((number(load, of_load), number(seen, of_server)), (wanted, wanted), "{of_load} {seen}");
    }
}

#[test]
fn another_server_counts_what_the_load_counts_and_is_not_faster_than_its_own_log() {
    for (path, more) in [("echo", &[][..]), ("fragments", &["--binary", "--ping-every", "10ms"])] {
        let Some(server) = Other::start(&[]) else { return };
        let url = format!("ws://127.0.0.1:{}/{path}", server.port);
        let arguments =
            ["--rate", "50", "--requests", "40", "--clients", "40", "--sends", "5", "--body-size", "1000"];
        let value = json(&[&[&url[..]], &arguments[..], more].concat());
        let seen = server.seen();
        agree(&value, &seen, 40.0, 200.0);
        assert_eq!(number(&seen, "/sizes"), 200_000.0);
        let mut delays: Vec<f64> =
            seen["delays_us"].as_array().expect("a list").iter().filter_map(Value::as_f64).collect();
        delays.sort_by(f64::total_cmp);
        for (name, place) in [("p50", 100), ("p90", 180), ("p99", 198)] {
            let told = number(&value, &format!("/websockets/answer_us/{name}"));
            assert!(told >= delays[place - 1] * 0.98, "{name}: {told} after {}", delays[place - 1]);
        }
        assert!(more.is_empty() || number(&value, "/websockets/pong_us/count") > 0.0, "{value:#}");
    }
}

#[test]
fn a_suite_opens_websockets_at_a_fixed_rate_and_the_server_counts_the_same() {
    // On a machine that stands still for a moment the sums of so short a run may not agree; if they are
    // wrong, they are wrong in every run.
    let mut tried = Vec::new();
    while let Some(words) = refused_chat() {
        assert!(words.contains("sums do not come out right") && tried.len() < 5, "{tried:#?}{words}");
        tried.push(words);
    }
}

/// Measures a suite of WebSockets. Returns the reason where its result is not verified.
fn refused_chat() -> Option<String> {
    let server = Other::start(&[])?;
    let tree = Tree::standard();
    let (suite, result) = (tree.beside("chat.toml"), tree.beside("result"));
    let text = r#"name = "chat"
title = "Chat"
description = "three messages on each WebSocket"
source = "a test"
fail_if = ["answer.p99>30s", "errors>0"]
mixes = [{ clients = 40, rate = 20 }]
[mix]
ramp_up_s = 0.5
length_s = 3
ramp_down_s = 0.5
[client]
use_keep_alives = true
http_version = "1.1"
[workload]
name = "CHAT"
[[workload.class]]
name = "CHAT"
weight = 1
requests = [{ path = "/echo", websocket = true, body = "hello", sends = 3, ping_every_s = 0.005 }]
"#;
    std::fs::write(&suite, text).expect("a file");
    let url = format!("http://127.0.0.1:{}", server.port);
    let (suite, result) = (suite.to_str().expect("text"), result.to_str().expect("text"));
    let output =
        run(["bench", suite, "--runs", "1", "--sut", &url, "--output", result, "--progress", "plain"]);
    assert_eq!(output.status.code(), Some(0), "{:?}", error_lines(&output));
    let text = std::fs::read_to_string(format!("{result}/result.json")).expect("a result");
    let value: Value = serde_json::from_str(&text).expect("JSON");
    let mix = value.pointer("/systems/0/mixes/0").expect("a mix");
    let seen = server.seen();
    // Requests before the first mix are not counted.
    let asked = number(&seen, "/opened") - number(mix, "/total_requests");
    assert!((1.0..=3.0).contains(&asked), "{asked} {seen}");
    for (of_load, of_server) in
        [("/messages/websockets/total_sent", "/received"), ("/messages/total", "/sent")]
    {
        assert_eq!(number(mix, of_load) + 3.0 * asked, number(&seen, of_server), "{of_load} {seen}");
    }
    assert_eq!(number(mix, "/arrivals/due"), 40.0, "{mix:#}");
    for times in ["first", "gap", "websockets/open", "websockets/answer", "websockets/pong"] {
        assert!(number(mix, &format!("/messages/{times}/p99_us")) > 0.0, "{times} {mix:#}");
    }
    // Each message is answered after 20 ms.
    assert!(number(mix, "/messages/websockets/answer/min_us") >= 20_000.0 * 0.98, "{mix:#}");
    let report = std::fs::read_to_string(format!("{result}/report.html")).expect("a report");
    assert!(report.contains("Never started") && report.contains("Opening p99"));
    let verified = run(["verify", "--require", "indicative", result]);
    let said = || format!("{} {:?}", String::from_utf8_lossy(&verified.stdout), error_lines(&verified));
    (verified.status.code() != Some(0)).then(said)
}

#[test]
fn a_session_opens_a_websocket_with_a_value_and_goes_on_after_it() {
    let Some(server) = Other::start(&[]) else { return };
    let tree = Tree::standard();
    std::fs::write(tree.beside("users.csv"), "user\nann\nbob\n").expect("a file");
    let sessions = tree.beside("sessions.toml");
    let text = r#"[[data]]
file = "users.csv"
[[session]]
name = "talker"
requests = [
  { path = "/echo?${user}", websocket = true, body = "I am ${user}", sends = 2 },
  { path = "/greet", websocket = true, end_after = 5 },
]
"#;
    std::fs::write(&sessions, text).expect("a file");
    let url = format!("http://127.0.0.1:{}/", server.port);
    let sessions = sessions.to_str().expect("text");
    let value = json(&[&url, "--sessions", sessions, "--requests", "12", "--clients", "2"]);
    assert_eq!((number(&value, "/errors"), number(&value, "/requests")), (0.0, 12.0), "{value:#}");
    let seen = server.seen();
    // Six sessions of two messages and five greetings; "I am ann" has eight bytes.
    assert_eq!(number(&seen, "/received"), 12.0, "{seen}");
    assert_eq!(number(&seen, "/sizes"), 96.0, "{seen}");
    assert_eq!(number(&value, "/messages/whole_run"), 12.0 + 30.0, "{value:#}");
}

#[test]
fn tls_changes_nothing() {
    let tree = Tree::standard();
    let own = generate_simple_self_signed(["localhost".to_string()]).expect("a certificate");
    let [certificate, key] = [tree.beside("own.pem"), tree.beside("own.key")];
    std::fs::write(&certificate, own.cert.pem()).expect("a file");
    std::fs::write(&key, own.signing_key.serialize_pem()).expect("a file");
    let Some(server) = Other::start(&[&certificate, &key]) else { return };
    let url = format!("wss://localhost:{}/echo", server.port);
    let ca = certificate.to_str().expect("text");
    let arguments = ["--requests", "12", "--clients", "4", "--sends", "3", "--body", "hello", "--ca", ca];
    let value = json(&[&[&url[..]], &arguments[..]].concat());
    agree(&value, &server.seen(), 12.0, 36.0);
    assert_eq!(number(&value, "/tls/full_handshakes") + number(&value, "/tls/resumed_handshakes"), 12.0);
}

#[test]
fn what_a_server_says_by_itself_is_heard_and_what_it_refuses_is_told() {
    let Some(server) = Other::start(&[]) else { return };
    let place = format!("127.0.0.1:{}", server.port);
    let greeted = load(&[&format!("ws://{place}/greet"), "--requests", "10", "--clients", "5"]);
    let text = String::from_utf8_lossy(&greeted.stdout);
    assert!(greeted.status.success(), "{text}");
    assert!(text.contains("WebSockets of http://"), "{text}");
    for line in ["closed with 1000: 10", "first message", "opening", "errors                     0"] {
        assert!(text.contains(line), "{line} in {text}");
    }
    let refused = load(&[
        &format!("ws://{place}/refuse"),
        "--requests",
        "6",
        "--body",
        "x",
        "--fail-if",
        "closed>0",
        "--fail-if",
        "open.p99>1h",
    ]);
    assert_eq!(refused.status.code(), Some(2), "an hour is not a unit: {:?}", error_lines(&refused));
    let refused = load(&[
        &format!("ws://{place}/refuse"),
        "--requests",
        "6",
        "--body",
        "x",
        "--fail-if",
        "closed>0",
        "--fail-if",
        "open.p99>60m",
    ]);
    let text = String::from_utf8_lossy(&refused.stdout);
    assert_eq!(refused.status.code(), Some(3), "{text}");
    for line in ["closed: the server closed with code 1013", "its answer: no room", "GET /refuse"] {
        assert!(text.contains(line), "{line} in {text}");
    }
    assert_eq!(server.seen()["codes"]["1013"], 6);
}

#[test]
fn options_that_cannot_be_are_refused() {
    for (arguments, said) in [
        (&["http://127.0.0.1:1/", "--sends", "3"][..], "--sends is for WebSockets"),
        (&["ws://127.0.0.1:1/", "--sends", "3"], "what is to be sent"),
        (&["ws://127.0.0.1:1/", "--http2"], "over HTTP/1.1"),
        (&["http://127.0.0.1:1/", "--end-after", "3"], "a URL with ws://"),
        (&["http://127.0.0.1:1/", "--fail-if", "pong.p99>1s"], "no WebSocket is opened"),
    ] {
        let output = load(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(error_lines(&output).iter().any(|line| line.contains(said)), "{:?}", error_lines(&output));
    }
}
