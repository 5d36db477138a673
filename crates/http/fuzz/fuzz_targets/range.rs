//! Any bytes as a Range field, and as the condition fields: no panic; the ranges lie in the representation,
//! do not overlap, and are at most as many as allowed.
//!
//! The first eight bytes of the input are the length of the representation.
#![no_main]

use libfuzzer_sys::fuzz_target;
use touchstone_http::conditional::{Conditions, Validators, evaluate, if_range_holds};
use touchstone_http::range::{MultipartByteRanges, Ranges, parse};

const MAX_RANGES: usize = 16;

fn check_ranges(value: &[u8], complete_length: u64) {
    let Ranges::Satisfiable(ranges) = parse(value, complete_length, MAX_RANGES) else { return };
    assert!(!ranges.is_empty() && ranges.len() <= MAX_RANGES);
    let mut sorted = ranges.clone();
    sorted.sort_by_key(|range| range.first);
    assert!(sorted.iter().all(|range| range.first <= range.last && range.last < complete_length));
    assert!(sorted.windows(2).all(|pair| pair[0].last + 1 < pair[1].first));

    if complete_length <= 1 << 40 {
        let multipart = MultipartByteRanges {
            content_type: b"text/plain",
            complete_length,
            ranges: &ranges,
            boundary: b"limit",
        };
        let mut framing = Vec::new();
        for index in 0..ranges.len() {
            multipart.append_part_head(index, &mut framing);
        }
        multipart.append_closing(&mut framing);
        let data: u64 = ranges.iter().map(|range| range.len()).sum();
        assert_eq!(multipart.content_length(), framing.len() as u64 + data);
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Some((length, value)) = bytes.split_first_chunk::<8>() else { return };
    let complete_length = u64::from_le_bytes(*length);
    check_ranges(value, complete_length);
    check_ranges(value, complete_length & 0xffff);
    check_ranges(&[b"bytes=", value].concat(), complete_length & 0xffff);

    let now = complete_length as i64;
    let validators = Validators { etag: b"\"x\"", last_modified: 784_111_777 };
    let conditions = Conditions {
        if_match: value.into(),
        if_none_match: value.into(),
        if_modified_since: value.into(),
        if_unmodified_since: value.into(),
        if_range: value.into(),
    };
    let _ = evaluate(&conditions, &validators, true, now);
    let _ = evaluate(&Conditions { if_match: None.into(), ..conditions }, &validators, true, now);
    let _ = if_range_holds(conditions.if_range, &validators, now);
});
