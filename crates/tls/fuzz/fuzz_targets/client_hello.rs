//! Any first bytes of a connection, read for the name and the protocols that a client requests: no panic, a
//! valid name, and a result that more bytes do not change.
#![no_main]

use libfuzzer_sys::fuzz_target;
use touchstone_tls::{DestinationPeek, peek_destination};

fuzz_target!(|bytes: &[u8]| {
    let whole = peek_destination(bytes);
    if whole != DestinationPeek::More {
        assert_eq!(peek_destination(&[bytes, b"\x16more"].concat()), whole);
    }
    if let DestinationPeek::Whole(destination) = whole {
        if let Some(name) = destination.server_name {
            assert!(!name.is_empty() && name.len() <= 253 && !name.ends_with('.'), "{name:?}");
            let is_plain = |byte: u8| byte.is_ascii_graphic() && !byte.is_ascii_uppercase() && byte != b'"';
            assert!(name.bytes().all(is_plain), "{name:?}");
        }
        assert!(destination.protocols.iter().all(|protocol| protocol.len() <= 255));
    }
});
