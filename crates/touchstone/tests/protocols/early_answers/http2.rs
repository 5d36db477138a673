//! HTTP/2: the whole answer, then a reset with NO_ERROR if the client does not end its request.

use std::future::poll_fn;
use std::time::Duration;

use bytes::Bytes;
use h2::Reason;
use h2::client::SendRequest;

use super::{UNREAD, configuration};
use crate::support::{ALPHABET, Server, Tree};

/// Far longer than anything takes here.
const PATIENCE: Duration = Duration::from_secs(120);

async fn connect(server: &Server) -> SendRequest<Bytes> {
    let stream = tokio::net::TcpStream::connect(server.address()).await.expect("it listens");
    let (requests, connection) = h2::client::handshake(stream).await.expect("it speaks HTTP/2");
    tokio::spawn(connection);
    requests.ready().await.expect("it takes requests")
}

fn request(method: &str, path: &str, length: Option<usize>) -> http::Request<()> {
    let builder = http::Request::builder().method(method).uri(format!("http://localhost{path}"));
    let builder = match length {
        Some(length) => builder.header("content-length", length),
        None => builder,
    };
    builder.body(()).expect("a request")
}

/// The whole body of an answer.
async fn body_of(answer: http::Response<h2::RecvStream>) -> Vec<u8> {
    let (mut body, mut all) = (answer.into_body(), Vec::new());
    while let Some(piece) = body.data().await {
        let piece = piece.expect("the answer is complete");
        let _ = body.flow_control().release_capacity(piece.len());
        all.extend_from_slice(&piece);
    }
    all
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async { tokio::time::timeout(PATIENCE, test).await.expect("in time") });
}

#[test]
fn answers_do_not_wait_for_bodies_that_they_do_not_need() {
    let tree = Tree::standard();
    let (text, _origin) = configuration(&tree, "");
    let server = Server::configured(tree.around(), &text);
    assert_eq!(server.get("/often").status, 404);
    run(async {
        let mut requests = connect(&server).await;
        for unread in UNREAD {
            let lengths = [Some(10), Some(20_000_000), None];
            let lengths = if unread.target == "/cgi/deaf" { &lengths[..2] } else { &lengths[..] };
            for length in lengths {
                let what = format!("{} {} {length:?}", unread.method, unread.target);
                let asked = request(unread.method, unread.target, *length);
                let (answer, mut body) = requests.send_request(asked, false).expect("it is sent");
                body.send_data(Bytes::from_static(b"hello"), false).expect("it is taken");
                let answer = answer.await.unwrap_or_else(|error| panic!("{what}: {error}"));
                assert_eq!(answer.status().as_u16(), unread.status, "{what}");
                body_of(answer).await;
                let reset = poll_fn(|context| body.poll_reset(context)).await;
                assert_eq!(
                    reset.unwrap_or_else(|error| panic!("{what}: {error}")),
                    Reason::NO_ERROR,
                    "{what}"
                );
            }
        }
        let (answer, _) = requests.send_request(request("GET", "/alphabet.txt", None), true).expect("sent");
        assert_eq!(body_of(answer.await.expect("an answer")).await, ALPHABET.as_bytes());
    });
}

/// More of them than a client may have open at once, so those that have ended do not count.
#[test]
fn requests_that_end_behind_their_answers_are_over() {
    let tree = Tree::standard();
    let server = Server::quick(&tree.root());
    run(async {
        let mut requests = connect(&server).await;
        for number in 0..300 {
            let asked = request("POST", "/alphabet.txt", Some(10));
            let (answer, mut body) = requests.send_request(asked, false).expect("it is sent");
            let answer = answer.await.expect("an answer");
            assert_eq!(answer.status(), 405, "{number}");
            body_of(answer).await;
            // It may have been told to send no more.
            let _ = body.send_data(Bytes::from_static(b"helloworld"), true);
            requests = requests.ready().await.expect("it takes another request");
        }
    });
}
