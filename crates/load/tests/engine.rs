//! Tests of the engine with a scripted server: totals, error kinds, schedules, ends of runs.

mod support;

use rustix::net::{AddressFamily, SocketFlags, SocketType, getsockname, socket_with};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use support::{After, Server, answer, write};
use touchstone_load::{
    ConnectionUse, ErrorCounts, HttpVersion, Outcome, Plan, PlannedRequest, Progress, allowed_cores, run,
};

fn milliseconds(count: u64) -> Duration {
    Duration::from_millis(count)
}

fn ran(plan: &Plan) -> Outcome {
    run(plan, &Progress::default()).expect("the plan can run")
}

/// A server that answers every request with a body of this length.
fn plain(body_bytes: usize) -> Server {
    let bytes = answer(200, &vec![b'x'; body_bytes]);
    Server::start(move |_, stream| {
        write(stream, &bytes);
        After::Keep
    })
}

/// The length of a short run in milliseconds: longer than a busy machine delays its start.
const SHORT: u64 = 1000;

/// Runs a short plan with this server; returns the outcome and the server.
fn ran_against(
    script: impl Fn(&support::Request, &mut std::net::TcpStream) -> After + Send + Sync + 'static,
    change: impl FnOnce(&mut Plan),
) -> (Outcome, Server) {
    let server = Server::start(script);
    let mut plan = server.plan("/");
    plan.length = milliseconds(SHORT);
    plan.clients = 2;
    change(&mut plan);
    (ran(&plan), server)
}

fn only(errors: &ErrorCounts, kind: &str) -> bool {
    errors.by_kind().iter().all(|(name, count)| (*count > 0) == (*name == kind))
}

#[test]
fn totals_agree_with_the_server_and_with_each_other() {
    let server = plain(1000);
    let mut plan = server.plan("/page");
    plan.clients = 5;
    plan.length = milliseconds(1500);
    let progress = Progress::default();
    let outcome = run(&plan, &progress).expect("the plan can run");
    assert!(outcome.total_requests > 0);
    assert_eq!(outcome.total_requests, server.requests());
    assert_eq!(outcome.total_requests, progress.requests.load(Ordering::Relaxed));
    assert_eq!(outcome.total_errors, 0);
    assert_eq!((outcome.total_connections, server.connections()), (5, 5));
    assert_eq!(outcome.requests_by_class, [outcome.requests]);
    assert_eq!(outcome.latency_ns.len(), outcome.requests);
    assert_eq!(outcome.service_ns.len(), outcome.requests);
    assert_eq!(outcome.body_bytes, 1000 * outcome.requests);
    assert_eq!(outcome.bytes, (1000 + 40) * outcome.requests);
    assert_eq!(outcome.clients.len(), 5);
    assert_eq!(outcome.clients.iter().map(|client| client.requests).sum::<u64>(), outcome.requests);
    assert_eq!(outcome.clients.iter().map(|client| client.latency_ns.len()).sum::<u64>(), outcome.requests);
    assert_eq!(outcome.intervals.len(), 2);
    assert_eq!(outcome.intervals[1].length_s, 0.5);
    assert_eq!(outcome.intervals.iter().map(|interval| interval.requests).sum::<u64>(), outcome.requests);
    assert!(!outcome.interrupted);
    assert!(outcome.engine.user_s + outcome.engine.system_s > 0.0);
}

/// The number of clients according to Little's law in a short run with six clients.
fn implied_clients(connections: ConnectionUse) -> f64 {
    let server = plain(200);
    let mut plan = server.plan("/");
    plan.connections = connections;
    plan.clients = 6;
    plan.ramp_up = milliseconds(100);
    plan.length = milliseconds(1600);
    plan.ramp_down = milliseconds(100);
    let outcome = ran(&plan);
    assert_eq!(outcome.window, milliseconds(1400));
    outcome.implied_clients(Duration::ZERO)
}

#[test]
fn littles_law_holds() {
    for connections in [ConnectionUse::Kept, ConnectionUse::New] {
        // A pause of the machine at an edge of the window falsifies a single run. An error of the engine
        // would falsify all runs.
        let runs = (0..15).map(|_| implied_clients(connections));
        let tried: Vec<f64> = runs
            .scan(false, |done, implied| {
                let go_on = !*done;
                *done = (implied / 6.0 - 1.0).abs() < 0.03;
                go_on.then_some(implied)
            })
            .collect();
        let last = tried.last().copied().unwrap_or_default();
        assert!((last / 6.0 - 1.0).abs() < 0.03, "{connections:?}: {tried:?} instead of 6");
    }
}

#[test]
fn a_new_connection_carries_one_request() {
    let server = plain(100);
    let mut plan = server.plan("/");
    plan.connections = ConnectionUse::New;
    plan.clients = 3;
    plan.length = milliseconds(SHORT);
    let outcome = ran(&plan);
    assert!(outcome.total_requests > 3);
    assert_eq!(outcome.total_errors, 0);
    assert_eq!(outcome.total_requests, server.requests());
    assert_eq!(outcome.total_connections, server.connections());
    assert_eq!(outcome.total_connections, outcome.total_requests);
    assert!(outcome.connect_ns.len() >= outcome.requests);
}

#[test]
fn requests_follow_the_plan() {
    let bad = Arc::new(AtomicBool::new(false));
    let seen = bad.clone();
    let (outcome, _) = ran_against(
        move |request, stream| {
            let fields = |name: &str| request.fields.iter().filter(|field| field.starts_with(name)).count();
            let good = request.line == "GET /a?b HTTP/1.0"
                && fields("Host: ") == 1
                && fields("Connection: keep-alive") == 1
                && fields("X-Test: yes") == 1;
            seen.fetch_or(!good, Ordering::SeqCst);
            write(stream, b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n");
            After::Keep
        },
        |plan| {
            plan.version = HttpVersion::Http10;
            plan.requests[0].path = "/a?b".to_string();
            plan.headers.push("X-Test: yes".to_string());
        },
    );
    assert!(outcome.total_requests > 2 && outcome.total_connections == 2);
    assert!(!bad.load(Ordering::SeqCst), "a request differs from the plan");
}

#[test]
fn every_class_is_requested_and_counted() {
    let counts: Arc<[AtomicU64; 2]> = Arc::default();
    let seen = counts.clone();
    let server = Server::start(move |request, stream| {
        let class = usize::from(request.line.contains("/b"));
        seen[class].fetch_add(1, Ordering::SeqCst);
        write(stream, &answer(200, if class == 0 { b"a" } else { b"bb" }));
        After::Keep
    });
    let mut plan = server.plan("/a");
    plan.requests[0].expected_body_bytes = Some(1);
    plan.requests.push(PlannedRequest {
        class: 2,
        expected_body_bytes: Some(2),
        ..PlannedRequest::get("/b")
    });
    plan.length = milliseconds(SHORT);
    plan.clients = 4;
    plan.ramp_up = Duration::ZERO;
    let outcome = ran(&plan);
    assert_eq!(outcome.total_errors, 0);
    assert_eq!(outcome.requests_by_class.len(), 3);
    assert_eq!(outcome.requests_by_class.iter().sum::<u64>(), outcome.requests);
    assert!(outcome.requests_by_class[0] > 0 && outcome.requests_by_class[2] > 0);
    assert_eq!(outcome.requests_by_class[1], 0);
    assert_eq!(outcome.total_requests, counts.iter().map(|count| count.load(Ordering::SeqCst)).sum::<u64>());
}

#[test]
fn chunked_and_close_delimited_bodies_are_valid() {
    let (outcome, server) = ran_against(
        |_, stream| {
            write(stream, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n");
            write(stream, b"6\r\n world\r\n0\r\n\r\n");
            After::Keep
        },
        |plan| plan.requests[0].expected_body_bytes = Some(11),
    );
    assert_eq!(outcome.total_errors_by_kind, ErrorCounts::default());
    assert_eq!((outcome.total_requests, outcome.total_connections), (server.requests(), 2));

    let (outcome, server) = ran_against(
        |_, stream| {
            write(stream, b"HTTP/1.1 200 OK\r\n\r\nhello");
            After::Close
        },
        |plan| plan.requests[0].expected_body_bytes = Some(5),
    );
    assert_eq!(outcome.total_errors_by_kind, ErrorCounts::default());
    assert_eq!(outcome.total_requests, server.requests());
    assert_eq!(outcome.total_connections, outcome.total_requests);
}

#[test]
fn long_bodies_are_received_with_any_buffer_size() {
    for receive_buffer_bytes in [1, 777, 64 * 1024] {
        let body_bytes = if receive_buffer_bytes == 1 { 3_000 } else { 3_000_000 };
        let server = plain(body_bytes);
        let mut plan = server.plan("/");
        plan.receive_buffer_bytes = receive_buffer_bytes;
        plan.requests[0].expected_body_bytes = Some(body_bytes as u64);
        plan.clients = 3;
        plan.length = milliseconds(SHORT);
        let outcome = ran(&plan);
        assert_eq!(outcome.total_errors_by_kind, ErrorCounts::default(), "{receive_buffer_bytes}");
        assert_eq!(outcome.total_requests, server.requests());
        assert_eq!(outcome.total_connections, 3);
    }
}

#[test]
fn an_answer_can_arrive_in_single_bytes() {
    let (outcome, server) = ran_against(
        |_, stream| {
            for byte in answer(200, b"abc") {
                write(stream, &[byte]);
            }
            After::Keep
        },
        |_| (),
    );
    assert_eq!((outcome.total_errors, outcome.total_connections), (0, 2));
    assert_eq!(outcome.total_requests, server.requests());
}

#[test]
fn a_body_that_ends_early_is_short() {
    let (outcome, server) = ran_against(
        |_, stream| {
            write(stream, b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello");
            After::Close
        },
        |_| (),
    );
    assert!(only(&outcome.total_errors_by_kind, "short_body"), "{:?}", outcome.total_errors_by_kind);
    assert_eq!((outcome.total_requests, outcome.total_errors), (0, server.requests()));
    assert_eq!((outcome.bytes, outcome.latency_ns.len()), (0, 0));
}

#[test]
fn a_body_of_another_length_than_the_workload_states_is_short() {
    let (outcome, server) = ran_against(
        |_, stream| {
            write(stream, &answer(200, b"12345"));
            After::Keep
        },
        |plan| plan.requests[0].expected_body_bytes = Some(6),
    );
    assert!(only(&outcome.total_errors_by_kind, "short_body"), "{:?}", outcome.total_errors_by_kind);
    assert_eq!((outcome.total_errors, outcome.total_connections), (server.requests(), 2));
}

#[test]
fn a_bad_status_is_an_error_and_keeps_the_connection() {
    for status in [404, 503] {
        let (outcome, server) = ran_against(
            move |_, stream| {
                write(stream, &answer(status, b"no"));
                After::Keep
            },
            |_| (),
        );
        assert!(only(&outcome.total_errors_by_kind, "bad_status"), "{:?}", outcome.total_errors_by_kind);
        assert_eq!((outcome.total_errors, outcome.total_connections), (server.requests(), 2));
    }
}

#[test]
fn other_protocols_are_malformed() {
    for text in ["220 mail.example ESMTP\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab"] {
        let (outcome, _) = ran_against(
            move |_, stream| {
                write(stream, text.as_bytes());
                After::Keep
            },
            |_| (),
        );
        assert!(only(&outcome.total_errors_by_kind, "malformed"), "{:?}", outcome.total_errors_by_kind);
        assert_eq!(outcome.total_requests, 0);
    }
}

#[test]
fn a_broken_connection_is_a_reset() {
    // A reset in the head, in the body, and before the first byte on a new connection.
    for text in ["HTTP/1.1 200", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello", ""] {
        let (outcome, server) = ran_against(
            move |_, stream| {
                write(stream, text.as_bytes());
                After::Reset
            },
            |_| (),
        );
        assert_eq!((outcome.total_requests, outcome.total_errors), (0, server.requests()));
        // The reset may discard bytes that were received before it.
        assert!(only(&outcome.total_errors_by_kind, "reset"), "{text:?}: {:?}", outcome.total_errors_by_kind);
    }
    let (outcome, _) = ran_against(
        |_, stream| {
            write(stream, b"HTTP/1.1 200 OK\r\nCont");
            After::Close
        },
        |_| (),
    );
    assert!(only(&outcome.total_errors_by_kind, "reset"), "{:?}", outcome.total_errors_by_kind);
}

#[test]
fn a_silent_server_times_out() {
    let (outcome, server) = ran_against(|_, _| After::Keep, |plan| plan.timeout = milliseconds(50));
    assert!(only(&outcome.total_errors_by_kind, "timeout"), "{:?}", outcome.total_errors_by_kind);
    assert_eq!(outcome.total_requests, 0);
    // A slow server reads some of the requests after their timeout.
    while server.requests() < outcome.total_errors {
        std::thread::sleep(milliseconds(5));
    }
}

#[test]
fn a_slow_answer_after_the_length_still_counts_in_the_totals() {
    let (outcome, server) = ran_against(
        |_, stream| {
            std::thread::sleep(milliseconds(2 * SHORT));
            write(stream, &answer(200, b"late"));
            After::Keep
        },
        |_| (),
    );
    assert_eq!((outcome.requests, outcome.total_requests), (0, 2));
    assert_eq!(outcome.total_requests, server.requests());
    assert_eq!(outcome.intervals.iter().map(|interval| interval.requests).sum::<u64>(), 0);
}

#[test]
fn refused_connections_are_connect_errors_with_pauses() {
    // The port of a socket that does not listen.
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None);
    let socket = socket.expect("a socket can be made");
    rustix::net::bind(&socket, &std::net::SocketAddr::from(([127, 0, 0, 1], 0))).expect("a port is free");
    let address = getsockname(&socket).and_then(std::net::SocketAddr::try_from);
    let address = address.expect("a bound socket has an address");
    let target = touchstone_load::Target::plain(address, &address.to_string());
    let mut plan = Plan::of_one(target, "/");
    plan.clients = 3;
    plan.length = milliseconds(SHORT);
    let outcome = ran(&plan);
    assert!(only(&outcome.total_errors_by_kind, "connect"), "{:?}", outcome.total_errors_by_kind);
    assert_eq!((outcome.total_requests, outcome.total_connections), (0, 0));
    // At most one attempt per client in 10 ms.
    assert!((3..=303).contains(&outcome.total_errors), "{}", outcome.total_errors);
}

#[test]
fn the_client_waits_for_a_slow_connection() {
    // While the accept queue is full, the kernel does not answer connection attempts. The client tries again
    // after one second, and after two more.
    let listener =
        rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::STREAM, None)
            .expect("a socket");
    rustix::net::bind(&listener, &std::net::SocketAddr::from(([127, 0, 0, 1], 0))).expect("a free port");
    rustix::net::listen(&listener, 1).expect("the socket listens");
    let listener = std::net::TcpListener::from(listener);
    let address = listener.local_addr().expect("a bound socket has an address");
    let in_queue: Vec<_> =
        (0..2).map(|_| std::net::TcpStream::connect(address).expect("room for two")).collect();
    let server = Server::on_listener(listener, milliseconds(900), |_, stream| {
        write(stream, &answer(200, b"ok"));
        After::Keep
    })
    .expect("a bound socket has an address");
    for connections in [ConnectionUse::Kept, ConnectionUse::New] {
        let mut plan = server.plan("/");
        plan.connections = connections;
        plan.length = milliseconds(if connections == ConnectionUse::Kept { 5000 } else { SHORT });
        let outcome = ran(&plan);
        assert_eq!(outcome.total_errors_by_kind, ErrorCounts::default());
        assert!(outcome.total_requests > 0);
        if connections == ConnectionUse::Kept {
            assert_eq!((outcome.total_requests, outcome.total_connections), (server.requests(), 1));
            assert!(outcome.connect_ns.max() > 300_000_000, "{}", outcome.connect_ns.max());
            assert!(outcome.latency_ns.max() >= outcome.connect_ns.max());
        }
    }
    drop(in_queue);
}

#[test]
fn a_request_longer_than_the_socket_buffer_is_sent_in_parts() {
    let (outcome, server) = ran_against(
        |request, stream| {
            let whole = request.fields.iter().any(|field| field.len() == 12_000_003);
            write(stream, &answer(if whole { 200 } else { 400 }, b"ok"));
            After::Keep
        },
        |plan| plan.headers.push(format!("X: {}", "y".repeat(12_000_000))),
    );
    assert_eq!(outcome.total_errors_by_kind, ErrorCounts::default());
    assert_eq!((outcome.total_requests, outcome.total_connections), (server.requests(), 2));
}

#[test]
fn a_kept_connection_may_be_closed_between_requests() {
    // The server closes the connection at once, with Connection: close, or after a delay.
    for kind in 0..3 {
        let (outcome, server) = ran_against(
            move |request, stream| {
                let last = request.before == 2;
                if kind == 1 && last {
                    write(stream, b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok");
                } else {
                    write(stream, &answer(200, b"ok"));
                }
                if kind == 2 && last {
                    std::thread::sleep(milliseconds(2));
                }
                if last { After::Close } else { After::Keep }
            },
            |plan| plan.think_time = if kind == 2 { milliseconds(5) } else { Duration::ZERO },
        );
        assert_eq!(outcome.total_errors_by_kind, ErrorCounts::default(), "{kind}");
        assert_eq!(outcome.total_requests, server.requests(), "{kind}");
        assert_eq!(outcome.total_connections, server.connections(), "{kind}");
        assert!(outcome.total_connections >= outcome.total_requests / 3, "{kind}");
    }
}

#[test]
fn a_request_on_a_closed_connection_is_sent_again() {
    // The second request of a connection is read and not answered. For the client this is equal to the race
    // between its request and the server's close.
    let (outcome, server) = ran_against(
        |request, stream| {
            if request.before == 1 {
                return After::Close;
            }
            write(stream, &answer(200, b"ok"));
            After::Keep
        },
        |_| (),
    );
    assert_eq!(outcome.total_errors_by_kind, ErrorCounts::default());
    assert!(outcome.total_retries > 0);
    assert_eq!(outcome.total_requests + outcome.total_retries, server.requests());
}

#[test]
fn the_rate_is_constant_and_latency_begins_at_the_due_time() {
    let stalled = AtomicBool::new(false);
    let server = Server::start(move |request, stream| {
        // One stall, in the middle of the run.
        if request.before == 20 && !stalled.swap(true, Ordering::SeqCst) {
            std::thread::sleep(milliseconds(300));
        }
        write(stream, &answer(200, b"ok"));
        After::Keep
    });
    let mut plan = server.plan("/");
    plan.clients = 1;
    plan.rate = Some(100.0);
    plan.length = milliseconds(1000);
    let outcome = ran(&plan);
    assert_eq!(outcome.total_errors, 0);
    assert_eq!((outcome.total_requests, server.requests()), (100, 100));
    // The stall delayed one request directly, and about thirty later ones indirectly.
    let slow = |histogram: &hdrhistogram::Histogram<u64>| histogram.count_between(50_000_000, u64::MAX);
    assert!(slow(&outcome.service_ns) >= 1);
    assert!(slow(&outcome.latency_ns) >= slow(&outcome.service_ns) + 15, "{}", slow(&outcome.latency_ns));
}

#[test]
fn a_rate_that_the_server_cannot_serve_is_reported() {
    let server = Server::start(|_, stream| {
        std::thread::sleep(milliseconds(20));
        write(stream, &answer(200, b"ok"));
        After::Keep
    });
    let mut plan = server.plan("/");
    plan.clients = 2;
    plan.rate = Some(1000.0);
    plan.length = milliseconds(500);
    let outcome = ran(&plan);
    let text = outcome.saturation.text().unwrap();
    assert!(text.contains("more clients"), "{text}");
    // The latency of a request includes the wait for a client.
    assert!(outcome.latency_ns.max() > outcome.service_ns.max());
}

#[test]
fn think_time_and_delay_limit_the_rate() {
    let server = plain(10);
    let mut plan = server.plan("/");
    plan.clients = 4;
    plan.think_time = milliseconds(50);
    plan.delay = milliseconds(40);
    plan.length = milliseconds(500);
    let outcome = ran(&plan);
    // Each client starts at most once in 50 ms.
    assert!((4..=40).contains(&outcome.total_requests), "{}", outcome.total_requests);
    assert_eq!((outcome.total_requests, outcome.total_errors), (server.requests(), 0));
}

#[test]
fn a_stop_ends_the_run_and_keeps_the_figures() {
    let server = plain(10);
    let mut plan = server.plan("/");
    plan.clients = 2;
    plan.length = Duration::from_secs(3600);
    let progress = Progress::default();
    let outcome = std::thread::scope(|scope| {
        scope.spawn(|| {
            while progress.requests.load(Ordering::Relaxed) == 0 {
                std::thread::sleep(milliseconds(5));
            }
            progress.stop.store(true, Ordering::Relaxed);
        });
        run(&plan, &progress).expect("the plan can run")
    });
    assert!(outcome.interrupted);
    assert!(outcome.total_requests > 0 && outcome.window < Duration::from_secs(3600));
    assert_eq!(outcome.total_requests, server.requests());
    let covered: f64 = outcome.intervals.iter().map(|interval| interval.length_s).sum();
    assert!((covered - outcome.window.as_secs_f64()).abs() < 1e-6);
}

#[test]
fn a_stop_does_not_wait_for_a_silent_server() {
    let server = Server::start(|_, _| After::Keep);
    let mut plan = server.plan("/");
    plan.length = Duration::from_secs(3600);
    plan.timeout = Duration::from_secs(3600);
    // Once during an active request, and once before the start of the run.
    for requests in [1, 0] {
        let progress = Progress::default();
        let outcome = std::thread::scope(|scope| {
            scope.spawn(|| {
                while server.requests() < requests {
                    std::thread::sleep(milliseconds(5));
                }
                progress.stop.store(true, Ordering::Relaxed);
            });
            run(&plan, &progress).expect("the plan can run")
        });
        assert!(outcome.interrupted);
        assert_eq!((outcome.total_requests, outcome.total_errors), (0, 0));
    }
}

#[test]
fn every_core_runs_its_clients() {
    let server = plain(100);
    let mut plan = server.plan("/");
    plan.cores = allowed_cores();
    plan.clients = plan.cores.len() * 2 + 1;
    plan.length = milliseconds(SHORT);
    let outcome = ran(&plan);
    assert_eq!(outcome.clients.len(), plan.clients);
    assert!(outcome.clients.iter().all(|client| client.requests > 0));
    assert_eq!((outcome.total_requests, outcome.total_errors), (server.requests(), 0));
}

#[test]
fn ipv6_addresses_work() {
    let Some(server) = Server::start_on("[::1]:0", |_, stream| {
        write(stream, &answer(200, b"six"));
        After::Keep
    }) else {
        return;
    };
    let mut plan = server.plan("/");
    plan.length = milliseconds(100);
    let outcome = ran(&plan);
    assert_eq!((outcome.total_requests, outcome.total_errors), (server.requests(), 0));
}
