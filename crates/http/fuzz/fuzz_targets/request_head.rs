//! Any bytes as a request head: no panic, offsets within the input, and a result that more input does not
//! change.
#![no_main]

use libfuzzer_sys::fuzz_target;
use touchstone_http::request::{KnownField, Limits, Parsed, RequestHead};
use touchstone_http::target;

const LIMITS: Limits = Limits { request_line_bytes: 256, header_bytes: 512, header_fields: 12 };

fuzz_target!(|bytes: &[u8]| {
    let mut head = RequestHead::new();
    let verdict = head.parse(bytes, &LIMITS);
    if let Ok(Parsed::Complete(length)) = verdict {
        assert!(length <= bytes.len());
        assert!(bytes[..length].ends_with(b"\r\n\r\n"));
        let is_connect = head.method_span.of(bytes) == b"CONNECT";
        let is_options = head.method_span.of(bytes) == b"OPTIONS";
        let _ = target::parse_target(is_connect, is_options, head.target.of(bytes));
        for field in &head.fields {
            assert!(!field.name.of(bytes).is_empty());
            let value = field.value.of(bytes);
            assert!(!value.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)));
        }
        assert!(head.values(bytes, KnownField::Host).count() <= 1);
    }

    // A head that is used again, and gets its bytes in pieces, has the same result.
    let mut earlier = Ok(Parsed::Partial);
    for end in 0..=bytes.len() {
        let now = head.parse(&bytes[..end], &LIMITS);
        if earlier != Ok(Parsed::Partial) {
            assert_eq!(now, earlier, "the verdict changed at {end}");
        }
        earlier = now;
    }
    assert_eq!(earlier, verdict);
});
