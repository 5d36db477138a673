//! Origins that speak HTTP/3: the same as over HTTP/2, and what QUIC adds. One is scripted, one is our own
//! server, and one shares nothing with it.

mod hostile;
mod origin;
mod others;

use std::net::{Ipv4Addr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use http::Request;

use super::http2::{runtime, send};
use super::{LONG_BODY, proxy, text};
use crate::support::{AnswerTo, Client, Response, Server, Tree, bytes_of, free_port, run, wait_until};
use origin::Http3Origin;

/// Any certificate is good.
const INSECURE: &str = "[site.route.proxy.tls]\ninsecure = true\n";

fn before(tree: &Tree, origin: &Http3Origin, more: &str) -> Server {
    proxy(tree, &origin.keys(more), INSECURE)
}

fn post(server: &Server, path: &str) -> u16 {
    server.connect().ask(format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n")).status
}

fn head_of(server: &Server, path: &str) -> Response {
    let mut client = server.connect();
    client.send(format!("HEAD {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
    client.try_answer(AnswerTo::Head).unwrap_or_else(|broken| panic!("no answer: {broken}"))
}

#[test]
fn it_needs_tls_and_has_no_proxy_header() {
    let tree = Tree::standard();
    for (keys, why) in [
        ("to = [\"https://127.0.0.1:1\", \"http://127.0.0.1:2\"]", "needs origins with https://"),
        ("to = \"unix:/run/app.sock\"", "needs origins with https://"),
        ("to = \"https://127.0.0.1:1\"\nproxy_protocol = \"v2\"", "'proxy_protocol' goes with"),
    ] {
        let file = tree.around().join("touchstone.toml");
        let text = format!(
            "{}[[site.route]]\npath = \"/app/\"\n\n[site.route.proxy]\nversion = \"3\"\n{keys}\n",
            tree.configuration("")
        );
        std::fs::write(&file, text).unwrap();
        let output = run(["check", "--config", file.to_str().unwrap()]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(why), "{keys}: {said}");
    }
}

#[test]
fn requests_share_a_connection() {
    let origin = Http3Origin::start();
    let tree = Tree::standard();
    let server = before(&tree, &origin, "");
    assert_eq!(text(&server, "/app/x?y=1"), "GET https://example.com/app/x?y=1 1.1 touchstone 0");
    let mut clients: Vec<_> = (0..20).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.send("GET /app/long HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    // All read at the same time: the server ends the connection of a client that does not read.
    thread::scope(|scope| {
        for client in &mut clients {
            scope.spawn(|| assert!(client.answer().body == *LONG_BODY));
        }
    });
    let cores = thread::available_parallelism().map_or(1, usize::from);
    assert!(origin.connections() <= cores, "{}", origin.connections());
    let body = bytes_of(1 << 20);
    let mut client = server.connect();
    let mut sending = client.stream().try_clone().unwrap();
    let sent = body.clone();
    let sender = thread::spawn(move || {
        use std::io::Write;
        write!(sending, "POST /app/ HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", sent.len()).unwrap();
        sending.write_all(&sent).unwrap();
    });
    let answer = client.answer();
    assert_eq!(answer.field("x-length"), Some("1048576"));
    assert!(String::from_utf8(answer.body).unwrap().ends_with(" 1048576"));
    sender.join().unwrap();
    assert_eq!(head_of(&server, "/app/").status, 200);
}

#[test]
fn interim_responses_pass_and_end() {
    let origin = Http3Origin::start();
    let tree = Tree::standard();
    let server = before(&tree, &origin, "");
    let mut client = server.connect();
    client.send("GET /app/hinted HTTP/1.1\r\nHost: a\r\n\r\n");
    let interim = [client.answer(), client.answer()];
    let seen = interim.each_ref().map(|answer| (answer.status, answer.field("link")));
    assert_eq!(seen, [(103, Some("</a.css>")), (103, Some("</b.js>"))]);
    assert_eq!(client.answer().status, 204);
    let mut client = server.connect();
    client.send("GET /app/endless-hints HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    let (bytes, _) = client.read_to_end();
    let said = String::from_utf8_lossy(&bytes);
    assert!(said.matches("HTTP/1.1 103 ").count() == 32 && said.contains("HTTP/1.1 502 "), "{said}");
    server.wait_for_error_line("why", |line| line.contains("too many interim responses"));
}

#[test]
fn what_was_not_processed_is_asked_again() {
    for path in ["/app/rejected", "/app/left-out"] {
        let origin = Http3Origin::start();
        let tree = Tree::standard();
        let server = Server::configured(tree.around(), &one_core(&tree, &origin.keys("")));
        assert_eq!(server.get("/app/").status, 200);
        assert_eq!(post(&server, path), 200, "{path}");
        assert_eq!(origin.requests(), 3, "{path}");
    }
}

/// A configuration with one core, so that there is one connection.
fn one_core(tree: &Tree, keys: &str) -> String {
    format!(
        "{}[[site.route]]\npath = \"/app/\"\n\n[site.route.proxy]\n{keys}\n{INSECURE}",
        tree.configuration("[server]\ncores = 1\n")
    )
}

#[test]
fn a_connection_that_ends_is_left_for_a_new_one() {
    let origin = Http3Origin::start();
    let tree = Tree::standard();
    let server = Server::configured(tree.around(), &one_core(&tree, &origin.keys("")));
    // The origin announces that it takes no more requests on this connection; the client does not notice.
    for _ in 0..5 {
        assert_eq!(server.get("/app/last").status, 200);
        assert_eq!(post(&server, "/app/"), 200);
    }
    assert!(origin.connections() >= 2);
    // A request that the origin may have processed is not sent again, unless its method allows it.
    assert_eq!(post(&server, "/app/closes"), 502);
    server.wait_for_error_line("why", |line| line.contains("closed the connection: H3_INTERNAL_ERROR"));
    assert_eq!(server.get("/app/reset").status, 502);
    server.wait_for_error_line("why", |line| line.contains("its stream was reset: H3_INTERNAL_ERROR"));
    assert_eq!(server.get("/app/").status, 200);
}

#[test]
fn a_body_that_breaks_off_is_never_whole() {
    let origin = Http3Origin::start();
    let tree = Tree::standard();
    let patient = before(&tree, &origin, "");
    let hasty = before(&tree, &origin, "idle_timeout = \"300ms\"\n");
    for (server, path, why) in [
        (&patient, "/app/breaks", "its stream was reset: H3_INTERNAL_ERROR"),
        (&patient, "/app/breaks-connection", "it closed the connection: H3_INTERNAL_ERROR"),
        (&patient, "/app/short", "shorter than its Content-Length"),
        (&hasty, "/app/stalls", "no further bytes were received within 0.3 s"),
    ] {
        let mut client = server.connect();
        client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
        let (bytes, _) = client.read_to_end();
        assert!(!bytes.ends_with(b"0\r\n\r\n"), "{path}: {}", crate::support::shown(&bytes));
        server.wait_for_error_line(why, |line| line.contains("broke off") && line.contains(why));
        assert_eq!(patient.get("/app/").status, 200, "after {path}");
    }
}

#[test]
fn a_malformed_response_is_refused() {
    let origin = Http3Origin::start();
    let tree = Tree::standard();
    // A refused response counts as a failure; the origin stays in use all the same.
    let server = before(&tree, &origin, "health = { max_failures = 1000 }\n");
    let stopping = [
        ("no-control", "a control or QPACK stream that was closed"),
        ("push-stream", "a push that was not allowed"),
    ];
    let hostile = hostile::CASES.iter().map(|(name, why, ..)| (format!("hostile/{name}"), *why));
    for (name, why) in hostile.chain(stopping.map(|(name, why)| (name.to_string(), why))) {
        let path = format!("/app/{name}");
        // So many lines of a kind are in the log each second; after failures in a row, fewer.
        wait_until(why, Duration::from_secs(60), || {
            assert_eq!(server.get(&path).status, 502, "{name}");
            assert_eq!(server.get("/app/").status, 200, "after {name}");
            thread::sleep(Duration::from_millis(20));
            server.error_text().lines().any(|line| line.contains(&path) && line.contains(why))
        });
    }
}

#[test]
fn time_limits_hold() {
    let origin = Http3Origin::start();
    let tree = Tree::standard();
    let server = before(&tree, &origin, "response_timeout = \"300ms\"\n");
    assert_eq!(server.get("/app/silent").status, 504);
    server.wait_for_error_line("why", |line| line.contains("no response was received within 0.3 s"));
    // On a busy machine an immediate answer may be late, too.
    wait_until("another request is answered", Duration::from_secs(60), || server.get("/app/").status == 200);
    let server = before(&tree, &origin, "total_timeout = \"300ms\"\n");
    assert_eq!(server.get("/app/silent").status, 504);
}

#[test]
fn a_full_connection_gets_a_second_one_or_is_waited_for() {
    const REQUESTS: usize = 6;
    for (more, connections) in [("", 3..=REQUESTS), ("connections = 1\n", 1..=1)] {
        let origin = Http3Origin::with_streams(2);
        let tree = Tree::standard();
        let server = Server::configured(tree.around(), &one_core(&tree, &origin.keys(more)));
        assert_eq!(server.get("/app/").status, 200);
        let mut clients: Vec<Client> = (0..REQUESTS).map(|_| server.connect()).collect();
        for client in &mut clients {
            client.send("GET /app/held HTTP/1.1\r\nHost: a\r\n\r\n");
        }
        let at_once = if more.is_empty() { REQUESTS } else { 2 };
        let begun = || origin.requests() - 1;
        wait_until("requests are there", Duration::from_secs(60), || begun() >= at_once);
        assert_eq!(begun(), at_once, "{more}");
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    origin.gate.notify_one();
                    thread::sleep(Duration::from_millis(5));
                }
            });
            for client in &mut clients {
                assert_eq!(client.answer().status, 200, "{more}");
            }
            done.store(true, Ordering::Relaxed);
        });
        assert!(connections.contains(&origin.connections()), "{more}: {}", origin.connections());
    }
}

#[test]
fn where_udp_does_not_pass_another_origin_answers() {
    // Datagrams come there, and nothing comes back.
    let hole = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let tree = Tree::standard();
    let keys = |more: &str, patience: &str| {
        let address = hole.local_addr().unwrap();
        format!("to = [\"https://{address}\"{more}]\nversion = \"3\"\nconnect_timeout = \"{patience}\"\n")
    };
    let alone = proxy(&tree, &keys("", "300ms"), INSECURE);
    let mut clients: Vec<Client> = (0..50).map(|_| alone.connect()).collect();
    clients.iter_mut().for_each(|client| client.send("GET /app/ HTTP/1.1\r\nHost: a\r\n\r\n"));
    assert!(clients.iter_mut().all(|client| client.answer().status == 504));
    drop(clients);
    alone.wait_for_error_line("why", |line| {
        line.contains("no answer over QUIC (is UDP to its port allowed?) within 0.3 s")
    });
    let origin = Http3Origin::start();
    let other = format!(", \"https://{}\"", origin.address);
    // Longer than the other one's handshake takes on a busy machine.
    let server = proxy(&tree, &keys(&other, "5s"), INSECURE);
    for _ in 0..6 {
        assert_eq!(post(&server, "/app/"), 200);
    }
}

#[test]
fn a_port_without_a_listener_is_refused_at_once() {
    let address = std::net::SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
    let tree = Tree::standard();
    // The time limit is not reached.
    let keys = format!("to = \"https://{address}\"\nversion = \"3\"\nconnect_timeout = \"1h\"\n");
    let server = proxy(&tree, &keys, INSECURE);
    for _ in 0..3 {
        assert_eq!(server.get("/app/").status, 502);
    }
    server.wait_for_error_line("why", |line| line.contains("cannot connect: connection refused"));
}

#[test]
fn an_origin_that_begins_to_answer_is_found_by_its_checks() {
    let tree = Tree::standard();
    let hole = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let origin = Http3Origin::start();
    let keys = format!(
        "to = [\"https://{}\", \"https://{}\"]\nversion = \"3\"\nconnect_timeout = \"10s\"\n\
         check = {{ path = \"/app/\", interval = \"100ms\", timeout = \"10s\", fall = 1 }}\n",
        hole.local_addr().unwrap(),
        origin.address
    );
    let server = proxy(&tree, &keys, INSECURE);
    server.wait_for_error_line("its state", |line| line.contains("fails its checks"));
    for _ in 0..6 {
        assert_eq!(server.get("/app/").status, 200);
    }
}

#[test]
fn grpc_passes_both_ways_at_once_with_its_trailers() {
    let origin = Http3Origin::start();
    let tree = Tree::standard();
    let server = before(&tree, &origin, "");
    runtime().block_on(async {
        let stream = tokio::net::TcpStream::connect(server.address()).await.unwrap();
        let (send_request, connection) = h2::client::handshake(stream).await.unwrap();
        tokio::spawn(connection);
        let mut send_request = send_request.ready().await.unwrap();
        let request = |path: &str| {
            Request::post(format!("http://a{path}"))
                .header("te", "trailers")
                .header("content-type", "application/grpc")
                .body(())
                .unwrap()
        };
        let (response, mut upload) = send_request.send_request(request("/app/grpc"), false).unwrap();
        // The answer comes while the request continues.
        send(&mut upload, Bytes::from_static(b"first")).await;
        let mut body = response.await.unwrap().into_body();
        for message in ["first", "second", "third"] {
            if message != "first" {
                send(&mut upload, Bytes::from(message)).await;
            }
            let piece = body.data().await.unwrap().unwrap();
            body.flow_control().release_capacity(piece.len()).unwrap();
            assert_eq!(piece, message);
        }
        upload.send_data(Bytes::new(), true).unwrap();
        assert!(body.data().await.is_none());
        let trailers = body.trailers().await.unwrap().unwrap();
        assert_eq!(
            (&trailers["grpc-status"], &trailers["grpc-message"]),
            (&"0".parse().unwrap(), &"fine".parse().unwrap())
        );
        let (response, _) = send_request.send_request(request("/app/unimplemented"), true).unwrap();
        let response = response.await.unwrap();
        assert_eq!(response.headers()["grpc-status"], "12");
    });
}

#[test]
fn trailers_of_requests_pass_and_early_answers_too() {
    let origin = Http3Origin::start();
    let tree = Tree::standard();
    let server = before(&tree, &origin, "");
    let chunked = |path: &str| {
        format!(
            "POST {path} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\
             X-Sum: 1\r\nCookie: a=b\r\n\r\n"
        )
    };
    let said = String::from_utf8(server.connect().ask(chunked("/app/")).body).unwrap();
    assert!(said.ends_with(" 5 x-sum=1"), "{said}");
    let mut client = server.connect();
    client.send("POST /app/early HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n");
    let answer = client.answer();
    assert_eq!((answer.status, &answer.body[..]), (403, &b"early"[..]));
}

#[test]
fn a_request_that_breaks_off_does_not_look_whole() {
    let origin = Http3Origin::start();
    let tree = Tree::standard();
    let server = before(&tree, &origin, "");
    for (number, head) in
        ["Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", "Content-Length: 9\r\n\r\nhello"]
            .into_iter()
            .enumerate()
    {
        let mut client = server.connect();
        client.send(format!("POST /app/ HTTP/1.1\r\nHost: a\r\n{head}"));
        wait_until("it has begun", Duration::from_secs(60), || origin.requests() > number);
        drop(client);
        wait_until("it is broken off", Duration::from_secs(60), || origin.broken() > number);
    }
    assert_eq!(server.get("/app/").status, 200);
    assert_eq!((origin.requests(), origin.broken()), (3, 2));
}
