//! No bytes of a server cause a panic of the judge, for any version of the protocol.
#![no_main]

use libfuzzer_sys::fuzz_target;
use touchstone_conformance::judge;

fuzz_target!(|bytes: &[u8]| {
    judge::read_as_each(bytes);
});
