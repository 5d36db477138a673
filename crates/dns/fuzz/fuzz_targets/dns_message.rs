//! Fuzzes the parser of DNS messages and the verification of their signatures: no answer of a stranger is
//! accepted.
#![no_main]

use libfuzzer_sys::fuzz_target;
use touchstone_dns::fuzzing::{parse_message, verify_answer};

fuzz_target!(|bytes: &[u8]| {
    let _ = parse_message(bytes);
    assert!(!verify_answer(bytes));
});
