//! Any bytes as a response head: no panic, a result that more input does not change, and no parts of the
//! previous head.
#![no_main]

use libfuzzer_sys::fuzz_target;
use touchstone_http::response::{Parsed, ResponseHead, ResponseLimits, body_framing, parse_response_head};

fuzz_target!(|bytes: &[u8]| {
    for bare_line_feeds in [false, true] {
        check(bytes, ResponseLimits { head_bytes: 512, fields: 12, bare_line_feeds });
    }
});

fn check(bytes: &[u8], limits: ResponseLimits) {
    let mut head = ResponseHead::with_limits(limits);
    let verdict = parse_response_head(bytes, &mut head);
    if let Ok(Parsed::Complete(length)) = verdict {
        assert!(length <= bytes.len().min(512));
        let end: &[&[u8]] = if limits.bare_line_feeds { &[b"\n\r\n", b"\n\n"] } else { &[b"\r\n\r\n"] };
        assert!(end.iter().any(|end| bytes[..length].ends_with(end)));
        assert!((100..1000).contains(&head.status));
        assert!(!(head.chunked && head.content_length.is_some()));
        assert!(head.fields().count() <= 12);
        for (name, value) in head.fields() {
            assert!(!name.is_empty());
            assert!(!value.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)));
        }
        let _ = body_framing(false, &head);
    }

    let mut pieces = head.clone();
    let mut earlier = Ok(Parsed::Partial);
    for end in 0..=bytes.len() {
        let now = parse_response_head(&bytes[..end], &mut pieces);
        if earlier != Ok(Parsed::Partial) {
            assert_eq!(now, earlier, "the verdict changed at {end}");
        }
        earlier = now;
    }
    assert_eq!(earlier, verdict);
    assert!(pieces.fields().eq(head.fields()));
    assert_eq!((pieces.status, pieces.content_length), (head.status, head.content_length));
    assert_eq!((pieces.chunked, pieces.is_persistent()), (head.chunked, head.is_persistent()));
}
