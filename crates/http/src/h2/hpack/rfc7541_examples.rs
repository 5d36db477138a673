//! The examples of RFC 7541 appendix C.2 to C.6, byte for byte: the decoder reads them all, and the encoder,
//! given the same table, writes those with Huffman code.

use super::decoder::ListLimits;
use super::{Decoder, Encoder, FieldList, huffman};

const NO_LIMITS: ListLimits = ListLimits { bytes: usize::MAX, fields: usize::MAX };

type Fields = &'static [(&'static str, &'static str)];

/// One block: its bytes in hexadecimal, its fields, and the dynamic table after it.
struct Step {
    block: &'static str,
    fields: Fields,
    table: Fields,
    table_size: usize,
}

fn bytes(hexadecimal: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        hexadecimal.chars().filter_map(|digit| digit.to_digit(16)).map(|digit| digit as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

fn decode_series(table_bytes: u32, steps: &[Step]) {
    let mut decoder = Decoder::new();
    decoder.set_table_limit(table_bytes);
    for (number, step) in steps.iter().enumerate() {
        let mut block = bytes(step.block);
        if number == 0 && table_bytes < 4096 {
            // The examples begin with a table that was agreed on already.
            let mut encoder = Encoder::new(table_bytes);
            encoder.set_peer_limit(table_bytes);
            let mut agreed = Vec::new();
            encoder.encode_size_update(&mut agreed);
            block.splice(0..0, agreed);
        }
        let mut list = FieldList::new();
        let decoded = decoder.decode(&block, NO_LIMITS, &mut list).unwrap();
        assert!(!decoded.is_too_large);
        let text = |text: &[u8]| String::from_utf8(text.to_vec()).unwrap();
        let found: Vec<(String, String)> =
            list.fields().iter().map(|field| (text(list.name(field)), text(list.value(field)))).collect();
        let expected = |fields: Fields| -> Vec<(String, String)> {
            fields.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
        };
        assert_eq!(found, expected(step.fields), "block {number}");
        let table: Vec<(String, String)> =
            decoder.table().iter().map(|entry| (text(entry.name), text(entry.value))).collect();
        assert_eq!(table, expected(step.table), "table after block {number}");
        assert_eq!(decoder.table().size(), step.table_size, "table after block {number}");
    }
}

const REQUEST_ONE: Fields =
    &[(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "www.example.com")];
const REQUEST_TWO: Fields = &[
    (":method", "GET"),
    (":scheme", "http"),
    (":path", "/"),
    (":authority", "www.example.com"),
    ("cache-control", "no-cache"),
];
const REQUEST_THREE: Fields = &[
    (":method", "GET"),
    (":scheme", "https"),
    (":path", "/index.html"),
    (":authority", "www.example.com"),
    ("custom-key", "custom-value"),
];
const REQUEST_TABLES: [(Fields, usize); 3] = [
    (&[(":authority", "www.example.com")], 57),
    (&[("cache-control", "no-cache"), (":authority", "www.example.com")], 110),
    (
        &[("custom-key", "custom-value"), ("cache-control", "no-cache"), (":authority", "www.example.com")],
        164,
    ),
];

const COOKIE: &str = "foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1";
const RESPONSE_ONE: Fields = &[
    (":status", "302"),
    ("cache-control", "private"),
    ("date", "Mon, 21 Oct 2013 20:13:21 GMT"),
    ("location", "https://www.example.com"),
];
const RESPONSE_TWO: Fields = &[
    (":status", "307"),
    ("cache-control", "private"),
    ("date", "Mon, 21 Oct 2013 20:13:21 GMT"),
    ("location", "https://www.example.com"),
];
const RESPONSE_THREE: Fields = &[
    (":status", "200"),
    ("cache-control", "private"),
    ("date", "Mon, 21 Oct 2013 20:13:22 GMT"),
    ("location", "https://www.example.com"),
    ("content-encoding", "gzip"),
    ("set-cookie", COOKIE),
];
const RESPONSE_TABLES: [(Fields, usize); 3] = [
    (
        &[
            ("location", "https://www.example.com"),
            ("date", "Mon, 21 Oct 2013 20:13:21 GMT"),
            ("cache-control", "private"),
            (":status", "302"),
        ],
        222,
    ),
    (
        &[
            (":status", "307"),
            ("location", "https://www.example.com"),
            ("date", "Mon, 21 Oct 2013 20:13:21 GMT"),
            ("cache-control", "private"),
        ],
        222,
    ),
    (&[("set-cookie", COOKIE), ("content-encoding", "gzip"), ("date", "Mon, 21 Oct 2013 20:13:22 GMT")], 215),
];

fn steps(blocks: [&'static str; 3], fields: [Fields; 3], tables: [(Fields, usize); 3]) -> [Step; 3] {
    [0, 1, 2].map(|index| Step {
        block: blocks[index],
        fields: fields[index],
        table: tables[index].0,
        table_size: tables[index].1,
    })
}

#[test]
fn c2_literals() {
    let one = |block, fields, table, table_size| {
        decode_series(4096, &[Step { block, fields, table, table_size }]);
    };
    one(
        "400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572",
        &[("custom-key", "custom-header")],
        &[("custom-key", "custom-header")],
        55,
    );
    one("040c 2f73 616d 706c 652f 7061 7468", &[(":path", "/sample/path")], &[], 0);
    one("1008 7061 7373 776f 7264 0673 6563 7265 74", &[("password", "secret")], &[], 0);
    one("82", &[(":method", "GET")], &[], 0);
    let mut list = FieldList::new();
    let secret = bytes("1008 7061 7373 776f 7264 0673 6563 7265 74");
    Decoder::new().decode(&secret, NO_LIMITS, &mut list).unwrap();
    assert!(list.fields()[0].is_never_indexed);
}

#[test]
fn c3_requests_without_huffman_code() {
    let blocks = [
        "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
        "8286 84be 5808 6e6f 2d63 6163 6865",
        "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
    ];
    decode_series(4096, &steps(blocks, [REQUEST_ONE, REQUEST_TWO, REQUEST_THREE], REQUEST_TABLES));
}

#[test]
fn c4_requests_with_huffman_code() {
    let blocks = [
        "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
        "8286 84be 5886 a8eb 1064 9cbf",
        "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
    ];
    let fields = [REQUEST_ONE, REQUEST_TWO, REQUEST_THREE];
    decode_series(4096, &steps(blocks, fields, REQUEST_TABLES));

    let mut encoder = Encoder::new(4096);
    for (block, fields) in blocks.iter().zip(fields) {
        let mut out = Vec::new();
        encoder
            .encode_fields(fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())), &mut out);
        assert_eq!(out, bytes(block));
    }
}

#[test]
fn c5_responses_without_huffman_code() {
    let blocks = [
        "4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133
         2032 303a 3133 3a32 3120 474d 546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70
         6c65 2e63 6f6d",
        "4803 3330 37c1 c0bf",
        "88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d
         54c0 5a04 677a 6970 7738 666f 6f3d 4153 444a 4b48 514b 425a 584f 5157 454f 5049
         5541 5851 5745 4f49 553b 206d 6178 2d61 6765 3d33 3630 303b 2076 6572 7369 6f6e
         3d31",
    ];
    decode_series(256, &steps(blocks, [RESPONSE_ONE, RESPONSE_TWO, RESPONSE_THREE], RESPONSE_TABLES));
}

#[test]
fn c6_responses_with_huffman_code() {
    let blocks = [
        "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6
         2d1b ff6e 919d 29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3",
        "4883 640e ffc1 c0bf",
        "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab
         77ad 94e7 821d d7f2 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f
         9587 3160 65c0 03ed 4ee5 b106 3d50 07",
    ];
    decode_series(256, &steps(blocks, [RESPONSE_ONE, RESPONSE_TWO, RESPONSE_THREE], RESPONSE_TABLES));
}

#[test]
fn the_longest_string_of_the_examples_is_encoded_alike() {
    let mut out = Vec::new();
    huffman::encode(COOKIE.as_bytes(), &mut out);
    let expected = "94e7 821d d7f2 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f
                    9587 3160 65c0 03ed 4ee5 b106 3d50 07";
    assert_eq!(out, bytes(expected));
}
