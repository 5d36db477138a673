//! A minimal HTTP/2 server around the engine, without TLS: a target for `h2spec`, `h2load`, `nghttp` and
//! `curl --http2-prior-knowledge`, and an example of how to drive the engine.
//!
//! ```text
//! cargo run --release -p touchstone-http --example h2_serve [PORT]
//! h2spec --host 127.0.0.1 --port PORT
//! h2load -n 100000 -c 1 -m 100 http://127.0.0.1:PORT/64
//! ```
//!
//! `GET /N` is answered with N bytes; the body of a POST is returned. Each connection has one thread, which
//! does not read while it writes: sufficient for tools, not for production.

#![allow(clippy::print_stdout, reason = "an example prints what it finds")]

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use touchstone_http::h2::hpack::encode_response_block;
use touchstone_http::h2::{
    Body, ErrorCode, Event, Events, Limits, Request, Responded, ServerConnection, StreamKey,
};
use touchstone_http::request::Method;

/// A prepared response.
struct Prepared {
    block: Vec<u8>,
    body: Vec<u8>,
}

fn prepare(status: u16, body: Vec<u8>) -> Prepared {
    let length = body.len().to_string();
    let fields: [(&[u8], &[u8]); 4] = [
        (b"server", b"touchstone"),
        (b"date", b"Fri, 20 Nov 2026 12:00:00 GMT"),
        (b"content-type", b"text/plain"),
        (b"content-length", length.as_bytes()),
    ];
    let mut block = Vec::new();
    encode_response_block(status, fields, &mut block);
    Prepared { block, body }
}

/// A body that was not sent at once.
enum Sending {
    Cached { prepared: Arc<Prepared>, sent: usize },
    Echo { bytes: Vec<u8>, sent: usize },
}

struct Server {
    connection: ServerConnection,
    cache: HashMap<Vec<u8>, Arc<Prepared>>,
    /// By stream index: the body that is being sent.
    sending: Vec<Option<Sending>>,
    out: Vec<u8>,
}

impl Server {
    fn run(&mut self, mut socket: TcpStream) -> std::io::Result<()> {
        let mut events = Events::new();
        let mut input = vec![0; 64 * 1024];
        let mut filled = 0;
        loop {
            self.fill();
            socket.write_all(&self.out)?;
            self.out.clear();
            if self.connection.has_data_to_send() {
                continue;
            }
            if self.connection.is_finished() {
                return Ok(());
            }
            let received = socket.read(&mut input[filled..])?;
            if received == 0 {
                return Ok(());
            }
            filled += received;
            let consumed = match self.connection.receive(&input[..filled], &mut events) {
                Ok(consumed) => consumed,
                Err(error) => {
                    println!("{error}");
                    self.connection.take_output(&mut self.out);
                    socket.write_all(&self.out)?;
                    return Ok(());
                }
            };
            for event in events.iter() {
                self.on_event(event, &input);
            }
            input.copy_within(consumed..filled, 0);
            filled -= consumed;
        }
    }

    fn on_event(&mut self, event: Event<'_>, input: &[u8]) {
        match event {
            Event::Request(request) => self.answer(&request),
            Event::Data { stream, range, end_of_stream } => {
                match self.sending.get_mut(stream.index()) {
                    Some(Some(Sending::Echo { bytes, .. })) => {
                        bytes.extend_from_slice(&input[range.clone()]);
                        self.connection.offer(stream, range.len());
                    }
                    _ => self.connection.release(stream, range.len()),
                }
                if end_of_stream {
                    self.finish(stream);
                }
            }
            Event::Trailers { stream, .. } => self.finish(stream),
            Event::Reset { stream, reason, .. } => {
                self.forget(stream);
                if let Some(reason) = reason {
                    println!("stream {}: {reason}", stream.id());
                }
            }
            Event::Refused { stream_id, reason, .. } => println!("stream {stream_id}: {reason}"),
            Event::GoAway { .. } | Event::Pong { .. } => {}
        }
    }

    fn answer(&mut self, request: &Request<'_>) {
        let stream = request.stream();
        if request.method() == Method::Post {
            let mut block = Vec::new();
            encode_response_block(200, [], &mut block);
            self.connection.respond(stream, &block, Body::Stream, &mut self.out);
            self.keep(stream, Sending::Echo { bytes: Vec::new(), sent: 0 });
            if request.end_of_stream() {
                self.finish(stream);
            }
            return;
        }
        let prepared = match self.cache.get(request.path()) {
            Some(prepared) => prepared.clone(),
            None => self.miss(request.path()),
        };
        let is_head = request.method() == Method::Head;
        let body = if is_head { Body::Empty } else { Body::Bytes(&prepared.body) };
        if self.connection.respond(stream, &prepared.block, body, &mut self.out) == Responded::Queued {
            self.keep(stream, Sending::Cached { prepared, sent: 0 });
        }
    }

    fn miss(&mut self, path: &[u8]) -> Arc<Prepared> {
        let length = std::str::from_utf8(path).ok().and_then(|path| path[1..].parse().ok());
        let body = vec![b'x'; length.unwrap_or(64).min(10_000_000)];
        let prepared = Arc::new(prepare(200, body));
        self.cache.insert(path.to_vec(), prepared.clone());
        prepared
    }

    fn keep(&mut self, stream: StreamKey, sending: Sending) {
        if self.sending.len() <= stream.index() {
            self.sending.resize_with(stream.index() + 1, || None);
        }
        self.sending[stream.index()] = Some(sending);
    }

    fn forget(&mut self, stream: StreamKey) {
        if let Some(sending) = self.sending.get_mut(stream.index()) {
            *sending = None;
        }
    }

    fn finish(&mut self, stream: StreamKey) {
        if self.connection.finish(stream, None, &mut self.out) == Responded::Complete {
            self.forget(stream);
        }
    }

    /// Fills the output with as much as the windows and the buffer allow.
    fn fill(&mut self) {
        while let Some(frame) = self.connection.next_data(usize::MAX, &mut self.out) {
            let (bytes, sent) = match self.sending.get_mut(frame.stream.index()) {
                Some(Some(Sending::Cached { prepared, sent })) => (&prepared.body, sent),
                Some(Some(Sending::Echo { bytes, sent })) => {
                    self.connection.release(frame.stream, frame.length);
                    (&*bytes, sent)
                }
                // This cannot occur: everything queued was kept. The frame has begun, so the connection must
                // end.
                _ => return self.connection.close(ErrorCode::INTERNAL_ERROR, "a body was lost"),
            };
            self.out.extend_from_slice(&bytes[*sent..*sent + frame.length]);
            *sent += frame.length;
            if frame.is_last {
                self.forget(frame.stream);
            }
        }
    }
}

fn main() -> std::io::Result<()> {
    let port = std::env::args().nth(1).and_then(|port| port.parse().ok()).unwrap_or(0);
    let listener = TcpListener::bind(("127.0.0.1", port))?;
    println!("listening on {}", listener.local_addr()?);
    for socket in listener.incoming() {
        let socket = socket?;
        socket.set_nodelay(true)?;
        std::thread::spawn(move || {
            let mut server = Server {
                connection: ServerConnection::new(Limits::default()),
                cache: HashMap::new(),
                sending: Vec::new(),
                out: Vec::new(),
            };
            if let Err(error) = server.run(socket) {
                println!("{error}");
            }
        });
    }
    Ok(())
}
