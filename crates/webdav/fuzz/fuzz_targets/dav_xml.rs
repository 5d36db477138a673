//! Fuzzes the bodies of PROPFIND, PROPPATCH and LOCK: a value that is kept is read as the same value again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use touchstone_webdav::fuzzing::{lock_request, property_query, property_update};

fuzz_target!(|body: &[u8]| {
    let _ = property_query(body);
    let _ = lock_request(body);
    let Ok(changes) = property_update(body) else { return };
    for value in changes.iter().filter_map(|change| change.value.as_ref()) {
        let body = format!("<propertyupdate xmlns='DAV:'><set><prop>{value}</prop></set></propertyupdate>");
        let again = property_update(body.as_bytes()).expect("a kept value is well formed");
        assert_eq!(again.first().and_then(|change| change.value.as_ref()), Some(value));
    }
});
