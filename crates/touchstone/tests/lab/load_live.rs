//! Figures that `touchstone load` sends while it runs: to a real Prometheus, to a receiver with
//! OpenTelemetry's own definitions, and to one that is away.

use crate::support::{Origin, Tree, error_lines, free_port, read_head, run, wait_until};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);

fn origin() -> Origin {
    Origin::start(|stream| {
        while read_head(stream).is_some() {
            if stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").is_err() {
                return;
            }
        }
    })
}

/// A Prometheus that takes remote write, ended with the test.
struct Prometheus {
    child: Child,
    port: u16,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Prometheus {
    fn start(tree: &Tree) -> Prometheus {
        let port = free_port();
        let configuration = tree.beside("prometheus.yml");
        std::fs::write(&configuration, "global: { scrape_interval: 1m }\n").expect("a file");
        let child = Command::new("prometheus")
            .arg(format!("--config.file={}", configuration.display()))
            .arg(format!("--storage.tsdb.path={}", tree.beside("prometheus").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .arg("--web.enable-remote-write-receiver")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("it can be started");
        let prometheus = Prometheus { child, port };
        wait_until("Prometheus is ready", PATIENCE, || {
            prometheus.get("/-/ready").is_some_and(|answer| answer.starts_with("HTTP/1.0 200"))
        });
        prometheus
    }

    fn get(&self, path: &str) -> Option<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        Some(answer)
    }

    /// The newest value of a series.
    fn value(&self, query: &str) -> Option<f64> {
        let answer = self.get(&format!("/api/v1/query?query={query}"))?;
        let (_, body) = answer.split_once("\r\n\r\n")?;
        let value: Value = serde_json::from_str(body).ok()?;
        value["data"]["result"][0]["value"][1].as_str()?.parse().ok()
    }
}

#[test]
fn a_real_prometheus_gets_the_figures() {
    let has_prometheus = Command::new("prometheus").arg("--version").output().is_ok();
    if !has_prometheus {
        crate::support::skipped("a real Prometheus (install prometheus)");
        return;
    }
    let (tree, origin) = (Tree::standard(), origin());
    let prometheus = Prometheus::start(&tree);
    let write = format!("http://127.0.0.1:{}/", prometheus.port);
    let url = format!("http://{}/", origin.address);
    let output = run([
        "load",
        &url,
        "--requests",
        "500",
        "--rate",
        "250",
        "--clients",
        "3",
        "--prometheus-write",
        &write,
        "--metrics-each",
        "200ms",
        "--metrics-label",
        "run=one",
        "--json",
    ]);
    assert_eq!(output.status.code(), Some(0), "{:?}", error_lines(&output));
    assert!(!error_lines(&output).iter().any(|line| line.contains("failed")), "{:?}", error_lines(&output));
    let of_run = "%7Brun=%22one%22%7D";
    assert_eq!(prometheus.value(&format!("touchstone_load_requests_total{of_run}")), Some(500.0));
    assert_eq!(prometheus.value(&format!("touchstone_load_errors_total{of_run}")), Some(0.0));
    assert_eq!(prometheus.value(&format!("touchstone_load_clients{of_run}")), Some(3.0));
    let quantile = prometheus.value("touchstone_load_latency_seconds%7Bquantile=%220.99%22%7D");
    assert!(quantile.is_some_and(|seconds| seconds > 0.0), "{quantile:?}");
}

#[test]
fn opentelemetry_takes_the_figures_by_its_own_definitions() {
    let built = Path::new(env!("CARGO_BIN_EXE_touchstone"));
    let python =
        built.ancestors().nth(2).expect("the target directory").join("opentelemetry-proto/bin/python");
    if !python.exists() {
        crate::support::skipped("OTLP with the package opentelemetry-proto (run scripts/setup-otlp.sh)");
        return;
    }
    let mut receiver = Command::new(python)
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lab/otlp_receiver.py"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it can be started");
    let input = receiver.stdin.take();
    let mut output = BufReader::new(receiver.stdout.take().expect("its output"));
    let mut port = String::new();
    output.read_line(&mut port).expect("its port");
    let origin = origin();
    let (url, metrics) =
        (format!("http://{}/", origin.address), format!("http://127.0.0.1:{}/v1/metrics", port.trim()));
    let loaded = run([
        "load",
        &url,
        "--requests",
        "500",
        "--rate",
        "250",
        "--clients",
        "3",
        "--otlp",
        &metrics,
        "--metrics-each",
        "200ms",
        "--metrics-label",
        "run=one",
    ]);
    drop(input);
    let mut seen = String::new();
    output.read_to_string(&mut seen).expect("what it saw");
    receiver.wait().expect("it ends");
    assert_eq!(loaded.status.code(), Some(0), "{:?}", error_lines(&loaded));
    let seen: Value = serde_json::from_str(&seen).expect("JSON");
    assert_eq!(seen["refused"], serde_json::json!([]));
    assert!(seen["requests"].as_u64() > Some(2), "{seen:#}");
    let of = |name: &str| &seen["metrics"][format!("touchstone.load.{name}")];
    for (name, kind, unit, value) in
        [("requests", "sum", "{request}", 500.0), ("errors", "sum", "{request}", 0.0)]
    {
        let metric = of(name);
        assert_eq!((&metric["kind"], &metric["unit"]), (&Value::from(kind), &Value::from(unit)), "{name}");
        assert_eq!(
            (&metric["points"][""], &metric["is_cumulative"]),
            (&Value::from(value), &Value::from(true))
        );
    }
    assert_eq!(of("clients")["points"][""], 3.0);
    assert_eq!((&of("received")["unit"], &of("latency")["unit"]), (&Value::from("By"), &Value::from("s")));
    assert!(of("latency")["points"]["0.99"].as_f64() > Some(0.0), "{seen:#}");
    for metric in seen["metrics"].as_object().expect("an object").values() {
        assert_eq!(metric["attributes"]["run"], "one");
        assert_eq!(metric["times_are_in_order"], true);
    }
}

#[test]
fn a_receiver_that_is_away_is_told_and_changes_nothing() {
    let origin = origin();
    let (url, away) = (format!("http://{}/", origin.address), format!("http://127.0.0.1:{}/", free_port()));
    let output = run(["load", &url, "--requests", "50", "--otlp", &away, "--metrics-each", "1h"]);
    assert_eq!(output.status.code(), Some(0), "{:?}", error_lines(&output));
    let said = error_lines(&output).join("\n");
    assert!(said.contains("live figures: 1 of 1 sendings failed: "), "{said}");
    let output = run(["load", &url, "--metrics-label", "a b"]);
    assert_eq!(output.status.code(), Some(2));
}
