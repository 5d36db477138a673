//! Fuzzes lines on the control socket, of both sides: no panic, and a parsed line has the same meaning after
//! it is written again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use touchstone_lifecycle::control::{Answer, Request};

fuzz_target!(|line: &[u8]| {
    if let Ok(request) = Request::parse(line) {
        assert_eq!(Request::parse(request.to_line().as_bytes()), Ok(request));
    }
    if let Ok(answer) = Answer::parse(line) {
        assert_eq!(Answer::parse(answer.to_line().as_bytes()), Ok(answer));
    }
});
