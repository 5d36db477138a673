//! Fuzzes the reader of key files.
#![no_main]

use libfuzzer_sys::fuzz_target;
use touchstone_dns::fuzzing::parse_key;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = parse_key(text);
    }
});
