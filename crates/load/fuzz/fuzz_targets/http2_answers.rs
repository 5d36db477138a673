//! Reads any bytes as the output of an HTTP/2 server, whole and in pieces: the results must be equal, without
//! a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use touchstone_load::fuzzing::http2_answers;

fuzz_target!(|input: (u8, &[u8])| {
    let (piece, bytes) = input;
    http2_answers(bytes, piece.into());
});
