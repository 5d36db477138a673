//! Any format string, and any request written by it: no panic, and a line that is one line.
#![no_main]

use libfuzzer_sys::fuzz_target;
use touchstone_observe::log_line::{LineFormat, LogClock, Record};

fuzz_target!(|bytes: &[u8]| {
    let split = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let (format, request) = bytes.split_at(split);
    let fields = [(&b"traceparent"[..], request), (b"accept", request)];
    let record = Record {
        client: "::1",
        request_line: request,
        target: request,
        host: Some(request),
        user: std::str::from_utf8(request).ok(),
        fields: Some(&fields),
        ..Record::default()
    };
    let own = std::str::from_utf8(format).ok().and_then(|format| LineFormat::parse(format).ok());
    for format in own.into_iter().chain([LineFormat::Common, LineFormat::Json]) {
        let mut line = Vec::new();
        format.append(&mut line, &LogClock::at(0, 0), &record);
        assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
        assert!(std::str::from_utf8(&line).is_ok() && line.ends_with(b"\n"));
    }
});
