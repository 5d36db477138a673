//! Parses any bytes as a file of machine code: no panic, and a parsed header is written back unchanged.
#![no_main]

#[path = "../../src/header.rs"]
mod header;

use header::{Header, sha256};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|file: &[u8]| {
    if let Some((header, code)) = Header::read(file) {
        assert_eq!([&header.write()[..], code].concat(), file);
        assert_eq!(header.code, sha256(code));
    }
    // The bytes as machine code with a matching header.
    let header =
        Header { engine: [0; 32], component: [1; 32], code: sha256(file), code_bytes: file.len() as u64 };
    let whole = [&header.write()[..], file].concat();
    assert_eq!(Header::read(&whole), Some((header, file)));
});
