//! Fuzzes what the control API reads of clients and of files: paths, bodies, tokens, the overlay.
#![no_main]

use libfuzzer_sys::fuzz_target;
use touchstone_control::read_for_fuzzing;

fuzz_target!(|bytes: &[u8]| read_for_fuzzing(bytes));
