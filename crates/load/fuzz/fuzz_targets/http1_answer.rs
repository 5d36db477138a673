//! Reads any bytes as an answer of HTTP/1, whole and in pieces: the results must be equal, without a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use touchstone_load::fuzzing::http1_answer;

fuzz_target!(|input: (u8, bool, &[u8])| {
    let (piece, is_head, bytes) = input;
    http1_answer(bytes, piece.into(), is_head);
});
