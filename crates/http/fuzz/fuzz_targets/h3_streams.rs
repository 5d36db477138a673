//! Any bytes as the streams of an HTTP/3 client or server: no panic, the same result however the bytes
//! are split, and within the limits. Decoded field sections can be encoded and decoded again.
//!
//! The first byte chooses the stream's kind and the size of the pieces.
#![no_main]

use libfuzzer_sys::fuzz_target;
use touchstone_http::h2::hpack::FieldList;
use touchstone_http::h3::qpack;
use touchstone_http::h3::{
    CriticalStreams, Error, Received, ReceivedResponse, RequestStream, ResponseStream, SectionLimits, Sender,
    UnidirectionalStream,
};

const LIMITS: SectionLimits = SectionLimits { bytes: 4096, fields: 50 };

type Fields = Vec<(Vec<u8>, Vec<u8>)>;

fn owned(list: &FieldList) -> Fields {
    list.fields().iter().map(|field| (list.name(field).to_vec(), list.value(field).to_vec())).collect()
}

/// The output of a request stream: heads and trailers as fields, and the body.
fn read_request(bytes: &[u8], piece_bytes: usize) -> Result<(Vec<Fields>, Vec<u8>), Error> {
    let mut stream = RequestStream::new(LIMITS);
    let mut list = FieldList::new();
    let (mut sections, mut body) = (Vec::new(), Vec::new());
    for piece in bytes.chunks(piece_bytes) {
        let mut rest = piece;
        loop {
            let (taken, received) = stream.receive(rest, &mut list)?;
            match received {
                Received::Nothing => break,
                Received::Head(head) => {
                    let view = head.view(&list);
                    assert!(view.is_header_section_too_large() || !view.method_text().is_empty());
                    sections.push(owned(&list));
                }
                Received::Trailers => sections.push(owned(&list)),
                Received::Data(range) => body.extend_from_slice(&rest[range]),
            }
            rest = &rest[taken..];
        }
    }
    stream.finish()?;
    Ok((sections, body))
}

/// The same of a response stream; a body has the declared length, or none where there may be none.
fn read_response(bytes: &[u8], piece_bytes: usize, is_head: bool) -> Result<(Vec<Fields>, Vec<u8>), Error> {
    let mut stream = ResponseStream::new(LIMITS, is_head);
    let mut list = FieldList::new();
    let (mut sections, mut body) = (Vec::new(), Vec::new());
    let mut length = None;
    for piece in bytes.chunks(piece_bytes) {
        let mut rest = piece;
        loop {
            let (taken, received) = stream.receive(rest, &mut list)?;
            match received {
                ReceivedResponse::Nothing => break,
                ReceivedResponse::Interim(head) => {
                    assert!((100..200).contains(&head.status) && head.status != 101);
                    sections.push(owned(&list));
                }
                ReceivedResponse::Head(head) => {
                    assert!((200..1000).contains(&head.status) && length.is_none());
                    let is_empty = is_head || matches!(head.status, 204 | 304);
                    length = Some(if is_empty { Some(0) } else { head.content_length });
                    sections.push(owned(&list));
                }
                ReceivedResponse::Trailers => sections.push(owned(&list)),
                ReceivedResponse::Data(range) => body.extend_from_slice(&rest[range]),
            }
            rest = &rest[taken..];
        }
    }
    stream.finish()?;
    let length = length.expect("a response that is complete has a head");
    assert!(length.is_none_or(|length| length == body.len() as u64));
    Ok((sections, body))
}

fn read_unidirectional(bytes: &[u8], piece_bytes: usize, sender: Sender) -> Result<usize, u64> {
    let (mut stream, mut streams) = (UnidirectionalStream::new(sender), CriticalStreams::default());
    let mut events = 0;
    for piece in bytes.chunks(piece_bytes) {
        stream.receive(piece, &mut streams, |_| events += 1).map_err(|error| error.code.0)?;
    }
    Ok(events)
}

fn read_section(bytes: &[u8]) {
    let mut list = FieldList::new();
    if !matches!(qpack::decode(bytes, LIMITS, &mut list), Ok(false)) {
        return;
    }
    let fields = owned(&list);
    assert!(fields.len() <= LIMITS.fields);
    // The encoder writes names in lower case, and leaves out fields of an HTTP/1 connection.
    let is_kept = |list: &FieldList| {
        list.fields().iter().all(|field| field.is_valid && !field.known.is_connection_specific())
    };
    if !is_kept(&list) {
        return;
    }
    let mut section = Vec::new();
    qpack::encode_fields(fields.iter().map(|(name, value)| (&name[..], &value[..])), &mut section);
    let mut again = FieldList::new();
    assert_eq!(qpack::decode(&section, LIMITS, &mut again), Ok(false));
    assert_eq!(owned(&again), fields);
}

fuzz_target!(|data: &[u8]| {
    let Some((&first, bytes)) = data.split_first() else { return };
    let piece_bytes = usize::from(first >> 2) + 1;
    let whole = bytes.len().max(1);
    match first & 3 {
        0 => assert_eq!(read_request(bytes, piece_bytes), read_request(bytes, whole)),
        1 => {
            for is_head in [false, true] {
                let at_once = read_response(bytes, whole, is_head);
                assert_eq!(read_response(bytes, piece_bytes, is_head), at_once);
            }
        }
        2 => {
            for sender in [Sender::Client, Sender::Server] {
                let at_once = read_unidirectional(bytes, whole, sender);
                assert_eq!(read_unidirectional(bytes, piece_bytes, sender), at_once);
            }
        }
        _ => read_section(bytes),
    }
});
