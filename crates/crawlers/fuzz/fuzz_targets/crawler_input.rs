//! Fuzzes what the rules on crawlers read of clients and of directories of bots.
#![no_main]

use libfuzzer_sys::fuzz_target;
use touchstone_crawlers::read_for_fuzzing;

fuzz_target!(|bytes: &[u8]| read_for_fuzzing(bytes));
