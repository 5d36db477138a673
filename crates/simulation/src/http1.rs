//! HTTP/1 through a proxy: a client pipelines requests, a proxy parses each request and forwards a new one,
//! an origin answers, and the proxy forwards the answers. All connections split the bytes at any position.
//!
//! Invariants: each request has one answer, in order; every byte of a body arrives, and no other byte; the
//! origin reads the same message as the proxy. In some runs the connection to the client or to the origin is
//! disconnected: an incomplete message is neither a request nor an answer. In others bits of the client's
//! bytes are changed in transit: then the result must not depend on the sizes of the reads.

use std::collections::VecDeque;

use touchstone_http::chunked::{ChunkedDecoder, LAST_CHUNK, chunk_head};
use touchstone_http::request::{HeadBuilder, KnownField, Limits, Parsed, RequestBody, RequestHead};
use touchstone_http::response::{self, BodyFraming, ResponseHead, body_framing, parse_response_head};

use crate::random;
use crate::wire::{Wire, is_pattern, pattern};

const LIMITS: Limits = Limits { request_line_bytes: 8192, header_bytes: 16_384, header_fields: 64 };

/// Runs one simulation.
pub fn run() {
    match random::below(5) {
        0 => run_with_changed_bits(),
        1 => Chain::new().run_with_a_disconnect(),
        _ => Chain::new().run(),
    }
}

/// A request that the client sends.
#[derive(Debug, Clone)]
struct IntendedRequest {
    number: u64,
    method: &'static str,
    version: &'static str,
    fields: Vec<(String, String)>,
    body_bytes: usize,
    /// The trailers of a chunked body.
    trailers: Vec<(String, String)>,
    is_chunked: bool,
}

impl IntendedRequest {
    fn new(number: u64) -> IntendedRequest {
        let method = random::pick(&["GET", "GET", "HEAD", "POST", "POST", "PUT", "OPTIONS", "PURGE"]);
        let version = if random::one_in(8) { "HTTP/1.0" } else { "HTTP/1.1" };
        let has_body = matches!(method, "POST" | "PUT") || random::one_in(10);
        let is_chunked = has_body && version == "HTTP/1.1" && random::percent(50);
        let body_bytes = if has_body { random::length(60_000) } else { 0 };
        let field = |index: u64| {
            let name = random::pick(&["X-One", "x-two", "Accept", "User-Agent", "Cookie", "Accept-Encoding"]);
            (name.to_string(), format!("v{index}-{}", "y".repeat(random::size(40))))
        };
        let fields = (0..random::below(8)).map(field).collect();
        let trailers = match is_chunked && random::one_in(3) {
            true => {
                let count = random::between(1, 3);
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
        if random::one_in(12) {
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(format!("{} {} {}\r\n", self.method, self.target(), self.version).as_bytes());
        let space = random::pick(&["", " ", "  ", "\t"]);
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
    has_zero_length: impl Fn() -> bool,
) {
    if !is_chunked {
        if length > 0 || has_zero_length() {
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
            random::between(1, (length - at) as u64).min(random::pick(&[1, 15, 16, 17, 4096, 60_000]));
        let end = at + piece as usize;
        let mut line = [0; 18];
        let head = chunk_head(piece, &mut line);
        if random::one_in(4) {
            let zeros = "0".repeat(random::size(3));
            let extension = random::pick(&["", ";a", ";a=b", "; a=\"q;\\\"\"", ";x=1;y"]);
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

/// A message body that is being read.
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
                    assert!(decoded.consumed > 0, "the decoder makes no progress");
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

/// Client, proxy and origin, with the two directions of both connections.
struct Chain {
    to_proxy: Wire,
    to_origin: Wire,
    from_origin: Wire,
    to_client: Wire,
    unsent: VecDeque<IntendedRequest>,
    /// Requests that were sent and not answered, in order.
    waiting: VecDeque<IntendedRequest>,
    /// The number of written bytes at the end of each request and of each answer.
    request_ends: Vec<u64>,
    answer_ends: Vec<u64>,
    /// The number of answers that the client has read.
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
    /// For each forwarded request whether its method is HEAD.
    forwarded_is_head: VecDeque<bool>,
    answer: Reader,
    expected: u64,
}

#[derive(Default)]
struct Origin {
    input: Vec<u8>,
    head: RequestHead,
    body: Option<(Body, String)>,
    /// Requests that were read completely, with the lengths of their bodies.
    read: VecDeque<(u64, String, usize)>,
    /// The number of all requests that were read.
    total_read_requests: u64,
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
    /// An interim answer has arrived, but not the final one.
    is_after_interim: bool,
}

impl Reader {
    /// Whether a part of an answer has arrived.
    fn is_incomplete(&self) -> bool {
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
        let count = random::between(1, 12);
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

    /// Runs a step of one of them; returns false if there was none.
    fn turn(&mut self) -> bool {
        match random::below(5) {
            0 => self.send_request(),
            1 => self.proxy_reads_client(),
            2 => self.origin_works(),
            3 => self.proxy_reads_origin(),
            _ => self.client_reads(),
        }
    }

    fn run_until_all_is_answered(&mut self) {
        let mut idle_turns = 0;
        while !(self.unsent.is_empty() && self.waiting.is_empty()) {
            idle_turns = if self.turn() { 0 } else { idle_turns + 1 };
            assert!(idle_turns < 500, "no progress, and {} requests have no answers", self.waiting.len());
        }
    }

    /// Runs until the connection to the client or to the origin is disconnected at some time.
    fn run_with_a_disconnect(mut self) {
        for _ in 0..random::between(1, 60) {
            self.turn();
        }
        let is_client = random::percent(50);
        let (wire, ends) = match is_client {
            true => (&mut self.to_proxy, &self.request_ends),
            false => (&mut self.from_origin, &self.answer_ends),
        };
        wire.cut();
        let arrived = wire.total_read();
        let whole = ends.iter().filter(|end| **end <= arrived).count() as u64;
        let is_incomplete = arrived > ends.iter().copied().filter(|end| *end <= arrived).max().unwrap_or(0);
        random::note(|| format!("disconnected at {arrived}, client {is_client}: {whole} arrived completely"));
        if is_client {
            self.unsent.clear();
            // The bytes that arrived are read; then the connection ends.
            self.proxy_reads_client();
            let is_left = self.proxy.body.is_some() || !self.proxy.input.is_empty();
            assert_eq!(is_left, is_incomplete, "an incomplete request");
            self.waiting.retain(|intended| intended.number < whole);
            self.run_until_all_is_answered();
            assert_eq!(
                self.origin.total_read_requests, whole,
                "the number of requests at the origin is wrong"
            );
        } else {
            let mut idle_turns = 0;
            while idle_turns < 200 {
                idle_turns = if self.turn() { 0 } else { idle_turns + 1 };
            }
            let answer = &self.proxy.answer;
            assert_eq!(answer.is_incomplete(), is_incomplete, "an incomplete answer");
        }
        assert_eq!(self.answered, whole, "the number of answers is wrong");
    }

    fn run(mut self) {
        self.run_until_all_is_answered();
        let left = [&self.to_proxy, &self.to_origin, &self.from_origin, &self.to_client];
        assert!(left.iter().all(|wire| wire.is_empty()), "bytes outside messages");
        assert!(self.proxy.input.is_empty() && self.origin.input.is_empty());
        assert!(self.client.answer.input.is_empty() && self.proxy.answer.input.is_empty());
    }

    fn send_request(&mut self) -> bool {
        let Some(intended) = self.unsent.pop_front() else { return false };
        let bytes = intended.bytes();
        random::note(|| format!("client sends request {}: {}", intended.number, preview(&bytes)));
        self.to_proxy.put(&bytes);
        self.request_ends.push(self.to_proxy.total_written());
        self.waiting.push_back(intended);
        true
    }

    /// The proxy reads the bytes of the client, and forwards the requests.
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
                let intended = self.waiting.iter().find(|intended| intended.number == owner).unwrap();
                assert_eq!(read, intended.body_bytes, "the body of request {owner} has the wrong length");
                forward(intended, &mut self.to_origin);
                moved = true;
                continue;
            }
            let parsed = proxy.head.parse(&proxy.input, &LIMITS).expect("a valid request was refused");
            let Parsed::Complete(length) = parsed else { break };
            let intended = self.waiting.iter().find(|intended| intended.number == proxy.expected);
            let intended = intended.expect("a request that was not sent");
            proxy.expected += 1;
            check_head(&proxy.head, &proxy.input, intended);
            rebuild(&proxy.head, &proxy.input);
            proxy.forwarded_is_head.push_back(intended.method == "HEAD");
            let framing = match proxy.head.body {
                RequestBody::None => Framing::Length(0),
                RequestBody::Length(length) => Framing::Length(length),
                RequestBody::Chunked => Framing::Chunked(Box::default()),
            };
            proxy.input.drain(..length);
            let mut body = Body { framing, owner: intended.number, read: 0 };
            if matches!(proxy.head.body, RequestBody::None) {
                assert!(body.take(&mut Vec::new()));
                assert_eq!(intended.body_bytes, 0, "a body was ignored");
                forward(intended, &mut self.to_origin);
            } else {
                proxy.body = Some(body);
            }
            moved = true;
        }
        moved
    }

    /// The origin reads requests, and answers complete ones.
    fn origin_works(&mut self) -> bool {
        let origin = &mut self.origin;
        let mut moved = self.to_origin.take(&mut origin.input) > 0;
        while !origin.input.is_empty() {
            if let Some((body, method)) = &mut origin.body {
                if !body.take(&mut origin.input) {
                    break;
                }
                origin.read.push_back((body.owner, method.clone(), body.read));
                origin.total_read_requests += 1;
                origin.body = None;
                continue;
            }
            // Requests from the proxy are within its limits.
            let parsed =
                origin.head.parse(&origin.input, &Limits::NONE).expect("the proxy sent an invalid request");
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
                    origin.total_read_requests += 1;
                }
            }
        }
        if random::percent(60)
            && let Some((number, method, length)) = origin.read.pop_front()
        {
            answer(number, &method, length, &mut self.from_origin);
            self.answer_ends.push(self.from_origin.total_written());
            moved = true;
        }
        moved
    }

    /// The proxy reads answers of the origin, and forwards them to the client.
    fn proxy_reads_origin(&mut self) -> bool {
        let proxy = &mut self.proxy;
        let mut moved = self.from_origin.take(&mut proxy.answer.input) > 0;
        while let Some(&is_head) = proxy.forwarded_is_head.front() {
            let Some((number, length)) = proxy.answer.next(is_head) else { break };
            proxy.forwarded_is_head.pop_front();
            let mut out = format!("HTTP/1.1 200 OK\r\nX-Number: {number}\r\n").into_bytes();
            if is_head {
                out.extend_from_slice(b"Content-Length: 77\r\n\r\n");
            } else {
                put_body(&mut out, number, length, random::percent(50), &[], || true);
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
            let intended = self.waiting.pop_front().unwrap();
            self.answered += 1;
            random::note(|| format!("client received the answer {number} of {length} bytes"));
            assert_eq!(number, intended.number, "the answer to another request");
            let expected = if is_head { 0 } else { intended.body_bytes };
            assert_eq!(length, expected, "the answer has the wrong length");
            moved = true;
        }
        moved
    }
}

/// Checks that the parsed head is the sent head.
fn check_head(head: &RequestHead, bytes: &[u8], intended: &IntendedRequest) {
    assert_eq!(head.method_span.of(bytes), intended.method.as_bytes());
    assert_eq!(head.target.of(bytes), intended.target().as_bytes(), "the target of another request");
    assert_eq!(head.host.map(|host| host.of(bytes)), Some(&b"example.org"[..]));
    assert!(head.persistent, "the connection should be persistent");
    let mut fields = head.fields.iter().filter(|field| {
        let name = field.name.of(bytes);
        !["host", "connection", "content-length", "transfer-encoding"]
            .iter()
            .any(|other| name.eq_ignore_ascii_case(other.as_bytes()))
    });
    for (name, value) in &intended.fields {
        let field = fields.next().expect("a field is missing");
        assert_eq!((field.name.of(bytes), field.value.of(bytes)), (name.as_bytes(), value.as_bytes()));
    }
    assert!(fields.next().is_none(), "a field that was not sent");
    match head.body {
        RequestBody::Chunked => assert!(intended.is_chunked),
        RequestBody::Length(length) => assert_eq!(length, intended.body_bytes as u64),
        RequestBody::None => assert_eq!(intended.body_bytes, 0),
    }
}

/// Checks that a head that is built from the parts of another has the same meaning.
fn rebuild(head: &RequestHead, bytes: &[u8]) {
    let mut builder = HeadBuilder::like(head, bytes, head.target.of(bytes));
    for field in &head.fields {
        builder.field(field.name.of(bytes), field.value.of(bytes));
    }
    let (again, its_bytes, outcome) = builder.finish();
    assert_eq!(outcome, Ok(()), "the builder refuses a head that the parser accepts");
    assert_eq!((again.method, again.body, again.persistent), (head.method, head.body, head.persistent));
    assert_eq!(
        (again.expectation, again.has_conditions_or_range),
        (head.expectation, head.has_conditions_or_range)
    );
    let values = |head: &RequestHead, bytes: &[u8]| -> Vec<(Vec<u8>, Vec<u8>, KnownField)> {
        let parts = head.fields.iter();
        parts.map(|one| (one.name.of(bytes).to_vec(), one.value.of(bytes).to_vec(), one.known)).collect()
    };
    assert_eq!(values(&again, &its_bytes), values(head, bytes));
}

/// Writes the request of the proxy: the same request with its own framing.
fn forward(intended: &IntendedRequest, to: &mut Wire) {
    let mut out =
        format!("{} {} HTTP/1.1\r\nHost: origin\r\n", intended.method, intended.target()).into_bytes();
    for (name, value) in &intended.fields {
        out.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
    }
    put_body(&mut out, intended.number, intended.body_bytes, random::percent(50), &[], || false);
    to.put(&out);
}

fn answer(number: u64, method: &str, length: usize, to: &mut Wire) {
    let mut out = Vec::new();
    for _ in 0..random::below(3) {
        out.extend_from_slice(
            random::pick(&["HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 103 Early\r\nA: b\r\n\r\n"]).as_bytes(),
        );
    }
    out.extend_from_slice(format!("HTTP/1.1 200 OK\r\nX-Number: {number}\r\n").as_bytes());
    if method == "HEAD" {
        out.extend_from_slice(random::pick(&["Content-Length: 5\r\n\r\n", "\r\n"]).as_bytes());
    } else {
        put_body(&mut out, number, length, random::percent(50), &[], || true);
    }
    random::note(|| format!("origin answers {number}: {}", preview(&out)));
    to.put(&out);
}

fn preview(bytes: &[u8]) -> String {
    let shown = &bytes[..bytes.len().min(160)];
    format!("{} bytes: {}", bytes.len(), shown.escape_ascii())
}

/// Checks that changed bits cause no panic, and that the result does not depend on the sizes of the reads.
fn run_with_changed_bits() {
    let mut wire = Wire::default();
    for number in 0..random::between(1, 4) {
        wire.put(&IntendedRequest::new(number).bytes());
    }
    (0..random::between(1, 3)).for_each(|_| wire.flip_bit());
    let mut bytes = Vec::new();
    while wire.take(&mut bytes) > 0 {}
    let at_once = parse_results(&[&bytes]);
    let mut pieces: Vec<&[u8]> = Vec::new();
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(rest.len().min(random::size(200) + 1));
        pieces.push(piece);
        rest = after;
    }
    assert_eq!(parse_results(&pieces), at_once, "the result depends on the pieces of {}", preview(&bytes));
}

/// The results of a server that parses bytes in these pieces: heads with their targets, bodies, and the
/// error.
fn parse_results(pieces: &[&[u8]]) -> Vec<String> {
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
