//! Fuzzes the lines of a journal of locks and dead properties.
#![no_main]

use libfuzzer_sys::fuzz_target;
use touchstone_webdav::fuzzing::replay;

fuzz_target!(|lines: &[u8]| {
    let _ = replay(lines);
});
