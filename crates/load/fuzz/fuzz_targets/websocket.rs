//! Reads any bytes as the output of a WebSocket server, whole and in pieces: the results must be equal,
//! without a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use touchstone_load::fuzzing::websocket;

fuzz_target!(|input: (u8, bool, &[u8])| {
    let (piece, is_open, bytes) = input;
    websocket(bytes, piece.into(), is_open);
});
