//! The accelerator end to end: answers from the cache, requests that are forwarded to the origin,
//! simultaneous clients, and failing origins. The crate itself tests the rules.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod conformance;
mod control;
mod density;
mod disk;
mod esi;
mod origin;
mod parts;
mod robustness;
mod rude;
mod sharing;
mod standards;
mod targeted;
mod trailers;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::Duration;

use crate::support::{AnswerTo, Response, Server, raise_open_files, skipped, wait_until};
use origin::{Origin, answer};

const FRESH: &str = "Cache-Control: max-age=600\r\n";

/// A server whose origin answers everything with these fields, and a body with the number of requests.
fn counting(fields: &'static str) -> (Origin, Server) {
    counting_with(fields, &[])
}

fn counting_with(fields: &'static str, more: &[&str]) -> (Origin, Server) {
    let origin = Origin::start(move |asked, stream| {
        answer(stream, 200, fields, &format!("{} {}", asked.target, asked.count));
    });
    let server = Server::accelerating(origin.address, &[&["--cores", "2"], more].concat());
    (origin, server)
}

fn get(server: &Server, target: &str, fields: &str) -> Response {
    server.connect().ask(format!("GET {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"))
}

fn text(response: &Response) -> String {
    String::from_utf8(response.body.clone()).unwrap()
}

#[test]
fn what_is_fresh_is_answered_without_the_origin() {
    let (origin, server) = counting("Cache-Control: max-age=600\r\nETag: \"v\"\r\nX-Of-Origin: 1\r\n");
    assert_eq!(text(&get(&server, "/a?q", "")), "/a?q 1");
    for _ in 0..10 {
        // Connections arrive at either core.
        let hit = get(&server, "/a?q", "");
        assert_eq!((hit.status, text(&hit)), (200, "/a?q 1".to_string()));
        assert!(hit.field("age").is_some() && hit.field("x-of-origin") == Some("1"));
        assert!(hit.field("cache-status").unwrap().starts_with("touchstone; hit; ttl="));
    }
    let head = {
        let mut client = server.connect();
        client.send("HEAD /a?q HTTP/1.1\r\nHost: a\r\n\r\n");
        client.try_answer(AnswerTo::Head).unwrap()
    };
    assert_eq!((head.status, head.field("content-length")), (200, Some("6")));
    let part = get(&server, "/a?q", "Range: bytes=1-2\r\n");
    assert_eq!(
        (part.status, text(&part), part.field("content-range")),
        (206, "a?".to_string(), Some("bytes 1-2/6"))
    );
    assert_eq!(get(&server, "/a?q", "If-None-Match: \"v\"\r\n").status, 304);
    assert_eq!(origin.count("/a?q"), 1);
    assert_eq!(text(&get(&server, "/a?r", "")), "/a?r 1");
    let pipelined = "GET /a?q HTTP/1.1\r\nHost: a\r\n\r\n".repeat(3);
    let mut client = server.connect();
    client.send(pipelined);
    for _ in 0..3 {
        assert_eq!(text(&client.answer()), "/a?q 1");
    }
}

#[test]
fn private_answers_are_requested_each_time() {
    for fields in [
        "Cache-Control: private, max-age=600\r\n",
        "Cache-Control: no-store\r\n",
        "Set-Cookie: a=b\r\nLast-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n",
        "Cache-Control: max-age=600\r\nVary: *\r\n",
    ] {
        let (origin, server) = counting(fields);
        assert_eq!(text(&get(&server, "/a", "")), "/a 1", "{fields}");
        assert_eq!(text(&get(&server, "/a", "")), "/a 2", "{fields}");
        assert_eq!(origin.count("/a"), 2);
    }
    let (_origin, server) = counting(FRESH);
    let secret = "Authorization: Basic eDp5\r\n";
    assert_eq!(text(&get(&server, "/a", secret)), "/a 1");
    assert_eq!(text(&get(&server, "/a", "")), "/a 2");
    assert_eq!(text(&get(&server, "/a", secret)), "/a 3");
    assert_eq!(text(&get(&server, "/a", "")), "/a 2");
}

#[test]
fn answers_without_freshness_are_kept_briefly_without_a_user() {
    // An origin whose clock, or whose Date, stands still.
    let silent = "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n";
    let (origin, server) = counting_with(silent, &["--default-freshness", "600s"]);
    for _ in 0..3 {
        assert_eq!(text(&get(&server, "/a", "")), "/a 1");
    }
    assert_eq!(text(&get(&server, "/a", "Cookie: user=ada\r\n")), "/a 2");
    assert_eq!(origin.count("/a"), 2);
    let (origin, server) = counting_with(silent, &["--default-freshness", "0s"]);
    assert_eq!(text(&get(&server, "/a", "")), "/a 1");
    assert_eq!(text(&get(&server, "/a", "")), "/a 2");
    assert_eq!(origin.count("/a"), 2);
}

#[test]
fn a_thousand_clients_are_one_request_and_all_get_it_as_it_comes() {
    const CLIENTS: usize = 1000;
    if !raise_open_files(4096) {
        return skipped("a process may not hold 4,096 files open");
    }
    let (to_origin, from_test) = channel::<()>();
    let from_test = Mutex::new(from_test);
    let origin = Origin::start(move |_, stream| {
        let from_test = from_test.lock().unwrap();
        from_test.recv().unwrap();
        stream
            .write_all(format!("HTTP/1.1 200 OK\r\n{FRESH}Content-Length: 8\r\n\r\nhalf").as_bytes())
            .unwrap();
        from_test.recv().unwrap();
        stream.write_all(b"rest").unwrap();
    });
    let server = Server::accelerating(origin.address, &["--cores", "2"]);
    let ask = |_| {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream.write_all(b"GET /slow HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
        stream
    };
    let mut clients: Vec<TcpStream> = (0..CLIENTS).map(ask).collect();
    wait_until("the origin is asked", Duration::from_secs(60), || origin.count("/slow") == 1);
    to_origin.send(()).unwrap();
    for client in &mut clients {
        let mut received = Vec::new();
        let mut buffer = [0; 1024];
        while !received.ends_with(b"\r\n\r\nhalf") {
            let count = client.read(&mut buffer).unwrap();
            assert!(count > 0, "{}", received.escape_ascii());
            received.extend_from_slice(&buffer[..count]);
        }
        assert!(received.starts_with(b"HTTP/1.1 200 OK\r\n"), "{}", received.escape_ascii());
    }
    to_origin.send(()).unwrap();
    for mut client in clients {
        let mut rest = Vec::new();
        client.read_to_end(&mut rest).unwrap();
        assert_eq!(rest, b"rest");
    }
    assert_eq!(origin.count("/slow"), 1);
    assert_eq!(text(&get(&server, "/slow", "")), "halfrest");
    assert_eq!(origin.count("/slow"), 1);
}

#[test]
fn the_fetch_goes_on_when_its_first_client_leaves() {
    let (to_origin, from_test) = channel::<()>();
    let from_test = Mutex::new(from_test);
    let origin = Origin::start(move |_, stream| {
        from_test.lock().unwrap().recv().unwrap();
        answer(stream, 200, FRESH, "there");
    });
    let server = Server::accelerating(origin.address, &["--cores", "1"]);
    let mut first = server.connect();
    first.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
    wait_until("the origin is asked", Duration::from_secs(60), || origin.count("/a") == 1);
    let mut second = server.connect();
    second.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
    // The second must be waiting before the first goes: it is, once the server has answered one that arrived
    // later.
    assert_eq!(
        server
            .connect()
            .ask("GET http://x/ HTTP/1.1\r\nHost: x\r\nCache-Control: only-if-cached\r\n\r\n")
            .status,
        504
    );
    first.vanish();
    assert_eq!(
        server
            .connect()
            .ask("GET http://y/ HTTP/1.1\r\nHost: y\r\nCache-Control: only-if-cached\r\n\r\n")
            .status,
        504
    );
    to_origin.send(()).unwrap();
    assert_eq!(text(&second.answer()), "there");
    assert_eq!(origin.count("/a"), 1);
}

#[test]
fn no_client_waits_for_a_private_answer_of_another() {
    const CLIENTS: usize = 8;
    // All requests must be at the origin at once, or the barrier never opens: so none waits for another's
    // response.
    let barrier = Arc::new(Barrier::new(CLIENTS));
    let origin = Origin::start(move |asked, stream| {
        if asked.target == "/known" && asked.count > 1 || asked.target == "/cookie" {
            barrier.wait();
        }
        answer(stream, 200, "Cache-Control: private\r\n", "own");
    });
    let server = Server::accelerating(origin.address, &["--cores", "2"]);
    // If it is known already; and if a cookie shows that it may be.
    assert_eq!(text(&get(&server, "/known", "")), "own");
    for (target, fields) in [("/known", ""), ("/cookie", "Cookie: a=b\r\n")] {
        thread::scope(|scope| {
            for _ in 0..CLIENTS {
                scope.spawn(|| assert_eq!(text(&get(&server, target, fields)), "own"));
            }
        });
    }
    assert_eq!((origin.count("/known"), origin.count("/cookie")), (CLIENTS + 1, CLIENTS));
}

#[test]
fn a_stale_answer_stands_in_for_a_failing_origin() {
    let (origin, server) = counting("Cache-Control: max-age=0\r\nETag: \"v\"\r\n");
    assert_eq!(text(&get(&server, "/a", "")), "/a 1");
    origin.set_down(true);
    for _ in 0..3 {
        let stale = get(&server, "/a", "");
        assert_eq!((stale.status, text(&stale)), (200, "/a 1".to_string()));
        assert!(stale.field("cache-status").unwrap().starts_with("touchstone; fwd=stale; fwd-status=502"));
    }
    assert_eq!(get(&server, "/other", "").status, 502);
    origin.set_down(false);
    assert_eq!(text(&get(&server, "/a", "")), "/a 2");
    let (origin, server) = counting("Cache-Control: max-age=0, must-revalidate\r\nETag: \"v\"\r\n");
    assert_eq!(text(&get(&server, "/a", "")), "/a 1");
    origin.set_down(true);
    assert_eq!(get(&server, "/a", "").status, 502);
}

#[test]
fn a_stale_answer_is_validated_in_the_background() {
    let fields = "Cache-Control: max-age=0, stale-while-revalidate=60\r\nETag: \"v\"\r\n";
    let origin = Origin::start(move |asked, stream| match asked.field("if-none-match") {
        Some("\"v\"") => answer(stream, 304, &format!("{fields}X-Version: {}\r\n", asked.count), ""),
        _ => answer(stream, 200, fields, "body"),
    });
    let server = Server::accelerating(origin.address, &["--cores", "1"]);
    assert_eq!(text(&get(&server, "/a", "")), "body");
    let stale = get(&server, "/a", "");
    assert_eq!((text(&stale), stale.field("x-version")), ("body".to_string(), None));
    wait_until("the stored head is renewed", Duration::from_secs(60), || {
        let renewed = get(&server, "/a", "Cache-Control: only-if-cached\r\n");
        assert_eq!((renewed.status, text(&renewed)), (200, "body".to_string()));
        renewed.field("x-version").is_some()
    });
    assert!(origin.count("/a") >= 2);
}

#[test]
fn what_changes_something_makes_room_for_its_result() {
    let origin = Origin::start(|asked, stream| {
        let location = if asked.head.starts_with("POST /b ") { "Location: /c\r\n" } else { "" };
        let status = if asked.target == "/failed" { 500 } else { 200 };
        answer(stream, status, &format!("{FRESH}{location}"), &asked.count.to_string());
    });
    let server = Server::accelerating(origin.address, &["--cores", "2"]);
    for target in ["/a", "/b", "/c"] {
        assert_eq!(text(&get(&server, target, "")), "1");
    }
    let post = "POST /b HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(server.connect().ask(post).status, 200);
    assert_eq!(
        [get(&server, "/a", ""), get(&server, "/b", ""), get(&server, "/c", "")].map(|got| text(&got)),
        ["1", "3", "2"]
    );
}

#[test]
fn query_without_a_media_type_is_asked_for_each_time() {
    let (origin, server) = counting(FRESH);
    assert_eq!(text(&get(&server, "/a", "")), "/a 1");
    for (count, body) in [(2, "one"), (3, "one"), (4, "two")] {
        let length = body.len();
        let query = format!("QUERY /a HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n{body}");
        let answer = server.connect().ask(query);
        assert_eq!((answer.status, text(&answer)), (200, format!("/a {count}")));
        assert_eq!(answer.field("cache-status"), Some("touchstone; fwd=method"));
    }
    let hit = get(&server, "/a", "");
    assert_eq!(text(&hit), "/a 1", "{:?}", hit.field("cache-status"));
    assert_eq!(origin.count("/a"), 4);
}

#[test]
fn an_origin_that_lies_about_its_length_poisons_nothing() {
    let origin = Origin::start(|asked, stream| {
        let _ = match (asked.target.as_str(), asked.count) {
            ("/short", 1) => {
                let _ = stream
                    .write_all(format!("HTTP/1.1 200 OK\r\n{FRESH}Content-Length: 9\r\n\r\nhalf").as_bytes());
                stream.shutdown(std::net::Shutdown::Both)
            }
            ("/two", 1) => stream.write_all(
                format!("HTTP/1.1 200 OK\r\n{FRESH}Content-Length: 4\r\nContent-Length: 5\r\n\r\nwrong")
                    .as_bytes(),
            ),
            ("/part", 1) => stream.write_all(
                format!(
                    "HTTP/1.1 206 OK\r\n{FRESH}Content-Range: bytes 0-3/8\r\nContent-Length: 5\r\n\r\nwrong"
                )
                .as_bytes(),
            ),
            _ => {
                answer(stream, 200, FRESH, "right");
                Ok(())
            }
        };
    });
    let server = Server::accelerating(origin.address, &["--cores", "1"]);
    let mut client = server.connect();
    // An answer that ends at once is not an answer.
    assert_eq!(client.ask("GET /short HTTP/1.1\r\nHost: a\r\n\r\n").status, 502);
    assert_eq!(get(&server, "/two", "").status, 502);
    assert_eq!(get(&server, "/part", "Range: bytes=0-3\r\n").status, 206);
    for target in ["/short", "/two", "/part"] {
        assert_eq!(text(&get(&server, target, "")), "right", "{target}");
    }
}

#[test]
fn each_variant_is_a_response_of_its_own() {
    let origin = Origin::start(|asked, stream| {
        let language = asked.field("accept-language").unwrap_or("none").to_string();
        answer(stream, 200, &format!("{FRESH}Vary: Accept-Language\r\n"), &language);
    });
    let server = Server::accelerating(origin.address, &["--cores", "1"]);
    for _ in 0..2 {
        for language in ["de", "en", "fr"] {
            let got = get(&server, "/a", &format!("Accept-Language: {language}\r\n"));
            assert_eq!(text(&got), language);
        }
        assert_eq!(text(&get(&server, "/a", "")), "none");
    }
    assert_eq!(origin.count("/a"), 4);
}
