//! Tests of the whole codec: written records are read again, however they are split, and no input causes a
//! panic.

use bytes::BytesMut;
use proptest::collection::vec;
use proptest::prelude::*;

use super::FastCgi;
use super::decoder::{Decoder, Event};
use super::encoder::{RequestWriter, append_record};
use super::pairs::{self, Pairs, TruncatedPair};
use super::record::{
    Header, KEEP_CONNECTION, LONGEST_CONTENT_BYTES, ProtocolStatus, RecordType, Role, WrongBytes,
};
use crate::backend::{Output, Protocol};

/// Appends END_REQUEST, which a program sends.
fn append_end(request_id: u16, application_status: u32, status: ProtocolStatus, out: &mut Vec<u8>) {
    let [a, b, c, d] = application_status.to_be_bytes();
    append_record(RecordType::EndRequest, request_id, &[a, b, c, d, status.number(), 0, 0, 0], out);
}

/// Appends a stream of any length and its end.
fn append_stream(stream: RecordType, request_id: u16, content: &[u8], out: &mut Vec<u8>) {
    for piece in content.chunks(LONGEST_CONTENT_BYTES) {
        append_record(stream, request_id, piece, out);
    }
    append_record(stream, request_id, &[], out);
}

/// All events of these bytes, received in pieces of this size; pieces of streams are joined.
fn decode(bytes: &[u8], piece_bytes: usize) -> Result<Vec<Event>, WrongBytes> {
    let (mut decoder, mut received, mut events) = (Decoder::new(), BytesMut::new(), Vec::new());
    for piece in bytes.chunks(piece_bytes.max(1)) {
        received.extend_from_slice(piece);
        while let Some(event) = decoder.next(&mut received)? {
            join(&mut events, event);
        }
    }
    Ok(events)
}

fn join(events: &mut Vec<Event>, event: Event) {
    if let (
        Some(Event::Stream { stream, request_id, bytes }),
        Event::Stream { stream: next_stream, request_id: next_id, bytes: next },
    ) = (events.last_mut(), &event)
        && (*stream, *request_id) == (*next_stream, *next_id)
    {
        *bytes = [&bytes[..], next].concat().into();
        return;
    }
    events.push(event);
}

fn stream(stream: RecordType, bytes: &[u8]) -> Event {
    Event::Stream { stream, request_id: 1, bytes: bytes.to_vec().into() }
}

fn stream_end(stream: RecordType) -> Event {
    Event::StreamEnd { stream, request_id: 1 }
}

#[test]
fn a_request_as_the_specification_shows_it() {
    let mut writer = RequestWriter::new(1, Role::Responder, KEEP_CONNECTION, Vec::new());
    writer.parameter(b"SERVER_PORT", b"80");
    let mut bytes = writer.finish();
    append_stream(RecordType::Stdin, 1, b"quantity=100", &mut bytes);
    let expected = [
        &b"\x01\x01\x00\x01\x00\x08\x00\x00\x00\x01\x01\x00\x00\x00\x00\x00"[..],
        b"\x01\x04\x00\x01\x00\x0f\x00\x00\x0b\x02SERVER_PORT80",
        b"\x01\x04\x00\x01\x00\x00\x00\x00",
        b"\x01\x05\x00\x01\x00\x0c\x00\x00quantity=100",
        b"\x01\x05\x00\x01\x00\x00\x00\x00",
    ];
    assert_eq!(bytes, expected.concat());
    let expected = [
        Event::Begin { request_id: 1, role: 1, flags: 1 },
        stream(RecordType::Params, b"\x0b\x02SERVER_PORT80"),
        stream_end(RecordType::Params),
        stream(RecordType::Stdin, b"quantity=100"),
        stream_end(RecordType::Stdin),
    ];
    assert_eq!(decode(&bytes, usize::MAX).unwrap(), expected);
}

#[test]
fn a_request_without_parameters() {
    let bytes = RequestWriter::new(1, Role::Responder, 0, Vec::new()).finish();
    let begin = Event::Begin { request_id: 1, role: 1, flags: 0 };
    assert_eq!(decode(&bytes, 3).unwrap(), [begin, stream_end(RecordType::Params)]);
}

#[test]
fn an_answer_with_padding_and_both_streams() {
    // As php-fpm sends it: padded to eight bytes, without ends of streams.
    let mut bytes = b"\x01\x06\x00\x01\x00\x03\x05\x00abc\0\0\0\0\0".to_vec();
    append_record(RecordType::Stderr, 1, b"PHP Warning", &mut bytes);
    append_end(1, 3, ProtocolStatus::RequestComplete, &mut bytes);
    let expected = [
        stream(RecordType::Stdout, b"abc"),
        stream(RecordType::Stderr, b"PHP Warning"),
        Event::End { request_id: 1, application_status: 3, protocol_status: ProtocolStatus::RequestComplete },
    ];
    for piece_bytes in [1, 7, 8, 9, 1000] {
        assert_eq!(decode(&bytes, piece_bytes).unwrap(), expected, "in pieces of {piece_bytes}");
    }
}

#[test]
fn management_records_and_unknown_ones() {
    let mut bytes = Vec::new();
    append_record(RecordType::GetValuesResult, 0, b"\x0f\x01FCGI_MPXS_CONNS0", &mut bytes);
    append_record(RecordType::UnknownType, 0, b"\x63\0\0\0\0\0\0\0", &mut bytes);
    bytes.extend_from_slice(b"\x01\x63\x00\x00\x00\x03\x01\x00abc\0");
    append_record(RecordType::AbortRequest, 1, b"", &mut bytes);
    let pairs = b"\x0f\x01FCGI_MPXS_CONNS0".to_vec().into();
    let expected = [
        Event::Values { is_result: true, pairs },
        Event::UnknownType(0x63),
        Event::Unknown { record_type: 0x63, request_id: 0 },
        Event::Abort { request_id: 1 },
    ];
    assert_eq!(decode(&bytes, 5).unwrap(), expected);
}

#[test]
fn long_parameters_take_several_records() {
    let value = vec![b'v'; 150_000];
    let mut writer = RequestWriter::new(1, Role::Responder, 0, Vec::new());
    writer.parameter(b"LONG", &value);
    let events = decode(&writer.finish(), 10_000).unwrap();
    let [Event::Begin { .. }, Event::Stream { bytes, .. }, Event::StreamEnd { .. }] = events.as_slice()
    else {
        panic!("{} events", events.len());
    };
    assert_eq!(Pairs::new(bytes).next(), Some(Ok((&b"LONG"[..], value.as_slice()))));
}

#[test]
fn bytes_that_are_not_fastcgi() {
    assert_eq!(decode(b"HTTP/1.1 400 Bad Request\r\n", 100), Err(WrongBytes::Version(b'H')));
    let mut short = Vec::new();
    append_record(RecordType::EndRequest, 1, b"1234", &mut short);
    assert_eq!(decode(&short, 100), Err(WrongBytes::Length(RecordType::EndRequest, 4)));
}

#[test]
fn pairs_that_are_cut_short() {
    for bytes in
        [&b"\x01"[..], b"\x01\x01a", b"\x80\x00\x00", b"\x80\x00\x00\x05\x00abcd", b"\xff\xff\xff\xff\x00a"]
    {
        assert_eq!(Pairs::new(bytes).collect::<Vec<_>>(), [Err(TruncatedPair)], "{bytes:?}");
    }
}

fn records() -> impl Strategy<Value = Vec<u8>> {
    let record = (0u8..13, 0u16..3, vec(any::<u8>(), 0..40), 0u8..9).prop_map(
        |(record_type, request_id, mut content, padding_bytes)| {
            if let Some(length) = RecordType::from_number(record_type).and_then(RecordType::fixed_length) {
                content.resize(usize::from(length), 0);
            }
            let content_bytes = content.len() as u16;
            let header = Header { record_type, request_id, content_bytes, padding_bytes };
            [&header.bytes()[..], &content, &vec![0; usize::from(padding_bytes)]].concat()
        },
    );
    vec(record, 0..8).prop_map(|records| records.concat())
}

proptest! {
    /// However received bytes are split, the events are the same.
    #[test]
    fn pieces_do_not_matter(bytes in records(), piece_bytes in 1usize..50) {
        let whole = decode(&bytes, usize::MAX);
        prop_assert!(whole.is_ok());
        prop_assert_eq!(decode(&bytes, piece_bytes), whole);
    }

    #[test]
    fn pairs_are_read_back(all in vec((vec(any::<u8>(), 0..200), vec(any::<u8>(), 0..200)), 0..10)) {
        let mut bytes = Vec::new();
        for (name, value) in &all {
            pairs::append(name, &[&value[..]], &mut bytes);
        }
        let read: Result<Vec<_>, _> = Pairs::new(&bytes).collect();
        let read: Vec<_> =
            read.unwrap().into_iter().map(|(name, value)| (name.to_vec(), value.to_vec())).collect();
        prop_assert_eq!(read, all);
    }

    /// A stream of any length is returned, with its end, and no record is too long.
    #[test]
    fn streams_are_read_back(length in 0usize..200_000, piece_bytes in 1usize..70_000) {
        let content: Vec<u8> = (0..length).map(|index| index as u8).collect();
        let mut bytes = Vec::new();
        append_stream(RecordType::Stdin, 1, &content, &mut bytes);
        let mut expected = vec![stream_end(RecordType::Stdin)];
        if length > 0 {
            expected.insert(0, stream(RecordType::Stdin, &content));
        }
        prop_assert_eq!(decode(&bytes, piece_bytes).unwrap(), expected);
    }

    #[test]
    fn no_bytes_panic(bytes in vec(any::<u8>(), 0..300), piece_bytes in 1usize..20) {
        let _ = decode(&bytes, piece_bytes);
        let with_version: Vec<u8> =
            bytes.iter().enumerate().map(|(at, byte)| if at == 0 { 1 } else { *byte }).collect();
        let _ = decode(&with_version, piece_bytes);
        let _ = Pairs::new(&bytes).count();
    }
}

/// The answer that the decoder finds: its pieces joined, if the bytes end with the answer and contain no
/// other output.
fn answer_of_the_decoder(bytes: &[u8]) -> Option<Vec<u8>> {
    let (mut decoder, mut received) = (Decoder::new(), BytesMut::from(bytes));
    let mut answer = Vec::new();
    loop {
        match FastCgi::next(&mut decoder, &mut received) {
            Ok(Some(Output::Answer(piece))) => answer.extend_from_slice(&piece),
            Ok(Some(Output::End { keeps: true, .. })) => break,
            _ => return None,
        }
    }
    // Padding of the last record.
    let padding_only = matches!(FastCgi::next(&mut decoder, &mut received), Ok(None)) && received.is_empty();
    padding_only.then_some(answer)
}

fn whole(bytes: &[u8]) -> Option<Vec<u8>> {
    FastCgi::whole_answer(bytes).map(|answer| [&[answer.first], answer.more.as_slice()].concat().concat())
}

#[test]
fn a_whole_answer_is_found_where_it_lies() {
    let mut bytes = Vec::new();
    append_record(RecordType::Stdout, 1, b"Content-Type: text/plain\r\n\r\nab", &mut bytes);
    append_record(RecordType::Stdout, 1, b"cd", &mut bytes);
    append_record(RecordType::Stdout, 1, b"", &mut bytes);
    append_end(1, 7, ProtocolStatus::RequestComplete, &mut bytes);
    assert_eq!(whole(&bytes).unwrap(), b"Content-Type: text/plain\r\n\r\nabcd");
    for length in 0..bytes.len() {
        assert_eq!(whole(&bytes[..length]), None, "{length}");
    }
    let with_more = [&bytes[..], b"x"].concat();
    assert_eq!(whole(&with_more), None);
    // Messages for the operator, records of another request, a refusal, or no answer at all.
    for (stream, request_id, status) in [
        (RecordType::Stderr, 1, ProtocolStatus::RequestComplete),
        (RecordType::Stdout, 2, ProtocolStatus::RequestComplete),
        (RecordType::Stdout, 1, ProtocolStatus::Overloaded),
        (RecordType::Data, 1, ProtocolStatus::RequestComplete),
    ] {
        let mut bytes = Vec::new();
        append_record(stream, request_id, b"Status: 200\r\n\r\n", &mut bytes);
        append_end(1, 0, status, &mut bytes);
        assert_eq!(whole(&bytes), None, "{stream:?} {request_id} {status:?}");
    }
    let mut nothing = Vec::new();
    append_end(1, 0, ProtocolStatus::RequestComplete, &mut nothing);
    assert_eq!(whole(&nothing), None);
}

proptest! {
    #[test]
    fn a_whole_answer_is_what_the_decoder_finds(
        records in vec((0u8..12, 0u16..3, vec(any::<u8>(), 0..40), 0u8..9), 0..6),
        tail in vec(any::<u8>(), 0..10),
    ) {
        let mut bytes = Vec::new();
        for (record_type, request_id, content, padding) in records {
            let mut header = Header::new(RecordType::Stdout, request_id, content.len() as u16).bytes();
            (header[1], header[6]) = (record_type, padding);
            bytes.extend_from_slice(&header);
            bytes.extend_from_slice(&content);
            bytes.extend(std::iter::repeat_n(0, usize::from(padding)));
        }
        append_end(1, 0, ProtocolStatus::RequestComplete, &mut bytes);
        bytes.extend_from_slice(&tail);
        if let Some(found) = whole(&bytes) {
            prop_assert_eq!(Some(found), answer_of_the_decoder(&bytes));
        }
    }
}
