//! No request makes the live page's reader of heads panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use touchstone_lab_run::live::web;

fuzz_target!(|head: &[u8]| {
    let _ = web::parse_request(head);
});
