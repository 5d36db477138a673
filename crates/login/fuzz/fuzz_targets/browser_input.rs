//! Fuzzes what a login reads of a browser and of a provider: cookies, sealed texts, callbacks, documents.
#![no_main]

use libfuzzer_sys::fuzz_target;
use touchstone_login::read_for_fuzzing;

fuzz_target!(|bytes: &[u8]| read_for_fuzzing(bytes));
