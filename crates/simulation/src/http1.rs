//! HTTP/1 through a chain: a client pipelines requests, a proxy parses each, builds a new one and sends it
//! on, an origin answers, and the proxy passes the answers back. All connections cut the bytes anywhere.
//!
//! What must hold: one answer for one request, in order, of the right origin's request; every byte of a body
//! arrives, and no other; the origin reads the same message as the proxy. In some runs the connection to the
//! client or that to the origin is cut: an incomplete message is not a request and no answer. In others bits
//! of the client's bytes are changed under way: then the verdict must not depend on the sizes of the reads.

use std::collections::VecDeque;

use touchstone_http::chunked::{ChunkedDecoder, LAST_CHUNK, chunk_head};
use touchstone_http::request::{HeadBuilder, KnownField, Limits, Parsed, RequestBody, RequestHead};
use touchstone_http::response::{self, BodyFraming, ResponseHead, body_framing, parse_response_head};

use crate::chance;
use crate::wire::{Wire, is_pattern, pattern};

const LIMITS: Limits = Limits { request_line_bytes: 8192, header_bytes: 16_384, header_fields: 64 };

/// One run.
pub fn run() {
    match chance::below(5) {
        0 => run_with_changed_bits(),
        1 => Chain::new().run_with_a_cut(),
        _ => Chain::new().run(),
    }
}

/// A request as the client means it.
#[derive(Debug, Clone)]
struct IntendedRequest {
    number: u64,
    method: &'static str,
    version: &'static str,
    fields: Vec<(String, String)>,
    body_bytes: usize,
    /// Of a chunked body.
    trailers: Vec<(String, String)>,
    is_chunked: bool,
}

impl IntendedRequest {
    fn new(number: u64) -> IntendedRequest {
        let method = chance::pick(&["GET", "GET", "HEAD", "POST", "POST", "PUT", "OPTIONS", "PURGE"]);
        let version = if chance::one_in(8) { "HTTP/1.0" } else { "HTTP/1.1" };
        let has_body = matches!(method, "POST" | "PUT") || chance::one_in(10);
        let is_chunked = has_body && version == "HTTP/1.1" && chance::percent(50);
        let body_bytes = if has_body { chance::length(60_000) } else { 0 };
        let field = |index: u64| {
            let name = chance::pick(&["X-One", "x-two", "Accept", "User-Agent", "Cookie", "Accept-Encoding"]);
            (name.to_string(), format!("v{index}-{}", "y".repeat(chance::size(40))))
        };
        let fields = (0..chance::below(8)).map(field).collect();
        let trailers = match is_chunked && chance::one_in(3) {
            true => {
                let count = chance::between(1, 3);
                (0..count).map(|index| (format!("T-{index}"), format!("t{number}"))).collect()
            }
            false => Vec::new(),
        };
        IntendedRequest { number, method, version, fields, body_bytes, trailers, is_chunked }
    }

    fn target(&self) -> String {
        format!("/r/{}?n={}", self.number, self.number)
    }

    /// The bytes of the request.
    fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        // Empty lines before a request are skipped.
        if chance::one_in(12) {
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(format!("{} {} {}\r\n", self.method, self.target(), self.version).as_bytes());
        let space = chance::pick(&["", " ", "  ", "\t"]);
        out.extend_from_slice(format!("Host:{space}example.org\r\n").as_bytes());
        for (name, value) in &self.fields {
            out.extend_from_slice(format!("{name}:{space}{value}{space}\r\n").as_bytes());
        }
        if self.version == "HTTP/1.0" {
            out.extend_from_slice(b"Connection: keep-alive\r\n");
        }
        put_body(&mut out, self.number, self.body_bytes, self.is_chunked, &self.trailers, || {
            matches!(self.method, "POST" | "PUT")
        });
        out
    }
}

/// The framing fields, the end of the head, and a body.
fn put_body(
    out: &mut Vec<u8>,
    owner: u64,
    length: usize,
    is_chunked: bool,
    trailers: &[(String, String)],
    says_nothing_too: impl Fn() -> bool,
) {
    if !is_chunked {
        if length > 0 || says_nothing_too() {
            out.extend_from_slice(format!("Content-Length: {length}\r\n").as_bytes());
        }
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(&pattern(owner, length));
        return;
    }
    out.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n");
    let (body, mut at) = (pattern(owner, length), 0);
    while at < length {
        let piece =
            chance::between(1, (length - at) as u64).min(chance::pick(&[1, 15, 16, 17, 4096, 60_000]));
        let end = at + piece as usize;
        let mut line = [0; 18];
        let head = chunk_head(piece, &mut line);
        if chance::one_in(4) {
            let zeros = "0".repeat(chance::size(3));
            let extension = chance::pick(&["", ";a", ";a=b", "; a=\"q;\\\"\"", ";x=1;y"]);
            let digits = std::str::from_utf8(&head[..head.len() - 2]).unwrap().to_uppercase();
            out.extend_from_slice(format!("{zeros}{digits}{extension}\r\n").as_bytes());
        } else {
            out.extend_from_slice(head);
        }
        out.extend_from_slice(&body[at..end]);
        out.extend_from_slice(b"\r\n");
        at = end;
    }
    if trailers.is_empty() {
        out.extend_from_slice(LAST_CHUNK);
    } else {
        out.extend_from_slice(b"0\r\n");
        for (name, value) in trailers {
            out.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
        }
        out.extend_from_slice(b"\r\n");
    }
}

/// A message body that is being read, and the part that must still arrive.
#[derive(Debug)]
struct Body {
    framing: Framing,
    owner: u64,
    read: usize,
}

#[derive(Debug)]
enum Framing {
    Length(u64),
    Chunked(Box<ChunkedDecoder>),
    UntilClose,
}

impl Body {
    /// Removes the bytes of the body from the front of `input`; true when it is complete.
    fn take(&mut self, input: &mut Vec<u8>) -> bool {
        match &mut self.framing {
            Framing::Length(left) => {
                let count = input.len().min(usize::try_from(*left).unwrap());
                assert!(is_pattern(self.owner, self.read, &input[..count]), "bytes of another body");
                input.drain(..count);
                self.read += count;
                *left -= count as u64;
                *left == 0
            }
            Framing::UntilClose => {
                assert!(is_pattern(self.owner, self.read, input), "bytes of another body");
                self.read += input.len();
                input.clear();
                false
            }
            Framing::Chunked(decoder) => {
                let mut at = 0;
                let mut is_done = false;
                while at < input.len() && !is_done {
                    let decoded = decoder.decode(&input[at..]).expect("a valid chunked body was refused");
                    assert!(decoded.consumed > 0, "the decoder stands still");
                    let data = &input[at..][decoded.data.clone()];
                    assert!(is_pattern(self.owner, self.read, data), "bytes of another body");
                    self.read += data.len();
                    at += decoded.consumed;
                    is_done = decoded.done;
                }
                input.drain(..at);
                is_done
            }
        }
    }
}

/// Client, proxy and origin with the four directions between them.
struct Chain {
    to_proxy: Wire,
    to_origin: Wire,
    from_origin: Wire,
    to_client: Wire,
    unsent: VecDeque<IntendedRequest>,
    /// IntendedRequest, not answered yet, in order.
    waiting: VecDeque<IntendedRequest>,
    /// How many bytes were put in when each request, and each answer, was whole.
    request_ends: Vec<u64>,
    answer_ends: Vec<u64>,
    /// How many answers the client has read.
    answered: u64,
    proxy: Proxy,
    origin: Origin,
    client: Client,
}

#[derive(Default)]
struct Proxy {
    input: Vec<u8>,
    head: RequestHead,
    body: Option<Body>,
    /// Requests that were sent on: the method, for the answers.
    sent_on: VecDeque<bool>,
    answer: Reader,
    expected: u64,
}

#[derive(Default)]
struct Origin {
    input: Vec<u8>,
    head: RequestHead,
    body: Option<(Body, String)>,
    /// Requests that were read whole, with the lengths of their bodies.
    read: VecDeque<(u64, String, usize)>,
    /// Their number so far.
    read_in_all: u64,
}

#[derive(Default)]
struct Client {
    answer: Reader,
}

/// Reads answers.
#[derive(Default)]
struct Reader {
    input: Vec<u8>,
    head: ResponseHead,
    body: Option<(Body, u64)>,
    /// An interim answer has arrived, and the final one not yet.
    is_after_interim: bool,
}

impl Reader {
    /// Whether a part of an answer has arrived.
    fn is_within(&self) -> bool {
        self.body.is_some() || !self.input.is_empty() || self.is_after_interim
    }

    /// The number and body length of the next complete answer.
    fn next(&mut self, is_head: bool) -> Option<(u64, usize)> {
        if self.body.is_none() {
            loop {
                let parsed =
                    parse_response_head(&self.input, &mut self.head).expect("a valid answer was refused");
                let response::Parsed::Complete(length) = parsed else { return None };
                self.is_after_interim = matches!(self.head.status, 100..=199);
                self.input.drain(..length);
                if !self.is_after_interim {
                    break;
                }
            }
            let number = self.head.field(b"x-number").and_then(|value| std::str::from_utf8(value).ok());
            let number: u64 =
                number.and_then(|value| value.parse().ok()).expect("an answer without a number");
            let framing = match body_framing(is_head, &self.head) {
                BodyFraming::None => Framing::Length(0),
                BodyFraming::Length(length) => Framing::Length(length),
                BodyFraming::Chunked => Framing::Chunked(Box::default()),
                BodyFraming::UntilClose => Framing::UntilClose,
            };
            self.body = Some((Body { framing, owner: number, read: 0 }, number));
        }
        let (body, number) = self.body.as_mut()?;
        let number = *number;
        if !body.take(&mut self.input) {
            return None;
        }
        let read = body.read;
        self.body = None;
        Some((number, read))
    }
}

impl Chain {
    fn new() -> Chain {
        let count = chance::between(1, 12);
        Chain {
            to_proxy: Wire::default(),
            to_origin: Wire::default(),
            from_origin: Wire::default(),
            to_client: Wire::default(),
            unsent: (0..count).map(IntendedRequest::new).collect(),
            waiting: VecDeque::new(),
            request_ends: Vec::new(),
            answer_ends: Vec::new(),
            answered: 0,
            proxy: Proxy::default(),
            origin: Origin::default(),
            client: Client::default(),
        }
    }

    /// One of them takes a step; false if it had no step to take.
    fn turn(&mut self) -> bool {
        match chance::below(5) {
            0 => self.ask(),
            1 => self.proxy_reads_client(),
            2 => self.origin_works(),
            3 => self.proxy_reads_origin(),
            _ => self.client_reads(),
        }
    }

    fn run_until_all_is_answered(&mut self) {
        let mut still = 0;
        while !(self.unsent.is_empty() && self.waiting.is_empty()) {
            still = if self.turn() { 0 } else { still + 1 };
            assert!(still < 500, "nothing moves, and {} requests wait for answers", self.waiting.len());
        }
    }

    /// The connection to the client, or that to the origin, is cut at some moment.
    fn run_with_a_cut(mut self) {
        for _ in 0..chance::between(1, 60) {
            self.turn();
        }
        let is_client = chance::percent(50);
        let (wire, ends) = match is_client {
            true => (&mut self.to_proxy, &self.request_ends),
            false => (&mut self.from_origin, &self.answer_ends),
        };
        wire.cut();
        let arrived = wire.total_taken();
        let whole = ends.iter().filter(|end| **end <= arrived).count() as u64;
        let is_within = arrived > ends.iter().copied().filter(|end| *end <= arrived).max().unwrap_or(0);
        chance::note(|| format!("cut at {arrived}, client {is_client}: {whole} arrived whole"));
        if is_client {
            self.unsent.clear();
            // What has arrived is read, and then the connection ends.
            self.proxy_reads_client();
            let is_left = self.proxy.body.is_some() || !self.proxy.input.is_empty();
            assert_eq!(is_left, is_within, "the end is within a request, or not");
            self.waiting.retain(|asked| asked.number < whole);
            self.run_until_all_is_answered();
            assert_eq!(self.origin.read_in_all, whole, "another number of requests has reached the origin");
        } else {
            let mut still = 0;
            while still < 200 {
                still = if self.turn() { 0 } else { still + 1 };
            }
            let answer = &self.proxy.answer;
            assert_eq!(answer.is_within(), is_within, "the end is within an answer, or not");
        }
        assert_eq!(self.answered, whole, "another number of answers has come");
    }

    fn run(mut self) {
        self.run_until_all_is_answered();
        let left = [&self.to_proxy, &self.to_origin, &self.from_origin, &self.to_client];
        assert!(left.iter().all(|wire| wire.is_empty()), "bytes that belong to no message");
        assert!(self.proxy.input.is_empty() && self.origin.input.is_empty());
        assert!(self.client.answer.input.is_empty() && self.proxy.answer.input.is_empty());
    }

    fn ask(&mut self) -> bool {
        let Some(asked) = self.unsent.pop_front() else { return false };
        let bytes = asked.bytes();
        chance::note(|| format!("client asks {}: {}", asked.number, preview(&bytes)));
        self.to_proxy.put(&bytes);
        self.request_ends.push(self.to_proxy.put_in_all());
        self.waiting.push_back(asked);
        true
    }

    /// The proxy reads the bytes of the client, and sends on the valid requests.
    fn proxy_reads_client(&mut self) -> bool {
        let arrived = self.to_proxy.take(&mut self.proxy.input);
        let proxy = &mut self.proxy;
        let mut moved = arrived > 0;
        while !proxy.input.is_empty() {
            if let Some(body) = &mut proxy.body {
                if !body.take(&mut proxy.input) {
                    break;
                }
                let (owner, read) = (body.owner, body.read);
                proxy.body = None;
                let asked = self.waiting.iter().find(|asked| asked.number == owner).unwrap();
                assert_eq!(read, asked.body_bytes, "the body of request {owner} is cut or longer");
                send_on(asked, &mut self.to_origin);
                moved = true;
                continue;
            }
            let parsed = proxy.head.parse(&proxy.input, &LIMITS).expect("a valid request was refused");
            let Parsed::Complete(length) = parsed else { break };
            let asked = self.waiting.iter().find(|asked| asked.number == proxy.expected);
            let asked = asked.expect("a request that was not asked");
            proxy.expected += 1;
            check_head(&proxy.head, &proxy.input, asked);
            rebuild(&proxy.head, &proxy.input);
            proxy.sent_on.push_back(asked.method == "HEAD");
            let framing = match proxy.head.body {
                RequestBody::None => Framing::Length(0),
                RequestBody::Length(length) => Framing::Length(length),
                RequestBody::Chunked => Framing::Chunked(Box::default()),
            };
            proxy.input.drain(..length);
            let mut body = Body { framing, owner: asked.number, read: 0 };
            if matches!(proxy.head.body, RequestBody::None) {
                assert!(body.take(&mut Vec::new()));
                assert_eq!(asked.body_bytes, 0, "a body was overlooked");
                send_on(asked, &mut self.to_origin);
            } else {
                proxy.body = Some(body);
            }
            moved = true;
        }
        moved
    }

    /// The origin reads requests, and answers those that it has read.
    fn origin_works(&mut self) -> bool {
        let origin = &mut self.origin;
        let mut moved = self.to_origin.take(&mut origin.input) > 0;
        while !origin.input.is_empty() {
            if let Some((body, method)) = &mut origin.body {
                if !body.take(&mut origin.input) {
                    break;
                }
                origin.read.push_back((body.owner, method.clone(), body.read));
                origin.read_in_all += 1;
                origin.body = None;
                continue;
            }
            // Requests from the proxy are within its limits.
            let parsed = origin.head.parse(&origin.input, &Limits::NONE).expect("the proxy sent no request");
            let Parsed::Complete(length) = parsed else { break };
            let target = String::from_utf8(origin.head.target.of(&origin.input).to_vec()).unwrap();
            let number = target.rsplit_once("n=").and_then(|(_, number)| number.parse().ok()).unwrap();
            let method = String::from_utf8(origin.head.method_span.of(&origin.input).to_vec()).unwrap();
            let framing = match origin.head.body {
                RequestBody::None => Framing::Length(0),
                RequestBody::Length(length) => Framing::Length(length),
                RequestBody::Chunked => Framing::Chunked(Box::default()),
            };
            let has_body = !matches!(origin.head.body, RequestBody::None);
            origin.input.drain(..length);
            match has_body {
                true => origin.body = Some((Body { framing, owner: number, read: 0 }, method)),
                false => {
                    origin.read.push_back((number, method, 0));
                    origin.read_in_all += 1;
                }
            }
        }
        if chance::percent(60)
            && let Some((number, method, length)) = origin.read.pop_front()
        {
            answer(number, &method, length, &mut self.from_origin);
            self.answer_ends.push(self.from_origin.put_in_all());
            moved = true;
        }
        moved
    }

    /// The proxy reads answers of the origin, and writes them again for the client.
    fn proxy_reads_origin(&mut self) -> bool {
        let proxy = &mut self.proxy;
        let mut moved = self.from_origin.take(&mut proxy.answer.input) > 0;
        while let Some(&is_head) = proxy.sent_on.front() {
            let Some((number, length)) = proxy.answer.next(is_head) else { break };
            proxy.sent_on.pop_front();
            let mut out = format!("HTTP/1.1 200 OK\r\nX-Number: {number}\r\n").into_bytes();
            if is_head {
                out.extend_from_slice(b"Content-Length: 77\r\n\r\n");
            } else {
                put_body(&mut out, number, length, chance::percent(50), &[], || true);
            }
            self.to_client.put(&out);
            moved = true;
        }
        moved
    }

    fn client_reads(&mut self) -> bool {
        let mut moved = self.to_client.take(&mut self.client.answer.input) > 0;
        while let Some(first) = self.waiting.front() {
            let is_head = first.method == "HEAD";
            let Some((number, length)) = self.client.answer.next(is_head) else { break };
            let asked = self.waiting.pop_front().unwrap();
            self.answered += 1;
            chance::note(|| format!("client has the answer {number} of {length} bytes"));
            assert_eq!(number, asked.number, "the answer to another request");
            let expected = if is_head { 0 } else { asked.body_bytes };
            assert_eq!(length, expected, "an answer of another length");
            moved = true;
        }
        moved
    }
}

/// The parsed head is the sent head.
fn check_head(head: &RequestHead, bytes: &[u8], asked: &IntendedRequest) {
    assert_eq!(head.method_span.of(bytes), asked.method.as_bytes());
    assert_eq!(head.target.of(bytes), asked.target().as_bytes(), "the target of another request");
    assert_eq!(head.host.map(|host| host.of(bytes)), Some(&b"example.org"[..]));
    assert!(head.persistent, "a connection that should stay");
    let mut fields = head.fields.iter().filter(|field| {
        let name = field.name.of(bytes);
        !["host", "connection", "content-length", "transfer-encoding"]
            .iter()
            .any(|other| name.eq_ignore_ascii_case(other.as_bytes()))
    });
    for (name, value) in &asked.fields {
        let field = fields.next().expect("a field is missing");
        assert_eq!((field.name.of(bytes), field.value.of(bytes)), (name.as_bytes(), value.as_bytes()));
    }
    assert!(fields.next().is_none(), "a field that was not sent");
    match head.body {
        RequestBody::Chunked => assert!(asked.is_chunked),
        RequestBody::Length(length) => assert_eq!(length, asked.body_bytes as u64),
        RequestBody::None => assert_eq!(asked.body_bytes, 0),
    }
}

/// A head that is built from the parts of another one has the same meaning.
fn rebuild(head: &RequestHead, bytes: &[u8]) {
    let mut builder = HeadBuilder::like(head, bytes, head.target.of(bytes));
    for field in &head.fields {
        builder.field(field.name.of(bytes), field.value.of(bytes));
    }
    let (again, its_bytes, outcome) = builder.finish();
    assert_eq!(outcome, Ok(()), "what the parser takes, the builder refuses");
    assert_eq!((again.method, again.body, again.persistent), (head.method, head.body, head.persistent));
    assert_eq!((again.expectation, again.conditional), (head.expectation, head.conditional));
    let values = |head: &RequestHead, bytes: &[u8]| -> Vec<(Vec<u8>, Vec<u8>, KnownField)> {
        let parts = head.fields.iter();
        parts.map(|one| (one.name.of(bytes).to_vec(), one.value.of(bytes).to_vec(), one.known)).collect()
    };
    assert_eq!(values(&again, &its_bytes), values(head, bytes));
}

/// The request that a proxy passes on: the same with its own framing.
fn send_on(asked: &IntendedRequest, to: &mut Wire) {
    let mut out = format!("{} {} HTTP/1.1\r\nHost: origin\r\n", asked.method, asked.target()).into_bytes();
    for (name, value) in &asked.fields {
        out.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
    }
    put_body(&mut out, asked.number, asked.body_bytes, chance::percent(50), &[], || false);
    to.put(&out);
}

fn answer(number: u64, method: &str, length: usize, to: &mut Wire) {
    let mut out = Vec::new();
    for _ in 0..chance::below(3) {
        out.extend_from_slice(
            chance::pick(&["HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 103 Early\r\nA: b\r\n\r\n"]).as_bytes(),
        );
    }
    out.extend_from_slice(format!("HTTP/1.1 200 OK\r\nX-Number: {number}\r\n").as_bytes());
    if method == "HEAD" {
        out.extend_from_slice(chance::pick(&["Content-Length: 5\r\n\r\n", "\r\n"]).as_bytes());
    } else {
        put_body(&mut out, number, length, chance::percent(50), &[], || true);
    }
    chance::note(|| format!("origin answers {number}: {}", preview(&out)));
    to.put(&out);
}

fn preview(bytes: &[u8]) -> String {
    let shown = &bytes[..bytes.len().min(160)];
    format!("{} bytes: {}", bytes.len(), shown.escape_ascii())
}

/// With any changed bits there is no panic, and the verdict does not depend on the sizes of the reads.
fn run_with_changed_bits() {
    let mut wire = Wire::default();
    for number in 0..chance::between(1, 4) {
        wire.put(&IntendedRequest::new(number).bytes());
    }
    (0..chance::between(1, 3)).for_each(|_| wire.flip());
    let mut bytes = Vec::new();
    while wire.take(&mut bytes) > 0 {}
    let at_once = verdicts(&[&bytes]);
    let mut pieces: Vec<&[u8]> = Vec::new();
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(rest.len().min(chance::size(200) + 1));
        pieces.push(piece);
        rest = after;
    }
    assert_eq!(verdicts(&pieces), at_once, "the verdict depends on the cuts of {}", preview(&bytes));
}

/// What a server parses from bytes that arrive in these pieces: heads with their targets, bodies, and the
/// error.
fn verdicts(pieces: &[&[u8]]) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut input: Vec<u8> = Vec::new();
    let mut head = RequestHead::new();
    let mut body: Option<(Framing, Vec<u8>)> = None;
    for piece in pieces {
        input.extend_from_slice(piece);
        loop {
            if let Some((framing, data)) = &mut body {
                match read_any(framing, &mut input, data) {
                    Ok(false) => break,
                    Ok(true) => {
                        found.push(format!("body {}", data.escape_ascii()));
                        body = None;
                    }
                    Err(error) => {
                        found.push(error);
                        return found;
                    }
                }
            }
            match head.parse(&input, &LIMITS) {
                Ok(Parsed::Partial) => break,
                Ok(Parsed::Complete(length)) => {
                    found.push(format!("head {}", head.request_line.of(&input).escape_ascii()));
                    body = match head.body {
                        RequestBody::None => None,
                        RequestBody::Length(length) => Some((Framing::Length(length), Vec::new())),
                        RequestBody::Chunked => Some((Framing::Chunked(Box::default()), Vec::new())),
                    };
                    input.drain(..length);
                }
                Err(error) => {
                    found.push(format!("{error:?}"));
                    return found;
                }
            }
        }
    }
    found
}

fn read_any(framing: &mut Framing, input: &mut Vec<u8>, data: &mut Vec<u8>) -> Result<bool, String> {
    match framing {
        Framing::Length(left) => {
            let count = input.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
            data.extend(input.drain(..count));
            *left -= count as u64;
            Ok(*left == 0)
        }
        Framing::Chunked(decoder) => {
            let mut at = 0;
            while at < input.len() {
                let decoded = decoder.decode(&input[at..]).map_err(|error| format!("{error:?}"))?;
                data.extend_from_slice(&input[at..][decoded.data]);
                at += decoded.consumed;
                if decoded.done {
                    input.drain(..at);
                    return Ok(true);
                }
            }
            input.clear();
            Ok(false)
        }
        Framing::UntilClose => Ok(false),
    }
}
