//! Networks for `-ipmatch` and `-R`: an address, with a number of bits or a mask, or its first parts.

use std::net::IpAddr;

/// A network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Network {
    /// Networks of IPv4 contain no IPv6 addresses, and vice versa; an IPv4-mapped address counts as IPv4.
    is_ipv4: bool,
    address: u128,
    mask: u128,
}

impl Network {
    pub(super) fn parse(text: &[u8]) -> Result<Network, String> {
        Network::read(text)
            .ok_or_else(|| format!("{:?} is not a network such as 10.0.0.0/8", String::from_utf8_lossy(text)))
    }

    fn read(text: &[u8]) -> Option<Network> {
        let text = std::str::from_utf8(text).ok()?.trim();
        let (address, mask) = match text.split_once('/') {
            Some((address, mask)) => (address, Some(mask)),
            None => (text, None),
        };
        let Ok(ip) = address.parse::<IpAddr>() else {
            return if mask.is_none() { Network::beginning(address) } else { None };
        };
        let (is_ipv4, address, bits) = widen(ip);
        let prefix = match mask {
            None => 128,
            Some(mask) => match mask.parse::<u32>() {
                Ok(prefix) if prefix <= bits => 128 - bits + prefix,
                Ok(_) => return None,
                Err(_) => {
                    let IpAddr::V4(mask) = mask.parse().ok()? else { return None };
                    let mask = u128::from(mask.to_bits()) | !u128::from(u32::MAX);
                    return Some(Network { is_ipv4, address: address & mask, mask });
                }
            },
        };
        let mask = if prefix == 0 { 0 } else { u128::MAX << (128 - prefix) };
        // A network of mapped addresses counts as IPv4 if it contains no other addresses.
        let is_ipv4 = is_ipv4 && prefix >= 96;
        Some(Network { is_ipv4, address: address & mask, mask })
    }

    /// `10.1` or `10.1.`: every address with this beginning.
    fn beginning(text: &str) -> Option<Network> {
        let parts: Vec<&str> = text.strip_suffix('.').unwrap_or(text).split('.').collect();
        if parts.len() > 3 {
            return None;
        }
        let mut octets = [0u8; 4];
        for (octet, part) in octets.iter_mut().zip(&parts) {
            *octet = part.parse().ok()?;
        }
        let (is_ipv4, address, _) = widen(IpAddr::from(octets));
        Some(Network { is_ipv4, address, mask: u128::MAX << (32 - 8 * parts.len()) })
    }

    /// Whether the network contains the address; a text that is not an address is not contained.
    pub(super) fn contains(&self, address: &[u8]) -> bool {
        let address = std::str::from_utf8(address).ok().and_then(|text| text.trim().parse().ok());
        address.is_some_and(|address| {
            let (is_ipv4, address, _) = widen(address);
            is_ipv4 == self.is_ipv4 && address & self.mask == self.address
        })
    }
}

/// Whether an address is IPv4; its IPv6 form, in which IPv4 addresses are mapped; and the number of bits of
/// its own form.
fn widen(address: IpAddr) -> (bool, u128, u32) {
    match address {
        IpAddr::V4(address) => (true, address.to_ipv6_mapped().to_bits(), 32),
        IpAddr::V6(address) => (address.to_ipv4_mapped().is_some(), address.to_bits(), 128),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks() {
        let table = [
            ("10.0.0.0/8", "10.1.2.3", true),
            ("10.0.0.0/8", "11.1.2.3", false),
            ("10.0.0.0/8", "::ffff:10.1.2.3", true),
            ("192.168.1.7", "192.168.1.7", true),
            ("192.168.1.7", "192.168.1.8", false),
            ("192.168.0.0/255.255.0.0", "192.168.9.9", true),
            ("10.1", "10.1.200.3", true),
            ("10.1.", "10.2.200.3", false),
            ("2001:db8::/32", "2001:db8:1::1", true),
            ("2001:db8::/32", "10.1.1.1", false),
            ("0.0.0.0/0", "1.2.3.4", true),
            ("::/0", "1.2.3.4", false),
            ("::/0", "::1", true),
            ("ff::/8", "127.0.0.1", false),
            ("0.0.0.0/0", "::1", false),
            ("::ffff:10.0.0.0/104", "10.1.2.3", true),
            ("::ffff:10.0.0.0/104", "11.1.2.3", false),
            ("::ffff:0:0/80", "1.2.3.4", false),
            ("127.0.0.1", "localhost", false),
        ];
        for (network, address, expected) in table {
            let network = Network::parse(network.as_bytes()).unwrap();
            assert_eq!(network.contains(address.as_bytes()), expected, "{network:?} {address}");
        }
        for wrong in ["", "x", "10.0.0.0/33", "10.0.0.0/x", "1.2.3.4.5", "300.1", "::1/129", "10.1/8"] {
            assert!(Network::parse(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}
