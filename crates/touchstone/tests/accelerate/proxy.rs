//! Requests that an origin answers: what is sent to the origin, what the client receives, and faults of
//! either side.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::support::{
    AnswerTo, Nginx, Origin, Server, Tree, bytes_of, curl, free_port, read_head, wait_until,
};

fn server(tree: &Tree, sections: &str, routes: &str) -> Server {
    Server::configured(tree.around(), &format!("{}{routes}", tree.configuration(sections)))
}

#[test]
fn a_request_goes_there_and_its_response_comes_back() {
    let seen = Arc::new(Mutex::new(String::new()));
    let heads = seen.clone();
    let origin = Origin::start(move |stream| {
        while let Some(head) = read_head(stream) {
            *heads.lock().unwrap() = head;
            stream
                .write_all(
                    b"HTTP/1.1 203 Whatever\r\nServer: origin\r\nX-Of-Origin: 1\r\nConnection: X-Hop\r\n\
                      X-Hop: 2\r\n\
                      Keep-Alive: timeout=5\r\nSet-Cookie: a=b\r\nSet-Cookie: c=d\r\n\
                      Content-Length: 5\r\n\r\nhello",
                )
                .unwrap();
        }
    });
    let tree = Tree::standard();
    let server = server(&tree, "", &origin.keys(""));
    let mut client = server.connect();
    let answer = client.ask(
        "GET /app/a%20b/../c%7e?d=%41 HTTP/1.1\r\nHost: www.example.org:81\r\nX-Forwarded-For: 192.0.2.1\r\n\
         Forwarded: for=x\r\n\
         Connection: keep-alive, X-Private\r\nX-Private: 1\r\nTE: trailers\r\nAccept: */*\r\n\
         X-Real-Ip: 192.0.2.2\r\n\r\n",
    );
    assert_eq!((answer.status, &answer.body[..]), (203, &b"hello"[..]));
    assert_eq!(answer.field("x-of-origin"), Some("1"));
    assert_eq!(answer.values("set-cookie").collect::<Vec<_>>(), ["a=b", "c=d"]);
    for hop in ["x-hop", "keep-alive", "connection"] {
        assert_eq!(answer.field(hop), None, "{hop}");
    }
    let head = seen.lock().unwrap().clone();
    // The path is passed on in the form in which the server matched it.
    assert!(head.starts_with("GET /app/c~?d=%41 HTTP/1.1\r\nHost: www.example.org:81\r\n"), "{head}");
    for line in [
        "Accept: */*",
        "X-Forwarded-For: 127.0.0.1",
        "X-Real-IP: 127.0.0.1",
        "X-Forwarded-Proto: http",
        "X-Forwarded-Host: www.example.org:81",
        "Via: 1.1 touchstone",
        // The client accepts trailers, and so does the server on its own connection.
        "Connection: TE",
        "TE: trailers",
    ] {
        assert!(head.contains(&format!("\r\n{line}\r\n")), "{line}: {head}");
    }
    for name in ["192.0.2", "\r\nForwarded:", "X-Private", "Content-Length:"] {
        assert!(!head.contains(name), "{name}: {head}");
    }
    // Files of the site outside the route are served as before.
    server.assert_serves("/alphabet.txt", crate::support::ALPHABET.as_bytes());
    client.send("HEAD /app/ HTTP/1.1\r\nHost: a\r\n\r\n");
    let answer = client.try_answer(AnswerTo::Head).unwrap();
    assert_eq!((answer.status, answer.field("content-length")), (203, Some("5")));
}

#[test]
fn a_path_without_the_slash_of_a_route_is_sent_to_it() {
    let origin = Origin::answering(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    let tree = Tree::standard();
    tree.write("file", "a file\n");
    tree.write("directory/index.html", "a directory\n");
    let to = format!("proxy = {{ to = \"http://{}\" }}", origin.address);
    let route = |path: &str| format!("[[site.route]]\npath = {path:?}\n{to}\n");
    let routes = ["/app/", "/file/", "/directory/", "/caf\u{e9} \\/"].map(route).concat();
    let routes =
        format!("fallback = \"/index.html\"\n{routes}[[site.route]]\nheaders = {{ X-Of-Route = \"1\" }}\n");
    let server = server(&tree, "", &routes);
    let ask = |request: &str| {
        let answer =
            server.connect().ask(format!("{request} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"));
        assert_ne!(answer.body, b"ok", "{request}");
        (answer.status, answer.field("location").map(str::to_string))
    };
    for (request, location) in [
        ("GET /app", "/app/"),
        ("GET /app?", "/app/?"),
        ("GET /app?a=b&c=/%0d%0a//", "/app/?a=b&c=/%0d%0a//"),
        ("POST /app", "/app/"),
        ("OPTIONS /app", "/app/"),
        // The path never begins with two slashes: that would name another server.
        ("GET //app", "/app/"),
        ("GET ///x/..//app?//evil.example", "/app/?//evil.example"),
        ("GET http://a//app", "/app/"),
        ("GET /%61pp", "/app/"),
        ("GET /caf%C3%A9%20%5C", "/caf%C3%A9%20%5C/"),
    ] {
        assert_eq!(ask(request), (301, Some(location.to_string())), "{request}");
    }
    let answer = server.get("/app");
    assert_eq!(
        (answer.status, answer.field("x-of-route")),
        (301, Some("1")),
        "as other answers of that route"
    );
    // A file that exists is served as before, and so is a path outside such a route.
    assert_eq!(ask("GET /file"), (200, None));
    assert_eq!(ask("POST /file"), (405, None));
    assert_eq!(ask("GET /directory"), (301, Some("/directory/".to_string())));
    for (request, status) in [
        ("GET /ap", 200),
        ("GET /appl", 200),
        ("POST /appl", 405),
        ("GET //evil.example", 404),
        ("GET //evil.example/app", 200),
    ] {
        assert_eq!(ask(request), (status, None), "{request}");
    }
}

#[test]
fn connections_are_kept_and_a_stale_one_is_replaced() {
    let origin = Origin::answering(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    let tree = Tree::standard();
    let kept = server(&tree, "", &origin.keys(""));
    for _ in 0..5 {
        assert_eq!(kept.get("/app/").body, b"ok");
    }
    // One for each core.
    assert!(
        origin.connections() <= thread::available_parallelism().map_or(1, usize::from),
        "{}",
        origin.connections()
    );

    // This origin closes without notice after each response.
    let closing = Origin::start(|stream| {
        if read_head(stream).is_some() {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").unwrap();
        }
    });
    let stale = server(&tree, "", &closing.keys(""));
    for _ in 0..5 {
        assert_eq!(stale.get("/app/").status, 200);
    }
}

#[test]
fn bodies_of_unknown_length_pass_in_all_versions() {
    let origin = Origin::start(|stream| {
        while read_head(stream).is_some() {
            stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
            for piece in bytes_of(300_000).chunks(7_001) {
                write!(stream, "{:x}\r\n", piece.len()).unwrap();
                stream.write_all(piece).unwrap();
                stream.write_all(b"\r\n").unwrap();
            }
            stream.write_all(b"0\r\n\r\n").unwrap();
        }
    });
    let tree = Tree::standard();
    let server = server(&tree, "", &origin.keys(""));
    let mut client = server.connect();
    let answer = client.ask("GET /app/ HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(answer.field("transfer-encoding"), Some("chunked"));
    assert!(answer.body == bytes_of(300_000));
    // The connection continues.
    assert!(client.ask("GET /app/ HTTP/1.1\r\nHost: a\r\n\r\n").body == bytes_of(300_000));
    client.send("GET /app/ HTTP/1.0\r\nHost: a\r\n\r\n");
    let (bytes, end) = client.read_to_end();
    end.unwrap();
    assert!(bytes.ends_with(&bytes_of(300_000)) && !bytes.windows(7).any(|window| window == b"chunked"));
    let url = format!("http://{}/app/", server.address());
    let Some(output) = curl(["--http2-prior-knowledge", &url]) else { return };
    assert!(output.stdout == bytes_of(300_000));
}

/// Sends back what it gets, as it gets it.
fn echo(stream: &mut TcpStream) {
    while let Some(head) = read_head(stream) {
        let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
        let Some(length) = length.and_then(|length| length.parse::<usize>().ok()) else {
            // Chunks are sent back as they are.
            stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
            let mut tail = Vec::new();
            let mut buffer = [0; 16 * 1024];
            while !tail.ends_with(b"0\r\n\r\n") {
                let count = stream.read(&mut buffer).unwrap();
                stream.write_all(&buffer[..count]).unwrap();
                tail.extend_from_slice(&buffer[..count]);
                tail.drain(..tail.len().saturating_sub(8));
            }
            continue;
        };
        write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n").unwrap();
        let mut left = length;
        let mut buffer = [0; 16 * 1024];
        while left > 0 {
            let count = stream.read(&mut buffer[..left.min(16 * 1024)]).unwrap();
            stream.write_all(&buffer[..count]).unwrap();
            left -= count;
        }
    }
}

#[test]
fn bodies_stream_both_ways_at_once() {
    let origin = Origin::start(echo);
    let tree = Tree::standard();
    let server = server(&tree, "[limits]\nbody_bytes = \"100MiB\"\n", &origin.keys(""));
    // Far more than all buffers between hold together: it must stream.
    let body = bytes_of(20 << 20);
    let mut client = server.connect();
    let mut sending = client.stream().try_clone().unwrap();
    let sent = body.clone();
    let sender = thread::spawn(move || {
        write!(sending, "POST /app/ HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", sent.len()).unwrap();
        sending.write_all(&sent).unwrap();
    });
    assert!(client.answer().body == body);
    sender.join().unwrap();
    // In chunks, on the same connection, with Expect: 100-continue.
    client
        .send("POST /app/ HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n");
    assert_eq!(client.answer().status, 100);
    client.send("5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n");
    assert_eq!(client.answer().body, b"hello world");
    assert_eq!(client.ask("POST /app/ HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n").status, 200);
    let path = tree.write("upload.bin", bytes_of(5 << 20));
    let url = format!("http://{}/app/", server.address());
    let data = format!("@{}", path.display());
    let Some(output) = curl(["--http2-prior-knowledge", "--data-binary", &data, &url]) else { return };
    assert!(output.stdout == bytes_of(5 << 20));
}

#[test]
fn a_body_over_the_limit_is_refused() {
    // The origin reads the whole request, and sends no bytes before its end.
    let origin = Origin::start(|stream| {
        let _ = std::io::copy(stream, &mut std::io::sink());
    });
    let tree = Tree::standard();
    let server = server(&tree, "[limits]\nbody_bytes = \"64KiB\"\n", &origin.keys(""));
    let counted = "POST /app/ HTTP/1.1\r\nHost: a\r\nContent-Length: 65537\r\n\r\n";
    assert_eq!(server.connect().ask(counted).status, 413);
    let path = tree.write("upload.bin", bytes_of(200_000));
    let url = format!("http://{}/app/", server.address());
    let data = format!("@{}", path.display());
    let arguments = ["--http2-prior-knowledge", "--header", "content-length:", "--data-binary", &data];
    let Some(output) = curl(arguments.iter().chain(&["--output", "-", "--write-out", "%{http_code}", &url]))
    else {
        return;
    };
    // Some versions of curl treat the reset that ends their upload as an error (RFC 9113 section 8.1).
    let is_reset = output.status.code() == Some(92);
    assert!(output.stdout.ends_with(b"413") || is_reset, "{}", crate::support::shown(&output.stdout));
}

#[test]
fn an_origin_that_fails_is_502_or_504() {
    let tree = Tree::standard();
    let answers: [(&'static [u8], u16); 4] = [
        (b"", 502),
        (b"SSH-2.0-OpenSSH\r\n", 502),
        (b"HTTP/1.1 200 OK\r\nContent-Le", 502),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 502),
    ];
    for (bytes, status) in answers {
        let origin = Origin::start(move |stream| {
            if read_head(stream).is_some() {
                stream.write_all(bytes).unwrap();
            }
        });
        let server = server(&tree, "", &origin.keys(""));
        assert_eq!(server.get("/app/").status, status, "{}", crate::support::shown(bytes));
        server.wait_for_error_line("the origin's fault", |line| {
            line.contains("origin") && line.contains("http://")
        });
    }
    let silent = Origin::start(|stream| {
        read_head(stream);
        thread::sleep(Duration::from_secs(600));
    });
    let slow = server(&tree, "", &silent.keys(", response_timeout = \"200ms\""));
    assert_eq!(slow.get("/app/").status, 504);
    let nobody = format!(
        "[[site.route]]\npath = \"/app/\"\nproxy = {{ to = \"http://127.0.0.1:{}\" }}\n",
        free_port()
    );
    assert_eq!(server(&tree, "", &nobody).get("/app/").status, 502);
}

#[test]
fn a_response_that_breaks_off_is_not_made_whole() {
    let origin =
        Origin::answering_once(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n");
    let tree = Tree::standard();
    let server = server(&tree, "", &origin.keys(""));
    let mut client = server.connect();
    client.send("GET /app/ HTTP/1.1\r\nHost: a\r\n\r\n");
    let (bytes, _) = client.read_to_end();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    assert!(text.contains("hello") && !text.contains("\r\n0\r\n"), "{text}");
    // The server waits for the rest of a short body, and then answers with an error.
    let short = Origin::answering_once(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello");
    assert_eq!(self::server(&tree, "", &short.keys("")).get("/app/").status, 502);
    let long = Origin::answering_once(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\nhello");
    let server = self::server(&tree, "", &long.keys(""));
    let mut client = server.connect();
    client.send("GET /app/ HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(client.try_answer(AnswerTo::Other).is_err());
    server.wait_for_error_line("the response broke off", |line| line.contains("broke off"));
}

#[test]
fn another_protocol_passes_both_ways() {
    let origin = Origin::start(|stream| {
        let head = read_head(stream).unwrap();
        assert!(
            head.contains("\r\nUpgrade: websocket\r\n") && head.contains("\r\nConnection: upgrade\r\n"),
            "{head}"
        );
        let key = "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n";
        write!(
            stream,
            "HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n{key}\r\nfirst"
        )
        .unwrap();
        let mut buffer = [0; 1024];
        while let Ok(count @ 1..) = stream.read(&mut buffer) {
            stream.write_all(&buffer[..count]).unwrap();
        }
        stream.write_all(b"last").unwrap();
    });
    let tree = Tree::standard();
    let server = server(&tree, "", &origin.keys(""));
    let mut client = server.connect();
    client.send(
        "GET /app/ HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
    );
    let mut stream = client.stream().try_clone().unwrap();
    let mut received = String::new();
    let mut buffer = [0; 1024];
    while !received.ends_with("first") {
        let count = stream.read(&mut buffer).unwrap();
        assert!(count > 0, "{received}");
        received.push_str(&String::from_utf8_lossy(&buffer[..count]));
    }
    assert!(received.starts_with("HTTP/1.1 101 "), "{received}");
    for name in ["Upgrade: websocket", "Sec-WebSocket-Accept: s3p", "Connection: upgrade"] {
        assert!(received.contains(name), "{name}: {received}");
    }
    for message in [&b"\x81\x05hello"[..], b"again", &bytes_of(1000)] {
        client.send(message);
        let mut back = vec![0; message.len()];
        stream.read_exact(&mut back).unwrap();
        assert_eq!(back, message);
    }
    client.send_end();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    assert_eq!(rest, b"last");
}

#[test]
fn what_a_client_leaves_behind_is_ended() {
    let (asked, ended) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (read, counter) = (asked.clone(), ended.clone());
    let origin = Origin::start(move |stream| {
        let head = read_head(stream).unwrap();
        read.fetch_add(1, Ordering::SeqCst);
        if head.starts_with("GET /app/events") {
            stream
                .write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n")
                .unwrap();
        }
        // Until the server closes.
        assert_eq!(stream.read(&mut [0; 1]).unwrap_or(0), 0);
        counter.fetch_add(1, Ordering::SeqCst);
    });
    let tree = Tree::standard();
    let server = server(&tree, "", &origin.keys(""));
    let mut before_answer = server.connect();
    before_answer.send("GET /app/wait HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut within_answer = server.connect();
    within_answer.send("GET /app/events HTTP/1.1\r\nHost: a\r\n\r\n");
    within_answer.wait_for_bytes(100);
    wait_until("both requests are there", Duration::from_secs(60), || asked.load(Ordering::SeqCst) == 2);
    before_answer.vanish();
    within_answer.vanish();
    wait_until("both are ended", Duration::from_secs(60), || ended.load(Ordering::SeqCst) == 2);
}

#[test]
fn paths_can_lose_their_beginning() {
    let origin = Origin::start(|stream| {
        while let Some(head) = read_head(stream) {
            let line = head.lines().next().unwrap();
            let host = head.lines().find_map(|line| line.strip_prefix("Host: ")).unwrap();
            let body = format!("{line} {host}");
            write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()).unwrap();
        }
    });
    let tree = Tree::standard();
    let routes = format!(
        "[[site.route]]\npath = \"/app/\"\n\
         proxy = {{ to = \"http://{}/base/\", strip_prefix = \"/app\", host = \"origin\" }}\n",
        origin.address
    );
    let server = server(&tree, "", &routes);
    let expected = format!("GET /base/x?y HTTP/1.1 {}", origin.address);
    assert_eq!(String::from_utf8(server.get("/app/x?y").body).unwrap(), expected);
}

#[test]
fn a_real_origin_answers_as_it_does_itself() {
    let tree = Tree::empty();
    let sizes = [0, 1, 6_250, 65_536, 1 << 20];
    for size in sizes {
        tree.write(&format!("app/{size}.bin"), bytes_of(size));
    }
    let server_block = format!("root {};", tree.root().display());
    let Some(nginx) = Nginx::start(&tree, "", &server_block) else { return };
    let routes =
        format!("[[site.route]]\npath = \"/app/\"\nproxy = {{ to = \"http://{}\" }}\n", nginx.address);
    let server = server(&tree, "", &routes);
    for size in sizes {
        let target = format!("/app/{size}.bin");
        let of_origin = crate::support::Client::connect(nginx.address)
            .ask(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        let mut client = server.connect();
        for _ in 0..2 {
            let answer = client.ask(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
            assert!(answer.status == 200 && answer.body == of_origin.body, "{target}");
            for name in ["etag", "last-modified", "content-type", "content-length"] {
                assert_eq!(answer.field(name), of_origin.field(name), "{target} {name}");
            }
        }
        let etag = of_origin.field("etag").unwrap();
        let unchanged =
            client.ask(format!("GET {target} HTTP/1.1\r\nHost: a\r\nIf-None-Match: {etag}\r\n\r\n"));
        assert_eq!(unchanged.status, 304, "{target}");
    }
    let part = server.connect().ask("GET /app/6250.bin HTTP/1.1\r\nHost: a\r\nRange: bytes=10-19\r\n\r\n");
    assert_eq!((part.status, &part.body[..]), (206, &bytes_of(6_250)[10..20]));
}

#[test]
fn hints_go_ahead_of_an_answer_that_takes_its_time() {
    let origin = Origin::start(|stream| {
        while read_head(stream).is_some() {
            thread::sleep(Duration::from_millis(300));
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").unwrap();
        }
    });
    let tree = Tree::standard();
    let hints = "early_hints = [\"</a.css>; rel=preload; as=style\", \"</b.js>; rel=preload; as=script\"]\n";
    let server = server(&tree, "", &format!("{}{hints}", origin.keys("")));
    let url = format!("http://{}/app/", server.address());
    let Some(output) = curl(["--http2-prior-knowledge", "--include", &url]) else { return };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (interim, rest) = text.split_once("HTTP/2 200").unwrap_or_else(|| panic!("{text}"));
    assert!(interim.starts_with("HTTP/2 103"), "{text}");
    assert!(interim.contains("link: </a.css>; rel=preload; as=style\r\n"), "{text}");
    assert!(interim.contains("link: </b.js>; rel=preload; as=script\r\n"), "{text}");
    assert!(rest.ends_with("ok") && !rest.contains("link:"), "{text}");
    // HTTP/1.1 gets only the final answer.
    let answer = server.connect().ask("GET /app/ HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!((answer.status, &answer.body[..]), (200, &b"ok"[..]));
}

/// An origin that keeps the heads of requests and answers with this text.
fn recording(answer: &'static str) -> (Origin, Arc<Mutex<String>>) {
    let seen = Arc::new(Mutex::new(String::new()));
    let heads = seen.clone();
    let origin = Origin::start(move |stream| {
        while let Some(head) = read_head(stream) {
            *heads.lock().unwrap() = head;
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    (origin, seen)
}

#[test]
fn only_listed_protocols_are_switched_to() {
    let (origin, seen) = recording("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    let tree = Tree::standard();
    let server = server(&tree, "", &origin.keys(", forward = { upgrades = [\"websocket\", \"other\"] }"));
    for (asked, arrives) in [
        ("h2c", None),
        ("TLS/1.0", None),
        ("h2c, websocket", Some("websocket")),
        ("WebSocket", Some("WebSocket")),
        ("Other/2", Some("Other/2")),
    ] {
        let answer = server.connect().ask(format!(
            "GET /app/ HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: {asked}\r\n\
             HTTP2-Settings: AAMA\r\n\r\n"
        ));
        assert_eq!(answer.status, 200);
        let head = seen.lock().unwrap().to_ascii_lowercase();
        let upgrade = head.lines().find_map(|line| line.strip_prefix("upgrade: "));
        assert_eq!(upgrade, arrives.map(str::to_ascii_lowercase).as_deref(), "{asked}");
        assert!(!head.contains("http2-settings"), "{head}");
    }
}

#[test]
fn an_origin_switches_to_nothing_that_was_not_asked_for() {
    let (origin, _) =
        recording("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n");
    let tree = Tree::standard();
    let server = server(&tree, "", &origin.keys(""));
    let request = "GET /app/ HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
    assert_eq!(server.connect().ask(request).status, 502);
}

#[test]
fn a_silent_tunnel_is_ended() {
    let (origin, _) =
        recording("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n");
    let tree = Tree::standard();
    let server = server(&tree, "", &origin.keys(", tunnel_timeout = \"50ms\""));
    let mut client = server.connect();
    client.send("GET /app/ HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n");
    let (received, _) = client.read_to_end();
    assert!(received.starts_with(b"HTTP/1.1 101 "), "{}", received.escape_ascii());
}

#[test]
fn a_client_says_nothing_in_the_name_of_a_proxy() {
    let (origin, seen) = recording("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    let tree = Tree::standard();
    let server = server(&tree, "", &origin.keys(""));
    for name in [
        "X_Forwarded_For",
        "x-forwarded_for",
        "X_Real_Ip",
        "Proxy",
        "X-Original-URL",
        "X-Rewrite-URL",
        "X_Original_Url",
        "X-Forwarded-Port",
        "True-Client-IP",
        "Transfer_Encoding",
        "Content_Length",
    ] {
        let answer =
            server.connect().ask(format!("GET /app/ HTTP/1.1\r\nHost: a\r\n{name}: 66\r\nX-Ok: 1\r\n\r\n"));
        let head = seen.lock().unwrap().clone();
        assert_eq!(answer.status, 200);
        assert!(!head.contains(": 66\r\n") && head.contains("\r\nX-Ok: 1\r\n"), "{name}: {head}");
    }
}

#[test]
fn what_is_required_of_a_client_reaches_it() {
    let (origin, _) = recording(
        "HTTP/1.1 426 Upgrade Required\r\nConnection: upgrade\r\nUpgrade: TLS/1.2\r\n\
         Content-Length: 0\r\n\r\n",
    );
    let tree = Tree::standard();
    let server = server(&tree, "", &origin.keys(""));
    let answer = server.connect().ask("GET /app/ HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!((answer.status, answer.field("upgrade")), (426, Some("TLS/1.2")));
}

/// A client of HTTP/1 gets the origin's reason phrase; the cache keeps only the status.
#[test]
fn the_reason_phrase_of_an_origin_reaches_its_client() {
    const ANSWER: &str =
        "HTTP/1.1 404 Gone fishing\r\nCache-Control: max-age=60\r\nContent-Length: 2\r\n\r\nok";
    let (origin, _) = recording(ANSWER);
    let tree = Tree::standard();
    let server = server(&tree, "", &origin.keys(""));
    for _ in 0..2 {
        assert_eq!(server.get("/app/").reason, "Gone fishing");
    }
    let server = Server::accelerating(origin.address, &["--cores", "1"]);
    for _ in 0..2 {
        assert_eq!(server.get("/app/").reason, "Not Found");
    }
    // An answer that cannot be stored passes unchanged.
    let answer = server.connect().ask("DELETE /app/ HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(answer.reason, "Gone fishing");
}

#[test]
fn a_request_for_the_servers_on_the_way_is_counted() {
    let (origin, seen) = recording("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    let tree = Tree::standard();
    let server = server(&tree, "", &origin.keys(""));
    let status = |method: &str, left: &str| {
        let request = format!(
            "{method} /app/ HTTP/1.1\r\nHost: a\r\nMax-Forwards: {left}\r\nConnection: close\r\n\r\n"
        );
        server.connect().ask(request).status
    };
    assert_eq!((status("OPTIONS", "0"), status("TRACE", "0")), (204, 405));
    assert_eq!(origin.connections(), 0);
    for (method, left, arrives) in
        [("OPTIONS", "5", "4"), ("GET", "5", "5"), ("GET", "0", "0"), ("OPTIONS", "x", "x")]
    {
        assert_eq!(status(method, left), 200);
        let head = seen.lock().unwrap().clone();
        assert!(head.contains(&format!("\r\nMax-Forwards: {arrives}\r\n")), "{method} {left}: {head}");
    }
}

#[test]
fn an_accelerator_passes_long_bodies_on() {
    let origin = Origin::start(|stream| {
        let head = read_head(stream).unwrap();
        assert!(head.contains("\r\nContent-Length: 3000000\r\n"), "{head}");
        stream.read_exact(&mut vec![0; 3_000_000]).unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").unwrap();
    });
    let request =
        [&b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3000000\r\n\r\n"[..], &[b'x'; 3_000_000]].concat();
    let server = Server::accelerating(origin.address, &["--cores", "1"]);
    assert_eq!(server.connect().ask(&request).status, 200);
    let server = Server::accelerating(origin.address, &["--cores", "1", "--body-limit", "1MiB"]);
    assert_eq!(server.connect().ask(&request[..60]).status, 413);
}
