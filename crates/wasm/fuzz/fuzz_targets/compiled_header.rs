//! Any file of machine code: no panic, and a header that is read equals the header that would be written.
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
    // The same bytes as machine code that belongs to its header.
    let header =
        Header { engine: [0; 32], component: [1; 32], code: sha256(file), code_bytes: file.len() as u64 };
    let whole = [&header.write()[..], file].concat();
    assert_eq!(Header::read(&whole), Some((header, file)));
});
