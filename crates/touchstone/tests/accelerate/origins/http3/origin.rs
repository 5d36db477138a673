//! A scripted origin of HTTP/3: QUIC by quinn, and bytes of our own on its streams, so that it can break the
//! protocol too. The path says what it does.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use quinn::crypto::rustls::QuicServerConfig;
use quinn::{
    Connection, Endpoint, EndpointConfig, RecvStream, SendStream, TokioRuntime, TransportConfig, VarInt,
};
use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use tokio::sync::{Mutex, Notify};
use touchstone_http::h2::hpack::FieldList;
use touchstone_http::h3::frame::{self, FrameType};
use touchstone_http::h3::request_stream::trailers;
use touchstone_http::h3::{ErrorCode, Received, RequestStream, SectionLimits, qpack, settings};

use super::hostile;
use crate::origins::LONG_BODY;

/// An origin of HTTP/3.
pub(super) struct Http3Origin {
    pub(super) address: SocketAddr,
    connections: Arc<AtomicUsize>,
    counts: Counts,
    /// Requests for `/app/held` are answered when it is notified.
    pub(super) gate: Arc<Notify>,
    /// Ends it.
    endpoint: Endpoint,
}

impl Drop for Http3Origin {
    fn drop(&mut self) {
        self.endpoint.close(VarInt::from_u32(0x100), b"");
    }
}

/// Requests that have begun, and those that have broken off.
#[derive(Clone, Default)]
struct Counts {
    requests: Arc<AtomicUsize>,
    broken: Arc<AtomicUsize>,
}

/// What a connection's requests share.
struct Shared {
    connection: Connection,
    control: Mutex<SendStream>,
    counts: Counts,
    gate: Arc<Notify>,
}

impl Http3Origin {
    pub(super) fn start() -> Http3Origin {
        Http3Origin::with_streams(100)
    }

    /// One whose connections allow this many requests at a time.
    pub(super) fn with_streams(most: u32) -> Http3Origin {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = socket.local_addr().unwrap();
        let (connections, counts) = (Arc::new(AtomicUsize::new(0)), Counts::default());
        let gate = Arc::new(Notify::new());
        let (connected, requested, opened) = (connections.clone(), counts.clone(), gate.clone());
        let (told, hears) = std::sync::mpsc::channel();
        thread::spawn(move || {
            super::runtime().block_on(async move {
                let config = server_config(most);
                let endpoint = EndpointConfig::default();
                let endpoint = Endpoint::new(endpoint, Some(config), socket, Arc::new(TokioRuntime)).unwrap();
                told.send(endpoint.clone()).unwrap();
                while let Some(incoming) = endpoint.accept().await {
                    connected.fetch_add(1, Ordering::SeqCst);
                    tokio::spawn(serve_connection(incoming, requested.clone(), opened.clone()));
                }
                endpoint.wait_idle().await;
            });
        });
        Http3Origin { address, connections, counts, gate, endpoint: hears.recv().unwrap() }
    }

    /// The keys of a route to it; any certificate is good. A handshake may take seconds while this origin
    /// sends megabytes.
    pub(super) fn keys(&self, more: &str) -> String {
        format!("to = \"https://{}\"\nversion = \"3\"\nconnect_timeout = \"50s\"\n{more}", self.address)
    }

    pub(super) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    pub(super) fn requests(&self) -> usize {
        self.counts.requests.load(Ordering::SeqCst)
    }

    pub(super) fn broken(&self) -> usize {
        self.counts.broken.load(Ordering::SeqCst)
    }
}

fn server_config(most_streams: u32) -> quinn::ServerConfig {
    let key = KeyPair::generate().unwrap();
    let certificate =
        CertificateParams::new(vec!["localhost".to_string()]).unwrap().self_signed(&key).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut tls = rustls::ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![certificate.der().clone()],
            PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
        )
        .unwrap();
    tls.alpn_protocols = vec![b"h3".to_vec()];
    let mut config = quinn::ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls).unwrap()));
    let mut transport = TransportConfig::default();
    transport.max_concurrent_bidi_streams(VarInt::from_u32(most_streams));
    config.transport_config(Arc::new(transport));
    config
}

async fn serve_connection(incoming: quinn::Incoming, counts: Counts, gate: Arc<Notify>) {
    let Ok(connection) = incoming.await else { return };
    let mut control = connection.open_uni().await.unwrap();
    let mut bytes = vec![0];
    settings::append(&[], &mut bytes);
    control.write_all(&bytes).await.unwrap();
    let control = Mutex::new(control);
    let shared = Arc::new(Shared { connection: connection.clone(), control, counts, gate });
    while let Ok((send, receive)) = connection.accept_bi().await {
        let shared = shared.clone();
        tokio::spawn(async move {
            if serve(&shared, send, Request::new(receive)).await.is_err() {
                shared.counts.broken.fetch_add(1, Ordering::SeqCst);
            }
        });
    }
}

/// A request that is being read.
struct Request {
    receive: RecvStream,
    stream: RequestStream,
    list: FieldList,
    chunk: Bytes,
    method: String,
    path: String,
    authority: String,
    scheme: String,
    fields: Vec<(String, String)>,
    trailers: Vec<(String, String)>,
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

impl Request {
    fn new(receive: RecvStream) -> Request {
        Request {
            receive,
            stream: RequestStream::new(SectionLimits { bytes: 100_000, fields: 200 }),
            list: FieldList::new(),
            chunk: Bytes::new(),
            method: String::new(),
            path: String::new(),
            authority: String::new(),
            scheme: String::new(),
            fields: Vec::new(),
            trailers: Vec::new(),
        }
    }

    fn field(&self, name: &str) -> &str {
        let found = self.fields.iter().find(|(other, _)| other == name);
        found.map_or("-", |(_, value)| value.as_str())
    }

    /// Reads the next piece of the body, and before it the head; an empty piece at the head, `None` at the
    /// end. An error: the stream was broken off.
    async fn next(&mut self) -> Result<Option<Bytes>, String> {
        loop {
            while !self.chunk.is_empty() {
                let (taken, received) =
                    self.stream.receive(&self.chunk, &mut self.list).map_err(|error| format!("{error:?}"))?;
                let piece = self.chunk.split_to(taken);
                match received {
                    Received::Nothing => {}
                    Received::Data(range) => return Ok(Some(piece.slice(range))),
                    Received::Head(head) => {
                        let view = head.view(&self.list);
                        (self.method, self.path) = (text(view.method_text()), text(view.path()));
                        (self.authority, self.scheme) = (text(view.authority()), text(view.scheme()));
                        self.fields =
                            view.fields().map(|field| (text(field.name), text(field.value))).collect();
                        return Ok(Some(Bytes::new()));
                    }
                    Received::Trailers => {
                        let fields = trailers(&self.list);
                        self.trailers = fields.map(|field| (text(field.name), text(field.value))).collect();
                    }
                }
            }
            match self.receive.read_chunk(64 * 1024, true).await.map_err(|error| error.to_string())? {
                Some(chunk) => self.chunk = chunk.bytes,
                None => {
                    self.stream.finish().map_err(|error| format!("{error:?}"))?;
                    return Ok(None);
                }
            }
        }
    }
}

/// A HEADERS frame of a response.
pub(super) fn head(status: u16, fields: &[(&str, &str)]) -> Vec<u8> {
    let mut section = Vec::new();
    let fields = fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
    qpack::encode_response(status, fields, &mut section);
    framed(FrameType::HEADERS, &section)
}

/// A HEADERS frame with fields alone.
pub(super) fn section(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut section = Vec::new();
    qpack::encode_fields(
        fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())),
        &mut section,
    );
    framed(FrameType::HEADERS, &section)
}

/// A frame.
pub(super) fn framed(kind: FrameType, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame::append(kind, payload, &mut bytes);
    bytes
}

fn data(payload: &[u8]) -> Vec<u8> {
    framed(FrameType::DATA, payload)
}

fn code(code: ErrorCode) -> VarInt {
    VarInt::from_u64(code.0).unwrap()
}

/// Answers as the path says.
async fn serve(shared: &Shared, mut send: SendStream, mut request: Request) -> Result<(), String> {
    request.next().await?;
    let number = shared.counts.requests.fetch_add(1, Ordering::SeqCst);
    let id = u64::from(send.id());
    let gone = |error: quinn::WriteError| error.to_string();
    let path = request.path.clone();
    if let Some(name) = path.strip_prefix("/app/hostile/") {
        let (bytes, on_control) = hostile::bytes(name);
        if on_control {
            shared.control.lock().await.write_all(&bytes).await.map_err(gone)?;
            return std::future::pending().await;
        }
        send.write_all(&bytes).await.map_err(gone)?;
        return send.finish().map_err(|error| error.to_string());
    }
    match path.as_str() {
        "/app/rejected" if number == 1 => {
            let _ = send.reset(code(ErrorCode::REQUEST_REJECTED));
        }
        "/app/reset" => {
            let _ = send.reset(code(ErrorCode::INTERNAL_ERROR));
        }
        "/app/closes" => shared.connection.close(code(ErrorCode::INTERNAL_ERROR), b"on purpose"),
        // It takes no more requests, from this one on, and says nothing else.
        "/app/left-out" if number == 1 => {
            let goaway = goaway(id);
            shared.control.lock().await.write_all(&goaway).await.map_err(gone)?;
            return std::future::pending().await;
        }
        "/app/no-control" => {
            let _ = shared.control.lock().await.finish();
            return std::future::pending().await;
        }
        "/app/push-stream" => {
            let mut push = shared.connection.open_uni().await.map_err(|error| error.to_string())?;
            push.write_all(&[1, 0]).await.map_err(gone)?;
            return std::future::pending().await;
        }
        "/app/silent" => return std::future::pending().await,
        "/app/stalls" => {
            send.write_all(&[head(200, &[]), data(b"beginning")].concat()).await.map_err(gone)?;
            return std::future::pending().await;
        }
        "/app/breaks" | "/app/breaks-connection" => {
            send.write_all(&[head(200, &[]), data(b"beginning")].concat()).await.map_err(gone)?;
            tokio::time::sleep(Duration::from_millis(100)).await;
            match path.as_str() {
                "/app/breaks" => {
                    let _ = send.reset(code(ErrorCode::INTERNAL_ERROR));
                }
                _ => shared.connection.close(code(ErrorCode::INTERNAL_ERROR), b"on purpose"),
            }
        }
        "/app/short" => {
            let bytes = [head(200, &[("content-length", "100000")]), data(&[b'x'; 1000])].concat();
            send.write_all(&bytes).await.map_err(gone)?;
            tokio::time::sleep(Duration::from_millis(100)).await;
            return send.finish().map_err(|error| error.to_string());
        }
        "/app/hinted" => {
            for link in ["</a.css>", "</b.js>"] {
                send.write_all(&head(103, &[("link", link)])).await.map_err(gone)?;
            }
            send.write_all(&head(204, &[])).await.map_err(gone)?;
            return send.finish().map_err(|error| error.to_string());
        }
        "/app/endless-hints" => {
            for _ in 0..100 {
                send.write_all(&head(103, &[("link", "</a.css>")])).await.map_err(gone)?;
            }
        }
        "/app/long" => {
            send.write_all(&head(200, &[])).await.map_err(gone)?;
            for piece in LONG_BODY.chunks(10_000) {
                send.write_all(&data(piece)).await.map_err(gone)?;
            }
            return send.finish().map_err(|error| error.to_string());
        }
        "/app/unimplemented" => {
            let fields = [("content-type", "application/grpc"), ("grpc-status", "12")];
            send.write_all(&head(200, &fields)).await.map_err(gone)?;
            return send.finish().map_err(|error| error.to_string());
        }
        "/app/grpc" => return grpc(send, request).await,
        // Answered before the body is read.
        "/app/early" => {
            let bytes = [head(403, &[("content-length", "5")]), data(b"early")].concat();
            send.write_all(&bytes).await.map_err(gone)?;
            let _ = request.receive.stop(code(ErrorCode::NO_ERROR));
            return send.finish().map_err(|error| error.to_string());
        }
        _ => return repeat(shared, send, request, id).await,
    }
    Ok(())
}

/// Returns each piece as soon as it comes, and trailers after the last.
async fn grpc(mut send: SendStream, mut request: Request) -> Result<(), String> {
    let gone = |error: quinn::WriteError| error.to_string();
    send.write_all(&head(200, &[("content-type", "application/grpc")])).await.map_err(gone)?;
    while let Some(piece) = request.next().await? {
        send.write_all(&data(&piece)).await.map_err(gone)?;
    }
    let status = if request.field("te") == "trailers" { "0" } else { "13" };
    let fields = [("grpc-status", status), ("grpc-message", "fine")];
    send.write_all(&section(&fields)).await.map_err(gone)?;
    send.finish().map_err(|error| error.to_string())
}

fn goaway(id: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame::append_goaway(id, &mut bytes);
    bytes
}

/// Says what was asked.
async fn repeat(shared: &Shared, mut send: SendStream, mut request: Request, id: u64) -> Result<(), String> {
    if request.path == "/app/last" {
        let goaway = goaway(id + 4);
        let _ = shared.control.lock().await.write_all(&goaway).await;
    }
    if request.path == "/app/held" {
        shared.gate.notified().await;
    }
    let mut count = 0;
    while let Some(piece) = request.next().await? {
        count += piece.len();
    }
    let mut line = format!(
        "{} {}://{}{} {} {count}",
        request.method,
        request.scheme,
        request.authority,
        request.path,
        request.field("via"),
    );
    for (name, value) in &request.trailers {
        line += &format!(" {name}={value}");
    }
    let length = line.len().to_string();
    let mut bytes = head(200, &[("content-length", &length), ("x-length", request.field("content-length"))]);
    if request.method != "HEAD" {
        bytes.extend(data(line.as_bytes()));
    }
    send.write_all(&bytes).await.map_err(|error| error.to_string())?;
    send.finish().map_err(|error| error.to_string())
}
