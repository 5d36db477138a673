//! Fuzzes the readers of session files: no text causes a panic, and every imported request can be sent.
#![no_main]

use libfuzzer_sys::fuzz_target;
use touchstone_session_import::{jmeter, k6, openapi, postman};

fuzz_target!(|text: &str| {
    let read = [postman::read(text), openapi::read(text), jmeter::read(text), k6::read(text)];
    for draft in read.into_iter().flatten() {
        for request in draft.sessions.iter().flat_map(|session| &session.requests) {
            assert!(request.path.bytes().all(|byte| byte.is_ascii_graphic()), "{}", request.path);
        }
        let _ = draft.text("a file");
    }
});
