//! Any bytes as a `traceparent` and as a `tracestate`: no panic, each valid value has the form of the
//! standard, and a state that is passed on is short and is read as it was written.
#![no_main]

use libfuzzer_sys::fuzz_target;
use touchstone_http::trace_context::{TraceParent, from_fields, trace_state, write_trace_parent};

fn state(bytes: &[u8]) -> Vec<u8> {
    trace_state([(&b"tracestate"[..], bytes)].into_iter())
}

fuzz_target!(|bytes: &[u8]| {
    let passed_on = state(bytes);
    assert!(passed_on.len() <= 512 && state(&passed_on) == passed_on);
    let Some(trace) = TraceParent::parse(bytes) else { return };
    assert!(bytes.starts_with(trace.text()) && trace.text().len() == 55);
    assert!(trace.trace_id().iter().chain(trace.parent_id()).all(u8::is_ascii_hexdigit));
    assert!(TraceParent::parse(trace.text()).is_some() || !bytes.starts_with(b"00"));
    let written = write_trace_parent(trace.trace_id_bytes(), trace.parent_id_bytes(), 0);
    assert_eq!(written[3..52], trace.text()[3..52]);
    let fields = [(&b"traceparent"[..], bytes)];
    assert_eq!(from_fields(fields.into_iter()), Some(trace));
});
