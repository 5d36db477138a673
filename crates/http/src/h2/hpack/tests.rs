//! Tests of the HPACK decoder and encoder together, and of how each handles wrong input.

use super::decoder::ListLimits;
use super::{
    DecodedBlock, Decoder, Encoder, FieldList, HpackError, KnownName, encode_fields_block,
    encode_response_block,
};
use proptest::prelude::*;

const NO_LIMITS: ListLimits = ListLimits { bytes: usize::MAX, fields: usize::MAX };

type OwnedFields = Vec<(Vec<u8>, Vec<u8>)>;

fn borrowed(fields: &OwnedFields) -> impl Iterator<Item = (&[u8], &[u8])> {
    fields.iter().map(|(name, value)| (name.as_slice(), value.as_slice()))
}

fn owned(list: &FieldList) -> OwnedFields {
    list.fields().iter().map(|field| (list.name(field).to_vec(), list.value(field).to_vec())).collect()
}

fn decode(decoder: &mut Decoder, block: &[u8]) -> Result<OwnedFields, HpackError> {
    let mut list = FieldList::new();
    decoder.decode(block, NO_LIMITS, &mut list).map(|_| owned(&list))
}

fn pair(name: &str, value: &str) -> (Vec<u8>, Vec<u8>) {
    (name.into(), value.into())
}

#[test]
fn errors() {
    for (block, error) in [
        (&[0x80][..], HpackError::UnknownIndex),
        (&[0xbe], HpackError::UnknownIndex),
        (&[0xff], HpackError::Truncated),
        (&[0xff, 0xff, 0xff, 0xff, 0xff, 0x01], HpackError::IntegerTooLarge),
        (&[0x7e, 0x01, b'a'], HpackError::UnknownIndex),
        (&[0x0f, 0x2f, 0x01, b'a'], HpackError::UnknownIndex),
        (&[0x40], HpackError::Truncated),
        (&[0x40, 0x01], HpackError::Truncated),
        (&[0x40, 0x01, b'a'], HpackError::Truncated),
        (&[0x40, 0x01, b'a', 0x02, b'b'], HpackError::Truncated),
        (&[0x40, 0x81, 0xff, 0x00], HpackError::Huffman),
        (&[0x82, 0x20], HpackError::MisplacedSizeUpdate),
        (&[0x3f, 0xe2, 0x1f], HpackError::TableTooLarge),
        (&[0x3f], HpackError::Truncated),
    ] {
        assert_eq!(decode(&mut Decoder::new(), block), Err(error), "{block:x?}");
    }
    // Exactly the limit, several updates, and an update alone.
    assert_eq!(decode(&mut Decoder::new(), &[0x3f, 0xe1, 0x1f]), Ok(vec![]));
    assert_eq!(
        decode(&mut Decoder::new(), &[0x20, 0x3f, 0xe1, 0x1f, 0x82]),
        Ok(vec![pair(":method", "GET")])
    );
}

#[test]
fn a_smaller_table_must_be_confirmed() {
    let mut decoder = Decoder::new();
    decode(&mut decoder, &[0x40, 0x01, b'a', 0x01, b'b']).unwrap();
    decoder.set_table_limit(100);
    assert_eq!(decode(&mut decoder.clone(), &[0x82]), Err(HpackError::MissingSizeUpdate));
    assert_eq!(decode(&mut decoder.clone(), &[]), Err(HpackError::MissingSizeUpdate));
    assert_eq!(decode(&mut decoder.clone(), &[0x3f, 0x46]), Err(HpackError::TableTooLarge));
    // 100 keeps the entry, 0 does not.
    assert_eq!(decode(&mut decoder.clone(), &[0x3f, 0x45, 0xbe]), Ok(vec![pair("a", "b")]));
    assert_eq!(decode(&mut decoder, &[0x20, 0xbe]), Err(HpackError::UnknownIndex));
    // A limit that is not below the size in use needs no update.
    let mut decoder = Decoder::new();
    decoder.set_table_limit(8192);
    assert_eq!(decode(&mut decoder, &[0x82]), Ok(vec![pair(":method", "GET")]));
    decoder.set_table_limit(4096);
    assert_eq!(decode(&mut decoder, &[0x82]), Ok(vec![pair(":method", "GET")]));
}

/// RFC 7541 section 4.4: a literal may name an entry that its own insertion evicts.
#[test]
fn a_name_can_come_from_the_entry_that_it_evicts() {
    let mut decoder = Decoder::new();
    decoder.set_table_limit(40);
    let block =
        [&[0x3f, 0x09, 0x40, 0x04][..], b"long", &[0x04], b"aaaa", &[0x7e, 0x04], b"bbbb", &[0xbe]].concat();
    assert_eq!(
        decode(&mut decoder, &block),
        Ok(vec![pair("long", "aaaa"), pair("long", "bbbb"), pair("long", "bbbb")])
    );
}

#[test]
fn fields_beyond_the_limits_are_read_but_not_kept() {
    // Three insertions of 32 + 2 bytes, then a reference to the last.
    let block = [0x40, 1, b'a', 1, b'1', 0x40, 1, b'b', 1, b'2', 0x40, 1, b'c', 1, b'3', 0xbe];
    for (limits, kept) in [
        (ListLimits { bytes: 4 * 34, fields: 4 }, 4),
        (ListLimits { bytes: 4 * 34 - 1, fields: 4 }, 3),
        (ListLimits { bytes: 4 * 34, fields: 3 }, 3),
        (ListLimits { bytes: 34, fields: 4 }, 1),
        (ListLimits { bytes: 0, fields: 0 }, 0),
    ] {
        let (mut decoder, mut list) = (Decoder::new(), FieldList::new());
        let text_before = list.text_end();
        let decoded = decoder.decode(&block, limits, &mut list).unwrap();
        assert_eq!(list.text_end() - text_before, 2 * kept);
        assert_eq!(decoded, DecodedBlock { is_too_large: kept < 4, changes_table: true });
        assert_eq!(list.len(), kept);
        assert_eq!(decode(&mut decoder, &[0xbe, 0xc0]).unwrap(), [pair("c", "3"), pair("a", "1")]);
    }
}

/// A reference of one byte may stand for kilobytes. Beyond the limits only the table is read and nothing is
/// copied: the room for texts, which grows with each copy, has the size of the kept fields.
#[test]
fn what_is_beyond_the_limits_is_not_copied() {
    let mut decoder = Decoder::new();
    let long = [&[0x40, 1, b'a', 0x7f, 0x81, 0x1e][..], &[b'v'; 3968]].concat();
    let literal = [&[0x00, 1, b'b', 0x7f, 0x81, 0x1e][..], &[b'v'; 3968]].concat();
    decode(&mut decoder, &long).unwrap();
    let limits = ListLimits { bytes: 100, fields: 100 };
    let mut room_bytes = Vec::new();
    for beyond in [vec![], vec![0xbe; 60_000], literal.repeat(15)] {
        let mut list = FieldList::new();
        let block = [&[0x82, 0x00, 1, b'b', 0x7f, 0x00][..], &[b'v'; 127], &beyond].concat();
        let decoded = decoder.decode(&block, limits, &mut list).unwrap();
        assert_eq!(decoded, DecodedBlock { is_too_large: true, changes_table: false });
        assert_eq!(list.len(), 1);
        room_bytes.push(list.room_bytes());
    }
    assert_eq!(room_bytes, [room_bytes[0]; 3]);
    // Errors are found there too, but texts are not read.
    for (beyond, result) in [
        (&[0xbf][..], Err(HpackError::UnknownIndex)),
        (&[0x80], Err(HpackError::UnknownIndex)),
        (&[0x0f, 0x30, 1, b'x'], Err(HpackError::UnknownIndex)),
        (&[0x0f, 0x2f, 1, b'x'], Ok(false)),
        (&[0x00, 1, b'b', 2, b'x'], Err(HpackError::Truncated)),
        (&[0x00, 1, b'b', 0x81, 0xff], Ok(false)),
        (&[0x20], Err(HpackError::MisplacedSizeUpdate)),
        (&[0x40, 1, b'b', 0x81, 0xff], Err(HpackError::Huffman)),
        (&[0x40, 1, b'b', 1, b'x'], Ok(true)),
    ] {
        let limits = ListLimits { bytes: 0, fields: 0 };
        let decoded = decoder.clone().decode(&[&[0x82], beyond].concat(), limits, &mut FieldList::new());
        assert_eq!(decoded.map(|decoded| decoded.changes_table), result, "{beyond:x?}");
    }
}

#[test]
fn validity_follows_a_field_through_the_table() {
    let mut decoder = Decoder::new();
    let block = [
        &[0x40, 1, b'a', 2, b' ', b'x'][..], // a value with white space before it
        &[0x40, 1, b'A', 1, b'x'],           // a name in upper case
        &[0x40, 1, b'b', 1, b'x'],
        &[0xbe, 0xbf, 0xc0],    // all three again
        &[0x0f, 0x30, 1, b'y'], // the name of the second, with another value
        &[0x0f, 0x31, 1, b'y'], // the name of the first, with another value
        &[0x41, 1, b'\n'],      // a known name with a bad value
        &[0x40, 4, b'h', b'o', b's', b't', 1, b'y'],
    ]
    .concat();
    let mut list = FieldList::new();
    decoder.decode(&block, NO_LIMITS, &mut list).unwrap();
    let valid: Vec<bool> = list.fields().iter().map(|field| field.is_valid).collect();
    assert_eq!(valid, [false, false, true, true, false, false, false, true, false, true]);
    assert_eq!(list.fields().last().unwrap().known, KnownName::Host);
}

#[test]
fn a_size_update_is_written_where_the_peer_needs_it() {
    let update = |encoder: &mut Encoder| {
        let mut out = Vec::new();
        assert_eq!(encoder.is_size_update_due(), {
            let mut copy = encoder.clone();
            copy.encode_size_update(&mut out);
            !out.is_empty()
        });
        out.clear();
        encoder.encode_size_update(&mut out);
        out
    };
    let mut encoder = Encoder::new(4096);
    assert_eq!(update(&mut encoder), []);
    encoder.set_peer_limit(65_536);
    assert_eq!(update(&mut encoder), []);
    encoder.set_peer_limit(100);
    assert_eq!(update(&mut encoder), [0x3f, 0x45]);
    encoder.set_peer_limit(0);
    encoder.set_peer_limit(4096);
    assert_eq!(update(&mut encoder), [0x20, 0x3f, 0xe1, 0x1f]);
    encoder.set_peer_limit(4096);
    assert_eq!(update(&mut encoder), []);
    // An encoder that never uses a table must confirm a smaller one nevertheless, once.
    let mut encoder = Encoder::new(0);
    encoder.set_peer_limit(4095);
    assert_eq!(update(&mut encoder), [0x20]);
    encoder.set_peer_limit(0);
    assert_eq!(update(&mut encoder), []);
    encoder.set_peer_limit(4096);
    assert_eq!(update(&mut encoder), []);
    // A table that grows needs an update as well.
    let mut encoder = Encoder::new(8192);
    encoder.set_peer_limit(8192);
    assert_eq!(update(&mut encoder), [0x3f, 0xe1, 0x3f]);
}

#[test]
fn a_repeated_field_becomes_one_byte() {
    let mut encoder = Encoder::new(4096);
    let fields: Vec<(&[u8], &[u8])> = vec![(b"server", b"touchstone"), (b"content-length", b"64")];
    let mut first = Vec::new();
    encoder.encode_response(200, fields.clone(), &mut first);
    let mut second = Vec::new();
    encoder.encode_response(200, fields, &mut second);
    assert_eq!(second[..2], [0x88, 0xbe]);
    assert!(first.len() > second.len());
}

#[test]
fn secrets_are_marked_in_both_ways_of_encoding() {
    let fields: Vec<(&[u8], &[u8])> =
        vec![(b"set-cookie", b"a=b"), (b"authorization", b"Basic eDp5"), (b"proxy-authorization", b"x")];
    let mut blocks = [Vec::new(), Vec::new()];
    encode_response_block(200, fields.clone(), &mut blocks[0]);
    Encoder::new(4096).encode_response(200, fields, &mut blocks[1]);
    for block in blocks {
        let mut list = FieldList::new();
        Decoder::new().decode(&block, NO_LIMITS, &mut list).unwrap();
        assert!(list.fields()[1..].iter().all(|field| field.is_never_indexed));
    }
}

/// An attacker could guess a short cookie byte by byte; a long one is worth an entry in the table.
#[test]
fn short_cookies_are_secret() {
    for (length, is_secret) in [(19, true), (20, false)] {
        let value = vec![b'x'; length];
        let (mut block, mut list) = (Vec::new(), FieldList::new());
        Encoder::new(4096).encode_fields([(&b"cookie"[..], &value[..])], &mut block);
        Decoder::new().decode(&block, NO_LIMITS, &mut list).unwrap();
        assert_eq!(list.fields()[0].is_never_indexed, is_secret);
    }
}

#[test]
fn a_response_block_has_no_fields_of_a_connection() {
    let fields: [(&[u8], &[u8]); 4] = [
        (b"Server", b"touchstone"),
        (b"Date", b"Fri, 20 Nov 2026 12:00:00 GMT"),
        (b"Connection", b"keep-alive"),
        (b"Content-Length", b"64"),
    ];
    let expected = [
        pair(":status", "200"),
        pair("server", "touchstone"),
        pair("date", "Fri, 20 Nov 2026 12:00:00 GMT"),
        pair("content-length", "64"),
    ];
    let mut block = Vec::new();
    encode_response_block(200, fields, &mut block);
    assert_eq!(decode(&mut Decoder::new(), &block).unwrap(), expected);
    let mut without = Vec::new();
    encode_response_block(204, [], &mut without);
    assert_eq!(without, [0x89]);
}

fn any_fields() -> impl Strategy<Value = OwnedFields> {
    let name = prop_oneof![
        3 => proptest::sample::select(&KnownName::TEXTS[1..]).prop_map(|text| text.as_bytes().to_vec()),
        1 => "[a-z0-9-]{1,12}".prop_map(String::into_bytes),
        2 => "x-[ab]".prop_map(String::into_bytes),
    ];
    let value = prop_oneof![
        2 => "[a-z]{0,3}".prop_map(String::into_bytes),
        1 => proptest::collection::vec(any::<u8>(), 0..60),
        1 => proptest::sample::select(&["GET", "/", "200", "https", "gzip, deflate"][..])
            .prop_map(|text| text.as_bytes().to_vec()),
    ];
    let carried = |(name, _): &(Vec<u8>, Vec<u8>)| !KnownName::of(name).is_connection_specific();
    proptest::collection::vec((name, value).prop_filter("left out by the encoder", carried), 0..20)
}

proptest! {
    /// Whatever table sizes both sides agree on, decoding gives what was encoded.
    #[test]
    fn decodes_what_it_encodes(
        blocks in proptest::collection::vec(
            (any_fields(), proptest::option::weighted(0.3, 0u32..6000)),
            1..12,
        ),
        table_wanted in 0u32..6000,
    ) {
        let (mut encoder, mut decoder) = (Encoder::new(table_wanted), Decoder::new());
        for (fields, new_limit) in blocks {
            if let Some(limit) = new_limit {
                decoder.set_table_limit(limit);
                encoder.set_peer_limit(limit);
            }
            let mut block = Vec::new();
            encoder.encode_fields(borrowed(&fields), &mut block);
            prop_assert_eq!(decode(&mut decoder, &block).unwrap(), fields.clone());
            // A block without tables means the same anywhere in between.
            block.clear();
            encode_fields_block(borrowed(&fields), &mut block);
            prop_assert_eq!(decode(&mut decoder, &block).unwrap(), fields);
        }
    }

    #[test]
    fn never_panics(
        blocks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..60), 0..6),
    ) {
        let (mut decoder, mut list) = (Decoder::new(), FieldList::new());
        for block in blocks {
            if decoder.decode(&block, ListLimits { bytes: 200, fields: 5 }, &mut list).is_err() {
                break;
            }
            prop_assert!(decoder.table().size() <= 4096);
        }
    }

    /// A block that was cut short is an error, or the fields up to there.
    #[test]
    fn a_cut_block_never_gives_other_fields(fields in any_fields(), cut in any::<proptest::sample::Index>()) {
        let mut block = Vec::new();
        encode_fields_block(borrowed(&fields), &mut block);
        let cut = cut.index(block.len() + 1);
        match decode(&mut Decoder::new(), &block[..cut]) {
            Ok(found) => prop_assert!(fields.starts_with(&found)),
            Err(error) => prop_assert_eq!(error, HpackError::Truncated),
        }
    }
}
