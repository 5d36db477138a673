//! No text makes the reader of suites panic; what it takes can be recorded and has a mean.
#![no_main]

use libfuzzer_sys::fuzz_target;
use touchstone_lab::suite::Suite;

fuzz_target!(|text: &str| {
    if let Ok(suite) = Suite::read("fuzz.toml", text) {
        assert!(suite.first_part().workload.mean_body_bytes().is_finite());
        let _ = suite.record(false, 1);
    }
});
