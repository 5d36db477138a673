//! Fuzzes the beginning of a connection from a proxy: no panic, and the result does not depend on how the
//! bytes are split.
#![no_main]

use libfuzzer_sys::fuzz_target;
use touchstone_access::proxy_protocol::{LONGEST_BYTES, ProxyHeader, parse};

fuzz_target!(|bytes: &[u8]| {
    let whole = parse(bytes);
    match whole {
        Ok(ProxyHeader::Partial) => assert!(bytes.len() < LONGEST_BYTES),
        Ok(ProxyHeader::Complete { consumed, .. }) => {
            assert!(consumed <= bytes.len() && consumed <= LONGEST_BYTES);
            assert_eq!(parse(&bytes[..consumed]), whole);
            assert_eq!(parse(&bytes[..consumed - 1]), Ok(ProxyHeader::Partial));
        }
        Err(_) => assert_eq!(parse(&[bytes, b"\0"].concat()), whole),
    }
});
