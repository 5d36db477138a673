//! A real OpenTelemetry Collector, as `scripts/setup-collector.sh` builds it, and its output; and a receiver
//! that answers as a test requires.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use crate::support::{Origin, Tree, free_port, read_head, skipped, wait_until};

use super::PATIENCE;

/// A collector; it ends with the test.
pub struct Collector {
    child: Option<Child>,
    program: PathBuf,
    configuration: PathBuf,
    printed: PathBuf,
    /// The port for HTTP.
    pub http: u16,
    /// The port for gRPC.
    pub grpc: u16,
}

/// A span as the collector has printed it.
#[derive(Debug, Clone, Default)]
pub struct Span {
    pub trace: String,
    pub parent: String,
    pub id: String,
    pub name: String,
    pub kind: String,
    pub state: String,
    pub status: String,
    pub attributes: BTreeMap<String, String>,
    pub events: Vec<String>,
    pub links: Vec<String>,
}

impl Span {
    /// An attribute; empty: it has none of that name.
    pub fn get(&self, name: &str) -> &str {
        self.attributes.get(name).map_or("", String::as_str)
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Collector {
    /// A collector that runs; `None`, with a visible word, where it is not built.
    pub fn start(tree: &Tree) -> Option<Collector> {
        let mut collector = Collector::prepare(tree)?;
        collector.run();
        Some(collector)
    }

    /// A collector that does not run yet.
    pub fn prepare(tree: &Tree) -> Option<Collector> {
        let built = Path::new(env!("CARGO_BIN_EXE_touchstone"));
        let program = built.ancestors().nth(2).expect("the target directory").join("collector/collector");
        if !program.exists() {
            skipped("an OpenTelemetry Collector (run scripts/setup-collector.sh, with Go)");
            return None;
        }
        let (http, grpc) = (free_port(), free_port());
        let configuration = tree.beside(&format!("collector-{http}.yaml"));
        let text = format!(
            "receivers: {{ otlp: {{ protocols: {{ http: {{ endpoint: '127.0.0.1:{http}' }}, \
             grpc: {{ endpoint: '127.0.0.1:{grpc}' }} }} }} }}\n\
             exporters: {{ debug: {{ verbosity: detailed }} }}\n\
             service:\n  telemetry: {{ metrics: {{ level: none }} }}\n  \
             pipelines:\n    traces: {{ receivers: [otlp], exporters: [debug] }}\n    \
             metrics: {{ receivers: [otlp], exporters: [debug] }}\n"
        );
        fs::write(&configuration, text).expect("a file");
        let printed = tree.beside(&format!("collector-{http}.log"));
        Some(Collector { child: None, program, configuration, printed, http, grpc })
    }

    /// Starts it.
    pub fn run(&mut self) {
        let child = Command::new(&self.program)
            .arg(format!("--config={}", self.configuration.display()))
            .stdout(Stdio::null())
            .stderr(File::create(&self.printed).expect("a file"))
            .spawn()
            .expect("it can be started");
        self.child = Some(child);
        wait_until("the collector is ready", PATIENCE, || {
            [self.http, self.grpc].into_iter().all(|port| TcpStream::connect(("127.0.0.1", port)).is_ok())
        });
    }

    /// Ends it.
    pub fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Everything that it has printed.
    pub fn text(&self) -> String {
        fs::read_to_string(&self.printed).unwrap_or_default()
    }

    /// The spans that it has printed.
    pub fn spans(&self) -> Vec<Span> {
        self.text().split("\nSpan #").skip(1).map(read_span).collect()
    }

    /// Waits until it has printed so many spans.
    pub fn wait_for(&self, count: usize) -> Vec<Span> {
        let mut spans: Vec<Span> = Vec::new();
        wait_until(&format!("{count} spans at the collector"), PATIENCE, || {
            // The text of the last one may be written in parts.
            let (before, now) = (std::mem::take(&mut spans), self.spans());
            let is_settled = format!("{before:?}") == format!("{now:?}");
            spans = now;
            spans.len() >= count && is_settled
        });
        assert_eq!(spans.len(), count, "{spans:#?}");
        spans
    }
}

/// Reads a span of the exporter `debug`.
fn read_span(text: &str) -> Span {
    let mut span = Span::default();
    let mut part = "";
    for line in text.lines().skip(1) {
        if line.starts_with("SpanEvent #") || line.starts_with("SpanLink #") {
            continue;
        }
        if line.starts_with(|first: char| first != ' ') {
            part = line.split(':').next().unwrap_or_default();
            if !["Attributes", "Events", "Links"].contains(&part) {
                break;
            }
            continue;
        }
        let line = line.trim_start();
        match (part, line.strip_prefix("-> "), line.split_once(':')) {
            ("", _, Some((name, value))) => {
                let value = value.trim().to_string();
                match name.trim() {
                    "Trace ID" => span.trace = value,
                    "Parent ID" => span.parent = value,
                    "ID" => span.id = value,
                    "Name" => span.name = value,
                    "Kind" => span.kind = value,
                    "TraceState" => span.state = value,
                    "Status code" => span.status = value,
                    _ => {}
                }
            }
            ("Attributes", Some(attribute), _) => {
                let (name, value) = attribute.split_once(": ").unwrap_or((attribute, ""));
                // `Str(GET)`, `Int(200)`, `Bool(true)`
                let inner = value.split_once('(').map_or(value, |(_, inner)| inner);
                span.attributes.insert(name.to_string(), inner.trim_end_matches(')').to_string());
            }
            ("Events", Some(event), _) => span.events.push(event.to_string()),
            ("Links", Some(link), _) => span.links.push(link.to_string()),
            ("Events" | "Links", None, Some((name, value))) => {
                let all = if part == "Events" { &mut span.events } else { &mut span.links };
                if ["Name", "Trace ID"].contains(&name.trim_start_matches("-> ").trim()) {
                    all.push(value.trim().to_string());
                }
            }
            _ => {}
        }
    }
    span
}

/// The paths and bodies of requests.
type Bodies = Arc<Mutex<Vec<(String, Vec<u8>)>>>;

/// A receiver that answers as a test requires, over HTTP.
pub struct Receiver {
    origin: Origin,
    bodies: Bodies,
}

impl Receiver {
    /// `answer` gets the number of the request, from 0, and returns the answer.
    pub fn start(answer: impl Fn(usize) -> String + Send + Sync + 'static) -> Receiver {
        let bodies: Bodies = Arc::default();
        let kept = bodies.clone();
        let origin = Origin::start(move |stream| {
            while let Some(head) = read_head(stream) {
                let head = head.to_lowercase();
                let length = head.split("content-length: ").nth(1).and_then(|rest| rest.split("\r\n").next());
                let length = length.and_then(|length| length.parse().ok()).unwrap_or(0);
                let mut body = vec![0; length];
                if stream.read_exact(&mut body).is_err() {
                    return;
                }
                let number = {
                    let mut bodies = kept.lock().expect("no test thread has panicked");
                    bodies.push((head, body));
                    bodies.len() - 1
                };
                let answer = answer(number);
                // The sender may have given up.
                if answer.is_empty() || stream.write_all(answer.as_bytes()).is_err() {
                    return;
                }
            }
        });
        Receiver { origin, bodies }
    }

    /// Its address as the value of `endpoint`.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.origin.address)
    }

    /// Heads and bodies of all requests.
    pub fn received(&self) -> Vec<(String, Vec<u8>)> {
        self.bodies.lock().expect("no test thread has panicked").clone()
    }
}
