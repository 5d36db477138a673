//! No line of raw data, and no histogram in it, makes the reader panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use touchstone_lab_report::run_rules::recompute;
use touchstone_lab::raw;

fuzz_target!(|line: &[u8]| {
    if let Ok(mix) = raw::parse(line) {
        let _ = mix.latency.read();
        let _ = mix.recording.usage();
        let _ = recompute::contradictions(&[mix]);
    }
});
