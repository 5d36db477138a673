//! IP addresses as text, without the standard library's formatting: it is called for each request, and
//! formatting would cost more than the rest of a variable.

use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr};

use crate::decimal;

/// The longest text: an IPv6 address in full with an IPv4 address at its end.
const LONGEST_BYTES: usize = 45;

/// The text of an address. An IPv4 address that was mapped into IPv6 is written as IPv4.
#[derive(Debug, Clone, Copy)]
pub struct IpText {
    bytes: [u8; LONGEST_BYTES],
    length: usize,
}

impl IpText {
    /// Writes an address.
    pub fn of(address: IpAddr) -> IpText {
        let mut text = IpText { bytes: [0; LONGEST_BYTES], length: 0 };
        match address.to_canonical() {
            IpAddr::V4(address) => text.write_v4(address),
            IpAddr::V6(address) => {
                let mut rest = &mut text.bytes[..];
                // The buffer has room for the longest address.
                let _ = write!(rest, "{address}");
                text.length = LONGEST_BYTES - rest.len();
            }
        }
        text
    }

    fn write_v4(&mut self, address: Ipv4Addr) {
        for (index, number) in address.octets().into_iter().enumerate() {
            if index > 0 {
                self.bytes[self.length] = b'.';
                self.length += 1;
            }
            let mut digits = [0; decimal::MAX_DIGITS];
            let digits = decimal::write(number.into(), &mut digits);
            self.bytes[self.length..self.length + digits.len()].copy_from_slice(digits);
            self.length += digits.len();
        }
    }

    /// The text.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn texts_are_those_of_the_standard_library(address: IpAddr) {
            let (text, expected) = (IpText::of(address), address.to_canonical().to_string());
            prop_assert_eq!(text.as_bytes(), expected.as_bytes());
        }
    }

    #[test]
    fn mapped_addresses_and_the_longest() {
        for address in ["::ffff:192.0.2.255", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "::", "0.0.0.0"] {
            let address: IpAddr = address.parse().unwrap();
            assert_eq!(IpText::of(address).as_bytes(), address.to_canonical().to_string().as_bytes());
        }
    }
}
