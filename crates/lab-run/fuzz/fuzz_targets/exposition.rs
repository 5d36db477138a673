//! No text of metrics makes the reader of exporters panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use touchstone_lab_run::monitor::exporter;

fuzz_target!(|text: &str| {
    let _ = exporter::snapshot(text, std::time::Duration::ZERO);
});
