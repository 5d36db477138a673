//! Any bytes as the output of Java, and as frames of another process: no panic.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| touchstone_servlet::read_anything(bytes));
