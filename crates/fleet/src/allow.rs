//! Where an agent may send load: rules that the administrator of its machine sets. An address that no rule
//! names is refused, loopback included; a controller cannot add rules.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

/// Addresses and ports that load may be sent to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowRule {
    network: IpAddr,
    prefix_bits: u8,
    ports: Option<(u16, u16)>,
}

/// All rules of an agent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllowList(pub Vec<AllowRule>);

impl AllowList {
    /// Whether load may be sent to this address.
    pub fn allows(&self, target: SocketAddr) -> bool {
        self.0.iter().any(|rule| rule.allows(target))
    }
}

impl AllowRule {
    fn allows(&self, target: SocketAddr) -> bool {
        let port = target.port();
        self.ports.is_none_or(|(first, last)| (first..=last).contains(&port)) && self.holds(target.ip())
    }

    fn holds(&self, address: IpAddr) -> bool {
        match (self.network, address.to_canonical()) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                let shift = 32 - u32::from(self.prefix_bits);
                (u64::from(network.to_bits()) >> shift) == (u64::from(address.to_bits()) >> shift)
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => {
                let shift = 128 - u32::from(self.prefix_bits);
                shift == 128 || network.to_bits() >> shift == address.to_bits() >> shift
            }
            _ => false,
        }
    }
}

/// `10.0.0.5` or `10.0.0.0/24`, each optionally followed by `:80` or `:8000-8100`; version 6 in brackets:
/// `[fd00::/8]:443`.
impl FromStr for AllowRule {
    type Err = String;

    fn from_str(text: &str) -> Result<AllowRule, String> {
        let wrong = || {
            format!(
                "{text:?} is not a rule: write an address or a network, such as 10.0.0.5, 10.0.0.0/24:80 or \
                 [fd00::/8]:8000-8100"
            )
        };
        let (network, ports) = match text.strip_prefix('[') {
            Some(rest) => {
                let (network, after) = rest.split_once(']').ok_or_else(wrong)?;
                match after {
                    "" => (network, None),
                    _ => (network, Some(after.strip_prefix(':').ok_or_else(wrong)?)),
                }
            }
            None => match text.split_once(':') {
                Some((network, ports)) => (network, Some(ports)),
                None => (text, None),
            },
        };
        let (address, bits) = match network.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse::<u8>().map_err(|_| wrong())?)),
            None => (network, None),
        };
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let prefix_bits = bits.unwrap_or(most);
        if prefix_bits > most || address.is_ipv6() != text.starts_with('[') {
            return Err(wrong());
        }
        let ports = match ports {
            None => None,
            Some(ports) => {
                let (first, last) = ports.split_once('-').unwrap_or((ports, ports));
                let range: (u16, u16) = first.parse().ok().zip(last.parse().ok()).ok_or_else(wrong)?;
                if range.0 > range.1 {
                    return Err(wrong());
                }
                Some(range)
            }
        };
        Ok(AllowRule { network: address, prefix_bits, ports })
    }
}

impl fmt::Display for AllowRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (open, close) = if self.network.is_ipv6() { ("[", "]") } else { ("", "") };
        write!(f, "{open}{}/{}{close}", self.network, self.prefix_bits)?;
        match self.ports {
            None => Ok(()),
            Some((first, last)) if first == last => write!(f, ":{first}"),
            Some((first, last)) => write!(f, ":{first}-{last}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn allows(rule: &str, target: &str) -> bool {
        AllowList(vec![rule.parse().expect(rule)]).allows(target.parse().expect(target))
    }

    #[test]
    fn only_what_a_rule_names_is_allowed() {
        assert!(!AllowList::default().allows(([127, 0, 0, 1], 80).into()));
        for (rule, inside, outside) in [
            ("10.0.0.5", "10.0.0.5:1", "10.0.0.6:1"),
            ("10.0.0.5:80", "10.0.0.5:80", "10.0.0.5:81"),
            ("10.0.0.0/24:8000-8100", "10.0.0.255:8100", "10.0.1.0:8000"),
            ("10.0.0.0/24", "[::ffff:10.0.0.9]:5", "[::1]:5"),
            ("0.0.0.0/0", "1.2.3.4:5", "[::1]:5"),
            ("[fd00::/8]:443", "[fdff::1]:443", "[fe00::1]:443"),
            ("[::/0]", "[1::]:1", "10.0.0.1:1"),
            ("[::1]", "[::1]:1", "[::2]:1"),
        ] {
            assert!(allows(rule, inside) && !allows(rule, outside), "{rule}");
        }
    }

    #[test]
    fn what_is_no_rule_is_refused() {
        for bad in [
            "",
            "host",
            "10.0.0.0/33",
            "10.0.0.1:",
            "10.0.0.1:9-3",
            "10.0.0.1:70000",
            "::1",
            "[::1",
            "[10.0.0.1]",
        ] {
            assert!(bad.parse::<AllowRule>().is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_rule_or_an_error(text: String) {
            let _ = text.parse::<AllowRule>();
        }

        #[test]
        fn a_rule_is_written_as_it_is_read(
            address: [u8; 4],
            bits in 0u8..=32,
            ports in prop::option::of((0u16..9, 9u16..20)),
        ) {
            let rule = AllowRule { network: IpAddr::from(address), prefix_bits: bits, ports };
            prop_assert_eq!(rule.to_string().parse::<AllowRule>(), Ok(rule.clone()));
            prop_assert!(rule.holds(rule.network));
        }
    }
}
