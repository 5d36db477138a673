//! Tests of the HTTP/2 engine against the client of the h2 crate, in memory: each must read what the other
//! writes, whatever the windows, the frame sizes, the tables, and however the bytes are split.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::collections::HashMap;
use std::future::poll_fn;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode, Version};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::task::JoinSet;
use touchstone_http::h2::hpack::{KnownName, encode_fields_block, encode_response_block};
use touchstone_http::h2::{
    Body, ConnectionError, ErrorCode, Event, Events, Limits, Responded, ServerConnection, StreamKey,
};

/// The bytes of a body, different at each position so that no part can be mistaken for another.
fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|place| (place % 251) as u8).collect()
}

/// The body that is being sent on a stream.
#[derive(Default)]
struct Sending {
    bytes: Vec<u8>,
    sent: usize,
    /// Bytes of the request to release when they were sent.
    is_echo: bool,
    /// Bytes of a stream that are still to be offered.
    unoffered: usize,
    trailers: Vec<(Vec<u8>, Vec<u8>)>,
}

/// A small server: everything that a server must do with the engine, over a pipe.
struct Server {
    connection: ServerConnection,
    sending: HashMap<StreamKey, Sending>,
    block: Vec<u8>,
    out: Vec<u8>,
    /// After how many requests to begin a graceful shutdown.
    shut_down_after: usize,
    requests: usize,
    read_size: usize,
}

impl Server {
    fn new(limits: Limits) -> Server {
        Server {
            connection: ServerConnection::new(limits),
            sending: HashMap::new(),
            block: Vec::new(),
            out: Vec::new(),
            shut_down_after: usize::MAX,
            requests: 0,
            read_size: 16 * 1024,
        }
    }

    /// Reads and writes at the same time: a client may not read before it was able to write.
    async fn run(mut self, pipe: DuplexStream) -> Result<usize, ConnectionError> {
        let (mut reader, mut writer) = tokio::io::split(pipe);
        let mut events = Events::new();
        let mut input = Vec::new();
        let mut buffer = vec![0; self.read_size];
        let mut written = 0;
        loop {
            self.fill();
            if self.out.is_empty() && self.connection.is_finished() {
                return Ok(self.requests);
            }
            let received = tokio::select! {
                sent = writer.write(&self.out[written..]), if !self.out.is_empty() => {
                    let Ok(sent) = sent else { return Ok(self.requests) };
                    written += sent;
                    if written == self.out.len() {
                        self.out.clear();
                        written = 0;
                    }
                    continue;
                }
                received = reader.read(&mut buffer) => received.unwrap_or(0),
            };
            if received == 0 {
                return Ok(self.requests);
            }
            input.extend_from_slice(&buffer[..received]);
            let consumed = match self.connection.receive(&input, &mut events) {
                Ok(consumed) => consumed,
                Err(error) => {
                    self.connection.take_output(&mut self.out);
                    let _ = writer.write_all(&self.out[written..]).await;
                    return Err(error);
                }
            };
            for event in events.iter() {
                self.on_event(event, &input);
            }
            input.drain(..consumed);
            assert!(input.len() <= 16_384 + 9);
        }
    }

    fn on_event(&mut self, event: Event<'_>, input: &[u8]) {
        match event {
            Event::Request(request) => self.answer(&request),
            Event::Data { stream, range, end_of_stream } => {
                if let Some(sending) = self.sending.get_mut(&stream) {
                    sending.bytes.extend_from_slice(&input[range.clone()]);
                    self.connection.offer(stream, range.len());
                    if end_of_stream {
                        self.finish(stream);
                    }
                } else {
                    self.connection.release(stream, range.len());
                }
            }
            Event::Trailers { stream, fields } => {
                let trailers = fields.map(|field| (field.name.to_vec(), field.value.to_vec())).collect();
                if let Some(sending) = self.sending.get_mut(&stream) {
                    sending.trailers = trailers;
                    self.finish(stream);
                }
            }
            Event::Reset { stream, .. } => {
                self.sending.remove(&stream);
            }
            Event::Refused { reason, .. } => panic!("{reason}"),
            Event::GoAway { .. } | Event::Pong { .. } => {}
        }
    }

    fn answer(&mut self, request: &touchstone_http::h2::Request<'_>) {
        self.requests += 1;
        if self.requests == self.shut_down_after {
            self.connection.shut_down();
        }
        let stream = request.stream();
        let path = String::from_utf8(request.path().to_vec()).unwrap();
        let (kind, length) = path[1..].split_once('/').unwrap_or((&path[1..], "0"));
        let length: usize = length.parse().unwrap();
        let status = if kind == "nothing" { 204 } else { 200 };
        // Every field is returned, so that the client can compare.
        let mut fields: Vec<(Vec<u8>, Vec<u8>)> = request
            .fields()
            .filter(|field| field.known != KnownName::ContentLength)
            .map(|field| ([b"echo-", field.name].concat(), field.value.to_vec()))
            .collect();
        fields.push((b"echo-authority".to_vec(), request.authority().to_vec()));
        fields.push((b"echo-method".to_vec(), request.method_text().to_vec()));
        let fields = fields.iter().map(|(name, value)| (name.as_slice(), value.as_slice()));
        let bytes = pattern(length);
        let body = match kind {
            "whole" => Body::Bytes(&bytes),
            "length" => Body::Length(length as u64),
            "stream" | "echo" => Body::Stream,
            _ => Body::Empty,
        };
        // Both ways of encoding, in turns.
        let responded = if self.requests.is_multiple_of(2) {
            self.connection.respond_with_fields(stream, status, fields, body, &mut self.block, &mut self.out)
        } else {
            self.block.clear();
            encode_response_block(status, fields, &mut self.block);
            self.connection.respond(stream, &self.block, body, &mut self.out)
        };
        if responded != Responded::Queued {
            return;
        }
        let mut sending = Sending { bytes, is_echo: kind == "echo", ..Sending::default() };
        if kind == "stream" {
            sending.unoffered = length;
        }
        self.sending.insert(stream, sending);
        if kind == "echo" && request.end_of_stream() || kind == "stream" && length == 0 {
            self.finish(stream);
        }
        self.offer_more(stream);
    }

    /// Offers a stream in pieces, as far as the client's windows go.
    fn offer_more(&mut self, stream: StreamKey) {
        let capacity = self.connection.send_capacity(stream);
        let Some(sending) = self.sending.get_mut(&stream) else { return };
        if sending.is_echo || sending.unoffered == 0 {
            return;
        }
        let piece = sending.unoffered.min(capacity).min(10_000);
        sending.unoffered -= piece;
        let is_last = sending.unoffered == 0;
        self.connection.offer(stream, piece);
        if is_last {
            sending.trailers = vec![(b"last".to_vec(), b"yes".to_vec())];
            self.finish(stream);
        }
    }

    fn finish(&mut self, stream: StreamKey) {
        let Some(sending) = self.sending.get(&stream) else { return };
        let mut block = Vec::new();
        encode_fields_block(
            sending.trailers.iter().map(|(name, value)| (name.as_slice(), value.as_slice())),
            &mut block,
        );
        let trailers = (!block.is_empty()).then_some(block.as_slice());
        if self.connection.finish(stream, trailers, &mut self.out) == Responded::Complete {
            self.sending.remove(&stream);
        }
    }

    fn fill(&mut self) {
        let streams: Vec<StreamKey> = self.sending.keys().copied().collect();
        streams.into_iter().for_each(|stream| self.offer_more(stream));
        while let Some(frame) = self.connection.next_data(usize::MAX, &mut self.out) {
            let sending = self.sending.get_mut(&frame.stream).unwrap();
            let end = sending.sent + frame.length;
            self.out.extend_from_slice(&sending.bytes[sending.sent..end]);
            sending.sent = end;
            if sending.is_echo {
                self.connection.release(frame.stream, frame.length);
            }
            if frame.is_last {
                self.sending.remove(&frame.stream);
            }
        }
    }
}

/// The settings of both sides in a test.
#[derive(Clone)]
struct Setup {
    limits: Limits,
    client: h2::client::Builder,
    /// How many bytes fit into the pipe.
    pipe_bytes: usize,
    read_size: usize,
}

impl Setup {
    fn new() -> Setup {
        Setup {
            limits: Limits::default(),
            client: h2::client::Builder::new(),
            pipe_bytes: 64 * 1024,
            read_size: 16 * 1024,
        }
    }

    /// Connects a client to a server; returns what the server reports at the end.
    fn run<F: Future<Output = ()>>(
        self,
        shut_down_after: usize,
        client: impl FnOnce(h2::client::SendRequest<Bytes>, h2::PingPong) -> F,
    ) -> Result<usize, ConnectionError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (client_end, server_end) = tokio::io::duplex(self.pipe_bytes);
            let mut server = Server::new(self.limits);
            server.shut_down_after = shut_down_after;
            server.read_size = self.read_size;
            let server = tokio::spawn(server.run(server_end));
            let (send_request, mut connection) = self.client.handshake(client_end).await.unwrap();
            let ping_pong = connection.ping_pong().unwrap();
            let driver = tokio::spawn(connection);
            client(send_request, ping_pong).await;
            let outcome = server.await.unwrap();
            let _ = driver.await;
            outcome
        })
    }
}

/// A request, its body, its trailers; and the response with its body and trailers.
async fn exchange(
    mut send_request: h2::client::SendRequest<Bytes>,
    request: Request<()>,
    body: Vec<u8>,
    trailers: Option<HeaderMap>,
) -> Result<(http::response::Parts, Vec<u8>, Option<HeaderMap>), h2::Error> {
    poll_fn(|context| send_request.poll_ready(context)).await?;
    let ends = body.is_empty() && trailers.is_none();
    let (response, mut send_stream) = send_request.send_request(request, ends)?;
    drop(send_request);
    let sender = async move {
        if ends {
            return Ok(());
        }
        let mut at = 0;
        while at < body.len() {
            send_stream.reserve_capacity(body.len() - at);
            let capacity = match poll_fn(|context| send_stream.poll_capacity(context)).await {
                Some(capacity) => capacity?,
                None => return Ok(()),
            };
            let end = at + capacity.min(body.len() - at);
            send_stream
                .send_data(Bytes::copy_from_slice(&body[at..end]), end == body.len() && trailers.is_none())?;
            at = end;
        }
        if let Some(trailers) = trailers {
            send_stream.send_trailers(trailers)?;
        }
        Ok(())
    };
    let receiver = async move {
        let (parts, mut stream) = response.await?.into_parts();
        let mut received = Vec::new();
        while let Some(chunk) = stream.data().await {
            let chunk = chunk?;
            received.extend_from_slice(&chunk);
            stream.flow_control().release_capacity(chunk.len())?;
        }
        Ok((parts, received, stream.trailers().await?))
    };
    let (sent, received): (Result<(), h2::Error>, Result<_, h2::Error>) = tokio::join!(sender, receiver);
    // A server that has answered may not need the rest of the request.
    if let Err(error) = sent
        && error.reason() != Some(h2::Reason::NO_ERROR)
        && received.is_ok()
    {
        return Err(error);
    }
    received
}

fn request(method: Method, path: &str) -> Request<()> {
    Request::builder()
        .method(method)
        .version(Version::HTTP_2)
        .uri(format!("https://example.org{path}"))
        .header("user-agent", "test")
        .header("cookie", "a=1")
        .header("cookie", "b=2")
        .body(())
        .unwrap()
}

/// One of every kind of exchange, checked.
async fn check(send_request: h2::client::SendRequest<Bytes>, number: usize) {
    let length = [0, 1, 5, 1000, 16_384, 16_385, 70_000, 200_000][number / 5 % 8];
    let (kind, method) = match number % 5 {
        0 => ("whole", Method::GET),
        1 => ("length", Method::GET),
        2 => ("stream", Method::GET),
        3 => ("echo", Method::POST),
        _ => ("nothing", Method::GET),
    };
    let mut request = request(method.clone(), &format!("/{kind}/{length}"));
    request.headers_mut().insert("x-number", number.to_string().parse().unwrap());
    if number.is_multiple_of(7) {
        // More than fits into a frame.
        request.headers_mut().insert("x-long", "long ".repeat(4000).trim_end().parse().unwrap());
    }
    let sent_fields = request.headers().clone();
    let (body, trailers) = if kind == "echo" {
        let mut trailers = HeaderMap::new();
        trailers.insert("checksum", number.to_string().parse().unwrap());
        (pattern(length), number.is_multiple_of(3).then_some(trailers))
    } else {
        (Vec::new(), None)
    };
    let (parts, received, received_trailers) =
        exchange(send_request, request, body, trailers.clone()).await.unwrap();
    let expected_status = if kind == "nothing" { StatusCode::NO_CONTENT } else { StatusCode::OK };
    assert_eq!(parts.status, expected_status);
    assert_eq!(parts.headers["echo-authority"], "example.org");
    assert_eq!(parts.headers["echo-method"], method.as_str());
    assert_eq!(parts.headers["echo-cookie"], "a=1; b=2");
    for name in ["user-agent", "x-number", "x-long"] {
        assert_eq!(parts.headers.get(format!("echo-{name}")), sent_fields.get(name), "{name}");
    }
    let expected_length = if kind == "nothing" { 0 } else { length };
    assert_eq!(received.len(), expected_length, "{kind}/{length}");
    assert!(received == pattern(expected_length), "{kind}/{length}");
    match kind {
        // A request that was sent without a body has ended; there are no trailers to return.
        "echo" => assert_eq!(received_trailers, trailers),
        "stream" if length > 0 => assert_eq!(received_trailers.unwrap()["last"], "yes"),
        _ => assert_eq!(received_trailers, None),
    }
}

/// Many exchanges at once, `number` of them.
async fn check_many(send_request: h2::client::SendRequest<Bytes>, number: usize) {
    let local = tokio::task::LocalSet::new();
    local
        .run_until(async move {
            let mut tasks = JoinSet::new();
            for number in 0..number {
                tasks.spawn_local(check(send_request.clone(), number));
            }
            drop(send_request);
            while let Some(done) = tasks.join_next().await {
                done.unwrap();
            }
        })
        .await;
}

#[test]
fn exchanges_at_once() {
    let served = Setup::new().run(usize::MAX, |send_request, _| check_many(send_request, 120));
    assert_eq!(served, Ok(120));
}

#[test]
fn exchanges_one_after_the_other() {
    let served = Setup::new().run(usize::MAX, |send_request, _| async move {
        for number in 0..60 {
            check(send_request.clone(), number).await;
        }
    });
    assert_eq!(served, Ok(60));
}

#[test]
fn windows_and_frames_of_every_size() {
    for (stream_window, connection_window, frame_bytes) in
        [(1, 65_535, 16_384), (100, 65_535, 20_000), (65_535, 65_535, 1 << 20), (1 << 20, 1 << 20, 16_384)]
    {
        let mut setup = Setup::new();
        setup
            .client
            .initial_window_size(stream_window)
            .initial_connection_window_size(connection_window)
            .max_frame_size(frame_bytes);
        setup.limits.stream_window_bytes = stream_window.max(100);
        setup.limits.connection_window_bytes = connection_window;
        // DATA frames of one byte count as control frames.
        setup.limits.control_frames = 100_000;
        // A window of one byte is a frame for each.
        let number = if stream_window == 1 { 20 } else { 60 };
        let served = setup.run(usize::MAX, |send_request, _| check_many(send_request, number));
        assert_eq!(served, Ok(number), "{stream_window}");
    }
}

#[test]
fn bytes_cut_anywhere() {
    for (pipe_bytes, read_size) in [(1, 1), (7, 3), (100, 1000), (20_000, 7)] {
        let setup = Setup { pipe_bytes, read_size, ..Setup::new() };
        let number = if pipe_bytes < 10 { 10 } else { 40 };
        let served = setup.run(usize::MAX, |send_request, _| check_many(send_request, number));
        assert_eq!(served, Ok(number), "{pipe_bytes}");
    }
}

#[test]
fn tables_of_every_size() {
    for (of_the_client, of_the_server, of_the_encoder) in
        [(0, 4096, 4096), (4096, 0, 4096), (100, 100, 4096), (65_536, 65_536, 65_536), (4096, 4096, 0)]
    {
        let mut setup = Setup::new();
        setup.client.header_table_size(of_the_client);
        setup.limits.decoder_table_bytes = of_the_server;
        setup.limits.encoder_table_bytes = of_the_encoder;
        let served = setup.run(usize::MAX, |send_request, _| check_many(send_request, 60));
        assert_eq!(served, Ok(60), "{of_the_client} {of_the_server} {of_the_encoder}");
    }
}

#[test]
fn few_streams_at_once() {
    let mut setup = Setup::new();
    setup.limits.concurrent_streams = 3;
    setup.client.initial_max_send_streams(3);
    let served = setup.run(usize::MAX, |send_request, _| check_many(send_request, 60));
    assert_eq!(served, Ok(60));
}

#[test]
fn pings_are_answered() {
    let served = Setup::new().run(usize::MAX, |send_request, mut ping_pong| async move {
        check(send_request.clone(), 0).await;
        ping_pong.ping(h2::Ping::opaque()).await.unwrap();
        drop(send_request);
    });
    assert_eq!(served, Ok(1));
}

/// Requests that were sent before the client received the shutdown are served; later ones are not started.
#[test]
fn a_graceful_shutdown_loses_nothing() {
    let served = Setup::new().run(5, |send_request, _| async move {
        let mut completed = 0;
        let mut tasks = Vec::new();
        for _ in 0..20 {
            tasks.push(tokio::spawn(exchange(
                send_request.clone(),
                request(Method::GET, "/length/50000"),
                vec![],
                None,
            )));
        }
        for task in tasks {
            let (_, received, _) = task.await.unwrap().unwrap();
            assert_eq!(received.len(), 50_000);
            completed += 1;
        }
        assert_eq!(completed, 20);
        let late = exchange(send_request, request(Method::GET, "/whole/1"), vec![], None).await;
        assert!(late.is_err());
    });
    assert_eq!(served, Ok(20));
}

/// A client that cancels requests again and again does not disturb its other requests.
#[test]
fn resets_in_the_middle() {
    let mut setup = Setup::new();
    setup.limits.resets = 1000;
    let served = setup.run(usize::MAX, |mut send_request, _| async move {
        for number in 0..50 {
            poll_fn(|context| send_request.poll_ready(context)).await.unwrap();
            let (response, mut stream) =
                send_request.send_request(request(Method::GET, "/length/1000000"), true).unwrap();
            if number % 2 == 0 {
                let mut body = response.await.unwrap().into_body();
                body.data().await.unwrap().unwrap();
            }
            stream.send_reset(h2::Reason::CANCEL);
            check(send_request.clone(), number).await;
        }
    });
    assert_eq!(served, Ok(100));
}

/// The answer precedes the end of the request: the client gets all of it, and is requested to stop.
#[test]
fn an_early_answer() {
    let served = Setup::new().run(usize::MAX, |send_request, _| async move {
        for _ in 0..5 {
            let post = request(Method::POST, "/whole/500");
            let (parts, received, _) =
                exchange(send_request.clone(), post, pattern(3_000_000), None).await.unwrap();
            assert_eq!((parts.status, received.len()), (StatusCode::OK, 500));
        }
    });
    assert_eq!(served, Ok(5));
}

#[test]
fn a_flood_of_resets_ends_the_connection() {
    let mut setup = Setup::new();
    setup.limits.resets = 10;
    let outcome = setup.run(usize::MAX, |mut send_request, _| async move {
        for _ in 0..100 {
            if poll_fn(|context| send_request.poll_ready(context)).await.is_err() {
                return;
            }
            let Ok((_, mut stream)) =
                send_request.send_request(request(Method::GET, "/length/1000000"), true)
            else {
                return;
            };
            tokio::task::yield_now().await;
            stream.send_reset(h2::Reason::CANCEL);
            tokio::task::yield_now().await;
        }
    });
    assert_eq!(outcome.map_err(|error| error.code), Err(ErrorCode::ENHANCE_YOUR_CALM));
}
