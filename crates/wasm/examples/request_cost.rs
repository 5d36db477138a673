//! Measures the cost of a request in a component: one core answers many requests, one after another, without
//! a network.
//!
//! ```text
//! cargo build --profile fast -p touchstone-wasm --example request_cost
//! taskset -c 0 target/fast/examples/request_cost programs/wasm/spice.wasm 100000
//! ```
//!
//! prints microseconds of processor time for a request, in new instances and in reused ones. The third
//! argument `fresh` or `reused` selects one of them, for a profile:
//!
//! ```text
//! perf record -e cpu-clock:u target/fast/examples/request_cost programs/wasm/spice.wasm 100000 reused
//! ```
//!
//! Valgrind does not support the stacks of instances.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "an example prints its results, and may panic")]

use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use rustix::time::ClockId;
use touchstone_files::cache::DateSecond;
use touchstone_handler::answer::{Answer, BodyPart};
use touchstone_handler::handler::{Handled, Handler, Interface as _, Level, LocalBoxFuture, Server};
use touchstone_handler::pipe::Receiver;
use touchstone_handler::request::{Protocol, ReceivedHead, Request, RequestDetails};
use touchstone_handler::service_counts::ServiceCounts;
use touchstone_http::request::{Limits as HeadLimits, RequestHead};
use touchstone_wasm::{Limits, Settings, Wasm, WasmShared};

const HEAD: &[u8] = b"GET /spice HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nUser-Agent: load\r\nAccept: */*\r\n\r\n";

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let count = arguments.get(2).and_then(|count| count.parse::<u32>().ok());
    let (Some(component), Some(count)) = (arguments.get(1), count) else {
        return println!("usage: request_cost COMPONENT COUNT [fresh|reused]");
    };
    for (name, reuse) in [("fresh", 1), ("reused", u32::MAX)] {
        if arguments.get(3).is_some_and(|only| only != name) {
            continue;
        }
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build_local(Default::default());
        // Without tokio's cooperative budget, which a task of a connection rarely uses up.
        let measured = tokio::task::unconstrained(measure(component.into(), count, reuse));
        let (used_us, bytes) = runtime.unwrap().block_on(measured);
        println!("{name}: {used_us:.2} us a request, {bytes} bytes an answer");
    }
}

/// The processor time of a request, and the bytes of an answer.
async fn measure(component: PathBuf, count: u32, reuse: u32) -> (f64, usize) {
    let wasm =
        Wasm::open(settings(component, reuse), &WasmShared::default(), &ServiceCounts::default()).unwrap();
    let handler = wasm.on_core(Rc::new(NoServer));
    let head = Rc::new(head());
    let mut bytes = 0;
    for _ in 0..(count / 10).min(1000) {
        bytes = send_request(&handler, &head).await;
    }
    let before = processor_time();
    for _ in 0..count {
        assert_eq!(send_request(&handler, &head).await, bytes);
    }
    ((processor_time() - before).as_secs_f64() * 1e6 / f64::from(count), bytes)
}

async fn send_request(handler: &Rc<dyn Handler>, head: &Rc<ReceivedHead>) -> usize {
    let Handled::Answer(answer) = handler.clone().handle(request(head.clone())).await else {
        panic!("no answer")
    };
    assert_eq!(answer.status, 200);
    answer.body.iter().map(|part| if let BodyPart::Bytes(bytes) = part { bytes.len() } else { 0 }).sum()
}

fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.cast_unsigned(), u32::try_from(time.tv_nsec).unwrap())
}

fn head() -> ReceivedHead {
    let mut head = RequestHead::new();
    let limits = HeadLimits { request_line_bytes: 1000, header_bytes: 1000, header_fields: 100 };
    head.parse(HEAD, &limits).unwrap();
    ReceivedHead { head, buffer: Bytes::from_static(HEAD) }
}

fn request(received: Rc<ReceivedHead>) -> Request {
    let details = RequestDetails {
        received,
        protocol: Protocol::Http11,
        path: Bytes::from_static(b"/spice"),
        encoded_path: Bytes::from_static(b"/spice"),
        query: None,
        host: Some(Bytes::from_static(b"127.0.0.1:8080")),
        site: 0,
        client: Some(([127, 0, 0, 1], 1234).into()),
        locator: None,
        trusted_proxy: None,
        server: ([127, 0, 0, 1], 8080).into(),
        tls: None,
        user: None,
        claims: None,
        bot: None,
        is_admitted: false,
        session: None,
        id: "".into(),
        depth: 0,
        connection: 1,
        stream: None,
        page_variables: None,
        route: None,
        trace: None,
    };
    Request::new(details, Receiver::of(Bytes::new()))
}

fn settings(component: PathBuf, reuse: u32) -> Settings {
    Settings {
        component,
        compiled: None,
        environment: Vec::new(),
        config: Vec::new(),
        site: "site".to_string(),
        route: "route".to_string(),
        buckets: Vec::new(),
        directories: Vec::new(),
        outgoing: Vec::new(),
        reuse,
        limits: Limits {
            memory_bytes: 128 << 20,
            computing: Duration::from_secs(10),
            answer: Duration::from_secs(60),
            concurrency: 1000,
            bucket_bytes: 16 << 20,
            body_bytes: 0,
            output_bytes: 8 << 10,
        },
    }
}

struct NoServer;

impl Server for NoServer {
    fn date(&self) -> DateSecond {
        DateSecond { unix_seconds: 0, text: [b'0'; 29] }
    }

    fn log(&self, _: Level, what: &'static str, message: &str) {
        println!("{what}: {message}");
    }

    fn log_failing(&self, name: &str, reason: &str) {
        println!("{name}: {reason}");
    }

    fn log_recovered(&self, _: &str) -> bool {
        false
    }

    fn answer(&self, _: Request) -> LocalBoxFuture<Answer> {
        Box::pin(async { Answer::error(500) })
    }

    fn core(&self) -> usize {
        0
    }
}
