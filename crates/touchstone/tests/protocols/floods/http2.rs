//! Attacks on HTTP/2, in the clear by prior knowledge.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use touchstone_http::h2::ErrorCode;
use touchstone_http::h2::frame::{self, Frame, FrameHeader, FrameType, HEADER_BYTES, PREFACE, flags};
use touchstone_http::h2::hpack::encode_fields_block;
use touchstone_http::h2::settings::SettingId;

use super::{Attack, Bytes, PATIENCE, connect, read_until_the_end, wait_until_given_up};
use crate::support::Server;

/// Far more of anything than a connection may have.
const MANY: u32 = 100_000;

/// Of slow clients.
const CONNECTIONS: usize = 20;

pub(super) const ATTACKS: &[Attack] = &[
    Attack {
        protocol: "HTTP/2",
        name: "rapid resets (CVE-2023-44487)",
        limit: "200 resets a second beyond the answers: ENHANCE_YOUR_CALM",
        make: |server| {
            flood(server, |out, number| {
                put_request(1 + 2 * number, true, out);
                frame::append_reset_stream(1 + 2 * number, ErrorCode::CANCEL, out);
            })
        },
    },
    Attack {
        protocol: "HTTP/2",
        name: "resets that the server is made to send (CVE-2019-9514, MadeYouReset CVE-2025-8671)",
        limit: "the same count: ENHANCE_YOUR_CALM",
        make: |server| flood(server, put_made_reset),
    },
    Attack {
        protocol: "HTTP/2",
        name: "endless CONTINUATION frames (CVE-2024-27316)",
        limit: "16 frames per header block, and its bytes: ENHANCE_YOUR_CALM",
        make: |server| {
            flood(server, |out, number| {
                let kind = if number == 0 { FrameType::HEADERS } else { FrameType::CONTINUATION };
                frame::append_header(1000, kind, 0, 1, out);
                out.resize(out.len() + 1000, 0);
            })
        },
    },
    Attack {
        protocol: "HTTP/2",
        name: "SETTINGS frames (CVE-2019-9515)",
        limit: "1000 control frames a second beyond the answers: ENHANCE_YOUR_CALM",
        make: |server| {
            flood(server, |out, number| {
                frame::append_settings(&[(SettingId::INITIAL_WINDOW_SIZE, number % 1000)], out);
            })
        },
    },
    Attack {
        protocol: "HTTP/2",
        name: "SETTINGS frames of thousands of values (CVE-2020-11080)",
        limit: "32 values a frame: ENHANCE_YOUR_CALM",
        make: |server| {
            flood(server, |out, number| {
                if number == 0 {
                    (0..100).for_each(|stream| put_request_for("/large.bin", 1 + 2 * stream, true, out));
                }
                let values: Vec<_> =
                    (0..2700).map(|value| (SettingId::INITIAL_WINDOW_SIZE, value % 2)).collect();
                frame::append_settings(&values, out);
            })
        },
    },
    Attack {
        protocol: "HTTP/2",
        name: "fields without a name (CVE-2019-9516)",
        limit: "the request is malformed: a reset, and the count of resets",
        make: |server| {
            flood(server, |out, number| {
                let block = [&[0x82, 0x86, 0x84][..], &[0, 0, 0].repeat(100)].concat();
                frame::append_headers(1 + 2 * number, &block, true, 16_384, out);
            })
        },
    },
    Attack {
        protocol: "HTTP/2",
        name: "PING frames (CVE-2019-9512)",
        limit: "the same count: ENHANCE_YOUR_CALM",
        make: |server| flood(server, |out, _| frame::append_ping([1; 8], false, out)),
    },
    Attack {
        protocol: "HTTP/2",
        name: "PRIORITY frames (CVE-2019-9513)",
        limit: "the same count: ENHANCE_YOUR_CALM",
        make: |server| {
            flood(server, |out, number| {
                frame::append_header(5, FrameType::PRIORITY, 0, 1 + 2 * (number % 100), out);
                out.extend_from_slice(&[0, 0, 0, 0, 1]);
            })
        },
    },
    Attack {
        protocol: "HTTP/2",
        name: "empty frames (CVE-2019-9518)",
        limit: "100 empty frames a second: ENHANCE_YOUR_CALM",
        make: |server| {
            flood(server, |out, number| {
                if number == 0 {
                    put_request(1, false, out);
                }
                frame::append_data_header(1, 0, false, out);
            })
        },
    },
    Attack {
        protocol: "HTTP/2",
        name: "frames of an unknown type",
        limit: "the count of control frames: ENHANCE_YOUR_CALM",
        make: |server| flood(server, |out, _| frame::append_header(0, FrameType(0xfa), 0, 0, out)),
    },
    Attack {
        protocol: "HTTP/2",
        name: "streams that depend on each other (CVE-2015-8659)",
        limit: "dependencies are not kept (RFC 9113 section 5.3.2); the count of control frames",
        make: |server| {
            flood(server, |out, number| {
                let stream = 1 + 2 * number;
                frame::append_header(5, FrameType::PRIORITY, 0, stream, out);
                out.extend_from_slice(&(stream + 2).to_be_bytes());
                out.push(255);
            })
        },
    },
    Attack {
        protocol: "HTTP/2",
        name: "WINDOW_UPDATE frames",
        limit: "cost is proportional to the bytes; FLOW_CONTROL_ERROR beyond 2^31-1",
        make: |server| passed_over(server, |out, _| frame::append_window_update(0, 1, out)),
    },
    Attack {
        protocol: "HTTP/2",
        name: "DATA frames of padding alone",
        limit: "100 empty frames a second, or the window: ENHANCE_YOUR_CALM",
        make: |server| {
            flood(server, |out, number| {
                if number == 0 {
                    put_request(1, false, out);
                }
                frame::append_header(2, FrameType::DATA, flags::PADDED, 1, out);
                out.extend_from_slice(&[1, 0]);
            })
        },
    },
    Attack {
        protocol: "HTTP/2",
        name: "header blocks byte by byte",
        limit: "`limits.header_timeout`: the connection ends",
        make: |server| {
            let (bytes, answered) = slowly(server, &half_a_block(), &[0x82]);
            assert_eq!(answered, 0, "the block was complete before the limit");
            bytes
        },
    },
    Attack {
        protocol: "HTTP/2",
        name: "bodies byte by byte",
        limit: "`limits.stall_timeout`, `limits.minimum_receive_rate`: 408",
        make: |server| {
            let (bytes, answered) = slowly(server, &request_with_body(), &one_byte_of_data());
            assert_eq!(answered, CONNECTIONS, "some were not answered");
            bytes
        },
    },
    Attack {
        protocol: "HTTP/2",
        name: "header lists of 100 KiB",
        limit: "64 KiB a header list: 431",
        make: large_lists,
    },
    Attack {
        protocol: "HTTP/2",
        name: "more streams than are allowed",
        limit: "128 streams; those beyond are refused, and count as resets",
        make: |server| flood(server, |out, number| put_request(1 + 2 * number, false, out)),
    },
    Attack {
        protocol: "HTTP/2",
        name: "a header list that unpacks to megabytes (HPACK bomb, CVE-2016-1544)",
        limit: "64 KiB a header list: 431, and the rest of the block is passed over",
        make: hpack_bomb,
    },
    Attack {
        protocol: "HTTP/2",
        name: "windows that grow by a byte, slowly (CVE-2019-9517)",
        limit: "`limits.stall_timeout`, `limits.minimum_send_rate`",
        make: one_byte_windows,
    },
    Attack {
        protocol: "HTTP/2",
        name: "windows that grow by a byte, fast (data dribble, CVE-2019-9511)",
        limit: "frames that arrive together are answered together; 1000 frames a second for windows below \
            64 bytes",
        make: |server| {
            passed_over(server, |out, number| {
                if number == 0 {
                    frame::append_settings(&[(SettingId::INITIAL_WINDOW_SIZE, 0)], out);
                    (0..100).for_each(|stream| put_request_for("/large.bin", 1 + 2 * stream, true, out));
                }
                frame::append_window_update(1 + 2 * (number % 100), 1, out);
            })
        },
    },
    Attack {
        protocol: "HTTP/2",
        name: "a hundred large answers that are not read (CVE-2016-1546)",
        limit: "128 KiB of output a connection; `limits.stall_timeout`",
        make: unread_answers,
    },
];

fn put_request(stream: u32, ends: bool, out: &mut Vec<u8>) {
    put_request_for("/page.html", stream, ends, out);
}

fn put_request_for(path: &str, stream: u32, ends: bool, out: &mut Vec<u8>) {
    let fields: [(&[u8], &[u8]); 4] =
        [(b":method", b"GET"), (b":scheme", b"http"), (b":authority", b"a"), (b":path", path.as_bytes())];
    let mut block = Vec::new();
    encode_fields_block(fields, &mut block);
    frame::append_headers(stream, &block, ends, 16_384, out);
}

/// A request, and then what the server must reset it for: no window, too much of one, data after its end, or
/// a frame of a wrong length.
fn put_made_reset(out: &mut Vec<u8>, number: u32) {
    let stream = 1 + 2 * number;
    put_request(stream, number % 4 == 2, out);
    match number % 4 {
        0 => frame::append_window_update(stream, 0, out),
        1 => frame::append_window_update(stream, 0x7fff_ffff, out),
        2 => frame::append_data_header(stream, 0, true, out),
        _ => {
            frame::append_header(4, FrameType::PRIORITY, 0, stream, out);
            out.extend_from_slice(&[0; 4]);
        }
    }
}

fn hello(settings: &[(SettingId, u32)]) -> Vec<u8> {
    let mut out = PREFACE.to_vec();
    frame::append_settings(settings, &mut out);
    frame::append_settings_acknowledgement(&mut out);
    out
}

/// What is sent all the time beside reading, in one thread, so that its processor time is all of the costs.
struct Exchange {
    stream: TcpStream,
    received: Received,
    sent: u64,
}

impl Exchange {
    fn begin(server: &Server) -> Exchange {
        let stream = connect(server.address());
        stream.set_nonblocking(true).expect("it does not block");
        Exchange { stream, received: Received::default(), sent: 0 }
    }

    /// Sends all of it, and receives at the same time; false if the server has ended the connection.
    fn send(&mut self, mut out: &[u8]) -> bool {
        let until = Instant::now() + PATIENCE;
        while !out.is_empty() {
            assert!(Instant::now() < until, "the server neither reads nor ends the connection");
            match (&self.stream).write(out) {
                Ok(count) => {
                    self.sent += count as u64;
                    out = &out[count..];
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(_) => {
                    self.take();
                    return false;
                }
            }
            if !self.take() {
                return false;
            }
        }
        true
    }

    /// Receives the available bytes; false if the server has ended the connection.
    fn take(&mut self) -> bool {
        let mut buffer = [0; 16 * 1024];
        loop {
            match (&self.stream).read(&mut buffer) {
                Ok(0) => return false,
                Ok(count) => self.received.take(&buffer[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
                Err(_) => {
                    self.received.is_reset = true;
                    return false;
                }
            }
        }
    }

    /// Ends sending, and waits until the server ends the connection.
    fn end(mut self) -> (Bytes, Received) {
        let _ = self.stream.shutdown(Shutdown::Write);
        let until = Instant::now() + PATIENCE;
        while self.take() {
            assert!(Instant::now() < until, "the connection is not ended");
            std::thread::sleep(Duration::from_millis(1));
        }
        (Bytes { sent: self.sent, received: self.received.bytes }, self.received)
    }
}

/// Sends pieces until the server ends the connection, which it must do, with the reason.
fn flood(server: &Server, piece: impl Fn(&mut Vec<u8>, u32)) -> Bytes {
    let (mut exchange, mut out) = (Exchange::begin(server), hello(&[]));
    for number in 0..MANY {
        piece(&mut out, number);
        if out.len() > 8192 {
            if !exchange.send(&out) {
                break;
            }
            out.clear();
        }
    }
    // A server that has given up reads on for a while, so that its reason arrives.
    let (bytes, received) = exchange.end();
    let code = received.goaway;
    assert!(
        code == Some(ErrorCode::ENHANCE_YOUR_CALM) || received.is_reset,
        "the server did not give up: {code:?}"
    );
    bytes
}

/// Sends pieces which cost the server no more than to read them: it may take all of them.
fn passed_over(server: &Server, piece: impl Fn(&mut Vec<u8>, u32)) -> Bytes {
    let (mut exchange, mut out) = (Exchange::begin(server), hello(&[]));
    for number in 0..MANY {
        piece(&mut out, number);
        if out.len() > 8192 {
            if !exchange.send(&out) {
                break;
            }
            out.clear();
        }
    }
    exchange.end().0
}

/// Sends a beginning on some connections, and then the same piece on each all the time, until the server has
/// ended each of them or answered. Gives also how many it has answered.
fn slowly(server: &Server, beginning: &[u8], piece: &[u8]) -> (Bytes, usize) {
    let mut exchanges: Vec<Exchange> = (0..CONNECTIONS).map(|_| Exchange::begin(server)).collect();
    exchanges.iter_mut().for_each(|exchange| assert!(exchange.send(beginning), "the beginning is taken"));
    let (mut bytes, mut answered) = (Bytes::default(), 0);
    let until = Instant::now() + PATIENCE;
    while !exchanges.is_empty() {
        assert!(Instant::now() < until, "{} connections are still there", exchanges.len());
        std::thread::sleep(Duration::from_millis(30));
        exchanges.retain_mut(|exchange| {
            let goes_on = exchange.send(piece) && exchange.received.statuses == 0;
            if !goes_on {
                answered += usize::from(exchange.received.statuses > 0);
                bytes += Bytes { sent: exchange.sent, received: exchange.received.bytes };
            }
            goes_on
        });
    }
    (bytes, answered)
}

#[derive(Default)]
struct Received {
    bytes: u64,
    goaway: Option<ErrorCode>,
    /// A reset has removed the server's last bytes.
    is_reset: bool,
    statuses: usize,
    input: Vec<u8>,
}

impl Received {
    fn take(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        self.input.extend_from_slice(bytes);
        let mut rest = &self.input[..];
        while let Some((header, after)) = rest.split_first_chunk::<HEADER_BYTES>() {
            let header = FrameHeader::parse(header);
            let Some((payload, after)) = after.split_at_checked(header.length) else { break };
            match Frame::parse(header, payload) {
                Ok(Frame::GoAway { code, .. }) if code != ErrorCode::NO_ERROR => self.goaway = Some(code),
                Ok(Frame::Headers { .. } | Frame::ResetStream { .. }) => self.statuses += 1,
                _ => {}
            }
            rest = after;
        }
        self.input = rest.to_vec();
    }
}

/// A field of 4000 bytes is put into the table, and then referenced 16,000 times by one byte each.
fn hpack_bomb(server: &Server) -> Bytes {
    let (mut exchange, mut out) = (Exchange::begin(server), hello(&[]));
    let mut first = vec![0x82, 0x86, 0x84, 0x41, 1, b'a'];
    // A literal with a new name of one byte, to be added to the table: its value has 3900 bytes.
    first.extend_from_slice(&[0x40, 1, b'x', 0x7f]);
    let length = 3900_u32 - 127;
    first.extend_from_slice(&[(length & 0x7f) as u8 | 0x80, (length >> 7) as u8]);
    first.resize(first.len() + 3900, b'v');
    frame::append_headers(1, &first, true, 16_384, &mut out);
    for stream in 1..20 {
        let mut block = vec![0x82, 0x86, 0x84, 0x41, 1, b'a'];
        // Adding the authority has moved the field on in the table.
        block.resize(16_000, 0x80 | (62 + 1));
        frame::append_headers(1 + 2 * stream, &block, true, 16_384, &mut out);
    }
    exchange.send(&out);
    let (bytes, received) = exchange.end();
    assert!(received.statuses >= 1 || received.goaway.is_some() || received.is_reset);
    bytes
}

/// Header blocks of 100 KiB of fields that are sent as they are.
fn large_lists(server: &Server) -> Bytes {
    let (mut exchange, value) = (Exchange::begin(server), vec![b'v'; 1000]);
    let mut is_open = exchange.send(&hello(&[]));
    for number in 0..100 {
        let mut fields: Vec<(&[u8], &[u8])> = vec![
            (b":method", b"GET"),
            (b":scheme", b"http"),
            (b":authority", b"a"),
            (b":path", b"/page.html"),
        ];
        fields.resize(104, (b"x-large", &value));
        let (mut block, mut out) = (Vec::new(), Vec::new());
        encode_fields_block(fields, &mut block);
        frame::append_headers(1 + 2 * number, &block, true, 16_384, &mut out);
        is_open = is_open && exchange.send(&out);
    }
    let (bytes, received) = exchange.end();
    assert!(received.bytes < 100 * 6_250, "the page was sent");
    bytes
}

fn one_byte_windows(server: &Server) -> Bytes {
    let mut exchange = Exchange::begin(server);
    let mut out = hello(&[(SettingId::INITIAL_WINDOW_SIZE, 0)]);
    for number in 0..100 {
        put_request_for("/large.bin", 1 + 2 * number, true, &mut out);
    }
    let mut is_open = exchange.send(&out);
    let (until, mut turn) = (Instant::now() + PATIENCE, 0);
    while is_open {
        assert!(Instant::now() < until, "the connection is not ended");
        out.clear();
        frame::append_window_update(1 + 2 * (turn % 100), 1, &mut out);
        turn += 1;
        std::thread::sleep(Duration::from_millis(20));
        is_open = exchange.send(&out);
    }
    let (bytes, _) = exchange.end();
    assert!(bytes.received < 1 << 20, "{} bytes came", bytes.received);
    bytes
}

fn unread_answers(server: &Server) -> Bytes {
    let mut stream = connect(server.address());
    let mut out = hello(&[(SettingId::INITIAL_WINDOW_SIZE, 0x7fff_ffff)]);
    frame::append_window_update(0, 0x7fff_0000, &mut out);
    for number in 0..100 {
        put_request_for("/large.bin", 1 + 2 * number, true, &mut out);
    }
    stream.write_all(&out).expect("it is sent");
    wait_until_given_up(std::slice::from_ref(&stream));
    let received = read_until_the_end(&mut stream);
    assert!(received < 100 << 20, "all of it was sent");
    Bytes { sent: out.len() as u64, received }
}

/// A request whose header block is cut off within a frame: the rest may arrive byte by byte.
fn half_a_block() -> Vec<u8> {
    let mut out = hello(&[]);
    frame::append_header(16_000, FrameType::HEADERS, flags::END_HEADERS | flags::END_STREAM, 1, &mut out);
    out.extend_from_slice(&[0x82, 0x86, 0x84]);
    out
}

/// A request whose body is sent in frames of one byte.
fn request_with_body() -> Vec<u8> {
    let mut out = hello(&[]);
    put_request_for("/cgi/count", 1, false, &mut out);
    out
}

fn one_byte_of_data() -> Vec<u8> {
    let mut out = Vec::new();
    frame::append_data_header(1, 1, false, &mut out);
    out.push(b'x');
    out
}
