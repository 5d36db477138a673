//! Any pattern and any text: no panic, and a text that matches also matches without regard to case.
#![no_main]

use libfuzzer_sys::fuzz_target;
use touchstone_nsapi::pattern::Pattern;

fuzz_target!(|input: (&[u8], &[u8])| {
    let (pattern, text) = input;
    // An exclusion also matches without regard to case, and can then exclude more; such patterns are skipped.
    if let Ok(read) = Pattern::new(pattern)
        && !pattern.contains(&b'~')
        && !pattern.contains(&b'^')
    {
        assert!(!read.matches(text) || read.matches_any_case(text));
    }
});
