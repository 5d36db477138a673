//! What only some versions of HTTP have, and servlets get of it: trailers, early hints, cancelled requests.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::io::{Read as _, Write as _};
use std::time::Duration;

use bytes::Bytes;
use h2::client::SendRequest;
use http::{HeaderMap, Request};

use super::{BOTH, START, text, trial, with_trial};
use crate::support::{Server, Tree, curl, wait_until};

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// A connection of HTTP/2 without TLS.
pub(crate) async fn connect(server: &Server) -> SendRequest<Bytes> {
    let stream = tokio::net::TcpStream::connect(server.address()).await.unwrap();
    let (requests, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    requests.ready().await.unwrap()
}

/// Sends bytes unchanged, and returns the bytes received until the end.
pub(crate) fn exchange(server: &Server, request: &str) -> String {
    let mut stream = std::net::TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(90))).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// What the servlet has seen of these trailers, where it may not see all.
const SEEN: &str = "early=false ready=true {x-check=1}";

#[test]
fn trailers_pass_both_ways_in_http_1() {
    let Some(trial) = trial() else { return };
    for isolation in BOTH {
        let tree = Tree::empty();
        let server = with_trial(&tree, trial, isolation);
        let head = "HTTP/1.1\r\nHost: a\r\nConnection: close\r\n";
        for (path, rest) in [("trailers", ""), ("trailers?flush", " more")] {
            let answer = exchange(
                &server,
                &format!(
                    "POST /trial/{path} {head}Transfer-Encoding: chunked\r\n\r\n\
                     5\r\nhello\r\n6\r\n world\r\n0\r\nX-Check: 1\r\nHost: evil\r\n\r\n"
                ),
            );
            let (fields, body) = answer.split_once("\r\n\r\n").unwrap();
            assert!(
                fields.contains("\r\nTransfer-Encoding: chunked") && fields.contains("\r\nTrailer: X-Sum")
            );
            assert!(!fields.contains("Content-Length"), "{fields}");
            assert!(body.contains(SEEN) && body.contains(rest), "{answer}");
            // Characters that split lines or frame the message are not passed on.
            assert!(body.ends_with("\r\n0\r\nX-Sum: 11\r\nX-Split: a  X-Forged: b\r\n\r\n"), "{answer}");
        }
        // A body without trailers, and one with its length.
        let plain = exchange(&server, &format!("POST /trial/trailers {head}Content-Length: 2\r\n\r\nok"));
        assert!(plain.contains("early=false ready=true {}") && plain.contains("X-Sum: 2\r\n"), "{plain}");
        // HTTP/1.0 does not support them, and Tomcat reports this to the application.
        let old = exchange(&server, "POST /trial/trailers HTTP/1.0\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
        assert!(old.starts_with("HTTP/1.1 500"), "{old}");
    }
}

#[test]
fn trailers_pass_both_ways_in_http_2() {
    let Some(trial) = trial() else { return };
    for isolation in BOTH {
        let tree = Tree::empty();
        let server = with_trial(&tree, trial, isolation);
        runtime().block_on(async {
            let mut requests = connect(&server).await;
            let request = Request::post("http://a/trial/trailers").body(()).unwrap();
            let (answer, mut upload) = requests.send_request(request, false).unwrap();
            upload.send_data(Bytes::from_static(b"hello"), false).unwrap();
            let mut fields = HeaderMap::new();
            fields.insert("x-check", "1".parse().unwrap());
            fields.insert("authorization", "x".parse().unwrap());
            upload.send_trailers(fields).unwrap();
            let answer = answer.await.unwrap();
            assert_eq!(answer.status(), 200, "{isolation}");
            assert!(!answer.headers().contains_key("content-length"));
            let mut body = answer.into_body();
            let mut read = Vec::new();
            while let Some(piece) = body.data().await {
                read.extend_from_slice(&piece.unwrap());
            }
            assert_eq!(String::from_utf8(read).unwrap(), SEEN);
            let trailers = body.trailers().await.unwrap().expect("trailers");
            assert_eq!((&trailers["x-sum"], trailers.len()), (&"5".parse().unwrap(), 2), "{trailers:?}");
        });
    }
}

#[test]
fn hints_of_servlets_go_ahead_of_their_answers() {
    let Some(trial) = trial() else { return };
    for isolation in BOTH {
        let tree = Tree::empty();
        let server = with_trial(&tree, trial, isolation);
        for target in ["/trial/hints", "/trial/hints?at_once"] {
            let request = format!("GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
            let answer = exchange(&server, &request);
            let hinted: Vec<&str> = answer.split("HTTP/1.1 103 Early Hints\r\n").collect();
            assert_eq!(hinted.len(), 3, "{answer}");
            assert!(
                hinted[0].is_empty() && hinted[1].contains("Link: </a.css>; rel=preload\r\n"),
                "{answer}"
            );
            assert!(
                !hinted[1].contains("b.js") && hinted[2].contains("Link: </b.js>; rel=preload\r\n"),
                "{answer}"
            );
            assert!(hinted[2].contains("\r\n\r\nHTTP/1.1 200") && answer.ends_with("the page"), "{answer}");
        }
        // HTTP/1.0 has no interim responses.
        let old = exchange(&server, "GET /trial/hints HTTP/1.0\r\nHost: a\r\n\r\n");
        assert!(old.starts_with("HTTP/1.1 200") && !old.contains(" 103 "), "{old}");
        let url = format!("http://{}/trial/hints", server.address());
        let Some(output) = curl(["--http2-prior-knowledge", "--include", &url]) else { return };
        let seen = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(seen.matches("HTTP/2 103").count(), 2, "{seen}");
        assert!(seen.contains("link: </a.css>; rel=preload") && seen.ends_with("the page"), "{seen}");
    }
}

#[test]
fn applications_are_told_that_a_stream_was_cancelled() {
    let Some(trial) = trial() else { return };
    for isolation in BOTH {
        let tree = Tree::empty();
        let server = with_trial(&tree, trial, isolation);
        runtime().block_on(async {
            let mut requests = connect(&server).await;
            let asked = |path: &str| Request::get(format!("http://a/trial/{path}")).body(()).unwrap();
            // One that has no answer yet, and one in the middle of it; the connection remains.
            let (waiting, mut cancelled) = requests.send_request(asked("async?how=never"), true).unwrap();
            let (begun, mut also) = requests.send_request(asked("endless"), true).unwrap();
            let mut body = begun.await.unwrap().into_body();
            assert!(body.data().await.unwrap().is_ok());
            wait_until("it is at work", START, || text(&server.get("/trial/gone")).ends_with(" of 1"));
            cancelled.send_reset(h2::Reason::CANCEL);
            also.send_reset(h2::Reason::CANCEL);
            drop((waiting, body));
            let answer = requests.send_request(asked("facts"), true).unwrap().0.await.unwrap();
            assert_eq!(answer.status(), 200);
            wait_until("applications know", START, || text(&server.get("/trial/gone")) == "2 of 1");
        });
    }
}
