//! Figures that `touchstone load` sends while it runs: to a real Prometheus, and to a receiver that is away.

use crate::support::{Origin, Tree, error_lines, free_port, read_head, run, wait_until};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;
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
fn a_receiver_that_is_away_is_told_and_changes_nothing() {
    let origin = origin();
    let (url, away) = (format!("http://{}/", origin.address), format!("http://127.0.0.1:{}/", free_port()));
    let output = run(["load", &url, "--requests", "50", "--otlp", &away]);
    assert_eq!(output.status.code(), Some(0), "{:?}", error_lines(&output));
    let said = error_lines(&output).join("\n");
    assert!(said.contains("live figures: 1 of 1 sendings failed: "), "{said}");
    let output = run(["load", &url, "--metrics-label", "a b"]);
    assert_eq!(output.status.code(), Some(2));
}
