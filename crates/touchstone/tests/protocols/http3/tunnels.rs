//! WebSockets over HTTP/3 (RFC 9220): an extended CONNECT opens a tunnel to an origin.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::io::{BufReader, Read, Write};
use std::net::{Shutdown, TcpListener};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::client::Client;
use super::{configured, server_and_client};
use crate::support::{Server, Tree};

/// An origin that accepts WebSockets below `/app/ws`, says `hello`, and sends back what it gets up to `end`.
/// It refuses others with 403. The second value are the heads of requests.
fn echo() -> (String, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (heads, received) = channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, heads) = (stream.unwrap(), heads.clone());
            thread::spawn(move || {
                let mut input = BufReader::new(stream.try_clone().unwrap());
                let mut head = Vec::new();
                let mut byte = [0];
                while !head.ends_with(b"\r\n\r\n") && input.read(&mut byte).is_ok_and(|count| count > 0) {
                    head.extend_from_slice(&byte);
                }
                let head = String::from_utf8(head).unwrap();
                let is_open = head.starts_with("GET /app/ws");
                // The test may have ended.
                let _ = heads.send(head);
                if !is_open {
                    let refusal = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno";
                    return stream.write_all(refusal).unwrap();
                }
                let switch = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\
                    Connection: Upgrade\r\nSec-WebSocket-Accept: x\r\n\
                    Sec-WebSocket-Protocol: chat\r\n\r\nhello";
                stream.write_all(switch).unwrap();
                let mut buffer = [0; 4096];
                loop {
                    let count = input.read(&mut buffer).unwrap_or(0);
                    if count == 0 || stream.write_all(&buffer[..count]).is_err() {
                        break;
                    }
                    if buffer[..count].ends_with(b"end") {
                        break;
                    }
                }
                let _ = stream.shutdown(Shutdown::Both);
            });
        }
    });
    (address, received)
}

/// A server with short times and a small limit for bodies, none of which is for tunnels.
fn server_before(tree: &Tree, origin: &str) -> Option<(Server, Client)> {
    let limits = "[limits]\nbody_bytes = '1KiB'\nkeep_alive_timeout = '3s'\nstall_timeout = '3s'\n";
    let route = format!(
        "development_certificate = true\n[[site.route]]\npath = \"/app/\"\n\
         proxy = {{ to = \"http://{origin}\" }}\n"
    );
    configured(tree, limits, &route)
}

/// An extended CONNECT whose stream remains open.
fn connect(path: &str) -> Value {
    json!({
        "method": "CONNECT", "path": path, "unended": true,
        "headers": [[":protocol", "websocket"], ["sec-websocket-version", "13"], ["origin", "https://a"]],
    })
}

fn begin(client: &mut Client, request: Value) -> u64 {
    let begun = client.run(json!({"do": "requests", "name": "a", "requests": [request], "later": true}));
    begun["streams"][0].as_u64().unwrap()
}

/// The bytes of a stream when this many have arrived, or it has ended.
fn so_far(client: &mut Client, stream: u64, bytes: usize) -> (u64, String, Value) {
    let result = client.run(json!({"do": "answers", "name": "a", "streams": [stream], "bytes": bytes}));
    assert!(result["closed"].is_null(), "{result}");
    let answer = &result["answers"][0];
    let body = STANDARD.decode(answer["body"].as_str().unwrap_or_default()).unwrap();
    (answer["status"].as_u64().unwrap(), String::from_utf8(body).unwrap(), answer.clone())
}

#[test]
fn a_websocket_passes_in_both_directions() {
    let tree = Tree::standard();
    let (origin, heads) = echo();
    let Some((server, mut client)) = server_before(&tree, &origin) else { return };
    client.connect("a", &server);
    let stream = begin(&mut client, connect("/app/ws?a=b"));
    let (status, body, answer) = so_far(&mut client, stream, 5);
    assert_eq!((status, &body[..]), (200, "hello"));
    for (name, value) in [("sec-websocket-protocol", Some("chat")), ("upgrade", None), ("connection", None)] {
        assert_eq!(answer["headers"][name].as_str(), value, "{name}: {answer}");
    }
    let head = heads.recv().unwrap().to_ascii_lowercase();
    for line in
        ["get /app/ws?a=b http/1.1", "upgrade: websocket", "sec-websocket-version: 13", "origin: https://a"]
    {
        assert!(head.lines().any(|found| found == line), "{line}: {head}");
    }
    assert!(head.contains("\r\nsec-websocket-key: ") && !head.contains("content-length"), "{head}");
    // Longer than a body may be, and silent for longer than the limits of other requests.
    let long = "x".repeat(3000);
    client.run(json!({"do": "data", "name": "a", "stream": stream, "text": long}));
    assert_eq!(so_far(&mut client, stream, 3005).1.len(), 3005);
    client.run(json!({"do": "pause", "name": "a", "seconds": 7}));
    client.run(json!({"do": "data", "name": "a", "stream": stream, "text": "end"}));
    let (_, body, answer) = so_far(&mut client, stream, usize::MAX >> 2);
    assert!(body.ends_with("xend") && answer["ended"] == true && answer["reset"].is_null(), "{answer}");
    // Other requests of the connection continue.
    client.get("a", "/alphabet.txt").assert("a file", 200, b"abcdefghijklmnopqrstuvwxyz");
}

#[test]
fn only_an_open_tunnel_looks_like_one() {
    let tree = Tree::standard();
    let (origin, heads) = echo();
    let Some((server, mut client)) = server_before(&tree, &origin) else { return };
    client.connect("a", &server);
    let refused = begin(&mut client, connect("/app/other"));
    assert_eq!(so_far(&mut client, refused, 2).0, 403);
    assert!(heads.recv().unwrap().starts_with("GET /app/other "));
    // A file has no other protocol.
    let file = begin(&mut client, connect("/alphabet.txt"));
    let (status, body, _) = so_far(&mut client, file, usize::MAX >> 2);
    assert!(!(200..300).contains(&status) && !body.contains("abc"), "{status} {body}");
    // The client's direction has ended before it began.
    let mut ended = connect("/app/ws");
    ended["unended"] = json!(false);
    assert_eq!(client.requests("a", json!([ended])).remove(0).status(), 400);
    // A tunnel needs CONNECT.
    let mut get = connect("/app/ws");
    get["method"] = json!("GET");
    let answer = begin(&mut client, get);
    assert!(so_far(&mut client, answer, usize::MAX >> 2).2["reset"].as_u64().is_some());
    assert!(heads.try_recv().is_err(), "nothing of this reaches the origin");
}

#[test]
fn the_origin_learns_that_the_client_has_left() {
    let tree = Tree::standard();
    let (origin, heads) = echo();
    let Some((server, mut client)) = server_before(&tree, &origin) else { return };
    client.connect("a", &server);
    let stream = begin(&mut client, connect("/app/ws"));
    assert_eq!(so_far(&mut client, stream, 5).1, "hello");
    heads.recv().unwrap();
    client.run(json!({"do": "data", "name": "a", "stream": stream, "text": "", "end": true}));
    // The origin reads the end, and ends its direction too.
    let (_, body, answer) = so_far(&mut client, stream, usize::MAX >> 2);
    assert!(body == "hello" && answer["ended"] == true, "{answer}");
}

#[test]
fn the_settings_say_that_tunnels_may_be_opened() {
    let tree = Tree::standard();
    let Some((server, mut client)) = server_and_client(&tree, &[]) else { return };
    client.connect("a", &server);
    client.get("a", "/alphabet.txt").assert("a file", 200, b"abcdefghijklmnopqrstuvwxyz");
    let settings = client.run(json!({"do": "settings", "name": "a"}));
    assert_eq!(settings["8"], json!(1), "SETTINGS_ENABLE_CONNECT_PROTOCOL: {settings}");
}
