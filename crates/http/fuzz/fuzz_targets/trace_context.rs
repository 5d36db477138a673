//! Any bytes as a `traceparent`: no panic, and each valid value has the form that the standard gives it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use touchstone_http::trace_context::{TraceParent, from_fields};

fuzz_target!(|bytes: &[u8]| {
    let Some(trace) = TraceParent::parse(bytes) else { return };
    assert!(bytes.starts_with(trace.text()) && trace.text().len() == 55);
    assert!(trace.trace_id().iter().chain(trace.parent_id()).all(u8::is_ascii_hexdigit));
    assert!(TraceParent::parse(trace.text()).is_some() || !bytes.starts_with(b"00"));
    let fields = [(&b"traceparent"[..], bytes)];
    assert_eq!(from_fields(fields.into_iter()), Some(trace));
});
