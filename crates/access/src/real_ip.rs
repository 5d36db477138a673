//! The client's address according to the proxies in front of this server: `X-Forwarded-For`, `Forwarded` (RFC
//! 7239) or `X-Real-IP`.
//!
//! Each proxy appends the address from which it received the request, so an entry is only as reliable as its
//! writer. The list is read from the right as long as the writer is trusted: the connection's peer wrote the
//! last address, that address wrote the one before, and so on. The first address that is not trusted is the
//! client. Addresses further left may be inventions of the client. Elements to the left of an unreadable one
//! are ignored too.

use std::net::{IpAddr, Ipv6Addr};

use touchstone_config::{ClientField, NetworkSet};
use touchstone_http::grammar::trim_optional_white_space;

/// The client of a request from `peer`. `values` are the values of the field, in the order of the head.
pub fn client_address<'v>(
    peer: IpAddr,
    trusted: &NetworkSet,
    field: ClientField,
    values: impl Iterator<Item = &'v [u8]>,
) -> IpAddr {
    if !trusted.contains(peer) {
        return peer.to_canonical();
    }
    let mut reading = Reading { trusted, client: None, farthest_proxy: None };
    for value in values {
        match field {
            ClientField::XForwardedFor => {
                value.split(|byte| *byte == b',').for_each(|element| reading.element(node_address(element)));
            }
            ClientField::Forwarded => read_forwarded(value, &mut reading),
            // A later field with this name replaces an earlier one: the same proxy cannot have written both.
            ClientField::XRealIp => {
                reading = Reading { trusted, client: None, farthest_proxy: None };
                reading.element(node_address(value));
            }
        }
    }
    reading.client.or(reading.farthest_proxy).unwrap_or(peer).to_canonical()
}

/// Evaluates the rule "from the right" in one pass from the left: this is the result if the list ends here.
struct Reading<'t> {
    trusted: &'t NetworkSet,
    /// The last address that is not trusted.
    client: Option<IpAddr>,
    /// The first address, if all are trusted.
    farthest_proxy: Option<IpAddr>,
}

impl Reading<'_> {
    fn element(&mut self, address: Option<IpAddr>) {
        // These denote clients without an address; no proxy can receive their connections.
        match address.filter(|address| !address.is_unspecified()) {
            None => (self.client, self.farthest_proxy) = (None, None),
            Some(address) if self.trusted.contains(address) => {
                self.farthest_proxy = self.farthest_proxy.or(Some(address));
            }
            Some(address) => self.client = Some(address),
        }
    }
}

/// Parses an address as proxies write it: plain, with a port, or in brackets (RFC 7239 section 6). `None` for
/// `unknown` and hidden names.
fn node_address(element: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(trim_optional_white_space(element)).ok()?;
    if let Some(inside) = text.strip_prefix('[') {
        let (address, port) = inside.split_once(']')?;
        let is_port = port.is_empty() || port.strip_prefix(':').is_some_and(is_node_port);
        return address.parse::<Ipv6Addr>().ok().filter(|_| is_port).map(IpAddr::V6);
    }
    match text.split_once(':') {
        Some((address, port)) if !port.contains(':') => {
            address.parse().ok().map(IpAddr::V4).filter(|_| is_node_port(port))
        }
        _ => text.parse().ok(),
    }
}

/// Whether this is a port or an obfuscated port: `_` and a name.
fn is_node_port(port: &str) -> bool {
    let hidden = port.strip_prefix('_');
    let is_name_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    match hidden {
        Some(name) => !name.is_empty() && name.bytes().all(is_name_byte),
        None => (1..=5).contains(&port.len()) && port.bytes().all(|byte| byte.is_ascii_digit()),
    }
}

/// `forwarded-element *( "," forwarded-element )`, each `[ pair ] *( ";" [ pair ] )` with `token "=" value`
/// (RFC 7239 section 4).
fn read_forwarded(value: &[u8], reading: &mut Reading<'_>) {
    let mut rest = value;
    loop {
        let Some((element, behind)) = split_outside_quotes(rest, b',') else {
            // A quoted string has no end, so the end of the element is unknown.
            return reading.element(None);
        };
        reading.element(forwarded_for(element));
        match behind {
            Some(behind) => rest = behind,
            None => return,
        }
    }
}

/// The address of `for=` in one element; `None` if there is none, or more than one.
fn forwarded_for(element: &[u8]) -> Option<IpAddr> {
    let mut found = None;
    let mut rest = Some(element);
    while let Some(pairs) = rest {
        let (pair, behind) = split_outside_quotes(pairs, b';')?;
        rest = behind;
        let pair = trim_optional_white_space(pair);
        if pair.is_empty() {
            continue;
        }
        let equals = pair.iter().position(|byte| *byte == b'=')?;
        let (name, value) = (&pair[..equals], &pair[equals + 1..]);
        if !name.eq_ignore_ascii_case(b"for") {
            continue;
        }
        if found.is_some() {
            return None;
        }
        let inside = match value {
            [b'"', inside @ .., b'"'] => inside,
            _ => value,
        };
        // An address needs no backslash, so the value is not unescaped; a value with a backslash is refused.
        found = Some(node_address(inside)?);
    }
    found
}

/// Splits at the first separator outside quoted strings; `None` if a quoted string has no end.
fn split_outside_quotes(value: &[u8], separator: u8) -> Option<(&[u8], Option<&[u8]>)> {
    let mut quoted = false;
    let mut at = 0;
    while let Some(&byte) = value.get(at) {
        match byte {
            b'"' => quoted = !quoted,
            b'\\' if quoted => at += 1,
            _ if byte == separator && !quoted => return Some((&value[..at], Some(&value[at + 1..]))),
            _ => {}
        }
        at += 1;
    }
    (!quoted).then_some((value, None))
}

#[cfg(test)]
mod tests {
    use super::super::test_networks::{address, networks};
    use super::*;
    use proptest::prelude::*;

    fn trusted() -> NetworkSet {
        NetworkSet::new(&networks(&["10.0.0.0/8", "2001:db8::/32"]))
    }

    fn client(peer: &str, field: ClientField, values: &[&str]) -> String {
        let values = values.iter().map(|value| value.as_bytes());
        client_address(address(peer), &trusted(), field, values).to_string()
    }

    #[test]
    fn x_forwarded_for() {
        for (values, expected) in [
            (&["192.0.2.1"][..], "192.0.2.1"),
            (&["192.0.2.1, 10.0.0.2"], "192.0.2.1"),
            (&["6.6.6.6, 192.0.2.1, 10.0.0.2"], "192.0.2.1"),
            (&["6.6.6.6", "192.0.2.1", "10.0.0.2"], "192.0.2.1"),
            (&["10.0.0.9, 192.0.2.1"], "192.0.2.1"),
            // All addresses are proxies: the farthest one is the client.
            (&["10.0.0.3, 10.0.0.2"], "10.0.0.3"),
            (&["192.0.2.1:4711"], "192.0.2.1"),
            (&["[2001:4860::1]:4711"], "2001:4860::1"),
            (&["2001:4860::1"], "2001:4860::1"),
            (&["::ffff:192.0.2.1"], "192.0.2.1"),
            (&["192.0.2.1 ,\t2001:db8::7"], "192.0.2.1"),
            (&[], "10.0.0.1"),
            (&[""], "10.0.0.1"),
            // An unreadable element ends the search.
            (&["192.0.2.1, unknown"], "10.0.0.1"),
            (&["192.0.2.1, unknown, 10.0.0.2"], "10.0.0.2"),
            (&["unknown, 192.0.2.1"], "192.0.2.1"),
            (&["192.0.2.1, "], "10.0.0.1"),
            (&["192.0.2.1,,10.0.0.2"], "10.0.0.2"),
            (&["192.0.2.1; 10.0.0.2"], "10.0.0.1"),
            (&["192.0.2.1:x"], "10.0.0.1"),
            (&["192.0.2.1:"], "10.0.0.1"),
            (&["[::1]x"], "10.0.0.1"),
            (&["[::1"], "10.0.0.1"),
            (&["[192.0.2.1]"], "10.0.0.1"),
            (&["192.0.2.1\u{a0}"], "10.0.0.1"),
            (&["0300.0.2.1"], "10.0.0.1"),
        ] {
            assert_eq!(client("10.0.0.1", ClientField::XForwardedFor, values), expected, "{values:?}");
            assert_eq!(client("::ffff:10.0.0.1", ClientField::XForwardedFor, values), expected, "{values:?}");
        }
    }

    #[test]
    fn nobody_else_is_believed() {
        for field in [ClientField::XForwardedFor, ClientField::Forwarded, ClientField::XRealIp] {
            let values = ["10.0.0.9", "for=10.0.0.9"];
            assert_eq!(client("192.0.2.7", field, &values), "192.0.2.7");
            assert_eq!(client("::ffff:192.0.2.7", field, &values), "192.0.2.7");
        }
        let none = NetworkSet::default();
        let values = [&b"10.0.0.9"[..]].into_iter();
        let peer = address("10.0.0.1");
        assert_eq!(client_address(peer, &none, ClientField::XForwardedFor, values), peer);
    }

    #[test]
    fn forwarded() {
        for (values, expected) in [
            (&["for=192.0.2.1"][..], "192.0.2.1"),
            (&["For=\"192.0.2.1:4711\";proto=https;by=10.0.0.1"], "192.0.2.1"),
            (&["for=\"[2001:4860::1]:4711\""], "2001:4860::1"),
            (&["for=\"[2001:4860::1]:_hidden\""], "2001:4860::1"),
            (&["for=6.6.6.6, for=192.0.2.1;host=\"a,b;for=1.1.1.1\", for=10.0.0.2"], "192.0.2.1"),
            (&["for=6.6.6.6", "proto=http;for=192.0.2.1", "for=10.0.0.2"], "192.0.2.1"),
            (&["host=\"a\\\",for=1.1.1.1\";for=192.0.2.1"], "192.0.2.1"),
            (&[";for=192.0.2.1;"], "192.0.2.1"),
            (&["for=192.0.2.1, for=unknown"], "10.0.0.1"),
            (&["for=192.0.2.1, for=_hidden, for=10.0.0.2"], "10.0.0.2"),
            (&["for=192.0.2.1, proto=http"], "10.0.0.1"),
            (&["for=192.0.2.1;for=192.0.2.2"], "10.0.0.1"),
            (&["for=192.0.2.1, for=\"10.0.0.2"], "10.0.0.1"),
            (&["for=\"192.0.2.1"], "10.0.0.1"),
            (&["for = 192.0.2.1"], "10.0.0.1"),
            (&["for"], "10.0.0.1"),
            (&[""], "10.0.0.1"),
            (&["for=\"\""], "10.0.0.1"),
            (&["for=\""], "10.0.0.1"),
            (&["for=2001:4860::1"], "2001:4860::1"),
        ] {
            assert_eq!(client("10.0.0.1", ClientField::Forwarded, values), expected, "{values:?}");
        }
    }

    #[test]
    fn x_real_ip() {
        for (values, expected) in [
            (&["192.0.2.1"][..], "192.0.2.1"),
            (&["6.6.6.6", "192.0.2.1"], "192.0.2.1"),
            (&["6.6.6.6", ""], "10.0.0.1"),
            (&["6.6.6.6, 192.0.2.1"], "10.0.0.1"),
            (&[], "10.0.0.1"),
        ] {
            assert_eq!(client("10.0.0.1", ClientField::XRealIp, values), expected, "{values:?}");
        }
    }

    /// The rule in its direct form: from the right, while the writer is trusted.
    fn plain(peer: IpAddr, elements: &[Option<IpAddr>]) -> IpAddr {
        let mut client = peer;
        for element in elements.iter().rev() {
            let Some(next) = element.filter(|_| trusted().contains(client)) else { break };
            client = next;
        }
        client
    }

    fn element() -> impl Strategy<Value = (String, Option<IpAddr>)> {
        let good =
            prop::sample::select(vec!["10.0.0.2", "10.0.0.3", "192.0.2.1", "192.0.2.2", "2001:db8::1"]);
        prop_oneof![
            4 => good.prop_map(|text| (text.to_string(), Some(address(text)))),
            1 => "unknown|_x||[0-9.]{0,3}".prop_map(|text| (text, None)),
        ]
    }

    proptest! {
        #[test]
        fn it_is_the_right_most_untrusted(
            lines in prop::collection::vec(prop::collection::vec(element(), 1..5), 0..4),
            peer in prop::sample::select(vec!["10.0.0.1", "192.0.2.9"]),
        ) {
            let elements: Vec<Option<IpAddr>> = lines.iter().flatten().map(|(_, address)| *address).collect();
            let expected = plain(address(peer), &elements);
            for field in [ClientField::XForwardedFor, ClientField::Forwarded] {
                let write = |(text, _): &(String, Option<IpAddr>)| match field {
                    ClientField::Forwarded => format!("proto=\"a,b\";for={text}"),
                    _ => text.clone(),
                };
                let lines: Vec<String> = lines
                    .iter()
                    .map(|line| line.iter().map(write).collect::<Vec<_>>().join(", "))
                    .collect();
                let values = lines.iter().map(String::as_bytes);
                prop_assert_eq!(client_address(address(peer), &trusted(), field, values), expected);
            }
        }

        /// Entries that the client adds at the front have no effect, if a comma or a line separates them.
        #[test]
        fn a_client_cannot_choose_its_address(made_up in "[ -~]{0,40}") {
            for (field, written) in
                [(ClientField::XForwardedFor, "192.0.2.1"), (ClientField::Forwarded, "for=192.0.2.1")]
            {
                let lines = [made_up.as_bytes(), written.as_bytes()];
                let client = client_address(address("10.0.0.1"), &trusted(), field, lines.into_iter());
                prop_assert_eq!(client, address("192.0.2.1"));
            }
        }

        #[test]
        fn no_bytes_panic(lines in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 0..3)) {
            for field in [ClientField::XForwardedFor, ClientField::Forwarded, ClientField::XRealIp] {
                client_address(address("10.0.0.1"), &trusted(), field, lines.iter().map(Vec::as_slice));
            }
        }
    }
}
