//! Requests that a program answers, here another server: bodies stream in both directions, and each side
//! notices when the other leaves.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;

use crate::http3::client::{Answer, Client};
use crate::http3::configured;
use crate::support::{Server, Tree};

/// An origin; `serve` handles each connection in its own thread.
fn origin(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let serve = Arc::new(serve);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, serve) = (stream.unwrap(), serve.clone());
            thread::spawn(move || serve(stream));
        }
    });
    address
}

/// The next request's head, and its body if it has one; `None` at the end.
fn read_request(input: &mut BufReader<TcpStream>) -> Option<(String, Vec<u8>)> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if input.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let lower = head.to_ascii_lowercase();
    let mut body = Vec::new();
    if let Some((_, rest)) = lower.split_once("\r\ncontent-length: ") {
        body.resize(rest.split("\r\n").next().unwrap().parse().unwrap(), 0);
        input.read_exact(&mut body).ok()?;
    } else if lower.contains("\r\ntransfer-encoding: chunked") {
        loop {
            let mut line = String::new();
            input.read_line(&mut line).ok()?;
            let mut chunk = vec![0; usize::from_str_radix(line.trim(), 16).ok()? + 2];
            input.read_exact(&mut chunk).ok()?;
            if chunk.len() == 2 {
                break;
            }
            body.extend_from_slice(&chunk[..chunk.len() - 2]);
        }
    }
    Some((head, body))
}

fn server_before(tree: &Tree, origin: SocketAddr) -> Option<(Server, Client)> {
    let route = format!("[[site.route]]\npath = \"/app/\"\nproxy = {{ to = \"http://{origin}\" }}\n");
    let site = format!("development_certificate = true\n{route}");
    configured(tree, "[limits]\nbody_bytes = '10MiB'", &site)
}

#[test]
fn bodies_go_both_ways() {
    // Sends back the body that it gets: in one piece, or in chunks if the request has chunks.
    let address = origin(|stream| {
        let mut input = BufReader::new(stream.try_clone().unwrap());
        let mut output = stream;
        while let Some((head, body)) = read_request(&mut input) {
            if head.to_ascii_lowercase().contains("chunked") {
                output.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
                for chunk in body.chunks(10_000) {
                    write!(output, "{:x}\r\n", chunk.len()).unwrap();
                    output.write_all(chunk).unwrap();
                    output.write_all(b"\r\n").unwrap();
                }
                output.write_all(b"0\r\n\r\n").unwrap();
            } else {
                write!(output, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()).unwrap();
                output.write_all(&body).unwrap();
            }
        }
    });
    let tree = Tree::standard();
    let Some((server, mut client)) = server_before(&tree, address) else { return };
    client.connect("a", &server);
    let size = 3 << 20;
    let post = |more: serde_json::Value| {
        json!({
            "method": "POST", "path": "/app/", "body_bytes": size, "headers": more,
        })
    };
    let answers = client.requests(
        "a",
        json!([
            post(json!([["content-length", size.to_string()]])),
            post(json!([])),
            {"method": "POST", "path": "/app/", "body": "ended by trailers", "trailers": [["a", "b"]]},
            {"method": "POST", "path": "/app/", "headers": [["content-length", "0"]]},
            post(json!([["expect", "100-continue"]])),
        ]),
    );
    for index in [0, 1, 4] {
        answers[index].assert(&format!("request {index}"), 200, &vec![0; size]);
    }
    answers[2].assert("trailers", 200, b"ended by trailers");
    answers[3].assert("an empty body", 200, b"");
    assert_eq!(answers[4].interim(), [100]);
}

#[test]
fn interim_responses_go_ahead_of_the_final_one() {
    let address = origin(|stream| {
        let mut input = BufReader::new(stream.try_clone().unwrap());
        let mut output = stream;
        let interim = "HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n";
        let last = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ndone";
        while let Some((head, _)) = read_request(&mut input) {
            // If they arrive together they are most probably read together.
            if head.starts_with("GET /app/apart ") {
                output.write_all(interim.as_bytes()).unwrap();
                thread::sleep(Duration::from_millis(100));
                output.write_all(last.as_bytes()).unwrap();
            } else {
                output.write_all(format!("{interim}{last}").as_bytes()).unwrap();
            }
        }
    });
    let tree = Tree::standard();
    let Some((server, mut client)) = server_before(&tree, address) else { return };
    client.connect("a", &server);
    let answers = client.requests("a", json!([{"path": "/app/apart"}, {"path": "/app/together"}]));
    for (index, answer) in answers.iter().enumerate() {
        answer.assert(&format!("request {index}"), 200, b"done");
        assert_eq!(answer.interim(), [103, 102], "request {index}");
    }
}

/// An origin of HTTP/1.1 that returns the trailers of a request as its own; one request on a connection.
fn trailing() -> SocketAddr {
    origin(|mut stream| {
        let mut input = BufReader::new(stream.try_clone().unwrap());
        let (mut head, mut body) = (String::new(), String::new());
        while !head.ends_with("\r\n\r\n") {
            input.read_line(&mut head).unwrap();
        }
        let is_chunked = head.to_ascii_lowercase().contains("\r\ntransfer-encoding: chunked\r\n");
        while is_chunked && !body.ends_with("\r\n\r\n") {
            input.read_line(&mut body).unwrap();
        }
        let sent = body.split_once("\r\n0\r\n").map_or("", |(_, trailers)| trailers.trim_end());
        let fields = "Cache-Control: max-age=600\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n";
        let trailers = if sent.is_empty() { String::new() } else { format!("{sent}\r\n") };
        let body = format!("5\r\nhello\r\n0\r\nx-sum: 1\r\n{trailers}\r\n");
        write!(stream, "HTTP/1.1 200 OK\r\n{fields}\r\n{body}").unwrap();
    })
}

#[test]
fn trailers_pass_both_ways_through_a_proxy_and_the_cache() {
    let tree = Tree::standard();
    let address = trailing();
    let route = |path: &str, cache: &str| {
        format!("[[site.route]]\npath = \"{path}\"\n{cache}proxy = {{ to = \"http://{address}\" }}\n")
    };
    let routes = format!("{}{}", route("/plain/", ""), route("/cached/", "cache = {}\n"));
    let site = format!("development_certificate = true\n{routes}");
    let Some((server, mut client)) = configured(&tree, "", &site) else { return };
    client.connect("a", &server);
    let takes = json!([["te", "trailers"]]);
    // An answer that is fetched for a client that does not accept trailers is stored without them.
    for target in ["/plain/a", "/plain/b", "/cached/a", "/cached/a", "/cached/a"] {
        let answer = client.requests("a", json!([{ "path": target, "headers": takes }])).remove(0);
        answer.assert(target, 200, b"hello");
        assert_eq!(answer.trailer("x-sum"), Some("1"), "{target}");
    }
    for target in ["/plain/a", "/cached/a"] {
        let answer = client.get("a", target);
        answer.assert(target, 200, b"hello");
        assert_eq!(answer.trailer("x-sum"), None, "{target} without te");
    }
    for path in ["/plain/c", "/cached/c"] {
        let sent = json!([["x-sent", "2"], ["authorization", "nothing that may come late"]]);
        let request = json!({
            "method": "POST", "path": path, "body": "question", "headers": takes, "trailers": sent
        });
        let answer = client.requests("a", json!([request])).remove(0);
        answer.assert(path, 200, b"hello");
        assert_eq!((answer.trailer("x-sent"), answer.trailer("authorization")), (Some("2"), None), "{path}");
    }
}

#[test]
fn early_data_is_marked_for_programs() {
    let heads: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = heads.clone();
    let address = origin(move |stream| {
        let mut input = BufReader::new(stream.try_clone().unwrap());
        let mut output = stream;
        while let Some((head, _)) = read_request(&mut input) {
            seen.lock().unwrap().push(head.to_ascii_lowercase());
            output.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").unwrap();
        }
    });
    let tree = Tree::standard();
    let Some((server, mut client)) = server_before(&tree, address) else { return };
    client.connect_with("first", &server, json!({"ticket": true}));
    client.get("first", "/app/").assert("not early", 200, b"ok");
    let first = heads.lock().unwrap().remove(0);
    assert!(first.contains("\r\nx-forwarded-proto: https\r\n") && !first.contains("early-data"), "{first}");
    // The handshake may finish before the request is read; then the request is not early.
    let marked = (0..20).any(|round| {
        let name = format!("again {round}");
        let early = json!({"resume": true, "ticket": true, "early": [{"path": "/app/"}]});
        let result = client.connect_with(&name, &server, early);
        Answer::all(&result)[0].assert("early", 200, b"ok");
        heads.lock().unwrap().pop().unwrap().contains("\r\nearly-data: 1\r\n")
    });
    assert!(marked, "no early request was marked");
}

#[test]
fn an_answer_that_breaks_off_does_not_look_whole() {
    let address = origin(|stream| {
        let mut input = BufReader::new(stream.try_clone().unwrap());
        let mut output = stream;
        read_request(&mut input);
        output.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n").unwrap();
    });
    let tree = Tree::standard();
    let Some((server, mut client)) = server_before(&tree, address) else { return };
    client.connect("a", &server);
    let answer = client.get("a", "/app/");
    // H3_INTERNAL_ERROR.
    assert_eq!((answer.status(), answer.reset()), (200, Some(0x102)));
    assert_eq!(client.get("a", "/alphabet.txt").status(), 200);
}

/// An origin that reports when a request has arrived, answers on command, and reports when its client has
/// disconnected.
fn waiting_origin() -> (SocketAddr, Receiver<&'static str>, Sender<()>) {
    let (say, said) = channel();
    let (go, wait) = channel();
    let wait = Mutex::new(wait);
    let address = origin(move |stream| {
        let mut input = BufReader::new(stream.try_clone().unwrap());
        let mut output = stream;
        read_request(&mut input);
        say.send("asked").unwrap();
        let wait = wait.lock().unwrap();
        input.get_ref().set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        loop {
            if wait.try_recv().is_ok() {
                output.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlate").unwrap();
                return;
            }
            if matches!(input.read(&mut [0; 10]), Ok(0)) {
                let _ = say.send("gone");
                return;
            }
        }
    });
    (address, said, go)
}

const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn a_program_whose_client_leaves_is_told() {
    let (address, said, _go) = waiting_origin();
    let tree = Tree::standard();
    let Some((server, mut client)) = server_before(&tree, address) else { return };
    client.connect("a", &server);
    let asked = json!({"do": "requests", "name": "a", "later": true, "requests": [{"path": "/app/"}]});
    let stream = client.run(asked)["streams"][0].clone();
    assert_eq!(said.recv_timeout(PATIENCE), Ok("asked"));
    client.run(json!({"do": "cancel", "name": "a", "stream": stream}));
    assert_eq!(said.recv_timeout(PATIENCE), Ok("gone"));
    assert_eq!(client.get("a", "/alphabet.txt").status(), 200);
}

#[test]
fn a_stop_waits_for_answers_under_way() {
    let (address, said, go) = waiting_origin();
    let tree = Tree::standard();
    let Some((mut server, mut client)) = server_before(&tree, address) else { return };
    client.connect("a", &server);
    let asked = json!({"do": "requests", "name": "a", "later": true, "requests": [{"path": "/app/"}]});
    let streams = client.run(asked)["streams"].clone();
    assert_eq!(said.recv_timeout(PATIENCE), Ok("asked"));
    server.signal(Signal::TERM);
    client.run(json!({"do": "wait", "name": "a", "for": "goaway"}));
    go.send(()).unwrap();
    let result = client.run(json!({"do": "answers", "name": "a", "streams": streams}));
    Answer::all(&result)[0].assert("after the stop had begun", 200, b"late");
    assert_eq!(client.wait_closed("a"), 0x100);
    assert_eq!(server.wait().code(), Some(0));
}
