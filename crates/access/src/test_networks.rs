//! Addresses and networks for the tests of this module.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;
use touchstone_config::Network;

pub fn networks(texts: &[&str]) -> Vec<Network> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

pub fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// Addresses that differ in few bits, so that they are in the networks of [`any_network`].
pub fn any_address() -> impl Strategy<Value = IpAddr> {
    let near = |bits: u8| (bits & 3) << 6 | bits & 3;
    prop_oneof![
        any::<[u8; 4]>().prop_map(move |bytes| IpAddr::V4(Ipv4Addr::from(bytes.map(near)))),
        any::<[u8; 16]>().prop_map(move |bytes| IpAddr::V6(Ipv6Addr::from(bytes.map(near)))),
        any::<[u8; 4]>().prop_map(move |bytes| IpAddr::V6(Ipv4Addr::from(bytes.map(near)).to_ipv6_mapped())),
        any::<u128>().prop_map(|bits| IpAddr::V6(bits.into())),
    ]
}

/// The networks that begin with the bits of such addresses.
pub fn any_network() -> impl Strategy<Value = Network> {
    (any_address(), 0u32..=128).prop_map(|(address, length)| {
        let (first, length) = match address.to_canonical() {
            IpAddr::V4(v4) => {
                let length = length.min(32);
                let mask = u32::MAX.checked_shl(32 - length).unwrap_or(0);
                (IpAddr::V4((v4.to_bits() & mask).into()), length)
            }
            IpAddr::V6(v6) => {
                let mask = u128::MAX.checked_shl(128 - length).unwrap_or(0);
                (IpAddr::V6((v6.to_bits() & mask).into()), length)
            }
        };
        Network::new(first, length as u8).unwrap()
    })
}
