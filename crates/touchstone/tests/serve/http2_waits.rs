//! How long an HTTP/2 connection waits for its client: bytes one by one are no progress in a header block,
//! too little in a body or for an answer; and a slow program is not the client's fault.

use std::fs;
use std::io::{ErrorKind, Read};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::support::{ALPHABET, Client, Server, Tree, bytes_of, wait_until, write_program};

/// Far longer than any limit here takes to act.
const PATIENCE: Duration = Duration::from_secs(60);

/// Between two bytes. Many arrive within a tick of the server's clock.
const PAUSE: Duration = Duration::from_millis(20);

const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const WINDOW_UPDATE: u8 = 8;
const END_OF_STREAM: u8 = 1;
const END_OF_HEADERS: u8 = 4;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
    out
}

/// A connection whose windows for answers are so large at first.
fn connect(server: &Server, window: u32) -> Client {
    let mut client = Client::connect(server.address());
    client.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    let window = window.to_be_bytes();
    client.send(frame(SETTINGS, 0, 0, &[0, 4, window[0], window[1], window[2], window[3]]));
    client
}

/// GET /long.txt of the host `a`.
const LONG_TXT: &[u8] = b"\x82\x86\x04\x09/long.txt\x01\x01a";

fn with_limits(limits: &str) -> (Tree, Server) {
    let tree = Tree::standard();
    tree.write("long.txt", bytes_of(100_000));
    for (name, text) in [("count", "wc -c"), ("late", "sleep 5; wc -c")] {
        let text = format!("#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'\n{text}\n");
        write_program(&tree.beside("cgi").join(name), text);
    }
    let text = format!(
        "{}[[site.route]]\npath = \"/cgi/\"\ncgi = {{ directory = \"cgi\" }}\n",
        tree.configuration(&format!("[server]\ncores = 1\n[limits]\n{limits}\n"))
    );
    let server = Server::configured(tree.around(), &text);
    (tree, server)
}

/// Sends the same again and again, until the server has ended the connection.
fn assert_is_cut(client: &mut Client, bytes: &[u8]) {
    wait_until("it is cut", PATIENCE, || {
        std::thread::sleep(PAUSE);
        client.try_send(bytes).is_err()
    });
}

#[test]
fn windows_that_grow_by_a_byte_do_not_hold_a_connection() {
    let (_tree, server) = with_limits("stall_timeout = \"500ms\"");
    let mut client = connect(&server, 0);
    client.send(frame(HEADERS, END_OF_STREAM | END_OF_HEADERS, 1, LONG_TXT));
    assert_is_cut(&mut client, &frame(WINDOW_UPDATE, 0, 1, &[0, 0, 0, 1]));
    server.assert_serves("/alphabet.txt", ALPHABET.as_bytes());
}

#[test]
fn windows_that_grow_at_the_minimum_rate_are_enough() {
    let (_tree, server) = with_limits("stall_timeout = \"3s\"\nminimum_send_rate = \"1KiB\"");
    let mut client = connect(&server, 0);
    client.send(frame(HEADERS, END_OF_STREAM | END_OF_HEADERS, 1, LONG_TXT));
    // Ten times the minimum rate, for longer than the timeout, and then all of it. A pause may be longer
    // than was asked for; the window grows with the time.
    let (begin, mut opened) = (Instant::now(), 0);
    while begin.elapsed() < Duration::from_secs(5) {
        let wanted = begin.elapsed().as_millis() as u32 * 10 + 200;
        client.send(frame(WINDOW_UPDATE, 0, 1, &(wanted - opened).to_be_bytes()));
        opened = wanted;
        std::thread::sleep(PAUSE);
    }
    client.send(frame(WINDOW_UPDATE, 0, 0, &100_000_u32.to_be_bytes()));
    client.send(frame(WINDOW_UPDATE, 0, 1, &100_000_u32.to_be_bytes()));
    client.wait_for_bytes(100_000);
}

#[test]
fn a_header_block_byte_by_byte_ends_its_connection() {
    let (_tree, server) = with_limits("header_timeout = \"300ms\"");
    let mut client = connect(&server, 65_535);
    // The header of a frame of 16,000 bytes.
    client.send(&frame(HEADERS, END_OF_STREAM | END_OF_HEADERS, 1, &[0x82; 16_000])[..9]);
    assert_is_cut(&mut client, &[0x82]);
    server.assert_serves("/alphabet.txt", ALPHABET.as_bytes());
}

#[test]
fn a_header_block_that_does_not_end_ends_its_connection() {
    let (_tree, server) = with_limits("header_timeout = \"300ms\"\nstall_timeout = \"600s\"");
    let mut client = connect(&server, 65_535);
    client.send(frame(HEADERS, END_OF_STREAM, 1, LONG_TXT));
    client.stream().set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let mut rest = Vec::new();
    let ended = client.stream().read_to_end(&mut rest);
    assert!(!ended.is_err_and(|error| error.kind() == ErrorKind::WouldBlock), "it is not cut");
}

/// Frames that are cut anywhere by the network are not a slow header block.
#[test]
fn requests_whose_frames_are_always_cut_somewhere_are_answered() {
    const REQUESTS: u32 = 200;
    let (_tree, server) = with_limits("header_timeout = \"3s\"");
    let mut client = connect(&server, 65_535);
    let request = |number: u32| {
        frame(HEADERS, END_OF_STREAM | END_OF_HEADERS, 1 + 2 * number, b"\x82\x86\x84\x01\x01a")
    };
    client.send(&request(0)[..5]);
    // For longer than the timeout.
    for number in 0..REQUESTS {
        client.send([&request(number)[5..], &request(number + 1)[..5]].concat());
        std::thread::sleep(PAUSE);
    }
    client.send(&request(REQUESTS)[5..]);
    client.wait_for_bytes((REQUESTS as usize + 1) * 100);
}

async fn connect_h2(address: SocketAddr) -> h2::client::SendRequest<Bytes> {
    let stream = tokio::net::TcpStream::connect(address).await.expect("it listens");
    let (requests, connection) = h2::client::handshake(stream).await.expect("it speaks HTTP/2");
    tokio::spawn(connection);
    requests.ready().await.expect("it takes requests")
}

fn request(method: &str, path: &str) -> http::Request<()> {
    let uri = format!("http://localhost{path}");
    http::Request::builder().method(method).uri(uri).body(()).expect("a request")
}

async fn body_of(answer: http::Response<h2::RecvStream>) -> Vec<u8> {
    let (mut body, mut all) = (answer.into_body(), Vec::new());
    while let Some(piece) = body.data().await {
        let piece = piece.expect("a piece of the body");
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
fn a_body_byte_by_byte_is_refused_and_the_connection_goes_on() {
    let (_tree, server) = with_limits("stall_timeout = \"500ms\"");
    run(async {
        let mut requests = connect_h2(server.address()).await;
        let (answer, mut body) = requests.send_request(request("POST", "/cgi/count"), false).expect("sent");
        let drip = async {
            loop {
                let _ = body.send_data(Bytes::from_static(b"x"), false);
                tokio::time::sleep(PAUSE).await;
            }
        };
        let answer = tokio::select! {
            answer = answer => answer.expect("an answer"),
            () = drip => unreachable!("it has no end"),
        };
        assert_eq!(answer.status(), 408);
        // Of the same connection, other requests are answered.
        let (answer, _) = requests.send_request(request("GET", "/alphabet.txt"), true).expect("sent");
        assert_eq!(body_of(answer.await.expect("an answer")).await, ALPHABET.as_bytes());
    });
}

#[test]
fn a_program_that_reads_late_is_not_its_clients_fault() {
    let (_tree, server) = with_limits("stall_timeout = \"2s\"");
    run(async {
        let mut requests = connect_h2(server.address()).await;
        let (answer, mut body) = requests.send_request(request("POST", "/cgi/late"), false).expect("sent");
        let sent = bytes_of(900_000);
        body.send_data(sent.into(), true).expect("it is taken");
        let answer = answer.await.expect("an answer");
        assert_eq!(answer.status(), 200);
        assert_eq!(String::from_utf8_lossy(&body_of(answer).await).trim(), "900000");
    });
}

#[test]
fn a_route_says_how_slowly_bodies_may_come() {
    let (tree, server) = with_limits("stall_timeout = \"600s\"");
    let text = fs::read_to_string(tree.beside("touchstone.toml")).expect("the configuration");
    drop(server);
    let text = text.replace("path = \"/cgi/\"\n", "path = \"/cgi/\"\nstall_timeout = \"300ms\"\n");
    let server = Server::configured(tree.around(), &text);
    run(async {
        let mut requests = connect_h2(server.address()).await;
        let (answer, _body) = requests.send_request(request("POST", "/cgi/count"), false).expect("sent");
        assert_eq!(answer.await.expect("an answer").status(), 408);
    });
}
