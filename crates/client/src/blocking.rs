//! Reads the answer to the only request of a connection that blocks: for commands, and for the laboratory's
//! own requests to systems under test.

use std::io::{self, Read, Write};

use touchstone_http::chunked::{ChunkedDecoder, ChunkedLimits};
use touchstone_http::response::{BodyFraming, Parsed, ResponseHead, body_framing, parse_response_head};

/// How many bytes are read at a time.
const READ_BYTES: usize = 16 * 1024;

/// Reads the answer to a request whose method is not HEAD, and writes its body, of at most `most_bytes`, to
/// `body`. If the answer is not valid or not complete, the kind of the error is `InvalidData`.
pub fn read_answer(
    stream: &mut impl Read,
    most_bytes: u64,
    body: &mut impl Write,
) -> io::Result<ResponseHead> {
    let mut input = Vec::new();
    let head = read_head(stream, &mut input)?;
    let mut left = most_bytes;
    let mut give = |bytes: &[u8]| match left.checked_sub(bytes.len() as u64) {
        None => Err(invalid(format!("the answer is longer than {most_bytes} bytes"))),
        Some(rest) => {
            left = rest;
            body.write_all(bytes)
        }
    };
    match body_framing(false, &head) {
        BodyFraming::None => {}
        BodyFraming::Length(mut length) => loop {
            let here = usize::try_from(length).unwrap_or(usize::MAX).min(input.len());
            give(&input[..here])?;
            length -= here as u64;
            if length == 0 {
                break;
            }
            input.clear();
            read_more(stream, &mut input)?;
        },
        BodyFraming::Chunked => {
            let mut decoder = ChunkedDecoder::new(ChunkedLimits::default());
            loop {
                let decoded = decoder.decode(&input).map_err(invalid)?;
                give(&input[decoded.data])?;
                input.drain(..decoded.consumed);
                if decoded.done {
                    break;
                }
                if input.is_empty() {
                    read_more(stream, &mut input)?;
                }
            }
        }
        BodyFraming::UntilClose => loop {
            give(&input)?;
            input.clear();
            if read_some(stream, &mut input)? == 0 {
                break;
            }
        },
    }
    Ok(head)
}

/// Reads the final head; the bytes that follow are left in `input`.
fn read_head(stream: &mut impl Read, input: &mut Vec<u8>) -> io::Result<ResponseHead> {
    let mut head = ResponseHead::new();
    loop {
        match parse_response_head(input, &mut head).map_err(invalid)? {
            Parsed::Complete(length) => {
                input.drain(..length);
                if !matches!(head.status, 100..=199) {
                    return Ok(head);
                }
            }
            Parsed::Partial => read_more(stream, input)?,
        }
    }
}

fn read_more(stream: &mut impl Read, input: &mut Vec<u8>) -> io::Result<()> {
    match read_some(stream, input)? {
        0 => Err(invalid("the connection ended before the answer was complete")),
        _ => Ok(()),
    }
}

/// Reads what is there; 0: the connection has ended.
fn read_some(stream: &mut impl Read, input: &mut Vec<u8>) -> io::Result<usize> {
    let mut buffer = [0; READ_BYTES];
    let count = stream.read(&mut buffer)?;
    input.extend_from_slice(&buffer[..count]);
    Ok(count)
}

fn invalid(problem: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, problem)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(mut answer: &[u8], most_bytes: u64) -> io::Result<(u16, String)> {
        let mut body = Vec::new();
        let head = read_answer(&mut answer, most_bytes, &mut body)?;
        Ok((head.status, String::from_utf8_lossy(&body).into_owned()))
    }

    #[test]
    fn answers_are_framed_by_length_chunks_or_end() {
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        for (text, expected) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcdef", Some((200, "abc"))),
            ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab", None),
            ("HTTP/1.1 200 OK\r\n\r\nab", Some((200, "ab"))),
            ("HTTP/1.0 404 Not Found\r\n\r\nab", Some((404, "ab"))),
            ("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\nab", Some((204, ""))),
            (&format!("{chunked}2\r\nab\r\n1;x=y\r\nc\r\n0\r\n\r\n")[..], Some((200, "abc"))),
            (&format!("{chunked}2\r\nab\r\n")[..], None),
            ("HTTP/1.1 200 OK\r\nContent-Le", None),
        ] {
            let expected = expected.map(|(status, body)| (status, body.to_string()));
            assert_eq!(read(text.as_bytes(), 3).ok(), expected, "{text:?}");
        }
    }

    #[test]
    fn what_is_too_long_or_not_http_is_refused() {
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
        for text in [
            "SSH-2.0-x\r\n\r\n",
            "HTTP/1.1 banana\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc",
            "HTTP/1.1 200 OK\r\n\r\nabc",
            chunked,
        ] {
            let error = read(text.as_bytes(), 2).expect_err(text);
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_break_it(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = read(&bytes, 100);
        }

        #[test]
        fn no_chunks_break_it(
            chunks in "[0-9a-f;]{0,20}(\r\n)?[a-z]{0,9}(\r\n)?[0-9a-f]{0,18}(\r\n){0,2}",
        ) {
            let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
            let _ = read(format!("{head}{chunks}").as_bytes(), 100);
        }
    }
}
