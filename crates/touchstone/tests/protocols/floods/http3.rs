//! Attacks on HTTP/3 and QUIC.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use quinn::crypto::rustls::QuicClientConfig;
use quinn::{ClientConfig, Connection, Endpoint, RecvStream, SendStream, TransportConfig, VarInt};
use rustls::Side;
use rustls::crypto::aws_lc_rs::cipher_suite;
use rustls::pki_types::ServerName;
use rustls::quic::{Keys, Version};
use touchstone_http::h3::ErrorCode;
use touchstone_http::h3::frame::{self, FrameType};
use touchstone_http::h3::qpack;
use touchstone_http::h3::varint;

use super::{Attack, Bytes, PATIENCE, tls};
use crate::support::Server;

pub(super) const ATTACKS: &[Attack] = &[
    Attack {
        protocol: "HTTP/3",
        name: "requests that are reset at once",
        limit: "`limits.http3_streams` at a time; each is cancelled when its reset arrives",
        make: |server| with_connection(server, |connection, _| resets(connection)),
    },
    Attack {
        protocol: "HTTP/3",
        name: "control frames without end",
        limit: "1000 a second beyond the answers: H3_EXCESSIVE_LOAD",
        make: |server| {
            with_connection(server, |connection, control| Box::pin(control_frames(connection, control)))
        },
    },
    Attack {
        protocol: "HTTP/3",
        name: "requests byte by byte",
        limit: "`limits.header_timeout`",
        make: |server| with_connection(server, |connection, _| Box::pin(slow_requests(connection))),
    },
    Attack {
        protocol: "HTTP/3",
        name: "bodies byte by byte",
        limit: "`limits.stall_timeout`, `limits.minimum_receive_rate`: 408",
        make: |server| with_connection(server, |connection, _| Box::pin(slow_bodies(connection))),
    },
    Attack {
        protocol: "HTTP/3",
        name: "windows that grow by a byte",
        limit: "`limits.stall_timeout`, `limits.minimum_send_rate`",
        make: tiny_windows,
    },
    Attack {
        protocol: "HTTP/3",
        name: "large answers that are not read",
        limit: "2 MiB a connection that wait; `limits.stall_timeout`, `limits.minimum_send_rate`",
        make: |server| with_connection(server, |connection, _| Box::pin(unread_answers(connection))),
    },
    Attack {
        protocol: "HTTP/3",
        name: "field sections that refer to a dynamic table",
        limit: "there is none: QPACK_DECOMPRESSION_FAILED",
        make: |server| with_connection(server, |connection, _| Box::pin(dynamic_references(connection))),
    },
    Attack {
        protocol: "HTTP/3",
        name: "QPACK instructions without end",
        limit: "a table of 0 bytes: QPACK_ENCODER_STREAM_ERROR",
        make: |server| with_connection(server, |connection, _| Box::pin(endless_instructions(connection))),
    },
    Attack {
        protocol: "HTTP/3",
        name: "a header list of a megabyte",
        limit: "`limits.header_bytes`: 431",
        make: |server| with_connection(server, |connection, _| Box::pin(large_section(connection))),
    },
    Attack {
        protocol: "QUIC",
        name: "handshakes that are broken off",
        limit: "`limits.http3_unvalidated_handshakes`: a Retry first",
        make: broken_handshakes,
    },
    Attack {
        protocol: "QUIC",
        name: "first packets from forged addresses (amplification)",
        limit: "three times the received bytes, until the address is validated",
        make: |server| greet(server, 20, |_| true).0,
    },
    Attack {
        protocol: "QUIC",
        name: "CRYPTO frames with gaps",
        limit: "16 KiB of them are kept: CRYPTO_BUFFER_EXCEEDED",
        make: crypto_gaps,
    },
    Attack {
        protocol: "QUIC",
        name: "invalid QUIC datagrams",
        limit: "dropped without an answer",
        make: garbage,
    },
];

type Made<'c> = std::pin::Pin<Box<dyn Future<Output = ()> + 'c>>;

fn endpoint_with(transport: TransportConfig) -> Endpoint {
    let mut endpoint = Endpoint::client("127.0.0.1:0".parse().expect("an address")).expect("a socket");
    let crypto = QuicClientConfig::try_from(tls::client(b"h3")).expect("TLS 1.3 is there");
    let mut config = ClientConfig::new(Arc::new(crypto));
    config.transport_config(Arc::new(transport));
    endpoint.set_default_client_config(config);
    endpoint
}

fn address(server: &Server) -> SocketAddr {
    server.addresses(2)[1]
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

fn with_connection(
    server: &Server,
    attack: impl for<'c> FnOnce(&'c Connection, &'c mut SendStream) -> Made<'c>,
) -> Bytes {
    with_transport(server, TransportConfig::default(), attack)
}

fn with_transport(
    server: &Server,
    transport: TransportConfig,
    attack: impl for<'c> FnOnce(&'c Connection, &'c mut SendStream) -> Made<'c>,
) -> Bytes {
    runtime().block_on(async {
        let endpoint = endpoint_with(transport);
        let connecting = endpoint.connect(address(server), "localhost").expect("it can be tried");
        let connection =
            tokio::time::timeout(PATIENCE, connecting).await.expect("in time").expect("connected");
        let mut control = connection.open_uni().await.expect("a control stream");
        control.write_all(&[0, 4, 0]).await.expect("settings are sent");
        attack(&connection, &mut control).await;
        let stats = connection.stats();
        connection.close(VarInt::from_u32(0x100), b"");
        Bytes { sent: stats.udp_tx.bytes, received: stats.udp_rx.bytes }
    })
}

fn request(more: &[(&[u8], &[u8])]) -> Vec<u8> {
    request_for(b"GET", b"/large.bin", more)
}

fn request_for(method: &[u8], path: &[u8], more: &[(&[u8], &[u8])]) -> Vec<u8> {
    let fields: [(&[u8], &[u8]); 4] =
        [(b":method", method), (b":scheme", b"https"), (b":authority", b"localhost"), (b":path", path)];
    let (mut section, mut out) = (Vec::new(), Vec::new());
    qpack::encode_fields(fields.into_iter().chain(more.iter().copied()), &mut section);
    frame::append(FrameType::HEADERS, &section, &mut out);
    out
}

fn resets(connection: &Connection) -> Made<'_> {
    Box::pin(async move {
        let bytes = request(&[]);
        for _ in 0..3000 {
            let opened = tokio::time::timeout(PATIENCE, connection.open_bi()).await;
            let Ok((mut send, mut receive)) = opened.expect("streams are given back") else { return };
            let _ = send.write_all(&bytes).await;
            let _ = send.reset(VarInt::from_u32(0x10c));
            let _ = receive.stop(VarInt::from_u32(0x10c));
        }
        // The connection still serves, or was ended: both bound the cost.
        let Ok((mut send, mut receive)) = connection.open_bi().await else { return };
        let _ = send.write_all(&request(&[])).await;
        let _ = send.finish();
        let _ = tokio::time::timeout(PATIENCE, receive.read_chunk(1000, true)).await.expect("an answer");
    })
}

async fn closed(connection: &Connection, code: ErrorCode) {
    let closed = tokio::time::timeout(PATIENCE, connection.closed()).await;
    match closed.expect("the server ends the connection") {
        quinn::ConnectionError::ApplicationClosed(close) => {
            assert_eq!(close.error_code.into_inner(), code.0, "{close}");
        }
        error => panic!("{error}"),
    }
}

async fn dynamic_references(connection: &Connection) {
    let (mut send, _receive) = connection.open_bi().await.expect("a stream");
    let mut out = Vec::new();
    // A section that waits for 100 insertions.
    frame::append(FrameType::HEADERS, &[101, 0, 0x80], &mut out);
    let _ = send.write_all(&out).await;
    closed(connection, ErrorCode::QPACK_DECOMPRESSION_FAILED).await;
}

async fn endless_instructions(connection: &Connection) {
    let mut encoder = connection.open_uni().await.expect("a stream");
    let mut out = Vec::new();
    varint::append(2, &mut out);
    // Insertions of a name and a value of 60 bytes each.
    for _ in 0..100 {
        out.extend_from_slice(&[0x40 | 30]);
        out.resize(out.len() + 30, b'n');
        out.push(60);
        out.resize(out.len() + 60, b'v');
    }
    for _ in 0..1000 {
        if encoder.write_all(&out).await.is_err() {
            break;
        }
    }
    closed(connection, ErrorCode::QPACK_ENCODER_STREAM_ERROR).await;
}

async fn large_section(connection: &Connection) {
    let value = vec![b'v'; 10_000];
    let many: Vec<(&[u8], &[u8])> = (0..100).map(|_| (&b"x-large"[..], &value[..])).collect();
    let (mut send, mut receive) = connection.open_bi().await.expect("a stream");
    let _ = send.write_all(&request(&many)).await;
    let _ = send.finish();
    let answer = tokio::time::timeout(PATIENCE, receive.read_to_end(1 << 20)).await.expect("an end");
    assert!(answer.is_err() || answer.is_ok_and(|answer| answer.len() < 10_000), "the file was sent");
}

/// Changes of priority, and frames without a meaning.
async fn control_frames(connection: &Connection, control: &mut SendStream) {
    let mut out = Vec::new();
    for stream in 0..1000 {
        let mut payload = Vec::new();
        varint::append(4 * stream, &mut payload);
        payload.extend_from_slice(b"u=1");
        frame::append(FrameType::PRIORITY_UPDATE_REQUEST, &payload, &mut out);
        frame::append(FrameType(0x21), b"", &mut out);
    }
    for _ in 0..100 {
        if control.write_all(&out).await.is_err() {
            break;
        }
    }
    closed(connection, ErrorCode::EXCESSIVE_LOAD).await;
}

/// The beginning of a request on many streams, and then a byte each, until the server has ended them.
async fn slow_requests(connection: &Connection) {
    let mut streams = Vec::new();
    for _ in 0..50 {
        let (mut send, receive) = connection.open_bi().await.expect("a stream");
        send.write_all(&[1, 100, 0, 0]).await.expect("the beginning is sent");
        streams.push((send, receive));
    }
    until_none_is_left(streams, async |(mut send, mut receive)| {
        let answer = tokio::time::timeout(Duration::from_micros(10), receive.read_chunk(100, true)).await;
        let stays = answer.is_err() && send.write_all(&[0xd1]).await.is_ok();
        stays.then_some((send, receive))
    })
    .await;
}

/// Runs each stream in turn again and again, until all have ended.
async fn until_none_is_left<S>(mut streams: Vec<S>, mut turn: impl AsyncFnMut(S) -> Option<S>) {
    let until = Instant::now() + PATIENCE;
    while !streams.is_empty() {
        assert!(Instant::now() < until, "{} streams are still there", streams.len());
        tokio::time::sleep(Duration::from_millis(30)).await;
        let mut left = Vec::new();
        for stream in streams {
            left.extend(turn(stream).await);
        }
        streams = left;
    }
}

/// Requests whose bodies are sent in frames of one byte, until the server has answered all of them.
async fn slow_bodies(connection: &Connection) {
    let mut streams = Vec::new();
    for _ in 0..20 {
        let (mut send, receive) = connection.open_bi().await.expect("a stream");
        send.write_all(&request_for(b"POST", b"/cgi/count", &[])).await.expect("the head is sent");
        streams.push((send, receive));
    }
    until_none_is_left(streams, async |(mut send, mut receive)| {
        let answer = tokio::time::timeout(Duration::from_micros(10), receive.read_chunk(100, true)).await;
        if answer.is_ok() {
            return None;
        }
        let _ = send.write_all(&[0, 1, b'x']).await;
        Some((send, receive))
    })
    .await;
}

/// So many requests for the large file.
async fn large_requests(connection: &Connection, count: usize) -> Vec<RecvStream> {
    let mut streams = Vec::new();
    for _ in 0..count {
        let (mut send, receive) = connection.open_bi().await.expect("a stream");
        let _ = send.write_all(&request(&[])).await;
        let _ = send.finish();
        streams.push(receive);
    }
    streams
}

/// Large answers of which the client takes a byte at a time.
fn tiny_windows(server: &Server) -> Bytes {
    let mut transport = TransportConfig::default();
    transport.stream_receive_window(VarInt::from_u32(1));
    with_transport(server, transport, |connection, _| {
        Box::pin(async move {
            let streams = large_requests(connection, 20).await;
            until_none_is_left(streams, async |mut receive| {
                let read = tokio::time::timeout(Duration::from_micros(10), receive.read_chunk(1, true)).await;
                match read {
                    Err(_) | Ok(Ok(Some(_))) => Some(receive),
                    Ok(Ok(None)) => panic!("all of the answer was taken"),
                    Ok(Err(_)) => None,
                }
            })
            .await;
        })
    })
}

async fn unread_answers(connection: &Connection) {
    let mut streams = large_requests(connection, 50).await;
    // None of them is read before the server has given one of them up.
    let until = Instant::now() + PATIENCE;
    'waiting: loop {
        assert!(Instant::now() < until, "no answer is given up");
        for receive in &mut streams {
            let reset = tokio::time::timeout(Duration::from_millis(1), receive.received_reset()).await;
            if matches!(reset, Ok(Ok(Some(_)) | Err(_))) {
                break 'waiting;
            }
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let (mut received, mut broken) = (0, 0);
    for mut receive in streams {
        let read = tokio::time::timeout(PATIENCE, receive.read_to_end(16 << 20)).await.expect("an end");
        match read {
            Ok(bytes) => received += bytes.len(),
            Err(_) => broken += 1,
        }
    }
    assert!(broken > 0, "all of it was sent, {received} bytes");
}

/// Greetings from many addresses: the server answers some, and requires the others to prove their address.
fn broken_handshakes(server: &Server) -> Bytes {
    // The packets of that kind have this type in their first byte (RFC 9000 section 17.2.5).
    let is_retry = |answer: &[u8]| answer.first().is_some_and(|first| first & 0xb0 == 0xb0);
    let (bytes, has_retry) = greet(server, 300, is_retry);
    assert!(has_retry, "each greeting was answered by a handshake");
    bytes
}

/// Clients that send their greetings, and never anything more. Also whether one of them has got a datagram of
/// this kind, which is waited for.
fn greet(server: &Server, clients: u64, is_wanted: impl Fn(&[u8]) -> bool) -> (Bytes, bool) {
    let (mut bytes, hello, mut sent) = (Bytes::default(), hello(), 0);
    let greet = |id| {
        let socket = udp();
        sent = 0;
        for (number, piece) in hello.chunks(1000).enumerate() {
            let packet = first_packet(id, number as u32, 1000 * number as u64, piece);
            socket.send_to(&packet, address(server)).expect("it is sent");
            sent += packet.len() as u64;
        }
        bytes.sent += sent;
        socket
    };
    let sockets: Vec<UdpSocket> = (0..clients).map(greet).collect();
    // The server repeats what it has sent, in longer and longer pauses: until there is one after the answer.
    let mut answers = vec![Vec::new(); sockets.len()];
    let (until, mut last) = (Instant::now() + PATIENCE, Instant::now());
    loop {
        for (socket, answer) in sockets.iter().zip(&mut answers) {
            socket.set_nonblocking(true).expect("it can be set");
            let more = received_by(socket);
            if !more.is_empty() {
                last = Instant::now();
            }
            answer.extend(more);
        }
        let is_there = answers.iter().flatten().any(|answer: &Vec<u8>| is_wanted(answer));
        if is_there && last.elapsed() > PAUSE || Instant::now() > until {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    for answer in &answers {
        let received = length_of(answer);
        assert!(received <= 3 * sent, "{received} bytes for {sent} of an address that may be forged");
        bytes.received += received;
    }
    assert!(bytes.received > 0, "no greeting is answered");
    (bytes, answers.iter().flatten().any(|answer| is_wanted(answer)))
}

/// A first packet, as a client with this connection id sends it: a CRYPTO frame, and padding.
fn first_packet(id: u64, number: u32, offset: u64, data: &[u8]) -> Vec<u8> {
    let suite = cipher_suite::TLS13_AES_128_GCM_SHA256.tls13().expect("it is one of TLS 1.3");
    let quic = suite.quic.expect("it is one for QUIC");
    let id = id.to_be_bytes();
    let keys = Keys::initial(Version::V1, suite, quic, &id, Side::Client);
    let mut payload = vec![0x06];
    varint::append(offset, &mut payload);
    varint::append(data.len() as u64, &mut payload);
    payload.extend_from_slice(data);
    // 1200 bytes with the header and the tag.
    payload.resize(1200 - HEADER_LENGTH - TAG_LENGTH, 0);
    let mut header = vec![0xc3, 0, 0, 0, 1, 8];
    header.extend_from_slice(&id);
    header.extend_from_slice(&[8, 1, 2, 3, 4, 5, 6, 7, 8, 0]);
    let length = 4 + payload.len() + TAG_LENGTH;
    header.extend_from_slice(&(0x4000 | length as u16).to_be_bytes());
    header.extend_from_slice(&number.to_be_bytes());
    let tag =
        keys.local.packet.encrypt_in_place(number.into(), &header, &mut payload).expect("it is encrypted");
    payload.extend_from_slice(tag.as_ref());
    let sample: Vec<u8> = payload[..16].to_vec();
    let (first, rest) = header.split_at_mut(1);
    let number_at = rest.len() - 4;
    let protection = &keys.local.header;
    protection.encrypt_in_place(&sample, &mut first[0], &mut rest[number_at..]).expect("it is masked");
    [header, payload].concat()
}

/// Of a first packet: flags, version, both connection ids with their lengths, no token, length and number.
const HEADER_LENGTH: usize = 1 + 4 + 9 + 9 + 1 + 2 + 4;

/// That of AES-128-GCM.
const TAG_LENGTH: usize = 16;

/// A time without datagrams, after which no more are waited for.
const PAUSE: Duration = Duration::from_millis(700);

fn udp() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    socket.set_read_timeout(Some(PAUSE)).expect("a timeout");
    socket
}

/// The datagrams that have arrived, and arrive until there is a pause.
fn received_by(socket: &UdpSocket) -> Vec<Vec<u8>> {
    let (mut received, mut buffer) = (Vec::new(), [0; 2048]);
    while let Ok(count) = socket.recv(&mut buffer) {
        received.push(buffer[..count].to_vec());
    }
    received
}

fn length_of(datagrams: &[Vec<u8>]) -> u64 {
    datagrams.iter().map(|datagram| datagram.len() as u64).sum()
}

/// The greeting of TLS as QUIC carries it.
fn hello() -> Vec<u8> {
    let name = ServerName::try_from("localhost").expect("a name");
    let config = Arc::new(tls::client(b"h3"));
    // An endpoint's parameters: its connection id, without which it is no client.
    let parameters = vec![0x0f, 8, 1, 2, 3, 4, 5, 6, 7, 8];
    let mut session =
        rustls::quic::ClientConnection::new(config, Version::V1, name, parameters).expect("one");
    let mut hello = Vec::new();
    session.write_hs(&mut hello);
    hello
}

fn crypto_gaps(server: &Server) -> Bytes {
    let (socket, mut bytes) = (udp(), Bytes::default());
    let pieces: Vec<u64> = (1..1000).collect();
    for (number, place) in pieces.into_iter().enumerate() {
        // The first byte never arrives, so no request can be read.
        let packet = first_packet(7, number as u32, place * 1100, &[1; 1000]);
        socket.send_to(&packet, address(server)).expect("it is sent");
        bytes.sent += packet.len() as u64;
    }
    bytes.received = length_of(&received_by(&socket));
    assert!(bytes.received <= 3 * bytes.sent);
    bytes
}

fn garbage(server: &Server) -> Bytes {
    let socket = udp();
    let mut datagram = [0; 1200];
    for number in 0..20_000_u32 {
        // A long header of version 1, with a connection id of its own and no valid content.
        datagram[0] = 0xc0;
        datagram[1..5].copy_from_slice(&1_u32.to_be_bytes());
        datagram[5] = 8;
        datagram[6..10].copy_from_slice(&number.to_be_bytes());
        let _ = socket.send_to(&datagram, address(server));
    }
    let received = length_of(&received_by(&socket));
    assert!(received < 20_000 * 1200 / 3, "{received} bytes came back");
    Bytes { sent: 20_000 * 1200, received }
}
