//! Any bytes as what a server of HTTP/2 sends, whole and in pieces: the same answers, and no panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use touchstone_load::fuzzing::http2_answers;

fuzz_target!(|input: (u8, &[u8])| {
    let (piece, bytes) = input;
    http2_answers(bytes, piece.into());
});
