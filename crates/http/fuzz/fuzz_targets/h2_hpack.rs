//! Any bytes as HPACK header blocks: no panic; the same fields as the decoder of the h2 crate finds; and what
//! was decoded can be encoded and decoded again.
//!
//! The input is cut into the blocks of one connection: a byte is the length of the next one.
#![no_main]

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use futures_core::Stream;
use libfuzzer_sys::fuzz_target;
use touchstone_http::h2::frame;
use touchstone_http::h2::hpack::decoder::ListLimits;
use touchstone_http::h2::hpack::{Decoder, Encoder, FieldList, KnownName};

type Fields = Vec<(Vec<u8>, Vec<u8>)>;

const LIMITS: ListLimits = ListLimits { bytes: 1 << 24, fields: 10_000 };

fn owned(list: &FieldList) -> Fields {
    list.fields().iter().map(|field| (list.name(field).to_vec(), list.value(field).to_vec())).collect()
}

/// The fields as a map would return them: names in order, the values of each in the order of arrival.
fn by_name(mut fields: Fields) -> Fields {
    fields.sort_by(|(one, _), (other, _)| one.cmp(other));
    fields
}

/// What the h2 crate decodes from the blocks, each as a `HEADERS` frame; `None` from the first that it
/// refuses.
fn decode_with_h2(blocks: &[&[u8]]) -> Vec<Option<Fields>> {
    let mut frames = Vec::new();
    for (number, block) in blocks.iter().enumerate() {
        frame::append_headers(2 * number as u32 + 1, block, true, 16_384, &mut frames);
    }
    let pipe = tokio::io::join(&frames[..], tokio::io::sink());
    let mut codec = h2::Codec::<_, bytes::Bytes>::new(pipe);
    codec.set_max_recv_header_list_size(1 << 24);
    let mut context = Context::from_waker(Waker::noop());
    let mut found = Vec::new();
    while found.len() < blocks.len() {
        let Poll::Ready(Some(Ok(h2::frame::Frame::Headers(headers)))) =
            Pin::new(&mut codec).poll_next(&mut context)
        else {
            found.resize(blocks.len(), None);
            break;
        };
        let (pseudo, map) = headers.into_parts();
        let mut fields = Fields::new();
        let mut push = |name: &[u8], value: Option<&[u8]>| {
            fields.extend(value.map(|value| (name.to_vec(), value.to_vec())));
        };
        push(b":method", pseudo.method.as_ref().map(|value| value.as_str().as_bytes()));
        push(b":scheme", pseudo.scheme.as_ref().map(|value| value.as_bytes()));
        push(b":authority", pseudo.authority.as_ref().map(|value| value.as_bytes()));
        push(b":path", pseudo.path.as_ref().map(|value| value.as_bytes()));
        push(b":protocol", pseudo.protocol.as_ref().map(|value| value.as_str().as_bytes()));
        push(b":status", pseudo.status.as_ref().map(|value| value.as_str().as_bytes()));
        map.iter().for_each(|(name, value)| push(name.as_str().as_bytes(), Some(value.as_bytes())));
        found.push(Some(by_name(fields)));
    }
    found
}

fuzz_target!(|bytes: &[u8]| {
    let mut blocks = Vec::new();
    let mut rest = bytes;
    while let Some((&length, after)) = rest.split_first() {
        let (block, after) = after.split_at(after.len().min(usize::from(length)));
        blocks.push(block);
        rest = after;
    }
    let theirs = decode_with_h2(&blocks);
    let (mut decoder, mut limited) = (Decoder::new(), Decoder::new());
    let (mut encoder, mut again) = (Encoder::new(4096), Decoder::new());
    let mut comparable = true;
    for (block, theirs) in blocks.into_iter().zip(theirs) {
        let mut list = FieldList::new();
        let decoded = decoder.decode(block, LIMITS, &mut list);
        // Limits change which fields are kept, not how a block is decoded; texts beyond them are not checked.
        let small = limited.decode(block, ListLimits { bytes: 100, fields: 2 }, &mut FieldList::new());
        if let Ok(decoded) = decoded {
            assert_eq!(small.map(|small| small.changes_table), Ok(decoded.changes_table));
        }

        // The h2 crate checks messages as well, so it may refuse more; but no message with only valid fields.
        let fields = owned(&list);
        let is_plain = list.fields().iter().all(|field| {
            field.is_valid
                && !field.known.is_connection_specific()
                && field.known != KnownName::Te
                && !list.name(field).starts_with(b":")
        });
        match (decoded, theirs) {
            (Ok(decoded), Some(theirs)) if comparable => {
                assert!(!decoded.is_too_large);
                assert_eq!(by_name(fields.clone()), theirs);
            }
            (Err(error), Some(theirs)) if comparable => panic!("{error} where h2 finds {theirs:?}"),
            (Ok(_), None) if comparable => {
                assert!(!is_plain, "h2 refuses {fields:?}");
                comparable = false;
            }
            _ => {}
        }
        if decoded.is_err() {
            return;
        }

        let is_carried = |(name, _): &(Vec<u8>, Vec<u8>)| {
            !KnownName::of(name).is_connection_specific() && !name.iter().any(u8::is_ascii_uppercase)
        };
        let carried: Fields = fields.into_iter().filter(is_carried).collect();
        let mut encoded = Vec::new();
        let pairs = carried.iter().map(|(name, value)| (name.as_slice(), value.as_slice()));
        encoder.encode_fields(pairs, &mut encoded);
        let mut list = FieldList::new();
        again.decode(&encoded, LIMITS, &mut list).expect("what was encoded can be decoded");
        assert_eq!(owned(&list), carried);
    }
});
