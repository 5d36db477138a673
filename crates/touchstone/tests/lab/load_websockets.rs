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

    /// What it saw.
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
    assert_eq!(refused.status.code(), Some(2), "an hour is no unit: {:?}", error_lines(&refused));
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
