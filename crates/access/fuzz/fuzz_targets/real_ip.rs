//! Any values of the fields in which proxies name the client: no panic, nobody believed who is not trusted,
//! and no address that is not the peer's or an untrusted one's, except where all are trusted.
#![no_main]

use libfuzzer_sys::fuzz_target;
use touchstone_access::real_ip::client_address;
use touchstone_config::{ClientField, NetworkSet};

fuzz_target!(|bytes: &[u8]| {
    let networks = ["10.0.0.0/8", "2001:db8::/32"].map(|text| text.parse().expect("a network"));
    let trusted = NetworkSet::new(&networks);
    let [proxy, stranger] = ["10.0.0.1", "192.0.2.1"].map(|text| text.parse().expect("an address"));
    for field in [ClientField::XForwardedFor, ClientField::Forwarded, ClientField::XRealIp] {
        let values = || bytes.split(|byte| *byte == b'\n');
        assert_eq!(client_address(stranger, &trusted, field, values()), stranger);
        assert_eq!(client_address(proxy, &NetworkSet::default(), field, values()), proxy);
        // What stands to the left of the proxy's own line changes nothing.
        let written: &[u8] = if field == ClientField::Forwarded { b"for=192.0.2.1" } else { b"192.0.2.1" };
        let lines = values().chain([written]);
        assert_eq!(client_address(proxy, &trusted, field, lines), stranger);
    }
});
