//! Any bytes as what a worker, a core or a client of a WebSocket has written: no panic.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| touchstone_python::read_anything(bytes));
