//! Origins with HTTP/2 without TLS, and gRPC through the server: both bodies at once, and trailers after
//! them.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, Request, Response};

use super::{LONG_BODY, proxy, text};
use crate::support::{Server, Tree, bytes_of, wait_until};

/// An origin of HTTP/2 with prior knowledge.
pub(super) struct Http2Origin {
    address: SocketAddr,
    pub(super) connections: Arc<AtomicUsize>,
    requests: Arc<AtomicUsize>,
}

impl Http2Origin {
    pub(super) fn start() -> Http2Origin {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let (connections, requests) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (connected, requested) = (connections.clone(), requests.clone());
        thread::spawn(move || {
            runtime().block_on(async move {
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                loop {
                    let (stream, _) = listener.accept().await.unwrap();
                    connected.fetch_add(1, Ordering::SeqCst);
                    let requested = requested.clone();
                    tokio::spawn(async move {
                        let Ok(mut connection) = h2::server::handshake(stream).await else { return };
                        while let Some(Ok((request, respond))) = connection.accept().await {
                            let number = requested.fetch_add(1, Ordering::SeqCst);
                            if request.uri().path() == "/app/last" {
                                connection.graceful_shutdown();
                            }
                            tokio::spawn(serve(request, respond, number));
                        }
                    });
                }
            });
        });
        Http2Origin { address, connections, requests }
    }

    pub(super) fn keys(&self) -> String {
        format!("to = \"http://{}\"\nversion = \"2\"\n", self.address)
    }
}

pub(super) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// Answers as the path requests.
async fn serve(request: Request<RecvStream>, mut respond: SendResponse<Bytes>, number: usize) {
    let (head, mut body) = request.into_parts();
    let said = |status: u16| {
        Response::builder().status(status).header("x-scheme", head.uri.scheme_str().unwrap_or("-"))
    };
    match head.uri.path() {
        // The first time.
        "/app/refused" if number == 0 => respond.send_reset(Reason::REFUSED_STREAM),
        "/app/reset" => respond.send_reset(Reason::INTERNAL_ERROR),
        "/app/breaks" => {
            let mut stream = respond.send_response(said(200).body(()).unwrap(), false).unwrap();
            send(&mut stream, Bytes::from_static(b"beginning")).await;
            tokio::time::sleep(Duration::from_millis(100)).await;
            stream.send_reset(Reason::INTERNAL_ERROR);
        }
        // gRPC's trailers-only form.
        "/app/unimplemented" => {
            let answer = said(200).header("content-type", "application/grpc").header("grpc-status", "12");
            respond.send_response(answer.body(()).unwrap(), true).unwrap();
        }
        "/app/grpc" => {
            let takes_trailers = head.headers.get("te").is_some_and(|value| value == "trailers");
            let answer = said(200).header("content-type", "application/grpc");
            let mut stream = respond.send_response(answer.body(()).unwrap(), false).unwrap();
            // Each piece is returned as soon as it arrives.
            while let Some(piece) = body.data().await {
                let piece = piece.unwrap();
                body.flow_control().release_capacity(piece.len()).unwrap();
                send(&mut stream, piece).await;
            }
            let mut trailers = HeaderMap::new();
            trailers.insert("grpc-status", if takes_trailers { "0" } else { "13" }.parse().unwrap());
            trailers.insert("grpc-message", "fine".parse().unwrap());
            stream.send_trailers(trailers).unwrap();
        }
        "/app/hinted" => {
            for link in ["</a.css>", "</b.js>"] {
                let hint = Response::builder().status(103).header("link", link);
                respond.send_informational(hint.body(()).unwrap()).unwrap();
            }
            respond.send_response(said(204).body(()).unwrap(), true).unwrap();
        }
        "/app/long" => {
            let mut stream = respond.send_response(said(200).body(()).unwrap(), false).unwrap();
            for piece in LONG_BODY.chunks(10_000) {
                send(&mut stream, Bytes::copy_from_slice(piece)).await;
            }
            stream.send_data(Bytes::new(), true).unwrap();
        }
        _ => {
            let mut all = Vec::new();
            while let Some(piece) = body.data().await {
                let piece = piece.unwrap();
                body.flow_control().release_capacity(piece.len()).unwrap();
                all.extend_from_slice(&piece);
            }
            let via = head.headers.get("via").map_or("-", |via| via.to_str().unwrap());
            let mut line = format!("{} {} {via} {}", head.method, head.uri, all.len());
            for (name, value) in body.trailers().await.unwrap().into_iter().flatten() {
                line += &format!(" {}={}", name.unwrap(), value.to_str().unwrap());
            }
            let answer = said(200).header("content-length", line.len());
            let mut stream = respond.send_response(answer.body(()).unwrap(), false).unwrap();
            send(&mut stream, line.into()).await;
            stream.send_data(Bytes::new(), true).unwrap();
        }
    }
}

/// Sends as fast as the windows allow; what the receiver does not take is dropped.
pub(super) async fn send(stream: &mut SendStream<Bytes>, mut bytes: Bytes) {
    while !bytes.is_empty() {
        stream.reserve_capacity(bytes.len());
        let Some(Ok(room)) = poll_fn(|context| stream.poll_capacity(context)).await else { return };
        if stream.send_data(bytes.split_to(room.min(bytes.len())), false).is_err() {
            return;
        }
    }
}

#[test]
fn interim_responses_pass_that_come_with_the_final_one() {
    let origin = Http2Origin::start();
    let tree = Tree::standard();
    let server = proxy(&tree, &origin.keys(), "");
    let mut client = server.connect();
    client.send("GET /app/hinted HTTP/1.1\r\nHost: a\r\n\r\n");
    let interim = [client.answer(), client.answer()];
    let seen = interim.each_ref().map(|answer| (answer.status, answer.field("link")));
    assert_eq!(seen, [(103, Some("</a.css>")), (103, Some("</b.js>"))]);
    assert_eq!(client.answer().status, 204);
}

#[test]
fn requests_share_a_connection() {
    let origin = Http2Origin::start();
    let tree = Tree::standard();
    let server = proxy(&tree, &origin.keys(), "");
    let said = text(&server, "/app/x?y=1");
    assert_eq!(said, "GET http://example.com/app/x?y=1 1.1 touchstone 0");
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
    assert!(
        origin.connections.load(Ordering::SeqCst) <= cores,
        "{}",
        origin.connections.load(Ordering::SeqCst)
    );
    let body = bytes_of(1 << 20);
    let mut client = server.connect();
    let mut sending = client.stream().try_clone().unwrap();
    let sent = body.clone();
    let sender = thread::spawn(move || {
        use std::io::Write;
        write!(sending, "POST /app/ HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", sent.len()).unwrap();
        sending.write_all(&sent).unwrap();
    });
    assert!(String::from_utf8(client.answer().body).unwrap().ends_with(" 1048576"));
    sender.join().unwrap();
}

#[test]
fn what_was_not_looked_at_is_asked_again() {
    let origin = Http2Origin::start();
    let tree = Tree::standard();
    let server = proxy(&tree, &origin.keys(), "");
    // On a new connection the server does not try the same origin again: an origin that refuses there refuses
    // again.
    assert_eq!(
        server.connect().ask("POST /app/refused HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n").status,
        502
    );
    // The origin announces that it takes no more requests on this connection; the client does not notice.
    for _ in 0..5 {
        assert_eq!(server.get("/app/last").status, 200);
        assert_eq!(
            server.connect().ask("POST /app/ HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n").status,
            200
        );
    }
    assert_eq!(server.get("/app/reset").status, 502);
    let mut client = server.connect();
    client.send("GET /app/breaks HTTP/1.1\r\nHost: a\r\n\r\n");
    let (bytes, _) = client.read_to_end();
    assert!(!bytes.ends_with(b"0\r\n\r\n"), "{}", crate::support::shown(&bytes));
    server.wait_for_error_line("the break", |line| line.contains("broke off"));
    assert!(origin.requests.load(Ordering::SeqCst) > 10);
}

#[test]
fn an_origin_that_speaks_no_http_2_is_502() {
    let origin = super::saying("one");
    let tree = Tree::standard();
    let server = proxy(
        &tree,
        &format!("to = \"http://{}\"\nversion = \"2\"\nresponse_timeout = \"2s\"\n", origin.address),
        "",
    );
    assert!([502, 504].contains(&server.get("/app/").status));
}

#[test]
fn grpc_passes_both_ways_at_once_with_its_trailers() {
    let origin = Http2Origin::start();
    let tree = Tree::standard();
    let server = proxy(&tree, &origin.keys(), "");
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
        // The answer arrives while the request continues.
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
fn only_calls_of_grpc_may_be_longer_than_a_body() {
    let origin = Http2Origin::start();
    let tree = Tree::standard();
    let http2 = proxy(&tree, &origin.keys(), "");
    let silent = super::Origin::start(|stream| drop(std::io::Read::read_to_end(stream, &mut Vec::new())));
    let http1 = proxy(&tree, &super::to(&[&silent], &[]), "");
    for (server, media_type, status) in [
        (&http2, "application/grpc+proto", 200),
        (&http2, "application/grpc-web", 413),
        (&http1, "application/grpc", 413),
    ] {
        let answered = runtime().block_on(async {
            let stream = tokio::net::TcpStream::connect(server.address()).await.unwrap();
            let (send_request, connection) = h2::client::handshake(stream).await.unwrap();
            tokio::spawn(connection);
            let mut send_request = send_request.ready().await.unwrap();
            let request = Request::post("http://a/app/").header("content-type", media_type).body(()).unwrap();
            let (response, mut upload) = send_request.send_request(request, false).unwrap();
            tokio::spawn(async move {
                for _ in 0..48 {
                    send(&mut upload, Bytes::from(vec![0; 65_536])).await;
                }
                // It may have ended.
                let _ = upload.send_data(Bytes::new(), true);
            });
            response.await.unwrap().status()
        });
        assert_eq!(answered, status, "{media_type}");
    }
}

#[test]
fn our_own_server_is_an_origin_of_http_2() {
    let behind = Tree::standard();
    behind.write("app/long.bin", bytes_of(3 << 20));
    let origin = Server::quick(&behind.root());
    let tree = Tree::standard();
    let server = proxy(&tree, &format!("to = \"http://{}\"\nversion = \"2\"\n", origin.address()), "");
    for _ in 0..3 {
        assert!(server.get("/app/long.bin").body == bytes_of(3 << 20));
        assert_eq!(server.get("/app/missing").status, 404);
    }
    // The client leaves, and its connection with it.
    drop(origin);
    wait_until("it is gone", Duration::from_secs(60), || server.get("/app/long.bin").status == 502);
}

#[test]
fn a_websocket_passes_from_http_2() {
    use std::io::{Read, Write};
    let origin = super::Origin::start(|stream| {
        let head = super::read_head(stream).unwrap();
        if !head.contains("\r\nUpgrade: websocket\r\n") || !head.contains("\r\nsec-websocket-key: ") {
            return super::say(stream, &head);
        }
        let answer = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\
                      Sec-WebSocket-Accept: x\r\nSec-WebSocket-Protocol: chat\r\n\r\nfirst";
        stream.write_all(answer.as_bytes()).unwrap();
        let mut buffer = [0; 1024];
        while let Ok(count @ 1..) = stream.read(&mut buffer) {
            stream.write_all(&buffer[..count]).unwrap();
        }
        stream.write_all(b"last").unwrap();
    });
    let tree = Tree::standard();
    let server = proxy(&tree, &super::to(&[&origin], &[]), "");
    runtime().block_on(async {
        let stream = tokio::net::TcpStream::connect(server.address()).await.unwrap();
        let (send_request, mut connection) = h2::client::handshake(stream).await.unwrap();
        let mut send_request = send_request;
        // The server's settings announce that extended CONNECT is allowed.
        poll_fn(|context| {
            use std::future::Future;
            let _ = std::pin::Pin::new(&mut connection).poll(context);
            match send_request.is_extended_connect_protocol_enabled() {
                true => std::task::Poll::Ready(()),
                false => std::task::Poll::Pending,
            }
        })
        .await;
        tokio::spawn(connection);
        let request = |path: &str| {
            Request::builder()
                .method("CONNECT")
                .uri(format!("http://a{path}"))
                .extension(h2::ext::Protocol::from_static("websocket"))
                .header("sec-websocket-version", "13")
                .body(())
                .unwrap()
        };
        let (response, mut upload) = send_request.send_request(request("/app/socket"), false).unwrap();
        let response = response.await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["sec-websocket-protocol"], "chat");
        for name in ["upgrade", "connection", "sec-websocket-accept", "content-length"] {
            assert!(!response.headers().contains_key(name), "{name}");
        }
        let mut body = response.into_body();
        for message in ["first", "hello", "again"] {
            if message != "first" {
                send(&mut upload, Bytes::from(message)).await;
            }
            let piece = body.data().await.unwrap().unwrap();
            body.flow_control().release_capacity(piece.len()).unwrap();
            assert_eq!(piece, message);
        }
        // One direction ends, then the other.
        upload.send_data(Bytes::new(), true).unwrap();
        let mut rest = Vec::new();
        while let Some(piece) = body.data().await {
            rest.extend_from_slice(&piece.unwrap());
        }
        assert_eq!(rest, b"last");
        // If the origin does not switch, the tunnel must not appear to be open.
        let (response, _upload) = send_request.send_request(request("/alphabet.txt"), false).unwrap();
        assert_eq!(response.await.unwrap().status(), 501);
        for path in ["/alphabet.txt", "/app/socket"] {
            let (response, _) = send_request.send_request(request(path), true).unwrap();
            assert_eq!(response.await.unwrap().status(), 400, "{path}");
        }
        let (response, _upload) = send_request.send_request(request("/missing"), false).unwrap();
        assert_eq!(response.await.unwrap().status(), 404);
    });
}

#[test]
fn trailers_of_requests_pass_from_either_version_to_either() {
    let origin = Http2Origin::start();
    let tree = Tree::standard();
    let server = proxy(&tree, &origin.keys(), "");
    let chunked = "POST /app/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\
                   X-Sum: 1\r\n\r\n";
    let said = String::from_utf8(server.connect().ask(chunked).body).unwrap();
    assert!(said.ends_with(" 5 x-sum=1"), "{said}");
    let http1 = crate::support::Origin::start(|stream| {
        super::read_head(stream).unwrap();
        let body = super::read_head(stream).unwrap();
        super::say(stream, &body);
    });
    let other = proxy(&tree, &super::to(&[&http1], &[]), "");
    for (server, end) in [(&server, " 5 x-sum=1"), (&other, "\r\n0\r\nx-sum: 1\r\n\r\n")] {
        let said = runtime().block_on(async {
            let stream = tokio::net::TcpStream::connect(server.address()).await.unwrap();
            let (send_request, connection) = h2::client::handshake(stream).await.unwrap();
            tokio::spawn(connection);
            let mut send_request = send_request.ready().await.unwrap();
            let request = Request::post("http://a/app/").body(()).unwrap();
            let (response, mut upload) = send_request.send_request(request, false).unwrap();
            send(&mut upload, Bytes::from_static(b"hello")).await;
            let mut trailers = HeaderMap::new();
            trailers.insert("x-sum", "1".parse().unwrap());
            trailers.insert("cookie", "a=b".parse().unwrap());
            upload.send_trailers(trailers).unwrap();
            let mut body = response.await.unwrap().into_body();
            let mut said = Vec::new();
            while let Some(piece) = body.data().await {
                said.extend_from_slice(&piece.unwrap());
            }
            String::from_utf8(said).unwrap()
        });
        assert!(said.ends_with(end), "{said}");
    }
}
