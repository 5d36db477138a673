//! The messages between the server and a child with plug-ins: frames over a Unix socket.
//!
//! Both ends are the same program, so there are no versions; but a plug-in that overwrites memory can make
//! the child send anything, so received frames are checked like any outside input.

use std::io::{self, Read, Write};
use std::net::SocketAddr;

use touchstone_handler::reason_phrase::ReasonPhrase;

use crate::connection::{Delegate, DelegatedRequest, HostRequest, RequestEnd, TlsFacts};

use super::answer::Head;

/// The longest frame in bytes.
pub const LONGEST_FRAME_BYTES: usize = 1024 * 1024;

/// The kind of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// To the child: a request.
    Request,
    /// To the child: a part of its body; empty: the end.
    Body,
    /// To the child: the body broke off.
    BodyFailed,
    /// To the child: end.
    Quit,
    /// To the server: more of the body is needed.
    Want,
    /// To the server: the head of the answer.
    Head,
    /// To the server: a part of its body.
    Data,
    /// To the server: send everything received so far.
    Flush,
    /// To the server: how the request ended.
    End,
}

const KINDS: [(Kind, u8); 9] = [
    (Kind::Request, b'R'),
    (Kind::Body, b'B'),
    (Kind::BodyFailed, b'X'),
    (Kind::Quit, b'Q'),
    (Kind::Want, b'W'),
    (Kind::Head, b'S'),
    (Kind::Data, b'D'),
    (Kind::Flush, b'F'),
    (Kind::End, b'E'),
];

/// Writes a frame.
pub fn write_frame(to: &mut impl Write, kind: Kind, payload: &[u8]) -> io::Result<()> {
    let letter = KINDS.iter().find(|(known, _)| *known == kind).map_or(0, |(_, letter)| *letter);
    let mut frame = Vec::with_capacity(5 + payload.len());
    frame.push(letter);
    frame.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    frame.extend_from_slice(payload);
    to.write_all(&frame)
}

/// The kind and the length of a frame from its first five bytes.
pub fn parse_frame_head(head: [u8; 5]) -> io::Result<(Kind, usize)> {
    let kind = KINDS.iter().find(|(_, letter)| *letter == head[0]).map(|(kind, _)| *kind);
    let length = u32::from_le_bytes([head[1], head[2], head[3], head[4]]) as usize;
    match kind {
        Some(kind) if length <= LONGEST_FRAME_BYTES => Ok((kind, length)),
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "the other side sends no frames")),
    }
}

/// Reads a frame into `payload`.
pub fn read_frame(from: &mut impl Read, payload: &mut Vec<u8>) -> io::Result<Kind> {
    let mut head = [0; 5];
    from.read_exact(&mut head)?;
    let (kind, length) = parse_frame_head(head)?;
    payload.resize(length, 0);
    from.read_exact(payload)?;
    Ok(kind)
}

/// The number of key bits, and the subject and issuer of the client's certificate.
type OwnedTls = (u32, Option<Vec<u8>>, Option<Vec<u8>>);

/// A request with its own memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnedRequest {
    texts: [Vec<u8>; 5],
    query: Option<Vec<u8>>,
    fields: Vec<(Vec<u8>, Vec<u8>)>,
    client: SocketAddr,
    local: SocketAddr,
    port: u16,
    is_http10: bool,
    keep_alive: bool,
    has_body: bool,
    body_length: Option<u64>,
    now_unix_seconds: i64,
    is_https: bool,
    tls: Option<OwnedTls>,
    user: Option<Vec<u8>>,
}

impl OwnedRequest {
    /// Copies a request into the form that is sent.
    pub fn of(host_request: &HostRequest<'_>) -> OwnedRequest {
        let owned = |bytes: &[u8]| bytes.to_vec();
        let cipher = host_request.tls.map_or(&b""[..], |tls| tls.cipher);
        OwnedRequest {
            texts: [host_request.method, host_request.path, host_request.target, host_request.host, cipher]
                .map(owned),
            query: host_request.query.map(owned),
            fields: host_request.fields.iter().map(|(name, value)| (owned(name), owned(value))).collect(),
            client: host_request.client,
            local: host_request.local,
            port: host_request.port,
            is_http10: host_request.is_http10,
            keep_alive: host_request.keep_alive,
            has_body: host_request.has_body,
            body_length: host_request.body_length,
            now_unix_seconds: host_request.now_unix_seconds,
            is_https: host_request.is_https,
            tls: host_request
                .tls
                .map(|tls| (tls.key_bits, tls.client_subject.map(owned), tls.client_issuer.map(owned))),
            user: host_request.user.map(owned),
        }
    }

    /// Whether there is a body.
    pub fn has_body(&self) -> bool {
        self.has_body
    }

    /// Calls `use_it` with the request in the engine's form.
    pub fn with<T>(&self, use_it: impl FnOnce(&HostRequest<'_>) -> T) -> T {
        let fields: Vec<(&[u8], &[u8])> =
            self.fields.iter().map(|(name, value)| (&name[..], &value[..])).collect();
        let [method, path, target, host, cipher] = &self.texts;
        use_it(&HostRequest {
            method,
            path,
            target,
            query: self.query.as_deref(),
            is_http10: self.is_http10,
            fields: &fields,
            host,
            port: self.port,
            client: self.client,
            local: self.local,
            is_https: self.is_https,
            tls: self.tls.as_ref().map(|(key_bits, subject, issuer)| TlsFacts {
                cipher,
                key_bits: *key_bits,
                client_certificate: None,
                client_subject: subject.as_deref(),
                client_issuer: issuer.as_deref(),
            }),
            user: self.user.as_deref(),
            keep_alive: self.keep_alive,
            body_length: self.body_length,
            has_body: self.has_body,
            now_unix_seconds: self.now_unix_seconds,
        })
    }

    /// Encodes it as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = MessageWriter(Vec::with_capacity(1024));
        self.texts.iter().for_each(|text| out.bytes(text));
        out.optional(self.query.as_deref());
        out.number(self.fields.len() as u64);
        for (name, value) in &self.fields {
            out.bytes(name);
            out.bytes(value);
        }
        out.bytes(self.client.to_string().as_bytes());
        out.bytes(self.local.to_string().as_bytes());
        let flags = [
            self.is_http10,
            self.keep_alive,
            self.has_body,
            self.body_length.is_some(),
            self.is_https,
            self.tls.is_some(),
        ];
        for number in flags.map(u64::from) {
            out.number(number);
        }
        out.number(u64::from(self.port));
        out.number(self.body_length.unwrap_or(0));
        out.number(self.now_unix_seconds as u64);
        let (key_bits, subject, issuer) = self.tls.clone().unwrap_or_default();
        out.number(u64::from(key_bits));
        out.optional(subject.as_deref());
        out.optional(issuer.as_deref());
        out.optional(self.user.as_deref());
        out.0
    }

    /// Decodes bytes; `None` if they are not valid.
    pub fn decode(bytes: &[u8]) -> Option<OwnedRequest> {
        let mut input = In(bytes);
        let texts = [input.bytes()?, input.bytes()?, input.bytes()?, input.bytes()?, input.bytes()?];
        let query = input.optional()?;
        let count = usize::try_from(input.number()?).ok().filter(|count| *count <= bytes.len())?;
        let mut fields = Vec::new();
        for _ in 0..count {
            fields.push((input.bytes()?, input.bytes()?));
        }
        let address = |bytes: Vec<u8>| String::from_utf8(bytes).ok()?.parse().ok();
        let (client, local) = (address(input.bytes()?)?, address(input.bytes()?)?);
        let mut flag = || input.number().map(|number| number != 0);
        let (is_http10, keep_alive, has_body, has_length, is_https, has_tls) =
            (flag()?, flag()?, flag()?, flag()?, flag()?, flag()?);
        let port = u16::try_from(input.number()?).ok()?;
        let length = input.number()?;
        let now_unix_seconds = input.number()? as i64;
        let key_bits = u32::try_from(input.number()?).ok()?;
        let (subject, issuer, user) = (input.optional()?, input.optional()?, input.optional()?);
        input.0.is_empty().then_some(OwnedRequest {
            texts,
            query,
            fields,
            client,
            local,
            port,
            is_http10,
            keep_alive,
            has_body,
            body_length: has_length.then_some(length),
            now_unix_seconds,
            is_https,
            tls: has_tls.then_some((key_bits, subject, issuer)),
            user,
        })
    }
}

/// Encodes the head of an answer.
pub fn encode_head(head: &Head) -> Vec<u8> {
    let mut out = MessageWriter(Vec::with_capacity(64 + head.fields.len()));
    out.number(u64::from(head.status));
    out.number(u64::from(head.content_length.is_some()));
    out.number(head.content_length.unwrap_or(0));
    out.bytes(head.reason.as_ref().map_or(b"", ReasonPhrase::as_bytes));
    out.bytes(&head.fields);
    out.0
}

/// Decodes the head of an answer. Each field line must have a name and no control character.
pub fn decode_head(bytes: &[u8]) -> Option<Head> {
    let mut input = In(bytes);
    let status = u16::try_from(input.number()?).ok().filter(|status| (200..=999).contains(status))?;
    let has_length = input.number()? != 0;
    let length = input.number()?;
    let reason = ReasonPhrase::new(status, &input.bytes()?);
    let fields = input.bytes()?;
    let lines = fields.strip_suffix(b"\r\n").unwrap_or(&fields);
    let is_line = |line: &[u8]| match line.windows(2).position(|pair| pair == b": ") {
        Some(colon) => {
            touchstone_http::grammar::is_token(&line[..colon])
                && line[colon + 2..].iter().all(|byte| touchstone_http::grammar::is_field_value_byte(*byte))
        }
        None => false,
    };
    let mut each = lines.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    if !fields.is_empty() && (!fields.ends_with(b"\r\n") || !each.all(is_line)) {
        return None;
    }
    let content_length = has_length.then_some(length);
    input.0.is_empty().then_some(Head { status, reason, fields, content_length })
}

/// Encodes the end of a request.
pub fn encode_request_end(request_end: &RequestEnd) -> Vec<u8> {
    let mut out = MessageWriter(Vec::new());
    match request_end {
        RequestEnd::Answered => out.number(0),
        RequestEnd::Close => out.number(1),
        RequestEnd::Delegated(delegated) => {
            out.number(match delegated.to {
                Delegate::Cgi => 2,
                Delegate::Includes => 3,
                Delegate::Listing => 4,
            });
            out.bytes(&delegated.path);
            out.bytes(&delegated.path_info);
        }
    }
    out.0
}

/// Decodes the end of a request.
pub fn decode_request_end(bytes: &[u8]) -> Option<RequestEnd> {
    let mut input = In(bytes);
    let to = match input.number()? {
        0 => return Some(RequestEnd::Answered),
        1 => return Some(RequestEnd::Close),
        2 => Delegate::Cgi,
        3 => Delegate::Includes,
        4 => Delegate::Listing,
        _ => return None,
    };
    let (path, path_info) = (input.bytes()?, input.bytes()?);
    Some(RequestEnd::Delegated(DelegatedRequest { to, path, path_info, fields: Vec::new() }))
}

struct MessageWriter(Vec<u8>);

impl MessageWriter {
    fn number(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn optional(&mut self, bytes: Option<&[u8]>) {
        self.number(u64::from(bytes.is_some()));
        self.bytes(bytes.unwrap_or_default());
    }
}

struct In<'a>(&'a [u8]);

impl In<'_> {
    fn number(&mut self) -> Option<u64> {
        let (number, rest) = self.0.split_first_chunk::<8>()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*number))
    }

    fn bytes(&mut self) -> Option<Vec<u8>> {
        let length = usize::try_from(self.number()?).ok()?;
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes.to_vec())
    }

    fn optional(&mut self) -> Option<Option<Vec<u8>>> {
        let is_there = self.number()? != 0;
        self.bytes().map(|bytes| is_there.then_some(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_bytes_of_a_broken_child_cause_a_panic(bytes: Vec<u8>) {
            OwnedRequest::decode(&bytes);
            decode_head(&bytes);
            decode_request_end(&bytes);
            let _ = read_frame(&mut &bytes[..], &mut Vec::new());
        }

        #[test]
        fn a_request_arrives_as_it_was_sent(
            path: Vec<u8>, query: Option<Vec<u8>>, fields: Vec<(Vec<u8>, Vec<u8>)>, has_body: bool,
            body_length: Option<u64>, user: Option<Vec<u8>>,
        ) {
            let request = OwnedRequest {
                texts: [b"GET".to_vec(), path.clone(), path, b"host".to_vec(), Vec::new()],
                query, fields, has_body, body_length, user,
                client: "[::1]:5".parse().unwrap(),
                local: "127.0.0.1:80".parse().unwrap(),
                port: 81, is_http10: false, keep_alive: true, now_unix_seconds: -1,
                is_https: true,
                tls: Some((256, None, Some(vec![1]))),
            };
            let encoded = request.encode();
            let decoded = OwnedRequest::decode(&encoded);
            prop_assert_eq!(decoded.as_ref(), Some(&request));
            prop_assert_eq!(OwnedRequest::decode(&encoded[..encoded.len() - 1]), None);
            prop_assert_eq!(&request.with(OwnedRequest::of), &request);
        }
    }

    #[test]
    fn heads_and_outcomes_arrive_and_wrong_ones_do_not() {
        let head = Head {
            status: 200,
            reason: ReasonPhrase::new(200, b"Very well"),
            fields: b"A: b\r\nC: \r\n".to_vec(),
            content_length: Some(3),
        };
        assert_eq!(decode_head(&encode_head(&head)), Some(head.clone()));
        for fields in [&b"A: b"[..], b"A b\r\n", b"A: b\r\n\r\n", b"A: b\nX\r\n", b": x\r\n"] {
            let wrong = Head { fields: fields.to_vec(), ..head.clone() };
            assert_eq!(decode_head(&encode_head(&wrong)), None, "{}", fields.escape_ascii());
        }
        assert_eq!(decode_head(&encode_head(&Head { status: 100, ..head })), None);
        let delegated = DelegatedRequest {
            to: Delegate::Cgi,
            path: b"/a".to_vec(),
            path_info: Vec::new(),
            fields: Vec::new(),
        };
        for request_end in [RequestEnd::Answered, RequestEnd::Close, RequestEnd::Delegated(delegated)] {
            assert_eq!(decode_request_end(&encode_request_end(&request_end)), Some(request_end));
        }
    }
}
