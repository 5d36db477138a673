use super::*;
use proptest::prelude::*;
use touchstone_http::h3::frame::{FrameType, append, append_goaway};
use touchstone_http::h3::qpack;

fn section(status: u16, fields: &[(&str, &str)]) -> Vec<u8> {
    let (mut section, mut bytes) = (Vec::new(), Vec::new());
    let fields = fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
    qpack::encode_response(status, fields, &mut section);
    append(FrameType::HEADERS, &section, &mut bytes);
    bytes
}

fn data(body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    append(FrameType::DATA, body, &mut bytes);
    bytes
}

/// The result of a request stream that ends after these bytes, received in pieces.
fn read(bytes: &[u8], piece: usize, is_head: bool) -> (StreamEvent, Vec<u8>) {
    let (mut stream, mut fields) = (Stream::new(is_head), FieldList::new());
    let mut body = Vec::new();
    for piece in bytes.chunks(piece) {
        let mut take = |_, part: &[u8]| body.extend_from_slice(part);
        if stream.receive(piece, &mut fields, 0, &mut take).is_err() {
            return (StreamEvent::Malformed { slot: 0 }, body);
        }
    }
    (stream.end(0), body)
}

fn answered(status: u16, bytes: u64, body_bytes: u64) -> StreamEvent {
    StreamEvent::Answered { slot: 0, answer: Answer { status, keeps_connection: true, bytes, body_bytes } }
}

#[test]
fn answers_are_counted_in_any_pieces() {
    let mut unknown = Vec::new();
    append(FrameType(0x21), b"grease", &mut unknown);
    let trailers = {
        let (mut section, mut bytes) = (Vec::new(), Vec::new());
        qpack::encode_fields([(&b"x-sum"[..], &b"1"[..])], &mut section);
        append(FrameType::HEADERS, &section, &mut bytes);
        bytes
    };
    let parts = [
        section(103, &[("link", "</x>")]),
        unknown,
        section(200, &[("content-length", "5")]),
        data(b"ab"),
        data(b"cde"),
        trailers,
    ];
    let bytes = parts.concat();
    for piece in [1, 2, 7, 1000] {
        let (event, body) = read(&bytes, piece, false);
        assert_eq!((event, &body[..]), (answered(200, bytes.len() as u64, 5), &b"abcde"[..]), "{piece}");
    }
    let head = section(200, &[("content-length", "5")]);
    assert_eq!(read(&head, 100, true).0, answered(200, head.len() as u64, 0));
}

#[test]
fn invalid_and_incomplete_answers_are_errors() {
    let head = section(200, &[("content-length", "5")]);
    let frame = |kind: FrameType| {
        let mut bytes = head.clone();
        append(kind, b"", &mut bytes);
        bytes
    };
    for bytes in [
        Vec::new(),
        data(b"before the head"),
        section(103, &[]),
        [head.clone(), head.clone()].concat(),
        section(200, &[("content-length", "x")]),
        frame(FrameType::SETTINGS),
        frame(FrameType::PUSH_PROMISE),
        frame(FrameType(0x2)),
    ] {
        assert_eq!(read(&bytes, 1000, false).0, StreamEvent::Malformed { slot: 0 }, "{bytes:?}");
    }
    for bytes in
        [head.clone(), [head.clone(), data(b"abcd")].concat(), [&head[..], &data(b"abcde")[..4]].concat()]
    {
        assert_eq!(read(&bytes, 1000, false).0, StreamEvent::ShortBody { slot: 0 }, "{bytes:?}");
    }
}

fn goaways(bytes: &[u8], piece: usize) -> Vec<u64> {
    let (mut stream, mut critical) = (UnidirectionalStream::new(Sender::Server), CriticalStreams::default());
    bytes.chunks(piece).filter_map(|piece| read_goaway(&mut stream, &mut critical, piece)).collect()
}

#[test]
fn goaway_on_the_control_stream_is_read() {
    let mut bytes = Vec::new();
    varint::append(unidirectional::CONTROL, &mut bytes);
    settings::append(&[], &mut bytes);
    append_goaway(400, &mut bytes);
    for piece in [1, 3, 100] {
        assert_eq!(goaways(&bytes, piece), [400]);
    }
    bytes[0] = unidirectional::QPACK_ENCODER as u8;
    assert!(goaways(&bytes, 100).is_empty());
}

proptest! {
    #[test]
    fn any_bytes_have_the_same_result_in_any_pieces(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        prefix in 0usize..4,
        piece in 1usize..40,
        is_head: bool,
    ) {
        let good =
            [Vec::new(), section(200, &[]), [section(200, &[]), data(b"abc")].concat(), vec![0x01, 0x05]];
        let bytes = [good[prefix].clone(), bytes].concat();
        prop_assert_eq!(read(&bytes, bytes.len().max(1), is_head).0, read(&bytes, piece, is_head).0);
        let at_once = goaways(&bytes, bytes.len().max(1)).pop();
        prop_assert_eq!(goaways(&bytes, piece).pop(), at_once);
    }
}
