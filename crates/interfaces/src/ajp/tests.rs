//! Tests of the codec against a separate implementation of the container's side, written from the protocol's
//! description.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use proptest::collection::vec;
use proptest::prelude::*;

use super::code::attribute;
use super::packet::{Packet, PacketLimits, WrongPacket, next_packet};
use super::writer::{RequestLine, RequestWriter, UnsupportedRequest};
use super::{Ajp, State};
use crate::backend::{Output, Protocol};

const LIMITS: PacketLimits = PacketLimits { bytes: 8192, fields: 100 };

// ---- packets of a container

fn packet(content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len()).unwrap().to_be_bytes();
    [b"AB", &length[..], content].concat()
}

fn string(text: &[u8]) -> Vec<u8> {
    [&u16::try_from(text.len()).unwrap().to_be_bytes()[..], text, &[0]].concat()
}

fn head(status: u16, fields: &[(&[u8], &[u8])]) -> Vec<u8> {
    let mut content = [&[4][..], &status.to_be_bytes(), &string(b"OK")].concat();
    content.extend_from_slice(&(fields.len() as u16).to_be_bytes());
    for (name, value) in fields {
        match name {
            [0xa0, _] => content.extend_from_slice(name),
            _ => content.extend_from_slice(&string(name)),
        }
        content.extend_from_slice(&string(value));
    }
    packet(&content)
}

fn chunk(bytes: &[u8]) -> Vec<u8> {
    packet(&[&[3][..], &string(bytes)].concat())
}

fn get_body(bytes: u16) -> Vec<u8> {
    packet(&[&[6][..], &bytes.to_be_bytes()].concat())
}

const END: &[u8] = b"AB\0\x02\x05\x01";

fn only(bytes: &[u8]) -> Result<Option<Packet>, WrongPacket> {
    next_packet(&mut BytesMut::from(bytes), LIMITS)
}

// ---- packets as a container reads them

#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    method: u8,
    texts: Vec<Option<Vec<u8>>>,
    port: u16,
    is_tls: bool,
    fields: Vec<(Vec<u8>, Vec<u8>)>,
    attributes: Vec<(u8, Vec<Vec<u8>>)>,
}

struct Cursor<'b>(&'b [u8]);

impl Cursor<'_> {
    fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap();
        self.0 = rest;
        *first
    }

    fn number(&mut self) -> u16 {
        u16::from_be_bytes([self.byte(), self.byte()])
    }

    fn string(&mut self) -> Option<Vec<u8>> {
        let length = self.number();
        (length != 0xffff).then(|| {
            let (text, rest) = self.0.split_at(usize::from(length));
            assert_eq!(rest[0], 0);
            self.0 = &rest[1..];
            text.to_vec()
        })
    }
}

fn read_request(bytes: &[u8]) -> Seen {
    assert_eq!(&bytes[..2], [0x12, 0x34]);
    assert_eq!(usize::from(u16::from_be_bytes([bytes[2], bytes[3]])), bytes.len() - 4);
    let mut cursor = Cursor(&bytes[4..]);
    assert_eq!(cursor.byte(), 2);
    let mut seen = Seen { method: cursor.byte(), ..Seen::default() };
    seen.texts = (0..5).map(|_| cursor.string()).collect();
    seen.port = cursor.number();
    seen.is_tls = cursor.byte() == 1;
    for _ in 0..cursor.number() {
        let name = match cursor.0[0] {
            0xa0 => cursor.number().to_be_bytes().to_vec(),
            _ => cursor.string().unwrap(),
        };
        seen.fields.push((name, cursor.string().unwrap()));
    }
    loop {
        let number = cursor.byte();
        let values = match number {
            0xff => break,
            0x0a => vec![cursor.string().unwrap(), cursor.string().unwrap()],
            0x0b => vec![cursor.number().to_be_bytes().to_vec()],
            _ => vec![cursor.string().unwrap()],
        };
        seen.attributes.push((number, values));
    }
    assert!(cursor.0.is_empty());
    seen
}

fn line<'a>(method: &'a [u8], uri: &'a [u8]) -> RequestLine<'a> {
    RequestLine {
        method,
        protocol: "HTTP/1.1",
        uri,
        client: Some("192.0.2.1"),
        server_name: b"www.example.org",
        server_port: 443,
        is_tls: true,
    }
}

#[test]
fn a_request_is_written_as_the_protocol_has_it() {
    let mut writer = RequestWriter::new(&line(b"GET", b"/a"));
    writer.field(b"Host", b"www.example.org");
    writer.field(b"X-A", b"1");
    writer.attribute(attribute::QUERY_STRING, b"q");
    writer.key_size(256);
    let expected = [
        &b"\x12\x34\0\x68\x02\x02"[..],
        b"\0\x08HTTP/1.1\0\0\x02/a\0\0\x09192.0.2.1\0\0\x09192.0.2.1\0\0\x0fwww.example.org\0\x01\xbb\x01",
        b"\0\x02\xa0\x0b\0\x0fwww.example.org\0\0\x03X-A\0\0\x011\0",
        b"\x05\0\x01q\0\x0b\x01\0\xff",
    ]
    .concat();
    assert_eq!(writer.finish(8192).unwrap().escape_ascii().to_string(), expected.escape_ascii().to_string());
}

#[test]
fn methods_without_a_number_follow_as_an_attribute() {
    let seen = read_request(&RequestWriter::new(&line(b"PATCH", b"/")).finish(8192).unwrap());
    assert_eq!(
        (seen.method, seen.attributes),
        (0xff, vec![(attribute::STORED_METHOD, vec![b"PATCH".to_vec()])])
    );
}

#[test]
fn what_does_not_fit_or_could_end_a_text_is_not_sent() {
    let mut base = RequestWriter::new(&line(b"GET", b"/"));
    base.field(b"X-A", b"1");
    let length = base.clone().finish(8192).unwrap().len();
    assert!(base.clone().finish(length).is_ok());
    assert_eq!(base.clone().finish(length - 1), Err(UnsupportedRequest::TooLong));
    for wrong in [&b"a\0b"[..], b"a\nb", b"a\rb"] {
        let mut value = base.clone();
        value.field(b"X-B", wrong);
        assert_eq!(value.finish(8192), Err(UnsupportedRequest::ForbiddenByte));
        let mut attribute = base.clone();
        attribute.named_attribute("a", wrong);
        assert_eq!(attribute.finish(8192), Err(UnsupportedRequest::ForbiddenByte));
    }
    for length in [0xa000, 0xffff, 0x1_0000] {
        let mut name = base.clone();
        name.field(&vec![b'a'; length], b"1");
        assert_eq!(name.finish(usize::MAX), Err(UnsupportedRequest::TooLong), "{length}");
    }
}

#[test]
fn a_head_is_read() {
    let fields: [(&[u8], &[u8]); 7] = [
        (b"\xa0\x01", b"text/plain"),
        (b"\xa0\x07", b"a=b"),
        (b"X-Free", b" c "),
        (b"\xa0\x03", b"12"),
        (b"\xa0\x04", b"Thu, 01 Jan 1970 00:00:00 GMT"),
        (b"Connection", b"close"),
        (b"\xa0\x0a", b"500"),
    ];
    let Ok(Some(Packet::Head(head))) = only(&head(201, &fields)) else { panic!("no head") };
    assert_eq!((head.status, head.content_length), (201, Some(12)));
    assert_eq!(head.fields, b"Content-Type: text/plain\r\nSet-Cookie: a=b\r\nX-Free: c\r\n");
}

#[test]
fn packets_are_refused_for_what_is_wrong_with_them() {
    let many: Vec<(&[u8], &[u8])> = vec![(b"A", b"b"); 101];
    for (bytes, expected) in [
        (b"HTTP/1.1 400".to_vec(), WrongPacket::Beginning(*b"HT")),
        (b"AB\xff\xff".to_vec(), WrongPacket::TooLong(65_539, 8192)),
        (packet(b""), WrongPacket::CutShort),
        (packet(b"\x03\0\x05abc\0"), WrongPacket::CutShort),
        (packet(b"\x04\0\xc8\0\x02OK"), WrongPacket::CutShort),
        (packet(b"\x04\0\xc8\0\x02OK\0\0\x01\0\x01A\0"), WrongPacket::CutShort),
        (packet(b"\x05"), WrongPacket::CutShort),
        (packet(b"\x06\0"), WrongPacket::CutShort),
        (packet(b"\x06\0\0"), WrongPacket::NoBytesRequested),
        (packet(b"\x02"), WrongPacket::Kind(2)),
        (head(101, &[]), WrongPacket::Status(101)),
        (head(600, &[]), WrongPacket::Status(600)),
        (head(200, &many), WrongPacket::TooManyFields(101, 100)),
        (head(200, &[(b"\xa0\x0c", b"")]), WrongPacket::FieldNumber(12)),
        (head(200, &[(b"X-A", b"a\r\nSet-Cookie: b")]), WrongPacket::Field("X-A".to_string())),
        (head(200, &[(b"X A", b"a")]), WrongPacket::Field("X A".to_string())),
        (head(200, &[(b"\xa0\x03", b"1, 1")]), WrongPacket::ContentLength),
        (head(200, &[(b"\xa0\x03", b"1"), (b"content-length", b"2")]), WrongPacket::ContentLength),
    ] {
        assert_eq!(only(&bytes), Err(expected), "{}", bytes.escape_ascii());
    }
}

#[test]
fn a_string_that_is_not_there_is_empty() {
    let Ok(Some(Packet::Head(head))) = only(&packet(b"\x04\x01\x94\xff\xff\0\0")) else { panic!("no head") };
    assert_eq!((head.status, &head.fields[..]), (404, &b""[..]));
}

// ---- the conversation

fn outputs(state: &mut State, bytes: &[u8]) -> Result<Vec<Output>, String> {
    let mut received = BytesMut::from(bytes);
    let mut all = Vec::new();
    while let Some(output) = Ajp::next(state, &mut received)? {
        all.push(output);
    }
    Ok(all)
}

#[test]
fn a_body_is_sent_as_it_is_requested() {
    let mut state = State::new(LIMITS, true);
    let mut sent = VecDeque::new();
    // The first piece is sent without a request for it.
    assert_eq!(Ajp::body_room(&state), 8186);
    Ajp::push_body(&mut state, Bytes::from_static(b"first"), &mut sent);
    assert_eq!(Ajp::body_room(&state), 0);
    assert_eq!(outputs(&mut state, &get_body(3)).unwrap(), [Output::BodyWanted]);
    assert_eq!(Ajp::body_room(&state), 3);
    Ajp::push_body(&mut state, Bytes::from_static(b"abc"), &mut sent);
    assert_eq!(outputs(&mut state, &get_body(u16::MAX)).unwrap(), [Output::BodyWanted]);
    assert_eq!(Ajp::body_room(&state), 8186);
    Ajp::end_body(&mut state, &mut sent);
    assert_eq!(Ajp::body_room(&state), 0);
    let sent: Vec<u8> = sent.into_iter().flatten().collect();
    assert_eq!(sent, b"\x12\x34\0\x07\0\x05first\x12\x34\0\x05\0\x03abc\x12\x34\0\0");
}

#[test]
fn packets_out_of_turn_are_refused() {
    let mut twice = State::new(LIMITS, true);
    assert!(outputs(&mut twice, &get_body(10)).is_err(), "the first piece is in transit");
    for (bytes, has_body) in [
        (END.to_vec(), false),
        (chunk(b"a"), false),
        ([head(200, &[]), head(200, &[])].concat(), false),
        (super::code::CPONG.to_vec(), false),
    ] {
        assert!(outputs(&mut State::new(LIMITS, has_body), &bytes).is_err(), "{}", bytes.escape_ascii());
    }
}

#[test]
fn an_answer_is_read_as_it_was_written() {
    let bytes = [&head(200, &[])[..], &chunk(b"one"), &chunk(b""), &chunk(b"two"), END].concat();
    let all = outputs(&mut State::new(LIMITS, false), &bytes).unwrap();
    let answer = |bytes: &'static [u8]| Output::Answer(Bytes::from_static(bytes));
    assert_eq!(all[1..], [answer(b"one"), answer(b"two"), Output::End { status: 0, keeps: true }]);
    let closing = [&head(200, &[])[..], b"AB\0\x02\x05\0"].concat();
    let all = outputs(&mut State::new(LIMITS, false), &closing).unwrap();
    assert_eq!(all[1], Output::End { status: 0, keeps: false });
}

proptest! {
    /// For any input: no panic, and the same packets however the bytes are split.
    #[test]
    fn any_bytes(bytes in vec(any::<u8>(), 0..200), size in 1_usize..9) {
        let bytes = [b"AB\0", &bytes[..]].concat();
        let mut pieces = Vec::new();
        let mut received = BytesMut::new();
        let mut last = Ok(None);
        'all: for piece in bytes.chunks(size) {
            received.extend_from_slice(piece);
            loop {
                last = next_packet(&mut received, LIMITS);
                match &last {
                    Ok(Some(packet)) => pieces.push(packet.clone()),
                    Ok(None) => break,
                    Err(_) => break 'all,
                }
            }
        }
        let mut whole = BytesMut::from(&bytes[..]);
        let mut expected = Vec::new();
        let end = loop {
            match next_packet(&mut whole, LIMITS) {
                Ok(Some(packet)) => expected.push(packet),
                other => break other,
            }
        };
        prop_assert_eq!((pieces, last), (expected, end));
    }

    /// The fields of a head are valid field lines, whatever a container sends.
    #[test]
    fn any_fields(fields in vec((vec(any::<u8>(), 0..6), vec(any::<u8>(), 0..12)), 0..6)) {
        let fields: Vec<(&[u8], &[u8])> = fields
            .iter()
            .filter(|(name, _)| name.first() != Some(&0xa0))
            .map(|(name, value)| (&name[..], &value[..]))
            .collect();
        if let Ok(Some(Packet::Head(head))) = only(&head(200, &fields)) {
            prop_assert_eq!(head.iter().count(), head.fields.iter().filter(|&&byte| byte == b'\n').count());
            prop_assert!(head.iter().count() <= fields.len());
        }
    }

    /// A container reads exactly what was written: no text becomes a field or an attribute.
    #[test]
    fn any_request(
        uri in vec(any::<u8>(), 0..40),
        fields in vec((vec(any::<u8>(), 1..20), vec(any::<u8>(), 0..60)), 0..6),
        attributes in vec(("[a-z.]{1,10}", vec(any::<u8>(), 0..30)), 0..4),
    ) {
        let mut writer = RequestWriter::new(&line(b"POST", &uri));
        for (name, value) in &fields {
            writer.field(name, value);
        }
        for (name, value) in &attributes {
            writer.named_attribute(name, value);
        }
        let has_forbidden = |text: &[u8]| text.iter().any(|byte| matches!(byte, 0 | b'\r' | b'\n'));
        let is_forbidden = has_forbidden(&uri)
            || fields.iter().any(|(name, value)| has_forbidden(name) || has_forbidden(value))
            || attributes.iter().any(|(_, value)| has_forbidden(value));
        match writer.finish(8192) {
            Err(problem) => prop_assert!(problem == UnsupportedRequest::ForbiddenByte && is_forbidden),
            Ok(bytes) => {
                prop_assert!(!is_forbidden);
                let seen = read_request(&bytes);
                prop_assert_eq!(seen.texts[1].as_ref(), Some(&uri));
                prop_assert_eq!(seen.fields, fields);
                let expected: Vec<_> = attributes
                    .into_iter()
                    .map(|(name, value)| (attribute::REQUEST_ATTRIBUTE, vec![name.into_bytes(), value]))
                    .collect();
                prop_assert_eq!(seen.attributes, expected);
            }
        }
    }

    /// A body is read completely from the packets, whatever the requested sizes are.
    #[test]
    fn any_body(body in vec(any::<u8>(), 0..5000), asked in vec(1_u16..700, 1..40)) {
        let mut state = State::new(LIMITS, !body.is_empty());
        let (mut sent, mut rest) = (VecDeque::new(), Bytes::from(body.clone()));
        for wanted in asked {
            let room = Ajp::body_room(&state);
            if room > 0 {
                match rest.is_empty() {
                    true => Ajp::end_body(&mut state, &mut sent),
                    false => Ajp::push_body(&mut state, rest.split_to(room.min(rest.len())), &mut sent),
                }
            }
            prop_assert_eq!(outputs(&mut state, &get_body(wanted)).unwrap(), [Output::BodyWanted]);
        }
        let bytes: Vec<u8> = sent.into_iter().flatten().collect();
        let (mut cursor, mut came) = (Cursor(&bytes), Vec::new());
        while !cursor.0.is_empty() {
            prop_assert_eq!(cursor.number(), 0x1234);
            let length = usize::from(cursor.number());
            if length > 0 {
                let data = usize::from(cursor.number());
                prop_assert_eq!(data + 2, length);
                came.extend_from_slice(&cursor.0[..data]);
                cursor.0 = &cursor.0[data..];
            }
        }
        prop_assert!(body.starts_with(&came));
    }
}
