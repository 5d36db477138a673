//! One request, one answer, one connection: with them the laboratory tests, before the measurement, whether a
//! system under test is ready and whether it serves what the workload expects.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// The longest head that is read.
const HEAD_BYTES_MAX: usize = 64 * 1024;

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
    let mut received = Vec::new();
    let mut buffer = [0u8; 16 * 1024];
    loop {
        if let Some(answer) = parse(&received, false)? {
            return Ok(answer);
        }
        if received.len() > HEAD_BYTES_MAX + body_bytes_max {
            return Err(invalid("the answer is longer than any file of the workload"));
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "no complete answer in time"));
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut buffer)? {
            0 => return parse(&received, true)?.ok_or_else(|| invalid("the connection ended in mid-answer")),
            count => received.extend_from_slice(&buffer[..count]),
        }
    }
}

/// The answer, once it is complete; `ended` states that no more bytes will arrive. Framing by RFC 9112
/// section 6.3.
fn parse(received: &[u8], ended: bool) -> io::Result<Option<Answer>> {
    let Some(head_length) = received.windows(4).position(|four| four == b"\r\n\r\n") else {
        return if received.len() > HEAD_BYTES_MAX { Err(invalid("the head is too long")) } else { Ok(None) };
    };
    let head = std::str::from_utf8(&received[..head_length]).map_err(|_| invalid("the head is not text"))?;
    let mut lines = head.split("\r\n");
    let status =
        status(lines.next().unwrap_or_default()).ok_or_else(|| invalid("the answer is not HTTP/1"))?;
    let rest = &received[head_length + 4..];
    let (mut length, mut chunked, mut hit) = (None, false, false);
    for line in lines {
        let Some((name, value)) = line.split_once(':') else { continue };
        if name.eq_ignore_ascii_case("content-length") {
            length =
                Some(value.trim().parse::<usize>().map_err(|_| invalid("Content-Length is not a number"))?);
        } else if name.eq_ignore_ascii_case("cache-status") {
            hit |= value.split(';').any(|parameter| parameter.trim() == "hit");
        } else if name.eq_ignore_ascii_case("age") {
            hit |= value.trim().parse::<u64>().is_ok_and(|seconds| seconds > 0);
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            chunked = value.trim().eq_ignore_ascii_case("chunked");
        }
    }
    let body = match (chunked, length) {
        (true, _) => unchunk(rest)?,
        (false, Some(length)) => rest.get(..length).map(<[u8]>::to_vec),
        (false, None) => ended.then(|| rest.to_vec()),
    };
    Ok(body.map(|body| Answer { status, hit, body }))
}

/// The status code of `HTTP/1.x NNN reason`.
fn status(line: &str) -> Option<u16> {
    let (version, rest) = line.split_once(' ')?;
    version.starts_with("HTTP/1.").then_some(())?;
    rest.get(..3)?.parse().ok().filter(|code| (200..=599).contains(code))
}

/// The body of a chunked answer, once its last chunk has arrived.
fn unchunk(mut rest: &[u8]) -> io::Result<Option<Vec<u8>>> {
    let mut body = Vec::new();
    loop {
        let Some(line_end) = rest.windows(2).position(|two| two == b"\r\n") else { return Ok(None) };
        let line =
            std::str::from_utf8(&rest[..line_end]).map_err(|_| invalid("a chunk's size is not text"))?;
        let digits = line.split(';').next().unwrap_or_default().trim();
        let size =
            usize::from_str_radix(digits, 16).map_err(|_| invalid("a chunk's size is not a number"))?;
        if size == 0 {
            return Ok(Some(body));
        }
        let start = line_end + 2;
        let end = start
            .checked_add(size)
            .and_then(|end| end.checked_add(2))
            .ok_or_else(|| invalid("a huge chunk"))?;
        let Some(chunk) = rest.get(start..end - 2) else { return Ok(None) };
        body.extend_from_slice(chunk);
        let Some(following) = rest.get(end..) else { return Ok(None) };
        rest = following;
    }
}

fn invalid(message: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn answers_are_framed_by_length_chunks_or_end() {
        type Case<'a> = (&'a str, bool, Option<(u16, &'a str)>);
        let cases: [Case<'_>; 7] = [
            ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcdef", false, Some((200, "abc"))),
            ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab", false, None),
            ("HTTP/1.1 200 OK\r\n\r\nab", false, None),
            ("HTTP/1.0 404 Not Found\r\n\r\nab", true, Some((404, "ab"))),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1;x=y\r\nc\r\n0\r\n\r\n",
                false,
                Some((200, "abc")),
            ),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n", false, None),
            ("HTTP/1.1 200 OK\r\nContent-Le", false, None),
        ];
        for (text, ended, expected) in cases {
            let answer = parse(text.as_bytes(), ended).unwrap();
            let expected =
                expected.map(|(status, body)| Answer { status, hit: false, body: body.as_bytes().to_vec() });
            assert_eq!(answer, expected, "{text:?}");
        }
    }

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
            assert_eq!(parse(text.as_bytes(), false).unwrap().map(|answer| answer.hit), Some(hit), "{field}");
        }
    }

    #[test]
    fn what_is_not_http_is_refused() {
        for text in
            ["SSH-2.0-x\r\n\r\n", "HTTP/1.1 banana\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n"]
        {
            assert!(parse(text.as_bytes(), false).is_err(), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_parser_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..300),
            ended: bool,
        ) {
            let _ = parse(&bytes, ended);
        }

        #[test]
        fn no_chunks_make_the_parser_panic(text in "[0-9a-f;]{0,20}(\r\n)?[a-z]{0,9}(\r\n\
                                                    )?[0-9a-f]{0,18}(\r\n){0,2}") {
            let _ = unchunk(text.as_bytes());
        }
    }
}
