//! Fuzzes the values of the fields in which proxies name the client: no panic; the fields of an untrusted
//! peer have no effect; the result is the peer's address or an untrusted one, unless every address is
//! trusted.
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
        // The rest of the proxy's own value has no effect.
        let written: &[u8] = if field == ClientField::Forwarded { b"for=192.0.2.1" } else { b"192.0.2.1" };
        let lines = values().chain([written]);
        assert_eq!(client_address(proxy, &trusted, field, lines), stranger);
    }
});
