//! Fuzzes the parser of the If field: what it reads has conditions, and tokens are texts without a bracket.
#![no_main]

use libfuzzer_sys::fuzz_target;
use touchstone_webdav::fuzzing::IfHeader;

fuzz_target!(|value: &[u8]| {
    let Some(header) = IfHeader::parse(value) else { return };
    assert!(!header.lists.is_empty());
    assert!(header.lists.iter().all(|list| !list.conditions.is_empty()));
    assert!(header.tokens().all(|token| !token.is_empty() && !token.contains('>')));
});
