//! Any bytes as the streams of an HTTP/3 client: no panic, the same result however the bytes are split, and
//! within the limits. Decoded field sections can be encoded and decoded again.
//!
//! The first byte chooses the stream's kind and the size of the pieces.
#![no_main]

use libfuzzer_sys::fuzz_target;
use touchstone_http::h2::hpack::FieldList;
use touchstone_http::h3::qpack;
use touchstone_http::h3::{
    CriticalStreams, Error, Received, RequestStream, SectionLimits, UnidirectionalStream,
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

fn read_unidirectional(bytes: &[u8], piece_bytes: usize) -> Result<usize, u64> {
    let (mut stream, mut streams) = (UnidirectionalStream::default(), CriticalStreams::default());
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
    match first & 3 {
        0 | 1 => assert_eq!(read_request(bytes, piece_bytes), read_request(bytes, bytes.len().max(1))),
        2 => {
            let at_once = read_unidirectional(bytes, bytes.len().max(1));
            assert_eq!(read_unidirectional(bytes, piece_bytes), at_once);
        }
        _ => read_section(bytes),
    }
});
