//! Fuzzes tokens and key sets: no panic, and no token is accepted that no key has signed.
#![no_main]

use libfuzzer_sys::fuzz_target;
use touchstone_access::token_is_accepted;

fuzz_target!(|bytes: &[u8]| {
    let mut parts = bytes.splitn(2, |byte| *byte == b'\n');
    let (token, keys) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    assert!(!token_is_accepted(token, keys));
});
