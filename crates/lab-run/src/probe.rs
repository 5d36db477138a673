//! One request, one answer, one connection: with them the laboratory tests, before the measurement, whether a
//! system under test is ready and whether it serves what the workload expects.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use touchstone_client::blocking::read_answer;
use touchstone_http::response::ResponseHead;

/// How much longer than expected a body may be.
const EXCESS_BYTES: usize = 64 * 1024;

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    /// The status code.
    pub(crate) status: u16,
    /// Whether a cache on the way states that it had the answer: by `Cache-Status` (RFC 9211), or by an `Age`
    /// of a second or more, which every cache must state for stored answers (RFC 9111 section 4), and some
    /// state as 0 for all.
    pub(crate) hit: bool,
    /// The body, without any transfer coding.
    pub(crate) body: Vec<u8>,
}

/// Asks for `path` and reads the whole answer, of at most `body_bytes_max` bytes, within `time_limit`.
pub(crate) fn get(
    address: SocketAddr,
    host: &str,
    path: &str,
    body_bytes_max: usize,
    time_limit: Duration,
) -> io::Result<Answer> {
    let deadline = Instant::now() + time_limit;
    let mut stream = TcpStream::connect_timeout(&address, time_limit)?;
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(time_limit))?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    answer(&mut UntilDeadline { stream, deadline }, body_bytes_max)
}

/// An answer that is a little longer is read, so that its length can be reported.
fn answer(stream: &mut impl Read, body_bytes_max: usize) -> io::Result<Answer> {
    let mut body = Vec::new();
    let head = read_answer(stream, (body_bytes_max + EXCESS_BYTES) as u64, &mut body)?;
    Ok(Answer { status: head.status, hit: is_hit(&head), body })
}

/// A connection whose bytes must arrive before a time.
struct UntilDeadline {
    stream: TcpStream,
    deadline: Instant,
}

impl Read for UntilDeadline {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "no complete answer in time"));
        }
        self.stream.set_read_timeout(Some(left))?;
        self.stream.read(buffer)
    }
}

fn is_hit(head: &ResponseHead) -> bool {
    head.fields().any(|(name, value)| {
        let value = String::from_utf8_lossy(value);
        match name.to_ascii_lowercase().as_slice() {
            b"cache-status" => value.split(';').any(|parameter| parameter.trim() == "hit"),
            b"age" => value.trim().parse::<u64>().is_ok_and(|seconds| seconds > 0),
            _ => false,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_on_the_way_says_that_it_had_the_answer() {
        let cases = [
            ("Cache-Status: touchstone; hit; ttl=42", true),
            ("Cache-Status: touchstone; fwd=uri-miss; stored", false),
            ("Age: 3", true),
            ("Age: 0", false),
            ("Age: soon", false),
        ];
        for (field, hit) in cases {
            let text = format!("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n{field}\r\n\r\n");
            assert_eq!(answer(&mut text.as_bytes(), 0).unwrap().hit, hit, "{field}");
        }
    }

    #[test]
    fn an_answer_that_is_a_little_too_long_is_read() {
        let text = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabcde";
        assert_eq!(answer(&mut text.as_bytes(), 3).unwrap().body, b"abcde");
    }
}
