//! The streams of HTTP/3: requests and the control stream of a client, on a network that loses, repeats and
//! reorders packets, so that bytes of different streams arrive in any order, and bytes of one stream in
//! pieces. The client reads the answers with the code that both sides share.
//!
//! Invariants: each request arrives as it was sent, with its whole body and its trailers, independent of
//! other streams; frames of unknown types are ignored; an incomplete stream is an error, not a request. In
//! some runs bits are changed: then the result does not depend on the pieces.

use std::collections::BTreeMap;

use touchstone_http::h2::hpack::FieldList;
use touchstone_http::h3::frame::{self, FrameItem, FrameReader, FrameType};
use touchstone_http::h3::settings::{self, SettingId};
use touchstone_http::h3::unidirectional::{CONTROL, QPACK_ENCODER};
use touchstone_http::h3::{
    ControlEvent, CriticalStreams, Received, RequestStream, SectionLimits, UnidirectionalStream, qpack,
    varint,
};

use crate::random;
use crate::wire::{is_pattern, pattern};

const LIMITS: SectionLimits = SectionLimits { bytes: 64 * 1024, fields: 100 };

/// The maximum number of bytes of a stream in a packet.
const MOST_PACKET_BYTES: usize = 1200;

type Field = (Vec<u8>, Vec<u8>);

/// Runs one simulation.
pub fn run() {
    if random::one_in(6) { run_with_changed_bits() } else { run_with_requests() }
}

/// A request, and the state of its stream at the server.
struct Request {
    bytes: Vec<u8>,
    fields: Vec<Field>,
    trailers: Vec<Field>,
    body_bytes: usize,
    number: u64,
    /// The stream is reset before its end.
    is_cut: bool,
    stream: RequestStream,
    has_head: bool,
    read: usize,
    has_trailers: bool,
}

impl Request {
    fn new(number: u64) -> Request {
        let has_body = random::percent(50);
        let body_bytes = if has_body { random::length(40_000) } else { 0 };
        let has_length = has_body && random::percent(50);
        let mut fields: Vec<Field> = vec![
            (b":method".to_vec(), if has_body { b"POST".to_vec() } else { b"GET".to_vec() }),
            (b":scheme".to_vec(), b"https".to_vec()),
            (b":authority".to_vec(), b"example.org".to_vec()),
            (b":path".to_vec(), format!("/{number}").into_bytes()),
        ];
        if has_length {
            fields.push((b"content-length".to_vec(), body_bytes.to_string().into_bytes()));
        }
        for index in 0..random::below(8) {
            let value = format!("{}{}", random::below(9), "v".repeat(random::size(300)));
            fields.push((format!("x-{index}").into_bytes(), value.into_bytes()));
        }
        let trailers = match has_body && random::one_in(3) {
            true => vec![(b"checksum".to_vec(), number.to_string().into_bytes())],
            false => Vec::new(),
        };
        let mut bytes = Vec::new();
        put_unknown_frame(&mut bytes);
        put_section(&fields, &mut bytes);
        let (body, mut at) = (pattern(number, body_bytes), 0);
        while at < body_bytes {
            put_unknown_frame(&mut bytes);
            let end = at + (random::size(body_bytes - at) + 1).min(random::pick(&[1, 63, 64, 5000, 40_000]));
            frame::append(FrameType::DATA, &body[at..end], &mut bytes);
            at = end;
        }
        if !trailers.is_empty() {
            put_section(&trailers, &mut bytes);
        }
        put_unknown_frame(&mut bytes);
        let is_cut = random::one_in(8);
        if is_cut {
            bytes.truncate(random::size(bytes.len()));
        }
        Request {
            bytes,
            fields,
            trailers,
            body_bytes,
            number,
            is_cut,
            stream: RequestStream::new(LIMITS),
            has_head: false,
            read: 0,
            has_trailers: false,
        }
    }

    /// Processes bytes of the stream, in order.
    fn receive(&mut self, bytes: &[u8]) {
        let (mut rest, mut list) = (bytes, FieldList::new());
        loop {
            let (taken, received) = self.stream.receive(rest, &mut list).expect("a valid stream is refused");
            match received {
                Received::Nothing => break,
                Received::Head(head) => {
                    assert!(!self.has_head, "a second request on a stream");
                    let view = head.view(&list);
                    assert_eq!(
                        view.path(),
                        format!("/{}", self.number).as_bytes(),
                        "the path of another request"
                    );
                    let expected: Vec<&Field> =
                        self.fields.iter().filter(|(name, _)| !name.starts_with(b":")).collect();
                    let found: Vec<Field> =
                        view.fields().map(|field| (field.name.to_vec(), field.value.to_vec())).collect();
                    assert_eq!(found.iter().collect::<Vec<_>>(), expected);
                    self.has_head = true;
                }
                Received::Data(range) => {
                    assert!(self.has_head && !self.has_trailers);
                    assert!(
                        is_pattern(self.number, self.read, &rest[range.clone()]),
                        "bytes of another body"
                    );
                    self.read += range.len();
                }
                Received::Trailers => {
                    let found = touchstone_http::h3::trailers(&list);
                    let found: Vec<Field> =
                        found.map(|field| (field.name.to_vec(), field.value.to_vec())).collect();
                    assert_eq!(found, self.trailers);
                    assert!(!self.has_trailers);
                    self.has_trailers = true;
                }
            }
            rest = &rest[taken..];
        }
    }

    /// Checks the request at the end of the stream.
    fn finish(&self) {
        let finished = self.stream.finish();
        if self.is_cut {
            // A stream that is cut between frames can be a complete request, with a shorter body without a
            // stated length.
            assert!(self.read <= self.body_bytes);
            return;
        }
        assert!(finished.is_ok(), "a complete request is refused: {finished:?}");
        assert!(self.has_head, "a request has not arrived");
        assert_eq!(self.read, self.body_bytes, "the body has the wrong length");
        assert_eq!(self.has_trailers, !self.trailers.is_empty());
    }
}

fn put_section(fields: &[Field], out: &mut Vec<u8>) {
    let mut section = Vec::new();
    qpack::encode_fields(fields.iter().map(|(name, value)| (&name[..], &value[..])), &mut section);
    frame::append(FrameType::HEADERS, &section, out);
}

fn put_unknown_frame(out: &mut Vec<u8>) {
    if random::one_in(4) {
        let kind = FrameType(0x21 + 0x1f * random::below(1000));
        frame::append(kind, &vec![b'?'; random::size(200)], out);
    }
}

/// The bytes of a stream in transit: they arrive in any order, and some twice.
struct ReorderedStream {
    bytes: Vec<u8>,
    /// The packets that are in transit or must be sent again: the start and the end of their bytes.
    packets: Vec<(usize, usize)>,
    /// The ranges that arrived beyond `delivered`.
    early: BTreeMap<usize, usize>,
    delivered: usize,
}

impl ReorderedStream {
    fn new(bytes: Vec<u8>) -> ReorderedStream {
        let (mut packets, mut at) = (Vec::new(), 0);
        while at < bytes.len() {
            let end = bytes.len().min(at + random::size(random::pick(&[1, 10, MOST_PACKET_BYTES])) + 1);
            packets.push((at, end));
            at = end;
        }
        ReorderedStream { bytes, packets, early: BTreeMap::new(), delivered: 0 }
    }

    fn is_delivered(&self) -> bool {
        self.delivered == self.bytes.len()
    }

    /// Delivers or loses a packet; returns the bytes that are now available in order.
    fn step(&mut self) -> &[u8] {
        let from = self.delivered;
        if !self.packets.is_empty() {
            let place = random::size(self.packets.len().min(8));
            let (start, end) = self.packets[place];
            let (is_lost, is_repeated) = (random::one_in(10), random::one_in(20));
            if !is_lost {
                self.early.insert(start, end);
                if !is_repeated {
                    self.packets.remove(place);
                }
            }
        }
        while let Some((start, end)) = self.early.first_key_value().map(|(start, end)| (*start, *end)) {
            if start > self.delivered {
                break;
            }
            self.early.remove(&start);
            self.delivered = self.delivered.max(end);
        }
        &self.bytes[from..self.delivered]
    }
}

fn run_with_requests() {
    let mut requests: Vec<Request> = (0..random::between(1, 10)).map(Request::new).collect();
    let mut streams: Vec<ReorderedStream> =
        requests.iter().map(|request| ReorderedStream::new(request.bytes.clone())).collect();
    let (control, expected) = control_stream();
    let mut others: Vec<(ReorderedStream, UnidirectionalStream)> =
        [control, unidirectional_stream(QPACK_ENCODER), unknown_stream()]
            .into_iter()
            .map(|bytes| (ReorderedStream::new(bytes), UnidirectionalStream::default()))
            .collect();
    let (mut critical, mut events) = (CriticalStreams::default(), Vec::new());
    let mut finished = vec![false; requests.len()];
    let mut answers = AnswerCheck::default();
    while finished.iter().any(|is_finished| !is_finished)
        || others.iter().any(|(sending, _)| !sending.is_delivered())
    {
        let place = random::size(requests.len() + others.len());
        if let Some(request) = requests.get_mut(place) {
            let bytes = streams[place].step();
            random::note(|| format!("stream {place}: {} bytes arrive", bytes.len()));
            request.receive(bytes);
            if streams[place].is_delivered() && !finished[place] {
                finished[place] = true;
                request.finish();
                if !request.is_cut {
                    answers.check(request.number, request.body_bytes);
                }
            }
        } else {
            let (sending, stream) = &mut others[place - requests.len()];
            let received = stream.receive(sending.step(), &mut critical, |event| events.push(event));
            received.expect("a valid stream is refused");
        }
    }
    assert_eq!(events, expected, "the events of the control stream");
}

fn control_stream() -> (Vec<u8>, Vec<ControlEvent>) {
    let mut bytes = unidirectional_stream(CONTROL);
    let table = random::below(10_000);
    settings::append(
        &[(SettingId::QPACK_MAX_TABLE_CAPACITY, table), (SettingId(0x21 + 0x1f * 7), 3)],
        &mut bytes,
    );
    let chosen = settings::PeerSettings { table_bytes: table, ..Default::default() };
    let mut expected = vec![ControlEvent::Settings(chosen)];
    put_unknown_frame(&mut bytes);
    if random::one_in(3) {
        frame::append_goaway(0, &mut bytes);
        expected.push(ControlEvent::GoAway(0));
    }
    put_unknown_frame(&mut bytes);
    (bytes, expected)
}

fn unidirectional_stream(kind: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    varint::append(kind, &mut bytes);
    bytes
}

fn unknown_stream() -> Vec<u8> {
    let mut bytes = unidirectional_stream(0x21 + 0x1f * random::below(1000));
    bytes.extend(std::iter::repeat_n(b'?', random::size(500)));
    bytes
}

/// Reads answers as a client does, and checks them.
#[derive(Default)]
struct AnswerCheck {
    list: FieldList,
}

impl AnswerCheck {
    /// Writes an answer as the server does, and checks that it is read correctly in pieces.
    fn check(&mut self, number: u64, length: usize) {
        let (text, body) = (number.to_string(), pattern(number, length));
        let long = "L".repeat(random::size(2000));
        let fields: [(&[u8], &[u8]); 3] =
            [(b"x-number", text.as_bytes()), (b"content-type", b"text/html"), (b"x-long", long.as_bytes())];
        let (mut section, mut bytes) = (Vec::new(), Vec::new());
        qpack::encode_response(200, fields, &mut section);
        frame::append(FrameType::HEADERS, &section, &mut bytes);
        frame::append_header(FrameType::DATA, length as u64, &mut bytes);
        bytes.extend_from_slice(&body);
        let (mut reader, mut kind) = (FrameReader::new(), FrameType::DATA);
        let (mut head, mut read) = (Vec::new(), 0);
        let mut sending = ReorderedStream::new(bytes);
        while !sending.is_delivered() {
            let mut input = sending.step();
            while let Some(step) = reader.next(&mut input) {
                match step {
                    FrameItem::Start { kind: started, .. } => kind = started,
                    FrameItem::Payload { bytes, .. } if kind == FrameType::HEADERS => {
                        head.extend_from_slice(bytes)
                    }
                    FrameItem::Payload { bytes, .. } => {
                        assert!(is_pattern(number, read, bytes));
                        read += bytes.len();
                    }
                }
            }
        }
        self.list.clear();
        assert_eq!(qpack::decode(&head, LIMITS, &mut self.list), Ok(false));
        let found = self.list.fields().iter().map(|field| (self.list.name(field), self.list.value(field)));
        let status: (&[u8], &[u8]) = (b":status", b"200");
        assert!(found.eq(std::iter::once(status).chain(fields)), "the answer has other fields");
        assert_eq!(read, length);
    }
}

/// Checks that changed bits cause no panic, and that the result does not depend on the pieces.
fn run_with_changed_bits() {
    let is_request = random::percent(70);
    let mut bytes = if is_request { Request::new(1).bytes } else { control_stream().0 };
    for _ in 0..random::between(1, 3) {
        if !bytes.is_empty() {
            let at = random::size(bytes.len());
            bytes[at] ^= 1 << random::below(8);
        }
    }
    let most = random::size(300) + 1;
    let found = |most: usize| {
        if is_request { found_in_request(&bytes, most) } else { found_in_control(&bytes, most) }
    };
    assert_eq!(found(most), found(usize::MAX), "the result depends on the pieces");
}

fn found_in_request(bytes: &[u8], most: usize) -> Vec<String> {
    let (mut stream, mut list) = (RequestStream::new(LIMITS), FieldList::new());
    let (mut found, mut body) = (Vec::new(), Vec::new());
    for piece in bytes.chunks(most.min(bytes.len().max(1))) {
        let mut rest = piece;
        loop {
            let (taken, received) = match stream.receive(rest, &mut list) {
                Ok(received) => received,
                Err(error) => {
                    found.push(format!("{error:?}"));
                    return found;
                }
            };
            match received {
                Received::Nothing => break,
                Received::Head(head) => found.push(format!("{:?}", head.view(&list))),
                Received::Data(range) => body.extend_from_slice(&rest[range]),
                Received::Trailers => found.push(format!("trailers {}", list.len())),
            }
            rest = &rest[taken..];
        }
    }
    found.push(format!("{:?} {}", stream.finish(), body.escape_ascii()));
    found
}

fn found_in_control(bytes: &[u8], most: usize) -> Vec<String> {
    let (mut stream, mut critical) = (UnidirectionalStream::default(), CriticalStreams::default());
    let mut found = Vec::new();
    for piece in bytes.chunks(most.min(bytes.len().max(1))) {
        let received = stream.receive(piece, &mut critical, |event| found.push(format!("{event:?}")));
        if let Err(error) = received {
            found.push(format!("{error:?}"));
            return found;
        }
    }
    found
}
