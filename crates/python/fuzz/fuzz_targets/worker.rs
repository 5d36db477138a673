//! Any bytes as the output of a worker, of a core, or of a WebSocket client: no panic.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| touchstone_python::read_anything(bytes));
