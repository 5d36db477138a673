//! Figures that `touchstone load` sends while it runs: to a real Prometheus, and to a receiver that is away.

use crate::support::{Origin, Tree, error_lines, free_port, read_head, run, wait_until};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
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

/// An OpenTelemetry Collector that prints what it takes, as `scripts/setup-collector.sh` builds it; it ends
/// with the test.
struct Collector {
    child: Child,
    port: u16,
    printed: PathBuf,
}

impl Drop for Collector {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Collector {
    /// `None`, with a visible word, where it is not built.
    fn start(tree: &Tree) -> Option<Collector> {
        let built = Path::new(env!("CARGO_BIN_EXE_touchstone"));
        let program = built.ancestors().nth(2).expect("the target directory").join("collector/collector");
        if !program.exists() {
            crate::support::skipped("an OpenTelemetry Collector (run scripts/setup-collector.sh, with Go)");
            return None;
        }
        let (port, printed) = (free_port(), tree.beside("collector.log"));
        let configuration = tree.beside("collector.yaml");
        let text = format!(
            "receivers: {{ otlp: {{ protocols: {{ http: {{ endpoint: '127.0.0.1:{port}' }} }} }} }}\n\
             exporters: {{ debug: {{ verbosity: detailed }} }}\n\
             service:\n  telemetry: {{ metrics: {{ level: none }} }}\n  \
             pipelines: {{ metrics: {{ receivers: [otlp], exporters: [debug] }} }}\n"
        );
        std::fs::write(&configuration, text).expect("a file");
        let child = Command::new(program)
            .arg(format!("--config={}", configuration.display()))
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(&printed).expect("a file"))
            .spawn()
            .expect("it can be started");
        let collector = Collector { child, port, printed };
        wait_until("the collector is ready", PATIENCE, || {
            TcpStream::connect(("127.0.0.1", collector.port)).is_ok()
        });
        Some(collector)
    }

    /// What it took of a metric last: its text up to that of the next.
    fn last(&self, metric: &str) -> String {
        let printed = std::fs::read_to_string(&self.printed).unwrap_or_default();
        let name = format!("-> Name: {metric}\n");
        let after = printed.rsplit_once(&name).map(|(_, after)| after).unwrap_or_default();
        after.split("-> Name: ").next().unwrap_or_default().to_string()
    }
}

#[test]
fn a_real_collector_gets_the_figures() {
    let (tree, origin) = (Tree::standard(), origin());
    let Some(collector) = Collector::start(&tree) else { return };
    let otlp = format!("http://127.0.0.1:{}/v1/metrics", collector.port);
    let url = format!("http://{}/", origin.address);
    let arguments = ["--requests", "500", "--rate", "250", "--clients", "3", "--metrics-each", "200ms"];
    let output =
        run([&["load", &url][..], &arguments, &["--otlp", &otlp, "--metrics-label", "run=one"]].concat());
    assert_eq!(output.status.code(), Some(0), "{:?}", error_lines(&output));
    assert!(!error_lines(&output).iter().any(|line| line.contains("failed")), "{:?}", error_lines(&output));
    // The last sending is taken before the load ends, and printed by and by.
    wait_until("the collector has printed the last figures", PATIENCE, || {
        collector.last("touchstone.load.requests").contains("Value: 500")
    });
    let requests = collector.last("touchstone.load.requests");
    assert!(requests.contains("IsMonotonic: true"), "{requests}");
    assert!(std::fs::read_to_string(&collector.printed).expect("a file").contains("-> run: Str(one)"));
    assert!(collector.last("touchstone.load.errors").contains("Value: 0"));
    assert!(collector.last("touchstone.load.clients").contains("Value: 3"));
    assert!(!collector.last("touchstone.load.latency").is_empty());
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
