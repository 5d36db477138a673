//! Converts answers from wasi:http, and field lines.

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, HOST, HeaderMap, HeaderName, HeaderValue};
use touchstone_handler::answer::Answer;
use touchstone_handler::request::ReceivedHead;
use touchstone_http::request::HeadBuilder;
use wasmtime_wasi_http::WasiBody;

/// The answer of an instance, or its description of the failure.
pub type Reply = Result<http::Response<WasiBody>, String>;

/// Hop-by-hop fields of an answer, and fields that the server sets itself.
const OWN_FIELDS: [&str; 12] = [
    "connection",
    "content-length",
    "date",
    "keep-alive",
    "proxy-authenticate",
    "proxy-connection",
    "server",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "http2-settings",
];

/// The head of an answer, and the declared length of its body. The error says why the answer is invalid.
pub fn answer(parts: &http::response::Parts) -> Result<(Answer, Option<u64>), String> {
    let status = parts.status.as_u16();
    if !(200..=599).contains(&status) {
        return Err(format!("its answer has the invalid status {status}"));
    }
    let mut answer = Answer::new(status);
    append_lines(&parts.headers, &mut answer.fields);
    let length = match parts.headers.get(CONTENT_LENGTH) {
        None => None,
        Some(value) => Some(length(value).ok_or_else(|| "its Content-Length is not a number".to_string())?),
    };
    Ok((answer, length))
}

/// The value of a Content-Length.
pub fn length(value: &HeaderValue) -> Option<u64> {
    let digits = value.to_str().ok()?;
    if digits.bytes().all(|byte| byte.is_ascii_digit()) { digits.parse().ok() } else { None }
}

/// Whether an answer of this status has no body.
pub fn has_no_body(status: u16) -> bool {
    matches!(status, 204 | 304)
}

/// Appends the field lines of a message or of its trailers. Names and values were checked when they were set.
pub fn append_lines(fields: &HeaderMap, lines: &mut Vec<u8>) {
    let length = |(name, value): (&HeaderName, &HeaderValue)| name.as_str().len() + value.len() + 4;
    lines.reserve(fields.iter().map(length).sum());
    for (name, value) in without_own(fields) {
        for piece in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            lines.extend_from_slice(piece);
        }
    }
}

fn without_own(fields: &HeaderMap) -> impl Iterator<Item = (&HeaderName, &HeaderValue)> {
    fields.iter().filter(|(name, _)| !OWN_FIELDS.contains(&name.as_str()))
}

/// Adds the fields of a request, except Host, and those of its body; `None` if the head is not valid.
pub fn finish_head(mut builder: HeadBuilder, fields: &HeaderMap, has_no_body: bool) -> Option<ReceivedHead> {
    for (name, value) in without_own(fields).filter(|(name, _)| *name != HOST) {
        builder.field(name.as_str().as_bytes(), value.as_bytes());
    }
    match fields.get(CONTENT_LENGTH) {
        _ if has_no_body => {}
        Some(length) => builder.field(b"Content-Length", length.as_bytes()),
        None => builder.field(b"Transfer-Encoding", b"chunked"),
    }
    let (head, buffer, outcome) = builder.finish();
    outcome.is_ok().then(|| ReceivedHead { head, buffer: buffer.into() })
}

/// The fields in field lines; `None` if there are none.
pub fn header_map(lines: &[u8]) -> Option<HeaderMap> {
    let mut fields = HeaderMap::new();
    for line in lines.split(|&byte| byte == b'\n') {
        let Some(colon) = line.iter().position(|&byte| byte == b':') else { continue };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), HeaderValue::from_bytes(value)) {
            fields.append(name, value);
        }
    }
    (!fields.is_empty()).then_some(fields)
}

/// An empty body, without an allocation.
pub fn empty_body() -> WasiBody {
    use http_body_util::BodyExt as _;
    http_body_util::Empty::new().map_err(|never| match never {}).boxed_unsync()
}

/// A complete body.
pub fn full_body(bytes: Bytes) -> WasiBody {
    use http_body_util::BodyExt as _;
    http_body_util::Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hop_by_hop_fields_are_left_out() {
        let (parts, ()) = http::Response::builder()
            .status(201)
            .header("Content-Type", "text/plain")
            .header("Content-Length", "12")
            .header("Connection", "close")
            .header("Set-Cookie", "a=b")
            .header("Set-Cookie", "c=d")
            .body(())
            .unwrap()
            .into_parts();
        let (answer, length) = super::answer(&parts).unwrap();
        assert_eq!((answer.status, length), (201, Some(12)));
        let text = String::from_utf8(answer.fields).unwrap();
        assert_eq!(text, "content-type: text/plain\r\nset-cookie: a=b\r\nset-cookie: c=d\r\n");
    }

    #[test]
    fn invalid_answers_are_errors() {
        for (status, length) in [(100, "0"), (199, "0"), (600, "0"), (200, "1,1"), (200, "+1"), (200, "x")] {
            let response = http::Response::builder().status(status).header("Content-Length", length);
            let (parts, ()) = response.body(()).unwrap().into_parts();
            assert!(super::answer(&parts).is_err(), "{status} {length}");
        }
    }

    #[test]
    fn trailers_are_read_from_their_lines() {
        let fields = header_map(b"A: b\r\nC:  d \r\nno field\r\n").unwrap();
        assert_eq!(
            (fields.len(), &fields["a"], &fields["c"]),
            (2, &"b".parse().unwrap(), &"d".parse().unwrap())
        );
        assert!(header_map(b"").is_none());
    }
}
