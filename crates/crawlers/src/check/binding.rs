//! What of a client a task and a pass are bound to: coarse properties, as a hash.

use std::net::IpAddr;

use aws_lc_rs::digest::{Context, SHA256};
use touchstone_handler::request::Request;

use super::token::Binding;

/// The properties, as they are configured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Properties {
    user_agent: bool,
    accept_language: bool,
    network: bool,
}

impl Properties {
    /// Those with these names.
    pub fn named(names: &[String]) -> Properties {
        let has = |name: &str| names.iter().any(|other| other == name);
        Properties {
            user_agent: has("user-agent"),
            accept_language: has("accept-language"),
            network: has("network"),
        }
    }

    /// Their values in a request.
    pub fn of(self, request: &Request) -> Binding {
        let mut hash = Context::new(&SHA256);
        let mut add = |value: &[u8]| {
            hash.update(&(value.len() as u64).to_be_bytes());
            hash.update(value);
        };
        let field = |name: &str| request.received.values(name).next().unwrap_or_default();
        add(&[u8::from(self.user_agent), u8::from(self.accept_language), u8::from(self.network)]);
        if self.user_agent {
            add(field("user-agent"));
        }
        if self.accept_language {
            add(field("accept-language"));
        }
        if self.network {
            add(&request.client.map(|client| network_of(client.ip())).unwrap_or_default());
        }
        hash.finish().as_ref().first_chunk().copied().unwrap_or_default()
    }
}

/// The network of an address: the range that a provider assigns to one customer, or to some neighbours.
fn network_of(address: IpAddr) -> Vec<u8> {
    match address.to_canonical() {
        IpAddr::V4(address) => address.octets()[..3].to_vec(),
        IpAddr::V6(address) => address.octets()[..7].to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_have_one_network() {
        let network = |text: &str| network_of(text.parse().unwrap());
        assert_eq!(network("192.0.2.1"), network("192.0.2.254"));
        assert_eq!(network("192.0.2.1"), network("::ffff:192.0.2.9"));
        assert_ne!(network("192.0.2.1"), network("192.0.3.1"));
        assert_eq!(network("2001:db8:0:aa01::1"), network("2001:db8:0:aaff::2"));
        assert_ne!(network("2001:db8:0:aa01::1"), network("2001:db8:0:ab01::1"));
    }
}
