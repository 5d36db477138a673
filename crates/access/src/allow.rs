//! The addresses that a site or route admits.
//!
//! The most specific network that contains the client's address decides, whether it is in `allow` or in
//! `deny`; the order of the entries has no effect. An address in no network is admitted only if `allow` is
//! empty.

use std::net::IpAddr;

use touchstone_config::{Network, NetworkMap};
use touchstone_http::request_view::is_lost;

/// The rules of one site or route.
#[derive(Debug, Clone)]
pub struct AddressRules {
    map: NetworkMap,
}

impl AddressRules {
    /// The rules; `None` if both lists are empty, which admits every address. A network in both lists is
    /// denied; the configuration reports that earlier, see its `listed_twice`.
    pub fn new(allow: &[Network], deny: &[Network]) -> Option<AddressRules> {
        if allow.is_empty() && deny.is_empty() {
            return None;
        }
        let allowed = allow.iter().map(|network| (*network, true));
        let denied = deny.iter().map(|network| (*network, false));
        Some(AddressRules { map: NetworkMap::new(allowed.chain(denied), allow.is_empty()) })
    }

    /// Whether a client is admitted. A client without a known address is refused, because no rule can apply
    /// to it. Clients of unix sockets count as a network.
    #[inline]
    pub fn allows(&self, client: Option<IpAddr>) -> bool {
        client.is_some_and(|client| !is_lost(client) && self.map.get(client))
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_networks::{address, any_address, any_network, networks};
    use super::*;
    use proptest::prelude::*;
    use touchstone_http::request_view::LOST_CLIENT;

    fn allows(allow: &[&str], deny: &[&str], client: &str) -> bool {
        AddressRules::new(&networks(allow), &networks(deny)).unwrap().allows(Some(address(client)))
    }

    #[test]
    fn an_allow_list_shuts_everybody_else_out() {
        assert!(allows(&["10.0.0.0/8"], &[], "10.1.2.3"));
        assert!(allows(&["10.0.0.0/8"], &[], "::ffff:10.1.2.3"));
        assert!(!allows(&["10.0.0.0/8"], &[], "11.1.2.3"));
        assert!(!allows(&["10.0.0.0/8"], &[], "::1"));
    }

    #[test]
    fn a_deny_list_lets_everybody_else_in() {
        assert!(!allows(&[], &["192.0.2.0/24"], "192.0.2.9"));
        assert!(!allows(&[], &["192.0.2.0/24"], "::ffff:192.0.2.9"));
        assert!(allows(&[], &["192.0.2.0/24"], "192.0.3.9"));
        assert!(allows(&[], &["192.0.2.0/24"], "::1"));
    }

    #[test]
    fn the_most_specific_network_decides() {
        let (allow, deny) = (&["10.0.0.0/8", "10.1.1.1"], &["10.1.0.0/16"]);
        assert!(allows(allow, deny, "10.2.0.1"));
        assert!(!allows(allow, deny, "10.1.0.1"));
        assert!(allows(allow, deny, "10.1.1.1"));
        assert!(!allows(allow, deny, "192.0.2.1"));
    }

    #[test]
    fn no_lists_and_no_address() {
        assert!(AddressRules::new(&[], &[]).is_none());
        assert!(!AddressRules::new(&networks(&["0.0.0.0/0"]), &[]).unwrap().allows(None));
        let denies = AddressRules::new(&[], &networks(&["10.0.0.0/8"])).unwrap();
        assert!(!denies.allows(None) && !denies.allows(Some(LOST_CLIENT)));
        assert!(!denies.allows(Some(address("::ffff:0.0.0.0"))));
    }

    #[test]
    fn clients_of_unix_sockets_are_a_network_of_their_own() {
        assert!(!allows(&["0.0.0.0/0", "::/0"], &[], "::"));
        assert!(allows(&["10.0.0.0/8", "unix:"], &[], "::"));
        assert!(allows(&[], &["10.0.0.0/8"], "::"));
        assert!(!allows(&[], &["unix:"], "::"));
    }

    proptest! {
        #[test]
        fn one_rule_for_both_forms_of_an_ipv4_address(
            allow in prop::collection::vec(any_network(), 0..6),
            deny in prop::collection::vec(any_network(), 0..6),
            client in any_address(),
        ) {
            if let (Some(rules), IpAddr::V4(v4)) =
                (AddressRules::new(&allow, &deny), client.to_canonical())
            {
                let mapped = IpAddr::V6(v4.to_ipv6_mapped());
                prop_assert_eq!(rules.allows(Some(v4.into())), rules.allows(Some(mapped)));
            }
        }

        /// Another denied address never causes a client to be admitted.
        #[test]
        fn a_longer_deny_list_lets_nobody_new_in(
            allow in prop::collection::vec(any_network(), 0..6),
            deny in prop::collection::vec(any_network(), 1..6),
            client in any_address(),
        ) {
            let more = AddressRules::new(&allow, &deny).unwrap();
            let fewer = AddressRules::new(&allow, &deny[1..]);
            if more.allows(Some(client)) {
                prop_assert!(fewer.is_none_or(|fewer| fewer.allows(Some(client))));
            }
        }
    }
}
