//! Networks of rules on clients, of which another server uses the first that matches. This server uses the
//! longest.

use std::collections::BTreeSet;
use std::net::IpAddr;

use crate::output::Section;
use crate::toml_text::toml_string;

/// The networks of all clients.
pub const EVERYONE: [&str; 3] = ["0.0.0.0/0", "::/0", "unix:"];

/// Rules of which the longest network has the same effect as the first rule in the original order.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct FirstMatch {
    /// The networks whose clients are admitted.
    pub allow: Vec<String>,
    /// The networks whose clients are refused.
    pub deny: Vec<String>,
    /// Whether all other clients are admitted; `None`: no rule applies to them.
    pub others: Option<bool>,
}

/// The networks of rules, each with whether it admits clients, in their order; `all` is every client.
pub fn first_match<'r>(rules: impl IntoIterator<Item = (&'r str, bool)>) -> FirstMatch {
    let mut found = FirstMatch::default();
    for (network, admits) in rules {
        if network == "all" {
            found.others = Some(admits);
            break;
        }
        // An earlier rule decides about all clients of this one.
        if !found.allow.iter().chain(&found.deny).any(|other| covers(other, network)) {
            let list = if admits { &mut found.allow } else { &mut found.deny };
            list.push(network.to_string());
        }
    }
    found
}

/// Whether all addresses of a network are in the outer one.
pub fn covers(outer: &str, inner: &str) -> bool {
    if outer == inner {
        return true;
    }
    let (Some((outer, outer_bits)), Some((inner, inner_bits))) = (parsed(outer), parsed(inner)) else {
        return false;
    };
    let shared = |one: u128, other: u128, length: u32| {
        let shift = length - outer_bits;
        outer_bits == 0 || one >> shift == other >> shift
    };
    outer_bits <= inner_bits
        && match (outer, inner) {
            (IpAddr::V4(one), IpAddr::V4(other)) => {
                shared(u32::from(one).into(), u32::from(other).into(), 32)
            }
            (IpAddr::V6(one), IpAddr::V6(other)) => shared(u128::from(one), u128::from(other), 128),
            _ => false,
        }
}

/// The address and the length of a network.
fn parsed(network: &str) -> Option<(IpAddr, u32)> {
    let (address, bits) = match network.split_once('/') {
        Some((address, bits)) => (address.parse().ok()?, bits.parse().ok()?),
        None => {
            let address: IpAddr = network.parse().ok()?;
            (address, if address.is_ipv4() { 32 } else { 128 })
        }
    };
    (bits <= if address.is_ipv4() { 32 } else { 128 }).then_some((address, bits))
}

/// A network as this server writes it: `10.1` is `10.1.0.0/16`, and `10.1.0.0/255.255.0.0` too. `None`: the
/// text is no network.
pub fn full(network: &str) -> Option<String> {
    let (address, length) = network.split_once('/').map_or((network, None), |(a, b)| (a, Some(b)));
    let parts: Vec<&str> = address.trim_end_matches('.').split('.').collect();
    let is_partial = !address.contains(':') && parts.len() < 4;
    let address = match is_partial {
        true => format!("{}{}", parts.join("."), ".0".repeat(4 - parts.len())),
        false => address.to_string(),
    };
    let length = match (length, is_partial) {
        (None, true) => Some((parts.len() * 8).to_string()),
        (Some(mask), _) if mask.contains('.') => {
            let bits = u32::from(mask.parse::<std::net::Ipv4Addr>().ok()?);
            if bits.leading_ones() != bits.count_ones() {
                return None;
            }
            Some(bits.count_ones().to_string())
        }
        (length, _) => length.map(str::to_string),
    };
    let full = match length {
        Some(length) => format!("{address}/{length}"),
        None => address,
    };
    parsed(&full).map(|_| full)
}

/// What the names of the maps of [`condition`] begin with.
const MAP_OF_NETWORK: &str = "network-";

/// The condition that the client is in this network, by a map that [`maps`] writes.
///
/// # Errors
/// The text is no network.
pub fn condition(network: &str) -> Result<String, String> {
    let full = full(network).ok_or_else(|| format!("'{network}' is not an address or a network"))?;
    // The name has what is needed to write the map: all letters and digits, and each sign as a hyphen.
    let name = match full.parse::<IpAddr>().is_ok() {
        true => full,
        false => full.replace('/', "_"),
    };
    Ok(format!("$map{{{MAP_OF_NETWORK}{}}}", name.replace(['.', ':'], "-")))
}

/// The maps of the networks that conditions in this text name.
pub fn maps(text: &str) -> Vec<Section> {
    let begin = format!("$map{{{MAP_OF_NETWORK}");
    let names: BTreeSet<&str> =
        text.split(&begin).skip(1).filter_map(|rest| rest.split_once('}').map(|(name, _)| name)).collect();
    let section = |name: &str| {
        let (address, bits) =
            name.split_once('_').map_or((name, None), |(address, bits)| (address, Some(bits)));
        let address = [".", ":"].map(|sign| address.replace('-', sign));
        let address = address.into_iter().find(|address| address.parse::<IpAddr>().is_ok())?;
        let network = bits.map_or(address.clone(), |bits| format!("{address}/{bits}"));
        let mut section = Section::new("[[map]]");
        section.note("Whether a client is in this network.");
        section.key("name", toml_string(&format!("{MAP_OF_NETWORK}{name}")));
        section.key("from", toml_string("$client"));
        section.key("networks", format!("{{ {} = \"1\" }}", toml_string(&network)));
        Some(section)
    };
    names.into_iter().filter_map(section).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn conditions_on_networks() {
        for (network, named, written) in [
            ("10.0.0.0/8", "network-10-0-0-0_8", "\"10.0.0.0/8\""),
            ("10.1", "network-10-1-0-0_16", "\"10.1.0.0/16\""),
            ("192.0.2.7", "network-192-0-2-7", "\"192.0.2.7\""),
            ("2001:db8::/32", "network-2001-db8--_32", "\"2001:db8::/32\""),
            ("::1", "network---1", "\"::1\""),
        ] {
            let condition = condition(network).unwrap();
            assert_eq!(condition, format!("$map{{{named}}}"));
            let maps = maps(&format!("when = \"not {condition} or {condition}\""));
            assert_eq!(maps.len(), 1, "{network}");
            let expected = format!("{{ {written} = \"1\" }}");
            assert!(maps[0].has_value("networks", &expected), "{network}: {maps:?}");
        }
        assert!(condition("example.org").is_err() && maps("$map{other}").is_empty());
    }

    #[test]
    fn networks_in_networks() {
        for (outer, inner, expected) in [
            ("10.0.0.0/8", "10.1.2.3", true),
            ("10.0.0.0/8", "10.1.0.0/16", true),
            ("10.1.0.0/16", "10.0.0.0/8", false),
            ("10.0.0.0/8", "11.0.0.0/16", false),
            ("0.0.0.0/0", "192.0.2.1", true),
            ("0.0.0.0/0", "::1", false),
            ("::/0", "2001:db8::/32", true),
            ("2001:db8::/32", "2001:db9::/48", false),
            ("unix:", "unix:", true),
            ("unix:", "10.0.0.1", false),
        ] {
            assert_eq!(covers(outer, inner), expected, "{outer} {inner}");
        }
    }

    #[test]
    fn the_first_rule_counts() {
        let rules =
            |text: &str| first_match(text.split_whitespace().map(|word| (&word[1..], word.starts_with('+'))));
        let found = |allow: &[&str], deny: &[&str], others| FirstMatch {
            allow: allow.iter().map(|text| (*text).to_string()).collect(),
            deny: deny.iter().map(|text| (*text).to_string()).collect(),
            others,
        };
        assert_eq!(rules("+10.0.0.0/8 -all"), found(&["10.0.0.0/8"], &[], Some(false)));
        assert_eq!(rules("-all +10.0.0.0/8"), found(&[], &[], Some(false)));
        assert_eq!(rules("-10.0.0.0/8 +10.1.0.0/16 +all"), found(&[], &["10.0.0.0/8"], Some(true)));
        assert_eq!(rules("+10.1.0.0/16 -10.0.0.0/8"), found(&["10.1.0.0/16"], &["10.0.0.0/8"], None));
    }

    #[test]
    fn networks_are_written_in_full() {
        for (text, expected) in [
            ("10.1", Some("10.1.0.0/16")),
            ("10.", Some("10.0.0.0/8")),
            ("10.1.2.3", Some("10.1.2.3")),
            ("10.1.0.0/16", Some("10.1.0.0/16")),
            ("10.1.0.0/255.255.0.0", Some("10.1.0.0/16")),
            ("10.1.0.0/255.0.255.0", None),
            ("10.1/16", Some("10.1.0.0/16")),
            ("2001:db8::/32", Some("2001:db8::/32")),
            ("::1", Some("::1")),
            ("example.org", None),
            ("localhost", None),
            ("10.1.2.3/40", None),
        ] {
            assert_eq!(full(text).as_deref(), expected, "{text}");
        }
    }

    proptest! {
        /// The longest network of the result decides as the first rule does.
        #[test]
        fn the_longest_is_the_first(
            rules in prop::collection::vec((0u8..4, 0u8..4, 6u32..32, any::<bool>()), 0..6),
            client in (0u8..4, 0u8..4, any::<u8>(), any::<u8>()),
        ) {
            let rules: Vec<(String, bool)> = rules
                .into_iter()
                .map(|(a, b, bits, admits)| {
                    let whole = u32::from_be_bytes([a, b, 0, 0]) & (u32::MAX << (32 - bits));
                    (format!("{}/{bits}", std::net::Ipv4Addr::from(whole)), admits)
                })
                .collect();
            let client = format!("{}.{}.{}.{}", client.0, client.1, client.2, client.3);
            let first = rules.iter().find(|(network, _)| covers(network, &client)).map(|(_, admits)| *admits);
            let found = first_match(rules.iter().map(|(network, admits)| (network.as_str(), *admits)));
            let longest_prefix = |list: &[String]| {
                let bits = |network: &&String| parsed(network).map(|(_, bits)| bits);
                list.iter().filter(|network| covers(network, &client)).filter_map(|n| bits(&n)).max()
            };
            let longest = match (longest_prefix(&found.allow), longest_prefix(&found.deny)) {
                (None, None) => None,
                (allow, deny) => Some(allow > deny),
            };
            prop_assert_eq!(longest, first);
        }

        #[test]
        fn no_text_makes_it_panic(text in "[0-9a-f.:/ x]{0,24}") {
            if let Some(full) = full(&text) {
                prop_assert!(covers(&full, &full));
            }
        }
    }
}
