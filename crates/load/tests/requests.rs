//! Tests of requests: methods, fields, bodies, conditions of valid answers, targets and connections.

mod support;

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use support::{After, Server, answer, write};
use touchstone_load::{ConnectionUse, ErrorCounts, Outcome, Plan, PlannedRequest, Progress, Target, run};

fn ran(plan: &Plan) -> Outcome {
    run(plan, &Progress::default()).expect("the plan can run")
}

/// A plan of a few requests with two clients.
fn some(server: &Server, change: impl FnOnce(&mut PlannedRequest)) -> Plan {
    let mut plan = server.plan("/");
    plan.clients = 2;
    plan.request_limit = Some(40);
    plan.length = Duration::from_secs(30);
    change(&mut plan.requests[0]);
    plan
}

fn only(errors: &ErrorCounts, kind: &str) -> bool {
    errors.by_kind().iter().all(|(name, count)| (*count > 0) == (*name == kind))
}

#[test]
fn methods_fields_and_bodies_arrive_as_planned() {
    let server = Server::start(|request, stream| {
        let good = request.line == "PUT /item HTTP/1.1"
            && request.fields.iter().any(|field| field == "Content-Type: text/plain")
            && request.body.len() == 3_000_000
            && request.body.iter().all(|byte| *byte == b'x');
        write(stream, &answer(if good { 201 } else { 400 }, b"made"));
        After::Keep
    });
    let plan = some(&server, |request| {
        request.method = "PUT".to_string();
        request.path = "/item".to_string();
        request.headers = vec!["Content-Type: text/plain".to_string()];
        request.body = Some(vec![b'x'; 3_000_000].into());
        request.expected_status = vec![201..=201];
    });
    let outcome = ran(&plan);
    assert_eq!(outcome.total_errors_by_kind, ErrorCounts::default());
    assert_eq!((outcome.total_requests, outcome.total_connections), (40, 2));
}

#[test]
fn the_answer_to_head_ends_with_its_head() {
    let server = Server::start(|request, stream| {
        assert!(request.line.starts_with("HEAD "));
        write(stream, b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n");
        After::Keep
    });
    let outcome = ran(&some(&server, |request| request.method = "HEAD".to_string()));
    assert_eq!((outcome.total_requests, outcome.total_errors, outcome.total_connections), (40, 0, 2));
    assert_eq!(outcome.body_bytes, 0);
}

#[test]
fn the_plan_sets_the_valid_statuses() {
    let server = Server::start(|_, stream| {
        write(stream, &answer(404, b"none"));
        After::Keep
    });
    let outcome = ran(&some(&server, |request| request.expected_status = vec![200..=200, 404..=410]));
    assert_eq!((outcome.total_requests, outcome.total_errors), (40, 0));
    let outcome = ran(&some(&server, |request| request.expected_status = vec![200..=403]));
    assert!(only(&outcome.total_errors_by_kind, "bad_status"), "{:?}", outcome.total_errors_by_kind);
}

#[test]
fn a_body_with_another_hash_is_an_error() {
    // The SHA-256 of "abc" (FIPS 180-4, the first example).
    let sum = [
        0xba, 0x78, 0x16, 0xbf, 0x8f, 0x01, 0xcf, 0xea, 0x41, 0x41, 0x40, 0xde, 0x5d, 0xae, 0x22, 0x23, 0xb0,
        0x03, 0x61, 0xa3, 0x96, 0x17, 0x7a, 0x9c, 0xb4, 0x10, 0xff, 0x61, 0xf2, 0x00, 0x15, 0xad,
    ];
    for (body, is_right) in [(&b"abc"[..], true), (b"abd", false)] {
        for is_chunked in [false, true] {
            let server = Server::start(move |_, stream| {
                if is_chunked {
                    write(stream, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n");
                    write(stream, &[&body[..1], b"\r\n2\r\n", &body[1..], b"\r\n0\r\n\r\n"].concat());
                } else {
                    write(stream, &answer(200, body));
                }
                After::Keep
            });
            let outcome = ran(&some(&server, |request| request.expected_body_sha256 = Some(sum)));
            let expected = if is_right { (40, 0) } else { (0, 40) };
            assert_eq!((outcome.total_requests, outcome.total_errors), expected, "{body:?} {is_chunked}");
            assert!(is_right || only(&outcome.total_errors_by_kind, "wrong_body"));
        }
    }
}

#[test]
fn requests_that_are_not_idempotent_are_not_sent_again() {
    // The second request of a connection is read and not answered.
    let server = Server::start(|request, stream| {
        if request.before == 1 {
            return After::Close;
        }
        write(stream, &answer(200, b"ok"));
        After::Keep
    });
    let mut plan = some(&server, |request| {
        request.method = "POST".to_string();
        request.body = Some(b"order".as_slice().into());
    });
    // With one client, successful and failed requests alternate.
    plan.clients = 1;
    let outcome = ran(&plan);
    assert_eq!((outcome.total_retries, server.requests()), (0, 40));
    assert!(only(&outcome.total_errors_by_kind, "reset"), "{:?}", outcome.total_errors_by_kind);
    assert_eq!((outcome.total_requests, outcome.total_errors), (20, 20));
}

#[test]
fn a_share_of_the_requests_ends_its_connection() {
    let closing = Arc::new(AtomicU64::new(0));
    let seen = closing.clone();
    let server = Server::start(move |request, stream| {
        // The request is counted before the answer, because the run may end with this answer.
        let closes = request.fields.iter().any(|field| field == "Connection: close");
        seen.fetch_add(u64::from(closes), Ordering::SeqCst);
        write(stream, &answer(200, b"ok"));
        if closes { After::Close } else { After::Keep }
    });
    let mut plan = some(&server, |_| ());
    plan.connections = ConnectionUse::NewShare(0.3);
    plan.request_limit = Some(1000);
    let outcome = ran(&plan);
    let closing = closing.load(Ordering::SeqCst);
    assert_eq!((outcome.total_requests, outcome.total_errors, outcome.total_retries), (1000, 0, 0));
    // 300 with a standard deviation of 14.5; the seed is fixed.
    assert!((220..380).contains(&closing), "{closing}");
    // Each closed connection is replaced by a new one, except for the last ones.
    assert!((closing..=closing + 2).contains(&outcome.total_connections), "{}", outcome.total_connections);
    assert_eq!(outcome.total_connections, server.connections());
}

#[test]
fn requests_go_to_their_targets() {
    let servers: Vec<(Server, Arc<Mutex<Vec<String>>>)> = (0..2)
        .map(|number| {
            let lines: Arc<Mutex<Vec<String>>> = Arc::default();
            let seen = lines.clone();
            let server = Server::start(move |request, stream| {
                let host = request.fields.iter().find(|field| field.starts_with("Host: ")).cloned();
                let mut lines = seen.lock().expect("no panic");
                lines.push(format!("{} {}", request.line, host.unwrap_or_default()));
                write(stream, &answer(200, &vec![b'x'; 10 + number]));
                After::Keep
            });
            (server, lines)
        })
        .collect();
    let mut plan = some(&servers[0].0, |request| request.expected_body_bytes = Some(10));
    plan.other_targets = vec![Target::plain(servers[1].0.address, "other.example")];
    plan.requests.push(PlannedRequest {
        target: 1,
        class: 1,
        weight: 3.0,
        expected_body_bytes: Some(11),
        ..PlannedRequest::get("/other")
    });
    plan.request_limit = Some(400);
    let outcome = ran(&plan);
    assert_eq!((outcome.total_requests, outcome.total_errors), (400, 0));
    // Each client has a connection to each target.
    assert_eq!(servers.iter().map(|(server, _)| server.connections()).collect::<Vec<_>>(), [2, 2]);
    let by_class: Vec<u64> = outcome.classes.iter().map(|class| class.latency_ns.len()).collect();
    assert_eq!(by_class, outcome.requests_by_class);
    assert_eq!(outcome.classes.iter().map(|class| class.bytes).sum::<u64>(), outcome.bytes);
    assert_eq!(outcome.requests_by_class, [servers[0].0.requests(), servers[1].0.requests()]);
    assert!((220..380).contains(&servers[1].0.requests()), "{}", servers[1].0.requests());
    let lines = servers[1].1.lock().expect("no panic");
    assert!(
        lines.iter().all(|line| line == "GET /other HTTP/1.1 Host: other.example"),
        "{:?}",
        lines.first()
    );
}

#[test]
fn requests_of_a_page_follow_in_order_without_a_pause() {
    let lines: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = lines.clone();
    let server = Server::start(move |request, stream| {
        seen.lock().expect("no panic").push(request.line.clone());
        // An error in the middle of a page does not end it.
        write(stream, &answer(if request.line.contains("/b ") { 404 } else { 200 }, b"ok"));
        After::Close
    });
    let mut plan = server.plan("/page");
    let of_page = |path: &str| PlannedRequest { weight: 0.0, ..PlannedRequest::get(path) };
    plan.requests.extend([of_page("/a"), of_page("/b"), PlannedRequest::get("/alone")]);
    plan.requests[0].then = vec![1, 2, 1];
    plan.connections = ConnectionUse::New;
    plan.think_time = Duration::from_millis(1);
    plan.request_limit = Some(60);
    plan.length = Duration::from_secs(60);
    let outcome = ran(&plan);
    assert_eq!(outcome.total_requests + outcome.total_errors, 60);
    let lines = lines.lock().expect("no panic");
    let mut rest = &lines[..];
    let (mut pages, mut alone) = (0, 0);
    while let Some((first, after)) = rest.split_first() {
        if first.starts_with("GET /alone ") {
            alone += 1;
            rest = after;
            continue;
        }
        assert!(first.starts_with("GET /page "), "{first} begins no page");
        let page = &after[..after.len().min(3)];
        for (line, path) in page.iter().zip(["/a", "/b", "/a"]) {
            assert!(line.starts_with(&format!("GET {path} ")), "{line} in the place of {path}");
        }
        pages += 1;
        rest = &after[page.len()..];
    }
    assert!(pages > 3 && alone > 3, "{pages} pages, {alone} alone");
}

#[test]
fn a_session_has_think_times_and_its_own_connection() {
    const THOUGHT: Duration = Duration::from_millis(30);
    let seen: Arc<Mutex<Vec<(String, u64, Instant)>>> = Arc::default();
    let log = seen.clone();
    let server = Server::start(move |request, stream| {
        log.lock().expect("no panic").push((request.line.clone(), request.before, Instant::now()));
        write(stream, &answer(200, b"ok"));
        After::Keep
    });
    let mut plan = server.plan("/first");
    let later =
        |path: &str, think_before| PlannedRequest { weight: 0.0, think_before, ..PlannedRequest::get(path) };
    plan.requests.extend([later("/style", Duration::ZERO), later("/shop", THOUGHT)]);
    plan.requests[0].then = vec![1, 2];
    plan.requests[0].is_session = true;
    plan.request_limit = Some(9);
    plan.length = Duration::from_secs(60);
    assert_eq!(ran(&plan).total_requests, 9);
    let seen = seen.lock().expect("no panic");
    for visit in seen.chunks(3) {
        let [first, style, shop] = visit else { panic!("{visit:?}") };
        let of = |(line, before, _): &(String, u64, Instant)| {
            (line.split(' ').nth(1).unwrap_or_default().to_string(), *before)
        };
        assert_eq!(
            [first, style, shop].map(of),
            [("/first", 0), ("/style", 1), ("/shop", 2)].map(|(p, n)| (p.to_string(), n))
        );
        assert!(shop.2 - style.2 >= THOUGHT, "{:?}", shop.2 - style.2);
    }
    assert_eq!(server.connections(), 3);
}

#[test]
fn each_target_can_have_a_version_of_its_own() {
    let script = |request: &support::Request, stream: &mut std::net::TcpStream| {
        let good =
            request.line.ends_with(if request.line.contains("/old ") { "HTTP/1.0" } else { "HTTP/1.1" });
        write(stream, &answer(if good { 200 } else { 400 }, b"ok"));
        After::Keep
    };
    let (new, old) = (Server::start(script), Server::start(script));
    let mut plan = new.plan("/new");
    plan.other_targets = vec![Target {
        version: Some(touchstone_load::HttpVersion::Http10),
        ..Target::plain(old.address, &old.address.to_string())
    }];
    plan.requests.push(PlannedRequest { target: 1, ..PlannedRequest::get("/old") });
    plan.request_limit = Some(40);
    plan.length = Duration::from_secs(60);
    assert_eq!((ran(&plan).total_requests, new.requests() + old.requests()), (40, 40));
    assert!(new.requests() > 3 && old.requests() > 3);
}
