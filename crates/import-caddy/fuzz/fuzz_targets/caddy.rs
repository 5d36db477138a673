//! Reads any text as a Caddyfile: the importer does not panic, and no string that it writes contains a line
//! end.
#![no_main]

use libfuzzer_sys::fuzz_target;
use touchstone_import_caddy::{parse, translate};

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(directives) = parse("Caddyfile", text) else { return };
    let imported = translate(&directives);
    for line in imported.text.lines().filter(|line| !line.starts_with('#')) {
        let quotes = line.replace("\\\\", "").replace("\\\"", "").matches('"').count();
        assert!(quotes.is_multiple_of(2), "{line}");
    }
});
