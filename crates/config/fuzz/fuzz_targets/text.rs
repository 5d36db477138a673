//! Any text as a configuration: no panic; it is accepted or every problem has a place in the text; the routes
//! of what is accepted can be compiled.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use touchstone_config::{explain, load_text, routes::Routes};

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    // `include` would read files of this machine.
    if text.contains("include") {
        return;
    }
    let _ = explain(Some(text));
    match load_text(text, Path::new("fuzz.toml")) {
        Ok(loaded) => {
            assert!(!loaded.config.sites.is_empty());
            for site in &loaded.config.sites {
                assert!(!site.listen.is_empty());
                assert!(Routes::compile(&site.routes).is_ok());
            }
        }
        Err(problems) => {
            assert!(!problems.is_empty());
            let lines = text.lines().count().max(1);
            for problem in &problems {
                assert!(problem.line >= 1 && problem.line <= lines + 1, "{problem}");
                assert!(problem.column >= 1 && !problem.message.is_empty(), "{problem}");
            }
        }
    }
});
