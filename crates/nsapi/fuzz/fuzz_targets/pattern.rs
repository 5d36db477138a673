//! Any pattern and any text: no panic, and what is matched without regard to case is not matched less.
#![no_main]

use libfuzzer_sys::fuzz_target;
use touchstone_nsapi::pattern::Pattern;

fuzz_target!(|input: (&[u8], &[u8])| {
    let (pattern, text) = input;
    // What is excluded may be matched without regard to case too, and then less is left.
    if let Ok(read) = Pattern::new(pattern)
        && !pattern.contains(&b'~')
        && !pattern.contains(&b'^')
    {
        assert!(!read.matches(text) || read.matches_any_case(text));
    }
});
