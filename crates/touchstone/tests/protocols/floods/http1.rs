//! Attacks on HTTP/1.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::{Attack, Bytes, PATIENCE, connect, read_until_the_end, wait_until_given_up};
use crate::support::Server;

const CONNECTIONS: usize = 40;

pub(super) const ATTACKS: &[Attack] = &[
    Attack {
        protocol: "HTTP/1",
        name: "heads byte by byte (Slowloris)",
        limit: "`limits.header_timeout`",
        make: |server| byte_by_byte(server, "GET / HTTP/1.1\r\nHost: a\r\nX: "),
    },
    Attack {
        protocol: "HTTP/1",
        name: "bodies byte by byte (R-U-Dead-Yet)",
        limit: "`limits.stall_timeout`, `limits.minimum_receive_rate`",
        make: |server| {
            let head = "POST /cgi/count HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n";
            byte_by_byte(server, head)
        },
    },
    Attack {
        protocol: "HTTP/1",
        name: "connections that send no data",
        limit: "`limits.header_timeout`, `limits.connections`",
        make: |server| until_all_end(connections(server, 200), Bytes::default()),
    },
    Attack {
        protocol: "HTTP/1",
        name: "heads with ten thousand fields",
        limit: "`limits.header_fields`",
        make: |server| {
            let head = format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "A: b\r\n".repeat(10_000));
            refused(server, head.as_bytes(), 431)
        },
    },
    Attack {
        protocol: "HTTP/1",
        name: "endless request lines",
        limit: "`limits.request_line_bytes`",
        make: |server| refused(server, format!("GET /{}", "a".repeat(1 << 20)).as_bytes(), 414),
    },
    Attack {
        protocol: "HTTP/1",
        name: "chunk extensions (CVE-2023-39326)",
        limit: "16 KiB of extensions in a body",
        make: |server| {
            let chunk = format!("1;{}\r\nx\r\n", "e".repeat(2000));
            let head = "GET /page.html HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
            refused(server, format!("{head}{}", chunk.repeat(100)).as_bytes(), 400)
        },
    },
    Attack {
        protocol: "HTTP/1",
        name: "chunks of one byte",
        limit: "`limits.body_bytes`; cost is proportional to the bytes",
        make: tiny_chunks,
    },
    Attack {
        protocol: "HTTP/1",
        name: "trailers without end",
        limit: "`limits.header_bytes`, `limits.header_fields`",
        make: |server| {
            let head = "GET /page.html HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n";
            refused(server, format!("{head}{}", "A: b\r\n".repeat(50_000)).as_bytes(), 400)
        },
    },
    Attack {
        protocol: "HTTP/1",
        name: "empty lines before a request",
        limit: "4 empty lines: 400",
        make: |server| refused(server, "\r\n".repeat(50_000).as_bytes(), 400),
    },
    Attack {
        protocol: "HTTP/1",
        name: "fields whose names hash alike",
        limit: "`limits.header_fields`; fields are in no hash table",
        make: |server| {
            let fields: String = (0..90).map(|number| format!("X-{number:0>40}: a\r\n")).collect();
            answered(server, &format!("GET /page.html HTTP/1.1\r\nHost: a\r\n{fields}\r\n"), 100)
        },
    },
    Attack {
        protocol: "HTTP/1",
        name: "connections for one request each",
        limit: "`limits.connections`, `limits.connections_per_client`",
        make: |server| {
            let mut bytes = Bytes::default();
            for _ in 0..300 {
                let request = "GET /page.html HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
                bytes += answered(server, request, 1);
            }
            bytes
        },
    },
    Attack {
        protocol: "HTTP/1",
        name: "many ranges (CVE-2011-3192)",
        limit: "`limits.ranges`",
        make: many_ranges,
    },
    Attack {
        protocol: "HTTP/1",
        name: "pipelines whose answers are not read",
        limit: "reading stops while answers wait; `limits.stall_timeout`",
        make: unread_pipeline,
    },
    Attack {
        protocol: "HTTP/1",
        name: "a large file that is not read",
        limit: "`limits.stall_timeout`, `limits.minimum_send_rate`",
        make: |server| {
            let mut streams = connections(server, CONNECTIONS);
            let request = b"GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n";
            streams.iter_mut().for_each(|stream| stream.write_all(request).expect("it is sent"));
            let sent = (request.len() * streams.len()) as u64;
            wait_until_given_up(&streams);
            let bytes = until_all_end(streams, Bytes { sent, received: 0 });
            assert!(bytes.received < (8 << 20) * CONNECTIONS as u64 / 2, "the files were sent nevertheless");
            bytes
        },
    },
];

fn connections(server: &Server, count: usize) -> Vec<TcpStream> {
    (0..count).map(|_| connect(server.address())).collect()
}

/// Sends a beginning on many connections, and then a byte each, until the server has ended all of them.
fn byte_by_byte(server: &Server, beginning: &str) -> Bytes {
    let mut streams = connections(server, CONNECTIONS);
    let mut bytes = Bytes::default();
    for stream in &mut streams {
        stream.write_all(beginning.as_bytes()).expect("the beginning is sent");
        stream.set_nonblocking(true).expect("it does not block");
        bytes.sent += beginning.len() as u64;
    }
    let until = Instant::now() + PATIENCE;
    while !streams.is_empty() {
        assert!(Instant::now() < until, "{} connections are still there", streams.len());
        std::thread::sleep(Duration::from_millis(30));
        streams.retain_mut(|stream| {
            let mut buffer = [0; 4096];
            match stream.read(&mut buffer) {
                Ok(0) => return false,
                Ok(count) => bytes.received += count as u64,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(_) => return false,
            }
            bytes.sent += 1;
            stream.write_all(b"x").is_ok()
        });
    }
    bytes
}

/// Sends something that must be refused with this status, on several connections one after the other.
fn refused(server: &Server, request: &[u8], status: u16) -> Bytes {
    let (mut bytes, mut told) = (Bytes::default(), 0);
    for _ in 0..20 {
        let mut stream = connect(server.address());
        // The server need not take all of it.
        let _ = stream.write_all(request);
        bytes.sent += request.len() as u64;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let expected = format!("HTTP/1.1 {status} ");
        let is_refused = answer.starts_with(expected.as_bytes());
        // A reset may have taken the answer away, where the server closed before everything was sent.
        assert!(is_refused || answer.is_empty(), "{}", String::from_utf8_lossy(&answer));
        told += usize::from(is_refused);
        bytes.received += answer.len() as u64;
    }
    assert!(told > 0, "no connection has got an answer");
    bytes
}

/// Sends a request so many times on a connection, each answered before the next.
fn answered(server: &Server, request: &str, times: usize) -> Bytes {
    let mut stream = connect(server.address());
    let (mut bytes, mut buffer) = (Bytes::default(), vec![0; 64 * 1024]);
    for _ in 0..times {
        stream.write_all(request.as_bytes()).expect("it is sent");
        bytes.sent += request.len() as u64;
        let mut count = 0;
        while count < 6_250 {
            let more = stream.read(&mut buffer).expect("an answer");
            assert!(more > 0, "the connection ends within an answer");
            count += more;
        }
        bytes.received += count as u64;
    }
    bytes
}

/// A body of 200,000 chunks of one byte: the server must pass over it, or refuse it.
fn tiny_chunks(server: &Server) -> Bytes {
    let mut stream = connect(server.address());
    let head =
        "GET /page.html HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n";
    let request = format!("{head}{}0\r\n\r\n", "1\r\nx\r\n".repeat(200_000));
    let _ = stream.write_all(request.as_bytes());
    until_all_end(vec![stream], Bytes { sent: request.len() as u64, received: 0 })
}

fn many_ranges(server: &Server) -> Bytes {
    let ranges = vec!["0-"; 1300].join(",");
    let request =
        format!("GET /large.bin HTTP/1.1\r\nHost: a\r\nConnection: close\r\nRange: bytes={ranges}\r\n\r\n");
    let mut stream = connect(server.address());
    stream.write_all(request.as_bytes()).expect("it is sent");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("it is answered");
    assert!(answer.len() < 9 << 20, "{} bytes for a file of 8 MiB", answer.len());
    Bytes { sent: request.len() as u64, received: answer.len() as u64 }
}

fn unread_pipeline(server: &Server) -> Bytes {
    let mut stream = connect(server.address());
    stream.set_nonblocking(true).expect("it does not block");
    let requests = "GET /page.html HTTP/1.1\r\nHost: a\r\n\r\n".repeat(1000);
    let (mut bytes, until) = (Bytes::default(), Instant::now() + Duration::from_secs(3));
    while Instant::now() < until {
        match stream.write(requests.as_bytes()) {
            Ok(count) => bytes.sent += count as u64,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                std::thread::sleep(Duration::from_millis(20));
            }
            Err(_) => break,
        }
    }
    assert!(bytes.sent < 32 << 20, "the server has read {} bytes, and none of its answers", bytes.sent);
    stream.set_nonblocking(false).expect("it blocks");
    until_all_end(vec![stream], bytes)
}

/// Reads until the server has ended each connection.
fn until_all_end(streams: Vec<TcpStream>, mut bytes: Bytes) -> Bytes {
    for mut stream in streams {
        bytes.received += read_until_the_end(&mut stream);
    }
    bytes
}
